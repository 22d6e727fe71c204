/*
 * What a decision costs: in Redis by algorithm and at a small and a large window, per
 * event in bytes beside a sorted set of the same events, and in the memory table by
 * threads. Times are the median of several rounds in turn. Prints figures; nothing is
 * asserted, since they are the machine's as much as ours.
 *
 *	ninja bench_take && tests/bench/bench_take
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "contract/server.h"
#include "store/memory.h"
#include "store/script.h"
#include "store/store.h"

#define S      INT64_C(1000000)
#define NOW    INT64_C(1700000000000000)
#define TIMES  10000 /* questions in a round */
#define ROUNDS 7
#define BATCH  100 /* questions in the pipe at once */

static struct server server;

static redisReply *next_reply(void)
{
	void *reply = NULL;

	if (redisGetReply(server.redis, &reply) != REDIS_OK) {
		fprintf(stderr, "no answer: %s\n", server.redis->errstr);
		exit(1);
	}
	return reply;
}

static long long number(const char *command)
{
	redisReply *reply = redisCommand(server.redis, command);
	long long n = reply ? reply->integer : -1;

	freeReplyObject(reply);
	return n;
}

/* Microseconds Redis says it spent in EVALSHA so far. */
static double evalsha_us(void)
{
	redisReply *reply = redisCommand(server.redis, "INFO commandstats");
	const char *at = strstr(reply->str, "cmdstat_evalsha:");
	const char *us = at ? strstr(at, "usec=") : NULL;
	double spent = us ? strtod(us + 5, NULL) : 0;

	freeReplyObject(reply);
	return spent;
}

static void ask_many(
	const struct take_tier *tiers, size_t n, int64_t now_us, int64_t step_us)
{
	struct buf b = { 0 };

	for (int i = 0; i < TIMES; i += BATCH) {
		buf_reset(&b);
		for (int j = 0; j < BATCH; j++, now_us += step_us)
			script_put_take(&b, SCRIPT_BY_SHA, tiers, n, now_us);
		redisAppendFormattedCommand(server.redis, b.p, b.n);
		for (int j = 0; j < BATCH; j++)
			freeReplyObject(next_reply());
	}
	buf_release(&b);
}

static void fill(const struct take_tier *tier, uint64_t n, int64_t apart_us)
{
	struct take_tier one = *tier;
	struct rate_view view;
	struct buf b = { 0 };
	bool admitted;

	one.cost = 1;
	for (uint64_t i = 0; i < n; i += BATCH) {
		const uint64_t some = n - i < BATCH ? n - i : BATCH;

		buf_reset(&b);
		for (uint64_t j = i; j < i + some; j++)
			script_put_take(
				&b, SCRIPT_BY_SHA, &one, 1, NOW + (int64_t)j * apart_us);
		redisAppendFormattedCommand(server.redis, b.p, b.n);
		for (uint64_t j = 0; j < some; j++) {
			redisReply *reply = next_reply();

			if (!script_parse(reply, 1, &admitted, &view) || !admitted)
				exit(1);
			freeReplyObject(reply);
		}
	}
	buf_release(&b);
}

/* One kind of decision, asked for again and again. */
struct bench_case {
	char what[64];
	struct rate rates[4];
	size_t n;        /* tiers */
	uint64_t filled; /* events there are before */
	int64_t now_us, step_us;
	double us[ROUNDS], each_us[ROUNDS]; /* in Redis, and pipelined from outside */
};

static struct bench_case cases[32];
static size_t n_cases;

static void run_case(struct bench_case *c, unsigned round)
{
	static const char *const keys[] = { "a", "b", "c", "d" };
	struct take_tier tiers[4];
	double in_script;
	int64_t began;

	freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	for (size_t i = 0; i < c->n; i++) {
		tiers[i] = (struct take_tier){ view_str(keys[i]), &c->rates[i], 1, false };
		fill(&tiers[i], c->filled,
			c->rates[i].window_us / (int64_t)c->rates[i].count);
	}
	in_script = evalsha_us();
	began = clock_mono_us();
	ask_many(tiers, c->n, c->now_us, c->step_us);
	c->us[round] = (evalsha_us() - in_script) / TIMES;
	c->each_us[round] = (double)(clock_mono_us() - began) / TIMES;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *of)
{
	qsort(of, ROUNDS, sizeof(*of), by_size);
	return of[ROUNDS / 2];
}

static struct bench_case *add_case(
	const char *what, struct rate r, uint64_t filled, int64_t now_us, int64_t step_us)
{
	struct bench_case *c = &cases[n_cases++];

	snprintf(c->what, sizeof(c->what), "%s", what);
	c->rates[0] = r;
	c->n = 1;
	c->filled = filled;
	c->now_us = now_us;
	c->step_us = step_us;
	return c;
}

/* The same events as a log in a sorted set, as is usual: score and member are the moment,
 * the member made unique by a number. */
static void bytes_case(uint64_t n)
{
	const struct rate r = { RATE_SLIDING_WINDOW, n, 60 * S, n };
	struct take_tier tier = { .key = VIEW("k"), .rate = &r, .cost = 1 };
	double ours, theirs;

	freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	fill(&tier, n, 60 * S / (int64_t)n);
	for (uint64_t i = 0; i < n; i++) {
		const long long at_us = NOW + (int64_t)i * (60 * S / (int64_t)n);

		freeReplyObject(redisCommand(
			server.redis, "ZADD z %lld %lld:%lld", at_us, at_us, (long long)i));
	}
	ours = (double)number("MEMORY USAGE k") / (double)n;
	theirs = (double)number("MEMORY USAGE z SAMPLES 0") / (double)n;
	printf("log of %6" PRIu64 " events %24.2f bytes an event; as a sorted set %.2f\n",
		n, ours, theirs);
}

static void add_cases(void)
{
	static const uint64_t counts[] = { 60, 1000, 10000, 100000 };
	static const struct {
		const char *name;
		struct rate rate;
	} others[] = {
		{ "token bucket", { RATE_TOKEN_BUCKET, 1, S, 1 } },
		{ "leaky bucket", { RATE_LEAKY_BUCKET, 1, S, 1 } },
		{ "fixed window", { RATE_FIXED_WINDOW, 1, S, 1 } },
		{ "sliding counter", { RATE_SLIDING_COUNTER, 1, S, 1 } },
	};
	struct bench_case *c;
	char what[64];

	for (size_t i = 0; i < COUNT_OF(counts); i++) {
		const uint64_t n = counts[i];
		struct rate r = { RATE_SLIDING_WINDOW, n, 60 * S, n };

		snprintf(what, sizeof(what), "window of %" PRIu64 ", full, refused", n);
		add_case(what, r, n, NOW + 60 * S - 1, 0);
		snprintf(what, sizeof(what), "window of %" PRIu64 ", full, admitted", n);
		add_case(what, r, n, NOW + 60 * S, 60 * S / (int64_t)n + 1);
	}
	for (size_t i = 0; i < COUNT_OF(others); i++) {
		snprintf(what, sizeof(what), "%s, refused", others[i].name);
		add_case(what, others[i].rate, 1, NOW, 0);
		snprintf(what, sizeof(what), "%s, admitted", others[i].name);
		add_case(what, others[i].rate, 0, NOW, 2 * S);
	}
	c = add_case("four tiers, admitted", others[0].rate, 0, NOW, S + 1);
	c->n = 4;
	for (size_t i = 0; i < 4; i++)
		c->rates[i] = (struct rate){
			i == 3 ? RATE_TOKEN_BUCKET : RATE_SLIDING_WINDOW, 60, 60 * S, 60
		};
}

static void redis_cases(void)
{
	static const uint64_t logs[] = { 60, 1000, 10000, 100000 };

	add_cases();
	for (unsigned round = 0; round < ROUNDS; round++)
		for (size_t i = 0; i < n_cases; i++)
			run_case(&cases[i], round);
	for (size_t i = 0; i < n_cases; i++)
		printf("%-36s %8.2f us a decision in Redis, %6.0f thousand/s pipelined\n",
			cases[i].what, median(cases[i].us), 1e3 / median(cases[i].each_us));
	for (size_t i = 0; i < COUNT_OF(logs); i++)
		bytes_case(logs[i]);
}

/* The memory table: every thread asks for clients of its own under one global tier. */
struct load {
	struct memory *memory;
	unsigned id, times;
	bool global; /* with a tier that all threads share */
};

static void *ask_memory(void *arg)
{
	const struct load *l = arg;
	struct rate user = { RATE_SLIDING_WINDOW, 60, 60 * S, 60 };
	struct rate all = { RATE_TOKEN_BUCKET, 1000000000, S, 1000000000 };
	char key[32];

	for (unsigned i = 0; i < l->times; i++) {
		struct take_tier tiers[2] = { { .rate = &user, .cost = 1 },
			{ VIEW("rate:global:*"), &all, 1, false } };
		struct rate_view views[2];
		bool admitted;

		snprintf(key, sizeof(key), "rate:user:%u:%u", l->id, i % 5000);
		tiers[0].key = view_str(key);
		memory_take(l->memory, tiers, l->global ? 2 : 1, (int64_t)i * 2000,
			&admitted, views);
	}
	return NULL;
}

static void memory_case(unsigned threads, bool global)
{
	struct memory *m = memory_new(256u << 20);
	pthread_t ids[8];
	struct load loads[8];
	int64_t began = clock_mono_us();
	const unsigned times = 1000000;

	for (unsigned i = 0; i < threads; i++) {
		loads[i] = (struct load){ m, i, times, global };
		pthread_create(&ids[i], NULL, ask_memory, &loads[i]);
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("memory, %u thread%s, %-29s %8.0f thousand decisions/s\n", threads,
		threads > 1 ? "s" : " ", global ? "window and shared bucket" : "window",
		(double)times * threads * 1e3 / (double)(clock_mono_us() - began));
	memory_free(m);
}

int main(void)
{
	for (unsigned threads = 1; threads <= 2; threads++) {
		memory_case(threads, false);
		memory_case(threads, true);
	}
	if (!server_start(&server)) {
		fprintf(stderr, "redis-server does not start\n");
		return 1;
	}
	redis_cases();
	server_stop(&server);
	return 0;
}
