/*
 * store/redis.h - one worker's connection to Redis.
 *
 * Questions go out as they come, any number at a time; Redis answers in order. What
 * cannot be trusted any longer is dropped whole: a late answer, a refusal of any kind
 * (LOADING, OOM, READONLY, NOAUTH, WRONGTYPE, MOVED, ...), bytes that make no sense or
 * that nobody asked for, a reset. All open questions are then lost, which means that
 * policy answers them: they may or may not have been counted, so they are not asked
 * again. The exception is NOSCRIPT, which says that nothing was counted.
 *
 * While there is no connection no question waits, but for the first one at start, and
 * for no longer than store.timeout. Attempts to connect begin at least
 * REDIS_RETRY_MS apart, so counting in Redis is back within a second. What is wrong is
 * logged when it begins and when it ends; passwords are not.
 *
 * The Redis user needs INFO, SCRIPT LOAD, EVALSHA, EVAL and the commands of take.lua,
 * and SELECT with a database other than 0. Cluster nodes are refused: the tiers of a
 * request would live in several slots.
 *
 * Belongs to one loop. The process must ignore SIGPIPE.
 */
#ifndef WEIR_STORE_REDIS_H
#define WEIR_STORE_REDIS_H

#include "store/store.h"

#define REDIS_RETRY_MS 500
/* Connecting may take longer than an answer: nobody waits for it. */
#define REDIS_CONNECT_LEAST_MS 250

struct redis;

struct redis_events {
	/* An end to t, from the loop and never from inside a call below. counted: Redis
	 * decided; t->admitted and t->views are set. Else policy must. */
	void (*answered)(void *owner, struct take *t, bool counted);
	/* After redis_close(): the memory is about to be freed, the loop knows it no more. */
	void (*closed)(void *owner);
};

/* Takes another configuration: its time-outs; c is borrowed until the next. The address
 * must be the same. */
void redis_reload(struct redis *r, const struct config *c);

/* Starts connecting, without blocking, to c->store, which must outlive it. NULL when
 * memory is out. */
struct redis *redis_new(uv_loop_t *loop, const struct config *c,
	const struct redis_events *events, void *owner);
/* Forgets all questions. closed comes later, from the loop. */
void redis_close(struct redis *r);

/* Whether a question would be taken, as far as is known: false while Redis is down. */
bool redis_asks(const struct redis *r);
/* Asks. False when Redis is known to be down: t is then the caller's again. */
bool redis_take(struct redis *r, struct take *t);

/* "redis", "redis (connecting)" or "redis (down: why)". Borrowed until the loop runs on. */
const char *redis_state(struct redis *r);

#endif
