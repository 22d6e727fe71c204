/*
 * test_smuggling.c - a refusal is given before the body was read. What is in that body
 * must never be taken for the next request on the connection: whoever writes it would
 * choose REMOTE_ADDR.
 *
 * libfcgi does take it where a read happens to end at the forged record, so the forged
 * requests here stand at every place such an end could be.
 */
#include "site.h"

#include <sys/socket.h>
#include <unistd.h>

#define FORGED_URI "/forged"

/* A POST body of n bytes: filler, then one forged request after another. */
static void forge_body(struct buf *body, size_t filler, size_t n)
{
	struct fcgi_request forged = {
		.uri = FORGED_URI, .address = "127.0.0.1", .keep = true
	};

	while (body->n < filler)
		buf_add_byte(body, 'x');
	while (body->n < n)
		fcgi_compose(body, &forged);
}

/* Counts how often word stands in v. */
static size_t occurrences(struct view v, const char *word)
{
	size_t n = 0, len = strlen(word);

	for (size_t i = 0; i + len <= v.n; i++)
		n += memcmp(v.p + i, word, len) == 0;
	return n;
}

struct attack {
	const char *uri;
	int status;
};

static void attack(const char *addr, const struct attack *how, size_t filler, size_t n)
{
	struct fcgi_request rq = {
		.uri = how->uri, .keep = true, .address = "203.0.113.9"
	};
	struct buf body = { 0 }, b = { 0 };
	struct fcgi_answer a;
	int fd = dial(addr);

	forge_body(&body, filler, n);
	rq.body = buf_view(&body);
	fcgi_compose(&b, &rq);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 10000),
		"%s: no answer", how->uri);
	cr_assert_eq(answer_status(&a), how->status, "%s: %d", how->uri, answer_status(&a));
	/* What was sent is read to its end before the end is seen. */
	shutdown(fd, SHUT_WR);
	cr_assert(fcgi_exchange(fd, view_of(NULL, 0), &a, FCGI_UNTIL_CLOSED, 10000));
	cr_assert_eq(a.ends, 1, "%s, filler %zu: %u requests answered", how->uri, filler,
		a.ends);
	cr_assert_eq(occurrences(buf_view(&a.out), "Status:"), 1);
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&body);
	buf_release(&b);
}

static const struct attack attacks[] = {
	{ "/never", 403 },   /* count=0 */
	{ "/spent", 429 },   /* limit reached */
	{ "/nobody", 404 },  /* no endpoint */
	{ "/reached", 200 }, /* read whole, so the connection is kept */
};

Test(smuggling, finds_no_request_in_the_body_of_another, .timeout = 120)
{
	static const struct backend_script plain;
	const char *addr = addr_unix("plain.sock");
	struct backend *b = backend_start(addr, &plain);
	struct weir *w = weir_start(&(struct weir_spec){ .server = "workers = 1\n",
		.sections = text(
			"[store]\ntype = memory\n[backend plain]\nfastcgi = %s\n", addr),
		.endpoints = "[endpoint never]\nmatch = * /never\nbackend = plain\n"
			     "@RateLimit = type=ip count=0\n"
			     "[endpoint spent]\nmatch = * /spent\nbackend = plain\n"
			     "@RateLimit = type=ip count=1 window=1h\n"
			     "[endpoint forged]\nmatch = * " FORGED_URI
			     "\nbackend = plain\n"
			     "[endpoint reached]\nmatch = * /reached\nbackend = plain\n" });
	struct fcgi_request first = { .uri = "/spent", .address = "203.0.113.9" };
	unsigned reached = 1, sent = 1;
	struct fcgi_answer a;

	cr_assert(fcgi_call(w->addr, &first, &a, 5000));
	fcgi_answer_release(&a);
	for (size_t i = 0; i < COUNT_OF(attacks); i++) {
		for (size_t filler = 0; filler < 9; filler++)
			attack(w->addr, &attacks[i], filler, 200000);
		/* A forged request begins where a buffer of 4, 8, 16, 32 or 64 KiB ends. */
		for (size_t size = 4096; size <= 65536; size *= 2)
			for (size_t head = 0; head < 1024; head += 8)
				attack(w->addr, &attacks[i], size - head,
					size - head + 400);
		sent += 9 + 5 * 128;
		reached += attacks[i].status == 200 ? 9 + 5 * 128 : 0;
	}
	cr_assert(weir_counts(w, "requests", sent, 5000), "%ld requests seen, %u sent",
		weir_counter(w, "requests"), sent);
	cr_assert_eq(backend_count(b).requests, reached,
		"%u requests reached the backend, not %u", backend_count(b).requests,
		reached);
	cr_assert(weir_counts(w, "requests_unmatched", 9 + 5 * 128, 5000));
	cr_assert_eq(weir_counter(w, "requests_bad"), 0);
	cr_assert(process_running(w->process));
}

/* Once it was read to its end the connection is good for the next request, and only
 * for that. */
Test(smuggling, serves_the_next_request_on_a_connection_whose_body_was_read)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	struct fcgi_request rq = { .uri = "/a", .keep = true };
	struct buf body = { 0 }, b = { 0 };
	struct fcgi_answer a;
	int fd = dial(s->addr);

	forge_body(&body, 5, 300000);
	rq.body = buf_view(&body);
	fcgi_compose(&b, &rq);
	fcgi_answer_init(&a);
	for (unsigned i = 1; i <= 3; i++) {
		cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 5000));
		cr_assert(!a.closed);
		cr_assert_eq(a.ends, i);
	}
	cr_assert_eq(occurrences(buf_view(&a.out), "REQUEST_URI=/a"), 3);
	cr_assert_eq(occurrences(buf_view(&a.out), FORGED_URI), 0);
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&body);
	buf_release(&b);
}
