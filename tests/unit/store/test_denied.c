/*
 * test_denied.c - which refusals are repeated without asking, by moments set by hand.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/counters.h"
#include "store/denied.h"
#include "store/store.h"

#define S   INT64_C(1000000)
#define NOW (1000 * S)

static struct denied *denied;

static void setup(void)
{
	denied = denied_new();
	cr_assert(denied);
}

static void teardown(void)
{
	denied_free(denied);
}

TestSuite(denied, .init = setup, .fini = teardown);

static const struct rate window = { RATE_SLIDING_WINDOW, 5, 60 * S, 5, 0 };

static struct take_tier tier(const char *key, const struct rate *rate, uint64_t cost)
{
	return (struct take_tier){ .key = view_str(key), .rate = rate, .cost = cost };
}

static void note(const struct take_tier *t, int64_t wait_us, int64_t asked_us)
{
	const struct rate_view view = {
		.remaining = t->cost - 1, .wait_us = wait_us, .reset_us = 2 * wait_us
	};

	denied_note(denied, t, &view, asked_us, asked_us, denied_epoch(denied));
}

static enum denied_says ask(const char *key, uint64_t cost, int64_t now_us)
{
	const struct take_tier t = tier(key, &window, cost);
	struct rate_view view;

	return denied_look(denied, &t, now_us, &view);
}

static enum denied_says probe(const char *key, uint64_t cost, int64_t now_us)
{
	const struct take_tier t = tier(key, &window, cost);
	struct rate_view view;

	return denied_probe(denied, &t, now_us, &view);
}

Test(denied, a_refusal_holds_until_the_tier_could_admit_and_not_a_microsecond_longer)
{
	const struct take_tier t = tier("k", &window, 1);
	struct rate_view view;

	cr_assert_eq(ask("k", 1, NOW), DENIED_UNKNOWN);
	note(&t, S / 2, NOW);
	cr_assert_eq(denied_look(denied, &t, NOW + 1, &view), DENIED_REFUSES);
	cr_assert(!view.admitted && !view.unknown);
	cr_assert_eq(view.remaining, 0u);
	cr_assert_eq(view.wait_us, S / 2 - 1);
	cr_assert_eq(view.reset_us, S - 1);
	cr_assert_eq(ask("k", 1, NOW + S / 2 - 1), DENIED_REFUSES);
	cr_assert_eq(ask("k", 1, NOW + S / 2), DENIED_UNKNOWN);
}

/* A wait that is shorter than what Redis would say by what its answer took would be
 * refused once more; a refusal that is longer would be wrong. */
Test(denied,
	an_answer_that_took_its_time_neither_shortens_the_wait_nor_prolongs_the_refusal)
{
	const struct take_tier t = tier("k", &window, 1);
	const struct rate_view said = { .wait_us = S / 2, .reset_us = S };
	struct rate_view view;

	denied_note(denied, &t, &said, NOW, NOW + 3000, denied_epoch(denied));
	cr_assert_eq(denied_look(denied, &t, NOW + 4000, &view), DENIED_REFUSES);
	cr_assert_eq(view.wait_us, S / 2 - 1000);
	cr_assert_eq(view.reset_us, S - 1000);
	cr_assert_eq(ask("k", 1, NOW + S / 2 - 1), DENIED_REFUSES);
	cr_assert_eq(ask("k", 1, NOW + S / 2), DENIED_UNKNOWN);
}

/* What a smaller cost waits for is too short for a larger one. */
Test(denied, it_holds_for_that_cost_and_each_has_its_own_wait)
{
	const struct take_tier three = tier("k", &window, 3), one = tier("k", &window, 1);
	struct rate_view view;

	note(&three, S, NOW);
	cr_assert_eq(ask("k", 2, NOW), DENIED_UNKNOWN);
	cr_assert_eq(ask("k", 3, NOW), DENIED_REFUSES);
	cr_assert_eq(ask("k", 4, NOW), DENIED_UNKNOWN);
	note(&one, S / 4, NOW);
	cr_assert_eq(denied_look(denied, &one, NOW, &view), DENIED_REFUSES);
	cr_assert_eq(view.wait_us, S / 4);
	cr_assert_eq(denied_look(denied, &three, NOW, &view), DENIED_REFUSES);
	cr_assert_eq(view.wait_us, S);
	denied_drop(denied, &one);
	cr_assert_eq(ask("k", 1, NOW), DENIED_UNKNOWN);
	cr_assert_eq(ask("k", 3, NOW), DENIED_REFUSES);
}

/* Everything a rule can change: none of it may be refused by an old entry. */
Test(denied, another_key_or_another_limit_is_not_refused)
{
	static const struct rate others[] = {
		{ RATE_SLIDING_WINDOW, 6, 60 * S, 6, 0 },
		{ RATE_SLIDING_WINDOW, 5, 61 * S, 5, 0 },
		{ RATE_FIXED_WINDOW, 5, 60 * S, 5, 0 },
		{ RATE_SLIDING_WINDOW, 5, 60 * S, 6, 0 },
		{ RATE_SLIDING_WINDOW, 5, 60 * S, 5, 1 },
	};
	const struct take_tier t = tier("k", &window, 1);
	struct rate_view view;

	note(&t, S, NOW);
	for (size_t i = 0; i < COUNT_OF(others); i++) {
		const struct take_tier other = tier("k", &others[i], 1);

		cr_assert_eq(denied_look(denied, &other, NOW, &view), DENIED_UNKNOWN,
			"row %zu", i);
	}
	cr_assert_eq(ask("kk", 1, NOW), DENIED_UNKNOWN);
	cr_assert_eq(ask("", 1, NOW), DENIED_UNKNOWN);
}

Test(denied, after_a_second_one_asks_and_the_others_are_refused_meanwhile)
{
	const struct take_tier t = tier("k", &window, 1);

	note(&t, 60 * S, NOW);
	cr_assert_eq(probe("k", 1, NOW + S - 1), DENIED_REFUSES);
	cr_assert_eq(ask("k", 1, NOW + S), DENIED_PROBE);
	cr_assert_eq(ask("k", 1, NOW + S), DENIED_PROBE, "looking is not asking");
	cr_assert_eq(probe("k", 1, NOW + S), DENIED_PROBE);
	for (int64_t us = 0; us < DENIED_PROBE_US; us += 1000)
		cr_assert_eq(probe("k", 1, NOW + S + us), DENIED_REFUSES);
	/* No answer came: the next one asks. */
	cr_assert_eq(probe("k", 1, NOW + S + DENIED_PROBE_US), DENIED_PROBE);
	note(&t, 58 * S, NOW + 2 * S);
	cr_assert_eq(probe("k", 1, NOW + 3 * S - 1), DENIED_REFUSES);
	cr_assert_eq(probe("k", 1, NOW + 3 * S), DENIED_PROBE);
	/* It is admitted after all. */
	denied_drop(denied, &t);
	cr_assert_eq(ask("k", 1, NOW + 3 * S), DENIED_UNKNOWN);
	denied_drop(denied, &t);
}

Test(denied, who_is_to_ask_again_knows_what_was_refused)
{
	const struct take_tier t = tier("k", &window, 1);
	struct rate_view view;

	note(&t, 60 * S, NOW);
	cr_assert_eq(denied_look(denied, &t, NOW + S, &view), DENIED_PROBE);
	cr_assert(!view.admitted && !view.unknown);
	cr_assert_eq(view.wait_us, 59 * S);
}

Test(denied, a_question_on_its_way_holds_nobody_up_beyond_the_moment_that_was_named)
{
	const struct take_tier t = tier("k", &window, 1);

	note(&t, S + 1000, NOW);
	cr_assert_eq(probe("k", 1, NOW + S), DENIED_PROBE);
	cr_assert_eq(probe("k", 1, NOW + S + 999), DENIED_REFUSES);
	cr_assert_eq(probe("k", 1, NOW + S + 1000), DENIED_UNKNOWN);
}

Test(denied, what_was_asked_before_all_was_forgotten_is_not_noted_after_it)
{
	const struct take_tier t = tier("k", &window, 1);
	const struct rate_view view = { .wait_us = S };
	uint64_t epoch = denied_epoch(denied);

	note(&t, S, NOW);
	denied_clear(denied);
	cr_assert_eq(denied_count(denied), 0u);
	cr_assert_eq(ask("k", 1, NOW), DENIED_UNKNOWN);
	denied_note(denied, &t, &view, NOW, NOW, epoch);
	cr_assert_eq(ask("k", 1, NOW), DENIED_UNKNOWN);
	note(&t, S, NOW);
	cr_assert_eq(ask("k", 1, NOW), DENIED_REFUSES);
}

Test(denied, a_flood_of_keys_drops_the_oldest_and_stays_bounded)
{
	const unsigned n = 2 * DENIED_SHARDS * DENIED_SHARD_LIMIT;
	char key[32];

	for (unsigned i = 0; i < n; i++) {
		struct take_tier t;

		snprintf(key, sizeof(key), "rate:ip:{%u}", i);
		t = tier(key, &window, 1);
		note(&t, 60 * S, NOW);
	}
	cr_assert_leq(denied_count(denied), DENIED_SHARDS * DENIED_SHARD_LIMIT);
	cr_assert_geq(denied_count(denied), DENIED_SHARDS * DENIED_SHARD_LIMIT / 2);
	cr_assert_eq(
		counter_sum(COUNT_denied_evictions), (int64_t)(n - denied_count(denied)));
	cr_assert_eq(ask(key, 1, NOW), DENIED_REFUSES);
	cr_assert_eq(ask("rate:ip:{0}", 1, NOW), DENIED_UNKNOWN);
}

Test(denied, what_has_ended_makes_room_while_others_are_noted)
{
	char key[32];

	for (unsigned i = 0; i < 10000; i++) {
		struct take_tier t;

		snprintf(key, sizeof(key), "rate:ip:{%u}", i);
		t = tier(key, &window, 1);
		note(&t, i % 2 ? S / 100 : 3600 * S, NOW + i * (S / 100));
	}
	/* What was refused for an hour but not asked for again does not stay for an hour. */
	cr_assert_leq(denied_count(denied), 2000u);
	cr_assert_eq(ask(key, 1, NOW + 9999 * (S / 100)), DENIED_REFUSES);
}

Test(denied, a_key_of_any_length_is_remembered_to_its_last_byte)
{
	static char bytes[5000];
	const struct take_tier t = {
		.key = view_of(bytes, sizeof(bytes)), .rate = &window, .cost = 1
	};
	struct rate_view view;

	note(&t, S, NOW);
	cr_assert_eq(denied_look(denied, &t, NOW, &view), DENIED_REFUSES);
	bytes[sizeof(bytes) - 1] = 1;
	cr_assert_eq(denied_look(denied, &t, NOW, &view), DENIED_UNKNOWN);
	denied_drop(denied, &t);
	cr_assert_eq(denied_count(denied), 1u);
	bytes[sizeof(bytes) - 1] = 0;
	denied_drop(denied, &t);
	cr_assert_eq(denied_count(denied), 0u);
}
