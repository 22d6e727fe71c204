/* Name-value pairs: lengths that lie, and where the records towards a backend are cut. */
#include <criterion/criterion.h>

#include "fastcgi/pairs.h"

/* Reads pairs as "name=value;"; '!' where they are malformed. */
static void read_pairs(struct view in, struct buf *out)
{
	struct pair pair;

	for (;;) {
		switch (pairs_next(&in, &pair)) {
		case PAIRS_END: return;
		case PAIRS_BAD: buf_add_byte(out, '!'); return;
		case PAIRS_PAIR:
			buf_add(out, pair.name);
			buf_add_byte(out, '=');
			buf_add(out, pair.value);
			buf_add_byte(out, ';');
		}
	}
}

Test(pairs, lengths_that_do_not_fit_are_refused)
{
	static const struct {
		struct view bytes;
		const char *want;
	} rows[] = {
		{ VIEW(""), "" },
		{ VIEW("\1\1ab"), "a=b;" },
		{ VIEW("\0\0"), "=;" },
		{ VIEW("\1\0a\0\1b"), "a=;=b;" },
		{ VIEW("\3\2abcde\1\1xy"), "abc=de;x=y;" },
		/* Four bytes may hold what one could. */
		{ VIEW("\200\0\0\1\200\0\0\1ab"), "a=b;" },
		{ VIEW("\1\200\0\0\1ab"), "a=b;" },
		{ VIEW("\200\0\0\0\200\0\0\0"), "=;" },
		/* Cut off at every place. */
		{ VIEW("\1"), "!" },
		{ VIEW("\1\1"), "!" },
		{ VIEW("\1\1a"), "!" },
		{ VIEW("\200"), "!" },
		{ VIEW("\200\0\0"), "!" },
		{ VIEW("\200\0\0\1"), "!" },
		{ VIEW("\1\200\0\0"), "!" },
		{ VIEW("\1\200\0\0\1a"), "!" },
		/* Off by one. */
		{ VIEW("\2\1ab"), "!" },
		{ VIEW("\1\2ab"), "!" },
		{ VIEW("\1\1ab\1\1c"), "a=b;!" },
		/* A name or a value that claims the rest of the address space. */
		{ VIEW("\377\377\377\377\0ab"), "!" },
		{ VIEW("\0\377\377\377\377ab"), "!" },
		{ VIEW("\377\377\377\377\377\377\377\377ab"), "!" },
		/* Sums that wrap in 32 bits: 0x7fffffff + 0x7fffffff + 2 = 0, and
		 * 0x7fffffff + 1 where the sign would flip. */
		{ VIEW("\377\377\377\377\377\377\377\377"), "!" },
		{ VIEW("\377\377\377\376\377\377\377\376ab"), "!" },
		{ VIEW("\377\377\377\377\1a"), "!" },
		{ VIEW("\1\377\377\377\377a"), "!" },
		{ VIEW("\1\377\377\377\376ab"), "!" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf got = { 0 };

		read_pairs(rows[i].bytes, &got);
		cr_assert_str_eq(buf_str(&got), rows[i].want, "row %zu", i);
		buf_release(&got);
	}
}

Test(pairs, a_malformed_pair_gives_nothing_away)
{
	struct view in = VIEW("\1\2ab");
	struct pair pair = { VIEW("old"), VIEW("old") };

	cr_assert_eq(pairs_next(&in, &pair), PAIRS_BAD);
	cr_assert(view_eq(pair.name, VIEW("old")));
	cr_assert(view_eq(pair.value, VIEW("old")));
}

Test(pairs, what_is_written_is_read_back_at_every_length)
{
	static const size_t sizes[] = { 0, 1, 126, 127, 128, 129, 255, 256, 65535, 65536,
		100000 };
	static char text[100000];

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		for (size_t j = 0; j < COUNT_OF(sizes); j++) {
			struct view name = view_of(text, sizes[i]);
			struct view value = view_of(text, sizes[j]);
			struct buf b = { 0 };
			struct pair pair;
			struct view in;

			pairs_put(&b, name, value);
			cr_assert_eq(b.n,
				sizes[i] + sizes[j] + (sizes[i] < 128 ? 1 : 4) +
					(sizes[j] < 128 ? 1 : 4));
			in = buf_view(&b);
			cr_assert_eq(pairs_next(&in, &pair), PAIRS_PAIR);
			cr_assert(view_eq(pair.name, name));
			cr_assert(view_eq(pair.value, value));
			cr_assert_eq(pairs_next(&in, &pair), PAIRS_END);
			buf_release(&b);
		}
	}
}

/* Reads PARAMS records back: how many, how long the longest; whether each holds
 * whole pairs and the last one is empty. The pairs themselves go to out. */
static size_t check_params(const struct buf *b, struct buf *out, size_t *longest)
{
	struct record_reader r = { 0 };
	struct view in = buf_view(b), content;
	struct buf one = { 0 }, pairs = { 0 };
	size_t records = 0;
	enum record_event event;

	*longest = 0;
	while ((event = record_next(&r, &in, &content)) != RECORD_MORE) {
		cr_assert_neq(event, RECORD_BAD);
		if (event == RECORD_CONTENT)
			buf_add(&one, content);
		if (event != RECORD_ENDS)
			continue;
		cr_assert_eq(r.type, FCGI_PARAMS);
		cr_assert_eq(r.id, 3);
		cr_assert(r.content_n || in.n == 0, "the empty record is the last");
		records++;
		if (r.content_n > *longest)
			*longest = r.content_n;
		buf_reset(&pairs);
		read_pairs(buf_view(&one), &pairs);
		cr_assert(!pairs.n || pairs.p[pairs.n - 1] == ';',
			"record %zu holds whole pairs", records);
		buf_add(out, buf_view(&one));
		buf_reset(&one);
	}
	cr_assert_eq(r.content_n, 0, "the stream is ended");
	buf_release(&one);
	buf_release(&pairs);
	return records;
}

Test(pairs, params_records_are_cut_between_pairs)
{
	/* Pairs of that many bytes each, lengths included. */
	static const struct {
		size_t n, size;
		size_t records, longest;
	} rows[] = {
		{ 0, 0, 1, 0 },
		{ 1, 2, 2, 2 },
		{ 3, 100, 2, 300 },
		{ 1, 65528, 2, 65528 },
		{ 2, 32764, 2, 65528 },
		{ 2, 32765, 3, 32765 },
		{ 3, 32764, 3, 65528 },
		{ 2, 65528, 3, 65528 },
		{ 8192, 8, 3, 65528 },
		{ 1000, 1000, 17, 65000 },
	};
	static char text[70000];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf pairs = { 0 }, b = { 0 }, got = { 0 };
		size_t longest;

		for (size_t k = 0; k < rows[i].n; k++) {
			/* A name of "" leaves its length byte and the value's. */
			size_t head = rows[i].size - 2 < 128 ? 2 : 5;

			pairs_put(&pairs, VIEW(""), view_of(text, rows[i].size - head));
		}
		cr_assert_eq(pairs.n, rows[i].n * rows[i].size, "row %zu", i);
		cr_assert(pairs_put_params(&b, 3, buf_view(&pairs)));
		cr_assert_eq(
			check_params(&b, &got, &longest), rows[i].records, "row %zu", i);
		cr_assert_eq(longest, rows[i].longest, "row %zu", i);
		cr_assert(view_eq(buf_view(&got), buf_view(&pairs)), "row %zu", i);
		buf_release(&pairs);
		buf_release(&b);
		buf_release(&got);
	}
}

Test(pairs, a_pair_that_fits_in_no_record_is_refused)
{
	static char text[65536];

	for (size_t n = 65528 - 5; n <= 65528 - 5 + 3; n++) {
		for (int before = 0; before < 2; before++) {
			struct buf pairs = { 0 }, b = { 0 };

			if (before)
				pairs_put(&pairs, VIEW("a"), VIEW("b"));
			pairs_put(&pairs, VIEW(""), view_of(text, n));
			cr_assert_eq(pairs_put_params(&b, 3, buf_view(&pairs)),
				n + 5 <= 65528, "%zu bytes after %d pairs", n, before);
			buf_release(&pairs);
			buf_release(&b);
		}
	}
}

Test(pairs, malformed_pairs_are_not_passed_on)
{
	static const struct view rows[] = {
		VIEW("\1"),
		VIEW("\1\2ab"),
		VIEW("\1\1ab\1\1c"),
		VIEW("\377\377\377\377\377\377\377\377"),
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf b = { 0 };

		cr_assert(!pairs_put_params(&b, 3, rows[i]), "row %zu", i);
		buf_release(&b);
	}
}
