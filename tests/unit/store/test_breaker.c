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

/* What one step of a probe may take. */
#define STEP (300 * US_PER_MS)

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

static unsigned ask_turn(void)
{
	return breaker_turn(&b, &limits, STEP, now_us);
}

static unsigned go_on(unsigned turn)
{
	return breaker_go_on(&b, &limits, turn, STEP, now_us);
}

/* The first turn after it has opened. */
static unsigned first_turn(void)
{
	unsigned turn;

	fail_times(5);
	now_us += limits.pause_us;
	turn = ask_turn();
	cr_assert_neq(turn, 0);
	return turn;
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

	cr_assert_eq(ask_turn(), 0, "it is closed");
	fail_times(5);
	cr_assert_eq(ask_turn(), 0);
	now_us += limits.pause_us - 1;
	cr_assert_eq(ask_turn(), 0);
	now_us++;
	turn = ask_turn();
	cr_assert_neq(turn, 0);
	cr_assert_eq(b.state, BREAKER_HALF_OPEN);
	now_us += STEP + BREAKER_LATE_US - 1;
	for (unsigned i = 0; i < 10; i++)
		cr_assert_eq(ask_turn(), 0, "another has it");
	cr_assert_eq(breaker_probed(&b, turn, true), BREAKER_HEALED);
	cr_assert_eq(b.state, BREAKER_CLOSED);
	cr_assert_eq(ask_turn(), 0);
}

Test(breaker, after_a_bad_probe_the_next_comes_a_pause_after_that_one_began)
{
	unsigned first, second;

	fail_times(5);
	now_us += limits.pause_us;
	first = ask_turn();
	now_us += limits.pause_us / 2;
	cr_assert_eq(breaker_probed(&b, first, false), BREAKER_STAYS);
	cr_assert_eq(b.state, BREAKER_OPEN);
	cr_assert_eq(ask_turn(), 0);
	now_us += limits.pause_us / 2;
	second = ask_turn();
	cr_assert_neq(second, 0);
	cr_assert_neq(second, first);
}

Test(breaker, a_turn_that_is_not_given_back_falls_to_the_next_and_its_probe_is_ignored)
{
	unsigned lost = first_turn(), next;

	now_us += STEP + BREAKER_LATE_US - 1;
	cr_assert_eq(ask_turn(), 0);
	now_us++;
	next = ask_turn();
	cr_assert_neq(next, 0);
	cr_assert_eq(breaker_probed(&b, lost, true), BREAKER_STAYS);
	cr_assert_eq(b.state, BREAKER_HALF_OPEN);
	cr_assert_eq(breaker_probed(&b, next, true), BREAKER_HEALED);
	cr_assert_eq(breaker_probed(&b, next, true), BREAKER_STAYS);
}

Test(breaker, nobody_else_probes_for_as_long_as_a_step_may_take_however_long_that_is)
{
	static const int64_t steps_ms[] = { 1, 250, 1000, 8000, 60000 };

	for (size_t i = 0; i < sizeof(steps_ms) / sizeof(steps_ms[0]); i++) {
		const int64_t step_us = steps_ms[i] * US_PER_MS;
		unsigned turn;

		start();
		fail_times(5);
		now_us += limits.pause_us;
		turn = breaker_turn(&b, &limits, step_us, now_us);
		/* One address after the other, each almost too late. */
		for (unsigned step = 0; step < 10; step++) {
			now_us += step_us + BREAKER_LATE_US - 1;
			cr_assert_eq(ask_turn(), 0, "row %zu, step %u", i, step);
			cr_assert_eq(go_on(0), 0);
			cr_assert_eq(
				breaker_go_on(&b, &limits, turn, step_us, now_us), turn);
		}
		now_us += step_us + BREAKER_LATE_US;
		cr_assert_neq(ask_turn(), 0);
	}
}

Test(breaker, who_is_late_goes_on_unless_another_has_come_meanwhile)
{
	unsigned turn = first_turn(), other;

	now_us += 10 * (STEP + BREAKER_LATE_US);
	cr_assert_eq(go_on(turn), turn);
	now_us += STEP + BREAKER_LATE_US;
	other = ask_turn();
	cr_assert_neq(other, 0);
	cr_assert_eq(go_on(turn), 0);
	cr_assert_eq(go_on(other), other);
	/* When that one has ended as badly, the pause is for all. */
	cr_assert_eq(breaker_probed(&b, other, false), BREAKER_STAYS);
	cr_assert_eq(go_on(turn), 0);
	now_us += limits.pause_us;
	cr_assert_neq(go_on(turn), 0);
}

Test(breaker, who_began_before_it_opened_goes_on_only_by_a_turn)
{
	unsigned turn;

	fail_times(5);
	cr_assert_eq(go_on(0), 0);
	now_us += limits.pause_us;
	turn = go_on(0);
	cr_assert_neq(turn, 0);
	cr_assert_eq(ask_turn(), 0);
	cr_assert_eq(breaker_probed(&b, turn, true), BREAKER_HEALED);
	cr_assert_eq(go_on(turn), 0, "he needs none");
}

Test(breaker, the_first_who_knows_an_address_takes_the_turn_from_who_looks_it_up)
{
	unsigned first = first_turn(), second, again;

	breaker_lend(&b, first);
	cr_assert_eq(ask_turn(), 0, "who has no address waits for a lease");
	now_us += STEP + BREAKER_LATE_US;
	second = ask_turn();
	cr_assert_neq(second, 0);
	breaker_lend(&b, first);
	cr_assert_eq(go_on(first), 0, "what one has no longer cannot be lent");
	breaker_lend(&b, second);
	again = go_on(first);
	cr_assert_neq(again, 0);
	cr_assert_neq(again, second);
	/* From here he calls. */
	cr_assert_eq(go_on(second), 0);
	cr_assert_eq(ask_turn(), 0);
	cr_assert_eq(breaker_probed(&b, second, false), BREAKER_STAYS);
	cr_assert_eq(b.state, BREAKER_HALF_OPEN);
	cr_assert_eq(breaker_probed(&b, again, true), BREAKER_HEALED);
}

Test(breaker, who_has_looked_a_name_up_goes_on_with_a_lease_of_his_own)
{
	unsigned turn = first_turn();

	breaker_lend(&b, turn);
	now_us += STEP;
	cr_assert_eq(go_on(turn), turn);
	cr_assert_eq(go_on(0), 0, "it is lent no longer");
	now_us += STEP + BREAKER_LATE_US - 1;
	cr_assert_eq(ask_turn(), 0);
}

Test(breaker, what_others_still_hear_while_it_is_open_changes_nothing)
{
	unsigned turn;

	fail_times(5);
	cr_assert_eq(answer_times(100, FAST), BREAKER_STAYS);
	cr_assert_eq(answer_times(100, SLOW), BREAKER_STAYS);
	cr_assert_eq(b.state, BREAKER_OPEN);
	now_us += limits.pause_us;
	turn = ask_turn();
	cr_assert_neq(turn, 0);
	cr_assert_eq(fail_times(10), BREAKER_STAYS);
	cr_assert_eq(breaker_probed(&b, turn, true), BREAKER_HEALED);
	/* Nor is it remembered. */
	cr_assert_eq(fail_times(4), BREAKER_STAYS);
	cr_assert_eq(answer_times(19, SLOW), BREAKER_STAYS);
}
