#include <criterion/criterion.h>

#include "config/words.h"

Test(words, a_header_field_comes_in_a_parameter)
{
	static const struct {
		const char *header, *parameter; /* NULL: no name of one */
	} rows[] = {
		{ "X-Tenant", "HTTP_X_TENANT" },
		{ "x_tenant9", "HTTP_X_TENANT9" },
		{ "Content-Type", "CONTENT_TYPE" },
		{ "content-length", "CONTENT_LENGTH" },
		{ "Content-Encoding", "HTTP_CONTENT_ENCODING" },
		{ "", NULL },
		{ "X.Tenant", NULL },
		{ "X Tenant", NULL },
		{ "X-Tenant:", NULL },
		{ "X-T\xc3\xa9", NULL },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct view header = view_str(rows[i].header);
		struct buf out = { 0 };

		cr_expect_eq(word_is_header(header), rows[i].parameter != NULL, "%s",
			rows[i].header);
		if (!rows[i].parameter)
			continue;
		word_put_parameter(header, &out);
		cr_expect_str_eq(buf_str(&out), rows[i].parameter);
		buf_release(&out);
	}
}

Test(words, a_query_parameter_has_a_name_without_what_separates)
{
	static const char *const good[] = { "id", "items[]", "a.b-c_d", "{x}", "$" };
	static const char *const bad[] = { "", "a b", "a&b", "a;b", "a#b", "a?b", "a=b",
		"a%20", "a+b", "\xc3\xa9", "a\x7f" };

	for (size_t i = 0; i < COUNT_OF(good); i++)
		cr_expect(word_is_query_name(view_str(good[i])), "%s", good[i]);
	for (size_t i = 0; i < COUNT_OF(bad); i++)
		cr_expect_not(word_is_query_name(view_str(bad[i])), "%s", bad[i]);
}
