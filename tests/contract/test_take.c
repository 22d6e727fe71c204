/*
 * What take.lua promises, seen from outside: who pays, what is written, how long it
 * lives, how much it weighs.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server.h"
#include "store/script.h"
#include "store/store.h"

#define S   INT64_C(1000000)
#define NOW INT64_C(1700000000000000)

static struct server server;

static void start(void)
{
	cr_assert(server_start(&server), "redis-server does not start");
}

static void stop(void)
{
	server_stop(&server);
}

TestSuite(take, .init = start, .fini = stop, .timeout = 120);

static struct rate window(uint64_t count, int64_t window_us)
{
	return (struct rate){ RATE_SLIDING_WINDOW, count, window_us, count };
}

static struct rate bucket(uint64_t count, int64_t window_us, uint64_t burst)
{
	return (struct rate){ RATE_TOKEN_BUCKET, count, window_us, burst };
}

static const char *const names[] = {
	[RATE_SLIDING_WINDOW] = "sliding window",
	[RATE_TOKEN_BUCKET] = "token bucket",
	[RATE_FIXED_WINDOW] = "fixed window",
	[RATE_SLIDING_COUNTER] = "sliding counter",
	[RATE_LEAKY_BUCKET] = "leaky bucket",
};

#define ALGORITHMS 5

/* Of any algorithm: as many at once as in a window. A queue is as patient as it is long. */
static struct rate rate_of(unsigned algorithm, uint64_t count, int64_t window_us)
{
	return (struct rate){ (enum rate_algorithm)algorithm, count, window_us, count,
		algorithm == RATE_LEAKY_BUCKET ? window_us : 0 };
}

static redisReply *run(const struct take_tier *tiers, size_t n, int64_t now_us)
{
	struct buf b = { 0 };
	redisReply *reply;

	script_put_take(&b, SCRIPT_BY_SHA, tiers, n, now_us);
	reply = server_run(&server, &b);
	buf_release(&b);
	cr_assert(reply, "no answer: %s", server.redis->errstr);
	return reply;
}

static bool take(
	const struct take_tier *tiers, size_t n, int64_t now_us, struct rate_view *views)
{
	redisReply *reply = run(tiers, n, now_us);
	bool admitted = false;

	cr_assert(script_parse(reply, n, &admitted, views), "%s",
		reply->str ? reply->str : "a reply that makes no sense");
	freeReplyObject(reply);
	return admitted;
}

static bool take_one(const char *key, struct rate r, uint64_t cost, int64_t now_us,
	struct rate_view *view)
{
	struct take_tier tier = { .key = view_str(key), .rate = &r, .cost = cost };

	return take(&tier, 1, now_us, view);
}

static long long number(const char *format, const char *key)
{
	redisReply *reply = redisCommand(server.redis, format, key);
	long long n;

	cr_assert(reply && reply->type != REDIS_REPLY_ERROR);
	n = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
	freeReplyObject(reply);
	return n;
}

/* Everything there is to know of a key: its bytes, and its lifetime. */
struct state {
	redisReply *dump;
	long long ttl_ms;
};

static struct state state_of(struct view key)
{
	struct state s;
	redisReply *ttl = redisCommand(server.redis, "PTTL %b", key.p, key.n);

	s.dump = redisCommand(server.redis, "DUMP %b", key.p, key.n);
	s.ttl_ms = ttl->integer;
	freeReplyObject(ttl);
	return s;
}

/* ttl_ms may have gone on for up to a second. */
static bool unchanged(struct view key, struct state before)
{
	struct state now = state_of(key);
	bool same = now.dump->type == before.dump->type &&
		now.dump->len == before.dump->len &&
		(now.dump->len == 0 ||
			memcmp(now.dump->str, before.dump->str, now.dump->len) == 0) &&
		now.ttl_ms <= before.ttl_ms && now.ttl_ms > before.ttl_ms - 1000;

	freeReplyObject(now.dump);
	freeReplyObject(before.dump);
	return same;
}

Test(take, the_script_goes_by_the_name_redis_gives_it)
{
	struct buf b = { 0 };
	redisReply *reply;

	script_put_load(&b);
	reply = server_run(&server, &b);
	cr_assert(reply && reply->type == REDIS_REPLY_STRING);
	cr_assert_str_eq(reply->str, script_sha());
	freeReplyObject(reply);
	buf_release(&b);
}

Test(take, the_whole_script_runs_without_being_loaded)
{
	struct rate r = window(1, S);
	struct take_tier tier = { .key = VIEW("k"), .rate = &r, .cost = 1 };
	struct rate_view view;
	struct buf b = { 0 };
	redisReply *reply = redisCommand(server.redis, "SCRIPT FLUSH");
	bool admitted = false;

	freeReplyObject(reply);
	reply = run(&tier, 1, NOW);
	cr_assert_eq(strncmp(reply->str, "NOSCRIPT", 8), 0);
	cr_assert_not(script_parse(reply, 1, &admitted, &view));
	freeReplyObject(reply);
	script_put_take(&b, SCRIPT_WHOLE, &tier, 1, NOW);
	reply = server_run(&server, &b);
	cr_assert(script_parse(reply, 1, &admitted, &view));
	cr_assert(admitted);
	freeReplyObject(reply);
	buf_release(&b);
}

/* Three tiers, of which one has a single event left and is asked for two. Each may have
 * been used before: not at all, a little, or so much that a window is a ring. */
static void refuse_one(const unsigned *mix, unsigned refuses, const unsigned *used)
{
	struct rate rates[3];
	struct take_tier tiers[3];
	struct rate_view views[3];
	struct state before[3];

	freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	for (unsigned i = 0; i < 3; i++) {
		static const char *const keys[] = { "a", "b", "c" };

		rates[i] = rate_of(mix[i], 200, 100 * S);
		tiers[i] = (struct take_tier){ view_str(keys[i]), &rates[i], 1, false };
		if (used[i])
			cr_assert(take_one(keys[i], rates[i], used[i], NOW, views));
		if (i == refuses)
			cr_assert(take_one(keys[i], rates[i], 199 - used[i], NOW, views));
		before[i] = state_of(tiers[i].key);
	}
	tiers[refuses].cost = 2;
	cr_assert_not(take(tiers, 3, NOW + 100000, views));
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(views[i].admitted, i != refuses);
		cr_assert(unchanged(tiers[i].key, before[i]),
			"%s, %s, %s, used %u %u %u: tier %u refused, tier %u changed",
			names[mix[0]], names[mix[1]], names[mix[2]], used[0], used[1],
			used[2], refuses, i);
	}
}

Test(take, a_refusal_leaves_every_key_as_it_was)
{
	static const unsigned used[] = { 0, 3, 100 };

	for (unsigned m = 0; m < ALGORITHMS * ALGORITHMS * ALGORITHMS; m++)
		for (unsigned refuses = 0; refuses < 3; refuses++)
			for (unsigned u = 0; u < 3; u++)
				refuse_one((unsigned[]){ m % ALGORITHMS,
						   m / ALGORITHMS % ALGORITHMS,
						   m / ALGORITHMS / ALGORITHMS },
					refuses,
					(unsigned[]){ used[u], used[(u + 1) % 3],
						used[(u + m) % 3] });
}

/* Not for lack of room, but because its turn is too far away. */
Test(take, a_queue_that_is_too_slow_for_a_request_leaves_every_key_as_it_was)
{
	struct rate queue = rate_of(RATE_LEAKY_BUCKET, 10, 10 * S);

	queue.max_delay_us = 3 * S;
	for (unsigned other = 0; other < ALGORITHMS; other++) {
		struct rate wide = rate_of(other, 10, 100 * S);
		struct take_tier tiers[] = { { VIEW("a"), &wide, 1, false },
			{ VIEW("q"), &queue, 1, false } };
		struct rate_view views[2];
		struct state before[2];

		freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
		for (unsigned i = 0; i < 4; i++) {
			cr_assert(take(tiers, 2, NOW, views));
			cr_assert_eq(views[1].hold_us, i * S);
		}
		for (unsigned i = 0; i < 2; i++)
			before[i] = state_of(tiers[i].key);
		cr_assert_not(take(tiers, 2, NOW + S / 2, views));
		cr_assert_eq(views[1].wait_us, S / 2);
		cr_assert_eq(views[1].hold_us, 0);
		cr_assert_eq(views[1].remaining, 0u);
		for (unsigned i = 0; i < 2; i++)
			cr_assert(unchanged(tiers[i].key, before[i]), "%s", names[other]);
		cr_assert(take(tiers, 2, NOW + S, views));
		cr_assert_eq(views[1].hold_us, 3 * S);
	}
}

Test(take, what_would_fit_is_shown_uncharged_when_another_tier_refuses)
{
	struct rate wide = window(10, S), narrow = window(1, S);
	struct take_tier tiers[] = {
		{ .key = VIEW("wide"), .rate = &wide, .cost = 1 },
		{ .key = VIEW("narrow"), .rate = &narrow, .cost = 1 },
	};
	struct rate_view views[2];

	cr_assert(take(tiers, 2, NOW, views));
	cr_assert_eq(views[0].remaining, 9u);
	cr_assert_not(take(tiers, 2, NOW + 1, views));
	cr_assert(views[0].admitted);
	cr_assert_eq(views[0].remaining, 9u);
	cr_assert_eq(views[0].reset_us, S - 1);
	cr_assert_eq(views[1].wait_us, S - 1);
}

/* Rows: does the enforcing tier admit, does the shadow; who is charged. */
Test(take, a_shadow_tier_decides_nothing_and_pays_only_with_the_others)
{
	static const struct {
		bool enforcing, shadow;
		bool pass, enforcing_pays, shadow_pays;
	} rows[] = {
		{ true, true, true, true, true },
		{ true, false, true, true, false },
		{ false, true, false, false, false },
		{ false, false, false, false, false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		for (unsigned mix = 0; mix < ALGORITHMS * ALGORITHMS; mix++) {
			struct rate rates[2];
			struct take_tier tiers[2];
			struct rate_view views[2];
			struct state before[2];
			char keys[2][32];

			for (unsigned j = 0; j < 2; j++) {
				rates[j] = rate_of(
					j ? mix / ALGORITHMS : mix % ALGORITHMS, 2, 9 * S);
				snprintf(keys[j], sizeof(keys[j]), "%zu:%u:%u", i, mix, j);
				tiers[j] = (struct take_tier){ .key = view_str(keys[j]),
					.rate = &rates[j],
					.cost = 1,
					.shadow = j == 1 };
				take_one(keys[j], rates[j],
					(j ? rows[i].shadow : rows[i].enforcing) ? 1 : 2,
					NOW, &views[j]);
				before[j] = state_of(tiers[j].key);
			}
			cr_assert_eq(take(tiers, 2, NOW + 9, views), rows[i].pass);
			cr_assert_eq(views[0].admitted, rows[i].enforcing);
			cr_assert_eq(views[1].admitted, rows[i].shadow);
			cr_assert_eq(unchanged(tiers[0].key, before[0]),
				!rows[i].enforcing_pays);
			cr_assert_eq(
				unchanged(tiers[1].key, before[1]), !rows[i].shadow_pays);
		}
	}
}

Test(take, every_key_lives_as_long_as_it_matters)
{
	static const struct {
		struct rate rate;
		uint64_t cost;
		long long ms;
	} rows[] = {
		{ { RATE_SLIDING_WINDOW, 5, 60 * S, 5 }, 1, 60000 },
		{ { RATE_SLIDING_WINDOW, 500, 60 * S, 500 }, 100, 60000 },
		{ { RATE_SLIDING_WINDOW, 5, 3600001, 5 }, 1, 3601 },
		{ { RATE_TOKEN_BUCKET, 60, 60 * S, 10 }, 1, 1000 },
		{ { RATE_TOKEN_BUCKET, 60, 60 * S, 10 }, 10, 10000 },
		/* A bucket that is full again sooner than its window ends. */
		{ { RATE_TOKEN_BUCKET, 1, 3600 * S, 1 }, 1, 3600000 },
		{ { RATE_TOKEN_BUCKET, 7, 60 * S, 3 }, 1, 8572 },
		{ { RATE_LEAKY_BUCKET, 60, 60 * S, 10, S }, 1, 1000 },
		{ { RATE_LEAKY_BUCKET, 7, 60 * S, 3, S }, 1, 8572 },
		/* NOW is 20 s after a full minute, 800 s after a full hour. */
		{ { RATE_FIXED_WINDOW, 5, 60 * S, 5 }, 1, 40000 },
		{ { RATE_FIXED_WINDOW, 1000000, 3600 * S, 1000000 }, 1000, 2800000 },
		{ { RATE_SLIDING_COUNTER, 5, 60 * S, 5 }, 1, 100000 },
		{ { RATE_SLIDING_COUNTER, 5, 3600 * S, 5 }, 5, 6400000 },
	};
	struct rate_view view;
	char key[24];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		long long ttl;

		snprintf(key, sizeof(key), "%zu", i);
		cr_assert(take_one(key, rows[i].rate, rows[i].cost, NOW, &view));
		ttl = number("PTTL %s", key);
		cr_assert(ttl <= rows[i].ms + 1 && ttl > rows[i].ms - 900, "row %zu: %lld",
			i, ttl);
	}
}

/* Rates so high that a lifetime in whole seconds, or milliseconds, would be none. */
Test(take, a_tiny_lifetime_is_not_rounded_away)
{
	struct rate r[] = { window(1, 1), bucket(1000000, S, 1), bucket(1000000, 1, 3),
		rate_of(RATE_FIXED_WINDOW, 1, 1), rate_of(RATE_SLIDING_COUNTER, 1, 1),
		rate_of(RATE_LEAKY_BUCKET, 1000000, 1) };
	struct rate_view view;

	for (size_t i = 0; i < COUNT_OF(r); i++) {
		struct take_tier tier = { .key = VIEW("k"), .rate = &r[i], .cost = 1 };
		redisReply *reply;

		/* In one transaction the clock stands still. */
		freeReplyObject(redisCommand(server.redis, "MULTI"));
		freeReplyObject(run(&tier, 1, NOW));
		freeReplyObject(redisCommand(server.redis, "PTTL k"));
		freeReplyObject(redisCommand(server.redis, "DEL k"));
		reply = redisCommand(server.redis, "EXEC");
		cr_assert_eq(reply->elements, 3u);
		cr_assert_geq(reply->element[1]->integer, 0); /* below: none, or no key */
		cr_assert_leq(reply->element[1]->integer, 2);
		freeReplyObject(reply);
		cr_assert(take_one("k", r[i], 1, NOW, &view));
	}
}

Test(take, on_its_own_clock_no_key_is_ever_without_a_lifetime)
{
	struct rate rates[] = { window(3, 50000), bucket(30, S, 3), window(200, S),
		bucket(1, 1000, 2), rate_of(RATE_FIXED_WINDOW, 3, 50000),
		rate_of(RATE_SLIDING_COUNTER, 3, 50000), rate_of(RATE_LEAKY_BUCKET, 3, S),
		rate_of(RATE_FIXED_WINDOW, 1, 1000) };
	unsigned admitted = 0;

	for (unsigned step = 0; step < 2000; step++) {
		struct take_tier tiers[8];
		struct rate_view views[8];
		char keys[8][16];

		for (unsigned i = 0; i < 8; i++) {
			snprintf(keys[i], sizeof(keys[i]), "%u:%u", i, step % (i + 2));
			tiers[i] = (struct take_tier){
				.key = view_str(keys[i]), .rate = &rates[i], .cost = 1
			};
		}
		admitted += take(tiers + step % 7, 1 + step % (8 - step % 7),
			SCRIPT_REDIS_TIME, views);
		for (unsigned i = 0; i < 8; i++)
			cr_assert_neq(number("PTTL %s", keys[i]), -1);
	}
	cr_assert_gt(admitted, 10u);
}

/* The one thing a refusal may write: stamps too far ahead are moved, once. */
/*
 * The wait that is told
 */

/* Small numbers that do not divide each other, so waits have fractions to round. */
static const struct rate waits[] = {
	{ RATE_SLIDING_WINDOW, 7, 10 * S, 7, 0 },
	{ RATE_SLIDING_WINDOW, 150, 10 * S, 150, 0 },
	{ RATE_TOKEN_BUCKET, 7, 10 * S, 7, 0 },
	{ RATE_TOKEN_BUCKET, 3, 10 * S, 11, 0 },
	{ RATE_FIXED_WINDOW, 7, 10 * S, 7, 0 },
	{ RATE_SLIDING_COUNTER, 7, 10 * S, 7, 0 },
	{ RATE_SLIDING_COUNTER, 150, 10000019, 150, 0 },
	{ RATE_LEAKY_BUCKET, 7, 10 * S, 7, 10 * S },
	{ RATE_LEAKY_BUCKET, 7, 10 * S, 11, 3 * S },
};

/* Asks for random costs at random moments; after each refusal, one microsecond before the
 * moment it named and then at it. */
static unsigned keep_waiting(const char *key, const struct rate *r)
{
	struct rate_view view, early;
	unsigned state = 1, waited = 0;
	int64_t now_us = NOW;

	for (unsigned i = 0; i < 600; i++) {
		uint64_t cost;

		state = state * 1103515245 + 12345;
		cost = 1 + (state >> 16) % r->burst;
		now_us += (state >> 8) % 997 * (r->window_us / 997 / (int64_t)r->count);
		if (take_one(key, *r, cost, now_us, &view))
			continue;
		cr_assert_gt(view.wait_us, 0);
		now_us += view.wait_us;
		cr_assert_not(take_one(key, *r, cost, now_us - 1, &early),
			"%s of %lu, cost %lu: a wait of %ld us is too long",
			names[r->algorithm], r->count, cost, view.wait_us);
		cr_assert_eq(early.wait_us, 1);
		cr_assert(take_one(key, *r, cost, now_us, &view),
			"%s of %lu, cost %lu: the wait that was told is too short",
			names[r->algorithm], r->count, cost);
		waited++;
	}
	return waited;
}

Test(take, waiting_as_long_as_was_told_is_enough_and_a_microsecond_less_is_not)
{
	char key[16];

	for (size_t i = 0; i < COUNT_OF(waits); i++) {
		snprintf(key, sizeof(key), "wait%zu", i);
		cr_assert_gt(keep_waiting(key, &waits[i]), 50u, "row %zu", i);
	}
}

/*
 * Killed
 */

/* A process that asks as fast as it can, on Redis's clock, for ever new keys of all kinds. */
static void write_until_killed(unsigned number)
{
	redisContext *c = redisConnectUnix(server.socket);
	struct rate rates[ALGORITHMS];
	struct buf b = { 0 };
	void *reply;

	if (!c || c->err)
		_exit(1);
	for (unsigned i = 0; i < ALGORITHMS; i++)
		rates[i] = rate_of(i, 200, 3600 * S);
	for (unsigned n = 0;; n++) {
		struct take_tier tiers[ALGORITHMS];
		char keys[ALGORITHMS][48];

		for (unsigned i = 0; i < ALGORITHMS; i++) {
			snprintf(keys[i], sizeof(keys[i]), "%u:%u:%u", number, i, n / 4);
			tiers[i] = (struct take_tier){ view_str(keys[i]), &rates[i],
				1 + n % 4 * 20, false };
		}
		buf_reset(&b);
		script_put_take(&b, SCRIPT_BY_SHA, tiers, ALGORITHMS, SCRIPT_REDIS_TIME);
		redisAppendFormattedCommand(c, b.p, b.n);
		/* So many under way. */
		if (n >= 32 && redisGetReply(c, &reply) == REDIS_OK)
			freeReplyObject(reply);
	}
}

/* How many keys there are; each must have a lifetime. */
static unsigned long count_mortal_keys(void)
{
	char cursor[32] = "0";
	unsigned long n = 0;

	do {
		redisReply *page = redisCommand(server.redis, "SCAN %s COUNT 1000", cursor);
		const redisReply *keys;

		cr_assert(page && page->type == REDIS_REPLY_ARRAY && page->elements == 2);
		snprintf(cursor, sizeof(cursor), "%s", page->element[0]->str);
		keys = page->element[1];
		for (size_t i = 0; i < keys->elements; i++, n++)
			redisAppendCommand(server.redis, "PTTL %s", keys->element[i]->str);
		for (size_t i = 0; i < keys->elements; i++) {
			void *reply = NULL;

			cr_assert_eq(redisGetReply(server.redis, &reply), REDIS_OK);
			cr_assert_geq(((redisReply *)reply)->integer, 0,
				"%s lives for ever", keys->element[i]->str);
			freeReplyObject(reply);
		}
		freeReplyObject(page);
	} while (strcmp(cursor, "0") != 0);
	return n;
}

Test(take, a_process_killed_at_any_point_leaves_no_key_that_lives_for_ever)
{
	unsigned long keys = 0;

	srandom(4711);
	for (unsigned i = 0; i < 20; i++) {
		unsigned long before = keys;
		pid_t pid = fork();
		int status;

		cr_assert_geq(pid, 0);
		if (pid == 0)
			write_until_killed(i);
		/* Not before it has begun. */
		for (unsigned n = 0;
			n < 2000 && number("DBSIZE", NULL) <= (long long)before; n++)
			usleep(1000);
		usleep((useconds_t)(random() % 20000));
		kill(pid, SIGKILL);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFSIGNALED(status), "it ended by itself");
		keys = count_mortal_keys();
		cr_assert_gt(keys, before, "run %u wrote nothing", i);
	}
}

Test(take, a_clock_far_back_is_mended_once_and_waits_stay_short)
{
	static const struct {
		struct rate rate;
		int64_t wait_us; /* until all fits again; also how long the key lives */
	} rows[] = {
		{ { RATE_SLIDING_WINDOW, 5, 60 * S, 5 }, 60 * S },
		{ { RATE_SLIDING_WINDOW, 500, 60 * S, 500 }, 60 * S },
		{ { RATE_TOKEN_BUCKET, 60, 60 * S, 60 }, 60 * S },
		{ { RATE_LEAKY_BUCKET, 60, 60 * S, 60, 60 * S }, 60 * S },
		/* NOW is 20 s into its minute. */
		{ { RATE_FIXED_WINDOW, 60, 60 * S, 60 }, 40 * S },
		{ { RATE_SLIDING_COUNTER, 60, 60 * S, 60 }, 100 * S },
	};
	const int64_t later = NOW + 7200 * S;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct rate narrow = window(1, 4000 * S), r = rows[i].rate;
		const int64_t wait_us = rows[i].wait_us;
		struct take_tier tiers[] = {
			{ .key = VIEW("k"), .rate = &r, .cost = r.count },
			{ .key = VIEW("narrow"), .rate = &narrow, .cost = 1 },
		};
		struct rate_view views[2];
		struct state before;
		long long ttl;

		cr_assert(take(tiers, 2, later, views));
		before = state_of(tiers[0].key);
		/* Refused by itself, and by the other tier too. */
		cr_assert_not(take(tiers, 2, NOW, views));
		cr_assert_eq(
			views[0].wait_us, wait_us, "row %zu: %ld", i, views[0].wait_us);
		cr_assert_not(unchanged(tiers[0].key, before));
		ttl = number("PTTL %s", "k");
		cr_assert(ttl > wait_us / 1000 - 1000 && ttl <= wait_us / 1000 + 1,
			"row %zu: %lld", i, ttl);
		before = state_of(tiers[0].key);
		cr_assert_not(take(tiers, 2, NOW, views));
		cr_assert(unchanged(tiers[0].key, before));
		cr_assert_not(take(tiers, 1, NOW + wait_us - 1, views));
		cr_assert(take(tiers, 1, NOW + wait_us, views));
		freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	}
}

/* Half a minute back: nobody gains, and it heals when time passes the stamp. */
Test(take, a_clock_a_little_back_gives_nothing_and_writes_nothing)
{
	for (unsigned i = 0; i < ALGORITHMS; i++) {
		struct rate r = rate_of(i, 10, 60 * S);
		struct rate_view view;
		struct state before;

		cr_assert(take_one("k", r, 7, NOW, &view));
		before = state_of(VIEW("k"));
		cr_assert_not(take_one("k", r, 4, NOW - 30 * S, &view), "%s", names[i]);
		cr_assert_eq(view.remaining, 3u, "%s", names[i]);
		cr_assert_leq(view.wait_us, 120 * S);
		cr_assert(unchanged(VIEW("k"), before), "%s", names[i]);
		cr_assert(take_one("k", r, 10, NOW + 120 * S, &view), "%s", names[i]);
		freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	}
}

Test(take, a_changed_count_keeps_what_was_used_and_holds_at_once)
{
	for (unsigned i = 0; i < ALGORITHMS; i++) {
		struct rate_view view;

		cr_assert(take_one("k", rate_of(i, 10, 60 * S), 8, NOW, &view));
		cr_assert_eq(view.remaining, 2u);
		cr_assert_not(take_one("k", rate_of(i, 4, 60 * S), 1, NOW, &view));
		cr_assert_eq(view.remaining, 0u);
		/* Who waits as told under the lower limit gets through. */
		cr_assert_not(take_one(
			"k", rate_of(i, 4, 60 * S), 1, NOW + view.wait_us - 1, &view));
		cr_assert(take_one("k", rate_of(i, 12, 60 * S), 1, NOW, &view));
		cr_assert_eq(view.remaining, 3u, "%s", names[i]);
		cr_assert_not(take_one("k", rate_of(i, 12, 60 * S), 4, NOW, &view));
		cr_assert(take_one("k", rate_of(i, 12, 60 * S), 3, NOW, &view));
		cr_assert_not(take_one("k", rate_of(i, 8, 60 * S), 1, NOW, &view));
		cr_assert(
			take_one("k", rate_of(i, 8, 60 * S), 1, NOW + view.wait_us, &view),
			"%s", names[i]);
		freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	}
}

/* What a key may weigh: ten bytes an accepted event, and a constant. */
static void assert_light(const char *key, long long events)
{
	long long weighs = number("MEMORY USAGE %s", key);

	cr_assert(weighs > 0 && weighs <= 10 * events + 200, "%lld events weigh %lld bytes",
		events, weighs);
}

Test(take, a_window_weighs_ten_bytes_an_event_while_it_grows_and_shrinks)
{
	const struct rate r = window(10000, 100 * S);
	struct rate_view view;
	int64_t now_us = NOW;
	long long full;

	for (long long n = 1; n <= 10000; n++) {
		cr_assert(take_one("k", r, 1, now_us += 1000, &view));
		if (n < 300 || n % 97 == 0)
			assert_light("k", n);
	}
	full = number("MEMORY USAGE %s", "k");
	for (int i = 0; i < 1000; i++)
		cr_assert_not(take_one("k", r, 1, now_us, &view));
	cr_assert_eq(number("MEMORY USAGE %s", "k"), full);
	/* The window moves on faster than it fills. */
	now_us = NOW + 100 * S;
	for (long long left = 10000; left > 120;) {
		cr_assert(take_one("k", r, 1, now_us += S / 10, &view));
		left = 10000 - (long long)view.remaining;
		assert_light("k", left);
	}
}

Test(take, all_but_a_window_weigh_the_same_whatever_their_size)
{
	for (unsigned i = RATE_TOKEN_BUCKET; i < ALGORITHMS; i++) {
		struct rate_view view;

		cr_assert(take_one("k", rate_of(i, 1, S), 1, NOW, &view));
		assert_light("k", 0);
		cr_assert(take_one("l", rate_of(i, 1000000, 60 * S), 999999, NOW, &view));
		cr_assert_eq(
			number("MEMORY USAGE %s", "l"), number("MEMORY USAGE %s", "k"));
		freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	}
}

/* The script as a function, called again and again inside Redis. */
static void refuse_often(const struct take_tier *t, unsigned times)
{
	struct buf loop = { 0 }, all = { 0 };
	redisReply *reply, *args;
	redisReader *reader = redisReaderCreate();
	void *parsed = NULL;
	const char *argv[16];
	size_t lengths[16];

	buf_add_str(&loop, "local function take()\n");
	buf_add(&loop, script_text());
	buf_addf(&loop,
		"\nend\n"
		"for i = 1, %u do\n"
		"\tlocal reply = take()\n"
		"\tif reply.err or reply[1] ~= 0 then return -i end\n"
		"end\n"
		"return %u\n",
		times, times);
	script_put_take(&all, SCRIPT_WHOLE, t, 1, NOW + 1);
	redisReaderFeed(reader, all.p, all.n);
	redisReaderGetReply(reader, &parsed);
	args = parsed;
	cr_assert(args && args->elements <= COUNT_OF(argv));
	for (size_t i = 0; i < args->elements; i++) {
		argv[i] = args->element[i]->str;
		lengths[i] = args->element[i]->len;
	}
	argv[1] = loop.p;
	lengths[1] = loop.n;
	reply = redisCommandArgv(server.redis, (int)args->elements, argv, lengths);
	cr_assert(reply, "no answer: %s", server.redis->errstr);
	cr_assert_eq(reply->integer, times, "%s", reply->str ? reply->str : "admitted");
	freeReplyObject(reply);
	freeReplyObject(args);
	redisReaderFree(reader);
	buf_release(&loop);
	buf_release(&all);
}

Test(take, a_million_refusals_leave_a_key_as_it_was)
{
	for (unsigned i = 0; i < ALGORITHMS; i++) {
		struct rate r = rate_of(i, 100, 600 * S);
		struct take_tier t = { .key = VIEW("k"), .rate = &r, .cost = 1 };
		struct rate_view view;
		long long weighs;
		redisReply *before, *after;

		cr_assert(take_one("k", r, 100, NOW, &view));
		weighs = number("MEMORY USAGE %s", "k");
		before = redisCommand(server.redis, "DUMP k");
		for (unsigned n = 0; n < (i == RATE_SLIDING_WINDOW ? 20 : 2); n++)
			refuse_often(&t, 50000);
		after = redisCommand(server.redis, "DUMP k");
		cr_assert_eq(number("MEMORY USAGE %s", "k"), weighs);
		cr_assert(after->len == before->len &&
				memcmp(after->str, before->str, after->len) == 0,
			"%s", names[i]);
		freeReplyObject(before);
		freeReplyObject(after);
		freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	}
}

static long long commands_processed(void)
{
	redisReply *reply = redisCommand(server.redis, "INFO commandstats");
	long long sum = 0, calls;

	for (const char *p = reply->str; (p = strstr(p, ":calls=")); p++) {
		if (sscanf(p, ":calls=%lld", &calls) == 1)
			sum += calls;
	}
	freeReplyObject(reply);
	return sum;
}

/* Commands run for one decision at a full window of n: none of it has gone (refused), or
 * half of it, which is the most to search for. */
static long long commands_at(uint64_t n, bool half_gone)
{
	const struct rate r = window(n, 1000 * S);
	struct rate_view view;
	long long before;

	cr_assert(take_one("k", r, n / 2, NOW, &view));
	cr_assert(take_one("k", r, n - n / 2, NOW + 1, &view));
	before = commands_processed();
	cr_assert_eq(
		take_one("k", r, 1, NOW + (half_gone ? 1000 * S : 1), &view), half_gone);
	before = commands_processed() - before;
	freeReplyObject(redisCommand(server.redis, "DEL k"));
	return before;
}

Test(take, a_decision_takes_few_commands_whatever_the_count)
{
	/* With INFO and EVALSHA: head, length, the oldest. */
	cr_assert_leq(commands_at(100, false), 5);
	cr_assert_leq(commands_at(1000000, false), 5);
	/* Two to the twentieth, up and down again. */
	cr_assert_leq(commands_at(1000000, true), 2 * 20 + 8);
}

Test(take, all_but_a_window_are_read_and_written_once)
{
	for (unsigned i = RATE_TOKEN_BUCKET; i < ALGORITHMS; i++) {
		struct rate_view view;
		long long before;

		cr_assert(take_one("k", rate_of(i, 5, S), 1, NOW, &view));
		before = commands_processed();
		cr_assert(take_one("k", rate_of(i, 5, S), 1, NOW, &view));
		/* With INFO and EVALSHA. */
		cr_assert_leq(commands_processed() - before, 4, "%s", names[i]);
		freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	}
}

Test(take, a_key_of_another_kind_is_an_error_and_nobody_pays)
{
	static const struct {
		const char *command; /* makes the key */
		enum rate_algorithm algorithm;
		const char *says;
	} rows[] = {
		{ "HSET bad a 1", RATE_SLIDING_WINDOW, "WRONGTYPE" },
		{ "LPUSH bad 1", RATE_TOKEN_BUCKET, "WRONGTYPE" },
		{ "SET bad 17", RATE_SLIDING_WINDOW, "something else" },
		{ "SET bad 17", RATE_TOKEN_BUCKET, "something else" },
		{ "SET bad w1", RATE_SLIDING_WINDOW, "broken" },
		{ "SET bad b1", RATE_TOKEN_BUCKET, "broken" },
		{ "SET bad w1xxxxxxxxxxxxxxxxxxxxxxxx", RATE_SLIDING_WINDOW, "broken" },
		{ "SET bad w1xxxxxxxxxxxxxxxxxxxxxxxxyyyyyy", RATE_SLIDING_WINDOW,
			"broken" },
		{ "SET bad w1xxxxxxxxxxxxxxxxxxxxxxxxyyyyy", RATE_SLIDING_WINDOW,
			"broken" },
		{ "SET bad b1xxxxxxxxxxxxxxxxxxxxxxxx", RATE_TOKEN_BUCKET, "broken" },
		{ "SET bad b1xxxxxxxxxxxxxxxxxxxxxxxxx", RATE_TOKEN_BUCKET, "broken" },
		{ "SETRANGE bad 1000 w1", RATE_SLIDING_WINDOW, "something else" },
		{ "SET bad w1", RATE_TOKEN_BUCKET, "something else" },
		{ "HSET bad a 1", RATE_FIXED_WINDOW, "WRONGTYPE" },
		{ "SADD bad 1", RATE_SLIDING_COUNTER, "WRONGTYPE" },
		{ "SET bad f1xxxxxxxxyyyyyyyy", RATE_FIXED_WINDOW, "broken" },
		{ "SET bad f1xxxxxxxx", RATE_FIXED_WINDOW, "broken" },
		{ "SET bad f1", RATE_SLIDING_COUNTER, "something else" },
		{ "SET bad c1", RATE_SLIDING_COUNTER, "broken" },
		{ "SET bad c1xxxxxxxxxxxxxxxxyyyyyyyyyyyyyyyy", RATE_SLIDING_COUNTER,
			"broken" },
		{ "SET bad c1", RATE_FIXED_WINDOW, "something else" },
		{ "SET bad b1xxxxxxxxxxxxxxxxxxxxxxxx", RATE_LEAKY_BUCKET,
			"something else" },
		{ "SET bad l1xxxxxxxxxxxxxxxxxxxxxxxx", RATE_LEAKY_BUCKET, "broken" },
		{ "SET bad l1", RATE_TOKEN_BUCKET, "something else" },
	};
	struct rate good = window(5, S);
	bool admitted = true;
	struct rate_view views[3];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct rate r = { rows[i].algorithm, 5, S, 5 };
		struct take_tier tiers[] = {
			{ .key = VIEW("first"), .rate = &good, .cost = 1 },
			{ .key = VIEW("bad"), .rate = &r, .cost = 1 },
			{ .key = VIEW("last"), .rate = &good, .cost = 1 },
		};
		redisReply *reply;

		freeReplyObject(redisCommand(server.redis, "DEL bad"));
		freeReplyObject(redisCommand(server.redis, rows[i].command));
		reply = run(tiers, 3, NOW);
		cr_assert_eq(reply->type, REDIS_REPLY_ERROR, "row %zu", i);
		cr_assert(strstr(reply->str, "BADSTATE key bad"), "row %zu: %s", i,
			reply->str);
		cr_assert(strstr(reply->str, rows[i].says), "row %zu: %s", i, reply->str);
		cr_assert_not(script_parse(reply, 3, &admitted, views));
		freeReplyObject(reply);
		cr_assert_eq(number("EXISTS %s", "first"), 0);
		cr_assert_eq(number("EXISTS %s", "last"), 0);
	}
}

/* The middle of a state of this script's own, cut off behind. */
Test(take, a_state_cut_short_is_an_error)
{
	struct rate r = window(100, S);
	struct take_tier tier = { .key = VIEW("k"), .rate = &r, .cost = 1 };
	struct rate_view view;
	redisReply *reply, *whole;

	cr_assert(take_one("k", r, 80, NOW, &view));
	whole = redisCommand(server.redis, "GET k");
	for (size_t n = 1; n < whole->len; n++) {
		freeReplyObject(redisCommand(server.redis, "SET k %b", whole->str, n));
		reply = run(&tier, 1, NOW);
		/* Room that no event has yet may be missing without harm. */
		if (n < 26 + 80 * 6 || (n - 26) % 6)
			cr_assert_eq(reply->type, REDIS_REPLY_ERROR, "at %zu", n);
		freeReplyObject(reply);
	}
	freeReplyObject(whole);
}

Test(take, one_key_for_two_tiers_is_an_error)
{
	struct rate r = window(5, S);
	struct take_tier tiers[] = {
		{ .key = VIEW("k"), .rate = &r, .cost = 1 },
		{ .key = VIEW("k"), .rate = &r, .cost = 1 },
	};
	redisReply *reply = run(tiers, 2, NOW);

	cr_assert_eq(reply->type, REDIS_REPLY_ERROR);
	cr_assert_eq(number("EXISTS %s", "k"), 0);
	freeReplyObject(reply);
}

Test(take, when_redis_takes_no_writes_nobody_pays)
{
	struct rate r = window(5, S);
	struct take_tier tiers[] = {
		{ .key = VIEW("a"), .rate = &r, .cost = 1 },
		{ .key = VIEW("b"), .rate = &r, .cost = 1 },
	};
	redisReply *reply;

	freeReplyObject(redisCommand(server.redis, "CONFIG SET maxmemory 1"));
	reply = run(tiers, 2, NOW);
	cr_assert_eq(reply->type, REDIS_REPLY_ERROR);
	cr_assert(strstr(reply->str, "OOM"), "%s", reply->str);
	freeReplyObject(reply);
	cr_assert_eq(number("EXISTS %s", "a"), 0);
	cr_assert_eq(number("EXISTS %s", "b"), 0);
}
