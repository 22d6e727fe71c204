/*
 * Backends with several addresses of which some do not answer.
 */
#include "relay_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/counters.h"

static void answer_ok(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	fake_say(fd, FCGI_STDOUT, 1, VIEW("Content-Type: text/plain\r\n\r\nok"));
	fake_end(fd, FCGI_REQUEST_COMPLETE);
}

static void close_without_a_word(struct fake *f, int fd)
{
	fake_read_request(f, fd);
}

static void close_in_the_head(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	fake_say(fd, FCGI_STDOUT, 1, VIEW("X-A: 1\r\n"));
}

static void close_in_the_body(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	fake_say(fd, FCGI_STDOUT, 1, VIEW("Content-Type: text/plain\r\n\r\nhalf of "));
}

static void stop_in_the_body(struct fake *f, int fd)
{
	char c;

	close_in_the_body(f, fd);
	while (read(fd, &c, 1) > 0)
		;
}

/* Whole by its length, though it never says so. */
static void close_behind_the_body(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	fake_say(fd, FCGI_STDOUT, 1, VIEW("Content-Length: 4\r\n\r\nhalf"));
}

static void overloaded(struct fake *f, int fd)
{
	fake_read_request(f, fd);
	fake_end(fd, FCGI_OVERLOADED);
}

/* One request; its backend has the name, which is what its health is known by. */
static struct run request(const char *name, const char *method, struct fake **to, size_t n)
{
	char params[64];
	struct run r;

	snprintf(params, sizeof(params), "REQUEST_METHOD=%s", method);
	run_init(&r, BACKEND_FASTCGI, params);
	free(r.backend.name);
	r.backend.name = strdup(name);
	for (size_t i = 0; i < n; i++)
		run_add_address(&r, to[i]->path);
	return r;
}

Test(relay_retry, only_what_may_go_out_twice_is_sent_on_when_one_closes_without_a_word)
{
	static const struct {
		const char *method;
		enum retry retry;
		bool goes_on;
	} rows[] = {
		{ "GET", RETRY_SAFE, true },
		{ "HEAD", RETRY_SAFE, true },
		{ "OPTIONS", RETRY_SAFE, true },
		{ "POST", RETRY_SAFE, false },
		{ "PUT", RETRY_SAFE, false },
		{ "DELETE", RETRY_SAFE, false },
		{ "get", RETRY_SAFE, false },
		{ "PUT", RETRY_IDEMPOTENT, true },
		{ "DELETE", RETRY_IDEMPOTENT, true },
		{ "POST", RETRY_IDEMPOTENT, false },
		{ "PATCH", RETRY_IDEMPOTENT, false },
		{ "GET", RETRY_NEVER, false },
	};
	struct fake good = { .serve = answer_ok }, bad = { .serve = close_without_a_word };
	struct fake *both[] = { &good, &bad };

	fake_start(&good, 8);
	fake_start(&bad, 8);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct run runs[2];
		int failed = 0;

		/* Two in a row begin with one each. */
		for (size_t k = 0; k < 2; k++) {
			runs[k] = request("repeat", rows[i].method, both, 2);
			runs[k].backend.retry = rows[i].retry;
			runs[k].backend.max_fails = 0;
			run_body(&runs[k], VIEW("hello"));
		}
		run_in_turn(runs, 2);
		for (size_t k = 0; k < 2; k++) {
			failed += runs[k].how == RELAY_BAD;
			cr_expect(runs[k].how == RELAY_WHOLE || runs[k].how == RELAY_BAD);
			run_release(&runs[k]);
		}
		cr_expect_eq(failed, !rows[i].goes_on, "row %zu: %d failed", i, failed);
	}
	fake_stop(&good);
	fake_stop(&bad);
	cr_expect(view_eq(buf_view(&good.seen.stdin_bytes), VIEW("hello")));
	fake_release(&good);
	fake_release(&bad);
}

Test(relay_retry, a_request_that_kills_backends_meets_three_of_them)
{
	struct fake fakes[5], *to[5];
	struct run r;
	int served = 0;

	for (size_t i = 0; i < COUNT_OF(fakes); i++) {
		fakes[i] = (struct fake){ .serve = close_without_a_word };
		fake_start(&fakes[i], 8);
		to[i] = &fakes[i];
	}
	r = request("deadly", "GET", to, 5);
	run_expect(&r, RELAY_BAD, 0, NULL);
	run_release(&r);
	for (size_t i = 0; i < COUNT_OF(fakes); i++) {
		fake_stop(&fakes[i]);
		served += fakes[i].served;
		fake_release(&fakes[i]);
	}
	cr_expect_eq(served, 3);
}

Test(relay_retry, each_address_is_asked_once_and_then_it_is_a_bad_gateway)
{
	struct fake bad[2] = { { .serve = close_without_a_word },
		{ .serve = close_without_a_word } };
	struct fake *to[] = { &bad[0], &bad[1] };

	for (size_t n = 1; n <= 2; n++) {
		struct run r;

		fake_start(&bad[0], 8);
		fake_start(&bad[1], 8);
		r = request("once", "GET", to, n);
		run_expect(&r, RELAY_BAD, 0, NULL);
		run_release(&r);
		fake_stop(&bad[0]);
		fake_stop(&bad[1]);
		cr_expect_eq(bad[0].served + bad[1].served, (int)n);
		for (size_t i = 0; i < 2; i++) {
			fake_release(&bad[i]);
			bad[i] = (struct fake){ .serve = close_without_a_word };
		}
	}
}

Test(relay_retry, an_answer_that_has_begun_is_not_asked_for_again)
{
	struct fake good = { .serve = answer_ok }, bad = { .serve = close_in_the_head };
	struct fake *both[] = { &good, &bad };
	struct run runs[2];

	fake_start(&good, 8);
	fake_start(&bad, 8);
	for (size_t i = 0; i < 2; i++)
		runs[i] = request("begun", "GET", both, 2);
	run_in_turn(runs, 2);
	cr_expect_eq((runs[0].how == RELAY_BAD) + (runs[1].how == RELAY_BAD), 1);
	for (size_t i = 0; i < 2; i++)
		run_release(&runs[i]);
	fake_stop(&good);
	fake_stop(&bad);
	fake_release(&good);
	fake_release(&bad);
}

static void say_nothing(struct fake *f, int fd)
{
	char c;

	fake_read_request(f, fd);
	while (read(fd, &c, 1) > 0)
		;
}

/* It may be at work still: a costly call is not made twice. */
Test(relay_retry, a_request_that_had_no_answer_in_time_is_not_sent_on)
{
	struct fake good = { .serve = answer_ok }, silent = { .serve = say_nothing };
	struct fake *both[] = { &good, &silent };
	struct run runs[2];

	fake_start(&good, 8);
	fake_start(&silent, 8);
	for (size_t i = 0; i < 2; i++) {
		runs[i] = request("no-answer", "GET", both, 2);
		runs[i].backend.first_byte_timeout_ms = 1000;
	}
	run_in_turn(runs, 2);
	cr_expect_eq((runs[0].how == RELAY_TIMEOUT) + (runs[1].how == RELAY_TIMEOUT), 1);
	for (size_t i = 0; i < 2; i++)
		run_release(&runs[i]);
	fake_stop(&good);
	fake_stop(&silent);
	cr_expect_eq(good.served, 1);
	fake_release(&good);
	fake_release(&silent);
}

static size_t times(const char *text, const char *words)
{
	size_t n = 0;

	while ((text = strstr(text, words))) {
		text += strlen(words);
		n++;
	}
	return n;
}

Test(relay_retry, an_overloaded_address_is_left_out_and_comes_back)
{
	struct fake good = { .serve = answer_ok }, busy = { .serve = overloaded };
	struct fake *both[] = { &good, &busy };
	struct run runs[12];
	const char *text;

	logged();
	fake_start(&good, 16);
	fake_start(&busy, 16);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		runs[i] = request("busy", "POST", both, 2);
		runs[i].backend.max_fails = 3;
		runs[i].backend.fail_timeout_ms = 5000;
	}
	run_in_turn(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		cr_expect_eq((int)runs[i].how, RELAY_WHOLE, "%s", runs[i].why);
		run_release(&runs[i]);
	}
	cr_expect_eq(busy.served, 3);
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 1);
	text = logged();
	cr_expect_eq(times(text, "is left out for a while"), 1);
	cr_expect(strstr(text, "why=\"it is overloaded\""));

	/* It is well again; the configuration was read anew meanwhile. */
	busy.serve = answer_ok;
	sleep_ms(20);
	for (size_t i = 0; i < 4; i++) {
		runs[i] = request("busy", "POST", both, 2);
		runs[i].backend.max_fails = 3;
		runs[i].backend.fail_timeout_ms = 1;
	}
	fake_stop(&good);
	run_in_turn(runs, 4);
	for (size_t i = 0; i < 4; i++) {
		cr_expect_eq((int)runs[i].how, RELAY_WHOLE, "%s", runs[i].why);
		run_release(&runs[i]);
	}
	cr_expect_eq(counter_sum(COUNT_backend_ejections), 2, "good is gone");
	cr_expect_eq(times(logged(), "answers again"), 1);
	fake_stop(&busy);
	fake_release(&good);
	fake_release(&busy);
}

/* Twelve requests in a row to two addresses, of which one serves so; how many it was
 * given. */
static int asked(const char *name, void (*serve)(struct fake *f, int fd),
	void (*change)(struct run *r))
{
	struct fake good = { .serve = answer_ok }, bad = { .serve = serve };
	struct fake *both[] = { &good, &bad };
	struct run runs[12];
	int served;

	fake_start(&good, 16);
	fake_start(&bad, 16);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		runs[i] = request(name, "GET", both, 2);
		runs[i].backend.max_fails = 3;
		runs[i].backend.fail_timeout_ms = 60000;
		if (change)
			change(&runs[i]);
	}
	run_in_turn(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++)
		run_release(&runs[i]);
	fake_stop(&good);
	fake_stop(&bad);
	served = bad.served;
	fake_release(&good);
	fake_release(&bad);
	return served;
}

Test(relay_retry, an_address_that_breaks_off_in_its_answers_is_left_out)
{
	logged();
	cr_expect_eq(asked("breaks", close_in_the_body, NULL), 3);
	cr_expect(strstr(logged(), "why=\"it broke off in its answer\""));
	cr_expect_eq(asked("breaks-head", close_in_the_head, NULL), 3);
	cr_expect(strstr(logged(), "why=\"it broke off in its answer\""));
}

static void break_two_of_three(struct fake *f, int fd)
{
	static int n;

	if (n++ % 3 < 2)
		close_in_the_body(f, fd);
	else
		answer_ok(f, fd);
}

/* Whatever another address did to the same request before. */
Test(relay_retry, one_whole_answer_forgives_an_address)
{
	struct fake good = { .serve = answer_ok }, other = { .serve = break_two_of_three };
	struct fake gone = { .serve = answer_ok };
	struct fake *all[] = { &gone, &good, &other };
	struct run runs[24];
	char words[128];

	logged();
	fake_start(&gone, 16);
	fake_start(&good, 16);
	fake_start(&other, 16);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		runs[i] = request("forgiven", "GET", all, 3);
		runs[i].backend.max_fails = 3;
		/* Whether it is back is tried with nearly each request. */
		runs[i].backend.fail_timeout_ms = 1;
	}
	snprintf(words, sizeof(words),
		"left out for a while\" backend=forgiven address=unix:%s", other.path);
	fake_stop(&gone);
	run_in_turn(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++)
		run_release(&runs[i]);
	cr_expect_null(strstr(logged(), words));
	fake_stop(&good);
	fake_stop(&other);
	cr_expect_geq(other.served, 6);
	fake_release(&gone);
	fake_release(&good);
	fake_release(&other);
}

static void client_leaves(struct run *r)
{
	r->cancel_in_body = true;
}

static void limit_of_the_whole(struct run *r)
{
	r->backend.timeout_ms = 100;
}

static void limit_of_silence(struct run *r)
{
	r->backend.idle_timeout_ms = 100;
}

Test(relay_retry, what_clients_and_limits_end_is_no_fault_of_an_address)
{
	cr_expect_eq(asked("left", close_in_the_body, client_leaves), 6);
	cr_expect_eq(asked("behind", close_behind_the_body, NULL), 6);
	asked("limit", stop_in_the_body, limit_of_the_whole);
	asked("silent", stop_in_the_body, limit_of_silence);
	cr_expect_eq(counter_sum(COUNT_backend_ejections), 0);
}

Test(relay_retry, when_all_are_down_somebody_is_asked_all_the_same)
{
	struct fake back = { .serve = answer_ok };
	struct run r;

	fake_start(&back, 8);
	for (int i = 0; i < 8; i++) {
		run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET");
		r.backend.max_fails = 1;
		run_add_address(&r, "/tmp/test-relay-nobody-1.sock");
		run_add_address(&r, "/tmp/test-relay-nobody-2.sock");
		run_expect(&r, RELAY_REFUSED, 0, NULL);
		cr_expect_lt(r.took_ms, 5000);
		run_release(&r);
	}
	fake_stop(&back);
	fake_release(&back);
}

Test(relay_retry, requests_at_once_are_spread_over_the_addresses)
{
	struct fake fakes[3], *to[3];
	struct run runs[9];

	for (size_t i = 0; i < 3; i++) {
		fakes[i] = (struct fake){ .serve = answer_ok };
		fake_start(&fakes[i], 16);
		to[i] = &fakes[i];
	}
	for (size_t i = 0; i < COUNT_OF(runs); i++)
		runs[i] = request("spread", "GET", to, 3);
	run_all(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		cr_expect_eq((int)runs[i].how, RELAY_WHOLE, "%s", runs[i].why);
		run_release(&runs[i]);
	}
	for (size_t i = 0; i < 3; i++) {
		fake_stop(&fakes[i]);
		cr_expect_eq(fakes[i].served, 3);
		fake_release(&fakes[i]);
	}
}
