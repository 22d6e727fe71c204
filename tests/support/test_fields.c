/*
 * The parser of structured fields against what RFC 9651 allows and forbids: the tests
 * of weir's own fields are worth what this parser refuses.
 */
#include <criterion/criterion.h>

#include "fields.h"

/* What was parsed, written so that types show: i5 d1500 s{text} t{text} b{hex} ?1 @5
 * u{text} (inner), key=, ;parameter=. */
static void show_member(struct buf *out, const struct sf_member *m)
{
	static const char letters[] = { [SF_INTEGER] = 'i',
		[SF_DECIMAL] = 'd',
		[SF_STRING] = 's',
		[SF_TOKEN] = 't',
		[SF_BYTES] = 'b',
		[SF_BOOLEAN] = '?',
		[SF_DATE] = '@',
		[SF_DISPLAY] = 'u' };

	if (m->key.n)
		buf_addf(out, "%.*s=", VIEW_ARG(buf_view(&m->key)));
	if (m->type == SF_INNER) {
		buf_add_byte(out, '(');
		for (size_t i = 0; i < m->n_items; i++) {
			buf_add_str(out, i ? " " : "");
			show_member(out, &m->items[i]);
		}
		buf_add_byte(out, ')');
	} else {
		buf_add_byte(out, letters[m->type]);
		if (m->type == SF_BYTES) {
			for (size_t i = 0; i < m->text.n; i++)
				buf_addf(out, "%02x", (unsigned char)m->text.p[i]);
		} else if (m->type == SF_STRING || m->type == SF_TOKEN ||
			m->type == SF_DISPLAY) {
			buf_addf(out, "{%.*s}", VIEW_ARG(buf_view(&m->text)));
		} else {
			buf_addf(out, "%lld", (long long)m->number);
		}
	}
	for (size_t i = 0; i < m->params.n; i++) {
		buf_addf(out, ";%.*s=", VIEW_ARG(buf_view(&m->params.list[i].key)));
		show_member(out, &m->params.list[i].value);
	}
}

struct row {
	const char *value, *want; /* want NULL: malformed */
};

static void check_rows(enum sf_kind kind, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct sf_field f;
		struct buf shown = { 0 };
		bool ok = sf_parse(kind, view_str(rows[i].value), &f);

		cr_expect_eq(ok, rows[i].want != NULL, "<%s>: %s at %zu", rows[i].value,
			ok ? "parsed" : f.why, f.at);
		cr_expect_eq(ok, f.why == NULL);
		for (size_t m = 0; ok && m < f.n; m++) {
			buf_add_str(&shown, m ? ", " : "");
			show_member(&shown, &f.members[m]);
		}
		if (ok && rows[i].want)
			cr_expect_str_eq(buf_str(&shown), rows[i].want, "<%s>: %s",
				rows[i].value, shown.p);
		buf_release(&shown);
		sf_release(&f);
	}
}

Test(fields, numbers)
{
	static const struct row rows[] = {
		{ "0", "i0" },
		{ "-0", "i0" },
		{ "42", "i42" },
		{ "-42", "i-42" },
		{ "007", "i7" },
		{ "999999999999999", "i999999999999999" },
		{ "-999999999999999", "i-999999999999999" },
		{ "1000000000000000", NULL },
		{ "-1000000000000000", NULL },
		{ "1.5", "d1500" },
		{ "-0.005", "d-5" },
		{ "1.123", "d1123" },
		{ "123456789012.123", "d123456789012123" },
		{ "1234567890123.1", NULL },
		{ "1.1234", NULL },
		{ "1.", NULL },
		{ ".5", NULL },
		{ "-", NULL },
		{ "--1", NULL },
		{ "+1", NULL },
		{ "1.2.3", NULL },
		{ "1e3", NULL },
		{ "- 1", NULL },
		{ "0x10", NULL },
	};

	check_rows(SF_ITEM, rows, COUNT_OF(rows));
}

Test(fields, strings_and_tokens)
{
	static const struct row rows[] = {
		{ "\"\"", "s{}" },
		{ "\"a b\"", "s{a b}" },
		{ "\"a \\\"b\\\" \\\\c\"", "s{a \"b\" \\c}" },
		{ "\"semi;q=1, x\"", "s{semi;q=1, x}" },
		{ "\"~ !\"", "s{~ !}" },
		{ "\"open", NULL },
		{ "\"open\\\"", NULL },
		{ "\"a\\", NULL },
		{ "\"a\\n\"", NULL },
		{ "\"tab\there\"", NULL },
		{ "\"del\x7f\"", NULL },
		{ "\"\xc3\xbc\"", NULL },
		{ "\"a\" \"b\"", NULL },
		{ "'a'", NULL },
		{ "a", "t{a}" },
		{ "application/json", "t{application/json}" },
		{ "*foo:bar", "t{*foo:bar}" },
		{ "a!#$%&'*+-.^_`|~9", "t{a!#$%&'*+-.^_`|~9}" },
		{ "a b", NULL },
		{ "a(", NULL },
		{ "_a", NULL },
		{ "a\xc3\xbc", NULL },
	};

	check_rows(SF_ITEM, rows, COUNT_OF(rows));
}

Test(fields, bytes_booleans_dates_and_display_strings)
{
	static const struct row rows[] = {
		{ "::", "b" },
		{ ":aGVsbG8=:", "b68656c6c6f" },
		{ ":aGVsbG8:", "b68656c6c6f" },
		{ ":/+8=:", "bffef" },
		{ ":iZ==:", "b89" },
		{ ":_-8=:", NULL },
		{ ":aGVsbG8=", NULL },
		{ ":a:", NULL },
		{ ":aGVs bG8=:", NULL },
		{ ":=aGVsbG8=:", NULL },
		{ ":aGVsbG8==:", NULL },
		{ ":====:", NULL },
		{ "?1", "?1" },
		{ "?0", "?0" },
		{ "?", NULL },
		{ "?2", NULL },
		{ "?T", NULL },
		{ "?10", NULL },
		{ "@1659578233", "@1659578233" },
		{ "@-1", "@-1" },
		{ "@1.5", NULL },
		{ "@", NULL },
		{ "%\"f%c3%bc r\"", "u{f\xc3\xbc r}" },
		{ "%\"\"", "u{}" },
		{ "%\"100%25\"", "u{100%}" },
		{ "%\"%C3%BC\"", NULL },
		{ "%\"%c3\"", NULL },
		{ "%\"%ed%a0%80\"", NULL },
		{ "%\"%c\"", NULL },
		{ "%\"open", NULL },
		{ "%open\"", NULL },
		{ "%\"\xc3\xbc\"", NULL },
	};

	check_rows(SF_ITEM, rows, COUNT_OF(rows));
}

Test(fields, items_with_parameters)
{
	static const struct row rows[] = {
		{ "  5  ", "i5" },
		{ "a;q", "t{a};q=?1" },
		{ "a;q=1", "t{a};q=i1" },
		{ "a;  q=1;*b=\"x\"", "t{a};q=i1;*b=s{x}" },
		{ "a;q=1;r=2;q=3", "t{a};q=i3;r=i2" },
		{ "a;a_1-b.c*=?0", "t{a};a_1-b.c*=?0" },
		{ "a;q=", NULL },
		{ "a;", NULL },
		{ "a;Q=1", NULL },
		{ "a;1=1", NULL },
		{ "a ;q=1", NULL },
		{ "a;q =1", NULL },
		{ "a;q= 1", NULL },
		{ "a;q=(1)", NULL },
		{ "a;\tq=1", NULL },
		{ "", NULL },
		{ " ", NULL },
		{ "\t5", NULL },
		{ "5\t", NULL },
		{ "5,6", NULL },
		{ "(1 2)", NULL },
		{ "\x01", NULL },
		{ ";q=1", NULL },
	};

	check_rows(SF_ITEM, rows, COUNT_OF(rows));
}

Test(fields, lists_and_inner_lists)
{
	static const struct row rows[] = {
		{ "", "" },
		{ "   ", "" },
		{ "1", "i1" },
		{ "1,2", "i1, i2" },
		{ "1 \t, \t2", "i1, i2" },
		{ "\"user/sw60s\";q=5;w=60, \"b\";q=300",
			"s{user/sw60s};q=i5;w=i60, s{b};q=i300" },
		{ "()", "()" },
		{ "( )", "()" },
		{ "(1 2)", "(i1 i2)" },
		{ "(  1;a   \"b\"  );c=d, ()", "(i1;a=?1 s{b});c=t{d}, ()" },
		{ "1,", NULL },
		{ "1, ", NULL },
		{ ",1", NULL },
		{ "1,,2", NULL },
		{ "1 2", NULL },
		{ "1;2", NULL },
		{ "(1", NULL },
		{ "(1 ", NULL },
		{ "(", NULL },
		{ "1)", NULL },
		{ "(1,2)", NULL },
		{ "(1\t2)", NULL },
		{ "(1(2))", NULL },
		{ "((1))", NULL },
		{ "(\"a\"\"b\")", NULL },
		{ "\t1", NULL },
		{ "1\t", "i1" },
		{ "1\n", NULL },
		{ "1\r\n", NULL },
	};

	check_rows(SF_LIST, rows, COUNT_OF(rows));
}

Test(fields, dictionaries)
{
	static const struct row rows[] = {
		{ "", "" },
		{ "a=1", "a=i1" },
		{ "a", "a=?1" },
		{ "a;x=1, b=?0", "a=?1;x=i1, b=?0" },
		{ "no-store", "no-store=?1" },
		{ "a=1, b=2, a=3", "a=i3, b=i2" },
		{ "a=(1 2);x, *b=\"c\"", "a=(i1 i2);x=?1, *b=s{c}" },
		{ "a=(1 2), a", "a=?1" },
		{ "a=1,", NULL },
		{ "a=,b=1", NULL },
		{ "=1", NULL },
		{ "A=1", NULL },
		{ "a =1", NULL },
		{ "a= 1", NULL },
		{ "a=1 b=2", NULL },
		{ "a=1;", NULL },
		{ "9=1", NULL },
	};

	check_rows(SF_DICTIONARY, rows, COUNT_OF(rows));
}

Test(fields, bytes_that_are_zero_are_no_end)
{
	struct sf_field f;

	cr_assert_not(sf_parse(SF_LIST, VIEW("1\0"), &f));
	sf_release(&f);
	cr_assert_not(sf_parse(SF_ITEM, VIEW("\"a\0b\""), &f));
	sf_release(&f);
	cr_assert_not(sf_parse(SF_ITEM, VIEW("a\0"), &f));
	sf_release(&f);
}

Test(fields, members_and_parameters_are_found_by_name)
{
	struct sf_field f;

	cr_assert(sf_parse(SF_DICTIONARY, VIEW("a=tok;p=1.5, b=\"x\""), &f));
	cr_assert(sf_is_text(sf_find(&f, "a"), SF_TOKEN, "tok"));
	cr_assert(sf_is_text(sf_find(&f, "b"), SF_STRING, "x"));
	cr_assert_not(sf_is_text(sf_find(&f, "b"), SF_TOKEN, "x"));
	cr_assert(sf_is_number(sf_param(sf_find(&f, "a"), "p"), SF_DECIMAL, 1500));
	cr_assert_null(sf_find(&f, "c"));
	cr_assert_null(sf_param(sf_find(&f, "b"), "p"));
	cr_assert_not(sf_is_number(NULL, SF_INTEGER, 0));
	sf_release(&f);
}
