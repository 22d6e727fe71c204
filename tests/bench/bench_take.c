/*
 * What a decision costs: in Redis at a small and a large window, per event in bytes, and
 * in the memory table by threads. Prints figures; nothing is asserted, since they are the
 * machine's as much as ours.
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

#define S     INT64_C(1000000)
#define NOW   INT64_C(1700000000000000)
#define TIMES 50000
#define BATCH 100 /* questions in the pipe at once */

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
	for (uint64_t i = 0; i < n; i++) {
		redisReply *reply;

		script_put_take(&b, SCRIPT_BY_SHA, &one, 1, NOW + (int64_t)i * apart_us);
		reply = server_run(&server, &b);
		if (!script_parse(reply, 1, &admitted, &view) || !admitted)
			exit(1);
		freeReplyObject(reply);
	}
	buf_release(&b);
}

static void redis_case(
	const char *what, struct rate r, uint64_t filled, int64_t now_us, int64_t step_us)
{
	struct take_tier tier = { .key = VIEW("k"), .rate = &r, .cost = 1 };
	double in_script;
	int64_t began;

	freeReplyObject(redisCommand(server.redis, "FLUSHALL"));
	fill(&tier, filled, r.window_us / (int64_t)r.count);
	if (filled)
		printf("%-44s %8.2f bytes an event\n", what,
			(double)number("MEMORY USAGE k") / (double)filled);
	in_script = evalsha_us();
	began = clock_mono_us();
	ask_many(&tier, 1, now_us, step_us);
	printf("%-44s %8.2f us a decision in Redis, %6.0f thousand/s pipelined\n", what,
		(evalsha_us() - in_script) / TIMES,
		TIMES * 1e3 / (double)(clock_mono_us() - began));
}

static void redis_cases(void)
{
	static const uint64_t counts[] = { 60, 1000, 10000, 100000 };
	struct rate rates[4];
	struct take_tier tiers[4];
	double in_script;
	char what[64];

	for (size_t i = 0; i < COUNT_OF(counts); i++) {
		const uint64_t n = counts[i];
		struct rate r = { RATE_SLIDING_WINDOW, n, 60 * S, n };

		snprintf(what, sizeof(what), "window of %" PRIu64 ", full, refused", n);
		redis_case(what, r, n, NOW + 60 * S - 1, 0);
		snprintf(what, sizeof(what), "window of %" PRIu64 ", full, admitted", n);
		redis_case(what, r, n, NOW + 60 * S, 60 * S / (int64_t)n + 1);
	}
	redis_case("bucket, admitted", (struct rate){ RATE_TOKEN_BUCKET, 1, S, 10 }, 0, NOW,
		S);
	redis_case(
		"bucket, refused", (struct rate){ RATE_TOKEN_BUCKET, 1, S, 10 }, 0, NOW, 0);

	for (size_t i = 0; i < 4; i++) {
		static const char *const keys[] = { "a", "b", "c", "d" };

		rates[i] = (struct rate){ i == 3 ? RATE_TOKEN_BUCKET : RATE_SLIDING_WINDOW,
			60, 60 * S, 60 };
		tiers[i] = (struct take_tier){ view_str(keys[i]), &rates[i], 1, false };
	}
	in_script = evalsha_us();
	ask_many(tiers, 4, NOW, S + 1);
	printf("%-44s %8.2f us a decision in Redis\n", "four tiers of 60, admitted",
		(evalsha_us() - in_script) / TIMES);
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
