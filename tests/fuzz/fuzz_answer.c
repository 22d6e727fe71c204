/*
 * Feeds one backend's output to proxy/answer three times: whole, and in two cuts the
 * input chooses. The results must be equal, and what is reported must be something a
 * web server can be given. Build and run from the project's root:
 *
 *	clang -g -O1 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -Ifilter \
 *		tests/fuzz/fuzz_answer.c filter/proxy/answer.c filter/proxy/reason.c \
 *		filter/base/buf.c filter/base/view.c -o fuzz_answer
 *	./fuzz_answer -max_len=4096
 */
#include <stdio.h>
#include <stdlib.h>

#include "proxy/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                 \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

struct result {
	struct buf head, body;
	const char *why;
	enum answer_end end;
	size_t heads;
	int status;
};

/* Every line "Name: value" with its CRLF, no other control character, Status first. */
static void check_head(struct view head, int status)
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
		MUST(name.n && !memchr(name.p, ' ', name.n) && line.p && line.p[0] == ' ');
		MUST(view_eq_nocase(name, VIEW("Status")) == (lines == 0));
		MUST(!view_eq_nocase(name, VIEW("Transfer-Encoding")));
		MUST(!view_eq_nocase(name, VIEW("Connection")));
		lines++;
	}
}

static void feed(struct answer *a, struct view in, struct result *r)
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
			check_head(buf_view(&a->head), a->status);
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

static struct result run(
	struct view in, bool no_body, bool keep_sendfile, const size_t *cuts, size_t n_cuts)
{
	struct result r = { 0 };
	struct answer a;

	answer_init(&a, no_body);
	a.keep_sendfile = keep_sendfile;
	for (size_t i = 0; i <= n_cuts && !r.why; i++) {
		size_t n = i < n_cuts && cuts[i] < in.n ? cuts[i] : in.n;
		/* A copy of its own, so that a byte read too far is seen. */
		char *copy = malloc(n);

		MUST(copy || !n);
		if (n)
			memcpy(copy, in.p, n);
		feed(&a, view_of(copy, n), &r);
		free(copy);
		in = view_skip(in, n);
	}
	r.end = answer_finish(&a);
	MUST(r.heads == (r.end == ANSWER_WHOLE || r.end == ANSWER_TRUNCATED));
	MUST(!r.why || r.end == ANSWER_HEADLESS || r.end == ANSWER_TRUNCATED);
	MUST(!r.body.n || !(no_body || r.status == 204 || r.status == 304));
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view in;
	struct result whole, cut;

	if (size < 4)
		return 0;
	in = view_of((const char *)data + 4, size - 4);
	whole = run(in, data[0] & 1, data[0] & 2, NULL, 0);
	for (size_t i = 0; i < 2; i++) {
		/* One cut, then two; the places are bytes 1 to 3 of the input. */
		size_t cuts[] = { data[1 + i], data[3] };

		cut = run(in, data[0] & 1, data[0] & 2, cuts, 1 + i);
		check_same(&whole, &cut);
		release(&cut);
	}
	release(&whole);
	return 0;
}
