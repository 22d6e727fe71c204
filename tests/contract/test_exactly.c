/*
 * test_exactly.c - the limit itself passes and not one more, however many ask at once, of
 * however many workers, in Redis and in memory.
 *
 * Windows are so long that no time passes in them.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "crew.h"
#include "support.h"

#define HOUR (3600 * US_PER_S)

static void start(struct asker *a, bool in_redis)
{
	asker_init(a, in_redis ? redis_start()->socket : NULL);
	if (!in_redis)
		a->config->store.type = STORE_MEMORY;
	asker_start(a);
}

static void expect_no_fallback(void)
{
	cr_assert_eq(counter_sum(COUNT_decisions_fallback), 0,
		"some were decided without the store: the numbers prove nothing");
}

/*
 * First-ever questions, all at once
 */

enum {
	CROWD = 1000,
	ROUNDS = 50,
	LIMIT = 100
};

static const struct first {
	const char *name;
	struct rate rate;
	unsigned passes;
} firsts[] = {
	{ "sliding window", { RATE_SLIDING_WINDOW, LIMIT, 1000 * HOUR, LIMIT, 0 }, LIMIT },
	{ "token bucket", { RATE_TOKEN_BUCKET, LIMIT, 10000 * HOUR, LIMIT, 0 }, LIMIT },
	{ "token bucket of its own burst", { RATE_TOKEN_BUCKET, 7, 1000 * HOUR, LIMIT, 0 },
		LIMIT },
	{ "fixed window", { RATE_FIXED_WINDOW, LIMIT, 24000 * HOUR, LIMIT, 0 }, LIMIT },
	{ "sliding counter", { RATE_SLIDING_COUNTER, LIMIT, 24000 * HOUR, LIMIT, 0 },
		LIMIT },
	/* One an hour leaves: so many places, whoever can wait for the last of them. */
	{ "patient queue", { RATE_LEAKY_BUCKET, LIMIT, LIMIT *HOUR, LIMIT, LIMIT *HOUR },
		LIMIT },
	/* Turns are now, in one hour, ... in 39 hours; 40 are more than 39 and a half. */
	{ "impatient queue",
		{ RATE_LEAKY_BUCKET, LIMIT, LIMIT *HOUR, LIMIT, 39 * HOUR + HOUR / 2 },
		40 },
};

static void ask_first(struct asker *a, const struct first *f, unsigned round)
{
	struct errand *errands = calloc(CROWD, sizeof(*errands));
	unsigned passed = 0;
	char key[64];

	cr_assert(errands);
	snprintf(key, sizeof(key), "rate:test:%u:%s", round, f->name);
	for (size_t i = 0; i < CROWD; i++) {
		errands[i].tiers[0] = (struct take_tier){
			.key = view_str(key), .rate = &f->rate, .cost = 1
		};
		errands[i].n_tiers = 1;
	}
	cr_assert_eq(crew_ask(a, errands, CROWD, 4, 0), CROWD + 0u);
	for (size_t i = 0; i < CROWD; i++)
		passed += errands[i].take.admitted;
	cr_assert_eq(passed, f->passes, "%s, round %u: %u passed", f->name, round, passed);
	free(errands);
}

static void expect_firsts(bool in_redis)
{
	struct asker a;

	start(&a, in_redis);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < COUNT_OF(firsts); i++)
			ask_first(&a, &firsts[i], round);
	expect_no_fallback();
	asker_stop(&a);
}

Test(exactly, a_thousand_first_questions_at_once_admit_the_limit_in_redis, .timeout = 500)
{
	expect_firsts(true);
}

Test(exactly, a_thousand_first_questions_at_once_admit_the_limit_in_memory, .timeout = 500)
{
	expect_firsts(false);
}

/*
 * One trace, asked by one worker and by eight
 */

enum {
	KEYS = 20,
	TRACE = 6000
};

static const enum rate_algorithm algorithms[] = {
	RATE_SLIDING_WINDOW,
	RATE_TOKEN_BUCKET,
	RATE_FIXED_WINDOW,
	RATE_SLIDING_COUNTER,
	RATE_LEAKY_BUCKET,
};

/* A key's limit and what each of its questions costs; over all of them a broad tier. */
struct town {
	char names[KEYS][32];
	struct rate rates[KEYS];
	uint64_t costs[KEYS];
	struct rate broad;
	struct errand errands[TRACE];
	unsigned of[TRACE]; /* whose question */
};

static void town_init(struct town *t, const char *name)
{
	unsigned state = 7;

	t->broad = (struct rate){ RATE_FIXED_WINDOW, 1000000, 24000 * HOUR, 1000000, 0 };
	for (unsigned i = 0; i < KEYS; i++) {
		uint64_t count = 30 + 17 * i;

		snprintf(t->names[i], sizeof(t->names[i]), "rate:%s:%u", name, i);
		t->rates[i] = (struct rate){ algorithms[i % COUNT_OF(algorithms)], count,
			1000 * HOUR, count, 0 };
		if (t->rates[i].algorithm == RATE_LEAKY_BUCKET)
			t->rates[i].max_delay_us = 1000 * HOUR;
		t->costs[i] = 1 + i % 3;
	}
	for (unsigned i = 0; i < TRACE; i++) {
		struct errand *e = &t->errands[i];

		state = state * 1103515245 + 12345;
		t->of[i] = (state >> 16) % KEYS;
		e->tiers[0] = (struct take_tier){ .key = view_str(t->names[t->of[i]]),
			.rate = &t->rates[t->of[i]],
			.cost = t->costs[t->of[i]] };
		e->tiers[1] = (struct take_tier){
			.key = VIEW("broad"), .rate = &t->broad, .cost = 1
		};
		e->n_tiers = 2;
	}
}

/* What the broad tier has counted, seen by one more question. */
static uint64_t broad_used(struct asker *a, const struct town *t)
{
	struct errand one = {
		.tiers = { { .key = VIEW("broad"), .rate = &t->broad, .cost = 1 } },
		.n_tiers = 1
	};

	cr_assert_eq(crew_ask(a, &one, 1, 1, 0), 1u);
	cr_assert(one.take.admitted);
	return t->broad.count - one.take.views[0].remaining - 1;
}

static void ask_town(
	bool in_redis, size_t n_workers, size_t under_way, uint64_t admitted[KEYS])
{
	struct town *t = calloc(1, sizeof(*t));
	uint64_t all = 0;
	struct asker a;

	cr_assert(t);
	start(&a, in_redis);
	town_init(t, "town");
	cr_assert_eq(crew_ask(&a, t->errands, TRACE, n_workers, under_way), TRACE + 0u);
	expect_no_fallback();
	memset(admitted, 0, KEYS * sizeof(*admitted));
	for (size_t i = 0; i < TRACE; i++) {
		admitted[t->of[i]] += t->errands[i].take.admitted;
		all += t->errands[i].take.admitted;
	}
	cr_assert_eq(broad_used(&a, t), all, "the broad tier counts what passed");
	asker_stop(&a);
	free(t);
}

/* Where workers take turns the sets are the same but for who was first; so the numbers
 * of each key are compared, and with what its limit holds. */
static void expect_the_same(bool in_redis)
{
	uint64_t by_one[KEYS], by_eight[KEYS];

	ask_town(in_redis, 1, 1, by_one);
	ask_town(in_redis, 8, 16, by_eight);
	for (unsigned i = 0; i < KEYS; i++) {
		uint64_t holds = (30 + 17 * i) / (1 + i % 3);

		cr_assert_eq(by_one[i], by_eight[i], "key %u: %lu by one worker, %lu by 8",
			i, by_one[i], by_eight[i]);
		cr_assert_leq(by_one[i], holds, "key %u", i);
		/* 300 questions each, about: half of the keys are used up. */
		cr_assert(i >= KEYS / 2 || by_one[i] == holds, "key %u: %lu of %lu", i,
			by_one[i], holds);
	}
}

Test(exactly, eight_workers_admit_what_one_admits_in_redis, .timeout = 300)
{
	expect_the_same(true);
}

Test(exactly, eight_workers_admit_what_one_admits_in_memory, .timeout = 300)
{
	expect_the_same(false);
}
