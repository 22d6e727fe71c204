/*
 * test_conformance.c - the same bytes to weir and to libfcgi, the same request seen.
 *
 * Ten thousand generated well-formed requests: parameters with lengths of one byte and
 * of four, in any number of records cut anywhere, padded or not, with bodies likewise.
 * Each goes to the echo handler (a libfcgi program) directly and through weir, and
 * both say what they got.
 *
 * weir adds WEIR_* parameters; that is the whole difference. Not generated are what the
 * two treat differently on purpose: HTTP_PROXY, which weir drops, FCGI_ROLE, which
 * libfcgi sets itself, values with a NUL, which libfcgi cuts there, and padding in the
 * record that ends PARAMS, which libfcgi takes for the next record. The seed is printed;
 * WEIR_TEST_SEED repeats a run.
 */
#include "site.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS 10000

enum {
	BEGIN_REQUEST = 1,
	PARAMS = 4,
	STDIN = 5
};

static uint64_t state;

/* xorshift64*; below n. */
static size_t any(size_t n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (size_t)((state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % n;
}

/* Mostly short; sometimes around the border of the lengths, sometimes long. */
static size_t any_length(void)
{
	switch (any(10)) {
	case 0: return 0;
	case 1: return 126 + any(4);
	case 2: return any(4000);
	default: return any(40);
	}
}

static void put_random_pair(struct buf *pairs, unsigned number)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-.";
	struct buf name = { 0 }, value = { 0 };

	buf_addf(&name, "X%u_", number);
	for (size_t n = any(20) ? any(12) : 100 + any(100); n; n--)
		buf_add_byte(&name, letters[any(sizeof(letters) - 1)]);
	for (size_t n = any_length(); n; n--)
		buf_add_byte(&value, (char)(1 + any(255)));
	fcgi_pair(pairs, buf_view(&name), buf_view(&value));
	buf_release(&name);
	buf_release(&value);
}

/* A stream in records cut anywhere, with its end. */
static void put_stream(struct buf *b, unsigned type, unsigned id, struct view content)
{
	size_t most = any(3) ? 65535 : 1 + any(300);

	while (content.n) {
		size_t n = content.n < most ? content.n : most;

		n = any(2) ? n : 1 + any(n);
		fcgi_record(b, type, id, view_of(content.p, n),
			any(2) ? 0 : (unsigned)any(256));
		content = view_skip(content, n);
	}
	fcgi_record(b, type, id, view_of(NULL, 0),
		type == PARAMS || any(3) ? 0 : (unsigned)any(256));
}

static void generate(struct buf *b)
{
	static char body[40000];
	size_t body_n = any(3) ? any(2000) : any(sizeof(body));
	unsigned id = any(4) ? 1 : 1 + (unsigned)any(65535);
	struct buf pairs = { 0 };

	body_n = any(4) ? body_n : 0;
	pattern_fill(body, any(1 << 20), body_n);
	for (size_t n = any(12); n; n--)
		put_random_pair(&pairs, (unsigned)n);
	fcgi_pair(&pairs, VIEW("QUERY_STRING"), VIEW("format=json"));
	fcgi_pair(&pairs, VIEW("REQUEST_METHOD"), body_n ? VIEW("POST") : VIEW("GET"));
	fcgi_pair(&pairs, VIEW("REQUEST_URI"), VIEW("/x?format=json"));
	fcgi_pair(&pairs, VIEW("REMOTE_ADDR"), VIEW("192.0.2.1"));
	fcgi_pair(&pairs, VIEW("CONTENT_LENGTH"), view_str(text("%zu", body_n)));
	for (size_t n = any(12); n; n--)
		put_random_pair(&pairs, 100 + (unsigned)n);
	fcgi_begin(b, id, 1, 0);
	put_stream(b, PARAMS, id, buf_view(&pairs));
	put_stream(b, STDIN, id, view_of(body, body_n));
	buf_release(&pairs);
}

/* Sends bytes in a few pieces of any size and gives the handler's report. */
static json_t *report_of(const char *addr, struct view bytes)
{
	struct fcgi_answer a;
	int fd = dial(addr);
	json_t *report;

	cr_assert(fd >= 0);
	for (size_t pieces = any(4); pieces && bytes.n; pieces--) {
		size_t n = any(bytes.n);

		cr_assert(fcgi_send(fd, view_of(bytes.p, n), 5000));
		bytes = view_skip(bytes, n);
	}
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, bytes, &a, FCGI_UNTIL_END, 10000) && a.ends == 1,
		"%s: no answer", addr);
	cr_assert_eq(answer_status(&a), 200, "%s: %d: %.*s", addr, answer_status(&a),
		(int)a.out.n, a.out.p);
	report = json_of(answer_body(&a));
	close(fd);
	fcgi_answer_release(&a);
	return report;
}

/* Takes weir's own parameters out of its report. */
static void drop_added(json_t *report)
{
	json_t *params = json_object_get(report, "params");

	for (size_t i = json_array_size(params); i-- > 0;) {
		const char *name = json_string_value(
			json_array_get(json_array_get(params, i), 0));

		if (name && strncmp(name, "WEIR_", 5) == 0)
			json_array_remove(params, i);
	}
}

static void explain(unsigned number, const json_t *over_weir, const json_t *direct)
{
	json_t *a = json_object_get(over_weir, "params"),
	       *b = json_object_get(direct, "params");

	for (size_t i = 0; i < json_array_size(a) || i < json_array_size(b); i++)
		if (!json_equal(json_array_get(a, i), json_array_get(b, i)))
			fail("request %u, parameter %zu: over weir %s, directly %s", number,
				i, json_dumps(json_array_get(a, i), JSON_ENCODE_ANY),
				json_dumps(json_array_get(b, i), JSON_ENCODE_ANY));
	fail("request %u: bodies of %lld and %lld bytes", number,
		json_integer_value(json_object_get(over_weir, "body_bytes")),
		json_integer_value(json_object_get(direct, "body_bytes")));
}

Test(conformance, every_request_is_seen_as_libfcgi_sees_it, .timeout = 120)
{
	const char *seed = getenv("WEIR_TEST_SEED");
	struct site *s = site_start(&(struct site_spec){ .no_php = true });

	state = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
	printf("conformance: WEIR_TEST_SEED=%llu\n", (unsigned long long)state);
	fflush(stdout);
	state = state * 2 + 1;
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct buf b = { 0 };
		json_t *direct, *over_weir;

		generate(&b);
		direct = report_of(s->echo, buf_view(&b));
		over_weir = report_of(s->addr, buf_view(&b));
		drop_added(over_weir);
		if (!json_equal(direct, over_weir))
			explain(i, over_weir, direct);
		json_decref(direct);
		json_decref(over_weir);
		buf_release(&b);
	}
	cr_assert(weir_counts(s->weir, "requests_passed", REQUESTS, 5000));
}
