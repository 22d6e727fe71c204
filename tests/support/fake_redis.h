/*
 * fake_redis.h - a Redis that misbehaves on demand, on a unix socket, in a thread of
 * the test.
 *
 * It reads commands and answers each by the first rule that fits; what no rule fits is
 * answered well: AUTH and SELECT with OK, INFO as a single node, SCRIPT LOAD with the
 * SHA-1 it was given at the start, EVALSHA and EVAL with the reply it was given. An EVAL
 * that counts in rate:probe, as greetings and probes do, is called PROBE.
 */
#ifndef WEIR_TESTS_FAKE_REDIS_H
#define WEIR_TESTS_FAKE_REDIS_H

#include <stdbool.h>

/* In this order: waits, sends bytes, waits, sends late, closes. */
struct fake_rule {
	const char *command; /* upper case: "EVALSHA"; ends the rules when NULL */
	unsigned from, to;   /* which of them, counted from 1 over all connections; to 0:
				 * all from there on */
	unsigned before_ms;
	const char *bytes; /* NULL: none */
	unsigned between_ms;
	const char *late;
	bool close;
};

struct fake_redis;

/* Listens on path. The rest is borrowed until fake_redis_stop(). NULL on failure. */
struct fake_redis *fake_redis_start(const char *path, const char *sha,
	const char *take_reply, const struct fake_rule *rules);
void fake_redis_stop(struct fake_redis *f);

/* How many of that command have come so far; any thread. "" counts connections. */
unsigned fake_redis_count(struct fake_redis *f, const char *command);
/* Connections that are open, and the most that were so at once; any thread. One that was closed before the next
 * was made is not one of them. */
unsigned fake_redis_open(struct fake_redis *f);
unsigned fake_redis_most(struct fake_redis *f);

#endif
