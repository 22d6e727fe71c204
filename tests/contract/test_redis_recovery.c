/*
 * test_redis_recovery.c - a real redis-server that comes and goes under questions: each
 * that passed is counted once, there or here, and which of both is what it was told.
 */
#include <criterion/criterion.h>

#include "asker.h"
#include "base/clock.h"
#include "base/counters.h"
#include "support.h"

enum {
	LIMIT = 1000000,
	BATCH = 50
};

/* What was said, so far. */
struct tally {
	uint64_t there, here; /* passed, counted in Redis or locally */
	uint64_t unknown; /* of those here: they had to wait, so Redis may have counted */
};

static void start(struct asker *a, const struct redis *r)
{
	asker_init(a, r->socket);
	a->config->store.timeout_ms = 500;
	a->config->store.breaker_failures = 5;
	a->config->store.breaker_pause_ms = 100;
	asker_start(a);
}

/* An hour, so that nothing expires. */
static void question(struct question *q, struct asker *a)
{
	question_init(q, a, "rate:test:a", LIMIT);
	q->rate.window_us = 3600 * US_PER_S;
}

static void ask_batch(struct asker *a, struct tally *t)
{
	struct question q[BATCH];
	bool waited[BATCH];
	unsigned before = a->answered;

	for (unsigned i = 0; i < BATCH; i++) {
		question(&q[i], a);
		ask(&q[i]);
		waited[i] = !q[i].answers;
	}
	cr_assert(RUN_UNTIL(a, PATIENCE_MS, a->answered == before + BATCH));
	for (unsigned i = 0; i < BATCH; i++) {
		bool there = q[i].take.by == DECIDED_BY_REDIS;

		cr_assert_eq(q[i].answers, 1);
		cr_assert(q[i].take.admitted);
		t->there += there;
		t->here += !there;
		t->unknown += !there && waited[i];
	}
}

static void until_redis_decides(struct asker *a, struct tally *t)
{
	const uint64_t before = t->there;

	cr_assert(RUN_UNTIL(a, PATIENCE_MS, (ask_batch(a, t), t->there > before)));
}

static void until_policy_decides(struct asker *a, struct tally *t)
{
	const uint64_t before = t->here;

	cr_assert(RUN_UNTIL(a, PATIENCE_MS, (ask_batch(a, t), t->here > before)));
}

/* What Redis has counted, which one more question shows. */
static uint64_t counted_there(struct asker *a, struct tally *t)
{
	struct question q;

	until_redis_decides(a, t);
	question(&q, a);
	ask(&q);
	cr_assert(RUN_UNTIL(a, PATIENCE_MS, q.answers));
	cr_assert_eq(q.take.by, DECIDED_BY_REDIS);
	t->there++;
	return LIMIT - q.take.views[0].remaining;
}

/* What the local table has, once Redis is gone for good. */
static uint64_t counted_here(struct asker *a, struct redis *r, struct tally *t)
{
	struct question q;

	process_signal(r->process, SIGKILL);
	until_policy_decides(a, t);
	question(&q, a);
	ask(&q);
	cr_assert(RUN_UNTIL(a, PATIENCE_MS, q.answers));
	cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
	t->here++;
	return LIMIT - q.take.views[0].remaining;
}

/* Redis refuses: it says so, and nothing was counted. */
static const struct {
	const char *trouble, *remedy;
} refusals[] = {
	{ "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0" },
	{ "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE" },
	{ "CONFIG SET min-replicas-to-write 3", "CONFIG SET min-replicas-to-write 0" },
};

Test(recovery, what_it_refused_to_count_is_counted_here_and_nothing_is_counted_twice)
{
	struct redis *r = redis_start();
	struct tally t = { 0 };
	struct asker a;

	start(&a, r);
	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT_OF(refusals); i++) {
			until_redis_decides(&a, &t);
			redis_run(r, refusals[i].trouble);
			until_policy_decides(&a, &t);
			/* The first time until the breaker opens, then sooner back. */
			if (round == 0)
				cr_assert(RUN_UNTIL(&a, PATIENCE_MS,
					counter_sum(COUNT_store_breaker_open) == 1));
			ask_batch(&a, &t);
			redis_run(r, refusals[i].remedy);
		}
	}
	cr_assert_eq(counted_there(&a, &t), t.there, "as many as it said it had counted");
	cr_assert_eq(counted_here(&a, r, &t), t.here, "and all others here");
	asker_stop(&a);
}

/* What was sent to one that then stood still may have been counted when it went on; what
 * was asked while it was known to be down was not. */
Test(recovery, what_was_lost_on_the_way_is_counted_there_once_at_most)
{
	struct redis *r = redis_start();
	struct tally t = { 0 };
	uint64_t there;
	struct asker a;

	start(&a, r);
	for (unsigned round = 0; round < 5; round++) {
		until_redis_decides(&a, &t);
		process_signal(r->process, SIGSTOP);
		until_policy_decides(&a, &t);
		ask_batch(&a, &t);
		process_signal(r->process, SIGCONT);
		until_redis_decides(&a, &t);
		redis_run(r, "CLIENT KILL TYPE normal SKIPME yes");
		until_redis_decides(&a, &t);
	}
	there = counted_there(&a, &t);
	cr_assert_geq(there, t.there, "all that it said it had counted");
	cr_assert_leq(there, t.there + t.unknown, "%lu, of which %lu are unknown", there,
		t.unknown);
	cr_assert_eq(counted_here(&a, r, &t), t.here);
	cr_assert_gt(t.here, t.unknown, "none was decided without waiting");
	asker_stop(&a);
}

/* A batch of small limits, so that shares and what is left of them can be told. */
Test(recovery, an_outage_gives_each_process_its_share_once)
{
	enum {
		COUNT = 40,
		INSTANCES = 4
	};
	struct redis *r = redis_start();
	struct question q;
	unsigned passed;
	struct asker a;

	asker_init(&a, r->socket);
	a.config->store.timeout_ms = 500;
	a.config->fallback.instances = INSTANCES;
	asker_start(&a);
	question_init(&q, &a, "rate:test:a", COUNT);
	q.rate.window_us = 3600 * US_PER_S;
	for (unsigned outage = 0; outage < 3; outage++) {
		passed = 0;
		cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
		redis_run(r, "CONFIG SET maxmemory 1");
		cr_assert(RUN_UNTIL(&a, PATIENCE_MS,
			ask_one(&a, "rate:test:other", LIMIT) == DECIDED_BY_FALLBACK));
		for (unsigned i = 0; i < 2 * COUNT; i++) {
			unsigned before = q.answers;

			ask(&q);
			cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers > before));
			cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
			passed += q.take.admitted;
		}
		/* The share of this hour is spent in the first outage. */
		cr_assert_eq(passed, outage ? 0u : COUNT / INSTANCES + 0u);
		redis_run(r, "CONFIG SET maxmemory 0");
	}
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	ask(&q);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers == 6 * COUNT + 1));
	cr_assert_eq(q.take.by, DECIDED_BY_REDIS);
	cr_assert_eq(q.take.views[0].remaining, COUNT - 1, "Redis knows of none of them");
	asker_stop(&a);
}
