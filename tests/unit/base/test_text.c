/* Views and buffers: bytes that are borrowed, and bytes that are built. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/utf8.h"

static void check_view(struct view got, const char *want, const char *about)
{
	cr_assert(view_eq(got, view_str(want)), "%s: got \"%.*s\", want \"%s\"", about,
		VIEW_ARG(got), want);
}

Test(view, a_cut_gives_what_stands_before_and_leaves_what_stands_behind)
{
	static const struct {
		const char *text, *head, *rest;
	} rows[] = {
		{ "a,b,c", "a", "b,c" },
		{ "abc", "abc", "" },
		{ ",abc", "", "abc" },
		{ "abc,", "abc", "" },
		{ ",", "", "" },
		{ "", "", "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct view rest = view_str(rows[i].text);
		struct view head = view_cut(&rest, ',');

		check_view(head, rows[i].head, rows[i].text);
		check_view(rest, rows[i].rest, rows[i].text);
	}
}

Test(view, a_cut_of_nothing_is_nothing)
{
	struct view none = { NULL, 0 };
	struct view head = view_cut(&none, ',');

	cr_assert_eq(head.n, 0);
	cr_assert_eq(none.n, 0);
}

Test(view, a_cut_of_bytes_takes_a_nul_for_a_byte)
{
	struct view rest = view_of("a\0b;c\0d", 7);
	struct view head = view_cut(&rest, ';');

	cr_assert(view_eq(head, view_of("a\0b", 3)));
	cr_assert(view_eq(rest, view_of("c\0d", 3)));
}

Test(view, trimming_takes_blanks_at_both_ends_only)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ " \t a b \r\n", "a b" },
		{ "a", "a" },
		{ " ", "" },
		{ "", "" },
		{ "\va\f", "\va\f" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		check_view(view_trim(view_str(rows[i].text)), rows[i].want, rows[i].text);
}

Test(view, a_number_is_all_digits_and_within_its_limit)
{
	static const struct {
		const char *text;
		uint64_t max;
		bool ok;
		uint64_t want;
	} rows[] = {
		{ "0", 0, true, 0 },
		{ "007", 7, true, 7 },
		{ "1", 0, false, 0 },
		{ "65535", 65535, true, 65535 },
		{ "65536", 65535, false, 0 },
		{ "18446744073709551615", UINT64_MAX, true, UINT64_MAX },
		{ "18446744073709551616", UINT64_MAX, false, 0 },
		{ "99999999999999999999999", UINT64_MAX, false, 0 },
		{ "5", 4, false, 0 },
		{ "9", 8, false, 0 },
		{ "10", 9, false, 0 },
		{ "", 9, false, 0 },
		{ "-1", 9, false, 0 },
		{ "+1", 9, false, 0 },
		{ " 1", 9, false, 0 },
		{ "1 ", 9, false, 0 },
		{ "0x1", 9, false, 0 },
		{ "1e3", 9999, false, 0 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t got = 4711;

		cr_assert_eq(view_number(view_str(rows[i].text), rows[i].max, &got),
			rows[i].ok, "\"%s\" up to %llu", rows[i].text,
			(unsigned long long)rows[i].max);
		cr_assert_eq(got, rows[i].ok ? rows[i].want : 4711, "\"%s\"", rows[i].text);
	}
}

Test(view, an_escape_is_a_percent_and_two_hexadecimal_digits)
{
	static const struct {
		struct view text;
		int want;
	} rows[] = {
		{ VIEW_INIT("%41"), 'A' },
		{ VIEW_INIT("%4aB"), 'J' },
		{ VIEW_INIT("%fF%41"), 255 },
		{ VIEW_INIT("%00"), 0 },
		{ VIEW_INIT("%4"), -1 },
		{ VIEW_INIT("%"), -1 },
		{ VIEW_INIT(""), -1 },
		{ VIEW_INIT("A%41"), -1 },
		{ VIEW_INIT("%4g"), -1 },
		{ VIEW_INIT("%g4"), -1 },
		{ VIEW_INIT("%%41"), -1 },
		{ VIEW_INIT("% 4"), -1 },
		{ VIEW_INIT("%4:"), -1 },
		{ VIEW_INIT("%@4"), -1 },
		{ VIEW_INIT("%`4"), -1 },
		{ VIEW_INIT("%4\x11"), -1 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_eq(view_escape(rows[i].text), rows[i].want, "\"%.*s\"",
			VIEW_ARG(rows[i].text));
}

Test(view, a_number_with_a_nul_behind_it_is_none)
{
	uint64_t got;

	cr_assert(!view_number(view_of("1\0", 2), 9, &got));
}

Test(view, comparing_minds_lengths_and_may_overlook_case)
{
	cr_assert(view_eq(VIEW(""), view_str(NULL)));
	cr_assert(!view_eq(VIEW("ab"), VIEW("abc")));
	cr_assert(!view_eq(VIEW("ab"), VIEW("aB")));
	cr_assert(view_eq_nocase(VIEW("Content-Type"), VIEW("content-TYPE")));
	cr_assert(!view_eq_nocase(VIEW("content-type"), VIEW("content-typ")));
	cr_assert(view_starts(VIEW("unix:/x"), VIEW("unix:")));
	cr_assert(view_starts(VIEW("x"), VIEW("")));
	cr_assert(!view_starts(VIEW("uni"), VIEW("unix:")));
}

Test(buf, text_is_appended_in_order)
{
	struct buf b = { 0 };

	buf_add_str(&b, "count=");
	buf_add_u64(&b, 0);
	buf_add_byte(&b, ' ');
	buf_add_u64(&b, UINT64_MAX);
	buf_addf(&b, " %s-%d", "x", -5);
	buf_add(&b, view_of("\0y", 2));
	cr_assert(buf_ok(&b));
	cr_assert(
		view_eq(buf_view(&b), view_of("count=0 18446744073709551615 x--5\0y", 35)));
	buf_release(&b);
}

Test(buf, growing_keeps_every_byte)
{
	struct buf b = { 0 };

	for (int i = 0; i < 100000; i++)
		buf_add_byte(&b, (char)(i % 251));
	cr_assert_eq(b.n, 100000);
	for (int i = 0; i < 100000; i++)
		cr_assert_eq(b.p[i], (char)(i % 251), "byte %d", i);
	buf_release(&b);
	cr_assert_eq(b.n, 0);
	cr_assert_null(b.p);
}

Test(buf, a_failed_addition_sticks_until_reset)
{
	struct buf b = { 0 };

	buf_add_str(&b, "kept");
	cr_assert(!buf_reserve(&b, SIZE_MAX));
	cr_assert(!buf_ok(&b));
	buf_add_str(&b, " lost");
	buf_addf(&b, "%s", " lost");
	cr_assert(view_eq(buf_view(&b), VIEW("kept")));
	cr_assert_null(buf_str(&b));
	buf_reset(&b);
	buf_add_str(&b, "new");
	cr_assert(buf_ok(&b));
	cr_assert_str_eq(buf_str(&b), "new");
	buf_release(&b);
}

Test(buf, a_size_near_the_end_of_memory_does_not_wrap)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 63,
		SIZE_MAX / 2 + 1, SIZE_MAX / 4 + 1 };

	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		struct buf b = { 0 };

		buf_add_str(&b, "x");
		cr_assert(!buf_reserve(&b, sizes[i]), "%zu bytes", sizes[i]);
		cr_assert_eq(b.n, 1);
		buf_release(&b);
	}
}

Test(buf, dropping_from_the_front_moves_the_rest)
{
	struct buf b = { 0 };

	buf_add_str(&b, "abcdef");
	buf_drop(&b, 0);
	cr_assert_str_eq(buf_str(&b), "abcdef");
	buf_drop(&b, 2);
	cr_assert_str_eq(buf_str(&b), "cdef");
	buf_drop(&b, 4);
	cr_assert_str_eq(buf_str(&b), "");
	buf_release(&b);
	buf_drop(&b, 0);
	cr_assert_eq(b.n, 0);
}

Test(buf, the_terminating_nul_is_not_counted)
{
	struct buf b = { 0 };

	cr_assert_str_eq(buf_str(&b), "");
	for (int i = 0; i < 64; i++)
		buf_add_byte(&b, 'x');
	cr_assert_eq(strlen(buf_str(&b)), 64);
	cr_assert_eq(b.n, 64);
	buf_add_byte(&b, 'y');
	cr_assert_eq(b.p[64], 'y');
	buf_release(&b);
}

Test(buf, stolen_bytes_belong_to_the_thief)
{
	struct buf b = { 0 };
	char *s;

	buf_add_str(&b, "mine");
	s = buf_steal(&b);
	cr_assert_str_eq(s, "mine");
	cr_assert_eq(b.n, 0);
	buf_add_str(&b, "next");
	cr_assert_str_eq(s, "mine");
	free(s);
	buf_release(&b);
}

Test(buf, nothing_can_be_stolen_after_a_failure)
{
	struct buf b = { 0 };

	buf_add_str(&b, "x");
	buf_reserve(&b, SIZE_MAX);
	cr_assert_null(buf_steal(&b));
	cr_assert(buf_ok(&b), "the buffer is usable again");
	buf_release(&b);
}

Test(utf8, is_told_from_other_bytes)
{
	static const struct {
		const char *text;
		bool ok;
	} rows[] = {
		{ "", true },
		{ "plain", true },
		{ "\xe8\xaf\xb7", true },
		{ "\xf0\x9f\x98\x80", true },
		{ "zur\xfc"
		  "ck",
			false },
		{ "\xc0\xaf", false },         /* overlong */
		{ "\xe0\x80\xaf", false },     /* overlong */
		{ "\xed\xa0\x80", false },     /* a surrogate */
		{ "\xf4\x90\x80\x80", false }, /* above U+10FFFF */
		{ "\xe8\xaf", false },         /* cut off */
		{ "\x80", false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_eq(utf8_valid(view_str(rows[i].text)), rows[i].ok, "row %zu", i);
}
