/*
 * test_redis.c - what becomes of questions when Redis misbehaves, in every way a fake
 * one can be told to.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "fake.h"
#include "store/script.h"
#include "support.h"

static bool state_is(struct asker *a, const char *state)
{
	return strcmp(store_state(a->store), state) == 0;
}

Test(redis, a_question_is_counted_there)
{
	struct fake_redis *f = start_fake("fake", NULL);
	struct asker a;
	struct question q;

	asker_init(&a, test_path("fake"));
	a.servers[0].username = (char[]){ "weir" };
	a.servers[0].password = (char[]){ "sesame" };
	a.servers[0].db = 3;
	asker_start(&a);
	question_init(&q, &a, "rate:test:a", 10);
	ask(&q);
	cr_assert_eq(q.answers, 0, "answered before it can have been asked");
	cr_assert(state_is(&a, "redis (connecting)"), "%s", store_state(a.store));
	cr_assert(store_up(a.store));
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers));
	cr_assert_eq(q.take.by, DECIDED_BY_REDIS);
	cr_assert(
		q.take.admitted && !q.take.failed && !q.take.closed && !q.take.over_total);
	cr_assert(q.take.views[0].admitted);
	cr_assert_eq(q.take.views[0].remaining, 7);
	cr_assert_eq(q.take.views[0].reset_us, 60000000);
	cr_assert(state_is(&a, "redis"), "%s", store_state(a.store));
	cr_assert_eq(fake_redis_count(f, "AUTH"), 1);
	cr_assert_eq(fake_redis_count(f, "SELECT"), 1);
	cr_assert_eq(fake_redis_count(f, "INFO"), 1);
	cr_assert_eq(fake_redis_count(f, "SCRIPT"), 1);
	cr_assert_eq(fake_redis_count(f, "EVALSHA"), 1);
	cr_assert_eq(counter_sum(COUNT_decisions_redis), 1);
	cr_assert_eq(counter_sum(COUNT_store_connects), 1);
	cr_assert_eq(counter_sum(COUNT_store_failures), 0);
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, without_a_password_and_in_database_0_nothing_is_said_about_them)
{
	struct fake_redis *f = start_fake("fake", NULL);
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	cr_assert_eq(fake_redis_count(f, "AUTH"), 0);
	cr_assert_eq(fake_redis_count(f, "SELECT"), 0);
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, a_thousand_questions_are_under_way_at_once_and_answered_in_order)
{
	enum {
		N = 1000
	};
	struct fake_redis *f = start_fake("fake", NULL);
	struct question *q = calloc(N, sizeof(*q));
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	ask_one(&a, "rate:test:a", 10);
	for (unsigned i = 0; i < N; i++) {
		question_init(&q[i], &a, "rate:test:a", 10);
		ask(&q[i]);
	}
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, a.answered == N + 1));
	for (unsigned i = 0; i < N; i++) {
		cr_assert_eq(q[i].answers, 1);
		cr_assert_eq(q[i].place, i + 2);
		cr_assert_eq(q[i].take.by, DECIDED_BY_REDIS);
	}
	cr_assert_eq(fake_redis_count(f, ""), 1);
	asker_stop(&a);
	free(q);
	fake_redis_stop(f);
}

Test(redis, after_a_flush_of_the_script_cache_each_question_is_replayed_once)
{
	enum {
		N = 10
	};
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, N, .bytes = "-NOSCRIPT No matching script.\r\n" },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct question q[N];
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	for (unsigned i = 0; i < N; i++) {
		question_init(&q[i], &a, "rate:test:a", 10);
		ask(&q[i]);
	}
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, a.answered == N));
	for (unsigned i = 0; i < N; i++)
		cr_assert_eq(q[i].take.by, DECIDED_BY_REDIS);
	cr_assert_eq(fake_redis_count(f, "EVAL"), N);
	cr_assert_eq(
		fake_redis_count(f, "SCRIPT"), 2, "loaded at the start and once again");
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	cr_assert_eq(fake_redis_count(f, "EVALSHA"), N + 1);
	cr_assert_eq(counter_sum(COUNT_store_failures), 0);
	asker_stop(&a);
	fake_redis_stop(f);
}

/*
 * Answers that are none. The first question of three gets the bytes; the connection
 * is worth nothing then, so all three are answered by policy, and the next is counted
 * on a new one.
 */

struct fault {
	const char *name, *bytes;
	bool close;
	const char *reason;
};

static const struct fault faults[] = {
	{ "loading", "-LOADING Redis is loading the dataset in memory\r\n", false,
		"LOADING" },
	{ "read-only", "-READONLY You can't write against a read only replica.\r\n", false,
		"READONLY" },
	{ "no disk", "-MISCONF Redis is configured to save RDB snapshots, but can't.\r\n",
		false, "MISCONF" },
	{ "no replicas", "-NOREPLICAS Not enough good replicas to write.\r\n", false,
		"NOREPLICAS" },
	{ "wrong password", "-WRONGPASS invalid username-password pair\r\n", false,
		"WRONGPASS" },
	{ "no permission", "-NOPERM this user has no permissions to run 'evalsha'\r\n",
		false, "NOPERM" },
	{ "master gone", "-MASTERDOWN Link with MASTER is down\r\n", false, "MASTERDOWN" },
	{ "full", "-OOM command not allowed when used memory > 'maxmemory'.\r\n", false,
		"OOM" },
	{ "no password", "-NOAUTH Authentication required.\r\n", false, "NOAUTH" },
	{ "wrong type", "-WRONGTYPE Operation against a key holding the wrong kind\r\n",
		false, "WRONGTYPE" },
	{ "wrong type, from the script", "-ERR weir: key holds something else\r\n", false,
		"something else" },
	{ "moved", "-MOVED 3999 127.0.0.1:6381\r\n", false, "MOVED" },
	{ "slots", "-CROSSSLOT Keys in request don't hash to the same slot\r\n", false,
		"CROSSSLOT" },
	{ "busy", "-BUSY Redis is busy running a script.\r\n", false, "BUSY" },
	{ "too few elements", "*3\r\n:1\r\n:1\r\n:5\r\n", false, "not the reply" },
	{ "too many elements", "*7\r\n:1\r\n:1\r\n:5\r\n:0\r\n:1\r\n:0\r\n:1\r\n", false,
		"not the reply" },
	{ "no elements", "*0\r\n", false, "not the reply" },
	{ "nil", "*-1\r\n", false, "not the reply" },
	{ "status", "+OK\r\n", false, "not the reply" },
	{ "number", ":1\r\n", false, "not the reply" },
	{ "strings",
		"*6\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n5\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n0\r\n",
		false, "not the reply" },
	{ "negative", "*6\r\n:1\r\n:1\r\n:-5\r\n:0\r\n:1\r\n:0\r\n", false,
		"not the reply" },
	{ "another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n", false, "Protocol error" },
	{ "nonsense lengths", "$-7\r\n", false, "" },
	{ "deep", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
		false, "" },
	{ "closed", NULL, true, "closed the connection" },
	{ "closed half-way", "*6\r\n:1\r\n:1\r\n:", true, "closed the connection" },
	{ "one too many", COUNTED("5") COUNTED("6") COUNTED("6") COUNTED("66"), false, "" },
};

static void expect_fault(const struct fault *fault)
{
	static unsigned expected_downs;
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 1, .bytes = fault->bytes, .close = fault->close },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	int64_t before = counter_sum(COUNT_store_failures);
	struct question q[3];
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	for (unsigned i = 0; i < COUNT_OF(q); i++) {
		question_init(&q[i], &a, "rate:test:a", 10);
		ask(&q[i]);
	}
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, a.answered == COUNT_OF(q)), "%s", fault->name);
	cr_expect(state_has(&a, "redis (down: ") && state_has(&a, fault->reason), "%s: %s",
		fault->name, store_state(a.store));
	cr_expect_not(store_up(a.store), "%s", fault->name);
	if (strcmp(fault->name, "one too many") != 0)
		cr_expect_eq(q[0].take.by, DECIDED_BY_FALLBACK, "%s", fault->name);
	for (unsigned i = 0; i < COUNT_OF(q); i++) {
		cr_expect(q[i].take.admitted && !q[i].take.failed, "%s", fault->name);
		cr_expect_neq(q[i].take.views[0].remaining, 66, "%s", fault->name);
	}
	cr_expect_eq(counter_sum(COUNT_store_failures), before + 1, "%s", fault->name);
	cr_expect_eq(occurrences("\"redis is down\""), ++expected_downs, "%s", fault->name);
	if (*fault->reason)
		cr_expect_geq(occurrences(fault->reason), 1u, "%s", fault->name);
	cr_expect(decided_by_redis_within(&a, 10000), "%s", fault->name);
	cr_expect_eq(fake_redis_count(f, ""), 2, "%s: connections", fault->name);
	cr_expect(state_is(&a, "redis"), "%s: %s", fault->name, store_state(a.store));
	cr_expect(store_up(a.store), "%s", fault->name);
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, an_answer_that_is_none_drops_the_connection_and_policy_decides)
{
	for (size_t i = 0; i < COUNT_OF(faults); i++)
		expect_fault(&faults[i]);
}

Test(redis, a_second_noscript_is_a_failure)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 1, .bytes = "-NOSCRIPT No matching script.\r\n" },
		{ "EVAL", 1, 1, .bytes = "-NOSCRIPT No matching script.\r\n" },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_FALLBACK);
	cr_assert(state_has(&a, "NOSCRIPT"));
	cr_assert_eq(fake_redis_count(f, "EVAL"), 1);
	asker_stop(&a);
	fake_redis_stop(f);
}

/*
 * Greetings that are refused: no question ever reaches such a server.
 */

static const struct {
	struct fake_rule rule;
	const char *reason;
} refusals[] = {
	{ { "INFO", 1, 0,
		  .bytes = "$43\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n\r\n" },
		"cluster node" },
	{ { "INFO", 1, 0, .bytes = "-NOAUTH Authentication required.\r\n" }, "NOAUTH" },
	{ { "INFO", 1, 0, .bytes = "$2\r\nhi\r\n" }, "INFO" },
	{ { "AUTH", 1, 0, .bytes = "-WRONGPASS invalid username-password pair\r\n" },
		"AUTH: WRONGPASS" },
	{ { "AUTH", 1, 0, .bytes = ":1\r\n" }, "AUTH" },
	{ { "SELECT", 1, 0, .bytes = "-ERR DB index is out of range\r\n" },
		"out of range" },
	{ { "SCRIPT", 1, 0, .bytes = "-LOADING Redis is loading the dataset\r\n" },
		"LOADING" },
	{ { "SCRIPT", 1, 0, .bytes = "$2\r\nhi\r\n" }, "SCRIPT LOAD" },
	{ { "INFO", 1, 0, .close = true }, "closed the connection" },
};

Test(redis, a_greeting_that_is_refused_says_why_and_no_question_is_sent)
{
	for (size_t i = 0; i < COUNT_OF(refusals); i++) {
		const struct fake_rule rules[] = { refusals[i].rule, { 0 } };
		struct fake_redis *f = start_fake("fake", rules);
		struct asker a;

		asker_init(&a, test_path("fake"));
		a.servers[0].password = (char[]){ "sesame" };
		a.servers[0].db = 3;
		asker_start(&a);
		cr_expect_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_FALLBACK);
		cr_expect(state_has(&a, refusals[i].reason), "%s: %s", refusals[i].reason,
			store_state(a.store));
		cr_expect_eq(fake_redis_count(f, "EVALSHA"), 0);
		asker_stop(&a);
		fake_redis_stop(f);
	}
}

Test(redis, the_log_says_once_that_it_is_down_and_once_that_it_is_up_and_no_password)
{
	/* A server that does not know AUTH repeats the password to us. */
	const struct fake_rule rules[] = {
		{ "AUTH", 1, 3,
			.bytes = "-ERR unknown command 'AUTH', with args beginning with: "
				 "'sesame'\r\n" },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct asker a;

	asker_init(&a, test_path("fake"));
	a.servers[0].password = (char[]){ "sesame" };
	asker_start(&a);
	for (unsigned i = 0; i < 20; i++)
		cr_assert_eq(ask_one(&a, "rate:test:a", 100), DECIDED_BY_FALLBACK);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	cr_assert_eq(fake_redis_count(f, ""), 4);
	cr_assert_eq(occurrences("\"redis is down\""), 1);
	cr_assert_eq(occurrences("\"redis is up\""), 1);
	cr_assert_eq(occurrences("AUTH: ERR"), 1);
	cr_assert_eq(occurrences("sesame"), 0);
	cr_assert_eq(occurrences("\n"), 2);
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, one_that_greets_well_and_fails_at_each_question_is_logged_once)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 3, .bytes = "-OOM command not allowed\r\n" },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	cr_assert_eq(fake_redis_count(f, ""), 4);
	cr_assert_eq(counter_sum(COUNT_store_failures), 3);
	cr_assert_eq(occurrences("\"redis is down\""), 1);
	cr_assert_eq(occurrences("\"redis is up\""), 1);
	asker_stop(&a);
	fake_redis_stop(f);
}

/*
 * Time
 */

/* The loop does not run until then. */
static void stand_still(int64_t until_us)
{
	while (clock_mono_us() < until_us)
		wait_a_little();
}

Test(redis, one_that_accepts_and_stays_silent_costs_the_first_questions_the_timeout)
{
	const struct fake_rule rules[] = { { "INFO", 1, 0 }, { "SCRIPT", 1, 0 }, { 0 } };
	struct fake_redis *f = start_fake("fake", rules);
	struct question q[3];
	struct asker a;

	asker_init(&a, test_path("fake"));
	a.config->store.timeout_ms = 50;
	asker_start(&a);
	for (unsigned i = 0; i < COUNT_OF(q); i++) {
		question_init(&q[i], &a, "rate:test:a", 10);
		ask(&q[i]);
	}
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, a.answered == COUNT_OF(q)));
	for (unsigned i = 0; i < COUNT_OF(q); i++) {
		cr_assert_eq(q[i].take.by, DECIDED_BY_FALLBACK);
		cr_assert_geq(q[i].answered_us - q[i].asked_us, 50 * US_PER_MS);
		cr_assert_lt(q[i].answered_us - q[i].asked_us, 5000 * US_PER_MS);
	}
	cr_assert(state_has(&a, "within 50 ms"), "%s", store_state(a.store));
	question_init(&q[0], &a, "rate:test:a", 10);
	ask(&q[0]);
	cr_assert_eq(q[0].answers, 1, "known to be down, it is answered at once");
	cr_assert(
		RUN_UNTIL(&a, PATIENCE_MS, fake_redis_count(f, "") >= 2), "no new attempt");
	cr_assert_geq(counter_sum(COUNT_store_failures), 1);
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, a_question_without_an_answer_is_decided_when_its_time_is_up)
{
	const struct fake_rule rules[] = { { "EVALSHA", 2, 0 }, { 0 } };
	struct fake_redis *f = start_fake("fake", rules);
	struct question q[3];
	struct asker a;

	asker_init(&a, test_path("fake"));
	a.config->store.timeout_ms = 100;
	asker_start(&a);
	/* Not by how soon it connects: by how long it does not answer. */
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	for (unsigned i = 0; i < COUNT_OF(q); i++) {
		question_init(&q[i], &a, "rate:test:a", 10);
		ask(&q[i]);
	}
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q[2].answers));
	for (unsigned i = 0; i < COUNT_OF(q); i++) {
		cr_assert_eq(q[i].take.by, DECIDED_BY_FALLBACK);
		cr_assert_lt(q[i].answered_us - q[i].asked_us, 5000 * US_PER_MS);
	}
	cr_assert(state_has(&a, "no answer within 100 ms"), "%s", store_state(a.store));
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, a_replay_does_not_start_the_clock_anew)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 2, 2, .before_ms = 60,
			.bytes = "-NOSCRIPT No matching script.\r\n" },
		{ "EVAL", 1, 0 },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct question q;
	struct asker a;

	asker_init(&a, test_path("fake"));
	a.config->store.timeout_ms = 400;
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	question_init(&q, &a, "rate:test:a", 10);
	ask(&q);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers));
	cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
	cr_assert_eq(fake_redis_count(f, "EVAL"), 1);
	cr_assert_lt(q.answered_us - q.asked_us, 4000 * US_PER_MS);
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, an_answer_that_comes_late_does_not_reach_a_later_question)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 1, .bytes = COUNTED("8") },
		{ "EVALSHA", 2, 2, .before_ms = 300, .bytes = COUNTED("99") },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct asker a;

	asker_init(&a, test_path("fake"));
	a.config->store.timeout_ms = 100;
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_FALLBACK);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	cr_assert_eq(a.remaining, 7);
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, answers_that_wait_in_the_socket_count_although_the_worker_was_busy)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 2, 2, .before_ms = 50, .bytes = COUNTED("5") },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct question q;
	struct asker a;

	asker_init(&a, test_path("fake"));
	a.config->store.timeout_ms = 500;
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	question_init(&q, &a, "rate:test:a", 10);
	ask(&q);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, fake_redis_count(f, "EVALSHA") == 2));
	stand_still(q.asked_us + 600 * US_PER_MS);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers));
	cr_assert_eq(q.take.by, DECIDED_BY_REDIS);
	asker_stop(&a);
	fake_redis_stop(f);
}

/*
 * Replies nobody asked for
 */

static void ask_another(struct question *q)
{
	ask(q + 1);
}

Test(redis, a_reply_too_many_does_not_reach_a_question_asked_meanwhile)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 1, .bytes = COUNTED("5") COUNTED("66") },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct question q[2];
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	question_init(&q[0], &a, "rate:test:a", 10);
	question_init(&q[1], &a, "rate:test:a", 10);
	q[0].then = ask_another;
	ask(&q[0]);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q[1].answers));
	cr_assert_eq(q[0].take.by, DECIDED_BY_REDIS);
	cr_assert_eq(q[0].take.views[0].remaining, 5);
	cr_assert_eq(q[1].take.by, DECIDED_BY_FALLBACK);
	cr_assert(state_has(&a, "nobody asked for"), "%s", store_state(a.store));
	cr_assert(decided_by_redis_within(&a, 10000));
	asker_stop(&a);
	fake_redis_stop(f);
}

static const char *const strays[] = {
	COUNTED("66"),
	"+OK\r\n",
	"-ERR max number of clients reached\r\n",
	"*",
	"\r\n",
	"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n",
};

Test(redis, a_reply_that_comes_while_nothing_is_asked_ends_the_connection_only)
{
	for (size_t i = 0; i < COUNT_OF(strays); i++) {
		const struct fake_rule rules[] = {
			{ "EVALSHA", 1, 1, .bytes = COUNTED("5"), .between_ms = 30,
				.late = strays[i] },
			{ 0 },
		};
		struct fake_redis *f = start_fake("fake", rules);
		struct question q;
		struct asker a;

		asker_init(&a, test_path("fake"));
		asker_start(&a);
		question_init(&q, &a, "rate:test:a", 10);
		ask(&q);
		cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers));
		cr_assert_eq(q.take.by, DECIDED_BY_REDIS);
		cr_assert(RUN_UNTIL(&a, PATIENCE_MS, state_has(&a, "nobody asked for")),
			"%zu", i);
		cr_assert(decided_by_redis_within(&a, 10000));
		asker_stop(&a);
		fake_redis_stop(f);
	}
}

Test(redis, a_question_queued_behind_a_stray_reply_does_not_get_it)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 1, .bytes = COUNTED("5"), .between_ms = 30,
			.late = COUNTED("66") },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct question q[2];
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	question_init(&q[0], &a, "rate:test:a", 10);
	ask(&q[0]);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q[0].answers));
	/* The stray reply arrives while the loop stands still, then a question is queued. */
	stand_still(clock_mono_us() + 300 * US_PER_MS);
	question_init(&q[1], &a, "rate:test:a", 10);
	ask(&q[1]);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q[1].answers));
	cr_assert_neq(q[1].take.views[0].remaining, 66);
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, an_idle_connection_that_is_closed_is_made_again_and_costs_no_question)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 1, .bytes = COUNTED("5"), .between_ms = 600, .late = "",
			.close = true },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, fake_redis_count(f, "") == 2));
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	cr_assert_eq(counter_sum(COUNT_store_failures), 0);
	cr_assert_eq(occurrences("\n"), 0);
	asker_stop(&a);
	fake_redis_stop(f);
}

/*
 * Nobody there
 */

static void refuse_connections(struct asker *a)
{
	asker_init(a, test_path("nobody"));
	asker_start(a);
	cr_assert(RUN_UNTIL(a, PATIENCE_MS, state_has(a, "redis (down: ")), "%s",
		store_state(a->store));
}

Test(redis, when_nobody_listens_no_question_waits)
{
	struct question q;
	struct asker a;

	refuse_connections(&a);
	question_init(&q, &a, "rate:test:a", 2);
	for (unsigned i = 0; i < 3; i++) {
		ask(&q);
		cr_assert_eq(q.answers, i + 1);
		cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
		cr_assert_eq(q.take.admitted, i < 2, "the local table keeps the limit");
	}
	cr_assert_gt(q.take.views[0].wait_us, 0);
	cr_assert_eq(counter_sum(COUNT_decisions_fallback), 3);
	cr_assert_eq(counter_sum(COUNT_store_connects), 0);
	asker_stop(&a);
}

Test(redis, it_is_used_soon_after_it_begins_to_listen)
{
	struct fake_redis *f;
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_FALLBACK);
	f = start_fake("fake", NULL);
	cr_assert(decided_by_redis_within(&a, 10000));
	asker_stop(&a);
	fake_redis_stop(f);
}

Test(redis, a_socket_path_that_hiredis_would_mangle_is_refused)
{
	char path[108];
	struct asker a;

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[107] = '\0';
	asker_init(&a, path);
	asker_start(&a);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, state_has(&a, "longer than 106 bytes")), "%s",
		store_state(a.store));
	asker_stop(&a);
}

static const struct {
	uint64_t count, instances, passes;
} shares[] = {
	{ 10, 1, 10 },
	{ 10, 4, 2 },
	{ 10, 100, 1 },
	{ 10, 0, 10 },
};

Test(redis, the_local_table_counts_this_instances_share)
{
	for (size_t i = 0; i < COUNT_OF(shares); i++) {
		struct question q;
		struct asker a;
		uint64_t passes = 0;

		refuse_connections(&a);
		a.config->fallback.instances = shares[i].instances;
		question_init(&q, &a, "rate:test:a", shares[i].count);
		for (unsigned n = 0; n < 20; n++) {
			ask(&q);
			passes += q.take.admitted;
		}
		cr_expect_eq(passes, shares[i].passes, "%zu: %zu", i, (size_t)passes);
		asker_stop(&a);
	}
}

Test(redis, a_cost_over_the_share_takes_the_whole_share)
{
	struct question q;
	struct asker a;

	refuse_connections(&a);
	a.config->fallback.instances = 5;
	question_init(&q, &a, "rate:test:a", 10);
	q.tier.cost = 10;
	ask(&q);
	cr_assert(q.take.admitted);
	q.tier.cost = 1;
	ask(&q);
	cr_assert(!q.take.admitted);
	asker_stop(&a);
}

Test(redis, everything_local_stays_under_the_total)
{
	struct question q, other;
	struct asker a;

	asker_init(&a, test_path("nobody"));
	a.config->fallback.rate = (struct rate){
		.algorithm = RATE_TOKEN_BUCKET,
		.count = 1,
		.window_us = 3600 * US_PER_S,
		.burst = 3,
	};
	asker_start(&a);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, state_has(&a, "redis (down: ")));
	question_init(&q, &a, "rate:test:a", 1);
	ask(&q);
	cr_assert(q.take.admitted && q.take.total.admitted);
	for (unsigned i = 0; i < 5; i++) {
		ask(&q);
		cr_assert(
			!q.take.admitted && !q.take.over_total, "a refusal costs no total");
	}
	question_init(&other, &a, "rate:test:b", 3);
	for (unsigned i = 0; i < 2; i++) {
		ask(&other);
		cr_assert(other.take.admitted);
	}
	ask(&other);
	cr_assert(!other.take.admitted && other.take.over_total && !other.take.failed);
	cr_assert(!other.take.total.admitted);
	cr_assert_gt(other.take.total.wait_us, 0);
	cr_assert(other.take.views[0].admitted);
	a.config->fallback.rate.count = 1000;
	store_reload(a.store, a.config);
	ask(&other);
	cr_assert(other.take.over_total);
	cr_assert_eq(other.take.total_rate->count, 1, "as it was at the start");
	asker_stop(&a);
}

/* Two tiers of one question. */
struct pair {
	struct question q;
	struct rate rates[2];
	struct take_tier tiers[2];
};

static void pair_init(struct pair *p, struct asker *a)
{
	question_init(&p->q, a, "rate:test:a", 2);
	for (unsigned i = 0; i < 2; i++) {
		p->rates[i] = p->q.rate;
		p->tiers[i] = p->q.tier;
		p->tiers[i].rate = &p->rates[i];
	}
	p->tiers[1].key = VIEW("rate:test:b");
	p->q.take.tiers = p->tiers;
	p->q.take.n_tiers = 2;
}

Test(redis, a_tier_may_be_open_or_closed_while_nobody_counts)
{
	struct question q;
	struct asker a;

	refuse_connections(&a);
	question_init(&q, &a, "rate:test:a", 2);
	q.tier.on_error = ON_ERROR_OPEN;
	for (unsigned i = 0; i < 5; i++) {
		ask(&q);
		cr_assert(q.take.admitted && !q.take.closed);
		cr_assert(q.take.views[0].admitted && q.take.views[0].unknown);
	}
	q.tier.on_error = ON_ERROR_CLOSED;
	ask(&q);
	cr_assert(
		!q.take.admitted && q.take.closed && !q.take.failed && !q.take.over_total);
	cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
	asker_stop(&a);
}

/* Rows: what each of two tiers says, whether it is a shadow; what comes of it. A tier that
 * counts locally has room for two. */
Test(redis, of_tiers_that_differ_about_a_silent_redis_the_strictest_holds)
{
	static const struct {
		enum on_error on_error[2];
		bool shadow[2];
		bool closed;
		unsigned passed; /* of four */
		bool unknown[2]; /* of the first */
	} rows[] = {
		{ { ON_ERROR_OPEN, ON_ERROR_OPEN }, { 0 }, false, 4, { true, true } },
		{ { ON_ERROR_OPEN, ON_ERROR_LOCAL }, { 0 }, false, 2, { true, false } },
		{ { ON_ERROR_LOCAL, ON_ERROR_OPEN }, { 0 }, false, 2, { false, true } },
		{ { ON_ERROR_LOCAL, ON_ERROR_LOCAL }, { 0 }, false, 2, { false, false } },
		{ { ON_ERROR_CLOSED, ON_ERROR_OPEN }, { 0 }, true, 0, { false, false } },
		{ { ON_ERROR_LOCAL, ON_ERROR_CLOSED }, { 0 }, true, 0, { false, false } },
		/* A shadow has no say. */
		{ { ON_ERROR_OPEN, ON_ERROR_CLOSED }, { false, true }, false, 4,
			{ true, true } },
		{ { ON_ERROR_LOCAL, ON_ERROR_CLOSED }, { false, true }, false, 2,
			{ false, true } },
		{ { ON_ERROR_LOCAL, ON_ERROR_LOCAL }, { false, true }, false, 2,
			{ false, false } },
		{ { ON_ERROR_OPEN, ON_ERROR_LOCAL }, { false, true }, false, 4,
			{ true, true } },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		unsigned passed = 0;
		struct pair p;
		struct asker a;

		refuse_connections(&a);
		pair_init(&p, &a);
		for (unsigned j = 0; j < 2; j++) {
			p.tiers[j].on_error = rows[i].on_error[j];
			p.tiers[j].shadow = rows[i].shadow[j];
		}
		for (unsigned n = 0; n < 4; n++) {
			ask(&p.q);
			cr_assert_eq(p.q.take.closed, rows[i].closed, "row %zu", i);
			passed += p.q.take.admitted;
			for (unsigned j = 0; j < 2; j++)
				cr_assert_eq(p.q.take.views[j].unknown, rows[i].unknown[j],
					"row %zu", i);
		}
		cr_assert_eq(passed, rows[i].passed, "row %zu: %u", i, passed);
		asker_stop(&a);
	}
}

/*
 * Leaving
 */

static void expect_cancelled(struct asker *a, bool connected)
{
	enum {
		N = 5
	};
	struct question q[N];

	if (connected)
		cr_assert(decided_by_redis_within(a, PATIENCE_MS));
	for (unsigned i = 0; i < N; i++) {
		question_init(&q[i], a, "rate:test:a", 10);
		ask(&q[i]);
	}
	store_cancel(&q[1].take);
	store_cancel(&q[4].take);
	store_cancel(&q[4].take);
	cr_assert(RUN_UNTIL(a, PATIENCE_MS, q[0].answers && q[2].answers && q[3].answers));
	cr_assert_eq(ask_one(a, "rate:test:b", 10), DECIDED_BY_REDIS);
	for (unsigned i = 0; i < N; i++)
		cr_assert_eq(q[i].answers, i != 1 && i != 4);
	store_cancel(&q[0].take);
	cr_assert_eq(counter_sum(COUNT_store_failures), 0);
}

Test(redis, a_cancelled_question_is_never_answered_and_moves_nobody_else)
{
	struct fake_redis *f = start_fake("fake", NULL);
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	expect_cancelled(&a, false);
	expect_cancelled(&a, true);
	asker_stop(&a);
	fake_redis_stop(f);
}

static void cancel_next(struct question *q)
{
	store_cancel(&q[1].take);
}

Test(redis, a_question_may_be_cancelled_while_another_is_answered)
{
	struct fake_redis *f = start_fake("fake", NULL);
	struct question q[3];
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	for (unsigned i = 0; i < COUNT_OF(q); i++)
		question_init(&q[i], &a, "rate:test:a", 10);
	q[0].then = cancel_next;
	for (unsigned i = 0; i < COUNT_OF(q); i++)
		ask(&q[i]);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q[2].answers));
	cr_assert_eq(q[1].answers, 0);
	asker_stop(&a);
	fake_redis_stop(f);
}

static void close_store(struct question *q)
{
	store_close(q->asker->store);
	q->asker->store = NULL;
}

/* Where the questions stand when the store is closed. */
static const struct {
	const char *name;
	struct fake_rule rule;
	bool connected, in_done;
} closings[] = {
	{ "while connecting", { "EVALSHA", 1, 1 }, false, false },
	{ "without an answer", { "EVALSHA", 2, 0 }, true, false },
	{ "in the answer of the first", { "EVALSHA", 3, 0 }, true, true },
	{ "in the answer by policy", { "EVALSHA", 2, 2, .bytes = "-OOM\r\n" }, true, true },
};

Test(redis, a_store_that_is_closed_forgets_its_questions)
{
	for (size_t i = 0; i < COUNT_OF(closings); i++) {
		const struct fake_rule rules[] = { closings[i].rule, { 0 } };
		struct fake_redis *f = start_fake("fake", rules);
		struct question q[3];
		struct asker a;

		asker_init(&a, test_path("fake"));
		asker_start(&a);
		if (closings[i].connected)
			cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
		for (unsigned n = 0; n < COUNT_OF(q); n++)
			question_init(&q[n], &a, "rate:test:a", 10);
		if (closings[i].in_done)
			q[0].then = close_store;
		for (unsigned n = 0; n < COUNT_OF(q); n++)
			ask(&q[n]);
		if (closings[i].in_done)
			cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q[0].answers));
		asker_stop(&a);
		for (unsigned n = 0; n < COUNT_OF(q); n++) {
			cr_expect_eq(q[n].answers, closings[i].in_done && n == 0, "%s: %u",
				closings[i].name, n);
			store_cancel(&q[n].take); /* harmless */
		}
		fake_redis_stop(f);
	}
}

Test(redis, programs_do_not_inherit_the_connection)
{
	struct fake_redis *f = start_fake("fake", NULL);
	unsigned found = 0;
	struct asker a;

	asker_init(&a, test_path("fake"));
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	for (int fd = 0; fd < 256; fd++) {
		struct sockaddr_un un = { 0 };
		socklen_t n = sizeof(un);

		if (getpeername(fd, (struct sockaddr *)&un, &n) < 0 ||
			un.sun_family != AF_UNIX ||
			strcmp(un.sun_path, test_path("fake")) != 0)
			continue;
		found++;
		cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	cr_assert_eq(found, 1);
	asker_stop(&a);
	fake_redis_stop(f);
}
