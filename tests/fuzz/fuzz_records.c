/*
 * fuzz_records.c - the FastCGI codec on bytes nobody meant well with.
 *
 * Beyond not crashing it has to keep promises that can be checked:
 *
 *  - records: cut anywhere, the same events with the same content; a record's content
 *    is as long as its header says; each call moves on or asks for more.
 *  - pairs: views lie in the input and cover it without gaps; what was read can be
 *    written and read again; PARAMS records hold whole pairs and nothing gets lost.
 *
 * The first two bytes say where the input is cut; the rest is the input.
 */
#include "fastcgi/pairs.h"
#include "fuzz.h"

/* Feeds in pieces of at most piece bytes and writes the events down. Content that
 * comes in several pieces is written as one. */
static void transcribe(struct view in, size_t piece, struct buf *out, struct buf *params)
{
	struct record_reader r = { 0 };
	size_t content_n = 0;

	while (in.n) {
		struct view part = view_of(in.p, in.n < piece ? in.n : piece);
		struct view content;

		in = view_skip(in, part.n);
		for (;;) {
			struct view before = part;
			enum record_event event = record_next(&r, &part, &content);

			MUST(part.n <= before.n);
			if (event == RECORD_MORE) {
				MUST(part.n == 0);
				break;
			}
			switch (event) {
			case RECORD_BEGINS:
				content_n = 0;
				buf_addf(out, "<%u %u %u:", r.type, r.id, r.content_n);
				break;
			case RECORD_CONTENT:
				MUST(content.n > 0);
				MUST(content.p == before.p);
				MUST(part.p == content.p + content.n);
				content_n += content.n;
				buf_add(out, content);
				if (r.type == FCGI_PARAMS)
					buf_add(params, content);
				break;
			case RECORD_ENDS:
				MUST(content_n == r.content_n);
				MUST(record_at_boundary(&r));
				buf_add_byte(out, '>');
				break;
			default:
				MUST(!record_at_boundary(&r));
				buf_add_byte(out, '!');
				return;
			}
		}
	}
}

static void check_records(struct view in, size_t piece, struct buf *params)
{
	struct buf whole = { 0 }, cut = { 0 }, unused = { 0 };

	transcribe(in, in.n, &whole, params);
	transcribe(in, piece, &cut, &unused);
	MUST(view_eq(buf_view(&whole), buf_view(&cut)));
	buf_reset(&cut);
	buf_reset(&unused);
	transcribe(in, 1, &cut, &unused);
	MUST(view_eq(buf_view(&whole), buf_view(&cut)));
	MUST(view_eq(buf_view(params), buf_view(&unused)));
	buf_release(&whole);
	buf_release(&cut);
	buf_release(&unused);
}

/* The records made of pairs, read back: whole pairs in each, together what went in. */
static void check_params(struct view pairs)
{
	struct buf b = { 0 }, one = { 0 }, all = { 0 };
	struct record_reader r = { 0 };
	struct view left, content;
	struct pair pair;
	enum record_event event;

	if (!pairs_put_params(&b, 1, pairs))
		goto out; /* a pair too long for a record */
	left = buf_view(&b);
	while ((event = record_next(&r, &left, &content)) != RECORD_MORE) {
		MUST(event != RECORD_BAD);
		if (event == RECORD_CONTENT)
			buf_add(&one, content);
		if (event != RECORD_ENDS)
			continue;
		MUST(r.type == FCGI_PARAMS && r.content_n <= RECORD_CONTENT_MAX);
		MUST(r.content_n || left.n == 0);
		content = buf_view(&one);
		while (content.n)
			MUST(pairs_next(&content, &pair) == PAIRS_PAIR);
		buf_add(&all, buf_view(&one));
		buf_reset(&one);
	}
	MUST(r.content_n == 0 && record_at_boundary(&r));
	MUST(view_eq(buf_view(&all), pairs));
out:
	buf_release(&b);
	buf_release(&one);
	buf_release(&all);
}

static void check_pairs(struct view in)
{
	struct view left = in, again;
	struct buf written = { 0 };
	struct pair pair, second;
	const char *at = in.p;

	for (;;) {
		struct view before = left;
		enum pairs_result got = pairs_next(&left, &pair);

		if (got == PAIRS_END) {
			MUST(before.n == 0);
			check_params(in);
			break;
		}
		if (got == PAIRS_BAD) {
			MUST(!pairs_put_params(&written, 1, in));
			break;
		}
		MUST(left.n < before.n);
		MUST(pair.name.p - at >= 2 && pair.name.p - at <= 8);
		MUST(pair.value.p == pair.name.p + pair.name.n);
		MUST(left.p == pair.value.p + pair.value.n);
		at = left.p;

		buf_reset(&written);
		pairs_put(&written, pair.name, pair.value);
		again = buf_view(&written);
		MUST(pairs_next(&again, &second) == PAIRS_PAIR && again.n == 0);
		MUST(view_eq(second.name, pair.name));
		MUST(view_eq(second.value, pair.value));
	}
	buf_release(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct buf params = { 0 };
	struct view in;

	if (n < 2)
		return 0;
	in = view_of((const char *)data + 2, n - 2);
	check_records(in, 1 + (data[0] | (size_t)data[1] << 8), &params);
	check_pairs(buf_view(&params)); /* as they come over a connection */
	check_pairs(in);                /* and without records around them */
	buf_release(&params);
	return 0;
}
