#include <criterion/criterion.h>
#include <stdlib.h>

#include "proxy/arguments.h"

/* The words behind the path, each in brackets. */
static char *words(enum program_argv how, const char *method, struct view query)
{
	char **argv = arguments_build("/srv/a.cgi", how, view_str(method), query);
	struct buf b = { 0 };

	cr_assert(argv);
	cr_expect_str_eq(argv[0], "/srv/a.cgi");
	for (size_t i = 1; argv[i]; i++)
		buf_addf(&b, "[%s]", argv[i]);
	free(argv);
	buf_add_byte(&b, '\0');
	return buf_steal(&b);
}

Test(arguments, are_made_of_a_query_only_where_that_is_wanted_and_safe)
{
	static const struct {
		enum program_argv how;
		const char *method;
		struct view query;
		const char *want;
	} rows[] = {
		{ ARGV_NONE, "GET", VIEW("a+b"), "" },
		{ ARGV_NONE, "GET", VIEW("-s"), "" },
		{ ARGV_NONE, "GET", VIEW("%ADd+allow_url_include"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("a+b"), "[a][b]" },
		{ ARGV_ISINDEX, "HEAD", VIEW("one%20word%2B"), "[one word+]" },
		{ ARGV_ISINDEX, "GET", VIEW("a%3Db"), "[a=b]" },
		{ ARGV_ISINDEX, "GET", VIEW("%2b%2B"), "[++]" },
		{ ARGV_ISINDEX, "POST", VIEW("a+b"), "" },
		{ ARGV_ISINDEX, "get", VIEW("a+b"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("a=b"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("a+b=c"), "" },
		/* Never an empty argument. */
		{ ARGV_ISINDEX, "GET", VIEW(""), "" },
		{ ARGV_ISINDEX, "GET", VIEW("+"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("a+"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("a++b"), "" },
		/* Nor half of one. */
		{ ARGV_ISINDEX, "GET", VIEW("a+%"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("a+%2"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("%zz+a"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("a+b%00c"), "" },
		{ ARGV_ISINDEX, "GET", VIEW("a\0b"), "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		char *got = words(rows[i].how, rows[i].method, rows[i].query);

		cr_expect_str_eq(got, rows[i].want, "row %zu: %s", i, got);
		free(got);
	}
}

Test(arguments, too_many_words_give_none)
{
	char query[2 * ARGUMENTS_MAX + 1], *got;

	for (size_t i = 0; i < sizeof(query); i++)
		query[i] = i % 2 ? '+' : 'a';
	got = words(ARGV_ISINDEX, "GET", view_of(query, sizeof(query)));
	cr_expect_str_eq(got, "");
	free(got);
	got = words(ARGV_ISINDEX, "GET", view_of(query, sizeof(query) - 2));
	cr_expect_eq(strlen(got), 3 * ARGUMENTS_MAX);
	free(got);
}
