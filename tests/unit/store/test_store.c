/*
 * test_store.c - questions to the memory store, through the same door as to Redis.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/counters.h"
#include "store/store.h"

static struct config *memory_config(void)
{
	struct config *c = calloc(1, sizeof(*c));

	cr_assert(c);
	c->refs = 1;
	c->store.type = STORE_MEMORY;
	c->store.memory = 1 << 20;
	c->fallback.rate = (struct rate){
		.algorithm = RATE_TOKEN_BUCKET, .count = 1, .window_us = 1000000, .burst = 1
	};
	return c;
}

static unsigned answers;

static void on_done(struct take *t)
{
	(void)t;
	answers++;
}

/* Two tiers over the same minute. */
struct question {
	struct rate rates[2];
	struct take_tier tiers[2];
	struct take take;
};

static void question_init(struct question *q, uint64_t narrow, uint64_t broad)
{
	const struct view keys[2] = { VIEW("rate:user:{a}:x:sw60s"),
		VIEW("rate:ip:{b}:x:sw60s") };
	const uint64_t counts[2] = { narrow, broad };

	*q = (struct question){ 0 };
	for (size_t i = 0; i < 2; i++) {
		q->rates[i] = (struct rate){ RATE_SLIDING_WINDOW, counts[i], 60000000,
			counts[i] };
		q->tiers[i] = (struct take_tier){ keys[i], &q->rates[i], 1, false };
	}
	q->take.tiers = q->tiers;
	q->take.n_tiers = 2;
	q->take.done = on_done;
}

static struct store_shared *shared;
static struct config *config;
static struct store *store;

static void start(void)
{
	config = memory_config();
	shared = store_shared_new(config);
	cr_assert(shared);
	store = store_new(NULL, config, shared);
	cr_assert(store);
}

static void stop(void)
{
	store_close(store);
	store_shared_free(shared);
	cr_assert_eq(config->refs, 1, "the store gives its reference back");
	free(config);
}

TestSuite(store, .init = start, .fini = stop);

Test(store, memory_answers_before_the_call_returns)
{
	struct question q;

	question_init(&q, 5, 5);
	answers = 0;
	store_take(store, &q.take);
	cr_assert_eq(answers, 1);
	cr_assert_eq(q.take.by, DECIDED_BY_MEMORY);
	cr_assert(
		q.take.admitted && !q.take.failed && !q.take.closed && !q.take.over_total);
	cr_assert_eq(q.take.views[0].remaining, 4);
	cr_assert_eq(counter_sum(COUNT_decisions_memory), 1);
	cr_assert_eq(counter_sum(COUNT_decisions_fallback), 0);
	cr_assert_str_eq(store_state(store), "memory");
	cr_assert(store_is_memory(store));
	cr_assert(store_up(store));
}

Test(store, the_tightest_tier_decides_and_a_refusal_costs_nobody)
{
	struct question q;

	question_init(&q, 2, 10);
	for (unsigned i = 0; i < 6; i++) {
		store_take(store, &q.take);
		cr_assert_eq(q.take.admitted, i < 2);
	}
	cr_assert(!q.take.views[0].admitted);
	cr_assert_gt(q.take.views[0].wait_us, 0);
	cr_assert(q.take.views[1].admitted);
	/* What is left of it without this request, which was not charged. */
	cr_assert_eq(q.take.views[1].remaining, 8);
}

Test(store, the_total_of_the_fallback_is_not_for_the_memory_store)
{
	struct question q;

	question_init(&q, 50, 50);
	for (unsigned i = 0; i < 50; i++) {
		store_take(store, &q.take);
		cr_assert(q.take.admitted);
	}
}

Test(store, an_answer_leaves_nothing_of_the_one_before)
{
	struct question q;

	question_init(&q, 1, 1);
	store_take(store, &q.take);
	store_take(store, &q.take);
	cr_assert(!q.take.admitted);
	memset(&q.take.total, 0xff, sizeof(q.take.total));
	q.take.failed = q.take.closed = q.take.over_total = true;
	q.tiers[0].key = VIEW("rate:user:{c}:x:sw60s");
	q.tiers[1].key = VIEW("rate:ip:{d}:x:sw60s");
	store_take(store, &q.take);
	cr_assert(
		q.take.admitted && !q.take.failed && !q.take.closed && !q.take.over_total);
	cr_assert_eq(q.take.total.wait_us, 0);
}

Test(store, what_memory_cannot_count_is_a_failure_and_not_admitted)
{
	struct question q;

	question_init(&q, 5, 5);
	store_take(store, &q.take);
	/* The same key under another algorithm. */
	q.rates[0].algorithm = RATE_TOKEN_BUCKET;
	store_take(store, &q.take);
	cr_assert(q.take.failed && !q.take.admitted);
	cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
}

Test(store, cancelling_what_is_answered_or_was_never_asked_is_harmless)
{
	struct question q;

	question_init(&q, 5, 5);
	store_cancel(&q.take);
	store_take(store, &q.take);
	store_cancel(&q.take);
	store_close(NULL);
	store_shared_free(NULL);
}
