/*
 * test_breaker.c - when Redis is given up, when it is tried again, and by whom. Time is
 * set by hand.
 */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "store/breaker.h"

static const struct breaker_limits limits = {
	.failures = 5,
	.slow_us = 25 * US_PER_MS,
	.pause_us = 500 * US_PER_MS,
};

#define FAST (1 * US_PER_MS)
#define SLOW (26 * US_PER_MS)

static struct breaker b;
static int64_t now_us;

static void start(void)
{
	breaker_init(&b);
	now_us = 1000 * US_PER_S;
}

TestSuite(breaker, .init = start);

static enum breaker_change fail_times(unsigned n)
{
	enum breaker_change change = BREAKER_STAYS;

	while (n--)
		change = breaker_failed(&b, &limits, now_us);
	return change;
}

static enum breaker_change answer_times(unsigned n, int64_t took_us)
{
	enum breaker_change change = BREAKER_STAYS;

	for (; n && change == BREAKER_STAYS; n--)
		change = breaker_answered(&b, &limits, took_us, now_us);
	return change;
}

Test(breaker, it_opens_at_the_fifth_failure_in_a_row_and_says_so_once)
{
	cr_assert_eq(fail_times(4), BREAKER_STAYS);
	cr_assert_eq(b.state, BREAKER_CLOSED);
	cr_assert_eq(fail_times(1), BREAKER_FAILED);
	cr_assert_eq(b.state, BREAKER_OPEN);
	cr_assert_eq(fail_times(20), BREAKER_STAYS);
}

Test(breaker, an_answer_in_between_starts_the_row_anew)
{
	for (unsigned i = 0; i < 10; i++) {
		cr_assert_eq(fail_times(4), BREAKER_STAYS);
		cr_assert_eq(answer_times(1, FAST), BREAKER_STAYS);
	}
	cr_assert_eq(b.state, BREAKER_CLOSED);
	cr_assert_eq(fail_times(5), BREAKER_FAILED);
}

Test(breaker, with_no_number_of_failures_it_never_opens)
{
	static const struct breaker_limits none = { .slow_us = 1, .pause_us = 1 };

	for (unsigned i = 0; i < 1000; i++) {
		cr_assert_eq(breaker_failed(&b, &none, now_us), BREAKER_STAYS);
		cr_assert_eq(breaker_answered(&b, &none, SLOW, now_us), BREAKER_STAYS);
		cr_assert_eq(breaker_missed(&b, &none, 5, now_us), BREAKER_STAYS);
	}
	cr_assert_eq(b.state, BREAKER_CLOSED);
}

/* Answers within a second: fast ones, some time, slow ones or missed ones. */
static const struct {
	unsigned fast;
	int64_t after_ms;
	unsigned slow, missed;
	bool opens;
} mixtures[] = {
	{ 0, 0, 19, 0, false },
	{ 0, 0, 20, 0, true },
	{ 0, 0, 0, 19, false },
	{ 0, 0, 0, 20, true },
	{ 0, 0, 10, 10, true },
	{ 10, 0, 10, 0, false },
	{ 10, 0, 11, 0, true },
	{ 30, 0, 30, 0, false },
	{ 30, 0, 31, 0, true },
	/* Half a second ago still counts, a second does not. */
	{ 100, 499, 50, 0, false },
	{ 100, 501, 50, 0, false },
	{ 100, 999, 50, 0, false },
	{ 100, 1001, 50, 0, true },
	{ 100, 5000, 50, 0, true },
	/* A stall at full load. */
	{ 10000, 500, 64, 0, false },
};

Test(breaker, it_opens_when_more_than_half_of_a_seconds_answers_are_slow)
{
	for (size_t i = 0; i < sizeof(mixtures) / sizeof(mixtures[0]); i++) {
		enum breaker_change change;

		start();
		cr_assert_eq(answer_times(mixtures[i].fast, FAST), BREAKER_STAYS);
		now_us += mixtures[i].after_ms * US_PER_MS;
		change = answer_times(mixtures[i].slow, SLOW);
		if (change == BREAKER_STAYS && mixtures[i].missed)
			change = breaker_missed(&b, &limits, mixtures[i].missed, now_us);
		cr_expect_eq(change == BREAKER_SLOWED, mixtures[i].opens, "row %zu", i);
		cr_expect_eq(b.state == BREAKER_OPEN, mixtures[i].opens, "row %zu", i);
	}
}

Test(breaker, an_answer_within_the_limit_is_not_slow)
{
	cr_assert_eq(answer_times(1000, limits.slow_us), BREAKER_STAYS);
	cr_assert_eq(answer_times(1001, limits.slow_us + 1), BREAKER_SLOWED);
}

Test(breaker, one_at_a_time_probes_and_the_first_only_after_the_pause)
{
	unsigned turn;

	cr_assert_eq(breaker_turn(&b, &limits, now_us), 0, "it is closed");
	fail_times(5);
	cr_assert_eq(breaker_turn(&b, &limits, now_us), 0);
	now_us += limits.pause_us - 1;
	cr_assert_eq(breaker_turn(&b, &limits, now_us), 0);
	now_us++;
	turn = breaker_turn(&b, &limits, now_us);
	cr_assert_neq(turn, 0);
	cr_assert_eq(b.state, BREAKER_HALF_OPEN);
	now_us += 10 * limits.pause_us - 1;
	for (unsigned i = 0; i < 10; i++)
		cr_assert_eq(breaker_turn(&b, &limits, now_us), 0, "another has it");
	cr_assert_eq(breaker_probed(&b, turn, true), BREAKER_HEALED);
	cr_assert_eq(b.state, BREAKER_CLOSED);
	cr_assert_eq(breaker_turn(&b, &limits, now_us), 0);
}

Test(breaker, after_a_bad_probe_the_next_comes_a_pause_after_that_one_began)
{
	unsigned first, second;

	fail_times(5);
	now_us += limits.pause_us;
	first = breaker_turn(&b, &limits, now_us);
	now_us += limits.pause_us / 2;
	cr_assert_eq(breaker_probed(&b, first, false), BREAKER_STAYS);
	cr_assert_eq(b.state, BREAKER_OPEN);
	cr_assert_eq(breaker_turn(&b, &limits, now_us), 0);
	now_us += limits.pause_us / 2;
	second = breaker_turn(&b, &limits, now_us);
	cr_assert_neq(second, 0);
	cr_assert_neq(second, first);
}

Test(breaker, a_turn_that_is_not_given_back_falls_to_the_next_and_its_probe_is_ignored)
{
	unsigned lost, next;

	fail_times(5);
	now_us += limits.pause_us;
	lost = breaker_turn(&b, &limits, now_us);
	now_us += BREAKER_LEASE_US - 1;
	cr_assert_eq(breaker_turn(&b, &limits, now_us), 0);
	now_us++;
	next = breaker_turn(&b, &limits, now_us);
	cr_assert_neq(next, 0);
	cr_assert_eq(breaker_probed(&b, lost, true), BREAKER_STAYS);
	cr_assert_eq(b.state, BREAKER_HALF_OPEN);
	cr_assert_eq(breaker_probed(&b, next, true), BREAKER_HEALED);
	cr_assert_eq(breaker_probed(&b, next, true), BREAKER_STAYS);
}

Test(breaker, what_others_still_hear_while_it_is_open_changes_nothing)
{
	unsigned turn;

	fail_times(5);
	cr_assert_eq(answer_times(100, FAST), BREAKER_STAYS);
	cr_assert_eq(answer_times(100, SLOW), BREAKER_STAYS);
	cr_assert_eq(b.state, BREAKER_OPEN);
	now_us += limits.pause_us;
	turn = breaker_turn(&b, &limits, now_us);
	cr_assert_neq(turn, 0);
	cr_assert_eq(fail_times(10), BREAKER_STAYS);
	cr_assert_eq(breaker_probed(&b, turn, true), BREAKER_HEALED);
	/* Nor is it remembered. */
	cr_assert_eq(fail_times(4), BREAKER_STAYS);
	cr_assert_eq(answer_times(19, SLOW), BREAKER_STAYS);
}
