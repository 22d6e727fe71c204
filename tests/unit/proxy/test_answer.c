/*
 * Every row runs whole, byte by byte, and cut in two at every position (long ones at
 * some): the result must be the same, as no backend promises where its pieces end.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "proxy/answer.h"
#include "proxy/reason.h"

struct result {
	struct buf head, body;
	int status;
	size_t heads; /* how often the head was reported */
	bool bad;
	const char *why;
	enum answer_end end;
};

static void result_release(struct result *r)
{
	buf_release(&r->head);
	buf_release(&r->body);
}

static void feed(struct answer *a, struct view in, struct result *r)
{
	for (;;) {
		struct view piece = { 0 };

		switch (answer_next(a, &in, &piece)) {
		case ANSWER_MORE: cr_assert_eq(in.n, 0); return;
		case ANSWER_HEAD:
			r->heads++;
			r->status = a->status;
			buf_add(&r->head, buf_view(&a->head));
			cr_assert_null(a->raw.p, "the backend's head is still in memory");
			break;
		case ANSWER_BODY:
			cr_assert_gt(piece.n, 0);
			cr_assert_eq(r->heads, 1);
			buf_add(&r->body, piece);
			break;
		case ANSWER_BAD:
			r->bad = true;
			r->why = a->why;
			return;
		}
	}
}

/* In pieces of step bytes, the first of them first. */
static struct result run(
	struct view in, bool no_body, bool keep_sendfile, size_t first, size_t step)
{
	struct result r = { 0 };
	struct answer a;

	answer_init(&a, no_body);
	a.keep_sendfile = keep_sendfile;
	while (in.n && !r.bad) {
		size_t n = first < in.n ? first : in.n;
		/* A copy of its own, so that a sanitizer sees every byte read too far. */
		char *copy = malloc(n);

		memcpy(copy, in.p, n);
		feed(&a, view_of(copy, n), &r);
		free(copy);
		in = view_skip(in, n);
		first = step;
	}
	r.end = answer_finish(&a);
	answer_release(&a);
	return r;
}

static void same(
	const char *name, const struct result *a, const struct result *b, size_t cut)
{
	cr_assert_eq(a->bad, b->bad, "%s, cut at %zu: bad", name, cut);
	cr_assert_eq(a->why, b->why, "%s, cut at %zu: why", name, cut);
	cr_assert_eq(a->end, b->end, "%s, cut at %zu: end", name, cut);
	cr_assert_eq(a->status, b->status, "%s, cut at %zu: status", name, cut);
	cr_assert(view_eq(buf_view(&a->head), buf_view(&b->head)), "%s, cut at %zu: head",
		name, cut);
	cr_assert(view_eq(buf_view(&a->body), buf_view(&b->body)), "%s, cut at %zu: body",
		name, cut);
}

static struct result run_cut(
	const char *name, struct view in, bool no_body, bool keep_sendfile)
{
	struct result whole = run(in, no_body, keep_sendfile, in.n, 1);
	struct result bytes = run(in, no_body, keep_sendfile, 1, 1);
	size_t stride = in.n / 200 + 1;

	same(name, &whole, &bytes, 1);
	result_release(&bytes);
	for (size_t cut = 1; cut < in.n; cut += stride) {
		struct result two = run(in, no_body, keep_sendfile, cut, in.n);

		same(name, &whole, &two, cut);
		result_release(&two);
	}
	return whole;
}

struct row {
	const char *name;
	struct view in;
	const char *head, *body; /* head NULL: no answer */
	enum answer_end end;
	const char *why; /* of ANSWER_BAD, before or after the head */
	bool no_body, keep_sendfile;
};

static void check_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct row *row = &rows[i];
		struct result r = run_cut(
			row->name, row->in, row->no_body, row->keep_sendfile);
		const char *body = row->body ? row->body : "";

		cr_assert_eq(r.heads, row->head ? 1 : 0, "%s: heads", row->name);
		if (row->head)
			cr_assert(view_eq(buf_view(&r.head), view_str(row->head)),
				"%s: head is\n%.*s", row->name,
				VIEW_ARG(buf_view(&r.head)));
		cr_assert(view_eq(buf_view(&r.body), view_str(body)), "%s: body is %.*s",
			row->name, VIEW_ARG(buf_view(&r.body)));
		cr_assert_eq(r.end, row->end, "%s: end is %d", row->name, r.end);
		cr_assert_eq(r.bad, row->why != NULL, "%s: bad (%s)", row->name,
			r.why ? r.why : "");
		if (row->why)
			cr_assert_str_eq(r.why, row->why, "%s", row->name);
		result_release(&r);
	}
}
#define CHECK_ROWS(rows) check_rows(rows, COUNT_OF(rows))

#define OK "Status: 200 OK\r\n"

Test(answer, one_status_line_comes_first_whatever_the_backend_wrote)
{
	static const struct row rows[] = {
		{ "none", VIEW("Content-type: text/html\r\n\r\nhi"),
			OK "Content-type: text/html\r\n", "hi" },
		{ "bare LF", VIEW("Content-Type: text/plain\nX-A: 1\n\nhi\r\n"),
			OK "Content-Type: text/plain\r\nX-A: 1\r\n", "hi\r\n" },
		{ "mixed line ends", VIEW("X-A: 1\nX-B: 2\r\nX-C: 3\n\r\nhi"),
			OK "X-A: 1\r\nX-B: 2\r\nX-C: 3\r\n", "hi" },
		{ "in the middle", VIEW("X-A: 1\nStatus: 404 Not Found\nX-B: 2\n\n"),
			"Status: 404 Not Found\r\nX-A: 1\r\nX-B: 2\r\n", "" },
		{ "last", VIEW("X-A: 1\nStatus: 429 Slow down\n\nno"),
			"Status: 429 Slow down\r\nX-A: 1\r\n", "no" },
		{ "without a phrase", VIEW("Status: 503\n\n"),
			"Status: 503 Service Unavailable\r\n", "" },
		{ "without a phrase, not in the table", VIEW("Status: 499\n\n"),
			"Status: 499 Client Error\r\n", "" },
		{ "own phrase", VIEW("status:  200   Fine by me \n\n"),
			"Status: 200 Fine by me\r\n", "" },
		{ "a tab before the phrase", VIEW("Status: 201\tMade\n\n"),
			"Status: 201 Made\r\n", "" },
		{ "highest", VIEW("Status: 599 x\n\n"), "Status: 599 x\r\n", "" },
		{ "starts with an empty line", VIEW("\nhello"), OK, "hello" },
		{ "starts with CRLF", VIEW("\r\nhello"), OK, "hello" },
		{ "only an empty line", VIEW("\n"), OK, "" },
		{ "body with empty lines", VIEW("\n\n\nx: y\n\n"), OK, "\n\nx: y\n\n" },
		{ "twice the same", VIEW("Status: 200 OK\nStatus: 200\n\n"), OK, "" },
		{ "absolute Location", VIEW("Location: http://h/x\n\n"),
			"Status: 302 Found\r\nLocation: http://h/x\r\n", "" },
		{ "local Location", VIEW("Location: /b\nSet-Cookie: a=1\n\n"),
			"Status: 302 Found\r\nLocation: /b\r\nSet-Cookie: a=1\r\n", "" },
		{ "Location and Status", VIEW("Location: /b\nStatus: 201\n\n"),
			"Status: 201 Created\r\nLocation: /b\r\n", "" },
		{ "empty Location", VIEW("Location:\n\n"), OK "Location: \r\n", "" },
	};

	CHECK_ROWS(rows);
}

Test(answer, the_status_line_of_an_nph_program_becomes_status)
{
	static const struct row rows[] = {
		{ "1.1", VIEW("HTTP/1.1 201 Created\r\nX-A: 1\r\n\r\nhi"),
			"Status: 201 Created\r\nX-A: 1\r\n", "hi" },
		{ "1.0, bare LF, no phrase", VIEW("HTTP/1.0 404\n\n"),
			"Status: 404 Not Found\r\n", "" },
		{ "with the same Status", VIEW("HTTP/1.0 404 Gone\nStatus: 404 No\n\n"),
			"Status: 404 Gone\r\n", "" },
		{ "with another Status", VIEW("HTTP/1.0 200 OK\nStatus: 403 No\n\n"), NULL,
			NULL, ANSWER_HEADLESS, "two different statuses" },
		{ "without a status", VIEW("HTTP/1.1\n\n"), NULL, NULL, ANSWER_HEADLESS,
			"Status is not three digits and a phrase" },
		{ "odd version", VIEW("HTTP/one 200 OK\n\n"), NULL, NULL, ANSWER_HEADLESS,
			"malformed status line" },
		{ "interim", VIEW("HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\n\n"), NULL,
			NULL, ANSWER_HEADLESS, "Status is not between 200 and 599" },
		{ "folded", VIEW("HTTP/1.1 200 OK\n fine\n\n"), NULL, NULL, ANSWER_HEADLESS,
			"a continuation line without a field" },
		{ "control character", VIEW("HTTP/1.1 200 O\001K\n\n"), NULL, NULL,
			ANSWER_HEADLESS, "control character in the status line" },
		{ "not first", VIEW("X-A: 1\nHTTP/1.1 200 OK\n\n"), NULL, NULL,
			ANSWER_HEADLESS, "a header line without a colon" },
	};

	CHECK_ROWS(rows);
}

Test(answer, a_status_that_is_none_is_refused)
{
	static const char *const digits = "Status is not three digits and a phrase";
	static const char *const range = "Status is not between 200 and 599";
	const struct row rows[] = {
		{ "empty", VIEW("Status:\n\n"), NULL, NULL, ANSWER_HEADLESS, digits },
		{ "two digits", VIEW("Status: 20\n\n"), NULL, NULL, ANSWER_HEADLESS,
			digits },
		{ "four digits", VIEW("Status: 2000\n\n"), NULL, NULL, ANSWER_HEADLESS,
			digits },
		{ "glued", VIEW("Status: 200OK\n\n"), NULL, NULL, ANSWER_HEADLESS, digits },
		{ "text", VIEW("Status: OK\n\n"), NULL, NULL, ANSWER_HEADLESS, digits },
		{ "signed", VIEW("Status: +20 x\n\n"), NULL, NULL, ANSWER_HEADLESS,
			digits },
		{ "with a version", VIEW("Status: HTTP/1.1 200 OK\n\n"), NULL, NULL,
			ANSWER_HEADLESS, digits },
		{ "99", VIEW("Status: 099 x\n\n"), NULL, NULL, ANSWER_HEADLESS, range },
		{ "000", VIEW("Status: 000\n\n"), NULL, NULL, ANSWER_HEADLESS, range },
		{ "101", VIEW("Status: 101 Switching Protocols\n\n"), NULL, NULL,
			ANSWER_HEADLESS, range },
		{ "199", VIEW("Status: 199\n\n"), NULL, NULL, ANSWER_HEADLESS, range },
		{ "600", VIEW("Status: 600\n\n"), NULL, NULL, ANSWER_HEADLESS, range },
		{ "two of them", VIEW("Status: 200 OK\nStatus: 403 No\n\n"), NULL, NULL,
			ANSWER_HEADLESS, "two different statuses" },
	};

	CHECK_ROWS(rows);
}

Test(answer, what_is_not_a_head_is_refused)
{
	static const char
		*const name = "a field name with a space or another byte it may not have";
	static const char *const control = "control character in a field";
	const struct row rows[] = {
		{ "text", VIEW("hello\n"), NULL, NULL, ANSWER_HEADLESS,
			"text without a header" },
		{ "a page", VIEW("<html>\n<p style=\"a: b\">\n\n"), NULL, NULL,
			ANSWER_HEADLESS, "text without a header" },
		{ "text later", VIEW("X-A: 1\nhello\n\n"), NULL, NULL, ANSWER_HEADLESS,
			"a header line without a colon" },
		{ "space before the colon", VIEW("X-A : 1\n\n"), NULL, NULL,
			ANSWER_HEADLESS, name },
		{ "tab before the colon", VIEW("X-A\t: 1\n\n"), NULL, NULL, ANSWER_HEADLESS,
			name },
		{ "space inside", VIEW("X A: 1\n\n"), NULL, NULL, ANSWER_HEADLESS, name },
		{ "no name", VIEW(": 1\n\n"), NULL, NULL, ANSWER_HEADLESS, name },
		{ "NUL in a name", VIEW("X\0A: 1\n\n"), NULL, NULL, ANSWER_HEADLESS, name },
		{ "CR in a name", VIEW("X\rA: 1\n\n"), NULL, NULL, ANSWER_HEADLESS, name },
		{ "high byte in a name", VIEW("X\xc3\xa4: 1\n\n"), NULL, NULL,
			ANSWER_HEADLESS, name },
		{ "brackets in a name", VIEW("X[0]: 1\n\n"), NULL, NULL, ANSWER_HEADLESS,
			name },
		{ "a slash in a name", VIEW("X/A: 1\n\n"), NULL, NULL, ANSWER_HEADLESS,
			name },
		{ "NUL in a value", VIEW("X-A: a\0b\n\n"), NULL, NULL, ANSWER_HEADLESS,
			control },
		{ "CR in a value", VIEW("X-A: a\rSet-Cookie: b\n\n"), NULL, NULL,
			ANSWER_HEADLESS, control },
		{ "two CR at the end", VIEW("X-A: a\r\r\n\r\n"), NULL, NULL,
			ANSWER_HEADLESS, control },
		{ "DEL in a value", VIEW("X-A: a\177\n\n"), NULL, NULL, ANSWER_HEADLESS,
			control },
		{ "escape in a dropped field", VIEW("Connection: \033[2J\n\n"), NULL, NULL,
			ANSWER_HEADLESS, control },
		{ "control in Status", VIEW("Status: 200 O\aK\n\n"), NULL, NULL,
			ANSWER_HEADLESS, control },
		{ "CR in a continuation", VIEW("X-A: a\n b\rc\n\n"), NULL, NULL,
			ANSWER_HEADLESS, control },
		{ "continuation of nothing", VIEW(" a: b\n\n"), NULL, NULL, ANSWER_HEADLESS,
			"a continuation line without a field" },
	};

	CHECK_ROWS(rows);
}

Test(answer, fields_go_through_unharmed)
{
	static const struct row rows[] = {
		{ "two cookies, in order",
			VIEW("Set-Cookie: a=1\nX: y\nSet-Cookie: b=2\n\n"),
			OK "Set-Cookie: a=1\r\nX: y\r\nSet-Cookie: b=2\r\n", "" },
		{ "two challenges",
			VIEW("Status: 401\nWWW-Authenticate: Basic realm=\"x\"\n"
			     "WWW-Authenticate: Bearer\n\n"),
			"Status: 401 Unauthorized\r\nWWW-Authenticate: Basic "
			"realm=\"x\"\r\n"
			"WWW-Authenticate: Bearer\r\n",
			"" },
		{ "folded", VIEW("X-A: one\r\n two\r\n\t three\r\nX-B: 1\r\n\r\nhi"),
			OK "X-A: one two three\r\nX-B: 1\r\n", "hi" },
		{ "folded with blanks at the end", VIEW("X-A: one  \n  \n two \n\n"),
			OK "X-A: one two\r\n", "" },
		{ "folded from the start", VIEW("X-A:\n one\n\n"), OK "X-A: one\r\n", "" },
		{ "a folded status", VIEW("Status:\n 404\n\n"), "Status: 404 Not Found\r\n",
			"" },
		{ "no space behind the colon", VIEW("X-A:1\n\n"), OK "X-A: 1\r\n", "" },
		{ "blanks around", VIEW("X-A: \t 1 \t \n\n"), OK "X-A: 1\r\n", "" },
		{ "tab inside", VIEW("X-A: 1\t2\n\n"), OK "X-A: 1\t2\r\n", "" },
		{ "empty", VIEW("X-A:\n\n"), OK "X-A: \r\n", "" },
		{ "colons", VIEW("X-A: b: c\n\n"), OK "X-A: b: c\r\n", "" },
		{ "UTF-8", VIEW("X-A: gr\xc3\xbc\xc3\x9f\n\n"),
			OK "X-A: gr\xc3\xbc\xc3\x9f\r\n", "" },
		{ "all of a token", VIEW("a!#$%&'*+-.^_`|~9Z: 1\n\n"),
			OK "a!#$%&'*+-.^_`|~9Z: 1\r\n", "" },
		{ "authorizer's variables", VIEW("Variable-A: 1\n\n"),
			OK "Variable-A: 1\r\n", "" },
	};

	CHECK_ROWS(rows);
}

Test(answer, fields_of_one_connection_are_dropped)
{
	static const struct row rows[] = {
		{ "all",
			VIEW("Connection: close\nKeep-Alive: timeout=5\nTE: trailers\n"
			     "Trailer: X\nupgrade: h2c\nPROXY-CONNECTION: close\nX: "
			     "y\n\nhi"),
			OK "X: y\r\n", "hi" },
		{ "names that only begin so",
			VIEW("Connections: 1\nTEE: 2\nTrailers: "
			     "3\nUpgrade-Insecure-Requests: 1\n\n"),
			OK "Connections: 1\r\nTEE: 2\r\nTrailers: 3\r\n"
			   "Upgrade-Insecure-Requests: 1\r\n",
			"" },
		{ "folded ones whole", VIEW("Connection: close,\n X-B\nX: y\n\n"),
			OK "X: y\r\n", "" },
	};

	CHECK_ROWS(rows);
}

Test(answer, fields_that_connection_lists_are_dropped)
{
	static const struct row rows[] = {
		{ "listed behind it", VIEW("Connection: x-hop\nX-Hop: 1\nX: y\n\n"),
			OK "X: y\r\n", "" },
		{ "listed in front of it, among others",
			VIEW("X-HOP: 1\nX-Hops: 2\nHop: 3\nX: y\n"
			     "Connection: close ,, x-hop , hop\n\n"),
			OK "X-Hops: 2\r\nX: y\r\n", "" },
		{ "in two of them", VIEW("Connection: a\nA: 1\nB: 2\nConnection: b\n\n"),
			OK, "" },
		{ "not what says how the answer is to be read",
			VIEW("Connection: status, content-length\nStatus: 404\n"
			     "Content-Length: 2\n\nok"),
			"Status: 404 Not Found\r\nContent-Length: 2\r\n", "ok" },
		{ "a list of nothing", VIEW("Connection: ,\nX: y\n\n"), OK "X: y\r\n", "" },
	};

	CHECK_ROWS(rows);
}

Test(answer, commands_for_the_web_server_are_dropped_unless_allowed)
{
#define COMMANDS                                                                 \
	"X-Sendfile: /etc/passwd\r\nX-Sendfile2: /etc/passwd 0-\r\n"             \
	"X-LIGHTTPD-send-file: /etc/passwd\r\nX-Accel-Redirect: /internal/x\r\n" \
	"X-Accel-Limit-Rate: 0\r\n"
	static const struct row rows[] = {
		{ "dropped", VIEW(COMMANDS "X: y\r\n\r\n"), OK "X: y\r\n", "" },
		{ "empty", VIEW("X-Sendfile:\n\n"), OK, "" },
		{ "any case", VIEW("x-sendFILE: /a\nx-accel-redirect: /b\n\n"), OK, "" },
		{ "streaming is harmless", VIEW("X-Accel-Buffering: no\n\n"),
			OK "X-Accel-Buffering: no\r\n", "" },
		{ "names that only look so", VIEW("X-Accelerate: 1\nX-Send: 2\n\n"),
			OK "X-Accelerate: 1\r\nX-Send: 2\r\n", "" },
		{ "allowed", VIEW(COMMANDS "\r\n"), OK COMMANDS, "",
			.keep_sendfile = true },
	};

	CHECK_ROWS(rows);
}

Test(answer, the_body_is_as_long_as_content_length_says)
{
	static const char *const why = "Content-Length is not one number";
	const struct row rows[] = {
		{ "right", VIEW("Content-Length: 5\nX: y\n\nhello"),
			OK "X: y\r\nContent-Length: 5\r\n", "hello" },
		{ "zero", VIEW("Content-Length: 0\n\n"), OK "Content-Length: 0\r\n", "" },
		{ "too much body", VIEW("Content-Length: 2\n\nhello"),
			OK "Content-Length: 2\r\n", "he" },
		{ "zero and a body", VIEW("Content-Length: 0\n\nhello"),
			OK "Content-Length: 0\r\n", "" },
		{ "too little body", VIEW("Content-Length: 6\n\nhello"),
			OK "Content-Length: 6\r\n", "hello", ANSWER_TRUNCATED },
		{ "no body", VIEW("Content-Length: 6\n\n"), OK "Content-Length: 6\r\n", "",
			ANSWER_TRUNCATED },
		{ "twice the same", VIEW("Content-Length: 2\ncontent-length: 2\n\nhi"),
			OK "Content-Length: 2\r\n", "hi" },
		{ "a list of the same", VIEW("Content-Length: 2, 2\n\nhi"),
			OK "Content-Length: 2\r\n", "hi" },
		{ "zeros in front", VIEW("Content-Length: 002\n\nhi"),
			OK "Content-Length: 2\r\n", "hi" },
		{ "longest", VIEW("Content-Length: 9223372036854775807\n\nhi"),
			OK "Content-Length: 9223372036854775807\r\n", "hi",
			ANSWER_TRUNCATED },
		{ "too long a number", VIEW("Content-Length: 9223372036854775808\n\n"),
			NULL, NULL, ANSWER_HEADLESS, why },
		{ "two that differ", VIEW("Content-Length: 2\nContent-Length: 3\n\nhi"),
			NULL, NULL, ANSWER_HEADLESS, why },
		{ "a list that differs", VIEW("Content-Length: 2, 3\n\nhi"), NULL, NULL,
			ANSWER_HEADLESS, why },
		{ "an open list", VIEW("Content-Length: 2,\n\nhi"), NULL, NULL,
			ANSWER_HEADLESS, why },
		{ "empty", VIEW("Content-Length:\n\n"), NULL, NULL, ANSWER_HEADLESS, why },
		{ "negative", VIEW("Content-Length: -1\n\n"), NULL, NULL, ANSWER_HEADLESS,
			why },
		{ "signed", VIEW("Content-Length: +2\n\nhi"), NULL, NULL, ANSWER_HEADLESS,
			why },
		{ "hexadecimal", VIEW("Content-Length: 0x2\n\nhi"), NULL, NULL,
			ANSWER_HEADLESS, why },
		{ "text", VIEW("Content-Length: long\n\nhi"), NULL, NULL, ANSWER_HEADLESS,
			why },
	};

	CHECK_ROWS(rows);
}

Test(answer, answers_without_a_body_have_none)
{
	static const struct row rows[] = {
		{ "HEAD", VIEW("Content-Length: 5\n\n"), OK "Content-Length: 5\r\n", "",
			.no_body = true },
		{ "HEAD with a body", VIEW("Content-Length: 5\n\nhello"),
			OK "Content-Length: 5\r\n", "", .no_body = true },
		{ "HEAD, chunked", VIEW("Transfer-Encoding: chunked\n\n"), OK, "",
			.no_body = true },
		{ "HEAD, no chunks at all", VIEW("Transfer-Encoding: chunked\n\nhello"), OK,
			"", .no_body = true },
		{ "204", VIEW("Status: 204\nContent-Length: 5\n\nhello"),
			"Status: 204 No Content\r\n", "" },
		{ "304", VIEW("Status: 304\nContent-Length: 5\n\n"),
			"Status: 304 Not Modified\r\nContent-Length: 5\r\n", "" },
		{ "304 with a body", VIEW("Status: 304\n\nhello"),
			"Status: 304 Not Modified\r\n", "" },
	};

	CHECK_ROWS(rows);
}

#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"

Test(answer, chunk_framing_is_removed)
{
	static const struct row rows[] = {
		{ "one", VIEW(CHUNKED "5\r\nhello\r\n0\r\n\r\n"), OK, "hello" },
		{ "several", VIEW(CHUNKED "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), OK,
			"hello" },
		{ "none", VIEW(CHUNKED "0\r\n\r\n"), OK, "" },
		{ "hexadecimal",
			VIEW(CHUNKED "00a\r\n0123456789\r\n"
				     "B\r\n0123456789x\r\n0\r\n\r\n"),
			OK, "01234567890123456789x" },
		{ "extensions", VIEW(CHUNKED "5;a=\"b\"\r\nhello\r\n0 ; x\r\n\r\n"), OK,
			"hello" },
		{ "blanks behind the size", VIEW(CHUNKED "5  \r\nhello\r\n0\r\n\r\n"), OK,
			"hello" },
		{ "trailers", VIEW(CHUNKED "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\nmore"), OK,
			"hello" },
		{ "no empty line behind the last", VIEW(CHUNKED "5\r\nhello\r\n0\r\n"), OK,
			"hello" },
		{ "any case", VIEW("transfer-encoding: chunked\n\n1\r\n!\r\n0\r\n\r\n"), OK,
			"!" },
		{ "a length beside it",
			VIEW("Content-Length: 3\n" CHUNKED "5\r\nhello\r\n0\r\n\r\n"), OK,
			"hello" },
		{ "a wrong length beside it",
			VIEW("Content-Length: x\nContent-Length: 3\n" CHUNKED
			     "5\r\nhello\r\n0\r\n\r\n"),
			OK, "hello" },
		{ "framing inside the data", VIEW(CHUNKED "5\r\n0\r\n\r\n\r\n0\r\n\r\n"),
			OK, "0\r\n\r\n" },
	};

	CHECK_ROWS(rows);
}

Test(answer, broken_chunks_are_an_error_or_show_as_truncated)
{
	static const char *const broken = "broken chunk framing";
	const struct row rows[] = {
		/* Before anything was reported: somebody else can answer. */
		{ "no framing", VIEW(CHUNKED "hello"), NULL, NULL, ANSWER_HEADLESS,
			broken },
		{ "no size", VIEW(CHUNKED "\r\nhello"), NULL, NULL, ANSWER_HEADLESS,
			broken },
		{ "extension without a size", VIEW(CHUNKED ";a\r\n"), NULL, NULL,
			ANSWER_HEADLESS, broken },
		{ "0x", VIEW(CHUNKED "0x5\r\nhello\r\n"), NULL, NULL, ANSWER_HEADLESS,
			broken },
		{ "negative", VIEW(CHUNKED "-5\r\nhello\r\n"), NULL, NULL, ANSWER_HEADLESS,
			broken },
		{ "CR alone", VIEW(CHUNKED "5\rhello\r\n"), NULL, NULL, ANSWER_HEADLESS,
			broken },
		{ "control character", VIEW(CHUNKED "5;\001\r\nhello"), NULL, NULL,
			ANSWER_HEADLESS, broken },
		{ "bare LF", VIEW(CHUNKED "5\nhello\n0\n\n"), NULL, NULL, ANSWER_HEADLESS,
			broken },
		{ "size too large", VIEW(CHUNKED "10000000000000000\r\n"), NULL, NULL,
			ANSWER_HEADLESS, broken },
		{ "ends behind the head", VIEW(CHUNKED), NULL, NULL, ANSWER_HEADLESS },
		{ "ends in the first size", VIEW(CHUNKED "5"), NULL, NULL,
			ANSWER_HEADLESS },
		/* Afterwards. */
		{ "ends in the data", VIEW(CHUNKED "5\r\nhel"), OK, "hel",
			ANSWER_TRUNCATED },
		{ "ends before the last", VIEW(CHUNKED "5\r\nhello\r\n"), OK, "hello",
			ANSWER_TRUNCATED },
		{ "ends behind the first size", VIEW(CHUNKED "5\r\n"), OK, "",
			ANSWER_TRUNCATED },
		{ "data too long", VIEW(CHUNKED "4\r\nhello\r\n0\r\n\r\n"), OK, "hell",
			ANSWER_TRUNCATED, broken },
		{ "data too short", VIEW(CHUNKED "6\r\nhello\r\n0\r\n\r\n"), OK, "hello\r",
			ANSWER_TRUNCATED, broken },
		{ "second size", VIEW(CHUNKED "5\r\nhello\r\nxyz\r\n"), OK, "hello",
			ANSWER_TRUNCATED, broken },
		/* Other codings. */
		{ "gzip", VIEW("Transfer-Encoding: gzip\n\nx"), NULL, NULL, ANSWER_HEADLESS,
			"a transfer coding other than chunked" },
		{ "gzip, chunked", VIEW("Transfer-Encoding: gzip, chunked\n\n0\n\n"), NULL,
			NULL, ANSWER_HEADLESS, "a transfer coding other than chunked" },
		{ "chunked twice", VIEW("Transfer-Encoding: chunked\n" CHUNKED "0\r\n\r\n"),
			NULL, NULL, ANSWER_HEADLESS, "chunked twice" },
	};

	CHECK_ROWS(rows);
}

Test(answer, what_ends_before_its_head_does_is_told_from_what_never_came)
{
	static const struct row rows[] = {
		{ "nothing", VIEW(""), NULL, NULL, ANSWER_EMPTY },
		{ "one byte", VIEW("C"), NULL, NULL, ANSWER_HEADLESS },
		{ "a line without its end", VIEW("Status: 200 OK"), NULL, NULL,
			ANSWER_HEADLESS },
		{ "no empty line", VIEW("Content-Type: text/html\r\n"), NULL, NULL,
			ANSWER_HEADLESS },
		{ "CR of the empty line", VIEW("X: y\r\n\r"), NULL, NULL, ANSWER_HEADLESS },
	};

	CHECK_ROWS(rows);
}

/* "X: aaa...\n" with n bytes in all. */
static void add_line(struct buf *b, size_t n)
{
	buf_add(b, VIEW("X: "));
	for (size_t i = 4; i < n; i++)
		buf_add_byte(b, 'a');
	buf_add_byte(b, '\n');
}

Test(answer, a_header_too_large_is_refused_at_its_limit)
{
	static const char *const line = "header too large: a line over 16384 bytes";
	static const char *const head = "header too large: over 65536 bytes";
	static const struct {
		const char *name;
		size_t lines[6]; /* bytes of each */
		const char *why;
	} rows[] = {
		{ "9000 bytes", { 9000 }, NULL },
		{ "longest line", { ANSWER_LINE_MAX }, NULL },
		{ "line too long", { ANSWER_LINE_MAX + 1 }, line },
		{ "second line too long", { 10, ANSWER_LINE_MAX + 1 }, line },
		{ "longest head", { 16384, 16384, 16384, 16383 }, NULL },
		{ "head too long by the empty line", { 16384, 16384, 16384, 16384 }, head },
		{ "head too long", { 16384, 16384, 16384, 16000, 16000 }, head },
		{ "both", { 16384, 16384, 16384, 16000, 70000 }, head },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf in = { 0 };
		struct result r;

		for (size_t k = 0; rows[i].lines[k]; k++)
			add_line(&in, rows[i].lines[k]);
		buf_add(&in, VIEW("\nbody"));
		r = run_cut(rows[i].name, buf_view(&in), false, false);
		cr_assert_eq(r.bad, rows[i].why != NULL, "%s", rows[i].name);
		if (rows[i].why)
			cr_assert_str_eq(r.why, rows[i].why, "%s", rows[i].name);
		else
			cr_assert(view_eq(buf_view(&r.body), VIEW("body")), "%s",
				rows[i].name);
		cr_assert_eq(r.end, rows[i].why ? ANSWER_HEADLESS : ANSWER_WHOLE);
		result_release(&r);
		buf_release(&in);
	}
}

Test(answer, a_line_without_an_end_is_refused_before_more_of_it_is_kept)
{
	struct answer a;
	char block[1024];
	size_t fed = 0;
	enum answer_event e = ANSWER_MORE;

	memset(block, 'x', sizeof(block));
	answer_init(&a, false);
	while (e == ANSWER_MORE && fed < 1000000) {
		struct view in = view_of(block, sizeof(block)), piece;

		e = answer_next(&a, &in, &piece);
		fed += sizeof(block);
		cr_assert_leq(a.raw.cap, 2 * ANSWER_LINE_MAX);
	}
	cr_assert_eq(e, ANSWER_BAD);
	cr_assert_leq(fed, ANSWER_LINE_MAX + sizeof(block));
	answer_release(&a);
}

Test(answer, a_size_line_without_an_end_is_refused)
{
	struct buf in = { 0 };
	struct result r;

	buf_add(&in, VIEW(CHUNKED "5;"));
	for (int i = 0; i < ANSWER_LINE_MAX; i++)
		buf_add_byte(&in, 'e');
	buf_add(&in, VIEW("\r\nhello\r\n0\r\n\r\n"));
	r = run_cut("extension", buf_view(&in), false, false);
	cr_assert(r.bad);
	cr_assert_str_eq(r.why, "broken chunk framing");
	result_release(&r);
	buf_release(&in);
}

Test(answer, any_soup_of_pieces_gives_the_same_for_every_cut)
{
	static const char *const pieces[] = { "Status: 200", "Status", ": ", ":", "\n",
		"\r\n", "\r", " ", "\t", "X-A: 1", "Content-Length: 3",
		"Transfer-Encoding: chunked", "Location: /", "\n\n", "3\r\nabc\r\n",
		"0\r\n", "hello", "HTTP/1.1 404 No", ",", "3", "\x01" };
	uint32_t seed = 1;

	for (int i = 0; i < 3000; i++) {
		struct buf in = { 0 };
		struct result r;

		for (uint32_t k = 0; k < 3 + seed % 9; k++) {
			seed = seed * 1664525 + 1013904223;
			buf_add_str(&in, pieces[(seed >> 16) % COUNT_OF(pieces)]);
		}
		seed = seed * 1664525 + 1013904223;
		r = run_cut("soup", buf_view(&in), seed >> 31, seed >> 30 & 1);
		if (r.heads)
			cr_assert(view_starts(buf_view(&r.head), VIEW("Status: ")));
		result_release(&r);
		buf_release(&in);
	}
}

Test(answer, after_bad_it_stays_bad)
{
	struct answer a;
	struct view in = VIEW("hello\nX: y\n\n"), piece;

	answer_init(&a, false);
	cr_assert_eq(answer_next(&a, &in, &piece), ANSWER_BAD);
	in = VIEW("Status: 200 OK\n\nbody");
	cr_assert_eq(answer_next(&a, &in, &piece), ANSWER_BAD);
	cr_assert_str_eq(a.why, "text without a header");
	answer_release(&a);
}

Test(reason, every_status_has_words)
{
	static const struct {
		int status;
		const char *phrase;
	} rows[] = { { 200, "OK" }, { 302, "Found" }, { 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" }, { 504, "Gateway Timeout" },
		{ 299, "Success" }, { 399, "Redirection" }, { 499, "Client Error" },
		{ 599, "Server Error" }, { 0, "Unknown" }, { 600, "Unknown" },
		{ -1, "Unknown" } };

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_assert_str_eq(reason_phrase(rows[i].status), rows[i].phrase);
}
