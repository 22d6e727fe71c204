#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "config/config.h"
#include "store/memory.h"
#include "store/store.h"

#define S INT64_C(1000000)

static struct memory *memory;

static void setup(void)
{
	log_open(2, LOG_LEVEL_ERROR);
	memory = memory_new(64u << 20);
	cr_assert(memory);
}

static void teardown(void)
{
	memory_free(memory);
}

TestSuite(memory, .init = setup, .fini = teardown);

static struct rate window(uint64_t count, int64_t window_us)
{
	return (struct rate){ RATE_SLIDING_WINDOW, count, window_us, count };
}

static struct rate bucket(uint64_t count, int64_t window_us, uint64_t burst)
{
	return (struct rate){ RATE_TOKEN_BUCKET, count, window_us, burst };
}

static struct take_tier tier(const char *key, const struct rate *rate)
{
	return (struct take_tier){ .key = view_str(key), .rate = rate, .cost = 1 };
}

static bool take(struct memory *m, const struct take_tier *tiers, size_t n, int64_t now_us,
	struct rate_view *views)
{
	bool admitted = false;

	cr_assert(memory_take(m, tiers, n, now_us, &admitted, views));
	return admitted;
}

static bool take_one(struct memory *m, const char *key, struct rate rate, int64_t now_us)
{
	struct take_tier t = tier(key, &rate);
	struct rate_view view;

	return take(m, &t, 1, now_us, &view);
}

/* What is left of a key, without charging it: a tier that never admits stands by. */
static uint64_t left(struct memory *m, const char *key, struct rate rate, int64_t now_us)
{
	struct rate never = window(1, S);
	struct take_tier tiers[] = { tier(key, &rate), tier("never", &never) };
	struct rate_view views[2];

	tiers[1].cost = 2;
	cr_assert_not(take(m, tiers, 2, now_us, views));
	return views[0].remaining;
}

Test(memory, all_tiers_pay_or_none)
{
	struct rate wide = window(10, S), narrow = bucket(1, S, 1);
	struct take_tier tiers[] = { tier("wide", &wide), tier("narrow", &narrow) };
	struct rate_view views[2];

	cr_assert(take(memory, tiers, 2, 0, views));
	cr_assert_eq(views[0].remaining, 9u);
	cr_assert_eq(views[1].remaining, 0u);
	for (int i = 1; i < 100; i++) {
		cr_assert_not(take(memory, tiers, 2, i, views));
		cr_assert(views[0].admitted);
		cr_assert_eq(views[0].remaining, 9u);
		cr_assert_eq(views[0].reset_us, S - i);
		cr_assert_not(views[1].admitted);
		cr_assert_eq(views[1].wait_us, S - i);
	}
}

Test(memory, a_shadow_tier_decides_nothing_and_pays_only_with_the_others)
{
	static const struct {
		uint64_t enforcing, shadow; /* what each has left */
		bool pass;
		uint64_t enforcing_after, shadow_after;
	} rows[] = {
		{ 2, 2, true, 1, 1 },
		{ 2, 0, true, 1, 0 },
		{ 0, 2, false, 0, 2 },
		{ 0, 0, false, 0, 0 },
	};
	struct rate r = window(2, S);

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct take_tier tiers[] = { tier("e", &r), tier("s", &r) };
		struct rate_view views[2];

		tiers[1].shadow = true;
		for (uint64_t n = rows[i].enforcing; n < 2; n++)
			take_one(memory, "e", r, 0);
		for (uint64_t n = rows[i].shadow; n < 2; n++)
			take_one(memory, "s", r, 0);
		cr_assert_eq(take(memory, tiers, 2, 0, views), rows[i].pass, "row %zu", i);
		cr_assert_eq(views[0].admitted, rows[i].enforcing > 0, "row %zu", i);
		cr_assert_eq(views[1].admitted, rows[i].shadow > 0, "row %zu", i);
		cr_assert_eq(views[0].remaining, rows[i].enforcing_after, "row %zu", i);
		cr_assert_eq(views[1].remaining, rows[i].shadow_after, "row %zu", i);
		cr_assert_eq(
			left(memory, "e", r, 0), rows[i].enforcing_after, "row %zu", i);
		cr_assert_eq(left(memory, "s", r, 0), rows[i].shadow_after, "row %zu", i);
		memory_clear(memory);
	}
}

/* Many at once. */
struct crowd {
	const struct take_tier *tiers[2]; /* every other thread takes the second */
	size_t n;
	unsigned each;
	pthread_barrier_t start;
	atomic_uint threads, admitted;
};

static void *ask_many_times(void *arg)
{
	struct crowd *c = arg;
	const struct take_tier *tiers = c->tiers[atomic_fetch_add(&c->threads, 1) % 2];

	pthread_barrier_wait(&c->start);
	for (unsigned i = 0; i < c->each; i++) {
		struct rate_view views[TIERS_MAX];
		bool admitted;

		if (memory_take(memory, tiers, c->n, 0, &admitted, views) && admitted)
			atomic_fetch_add(&c->admitted, 1);
	}
	return NULL;
}

static unsigned admitted_of_1000(
	const struct take_tier *one, const struct take_tier *other, size_t n)
{
	struct crowd c = { .tiers = { one, other }, .n = n, .each = 125 };
	pthread_t threads[8];

	pthread_barrier_init(&c.start, NULL, COUNT_OF(threads));
	for (size_t i = 0; i < COUNT_OF(threads); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, ask_many_times, &c), 0);
	for (size_t i = 0; i < COUNT_OF(threads); i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&c.start);
	return c.admitted;
}

Test(memory, a_thousand_first_requests_at_once_admit_exactly_the_limit)
{
	struct rate rates[] = { window(100, S), bucket(100, S, 100),
		{ RATE_FIXED_WINDOW, 100, S, 100, 0 },
		{ RATE_SLIDING_COUNTER, 100, S, 100, 0 },
		{ RATE_LEAKY_BUCKET, 100, S, 100, S } };

	for (int i = 0; i < 50; i++) {
		for (size_t j = 0; j < COUNT_OF(rates); j++) {
			struct take_tier t = tier("k", &rates[j]);

			cr_assert_eq(admitted_of_1000(&t, &t, 1), 100u);
			memory_clear(memory);
		}
	}
}

Test(memory, tiers_asked_for_in_any_order_neither_block_nor_miscount)
{
	struct rate wide = window(1000, S), narrow = bucket(70, S, 70);
	struct take_tier one[] = { tier("a", &wide), tier("b", &narrow), tier("c", &wide) };
	struct take_tier other[] = { tier("c", &wide), tier("b", &narrow),
		tier("a", &wide) };

	for (int i = 0; i < 50; i++) {
		cr_assert_eq(admitted_of_1000(one, other, 3), 70u);
		cr_assert_eq(left(memory, "a", wide, 0), 930u);
		cr_assert_eq(left(memory, "c", wide, 0), 930u);
		memory_clear(memory);
	}
}

/* A table so small that it is one shard, filled to the brim with keys of equal length,
 * asked for in their order at moments 0, 1, ... Key i ends at ends_us[i] or, beyond n, in
 * an hour. Returns how many it holds. */
#define SMALL_BYTES 4000

static const char *key_of(unsigned i)
{
	static char key[16];

	snprintf(key, sizeof(key), "k%03u", i);
	return key;
}

static unsigned fill(struct memory *m, const int64_t *ends_us, unsigned n)
{
	size_t each = 0;
	unsigned i;

	for (i = 0; memory_bytes(m) + each <= SMALL_BYTES; i++) {
		int64_t window_us = i < n ? ends_us[i] - (int64_t)i : 3600 * S;

		cr_assert(take_one(m, key_of(i), bucket(1, window_us, 1), i));
		each = memory_bytes(m) / memory_count(m);
	}
	return i;
}

static bool is_there(struct memory *m, unsigned i)
{
	return left(m, key_of(i), bucket(1, 3600 * S, 1), 1000) == 0;
}

Test(memory, a_full_table_drops_what_has_ended_then_what_is_idle_longest)
{
	static const int64_t ends_us[] = { 3600 * S, 500, 3600 * S, 400 };
	struct memory *m = memory_new(SMALL_BYTES);
	unsigned n = fill(m, ends_us, COUNT_OF(ends_us));
	int64_t before = counter_sum(COUNT_store_evictions);

	cr_assert_gt(n, 8u);
	/* Two have ended: two newcomers drop nobody else. */
	for (unsigned i = n; i < n + 2; i++)
		cr_assert(take_one(m, key_of(i), bucket(1, 3600 * S, 1), 600));
	cr_assert_eq(memory_count(m), n);
	cr_assert_eq(counter_sum(COUNT_store_evictions), before);
	cr_assert_not(is_there(m, 1));
	cr_assert_not(is_there(m, 3));
	/* Key 0 is asked for again, refused, and so no longer idle longest: 2 is. */
	cr_assert_not(take_one(m, key_of(0), bucket(1, 3600 * S, 1), 601));
	cr_assert(take_one(m, key_of(n + 2), bucket(1, 3600 * S, 1), 602));
	cr_assert_eq(memory_count(m), n);
	cr_assert_eq(counter_sum(COUNT_store_evictions), before + 1);
	cr_assert_not(is_there(m, 2));
	cr_assert(is_there(m, 0));
	for (unsigned i = 4; i < n + 2; i++)
		cr_assert(is_there(m, i), "key %u", i);
	memory_free(m);
}

Test(memory, what_ends_first_goes_first_however_it_came)
{
	static const int64_t ends_us[] = { 900, 300, 700, 500, 100, 800, 200, 600, 400 };
	struct memory *m = memory_new(SMALL_BYTES);
	unsigned n = fill(m, ends_us, COUNT_OF(ends_us));
	int64_t before = counter_sum(COUNT_store_evictions);

	cr_assert_gt(n, COUNT_OF(ends_us));
	for (unsigned i = 1; i <= COUNT_OF(ends_us); i++) {
		cr_assert(take_one(m, key_of(n + i), bucket(1, 3600 * S, 1), 100 * i));
		cr_assert_eq(memory_count(m), n);
		cr_assert_eq(counter_sum(COUNT_store_evictions), before);
	}
	memory_free(m);
}

Test(memory, dropping_a_count_is_logged_once_a_minute)
{
	struct memory *m = memory_new(SMALL_BYTES);
	char key[16], words[128], text[4096] = "";
	int fds[2];
	ssize_t n;

	cr_assert_eq(pipe(fds), 0);
	log_open(fds[1], LOG_LEVEL_WARNING);
	for (unsigned i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "%u", i);
		cr_assert(take_one(m, key, window(1, S), 0));
	}
	/* Not with the locks: a line may be slow. */
	cr_assert_eq(poll(&(struct pollfd){ .fd = fds[0], .events = POLLIN }, 1, 0), 0);
	for (unsigned i = 0; i < 3; i++)
		memory_tell(m);
	log_open(2, LOG_LEVEL_ERROR);
	close(fds[1]);
	n = read(fds[0], text, sizeof(text) - 1);
	close(fds[0]);
	cr_assert_gt(n, 0);
	snprintf(words, sizeof(words),
		"memory table is full: dropped a count before its "
		"time\" suppressed=%lld\n",
		(long long)counter_sum(COUNT_store_evictions) - 1);
	cr_assert_not_null(strstr(text, words), "%s", text);
	cr_assert_eq(strchr(text, '\n') - text, n - 1, "one line, not more");
	memory_free(m);
}

Test(memory, a_flood_of_clients_stays_within_the_bytes)
{
	const size_t most = 8u << 20;
	struct memory *m = memory_new(most);
	struct rate r = window(20, 3600 * S);
	char key[48];

	for (unsigned i = 0; i < 200000; i++) {
		struct rate_view view;
		struct take_tier t;

		snprintf(key, sizeof(key), "rate:ip:{192.0.2.%u}:*:sw60s", i);
		t = tier(key, &r);
		t.cost = 1 + i % 20;
		cr_assert(take(m, &t, 1, i, &view));
	}
	cr_assert_leq(memory_bytes(m), most);
	cr_assert_gt(memory_bytes(m), most / 10 * 9);
	cr_assert_gt(memory_count(m), 10000u);
	memory_free(m);
}

Test(memory, a_log_that_fits_into_a_shards_part_is_counted)
{
	static const size_t sizes[] = { 5u << 20, 8u << 20, 100u << 20, 512u << 20 };

	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		struct memory *m = memory_new(sizes[i]);
		size_t part = sizes[i] / config_memory_shards(sizes[i]);
		struct rate fits = window(part / 8, S), larger = window(part / 8 + 1, S);
		struct take_tier t = tier("one", &fits);
		struct rate_view view;
		bool admitted;

		t.cost = fits.count;
		cr_expect(take(m, &t, 1, 0, &view), "%zu bytes", sizes[i]);
		t = tier("other", &larger);
		t.cost = larger.count;
		cr_expect_not(
			memory_take(m, &t, 1, 0, &admitted, &view), "%zu bytes", sizes[i]);
		memory_free(m);
	}
}

Test(memory, refusals_fill_nothing)
{
	struct rate one = window(1, S), other = window(5, S);
	char key[16];

	cr_assert(take_one(memory, "global", one, 0));
	for (unsigned i = 0; i < 1000; i++) {
		struct take_tier tiers[2];
		struct rate_view views[2];

		snprintf(key, sizeof(key), "ip%u", i);
		tiers[0] = tier(key, &other);
		tiers[1] = tier("global", &one);
		cr_assert_not(take(memory, tiers, 2, 1, views));
	}
	cr_assert_eq(memory_count(memory), 1u);
}

Test(memory, what_finds_no_room_is_a_failure_and_nobody_pays)
{
	struct memory *m = memory_new(SMALL_BYTES);
	struct rate small = window(5, S), large = window(1000, S);
	struct take_tier tiers[] = { tier("small", &small), tier("new", &small),
		tier("large", &large) };
	struct rate_view views[3];
	bool admitted = true;

	cr_assert(take_one(m, "small", small, 0));
	cr_assert(take_one(m, "large", large, 0));
	tiers[2].cost = 900;
	cr_assert_not(memory_take(m, tiers, 3, 0, &admitted, views));
	cr_assert(admitted, "untouched");
	cr_assert_eq(memory_count(m), 2u);
	cr_assert_eq(left(m, "small", small, 0), 4u);
	cr_assert_eq(left(m, "large", large, 0), 999u);
	/* And all works on. */
	tiers[2].cost = 1;
	cr_assert(take(m, tiers, 3, 0, views));
	memory_free(m);
}

/* Sixteen tiers that are too much for one shard together, wherever their keys fall. */
struct many {
	char keys[TIERS_MAX][300];
	struct take_tier tiers[TIERS_MAX];
};

static void many_init(struct many *m, char first, const struct rate *r)
{
	for (size_t i = 0; i < TIERS_MAX; i++) {
		memset(m->keys[i], first + (int)i, sizeof(m->keys[i]));
		m->tiers[i] = (struct take_tier){ view_of(m->keys[i], sizeof(m->keys[i])),
			r, 1, false };
	}
}

Test(memory, a_decision_always_finds_room_for_its_own_tiers)
{
	struct rate r = window(5, 1000);
	struct memory *m = memory_new(SMALL_BYTES);
	struct rate_view views[TIERS_MAX];
	struct many many, others;
	size_t each, few;

	many_init(&many, 'a', &r);
	many_init(&others, 'A', &r);
	cr_assert(take(m, many.tiers, 3, 0, views));
	for (uint64_t i = 0; i < 4; i++) {
		cr_assert(take(m, many.tiers, TIERS_MAX, 1, views));
		for (size_t j = 0; j < TIERS_MAX; j++)
			cr_assert_eq(views[j].remaining, (j < 3 ? 3 : 4) - i);
	}
	/* Three are at their limit now: it holds for all. */
	cr_assert_not(take(m, many.tiers, TIERS_MAX, 1, views));
	cr_assert_eq(memory_count(m), TIERS_MAX + 0u);
	cr_assert_gt(memory_bytes(m), SMALL_BYTES);
	/* Others may take as much, but not on top of it. */
	cr_assert(take(m, others.tiers, TIERS_MAX, 2, views));
	cr_assert_eq(memory_count(m), TIERS_MAX + 0u);
	each = memory_bytes(m) / TIERS_MAX;
	/* And with the next that is small it is as small as it should be. */
	cr_assert(take_one(m, "k", r, 3));
	cr_assert_leq(memory_bytes(m), SMALL_BYTES);
	few = SMALL_BYTES / each;
	cr_assert_geq(memory_count(m), few - 1);
	memory_free(m);
}

/* All have ended, and yet those that are asked for belong to the decision. */
Test(memory, a_decision_does_not_drop_its_own_counts)
{
	struct rate r = window(5, 1);
	struct memory *m = memory_new(SMALL_BYTES);
	struct rate_view views[TIERS_MAX];
	struct many many;

	many_init(&many, 'a', &r);
	cr_assert(take(m, many.tiers, 3, 0, views));
	cr_assert(take(m, many.tiers, TIERS_MAX, 100, views));
	cr_assert_eq(memory_count(m), TIERS_MAX + 0u);
	cr_assert(take(m, many.tiers, 4, 200, views));
	memory_free(m);
}

/* As large as the configuration admits them: each log all but fills a shard. */
Test(memory, windows_that_fill_a_shard_each_are_counted_together)
{
	struct rate r = window((SMALL_BYTES - 1024) / 8, S);
	struct memory *m = memory_new(SMALL_BYTES);
	struct rate_view views[TIERS_MAX];
	struct many many;

	many_init(&many, 'a', &r);
	for (uint64_t i = 0; i < r.count; i++)
		cr_assert(take(m, many.tiers, TIERS_MAX, (int64_t)i, views), "%lu", i);
	cr_assert_not(take(m, many.tiers, TIERS_MAX, S - 1, views));
	cr_assert_leq(memory_bytes(m), TIERS_MAX * SMALL_BYTES);
	cr_assert(take_one(m, "k", window(1, S), S - 1));
	cr_assert_leq(memory_bytes(m), SMALL_BYTES);
	memory_free(m);
}

Test(memory, another_algorithm_waits_until_the_count_has_ended)
{
	struct rate w = window(5, S), b = bucket(5, S, 5);
	struct take_tier t = tier("k", &b);
	struct rate_view view;
	bool admitted;

	cr_assert(take_one(memory, "k", w, 0));
	cr_assert_not(memory_take(memory, &t, 1, S - 1, &admitted, &view));
	cr_assert(take(memory, &t, 1, S, &view));
	cr_assert_eq(view.remaining, 4u);
}

Test(memory, a_queue_tells_each_its_turn)
{
	struct rate r = { RATE_LEAKY_BUCKET, 10, S, 5, S / 4 };
	struct take_tier t = tier("k", &r);
	struct rate_view view;

	for (int64_t i = 0; i < 3; i++) {
		cr_assert(take(memory, &t, 1, 0, &view));
		cr_assert_eq(view.hold_us, i * S / 10);
	}
	cr_assert_not(take(memory, &t, 1, 0, &view));
	cr_assert_eq(view.hold_us, 0);
	cr_assert_eq(view.wait_us, S / 20);
}

Test(memory, one_key_for_two_tiers_is_a_failure)
{
	struct rate r = window(5, S);
	struct take_tier tiers[] = { tier("k", &r), tier("k", &r) };
	struct rate_view views[2];
	bool admitted;

	cr_assert_not(memory_take(memory, tiers, 2, 0, &admitted, views));
	cr_assert_eq(memory_count(memory), 0u);
}

Test(memory, clearing_forgets_everything)
{
	struct rate r = window(1, S);
	char key[16];

	for (unsigned i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "%u", i);
		cr_assert(take_one(memory, key, r, 0));
		cr_assert_not(take_one(memory, key, r, 0));
	}
	cr_assert_eq(memory_count(memory), 1000u);
	memory_clear(memory);
	cr_assert_eq(memory_count(memory), 0u);
	cr_assert_eq(memory_bytes(memory), 0u);
	cr_assert(take_one(memory, "1", r, 0));
}
