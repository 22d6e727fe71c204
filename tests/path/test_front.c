/*
 * test_front.c - what weir makes of bytes that come from a web server, or from whoever
 * else reached its socket: in any cut, wrong, forged, contradicting themselves.
 */
#include "faults.h"
#include "site.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	BEGIN_REQUEST = 1,
	ABORT_REQUEST = 2,
	PARAMS = 4,
	STDIN = 5,
	GET_VALUES = 9,
	GET_VALUES_RESULT = 10,
	UNKNOWN_TYPE = 11,
	REQUEST_COMPLETE = 0,
	CANT_MPX_CONN = 1,
	UNKNOWN_ROLE = 3,
};

#define EMPTY view_of(NULL, 0)

static struct site *small_site(const char *server)
{
	return site_start(&(struct site_spec){ .server = server, .no_php = true });
}

/* Sends bytes on a new connection and waits until weir closes it. */
static void send_until_closed(
	const struct site *s, const char *what, const struct buf *bytes)
{
	struct fcgi_answer a;
	int fd = dial(s->addr);

	fcgi_answer_init(&a);
	cr_assert(fd >= 0, "%s: no connection", what);
	cr_assert(fcgi_exchange(fd, buf_view(bytes), &a, FCGI_UNTIL_CLOSED, 5000),
		"%s: the connection stays open", what);
	cr_assert_eq(a.out.n, 0, "%s: answered %.*s", what, (int)a.out.n, a.out.p);
	close(fd);
	fcgi_answer_release(&a);
}

static void expect_served(const struct site *s, const char *after)
{
	cr_assert_eq(site_get(s, "/x"), 200, "not served after %s", after);
}

/* ---- In any cut ---- */

Test(front, serves_others_while_a_connection_stops_in_the_middle_of_its_head)
{
	struct site *s = small_site("head_timeout = 4s\n");
	struct fcgi_request rq = { .uri = "/x" };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fds[8];

	fcgi_compose_head(&b, &rq);
	for (size_t i = 0; i < COUNT_OF(fds); i++) { /* another cut each */
		fds[i] = dial(s->addr);
		cr_assert(fcgi_send(fds[i], view_of(b.p, 3 + i * 13), 1000));
	}
	for (int i = 0; i < 20; i++) {
		int64_t began = now_ms();

		expect_served(s, "half a head");
		cr_assert(now_ms() - began < 3500);
	}
	/* And the silent ones are let go when their time is over. */
	for (size_t i = 0; i < COUNT_OF(fds); i++) {
		fcgi_answer_init(&a);
		cr_assert(fcgi_exchange(fds[i], EMPTY, &a, FCGI_UNTIL_CLOSED, 20000));
		close(fds[i]);
		fcgi_answer_release(&a);
	}
	cr_assert(weir_counts(s->weir, "connections_slow", COUNT_OF(fds), 2000));
	buf_release(&b);
}

Test(front, reads_a_head_that_comes_byte_by_byte)
{
	struct site *s = small_site(NULL);
	struct fcgi_request rq = { .uri = "/x?a=b", .body = VIEW("hello") };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(s->addr);

	fcgi_compose(&b, &rq);
	for (size_t i = 0; i < b.n; i++)
		cr_assert(fcgi_send(fd, view_of(b.p + i, 1), 1000));
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_END, 5000));
	cr_assert_eq(answer_status(&a), 200);
	cr_assert_str_eq(line_of(answer_body(&a), "QUERY_STRING"), "a=b");
	cr_assert_str_eq(line_of(answer_body(&a), "body_sha256"), sha256_of(VIEW("hello")));
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

/* cgi-fcgi and Apache cut PARAMS wherever 8 or 16 KiB are full: in the middle of a
 * pair, or of a length. php-fpm takes no such pair, so it must be cut anew for it
 * (https://github.com/php/php-src/issues/16042). */
Test(front, accepts_pairs_cut_over_records_and_hands_them_to_php_uncut, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ 0 });
	struct buf pairs = { 0 };
	struct fcgi_request rq = { .uri = "/hello.php",
		.script = text("%s/hello.php", s->programs) };

	for (int i = 0; i < 494; i++) {
		const char *name = text("TEST_ENV_%d", i);

		fcgi_pair(&pairs, view_str(name), VIEW("f"));
	}
	fcgi_pair(&pairs, VIEW("LONG"), view_str(text("%0300d", 7)));
	fcgi_compose_params(&pairs, &rq);
	for (size_t cut = 1; cut < 4000; cut = cut * 3 + 1) {
		struct view left = buf_view(&pairs);
		struct fcgi_answer a;
		struct buf b = { 0 };
		int fd = dial(s->addr);

		fcgi_begin(&b, 1, 1, 0);
		while (left.n) {
			size_t n = left.n < cut ? left.n : cut;

			fcgi_record(&b, PARAMS, 1, view_of(left.p, n), (unsigned)n % 8);
			left = view_skip(left, n);
		}
		fcgi_record(&b, PARAMS, 1, EMPTY, 0);
		fcgi_record(&b, STDIN, 1, EMPTY, 0);
		fcgi_answer_init(&a);
		cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 10000));
		cr_assert_eq(answer_status(&a), 200, "cut every %zu bytes: %d", cut,
			answer_status(&a));
		cr_assert_not_null(line_of(answer_body(&a), "TEST_ENV_493"));
		close(fd);
		fcgi_answer_release(&a);
		buf_release(&b);
	}
	buf_release(&pairs);
}

/* ---- Malformed ---- */

static const struct {
	const char *what;
	struct view bytes;
} malformed[] = {
	{ "version 0", VIEW_INIT("\0\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0") },
	{ "version 2", VIEW_INIT("\2\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0") },
	{ "HTTP", VIEW_INIT("GET / HTTP/1.1\r\nHost: x\r\n\r\n") },
	{ "a BEGIN_REQUEST of seven bytes", VIEW_INIT("\1\1\0\1\0\7\0\0\0\1\0\0\0\0\0") },
	{ "a BEGIN_REQUEST of nine bytes",
		VIEW_INIT("\1\1\0\1\0\11\0\0\0\1\0\0\0\0\0\0\0") },
	{ "a BEGIN_REQUEST with id 0", VIEW_INIT("\1\1\0\0\0\10\0\0\0\1\0\0\0\0\0\0") },
	{ "an END_REQUEST from a web server",
		VIEW_INIT("\1\3\0\1\0\10\0\0\0\0\0\0\0\0\0\0") },
	{ "STDOUT from a web server", VIEW_INIT("\1\6\0\1\0\1\0\0x") },
	/* https://github.com/FastCGI-Archives/fcgi2/issues/67 (CVE-2025-23016) */
	{ "a pair of twice 2 GiB",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\4\0\1\0\14\0\0\377\377\377\377\377\377\377\377AAAA"
			  "\1\4\0\1\0\0\0\0\1\5\0\1\0\0\0\0") },
	{ "a pair of twice 2 GiB less one",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\4\0\1\0\14\0\0\377\377\377\376\377\377\377\376AAAA"
			  "\1\4\0\1\0\0\0\0\1\5\0\1\0\0\0\0") },
	{ "a value one byte longer than there is",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\4\0\1\0\5\0\0\1\3Abc"
			  "\1\4\0\1\0\0\0\0\1\5\0\1\0\0\0\0") },
	{ "a value one byte shorter than there is",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\4\0\1\0\5\0\0\1\1Abc"
			  "\1\4\0\1\0\0\0\0\1\5\0\1\0\0\0\0") },
	{ "a length of four bytes cut after three",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\4\0\1\0\3\0\0\200\0\0"
			  "\1\4\0\1\0\0\0\0\1\5\0\1\0\0\0\0") },
	{ "a record one byte longer than it says",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\4\0\1\0\4\0\0\1\2Abc"
			  "\1\4\0\1\0\0\0\0\1\5\0\1\0\0\0\0") },
	{ "a record one byte shorter than it says",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\4\0\1\0\6\0\0\1\2Abc"
			  "\1\4\0\1\0\0\0\0\1\5\0\1\0\0\0\0") },
	{ "STDIN in the middle of PARAMS",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\4\0\1\0\5\0\0\1\2Abc\1\5\0\1\0\0\0\0") },
	{ "a second BEGIN_REQUEST for one id",
		VIEW_INIT("\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0"
			  "\1\1\0\1\0\10\0\0\0\1\0\0\0\0\0\0") },
};

Test(front, closes_on_what_is_not_fastcgi_and_serves_on)
{
	struct site *s = small_site(NULL);

	for (size_t i = 0; i < COUNT_OF(malformed); i++) {
		struct buf b = { 0 };

		buf_add(&b, malformed[i].bytes);
		send_until_closed(s, malformed[i].what, &b);
		expect_served(s, malformed[i].what);
		buf_release(&b);
	}
	cr_assert(process_running(s->weir->process));
	cr_assert(weir_counts(s->weir, "connections_malformed", COUNT_OF(malformed), 5000));
	cr_assert(weir_counts(s->weir, "requests", COUNT_OF(malformed), 5000));
}

Test(front, logs_malformed_connections_once_a_minute)
{
	struct site *s = small_site(NULL);
	const char *log, *first, *words = "not FastCGI";

	for (int i = 0; i < 20; i++) {
		struct buf b = { 0 };

		buf_add_str(&b, "GET / HTTP/1.1\r\n\r\n");
		send_until_closed(s, "HTTP", &b);
		buf_release(&b);
	}
	cr_assert(process_logs(s->weir->process, words, 2000));
	log = process_log(s->weir->process);
	first = strstr(log, words);
	cr_assert_null(strstr(first + 1, words), "%s", log);
}

/* A web server that dies while it sends the parameters must not have half of them
 * taken for a request without an address. */
Test(front, takes_no_truncated_head_for_a_request)
{
	static const struct backend_script plain;
	const char *addr = addr_unix("plain.sock");
	struct backend *b = backend_start(addr, &plain);
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.sections = text("[backend plain]\nfastcgi = %s\n", addr),
		.endpoints = "[endpoint all]\nmatch = * /**\nbackend = plain\n" });
	struct buf bytes = { 0 }, pairs = { 0 };
	struct fcgi_answer a;
	int fd = dial(s->addr);

	fcgi_pair(&pairs, VIEW("REQUEST_URI"), VIEW("/x"));
	fcgi_begin(&bytes, 1, 1, 0);
	fcgi_record(&bytes, PARAMS, 1, buf_view(&pairs), 0);
	cr_assert(fcgi_send(fd, buf_view(&bytes), 1000));
	shutdown(fd, SHUT_WR);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_CLOSED, 5000));
	cr_assert_eq(a.out.n, 0);
	close(fd);
	expect_served(s, "a truncated head");
	cr_assert_eq(backend_count(b).requests, 1);
	cr_assert(weir_counts(s->weir, "requests", 1, 5000));
	fcgi_answer_release(&a);
	buf_release(&bytes);
	buf_release(&pairs);
}

/* Nothing is waited for where all has been read: the peer may keep its side open. */
Test(front, closes_with_the_answer_when_the_whole_request_has_been_read)
{
	static const uint16_t roles[] = { 1, 2 };
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.server = "drain_timeout = 1h\n",
		.endpoints = "[endpoint none]\nmatch = * /none\n"
			     "@RateLimit = type=ip count=0 window=1h\n" });

	for (size_t i = 0; i < COUNT_OF(roles); i++) {
		struct fcgi_request rq = { .uri = "/none", .role = roles[i] };
		struct buf bytes = { 0 };
		struct fcgi_answer a;
		int fd = dial(s->addr);

		fcgi_compose(&bytes, &rq);
		fcgi_answer_init(&a);
		cr_assert(fcgi_exchange(fd, buf_view(&bytes), &a, FCGI_UNTIL_CLOSED, 5000));
		cr_assert_eq(answer_status(&a), 403);
		cr_assert(weir_counts(s->weir, "connections_open", 0, 5000));
		fcgi_answer_release(&a);
		buf_release(&bytes);
		close(fd);
	}
}

/* A connection that cannot be kept although the peer asked for it. mod_proxy_fcgi looks
 * whether it has ended before it sends the next request there, and that may be at once. */
Test(front, ends_the_connection_in_the_moment_of_an_early_answer)
{
	const int rounds = 20;
	const char *addr = addr_tcp();
	struct weir *w = weir_start(&(struct weir_spec){ .listen = addr,
		.env = faults_env(),
		.sections = "[store]\ntype = memory\n",
		.endpoints = "[endpoint never]\nmatch = * /never\n"
			     "@RateLimit = type=ip count=0 window=1h\n" });
	struct fcgi_request rq = {
		.method = "POST", .uri = "/never", .keep = true, .body = VIEW("body")
	};
	struct buf bytes = { 0 };
	int ended = 0;

	fcgi_compose(&bytes, &rq);
	bytes.n -= 8; /* without the end of STDIN */
	/* Whoever else wants weir's processor gets it between the answer and the end. */
	faults_set(FAULT_SHUT, 0, -1);
	for (int i = 0; i < rounds; i++) {
		struct pollfd peer = { .fd = dial(w->addr), .events = POLLRDHUP };
		struct fcgi_answer a;

		fcgi_answer_init(&a);
		cr_assert(
			fcgi_exchange(peer.fd, buf_view(&bytes), &a, FCGI_UNTIL_END, 5000));
		cr_assert_eq(answer_status(&a), 403);
		ended += poll(&peer, 1, 0) == 1 && peer.revents & POLLRDHUP;
		fcgi_answer_release(&a);
		close(peer.fd);
	}
	cr_assert(WAIT_UNTIL(5000, faults_met(FAULT_SHUT) == rounds));
	/* Linux holds the answer back for 200 ms, and 3 ms may become that on a busy machine. */
	cr_assert_gt(ended, rounds / 2, "%d of %d", ended, rounds);
	buf_release(&bytes);
}

/* Questions are answered at once; nobody may have weir keep the answers for ever. */
Test(front, lets_go_of_who_asks_and_never_reads_also_while_a_request_waits)
{
	static const struct backend_script silent = { .silent = true };
	const char *addr = addr_unix("silent.sock");
	struct site *s;
	struct buf bytes = { 0 }, questions = { 0 };
	struct fcgi_request rq = { .uri = "/silent", .keep = true };
	bool sent = true;
	int fd;

	backend_start(addr, &silent);
	s = site_start(&(struct site_spec){ .no_php = true,
		.sections = text("[backend silent]\nfastcgi = %s\n", addr),
		.endpoints = "[endpoint silent]\nmatch = * /silent\nbackend = silent\n" });
	fd = dial(s->addr);
	fcgi_compose(&bytes, &rq);
	cr_assert(fcgi_send(fd, buf_view(&bytes), 5000));
	cr_assert(weir_counts(s->weir, "exchanges_open", 1, 5000));
	for (int i = 0; i < 4096; i++)
		fcgi_record(&questions, 77, 0, EMPTY, 0);
	for (int i = 0; i < 1000 && sent; i++) /* 64 MB of answers */
		sent = fcgi_send(fd, buf_view(&questions), 5000);
	cr_assert_not(sent, "all questions were taken");
	cr_assert(weir_counts(s->weir, "exchanges_open", 0, 5000));
	cr_assert(weir_counts(s->weir, "connections_malformed", 1, 5000));
	buf_release(&bytes);
	buf_release(&questions);
	close(fd);
}

Test(front, takes_no_abort_behind_the_answer_for_a_second_end)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.endpoints = "[endpoint none]\nmatch = * /none\n"
			     "@RateLimit = type=ip count=0 window=1h\n" });
	struct fcgi_request rq = { .uri = "/none", .keep = true };
	struct buf bytes = { 0 };
	struct fcgi_answer a;
	int fd = dial(s->addr);

	fcgi_compose(&bytes, &rq);
	fcgi_record(&bytes, ABORT_REQUEST, 1, EMPTY, 0);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&bytes), &a, FCGI_UNTIL_END, 5000));
	/* The next request on it has an answer of its own. */
	buf_release(&bytes);
	fcgi_compose(&bytes, &rq);
	cr_assert(fcgi_exchange(fd, buf_view(&bytes), &a, FCGI_UNTIL_END, 5000));
	cr_assert_eq(a.ends, 2);
	cr_assert(weir_counts(s->weir, "requests", 2, 5000));
	fcgi_answer_release(&a);
	buf_release(&bytes);
	close(fd);
}

/* Who keeps sending a body that nobody wants is not waited for long when weir ends. */
Test(front, ends_soon_beside_a_peer_that_has_its_answer_and_does_not_close)
{
	struct site *s = small_site("drain_timeout = 1h\nstop_timeout = 1h\n");
	struct fcgi_request rq = { .uri = "/x", .pattern_bytes = 1 << 20 };
	struct buf bytes = { 0 };
	struct fcgi_answer a;
	int fd = dial(s->addr);

	rq.params = (const char *const[]){ "CONTENT_LENGTH=nonsense", NULL };
	fcgi_compose_head(&bytes, &rq);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&bytes), &a, FCGI_UNTIL_CLOSED, 5000));
	cr_assert_eq(answer_status(&a), 400);
	process_signal(s->weir->process, SIGTERM);
	cr_assert(process_ends(s->weir->process, 20000));
	fcgi_answer_release(&a);
	buf_release(&bytes);
	close(fd);
}

static const struct {
	const char *length;
	int status;
} lengths[] = {
	{ "5", 200 }, { "", 200 }, { "4", 400 }, { "6", 400 }, { "0", 400 }, { "-5", 400 },
	{ "5x", 400 }, { "18446744073709551621", 400 }, /* 2^64 + 5 */
};

Test(front, answers_400_when_the_body_is_not_as_long_as_declared)
{
	struct site *s = small_site(NULL);
	int64_t bad = 0;

	for (size_t i = 0; i < COUNT_OF(lengths); i++) {
		const char *params[] = { text("CONTENT_LENGTH=%s", lengths[i].length),
			NULL };
		struct fcgi_request rq = {
			.uri = "/x", .body = VIEW("hello"), .params = params
		};
		struct fcgi_answer a;

		cr_assert(fcgi_call(s->addr, &rq, &a, 5000), "\"%s\": no answer",
			lengths[i].length);
		cr_assert_eq(answer_status(&a), lengths[i].status, "\"%s\": %d",
			lengths[i].length, answer_status(&a));
		bad += lengths[i].status == 400;
		cr_assert(weir_counts(s->weir, "requests_bad", bad, 5000), "\"%s\"",
			lengths[i].length);
		fcgi_answer_release(&a);
	}
	cr_assert_eq(weir_counter(s->weir, "requests_oversized"), 0);
}

Test(front, answers_431_to_a_head_over_the_limit_and_passes_one_below_it)
{
	static const struct {
		int cookie;
		int status;
	} rows[] = { { 60000, 200 }, { 70000, 431 }, { 1000000, 431 } };
	struct site *s = small_site("head_limit = 64K\n");

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const char *params[] = { text("HTTP_COOKIE=%0*d", rows[i].cookie, 1),
			NULL };
		struct fcgi_request rq = { .uri = "/x", .params = params };
		struct fcgi_answer a;

		cr_assert(fcgi_call(s->addr, &rq, &a, 5000), "%d", rows[i].cookie);
		cr_assert_eq(answer_status(&a), rows[i].status, "%d bytes: %d",
			rows[i].cookie, answer_status(&a));
		if (rows[i].status == 431) {
			json_t *json = json_of(answer_body(&a));

			cr_assert_eq(
				json_integer_value(json_object_get(json, "code")), 43100);
			json_decref(json);
		}
		fcgi_answer_release(&a);
	}
	cr_assert(weir_counts(s->weir, "requests_oversized", 2, 5000));
	cr_assert_eq(weir_counter(s->weir, "requests_bad"), 0);
}

/* ---- Roles, ids, management ---- */

Test(front, answers_unknown_role_to_a_filter_and_to_nonsense)
{
	static const unsigned roles[] = { 0, 3, 4, 65535 };
	struct site *s = small_site(NULL);

	for (size_t i = 0; i < COUNT_OF(roles); i++) {
		struct fcgi_answer a;
		struct buf b = { 0 };
		int fd = dial(s->addr);

		fcgi_begin(&b, 7, roles[i], 0);
		fcgi_record(&b, PARAMS, 7, EMPTY, 0);
		fcgi_record(&b, STDIN, 7, EMPTY, 0);
		fcgi_answer_init(&a);
		cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 5000));
		cr_assert_eq(a.ends, 1, "role %u", roles[i]);
		cr_assert_eq(a.end_id, 7);
		cr_assert_eq(a.protocol_status, UNKNOWN_ROLE, "role %u: %u", roles[i],
			a.protocol_status);
		close(fd);
		fcgi_answer_release(&a);
		buf_release(&b);
	}
}

Test(front, answers_cant_mpx_to_a_second_id_and_goes_on_with_the_first)
{
	struct site *s = small_site(NULL);
	struct fcgi_request first = { .uri = "/first", .id = 1, .body = VIEW("hello") };
	struct fcgi_request second = { .uri = "/second", .id = 2 };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(s->addr);

	fcgi_compose_head(&b, &first);
	fcgi_compose(&b, &second);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 5000));
	cr_assert_eq(a.ends, 1);
	cr_assert_eq(a.end_id, 2);
	cr_assert_eq(a.protocol_status, CANT_MPX_CONN);
	buf_reset(&b);
	fcgi_compose_body(&b, &first);
	cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 5000));
	cr_assert_eq(a.ends, 2);
	cr_assert_eq(a.end_id, 1);
	cr_assert_eq(a.protocol_status, REQUEST_COMPLETE);
	cr_assert_str_eq(line_of(answer_body(&a), "REQUEST_URI"), "/first");
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

/* Asks for names, one pair each, and gives the result's pairs. */
static void ask_values(
	const struct site *s, const char *const *names, unsigned padding, struct buf *pairs)
{
	struct buf b = { 0 }, question = { 0 };
	struct fcgi_answer a;
	int fd = dial(s->addr);

	for (const char *const *n = names; *n; n++)
		fcgi_pair(&question, view_str(*n), EMPTY);
	fcgi_record(&b, GET_VALUES, 0, buf_view(&question), padding);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_MANAGEMENT, 5000));
	cr_assert(a.management.n >= 2 && a.management.p[0] == GET_VALUES_RESULT);
	*pairs = (struct buf){ 0 };
	buf_add(pairs, view_skip(buf_view(&a.management), 2));
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
	buf_release(&question);
}

/* Over 64 bytes of answer, or the same name four times, end libfcgi. */
Test(front, answers_get_values_with_each_known_name_once)
{
	struct site *s = small_site(NULL);
	const char *names[64] = { "FCGI_MAX_CONNS", "NOBODY_KNOWS", "FCGI_MPXS_CONNS", "",
		"FCGI_MAX_REQS" };
	struct buf pairs;

	for (size_t i = 5; i < 45; i++)
		names[i] = "FCGI_MPXS_CONNS";
	ask_values(s, names, 8, &pairs);
	cr_assert_str_eq(param_of(buf_view(&pairs), "FCGI_MPXS_CONNS"), "0");
	cr_assert(atol(param_of(buf_view(&pairs), "FCGI_MAX_CONNS")) > 1);
	cr_assert(atol(param_of(buf_view(&pairs), "FCGI_MAX_REQS")) > 1);
	cr_assert_null(param_of(buf_view(&pairs), "NOBODY_KNOWS"));
	cr_assert(pairs.n < 100, "%zu bytes: names are repeated", pairs.n);
	buf_release(&pairs);
	/* Unpadded, with nothing behind it: the answer must not wait for more. */
	ask_values(s, (const char *const[]){ "FCGI_MAX_CONNS", NULL }, 0, &pairs);
	cr_assert_not_null(param_of(buf_view(&pairs), "FCGI_MAX_CONNS"));
	cr_assert_null(param_of(buf_view(&pairs), "FCGI_MAX_REQS"));
	buf_release(&pairs);
	expect_served(s, "GET_VALUES");
}

Test(front, answers_unknown_type_to_other_management_records)
{
	struct site *s = small_site(NULL);
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(s->addr);

	fcgi_record(&b, 77, 0, VIEW("whatever"), 3);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_MANAGEMENT, 5000));
	cr_assert_eq(a.management.n, 2 + 8);
	cr_assert_eq(a.management.p[0], UNKNOWN_TYPE);
	cr_assert_eq(a.management.p[2], 77);
	/* The connection is as good as before. */
	buf_reset(&b);
	fcgi_compose(&b, &(struct fcgi_request){ .uri = "/x" });
	cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 5000));
	cr_assert_eq(answer_status(&a), 200);
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

/* Web servers send an authorizer no STDIN at all, or, by mistake, some. */
Test(front, answers_an_authorizer_without_waiting_for_a_body)
{
	struct site *s = small_site(NULL);
	struct fcgi_request rq = { .uri = "/x", .role = 2 };
	struct fcgi_answer a;

	for (int stray = 0; stray < 2; stray++) {
		struct buf b = { 0 };
		int fd = dial(s->addr);

		fcgi_compose_head(&b, &rq);
		if (stray)
			fcgi_record(&b, STDIN, 1, VIEW("a body nobody asked for"), 1);
		fcgi_answer_init(&a);
		cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 5000));
		cr_assert_eq(answer_status(&a), 200);
		cr_assert_not_null(answer_field(&a, "Variable-WEIR_CLIENT"));
		cr_assert(a.out.n > 8 && memcmp(a.out.p, "Status: ", 8) == 0,
			"Status is not the first field: %.*s", (int)a.out.n, a.out.p);
		close(fd);
		fcgi_answer_release(&a);
		buf_release(&b);
	}
}
