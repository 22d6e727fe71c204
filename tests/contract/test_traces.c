/*
 * The two arithmetics against each other, and both against counting by hand.
 *
 * Random questions, with time handed in, go to the memory table and to take.lua; every
 * number of the answers must be equal. WEIR_TRACE_STEPS sets the length (20000),
 * WEIR_TRACE_SEED repeats a trace whose seed a failure has shown.
 *
 * Time in a trace is not the time of Redis, so keys are kept from ending: each question
 * is a transaction that runs the script, reads the lifetimes and takes them away.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server.h"
#include "store/memory.h"
#include "store/script.h"
#include "store/store.h"

#define S     INT64_C(1000000)
#define START INT64_C(1700000000000000)

static struct server server;
static struct memory *memory;

static void start(void)
{
	cr_assert(server_start(&server), "redis-server does not start");
	memory = memory_new(256u << 20);
	cr_assert(memory);
}

static void stop(void)
{
	memory_free(memory);
	server_stop(&server);
}

TestSuite(traces, .init = start, .fini = stop);

/* Random numbers that a seed repeats (xorshift64*, Vigna 2014). */
static uint64_t seed, random_state;

static void random_start(void)
{
	const char *given = getenv("WEIR_TRACE_SEED");

	seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) % 1000000 + 1;
	random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
	fprintf(stderr, "trace with WEIR_TRACE_SEED=%" PRIu64 "\n", seed);
}

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(0x2545f4914f6cdd1d) % n;
}

static bool chance(unsigned percent)
{
	return random_below(100) < percent;
}

static unsigned steps_wanted(void)
{
	const char *given = getenv("WEIR_TRACE_STEPS");

	return given ? (unsigned)strtoul(given, NULL, 10) : 20000;
}

/* One question to both. */
struct answer {
	bool admitted;
	struct rate_view views[TIERS_MAX];
	long long ttl_ms[TIERS_MAX]; /* -1: not written, -2: no such key */
};

static redisReply *next_reply(void)
{
	void *reply = NULL;

	redisGetReply(server.redis, &reply);
	cr_assert(reply, "no answer: %s", server.redis->errstr);
	return reply;
}

static void ask_redis(
	const struct take_tier *tiers, size_t n, int64_t now_us, struct answer *out)
{
	struct buf take = { 0 };
	redisReply *reply;

	script_put_take(&take, SCRIPT_BY_SHA, tiers, n, now_us);
	redisAppendCommand(server.redis, "MULTI");
	redisAppendFormattedCommand(server.redis, take.p, take.n);
	for (size_t i = 0; i < n; i++) {
		redisAppendCommand(server.redis, "PTTL %b", tiers[i].key.p, tiers[i].key.n);
		redisAppendCommand(
			server.redis, "PERSIST %b", tiers[i].key.p, tiers[i].key.n);
	}
	redisAppendCommand(server.redis, "EXEC");
	for (size_t i = 0; i < 2 + 2 * n; i++)
		freeReplyObject(next_reply());
	reply = next_reply();
	cr_assert(reply->elements == 1 + 2 * n &&
			script_parse(reply->element[0], n, &out->admitted, out->views),
		"seed %" PRIu64 ": %s", seed,
		reply->elements && reply->element[0]->str ? reply->element[0]->str : "?");
	for (size_t i = 0; i < n; i++)
		out->ttl_ms[i] = reply->element[1 + 2 * i]->integer;
	freeReplyObject(reply);
	buf_release(&take);
}

static void show(char *out, size_t cap, bool pass, const struct rate_view *v)
{
	snprintf(out, cap,
		"pass %d, admitted %d, remaining %" PRIu64 ", wait %" PRId64
		", reset %" PRId64 ", hold %" PRId64,
		pass, v->admitted, v->remaining, v->wait_us, v->reset_us, v->hold_us);
}

static void ask_both(const struct take_tier *tiers, size_t n, int64_t now_us, unsigned step,
	struct answer *out)
{
	struct answer c;

	cr_assert(memory_take(memory, tiers, n, now_us, &c.admitted, c.views));
	ask_redis(tiers, n, now_us, out);
	for (size_t i = 0; i < n; i++) {
		const struct rate *r = tiers[i].rate;
		char in_c[160], in_lua[160];

		show(in_c, sizeof(in_c), c.admitted, &c.views[i]);
		show(in_lua, sizeof(in_lua), out->admitted, &out->views[i]);
		cr_assert_str_eq(in_c, in_lua,
			"seed %" PRIu64 " step %u tier %zu of %zu at %" PRId64
			": algorithm %d "
			"count %" PRIu64 " window %" PRId64 " burst %" PRIu64
			" delay %" PRId64 " cost %" PRIu64 ":\n  C   %s\n  Lua %s",
			seed, step, i, n, now_us, r->algorithm, r->count, r->window_us,
			r->burst, r->max_delay_us, tiers[i].cost, in_c, in_lua);
	}
}

/* What was written lives until it equals never seen; the rest is not touched. The server
 * may have been kept waiting between writing and telling. */
static void check_lifetimes(const struct take_tier *tiers, size_t n, const struct answer *a,
	bool clock_stepped, unsigned step)
{
	for (size_t i = 0; i < n; i++) {
		long long ms = (a->views[i].reset_us + 999) / 1000 + 1, got = a->ttl_ms[i];
		bool charged = a->admitted && a->views[i].admitted, right;

		if (charged)
			right = got >= 0 && got > ms - 900 && (clock_stepped || got <= ms);
		else /* stamps far ahead may have been moved */
			right = clock_stepped || got < 0;
		cr_assert(right,
			"seed %" PRIu64 " step %u: key %.*s lives %lld ms, not %lld", seed,
			step, VIEW_ARG(tiers[i].key), got, ms);
	}
}

/* How a trace is made. */
struct trace {
	uint64_t count_max; /* limits are drawn from 1 to this */
	unsigned kinds;     /* a bit for each algorithm that takes part */
	bool steps_back;    /* the clock may go back, counts and windows may change */
};

#define KIND(a) (1u << (a))
#define ALL_KINDS                                                                        \
	(KIND(RATE_SLIDING_WINDOW) | KIND(RATE_TOKEN_BUCKET) | KIND(RATE_FIXED_WINDOW) | \
		KIND(RATE_SLIDING_COUNTER) | KIND(RATE_LEAKY_BUCKET))

#define KEYS 5

static int64_t draw_window(void)
{
	static const int64_t windows[] = { 1, 7, 1000, S, 1234567, 60 * S, 3600 * S };

	return windows[random_below(COUNT_OF(windows))];
}

/* Count, burst and delay, the window being known. */
static void draw_numbers(struct rate *r, const struct trace *t)
{
	const bool leaky = r->algorithm == RATE_LEAKY_BUCKET;

	r->count = 1 + random_below(t->count_max);
	r->burst = r->count;
	if (leaky || r->algorithm == RATE_TOKEN_BUCKET)
		r->burst = 1 + random_below(t->count_max);
	r->max_delay_us = 0;
	/* None, less than the queue's length, more than that. */
	if (leaky && chance(90))
		r->max_delay_us = (int64_t)random_below(
			(uint64_t)r->window_us * r->burst / r->count * 3 / 2 + 2);
}

static void draw_rate(struct rate *r, const struct trace *t)
{
	do
		r->algorithm = (enum rate_algorithm)random_below(5);
	while (!(t->kinds & KIND(r->algorithm)));
	r->window_us = draw_window();
	draw_numbers(r, t);
}

static uint64_t draw_cost(const struct rate *r)
{
	if (chance(60))
		return 1;
	return 1 + random_below(chance(90) ? r->burst / 2 + 1 : r->burst + 2);
}

static int64_t draw_step(const struct rate *r, const struct trace *t)
{
	const uint64_t window_us = (uint64_t)r->window_us;
	int64_t step = 0;

	switch (random_below(8)) {
	case 0:
	case 1: break;
	case 2: step = 1; break;
	case 3: step = (int64_t)random_below(2 * window_us + 2); break;
	case 4: step = r->window_us; break;
	default: step = (int64_t)random_below(3 * window_us / r->count + 2); break;
	}
	if (!t->steps_back || !chance(8))
		return step;
	/* Back: a little, up to a window, beyond it. */
	switch (random_below(3)) {
	case 0: return -(int64_t)random_below(window_us / 10 + 2);
	case 1: return -(int64_t)random_below(window_us + 2);
	default: return -(int64_t)random_below(10 * window_us);
	}
}

static void run_trace(const struct trace *t)
{
	struct rate rates[KEYS];
	char keys[KEYS][8];
	int64_t now_us = START;
	unsigned passed = 0, refused = 0, steps = steps_wanted();

	random_start();
	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key%u", i);
		draw_rate(&rates[i], t);
	}
	for (unsigned step = 0; step < steps; step++) {
		struct take_tier tiers[KEYS];
		struct answer a;
		size_t n = chance(50) ? 1 : 1 + random_below(KEYS);
		size_t first = random_below(KEYS);

		for (size_t i = 0; i < n; i++) {
			struct rate *r = &rates[(first + i) % KEYS];

			if (t->steps_back && chance(2))
				draw_numbers(r, t);
			if (t->steps_back && chance(1))
				r->window_us = draw_window();
			tiers[i] = (struct take_tier){
				.key = view_str(keys[(first + i) % KEYS]),
				.rate = r,
				.cost = draw_cost(r),
				.shadow = chance(20),
			};
		}
		now_us += draw_step(tiers[random_below(n)].rate, t);
		ask_both(tiers, n, now_us, step, &a);
		check_lifetimes(tiers, n, &a, t->steps_back, step);
		*(a.admitted ? &passed : &refused) += 1;
	}
	/* A trace that only passes, or only refuses, shows little. */
	cr_assert(passed > steps / 50 && refused > steps / 50, "%u passed, %u refused",
		passed, refused);
}

Test(traces, windows_agree)
{
	run_trace(&(struct trace){ .count_max = 12, .kinds = KIND(RATE_SLIDING_WINDOW) });
}

Test(traces, large_windows_agree)
{
	run_trace(&(struct trace){ .count_max = 1000, .kinds = KIND(RATE_SLIDING_WINDOW) });
}

Test(traces, buckets_agree)
{
	run_trace(&(struct trace){ .count_max = 50, .kinds = KIND(RATE_TOKEN_BUCKET) });
}

Test(traces, fixed_windows_agree)
{
	run_trace(&(struct trace){ .count_max = 20, .kinds = KIND(RATE_FIXED_WINDOW) });
}

Test(traces, sliding_counters_agree)
{
	run_trace(&(struct trace){ .count_max = 50, .kinds = KIND(RATE_SLIDING_COUNTER) });
}

Test(traces, leaky_buckets_agree)
{
	run_trace(&(struct trace){ .count_max = 50, .kinds = KIND(RATE_LEAKY_BUCKET) });
}

Test(traces, all_agree_while_clocks_and_limits_change)
{
	run_trace(&(struct trace){
		.count_max = 100, .kinds = ALL_KINDS, .steps_back = true });
}

Test(traces, windows_agree_while_clocks_and_limits_change)
{
	run_trace(&(struct trace){ .count_max = 3000,
		.kinds = KIND(RATE_SLIDING_WINDOW),
		.steps_back = true });
}

Test(traces, counters_agree_while_clocks_and_limits_change)
{
	run_trace(&(struct trace){ .count_max = 3000,
		.kinds = KIND(RATE_SLIDING_COUNTER) | KIND(RATE_FIXED_WINDOW),
		.steps_back = true });
}

Test(traces, buckets_agree_while_clocks_and_limits_change)
{
	run_trace(&(struct trace){ .count_max = 3000,
		.kinds = KIND(RATE_TOKEN_BUCKET) | KIND(RATE_LEAKY_BUCKET),
		.steps_back = true });
}

/* Limits at the edge of what numbers hold: 2^53 in Lua, 2^48 for an offset. */
Test(traces, the_largest_numbers_agree)
{
	static const struct rate rates[] = {
		{ RATE_TOKEN_BUCKET, 1, (INT64_C(1) << 48) - 1, 31 },
		{ RATE_TOKEN_BUCKET, UINT64_C(1) << 53, S, 9007199254 },
		{ RATE_TOKEN_BUCKET, 3, 1, (UINT64_C(1) << 53) - 1 },
		{ RATE_TOKEN_BUCKET, 9007199254740881, 1, (UINT64_C(1) << 53) - 1 },
		{ RATE_TOKEN_BUCKET, 7, 3155760000 * INT64_C(10000), 285 },
		{ RATE_SLIDING_WINDOW, 100, (INT64_C(1) << 48) - 1, 100 },
		{ RATE_SLIDING_WINDOW, 5, (INT64_C(1) << 48) - 1, 5 },
		{ RATE_FIXED_WINDOW, (UINT64_C(1) << 53) - 1, (INT64_C(1) << 48) - 1,
			(UINT64_C(1) << 53) - 1 },
		{ RATE_FIXED_WINDOW, 9007199254740881, 7, 9007199254740881 },
		{ RATE_SLIDING_COUNTER, 31, (INT64_C(1) << 48) - 1, 31 },
		{ RATE_SLIDING_COUNTER, 9007199254, S, 9007199254 },
		{ RATE_SLIDING_COUNTER, (UINT64_C(1) << 53) - 1, 1,
			(UINT64_C(1) << 53) - 1 },
		{ RATE_SLIDING_COUNTER, 9007199, 999999937, 9007199 },
		{ RATE_LEAKY_BUCKET, 1, (INT64_C(1) << 48) - 1, 31,
			(INT64_C(1) << 48) - 1 },
		{ RATE_LEAKY_BUCKET, UINT64_C(1) << 53, S, 9007199254, 0 },
		{ RATE_LEAKY_BUCKET, 9007199254740881, 1, (UINT64_C(1) << 53) - 1, 1 },
		{ RATE_LEAKY_BUCKET, 7, 999999937, 9007199, (INT64_C(1) << 48) - 1 },
		{ RATE_LEAKY_BUCKET, 3, 1, (UINT64_C(1) << 53) - 1, 1000 * S },
	};

	random_start();
	for (size_t i = 0; i < COUNT_OF(rates); i++) {
		struct take_tier tier = { .key = VIEW("k"), .rate = &rates[i] };
		int64_t now_us = START;

		for (unsigned step = 0; step < 400 && now_us < INT64_C(1) << 52; step++) {
			struct answer a;

			tier.cost = 1 + random_below(chance(50) ? 2 : rates[i].burst);
			ask_both(&tier, 1, now_us, step, &a);
			now_us += (int64_t)random_below((uint64_t)rates[i].window_us /
					(chance(50) ? 2 : rates[i].burst) +
				2);
		}
		freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
		memory_clear(memory);
	}
}

/* Both against a plain list of everything that was ever let in. */
static void count_by_hand(const struct rate *r)
{
	const unsigned steps = steps_wanted() / 4;
	int64_t *let_in = calloc((size_t)steps * r->count, sizeof(*let_in));
	struct take_tier tier = { .key = VIEW("k"), .rate = r };
	int64_t now_us = START;
	size_t n = 0, gone = 0;

	cr_assert(let_in);
	random_start();
	for (unsigned step = 0; step < steps; step++) {
		const struct trace t = { .steps_back = false };
		struct answer a;
		uint64_t used;

		now_us += draw_step(r, &t);
		tier.cost = draw_cost(r);
		if (tier.cost > r->count)
			tier.cost = r->count;
		ask_both(&tier, 1, now_us, step, &a);
		while (gone < n && let_in[gone] <= now_us - r->window_us)
			gone++;
		used = n - gone;
		cr_assert_eq(a.admitted, used + tier.cost <= r->count,
			"seed %" PRIu64 " step %u: %" PRIu64 " of %" PRIu64
			" used, asked for %" PRIu64,
			seed, step, used, r->count, tier.cost);
		if (!a.admitted) {
			int64_t frees = let_in[gone + used + tier.cost - r->count - 1];

			cr_assert_eq(a.views[0].wait_us, frees + r->window_us - now_us);
			continue;
		}
		for (uint64_t i = 0; i < tier.cost; i++)
			let_in[n++] = now_us;
	}
	/* Any window, wherever it begins, holds at most count. */
	for (size_t i = 0; i + r->count < n; i++)
		cr_assert_geq(let_in[i + r->count] - let_in[i], r->window_us);
	free(let_in);
}

Test(traces, a_window_lets_in_as_many_as_counting_by_hand)
{
	count_by_hand(&(struct rate){ RATE_SLIDING_WINDOW, 5, S, 5 });
}

Test(traces, a_large_window_lets_in_as_many_as_counting_by_hand)
{
	count_by_hand(&(struct rate){ RATE_SLIDING_WINDOW, 300, 60 * S, 300 });
}

/* The other three against plain accounts of their own, in integers so wide that nothing
 * is ever lost or rounded. */
__extension__ typedef __int128 wide;

static wide wide_up(wide a, wide b)
{
	return a <= 0 ? 0 : (a + b - 1) / b;
}

/* Everything that was let in, by the window of the clock it fell into. */
struct account {
	int64_t window; /* number of the current one */
	uint64_t used, before;
};

static void account_at(struct account *a, const struct rate *r, int64_t now_us)
{
	const int64_t window = now_us / r->window_us;

	if (window != a->window)
		a->before = window == a->window + 1 ? a->used : 0;
	if (window != a->window)
		a->used = 0;
	a->window = window;
}

/* Whether cost fits at that moment, nobody else having come. */
static bool account_admits(
	struct account a, const struct rate *r, uint64_t cost, int64_t now_us)
{
	wide weighs;

	account_at(&a, r, now_us);
	weighs = (wide)a.used * r->window_us;
	if (r->algorithm == RATE_SLIDING_COUNTER)
		weighs += (wide)a.before * (r->window_us - now_us % r->window_us);
	return weighs + (wide)cost * r->window_us <= (wide)r->count * r->window_us;
}

static void account_for(const struct rate *r)
{
	const struct trace t = { .steps_back = false };
	struct take_tier tier = { .key = VIEW("k"), .rate = r };
	struct account account = { 0 };
	unsigned refused = 0, steps = steps_wanted() / 4;
	int64_t now_us = START;

	random_start();
	for (unsigned step = 0; step < steps; step++) {
		struct answer a;

		now_us += draw_step(r, &t);
		tier.cost = draw_cost(r);
		if (tier.cost > r->count)
			tier.cost = r->count;
		ask_both(&tier, 1, now_us, step, &a);
		account_at(&account, r, now_us);
		cr_assert_eq(a.admitted, account_admits(account, r, tier.cost, now_us),
			"seed %" PRIu64 " step %u", seed, step);
		if (a.admitted) {
			account.used += tier.cost;
			continue;
		}
		refused++;
		cr_assert_not(account_admits(
			account, r, tier.cost, now_us + a.views[0].wait_us - 1));
		cr_assert(
			account_admits(account, r, tier.cost, now_us + a.views[0].wait_us));
	}
	cr_assert_gt(refused, steps / 50);
}

Test(traces, a_fixed_window_lets_in_as_many_as_counting_by_hand)
{
	account_for(&(struct rate){ RATE_FIXED_WINDOW, 5, 60 * S, 5 });
}

Test(traces, a_sliding_counter_lets_in_as_many_as_counting_by_hand)
{
	account_for(&(struct rate){ RATE_SLIDING_COUNTER, 50, 1234567, 50 });
}

Test(traces, a_large_sliding_counter_lets_in_as_many_as_counting_by_hand)
{
	account_for(&(struct rate){ RATE_SLIDING_COUNTER, 7000, 997, 7000 });
}

/* The queue as a list of turns: when the last one is over, in 1/count of a microsecond. */
static void queue_up(const struct rate *r)
{
	const struct trace t = { .steps_back = false };
	struct take_tier tier = { .key = VIEW("k"), .rate = r };
	unsigned refused = 0, held = 0, steps = steps_wanted() / 4;
	int64_t now_us = START;
	wide over = 0;

	random_start();
	for (unsigned step = 0; step < steps; step++) {
		const wide count = (wide)r->count;
		wide now, ahead, turn_us, free_us;
		struct answer a;

		now_us += draw_step(r, &t);
		tier.cost = draw_cost(r);
		if (tier.cost > r->burst)
			tier.cost = r->burst;
		ask_both(&tier, 1, now_us, step, &a);
		now = now_us * count;
		ahead = over > now ? over - now : 0;
		turn_us = wide_up(ahead, count);
		/* Until the queue is short enough for it. */
		free_us = wide_up(
			ahead + ((wide)tier.cost - (wide)r->burst) * r->window_us, count);
		if (turn_us - r->max_delay_us > free_us)
			free_us = turn_us - r->max_delay_us;
		cr_assert_eq(
			a.admitted, free_us == 0, "seed %" PRIu64 " step %u", seed, step);
		if (a.admitted) {
			cr_assert_eq(a.views[0].hold_us, (int64_t)turn_us);
			held += turn_us > 0;
			over = now + ahead + (wide)tier.cost * r->window_us;
		} else {
			cr_assert_eq(a.views[0].wait_us, (int64_t)free_us);
			refused++;
		}
	}
	cr_assert(refused > steps / 50 && held > steps / 50, "%u refused, %u held", refused,
		held);
}

Test(traces, a_leaky_bucket_is_a_queue_of_turns)
{
	queue_up(&(struct rate){ RATE_LEAKY_BUCKET, 7, 60 * S, 20, 90 * S });
}

Test(traces, a_leaky_bucket_of_little_patience_is_a_queue_of_turns)
{
	queue_up(&(struct rate){ RATE_LEAKY_BUCKET, 3, 1000, 20, 1234 });
}
