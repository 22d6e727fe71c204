/*
 * When a call is over: by its length, by its time, by its client.
 */
#include "relay_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counters.h"

#define SLOW_MS 500

static struct run request(struct fake *f, const char *method)
{
	char params[64];
	struct run r;

	snprintf(params, sizeof(params), "REQUEST_METHOD=%s", method);
	run_init(&r, BACKEND_FASTCGI, params);
	run_add_address(&r, f->path);
	return r;
}

/* Whether weir has left. */
static bool is_left(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static atomic_bool left_early;

/* Says all, works on for a while, and only then ends the request. */
static void work_on(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	fake_say(fd, FCGI_STDOUT, 1, view_str(f->script));
	sleep_ms(SLOW_MS);
	left_early = is_left(fd);
	fake_say(fd, FCGI_STDOUT, 1, VIEW("dropped"));
	fake_say(fd, FCGI_STDERR, 1, VIEW("late words\n"));
	fake_end(fd, FCGI_REQUEST_COMPLETE);
}

Test(relay_ends, an_answer_that_has_all_of_its_length_is_over_at_once)
{
	static const struct {
		const char *method, *answer, *body;
		int status;
	} rows[] = {
		{ "GET", "Content-Length: 2\r\n\r\nok", "ok", 200 },
		{ "GET", "Content-Length: 2\r\n\r\nokmore", "ok", 200 },
		{ "GET", "Content-Length: 0\r\n\r\n", "", 200 },
		{ "GET", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok",
			200 },
		{ "GET", "Status: 304 Not Modified\r\n\r\n", "", 304 },
		{ "GET", "Status: 204 No Content\r\n\r\n", "", 204 },
		{ "HEAD", "Content-Length: 9\r\n\r\n", "", 200 },
		{ "POST", "Content-Length: 2\r\n\r\nok", "ok", 200 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fake f = { .serve = work_on, .script = rows[i].answer };
		struct run r;

		logged();
		fake_start(&f, 8);
		r = request(&f, rows[i].method);
		left_early = true;
		run_expect(&r, RELAY_WHOLE, rows[i].status, rows[i].body);
		cr_expect_lt(r.took_ms, SLOW_MS, "row %zu: %d ms", i, (int)r.took_ms);
		fake_stop(&f);
		cr_expect_not(left_early, "row %zu: the backend may end by itself", i);
		cr_expect(strstr(logged(), "late words"), "row %zu", i);
		fake_release(&f);
		run_release(&r);
	}
}

static void never_end(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	fake_say(fd, FCGI_STDOUT, 1, view_str(f->script));
	while (!is_left(fd))
		sleep_ms(10);
}

Test(relay_ends, a_backend_that_never_ends_by_itself_is_left)
{
	struct fake f = { .serve = never_end, .script = "Content-Length: 2\r\n\r\nok" };
	struct run r;

	fake_start(&f, 8);
	r = request(&f, "GET");
	run_expect(&r, RELAY_WHOLE, 200, "ok");
	cr_expect_lt(r.took_ms, 2000);
	fake_stop(&f);
	fake_release(&f);
	run_release(&r);
}

Test(relay_ends, the_body_is_taken_to_its_end_after_an_answer_that_came_first)
{
	static const char early[] = "Status: 413 Content Too Large\r\n"
				    "Content-Length: 2\r\n\r\nno";
	struct fake f = { .script = early };
	struct run r;
	char *body = calloc(1, 5000000);

	cr_assert(body);
	f.serve = work_on;
	fake_start(&f, 8);
	r = request(&f, "POST");
	run_body(&r, view_of(body, 5000000));
	run_expect(&r, RELAY_WHOLE, 413, "no");
	fake_stop(&f);
	cr_expect_eq(f.seen.stdin_bytes.n, 5000000);
	fake_release(&f);
	run_release(&r);
	free(body);
}

/* A byte now and then, for ever. */
static void drip(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	if (f->script)
		fake_say(fd, FCGI_STDOUT, 1, view_str(f->script));
	while (!is_left(fd)) {
		fake_say(fd, FCGI_STDOUT, 1, VIEW("x"));
		sleep_ms(20);
	}
}

Test(relay_ends, the_whole_call_has_a_limit_however_lively_it_is)
{
	static const struct {
		void (*serve)(struct fake *f, int fd);
		const char *script;
		int64_t pause_ms;
		enum relay_end how;
		int status;
	} rows[] = {
		{ never_end, "", 0, RELAY_TIMEOUT, 0 },
		{ drip, NULL, 0, RELAY_TIMEOUT, 0 },
		{ drip, "X: 1\r\n\r\n", 0, RELAY_TRUNCATED, 200 },
		{ drip, "X: 1\r\n\r\n", 30000, RELAY_TRUNCATED, 200 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fake f = { .serve = rows[i].serve, .script = rows[i].script };
		struct run r;

		fake_start(&f, 8);
		r = request(&f, "GET");
		r.pause_ms = rows[i].pause_ms;
		r.backend.timeout_ms = 200;
		run_expect(&r, rows[i].how, rows[i].status, NULL);
		cr_expect_geq(r.took_ms, 190, "row %zu", i);
		cr_expect_lt(r.took_ms, 5000, "row %zu", i);
		cr_expect(strstr(r.why, "in all"), "row %zu: %s", i, r.why);
		fake_stop(&f);
		fake_release(&f);
		run_release(&r);
	}
}

Test(relay_ends, full_listen_queues_are_not_knocked_at_beyond_that_limit)
{
	struct fake f = { .serve = never_end, .script = "", .delay_ms = 1000 };
	struct run runs[8];

	fake_start(&f, 1);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		runs[i] = request(&f, "GET");
		runs[i].backend.timeout_ms = 200;
	}
	run_all(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		cr_expect_eq((int)runs[i].how, RELAY_TIMEOUT, "%s", runs[i].why);
		cr_expect_lt(runs[i].took_ms, 5000);
		run_release(&runs[i]);
	}
	fake_stop(&f);
	fake_release(&f);
}

static void boast(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	fake_say(fd, FCGI_STDOUT, 1,
		VIEW("RateLimit: a\r\nratelimit-policy: b\r\nX-RateLimit-Limit: c\r\n"
		     "RateLimits: d\r\nX-Sendfile: /etc/passwd\r\nX-Sendfile2: e\r\n"
		     "X-Hop: f\r\nConnection: close, x-hop\r\nLast: g\r\n\r\nok"));
	fake_end(fd, FCGI_REQUEST_COMPLETE);
}

Test(relay_ends, fields_of_the_backend_that_are_not_its_to_say_are_dropped)
{
	static const struct {
		bool own, own_x;
		enum sendfile sendfile;
		const char *head;
	} rows[] = {
		{ false, false, SENDFILE_STRIP,
			"RateLimit: a\r\nratelimit-policy: b\r\nX-RateLimit-Limit: c\r\n"
			"RateLimits: d\r\nLast: g\r\n" },
		{ true, false, SENDFILE_STRIP,
			"X-RateLimit-Limit: c\r\nRateLimits: d\r\nLast: g\r\n" },
		{ false, true, SENDFILE_STRIP,
			"RateLimit: a\r\nratelimit-policy: b\r\nRateLimits: d\r\n"
			"Last: g\r\n" },
		{ true, true, SENDFILE_PASS,
			"RateLimits: d\r\nX-Sendfile: /etc/passwd\r\nX-Sendfile2: e\r\n"
			"Last: g\r\n" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fake f = { .serve = boast };
		struct run r;
		struct view head;

		fake_start(&f, 8);
		r = request(&f, "GET");
		r.own_rate_limit = rows[i].own;
		r.own_x_rate_limit = rows[i].own_x;
		r.backend.sendfile = rows[i].sendfile;
		run_expect(&r, RELAY_WHOLE, 200, "ok");
		head = buf_view(&r.head);
		view_cut(&head, '\n');
		cr_expect(view_eq(head, view_str(rows[i].head)), "row %zu: %.*s", i,
			VIEW_ARG(head));
		fake_stop(&f);
		fake_release(&f);
		run_release(&r);
	}
}
