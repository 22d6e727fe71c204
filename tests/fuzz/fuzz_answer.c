/*
 * fuzz_answer.c - proxy/answer on the output of a CGI program or FastCGI application.
 *
 * The output is fed three times: whole, and in cuts that the input chooses. The results
 * are equal, and what is reported is something a web server can be given: fed again, as
 * if a backend had said it, it comes out as it is.
 *
 * Input: a byte of flags, three bytes that say where to cut, and the output.
 */
#include "fuzz.h"
#include "proxy/answer.h"

enum {
	NO_BODY = 1,
	KEEP_SENDFILE = 2,
	OWN_RATE_LIMIT = 4,
	OWN_X_RATE_LIMIT = 8,
};

struct result {
	struct buf head, body;
	const char *why;
	enum answer_end end;
	size_t heads;
	int status;
};

static bool starts_nocase(struct view v, struct view prefix)
{
	return v.n >= prefix.n && view_eq_nocase(view_of(v.p, prefix.n), prefix);
}

static void check_name(struct view name, int flags)
{
	static const char *const never[] = { "Transfer-Encoding", "Connection",
		"Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Upgrade" };

	for (size_t i = 0; i < name.n; i++)
		MUST(name.p[i] > ' ' && name.p[i] < 0x7f);
	MUST(name.n > 0);
	for (size_t i = 0; i < COUNT_OF(never); i++)
		MUST(!view_eq_nocase(name, view_str(never[i])));
	if (!(flags & KEEP_SENDFILE)) {
		MUST(!starts_nocase(name, VIEW("X-Sendfile")));
		MUST(!starts_nocase(name, VIEW("X-LIGHTTPD-")));
		MUST(!starts_nocase(name, VIEW("X-Accel-")) ||
			view_eq_nocase(name, VIEW("X-Accel-Buffering")));
	}
	if (flags & OWN_RATE_LIMIT)
		MUST(!view_eq_nocase(name, VIEW("RateLimit")) &&
			!view_eq_nocase(name, VIEW("RateLimit-Policy")));
	if (flags & OWN_X_RATE_LIMIT)
		MUST(!starts_nocase(name, VIEW("X-RateLimit-")));
}

/* Every line "Name: value" with its CRLF, no other control character, Status first. */
static void check_head(struct view head, int status, int flags)
{
	char first[16];
	size_t lines = 0;

	snprintf(first, sizeof(first), "Status: %d ", status);
	MUST(view_starts(head, view_str(first)));
	MUST(status >= 200 && status <= 599);
	while (head.n) {
		struct view line = view_cut(&head, '\n');
		struct view name;

		MUST(line.n && line.p[line.n - 1] == '\r');
		line.n--;
		for (size_t i = 0; i < line.n; i++) {
			unsigned char c = (unsigned char)line.p[i];

			MUST(c == '\t' || (c >= 0x20 && c != 0x7f));
		}
		name = view_cut(&line, ':');
		check_name(name, flags);
		MUST(line.n && line.p[0] == ' ');
		MUST(view_eq_nocase(name, VIEW("Status")) == (lines == 0));
		lines++;
	}
}

static void feed(struct answer *a, struct view in, struct result *r, int flags)
{
	while (!r->why) {
		struct view piece = { 0 };
		size_t before = in.n;

		switch (answer_next(a, &in, &piece)) {
		case ANSWER_MORE: MUST(in.n == 0); return;
		case ANSWER_HEAD:
			MUST(r->heads++ == 0);
			r->status = a->status;
			buf_add(&r->head, buf_view(&a->head));
			check_head(buf_view(&a->head), a->status, flags);
			MUST(!a->raw.p && !a->fields.p);
			break;
		case ANSWER_BODY:
			MUST(r->heads == 1 && piece.n && in.n < before);
			buf_add(&r->body, piece);
			break;
		case ANSWER_BAD: MUST((r->why = a->why)); break;
		}
	}
}

static struct result run(struct view in, int flags, const size_t *cuts, size_t n_cuts)
{
	struct result r = { 0 };
	struct answer a;

	answer_init(&a, flags & NO_BODY);
	a.keep_sendfile = flags & KEEP_SENDFILE;
	a.own_rate_limit = flags & OWN_RATE_LIMIT;
	a.own_x_rate_limit = flags & OWN_X_RATE_LIMIT;
	for (size_t i = 0; i <= n_cuts && !r.why; i++) {
		struct view piece = fuzz_take(&in, i < n_cuts ? cuts[i] : in.n);
		struct view copy = fuzz_copy(piece);

		feed(&a, copy, &r, flags);
		fuzz_drop(copy);
	}
	r.end = answer_finish(&a);
	MUST(r.heads == (r.end == ANSWER_WHOLE || r.end == ANSWER_TRUNCATED));
	MUST(!r.why || r.end == ANSWER_HEADLESS || r.end == ANSWER_TRUNCATED);
	MUST(!r.body.n || !((flags & NO_BODY) || r.status == 204 || r.status == 304));
	answer_release(&a);
	return r;
}

static void release(struct result *r)
{
	buf_release(&r->head);
	buf_release(&r->body);
}

static void check_same(const struct result *a, const struct result *b)
{
	MUST(a->why == b->why);
	MUST(a->end == b->end);
	MUST(a->status == b->status);
	MUST(view_eq(buf_view(&a->head), buf_view(&b->head)));
	MUST(view_eq(buf_view(&a->body), buf_view(&b->body)));
}

/* What went out is itself an answer, and stays as it is. A body whose chunks broke off
 * has no length that would tell. */
static void check_again(const struct result *r, int flags)
{
	struct buf said = { 0 };
	struct result again;

	if (!r->heads || r->head.n > ANSWER_LINE_MAX)
		return;
	buf_add(&said, buf_view(&r->head));
	buf_add(&said, VIEW("\r\n"));
	buf_add(&said, buf_view(&r->body));
	again = run(buf_view(&said), flags, NULL, 0);
	MUST(again.heads == 1 && !again.why);
	MUST(again.status == r->status);
	MUST(view_eq(buf_view(&again.head), buf_view(&r->head)));
	MUST(view_eq(buf_view(&again.body), buf_view(&r->body)));
	release(&again);
	buf_release(&said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view in;
	struct result whole, cut;

	if (size < 4)
		return 0;
	in = view_of((const char *)data + 4, size - 4);
	whole = run(in, data[0], NULL, 0);
	for (size_t i = 0; i < 2; i++) {
		size_t cuts[] = { data[1 + i], data[3] };

		cut = run(in, data[0], cuts, 1 + i);
		check_same(&whole, &cut);
		release(&cut);
	}
	check_again(&whole, data[0]);
	release(&whole);
	return 0;
}
