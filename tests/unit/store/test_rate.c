#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/rate.h"

#define S INT64_C(1000000)

static struct rate window(uint64_t count, int64_t window_us)
{
	return (struct rate){ RATE_SLIDING_WINDOW, count, window_us, count };
}

static struct rate bucket(uint64_t count, int64_t window_us, uint64_t burst)
{
	return (struct rate){ RATE_TOKEN_BUCKET, count, window_us, burst };
}

static struct rate fixed(uint64_t count, int64_t window_us)
{
	return (struct rate){ RATE_FIXED_WINDOW, count, window_us, count };
}

static struct rate counter(uint64_t count, int64_t window_us)
{
	return (struct rate){ RATE_SLIDING_COUNTER, count, window_us, count };
}

static struct rate queue(
	uint64_t count, int64_t window_us, uint64_t burst, int64_t max_delay_us)
{
	return (struct rate){ RATE_LEAKY_BUCKET, count, window_us, burst, max_delay_us };
}

/* A whole decision on one tier. */
static struct rate_view take(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	struct rate_view v = rate_look(s, r, cost, now_us);

	if (v.admitted)
		cr_assert(rate_charge(s, r, cost, now_us));
	return v;
}

/* Rows in order, on one state: what is asked when, and what is said. */
struct row {
	int64_t now_us;
	uint64_t cost;
	bool admitted;
	uint64_t remaining;
	int64_t wait_us, reset_us, hold_us;
};

static void check_rows(const struct rate *r, const struct row *rows, size_t n)
{
	struct rate_state s = { 0 };

	for (size_t i = 0; i < n; i++) {
		struct rate_view v = take(&s, r, rows[i].cost, rows[i].now_us);

		cr_assert_eq(v.admitted, rows[i].admitted, "row %zu", i);
		cr_assert_eq(
			v.remaining, rows[i].remaining, "row %zu: %lu", i, v.remaining);
		cr_assert_eq(v.wait_us, rows[i].wait_us, "row %zu: %ld", i, v.wait_us);
		cr_assert_eq(v.reset_us, rows[i].reset_us, "row %zu: %ld", i, v.reset_us);
		cr_assert_eq(v.hold_us, rows[i].hold_us, "row %zu: %ld", i, v.hold_us);
	}
	rate_state_release(&s, r->algorithm);
}

Test(rate, a_window_admits_its_count_and_frees_each_event_after_a_window)
{
	static const struct row rows[] = {
		{ 1000, 1, true, 2, 0, 100 }, { 1010, 1, true, 1, 0, 100 },
		{ 1010, 1, true, 0, 0, 100 }, { 1050, 1, false, 0, 50, 60 },
		{ 1099, 1, false, 0, 1, 11 }, { 1099, 2, false, 0, 11, 11 },
		{ 1100, 1, true, 0, 0, 100 }, /* the first has just gone */
		{ 1109, 1, false, 0, 1, 91 }, { 1110, 2, true, 0, 0, 100 },
		{ 1300, 1, true, 2, 0, 100 }, /* all have */
	};
	struct rate r = window(3, 100);

	check_rows(&r, rows, COUNT_OF(rows));
}

Test(rate, a_cost_is_so_many_events_and_the_last_that_fits_passes)
{
	static const struct row rows[] = {
		{ 1000, 4, true, 6, 0, 100 },
		{ 1001, 6, true, 0, 0, 100 },
		{ 1002, 1, false, 0, 98, 99 },
		{ 1002, 4, false, 0, 98, 99 },
		{ 1002, 5, false, 0, 99, 99 },
		{ 1100, 5, false, 4, 1, 1 },
		{ 1100, 4, true, 0, 0, 100 },
	};
	struct rate r = window(10, 100);

	check_rows(&r, rows, COUNT_OF(rows));
}

Test(rate, a_bucket_is_spent_then_refills_at_the_rate)
{
	/* Two a second, three at once. */
	static const struct row rows[] = {
		{ 10 * S, 1, true, 2, 0, S / 2 }, { 10 * S, 2, true, 0, 0, 3 * S / 2 },
		{ 10 * S, 1, false, 0, S / 2, 3 * S / 2 },
		{ 10 * S, 3, false, 0, 3 * S / 2, 3 * S / 2 },
		{ 10 * S + S / 2 - 1, 1, false, 0, 1, S + 1 },
		{ 10 * S + S / 2, 1, true, 0, 0, 3 * S / 2 },
		{ 11 * S + S / 4, 1, true, 0, 0, 5 * S / 4 }, /* half a token is left */
		{ 11 * S + S / 4, 1, false, 0, S / 4, 5 * S / 4 },
		{ 99 * S, 3, true, 0, 0, 3 * S / 2 }, /* no more than three have gathered */
	};
	struct rate r = bucket(2, S, 3);

	check_rows(&r, rows, COUNT_OF(rows));
}

Test(rate, a_fixed_window_begins_at_multiples_of_its_length)
{
	static const struct row rows[] = {
		{ 1030, 2, true, 1, 0, 70 },
		{ 1099, 2, false, 1, 1, 1 },
		{ 1099, 1, true, 0, 0, 1 },
		{ 1099, 1, false, 0, 1, 1 },
		/* Six within two microseconds: that is the price. */
		{ 1100, 3, true, 0, 0, 100 },
		{ 1150, 1, false, 0, 50, 50 },
		{ 1750, 1, true, 2, 0, 50 },
	};
	struct rate r = fixed(3, 100);

	check_rows(&r, rows, COUNT_OF(rows));
}

Test(rate, a_counter_weighs_the_window_before)
{
	static const struct row rows[] = {
		{ 1000, 8, true, 2, 0, 200 },
		{ 1050, 3, false, 2, 63, 150 }, /* 8 * 87 / 100 is below 7 at last */
		{ 1100, 2, true, 0, 0, 200 },
		{ 1100, 1, false, 0, 13, 200 }, /* 8 * 87 / 100 + 2 is below 9 */
		{ 1112, 1, false, 0, 1, 188 },
		{ 1113, 1, true, 0, 0, 187 },
		{ 1150, 3, true, 0, 0, 150 },
		{ 1199, 1, true, 2, 0, 101 },
		/* Seven in the window before. */
		{ 1200, 4, false, 3, 15, 100 },
		{ 1215, 4, true, 0, 0, 185 },
		{ 1215, 10, false, 0, 185, 185 }, /* all have to go */
		{ 1400, 10, true, 0, 0, 200 },
	};
	struct rate r = counter(10, 100);

	check_rows(&r, rows, COUNT_OF(rows));
}

Test(rate, a_queue_holds_each_until_its_turn_and_refuses_what_would_wait_too_long)
{
	/* One in 100, and nobody stands for more than 250. */
	static const struct row patient[] = {
		{ 1000, 1, true, 2, 0, 100, 0 }, { 1000, 1, true, 1, 0, 200, 100 },
		{ 1000, 1, true, 0, 0, 300, 200 },
		{ 1000, 1, false, 0, 50, 300, 0 }, /* its turn would be in 300 */
		{ 1049, 1, false, 0, 1, 251, 0 },
		{ 1050, 2, true, 0, 0, 450, 250 }, /* both then */
		{ 1060, 1, false, 0, 190, 440, 0 }, { 9999, 5, true, 0, 0, 500, 0 },
		{ 9999, 6, false, 0, 500, 500, 0 }, /* never */
	};
	/* There is room for two, however patient they are. */
	static const struct row small[] = {
		{ 1000, 1, true, 1, 0, 100, 0 },
		{ 1000, 1, true, 0, 0, 200, 100 },
		{ 1001, 1, false, 0, 99, 199, 0 },
		{ 1100, 1, true, 0, 0, 200, 100 },
	};
	/* Nobody waits: one at a time. */
	static const struct row impatient[] = {
		{ 1000, 1, true, 0, 0, 100, 0 },
		{ 1001, 1, false, 0, 99, 99, 0 },
		{ 1100, 3, true, 0, 0, 300, 0 },
		{ 1400, 1, true, 0, 0, 100, 0 },
	};
	struct rate r = queue(1, 100, 5, 250);

	check_rows(&r, patient, COUNT_OF(patient));
	r = queue(1, 100, 2, 100 * S);
	check_rows(&r, small, COUNT_OF(small));
	r = queue(1, 100, 5, 0);
	check_rows(&r, impatient, COUNT_OF(impatient));
}

Test(rate, a_cost_above_the_capacity_never_fits)
{
	struct rate rates[] = { window(5, S), bucket(5, S, 5), fixed(5, S), counter(5, S),
		queue(5, S, 5, S) };

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		struct rate_state s = { 0 };
		struct rate_view v = take(&s, &rates[i], 6, 0);

		cr_assert_not(v.admitted);
		cr_assert_eq(v.remaining, 5u);
		cr_assert_eq(v.wait_us, S);
		v = take(&s, &rates[i], UINT64_MAX, 0);
		cr_assert_not(v.admitted);
	}
}

Test(rate, looking_with_cost_zero_tells_what_is_left)
{
	struct rate rates[] = { window(5, S), bucket(5, S, 5), fixed(5, S), counter(5, S),
		queue(5, S, 5, S) };
	const int64_t resets_us[] = { S, 2 * S / 5, S - 7, 2 * S - 7, 2 * S / 5 };

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		struct rate_state s = { 0 };
		struct rate_view v = rate_look(&s, &rates[i], 0, 7);

		cr_assert_eq(v.remaining, 5u);
		cr_assert_eq(v.reset_us, 0);
		take(&s, &rates[i], 2, 7);
		v = rate_look(&s, &rates[i], 0, 7);
		cr_assert_eq(v.remaining, 3u);
		cr_assert_eq(v.reset_us, resets_us[i]);
		rate_state_release(&s, rates[i].algorithm);
	}
}

/* How many of the polls of ten minutes get through. */
static unsigned polled(struct rate r, int64_t every_us)
{
	struct rate_state s = { 0 };
	unsigned admitted = 0;

	for (int64_t now_us = 0; now_us < 600 * S; now_us += every_us)
		admitted += take(&s, &r, 1, now_us).admitted;
	rate_state_release(&s, r.algorithm);
	return admitted;
}

Test(rate, polling_loses_no_fraction)
{
	static const struct {
		struct rate rate;
		int64_t every_us;
		unsigned admitted;
	} rows[] = {
		/* One in three seconds, asked ten times a second. */
		{ { RATE_TOKEN_BUCKET, 1, 3 * S, 1 }, S / 10, 200 },
		{ { RATE_SLIDING_WINDOW, 1, 3 * S, 1 }, S / 10, 200 },
		/* Three in two seconds, asked every 300 ms: room for a second one keeps
		 * what is gained between two polls, without it every third gets in. */
		{ { RATE_TOKEN_BUCKET, 3, 2 * S, 2 }, 3 * S / 10, 900 },
		{ { RATE_TOKEN_BUCKET, 3, 2 * S, 1 }, 3 * S / 10, 667 },
		{ { RATE_FIXED_WINDOW, 1, 3 * S, 1 }, S / 10, 200 },
		{ { RATE_FIXED_WINDOW, 3, 2 * S, 3 }, 3 * S / 10, 900 },
		{ { RATE_LEAKY_BUCKET, 1, 3 * S, 1 }, S / 10, 200 },
		{ { RATE_LEAKY_BUCKET, 3, 2 * S, 2, S }, 3 * S / 10, 900 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		unsigned admitted = polled(rows[i].rate, rows[i].every_us);

		cr_assert(admitted >= rows[i].admitted - 1 &&
				admitted <= rows[i].admitted + 1,
			"row %zu: %u", i, admitted);
	}
}

/* Ten times as often as it may, for ten windows: refusals neither count nor last. */
Test(rate, who_hammers_a_limit_gets_all_of_it)
{
	struct rate rates[] = { window(100, S), fixed(100, S), counter(100, S),
		bucket(100, S, 100), queue(100, S, 100, S) };
	const unsigned least[] = { 999, 999, 950, 999, 999 };

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		struct rate_state s = { 0 };
		unsigned admitted = 0;

		for (int64_t now_us = 1; now_us < 10 * S; now_us += S / 1000)
			admitted += take(&s, &rates[i], 1, now_us).admitted;
		cr_assert_geq(admitted, least[i], "row %zu: %u", i, admitted);
		rate_state_release(&s, rates[i].algorithm);
	}
}

/* Three tokens in a thousand microseconds. */
Test(rate, a_refill_every_third_of_a_millisecond_adds_up)
{
	struct rate r = bucket(3, 1000, 2);
	struct rate_state s = { 0 };
	unsigned admitted = 0;

	for (int64_t now_us = 0; now_us < S; now_us++)
		admitted += take(&s, &r, 1, now_us).admitted;
	cr_assert(admitted >= 3000 && admitted <= 3002, "%u", admitted);
}

Test(rate, a_burst_far_below_the_rate_still_limits)
{
	struct rate rates[] = { bucket(100, S, 1), queue(100, S, 1, S) };

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		const struct rate *r = &rates[i];
		struct rate_state s = { 0 };

		cr_assert(take(&s, r, 1, 0).admitted);
		cr_assert_not(take(&s, r, 1, 0).admitted);
		cr_assert_not(take(&s, r, 1, S / 100 - 1).admitted);
		cr_assert(take(&s, r, 1, S / 100).admitted);
	}
}

/* Who waits as told gets through, who waits a microsecond less does not. */
Test(rate, a_wait_is_exact)
{
	struct rate rates[] = { window(7, 1000), bucket(3, 1000, 7), bucket(7, 10, 9),
		window(100, 12345), bucket(1, 999983, 5), fixed(7, 1000), counter(7, 1000),
		counter(100, 12345), counter(1, 999983), counter(3, 2),
		queue(3, 1000, 7, 500), queue(7, 10, 9, 3), queue(1, 999983, 5, 99 * S) };

	srand(1);
	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		const struct rate *r = &rates[i];
		struct rate_state s = { 0 };
		int64_t now_us = 0;
		unsigned waits = 0;

		for (unsigned step = 0; step < 5000; step++) {
			uint64_t cost = 1 + (uint64_t)rand() % r->burst;
			struct rate_view v = take(&s, r, cost, now_us);

			if (!v.admitted) {
				waits++;
				cr_assert_gt(v.wait_us, 0);
				cr_assert_not(rate_look(&s, r, cost, now_us + v.wait_us - 1)
						      .admitted);
				cr_assert(rate_look(&s, r, cost, now_us + v.wait_us)
						  .admitted);
			}
			now_us += (int64_t)((uint64_t)rand() %
				(uint64_t)(r->window_us * (int64_t)r->burst /
					(int64_t)r->count));
		}
		cr_assert_gt(waits, 100u);
		rate_state_release(&s, r->algorithm);
	}
}

Test(rate, a_reset_is_exact)
{
	struct rate rates[] = { window(7, 1000), bucket(3, 1000, 7), bucket(7, 10, 9),
		fixed(7, 1000), counter(7, 1000), queue(3, 1000, 7, 9000) };

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		const struct rate *r = &rates[i];
		struct rate_state s = { 0 };
		int64_t now_us = 5 * S;

		take(&s, r, 2, now_us);
		take(&s, r, 3, now_us += 1);
		now_us += rate_look(&s, r, 0, now_us).reset_us;
		cr_assert_eq(now_us, rate_ends_us(&s, r));
		cr_assert_not(rate_look(&s, r, r->burst, now_us - 1).admitted);
		cr_assert(rate_look(&s, r, r->burst, now_us).admitted);
		rate_state_release(&s, r->algorithm);
	}
}

Test(rate, a_clock_stepping_back_gives_nothing_and_locks_nobody_out)
{
	struct rate rates[] = { window(10, 60 * S), bucket(10, 60 * S, 10),
		queue(10, 60 * S, 10, 60 * S), fixed(10, 60 * S), counter(10, 60 * S) };
	/* A window of the clock begins every 60 s, the last one at 960 s. */
	const int64_t ends_us[] = { 1060 * S, 1060 * S, 1060 * S, 1020 * S, 1080 * S };
	const int64_t now_us = 1000 * S, back_us = now_us - 30 * S;

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		const struct rate *r = &rates[i];
		struct rate_state s = { 0 };
		struct rate_view v;

		cr_assert(take(&s, r, 7, now_us).admitted);
		v = rate_look(&s, r, 1, back_us);
		cr_assert_eq(v.remaining, 2u);
		/* What fits is charged as if at the newest stamp. */
		cr_assert(take(&s, r, 3, back_us).admitted);
		v = rate_look(&s, r, 1, back_us);
		cr_assert_not(v.admitted);
		cr_assert_leq(v.wait_us, 60 * S);
		cr_assert_leq(v.reset_us, ends_us[i] - now_us);
		cr_assert_eq(rate_ends_us(&s, r), ends_us[i]);
		/* Healed once the clock passes the stamp. */
		cr_assert_not(rate_look(&s, r, 10, ends_us[i] - 1).admitted);
		cr_assert(rate_look(&s, r, 10, ends_us[i]).admitted);
		rate_state_release(&s, r->algorithm);
	}
}

Test(rate, a_clock_stepping_back_beyond_a_window_moves_the_stamps)
{
	struct rate rates[] = { window(10, 60 * S), bucket(10, 60 * S, 10),
		queue(10, 60 * S, 10, 60 * S), fixed(10, 60 * S), counter(10, 60 * S) };
	const int64_t now_us = 1000 * S, back_us = 100 * S;

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		const struct rate *r = &rates[i];
		struct rate_state s = { 0 };
		struct rate_view v;

		cr_assert(take(&s, r, 4, now_us - 6 * S).admitted);
		cr_assert(take(&s, r, i == 1 || i == 2 ? 7 : 6, now_us)
				  .admitted); /* one came back */
		v = rate_look(&s, r, 1, back_us);
		cr_assert_not(v.admitted);
		cr_assert_leq(v.wait_us, 54 * S);
		cr_assert_leq(rate_ends_us(&s, r), back_us + (i == 4 ? 120 : 60) * S);
		cr_assert(rate_look(&s, r, 1, back_us + v.wait_us).admitted);
		cr_assert_not(rate_look(&s, r, 1, back_us + v.wait_us - 1).admitted);
		rate_state_release(&s, r->algorithm);
	}
}

Test(rate, a_clock_stepping_forward_gives_one_full_refill_at_most)
{
	struct rate rates[] = { window(10, 60 * S), bucket(10, 60 * S, 10),
		queue(10, 60 * S, 10, 60 * S), fixed(10, 60 * S), counter(10, 60 * S) };

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		struct rate_state s = { 0 };

		cr_assert(take(&s, &rates[i], 10, 0).admitted);
		cr_assert(take(&s, &rates[i], 10, 1000000 * S).admitted);
		cr_assert_not(take(&s, &rates[i], 1, 1000000 * S).admitted);
		rate_state_release(&s, rates[i].algorithm);
	}
}

Test(rate, a_changed_count_keeps_what_was_used)
{
	struct rate before[] = { window(10, 60 * S), bucket(10, 60 * S, 10),
		queue(10, 60 * S, 10, 99 * S), fixed(10, 60 * S), counter(10, 60 * S) };
	struct rate lower[] = { window(4, 60 * S), bucket(4, 60 * S, 4),
		queue(4, 60 * S, 4, 999 * S), fixed(4, 60 * S), counter(4, 60 * S) };
	struct rate higher[] = { window(12, 60 * S), bucket(12, 60 * S, 12),
		queue(12, 60 * S, 12, 99 * S), fixed(12, 60 * S), counter(12, 60 * S) };
	/* Five have to go: at four a minute that takes 75 s; a window lets all go; of
	 * those in the window before no more than 3/8 may be left. */
	const int64_t waits_us[] = { 60 * S, 75 * S, 75 * S, 60 * S, 97 * S + S / 2 };

	for (size_t i = 0; i < COUNT_OF(before); i++) {
		struct rate_state s = { 0 };
		struct rate_view v;

		cr_assert(take(&s, &before[i], 8, 0).admitted);
		v = rate_look(&s, &lower[i], 1, 0);
		cr_assert_not(v.admitted);
		cr_assert_eq(v.remaining, 0u);
		cr_assert_eq(v.wait_us, waits_us[i], "row %zu: %ld", i, v.wait_us);
		cr_assert_not(rate_look(&s, &lower[i], 1, v.wait_us - 1).admitted);
		cr_assert(rate_look(&s, &lower[i], 1, v.wait_us).admitted);
		v = take(&s, &higher[i], 1, 0);
		cr_assert(v.admitted);
		cr_assert_eq(v.remaining, 3u);
		rate_state_release(&s, before[i].algorithm);
	}
}

Test(rate, a_bucket_under_another_window_counts_whole_tokens)
{
	struct rate minute = bucket(10, 60 * S, 10), hour = bucket(10, 3600 * S, 10);
	struct rate_state s = { 0 };

	cr_assert(take(&s, &minute, 3, 0).admitted);
	/* A microsecond has given back some of the third token. */
	cr_assert_eq(rate_look(&s, &minute, 1, 1).remaining, 6u);
	cr_assert_eq(rate_look(&s, &hour, 1, 0).remaining, 6u);
	cr_assert(take(&s, &hour, 7, 0).admitted);
	cr_assert_not(take(&s, &hour, 1, 0).admitted);
}

Test(rate, a_counter_under_another_window_keeps_what_it_weighed)
{
	struct rate minute = counter(10, 60 * S), hour = counter(10, 3600 * S);
	struct rate_state s = { 0 };

	cr_assert(take(&s, &minute, 6, 7200 * S).admitted);
	cr_assert(take(&s, &minute, 1, 7290 * S).admitted); /* half of six and one */
	cr_assert_eq(rate_look(&s, &hour, 0, 7290 * S).remaining, 6u);
	cr_assert(take(&s, &hour, 6, 7291 * S).admitted);
	cr_assert_not(take(&s, &hour, 1, 7291 * S).admitted);
	cr_assert_eq(rate_ends_us(&s, &hour), 3 * 3600 * S + 3600 * S);
}

Test(rate, a_fixed_window_under_another_length_counts_where_it_was_last_charged)
{
	struct rate minute = fixed(10, 60 * S), hour = fixed(10, 3600 * S);
	struct rate_state s = { 0 };

	cr_assert(take(&s, &minute, 6, 7290 * S).admitted);
	cr_assert_eq(rate_look(&s, &hour, 0, 7500 * S).remaining, 4u);
	cr_assert_eq(rate_look(&s, &minute, 0, 7500 * S).remaining, 10u);
	cr_assert(take(&s, &hour, 4, 7500 * S).admitted);
	cr_assert_not(take(&s, &hour, 1, 10799 * S).admitted);
	cr_assert(take(&s, &hour, 1, 10800 * S).admitted);
}

/* Values as large as rules may have them: no sum may wrap. */
Test(rate, the_largest_numbers_do_not_wrap)
{
	const int64_t longest = (INT64_C(1) << 48) - 1, now_us = INT64_C(1700000000000000);
	struct rate rates[] = { bucket(1, longest, 31), window(3, longest),
		bucket(UINT64_C(1) << 53, 1, (UINT64_C(1) << 53) - 1),
		fixed((UINT64_C(1) << 53) - 1, longest), counter(31, longest),
		counter((UINT64_C(1) << 53) - 1, 1),
		queue(UINT64_C(1) << 53, 1, (UINT64_C(1) << 53) - 1, longest) };

	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		const struct rate *r = &rates[i];
		struct rate_state s = { 0 };
		uint64_t most = r->burst;
		struct rate_view v = take(&s, r, most, now_us);

		cr_assert(v.admitted);
		cr_assert_eq(v.remaining, 0u);
		v = take(&s, r, most, now_us);
		cr_assert_not(v.admitted);
		cr_assert_eq(v.wait_us, v.reset_us);
		cr_assert(take(&s, r, most, now_us + v.wait_us).admitted);
		v = take(&s, r, 1, INT64_C(1) << 61);
		cr_assert(v.admitted);
		rate_state_release(&s, r->algorithm);
	}
}

Test(rate, a_window_holds_what_it_admitted_and_refusals_add_nothing)
{
	struct rate r = window(1000, S);
	struct rate_state s = { 0 };
	size_t full;

	for (int64_t i = 0; i < 1000; i++) {
		cr_assert(take(&s, &r, 1, i).admitted);
		cr_assert_leq(
			rate_state_bytes(&s, r.algorithm), (size_t)(i + 1) * 10 + 8 * 17);
	}
	full = rate_state_bytes(&s, r.algorithm);
	cr_assert_eq(full, 1000 * sizeof(int64_t));
	for (int i = 0; i < 100000; i++)
		cr_assert_not(take(&s, &r, 1, 1000).admitted);
	cr_assert_eq(rate_state_bytes(&s, r.algorithm), full);
	/* And gives it back. */
	cr_assert(take(&s, &r, 1, 10 * S).admitted);
	cr_assert_leq(rate_state_bytes(&s, r.algorithm), 10u * sizeof(int64_t));
	rate_state_release(&s, r.algorithm);
}

Test(rate, what_is_reserved_is_what_was_announced)
{
	struct rate r = window(500, 100);
	struct rate_state s = { 0 };

	srand(2);
	for (int64_t now_us = 0; now_us < 20000; now_us += rand() % 4) {
		uint64_t cost = 1 + (uint64_t)rand() % 20;
		size_t announced;

		if (!rate_look(&s, &r, cost, now_us).admitted)
			continue;
		announced = rate_reserve_bytes(&s, &r, cost, now_us);
		cr_assert(rate_reserve(&s, &r, cost, now_us));
		cr_assert_eq(rate_state_bytes(&s, r.algorithm), announced);
		cr_assert(rate_charge(&s, &r, cost, now_us));
		cr_assert_eq(rate_state_bytes(&s, r.algorithm), announced);
	}
	rate_state_release(&s, r.algorithm);
}

Test(rate, without_memory_nothing_is_charged)
{
	const uint64_t too_many = UINT64_C(1) << 61;
	struct rate r = window(too_many, S);
	struct rate_state s = { 0 };

	cr_assert(take(&s, &r, 5, 0).admitted);
	cr_assert(rate_look(&s, &r, too_many - 5, 0).admitted);
	cr_assert_not(rate_charge(&s, &r, too_many - 5, 0));
	cr_assert_eq(rate_look(&s, &r, 0, 0).remaining, too_many - 5);
	rate_state_release(&s, r.algorithm);
}
