#include <criterion/criterion.h>

#include "client/name.h"

Test(name, two_different_names_never_become_one)
{
	static char long_a[300], long_b[300], longest[255];
	const struct {
		struct view name;
		const char *text; /* NULL: hashed */
	} rows[] = {
		{ VIEW("alice"), "alice" },
		{ VIEW(""), "" },
		{ VIEW("Ä ö/:{}%"), "Ä ö/:{}%" },
		{ VIEW("sha256"), "sha256" },
		{ view_of(longest, 255), longest },
		{ view_of(long_a, 256), NULL },
		{ view_of(long_a, 300), NULL },
		{ view_of(long_b, 300), NULL },
		{ VIEW("alice\0"), NULL },
		{ VIEW("alice\0x"), NULL },
		{ VIEW("\0"), NULL },
		{ VIEW("sha256/"), NULL },
		/* What "alice\0x" becomes, as somebody's name. */
		{ VIEW("sha256/"
		       "0000000000000000000000000000000000000000000000000000000000000000"),
			NULL },
	};
	char out[COUNT_OF(rows)][CLIENT_NAME_MAX];
	static char longest_text[256];

	memset(long_a, 'a', sizeof(long_a));
	memset(long_b, 'a', sizeof(long_b));
	long_b[299] = 'b';
	memset(longest, 'a', sizeof(longest));
	memset(longest_text, 'a', 255);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		name_put(out[i], rows[i].name);
		if (rows[i].text == longest)
			cr_expect_str_eq(out[i], longest_text);
		else if (rows[i].text)
			cr_expect_str_eq(out[i], rows[i].text, "row %zu", i);
		else
			cr_expect(strlen(out[i]) == 71 && !strncmp(out[i], "sha256/", 7),
				"row %zu: %s", i, out[i]);
		for (size_t j = 0; j < i; j++)
			cr_expect_str_neq(out[i], out[j], "rows %zu and %zu", i, j);
	}
	/* Nor is a name what another one was made into. */
	name_put(out[0], view_str(out[6]));
	cr_expect_str_neq(out[0], out[6]);
}
