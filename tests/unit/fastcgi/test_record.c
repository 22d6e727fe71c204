/* Records in any cut: what was sent is what is read, and nothing else is trusted. */
#include <criterion/criterion.h>

#include "fastcgi/record.h"

/* What a reader said, one after another: "B<type>/<id>/<n>", content, "E", "!". */
static void read_all(struct record_reader *r, struct view in, struct buf *out)
{
	for (;;) {
		struct view content = { 0 };

		switch (record_next(r, &in, &content)) {
		case RECORD_MORE:
			cr_assert_eq(in.n, 0, "MORE leaves nothing unread");
			return;
		case RECORD_BEGINS:
			buf_addf(out, "B%u/%u/%u(", r->type, r->id, r->content_n);
			break;
		case RECORD_CONTENT:
			cr_assert_gt(content.n, 0);
			buf_add(out, content);
			break;
		case RECORD_ENDS: buf_add_str(out, ")"); break;
		case RECORD_BAD: buf_add_str(out, "!"); return;
		}
	}
}

static const struct row {
	struct view bytes;
	const char *want;
	bool boundary;
} rows[] = {
	{ VIEW(""), "", true },
	{ VIEW("\1\5\0\1\0\0\0\0"), "B5/1/0()", true },
	{ VIEW("\1\5\0\1\0\3\0\0abc"), "B5/1/3(abc)", true },
	{ VIEW("\1\5\0\1\0\3\5\0abcPADPA"), "B5/1/3(abc)", true },
	{ VIEW("\1\5\0\1\0\0\2\0PA"), "B5/1/0()", true },
	/* The reserved byte may hold anything. */
	{ VIEW("\1\4\1\2\0\1\0\377x"), "B4/258/1(x)", true },
	{ VIEW("\1\5\0\1\0\1\1\0aP\1\5\0\1\0\0\0\0"), "B5/1/1(a)B5/1/0()", true },
	/* A type nobody knows is for the caller to judge. */
	{ VIEW("\1\143\0\0\0\2\0\0hi"), "B99/0/2(hi)", true },
	/* Padding and content that look like headers. */
	{ VIEW("\1\5\0\1\0\10\10\0\1\5\0\1\0\0\0\0\1\1\1\1\1\1\1\1"), "B5/1/8(\1\5", true },
	/* Cut off: in the header, the content, the padding. */
	{ VIEW("\1\5\0\1\0\3\0"), "", false },
	{ VIEW("\1\5\0\1\0\3\0\0ab"), "B5/1/3(ab", false },
	{ VIEW("\1\5\0\1\0\3\4\0abcPAD"), "B5/1/3(abc", false },
	/* Wrong versions, told by the first byte. */
	{ VIEW("\0"), "!", false },
	{ VIEW("\2\5\0\1\0\0\0\0"), "!", false },
	{ VIEW("GET / HTTP/1.1\r\n"), "!", false },
	{ VIEW("\1\5\0\1\0\1\0\0x\377\5\0\1\0\0\0\0"), "B5/1/1(x)!", false },
};

static void check(const struct row *row, const struct record_reader *r,
	const struct buf *got, const char *how)
{
	/* One row's content holds NUL bytes; what stands before them tells enough. */
	cr_assert(view_starts(buf_view(got), view_str(row->want)), "row %zu %s: %.*s",
		(size_t)(row - rows), how, VIEW_ARG(buf_view(got)));
	cr_assert_eq(record_at_boundary(r), row->boundary, "row %zu %s",
		(size_t)(row - rows), how);
}

Test(record, whole_input_is_read_record_by_record)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct record_reader r = { 0 };
		struct buf got = { 0 };

		read_all(&r, rows[i].bytes, &got);
		check(&rows[i], &r, &got, "whole");
		buf_release(&got);
	}
}

Test(record, a_cut_anywhere_changes_nothing)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct record_reader whole = { 0 };
		struct buf want = { 0 };

		read_all(&whole, rows[i].bytes, &want);
		for (size_t cut = 0; cut <= rows[i].bytes.n; cut++) {
			struct record_reader r = { 0 };
			struct buf got = { 0 };

			read_all(&r, view_of(rows[i].bytes.p, cut), &got);
			/* The caller closes on the first BAD. */
			if (!memchr(got.p ? got.p : "", '!', got.n))
				read_all(&r, view_skip(rows[i].bytes, cut), &got);
			cr_assert(view_eq(buf_view(&got), buf_view(&want)),
				"row %zu cut at %zu", i, cut);
			cr_assert_eq(record_at_boundary(&r), rows[i].boundary);
			buf_release(&got);
		}
		buf_release(&want);
	}
}

Test(record, byte_by_byte_is_the_same_as_at_once)
{
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct record_reader r = { 0 };
		struct buf got = { 0 };

		for (size_t at = 0; at < rows[i].bytes.n; at++) {
			read_all(&r, view_of(rows[i].bytes.p + at, 1), &got);
			if (memchr(got.p ? got.p : "", '!', got.n))
				break;
		}
		check(&rows[i], &r, &got, "byte by byte");
		buf_release(&got);
	}
}

Test(record, after_a_bad_header_everything_is_bad)
{
	struct record_reader r = { 0 };
	struct view in = VIEW("\2"), good = VIEW("\1\5\0\1\0\0\0\0"), content;

	cr_assert_eq(record_next(&r, &in, &content), RECORD_BAD);
	cr_assert_eq(record_next(&r, &good, &content), RECORD_BAD);
	cr_assert_eq(record_next(&r, &good, &content), RECORD_BAD);
	cr_assert(!record_at_boundary(&r));
}

Test(record, the_largest_record_passes_without_being_collected)
{
	static char body[65535 + 255];
	struct record_reader r = { 0 };
	struct view in = VIEW("\1\5\377\377\377\377\377\0"), content;
	size_t seen = 0;

	cr_assert_eq(record_next(&r, &in, &content), RECORD_BEGINS);
	cr_assert_eq(r.id, 65535);
	cr_assert_eq(r.content_n, 65535);
	in = view_of(body, sizeof(body));
	while (record_next(&r, &in, &content) == RECORD_CONTENT)
		seen += content.n;
	cr_assert_eq(seen, 65535);
	cr_assert(record_at_boundary(&r));
}

/* Reads one record's content back from b. */
static void check_written(const struct buf *b, const char *want)
{
	struct record_reader r = { 0 };
	struct buf got = { 0 };

	cr_assert(buf_ok(b));
	read_all(&r, buf_view(b), &got);
	cr_assert_str_eq(buf_str(&got), want);
	cr_assert(record_at_boundary(&r));
	buf_release(&got);
}

Test(record, a_stream_is_records_and_an_empty_one_at_its_end)
{
	struct buf b = { 0 };

	record_put_stream(&b, FCGI_STDOUT, 258, VIEW("hello"));
	record_put_stream(&b, FCGI_STDOUT, 258, VIEW(""));
	record_end_stream(&b, FCGI_STDOUT, 258);
	check_written(&b, "B6/258/5(hello)B6/258/0()");
	buf_release(&b);
}

Test(record, long_content_is_cut_where_a_record_ends)
{
	static const struct {
		size_t n;
		size_t records;
		size_t last_n;
	} sizes[] = {
		{ 1, 1, 1 },
		{ 65527, 1, 65527 },
		{ 65528, 1, 65528 },
		{ 65529, 2, 1 },
		{ 65535, 2, 7 },
		{ 65536, 2, 8 },
		{ (size_t)2 * 65528, 2, 65528 },
		{ 200000, 4, 200000 - 3 * 65528 },
	};
	static char body[200000];

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (char)(i % 251);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		struct record_reader r = { 0 };
		struct buf b = { 0 }, got = { 0 };
		struct view in, content;
		size_t records = 0;
		enum record_event event;

		record_put_stream(&b, FCGI_STDIN, 1, view_of(body, sizes[i].n));
		in = buf_view(&b);
		while ((event = record_next(&r, &in, &content)) != RECORD_MORE) {
			cr_assert_neq(event, RECORD_BAD);
			records += event == RECORD_BEGINS;
			if (event == RECORD_CONTENT)
				buf_add(&got, content);
		}
		cr_assert_eq(records, sizes[i].records, "%zu bytes", sizes[i].n);
		cr_assert_eq(r.content_n, sizes[i].last_n, "%zu bytes", sizes[i].n);
		cr_assert(view_eq(buf_view(&got), view_of(body, sizes[i].n)));
		buf_release(&got);
		buf_release(&b);
	}
}

Test(record, begin_bodies_say_role_and_whether_to_keep_the_connection)
{
	static const struct {
		uint16_t role;
		uint8_t flags;
		bool keep;
	} begins[] = {
		{ FCGI_RESPONDER, 0, false },
		{ FCGI_RESPONDER, FCGI_KEEP_CONN, true },
		{ FCGI_AUTHORIZER, 0xff, true },
		{ FCGI_FILTER, 0xfe, false },
		{ 0, 0, false },
		{ 65535, 1, true },
	};

	for (size_t i = 0; i < COUNT_OF(begins); i++) {
		struct buf b = { 0 };
		struct record_begin got;

		record_put_begin(&b, 7, begins[i].role, begins[i].flags);
		cr_assert_eq(b.n, 16);
		cr_assert(view_eq(view_of(b.p, 8), VIEW("\1\1\0\7\0\10\0\0")));
		got = record_read_begin((const unsigned char *)b.p + 8);
		cr_assert_eq(got.role, begins[i].role);
		cr_assert_eq(got.keep_conn, begins[i].keep);
		buf_release(&b);
	}
}

Test(record, end_bodies_say_both_statuses)
{
	static const struct {
		uint32_t app_status;
		uint8_t protocol_status;
		struct view app_bytes;
	} ends[] = {
		{ 0, FCGI_REQUEST_COMPLETE, VIEW_INIT("\0\0\0\0") },
		{ 1, FCGI_OVERLOADED, VIEW_INIT("\0\0\0\1") },
		{ 0xffffffff, 255, VIEW_INIT("\377\377\377\377") },
		{ 0x80000001, FCGI_UNKNOWN_ROLE, VIEW_INIT("\200\0\0\1") },
	};

	for (size_t i = 0; i < COUNT_OF(ends); i++) {
		struct buf b = { 0 };

		record_put_end(&b, 65535, ends[i].app_status, ends[i].protocol_status);
		cr_assert_eq(b.n, 16);
		cr_assert(view_eq(view_of(b.p, 8), VIEW("\1\3\377\377\0\10\0\0")));
		cr_assert(view_eq(view_of(b.p + 8, 4), ends[i].app_bytes));
		cr_assert_eq(record_read_end((const unsigned char *)b.p + 8),
			ends[i].protocol_status);
		buf_release(&b);
	}
}

Test(record, a_broken_end_announces_padding_that_does_not_come)
{
	struct buf b = { 0 };
	struct record_reader r = { 0 };
	struct view in, piece;

	record_put_broken_end(&b, 258);
	cr_assert(view_eq(buf_view(&b), VIEW("\1\3\1\2\0\10\10\0\0\0\0\0\0\0\0\0")));
	in = buf_view(&b);
	cr_assert_eq(record_next(&r, &in, &piece), RECORD_BEGINS);
	cr_assert_eq(record_next(&r, &in, &piece), RECORD_CONTENT);
	cr_assert_eq(record_next(&r, &in, &piece), RECORD_MORE);
	cr_assert_not(record_at_boundary(&r));
	buf_release(&b);
}

Test(record, reserved_bytes_of_an_end_body_may_hold_anything)
{
	static const unsigned char body[8] = { 0, 0, 1, 2, 3, 0xaa, 0xbb, 0xcc };

	cr_assert_eq(record_read_end(body), 3);
}

Test(record, an_unknown_type_is_answered_on_the_management_id)
{
	struct buf b = { 0 };

	record_put_unknown_type(&b, 200);
	cr_assert(view_eq(buf_view(&b), VIEW("\1\13\0\0\0\10\0\0\310\0\0\0\0\0\0\0")));
	buf_release(&b);
}
