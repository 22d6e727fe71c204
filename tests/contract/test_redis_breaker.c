/*
 * test_redis_breaker.c - when the workers of a process stop asking Redis, and how one of
 * them finds out that it is back. Several stores on one loop stand for the workers.
 */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "base/counters.h"
#include "fake.h"
#include "support.h"

enum {
	WORKERS = 4
};

/* Several stores on one loop. */
struct firm {
	struct asker a;
	struct store *others[WORKERS - 1];
};

static void firm_init(struct firm *f, const char *socket)
{
	asker_init(&f->a, socket);
	f->a.config->store.breaker_failures = 5;
	f->a.config->store.breaker_pause_ms = 200;
}

static void firm_start(struct firm *f)
{
	asker_start(&f->a);
	for (unsigned i = 0; i < COUNT_OF(f->others); i++) {
		f->others[i] = store_new(&f->a.loop, f->a.config, f->a.shared);
		cr_assert(f->others[i]);
	}
}

static void firm_stop(struct firm *f)
{
	for (unsigned i = 0; i < COUNT_OF(f->others); i++)
		store_close(f->others[i]);
	asker_stop(&f->a);
}

static struct store *firm_store(struct firm *f, unsigned i)
{
	return i ? f->others[i - 1] : f->a.store;
}

/* Whether every worker's next question is Redis's. */
static bool all_by_redis(struct firm *f)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		struct question q;

		question_init(&q, &f->a, "rate:test:a", 1000000);
		store_take(firm_store(f, i), &q.take);
		cr_assert(RUN_UNTIL(&f->a, PATIENCE_MS, q.answers));
		if (q.take.by != DECIDED_BY_REDIS)
			return false;
	}
	return true;
}

static bool is_open(void)
{
	return counter_sum(COUNT_store_breaker_open) == 1;
}

Test(breaker, when_it_fails_again_and_again_all_workers_stop_asking_and_one_probes)
{
	/* Each worker's greeting is good once, then nobody is let in for a while. */
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, WORKERS, .bytes = "-LOADING Redis is loading\r\n" },
		{ "SCRIPT", WORKERS + 1, 17, .bytes = "-LOADING Redis is loading\r\n" },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct firm firm;
	unsigned calls;

	firm_init(&firm, test_path("fake"));
	firm_start(&firm);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, counter_sum(COUNT_store_connects) == 4));
	for (unsigned i = 0; i < WORKERS; i++) {
		struct question q;

		question_init(&q, &firm.a, "rate:test:a", 1000000);
		store_take(firm_store(&firm, i), &q.take);
		cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, q.answers));
		cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
	}
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, is_open()));
	for (unsigned i = 0; i < WORKERS; i++) {
		struct question q;

		question_init(&q, &firm.a, "rate:test:a", 1000000);
		store_take(firm_store(&firm, i), &q.take);
		cr_assert_eq(q.answers, 1, "nobody waits");
		cr_assert(strstr(store_state(firm_store(&firm, i)), "5 failures in a row"));
		cr_assert(strstr(store_state(firm_store(&firm, i)), "LOADING"));
	}
	/* From the first probe on a call is a probe. Four that each tried by themselves would
	 * have called twice as often. */
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, counter_sum(COUNT_store_probes) == 1));
	calls = fake_redis_count(f, "");
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, counter_sum(COUNT_store_probes) == 5));
	cr_assert_leq(fake_redis_count(f, "") - calls, 5u);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, !is_open()));
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, all_by_redis(&firm)));
	cr_assert_eq(counter_sum(COUNT_store_breaker_failed), 1);
	cr_assert_eq(counter_sum(COUNT_store_breaker_slowed), 0);
	cr_assert_eq(occurrences("\"redis is down\""), 1);
	cr_assert_eq(occurrences("\"redis is up\""), 1);
	cr_assert_eq(occurrences("\"redis is no longer asked\" from=closed to=open "), 1);
	cr_assert_eq(occurrences("\"redis is asked again\" from=half-open to=closed "), 1);
	cr_assert_eq(occurrences("\n"), 4);
	firm_stop(&firm);
	fake_redis_stop(f);
}

/* Once all are connected, the workers in turn. */
static void ask_all_at_once(struct firm *f, struct question *q, unsigned n)
{
	cr_assert(RUN_UNTIL(&f->a, PATIENCE_MS, counter_sum(COUNT_store_connects) == 4));
	for (unsigned i = 0; i < n; i++) {
		question_init(&q[i], &f->a, "rate:test:a", 1000000);
		store_take(firm_store(f, i % WORKERS), &q[i].take);
	}
}

Test(breaker, slow_answers_open_it_for_everybody_and_a_fast_one_to_a_probe_closes_it)
{
	/* The fake answers one after the other: each waits for those before it. */
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 40, .before_ms = 30, .bytes = COUNTED("5") },
		{ "PROBE", WORKERS + 1, WORKERS + 1, .before_ms = 100,
			.bytes = COUNTED("5") },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct question q[40], one;
	struct firm firm;

	firm_init(&firm, test_path("fake"));
	firm.a.config->store.breaker_slow_ms = 20;
	firm_start(&firm);
	ask_all_at_once(&firm, q, COUNT_OF(q));
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, is_open()));
	question_init(&one, &firm.a, "rate:test:a", 1000000);
	ask(&one);
	cr_assert_eq(one.answers, 1);
	cr_assert_eq(one.take.by, DECIDED_BY_FALLBACK);
	cr_assert(state_has(&firm.a, "took longer than 20 ms"), "%s",
		store_state(firm.a.store));
	/* What has been asked is answered all the same. */
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, firm.a.answered == COUNT_OF(q) + 1));
	for (unsigned i = 0; i < COUNT_OF(q); i++)
		cr_assert_eq(q[i].take.by, DECIDED_BY_REDIS);
	cr_assert(RUN_UNTIL(&firm.a, 5000, all_by_redis(&firm)));
	cr_assert_geq(counter_sum(COUNT_store_probes), 2, "the first of them was slow");
	cr_assert_eq(counter_sum(COUNT_store_breaker_slowed), 1);
	cr_assert_eq(counter_sum(COUNT_store_failures), 0);
	cr_assert_eq(fake_redis_count(f, ""), WORKERS + 0u, "no connection was lost");
	firm_stop(&firm);
	fake_redis_stop(f);
}

Test(breaker, a_late_answer_to_a_probe_reaches_no_question)
{
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 40, .before_ms = 10, .bytes = COUNTED("5") },
		{ "PROBE", WORKERS + 1, WORKERS + 1, .before_ms = 2000,
			.bytes = COUNTED("99") },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct question q[40];
	struct firm firm;

	firm_init(&firm, test_path("fake"));
	firm.a.config->store.timeout_ms = 1000;
	firm.a.config->store.breaker_slow_ms = 5;
	firm_start(&firm);
	ask_all_at_once(&firm, q, COUNT_OF(q));
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, is_open()));
	/* Then answers may take longer again. */
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, firm.a.answered == COUNT_OF(q)));
	firm.a.config->store.breaker_slow_ms = 1000;
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, counter_sum(COUNT_store_failures) >= 1));
	cr_assert_eq(occurrences("no answer to a probe in time"), 1);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, !is_open()));
	for (unsigned i = 0; i < 100; i++) {
		ask_one(&firm.a, "rate:test:a", 1000000);
		cr_assert_neq(firm.a.remaining, 99);
	}
	firm_stop(&firm);
	fake_redis_stop(f);
}

Test(breaker, whoever_leaves_while_it_probes_leaves_the_turn_to_another)
{
	const struct fake_rule rules[] = { { "INFO", 1, 0 }, { 0 } };
	struct fake_redis *f;
	struct firm firm;

	firm_init(&firm, test_path("fake"));
	firm.a.config->store.breaker_failures = 1;
	firm_start(&firm);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, is_open()));
	f = start_fake("fake", rules);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, fake_redis_count(f, "INFO") == 1));
	/* One of them probes, and there will be no answer. */
	for (unsigned i = 0; i < COUNT_OF(firm.others); i++) {
		store_close(firm.others[i]);
		firm.others[i] = NULL;
	}
	fake_redis_stop(f);
	f = start_fake("fake", NULL);
	cr_assert(decided_by_redis_within(&firm.a, PATIENCE_MS));
	firm_stop(&firm);
	fake_redis_stop(f);
}

/* Accepts and never answers, from the first byte on. */
Test(breaker, of_one_that_accepts_and_is_silent_only_the_first_questions_wait)
{
	enum {
		N = 400,
		TIMEOUT_MS = 20
	};
	const struct fake_rule rules[] = { { "INFO", 1, 0 }, { "SCRIPT", 1, 0 }, { 0 } };
	struct fake_redis *f = start_fake("fake", rules);
	unsigned waited = 0, at_once = 0;
	struct firm firm;

	firm_init(&firm, test_path("fake"));
	firm.a.config->store.timeout_ms = TIMEOUT_MS;
	firm_start(&firm);
	for (unsigned i = 0; i < N; i++) {
		struct question q;

		question_init(&q, &firm.a, "rate:test:a", 1000000);
		q.asked_us = clock_mono_us();
		store_take(firm_store(&firm, i % WORKERS), &q.take);
		at_once += q.answers;
		waited += !q.answers;
		cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, q.answers));
		cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
		cr_assert_lt(q.answered_us - q.asked_us, 100 * TIMEOUT_MS * US_PER_MS);
		/* So that the breaker has its turns in between. */
		if (i % 20 == 0)
			RUN_UNTIL(&firm.a, 50, false);
	}
	/* Each worker's first, and while it goes on: nobody for whom it is known to be down. */
	cr_assert_leq(waited, WORKERS + 0u);
	cr_assert_eq(at_once + waited, N + 0u);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, is_open()));
	firm_stop(&firm);
	fake_redis_stop(f);
}

/* Each of its addresses is waited for as long as the time-out says: six seconds in all. */
Test(breaker, only_one_calls_however_long_a_probe_takes)
{
	const struct fake_rule rules[] = { { "INFO", 1, 0 }, { "SCRIPT", 1, 0 }, { 0 } };
	struct fake_redis *f;
	struct firm firm;

	firm_init(&firm, test_path("fake"));
	asker_add(&firm.a, test_path("fake"));
	asker_add(&firm.a, test_path("fake"));
	firm.a.config->store.breaker_failures = WORKERS;
	firm.a.config->store.timeout_ms = 2000;
	firm_start(&firm);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, is_open()));
	f = start_fake("fake", rules);
	/* The second probe has gone on to its second address. */
	cr_assert(RUN_UNTIL(&firm.a, 3 * PATIENCE_MS, fake_redis_count(f, "") >= 5));
	cr_assert_eq(fake_redis_most(f), 1);
	firm_stop(&firm);
	fake_redis_stop(f);
}

/* The first failure opens it, while the others have time to wait for their answers. */
static void start_until_open(struct firm *firm)
{
	firm_init(firm, test_path("fake"));
	firm->a.config->store.breaker_failures = 1;
	firm->a.config->store.timeout_ms = 3 * PATIENCE_MS;
	firm_start(firm);
	cr_assert(RUN_UNTIL(&firm->a, PATIENCE_MS, is_open()));
}

Test(breaker, who_was_connecting_when_it_opened_waits_no_longer)
{
	/* The first is told no; the others, and then the probe, nothing at all. */
	const struct fake_rule rules[] = {
		{ "INFO", 1, 1, .close = true },
		{ "INFO", 2, 0 },
		{ "SCRIPT", 1, 0 },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct firm firm;

	start_until_open(&firm);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS,
		fake_redis_count(f, "") == WORKERS + 1 && fake_redis_open(f) == 1));
	cr_assert_eq(counter_sum(COUNT_store_probes), 1);
	cr_assert_eq(counter_sum(COUNT_store_failures), 1, "the others have not failed");
	firm_stop(&firm);
	fake_redis_stop(f);
}

/* Whether those that are down give that reason; how many there are is added to *n. */
static bool down_says(struct firm *f, const char *why, unsigned *n)
{
	for (unsigned i = 0; i < WORKERS; i++) {
		const struct store *s = firm_store(f, i);

		if (store_up(s))
			continue;
		++*n;
		if (!strstr(store_state(s), why))
			return false;
	}
	return true;
}

Test(breaker, who_was_connecting_when_it_opened_says_why_until_he_is_connected)
{
	/* As above, but the probe is good. */
	const struct fake_rule rules[] = {
		{ "INFO", 1, 1, .close = true },
		{ "INFO", 2, WORKERS },
		{ "SCRIPT", 1, WORKERS - 1 },
		{ 0 },
	};
	const char *why = "Redis closed the connection";
	struct fake_redis *f = start_fake("fake", rules);
	unsigned n = 0;
	struct firm firm;

	start_until_open(&firm);
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, !is_open()));
	cr_assert(down_says(&firm, why, &n), "%s", store_state(firm.others[0]));
	cr_assert_geq(n, WORKERS - 2, "those whose probe it was not have yet to connect");
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS,
		!down_says(&firm, why, &n) ||
			counter_sum(COUNT_store_connects) == WORKERS));
	cr_assert(down_says(&firm, why, &n));
	for (unsigned i = 0; i < WORKERS; i++)
		cr_assert_str_eq(store_state(firm_store(&firm, i)), "redis");
	firm_stop(&firm);
	fake_redis_stop(f);
}

/* The workers are connected, and from then on it is as dead as a stopped process. */
Test(breaker, of_one_that_falls_silent_each_worker_loses_what_was_under_way_and_no_more)
{
	enum {
		EACH = 25
	};
	const struct fake_rule rules[] = {
		{ "EVALSHA", 1, 0 },
		{ "INFO", WORKERS + 1, 0 },
		{ "PROBE", WORKERS + 1, 0 },
		{ 0 },
	};
	struct fake_redis *f = start_fake("fake", rules);
	struct question q[WORKERS * EACH], one;
	struct firm firm;

	firm_init(&firm, test_path("fake"));
	firm.a.config->store.timeout_ms = 100;
	firm_start(&firm);
	ask_all_at_once(&firm, q, COUNT_OF(q));
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, firm.a.answered == COUNT_OF(q)));
	for (unsigned i = 0; i < COUNT_OF(q); i++)
		cr_assert_eq(q[i].take.by, DECIDED_BY_FALLBACK);
	/* More than half of at least twenty; on a busy machine they may come so far apart
	 * that failures are faster. */
	cr_assert(RUN_UNTIL(&firm.a, PATIENCE_MS, is_open()));
	for (unsigned i = 0; i < WORKERS; i++) {
		question_init(&one, &firm.a, "rate:test:a", 1000000);
		store_take(firm_store(&firm, i), &one.take);
		cr_assert_eq(one.answers, 1);
	}
	firm_stop(&firm);
	fake_redis_stop(f);
}
