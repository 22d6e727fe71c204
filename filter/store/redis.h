/*
 * store/redis.h - one worker's questions to Redis.
 *
 * Questions go out as they come, any number at a time; Redis answers in order. What
 * cannot be trusted any longer is dropped whole, with its connection: a late answer, a
 * refusal (LOADING, OOM, READONLY, NOAUTH, MOVED, ...), bytes that make no sense or that
 * nobody asked for, a reset. All open questions are then lost, which means that policy
 * answers them: they may or may not have been counted, so they are not asked again. The
 * exception is NOSCRIPT, which says that nothing was counted.
 *
 * A key that holds something else than a count (BADSTATE, said by take.lua) is no fault
 * of Redis's: policy answers that question and the connection stays. Else one bad key
 * would stop the counting of everybody.
 *
 * While there is no connection no question waits, but for the first one at start, and
 * for no longer than store.timeout. How it is made and made again: store/link.h.
 *
 * The Redis user needs INFO, SCRIPT LOAD, EVALSHA, EVAL and the commands of take.lua,
 * and SELECT with a database other than 0. Cluster nodes are refused: the tiers of a
 * request would live in several slots.
 *
 * Belongs to one loop. The process must ignore SIGPIPE.
 */
#ifndef WEIR_STORE_REDIS_H
#define WEIR_STORE_REDIS_H

#include "store/health.h"
#include "store/store.h"

struct redis;

struct redis_events {
	/* An end to t, from the loop and never from inside a call below. counted: Redis
	 * decided; t->admitted and t->views are set. Else policy must. */
	void (*answered)(void *owner, struct take *t, bool counted);
	/* After redis_close(): the memory is about to be freed, the loop knows it no more. */
	void (*closed)(void *owner);
};

/* Takes another configuration: its time-outs and password; c is borrowed until the next.
 * The servers stay those of the first. */
void redis_reload(struct redis *r, const struct config *c);

/* Starts connecting, without blocking, to c->store. c and health must outlive it. NULL
 * when memory is out. */
struct redis *redis_new(uv_loop_t *loop, struct config *c, struct health *health,
	const struct redis_events *events, void *owner);
/* Forgets all questions. closed comes later, from the loop. */
void redis_close(struct redis *r);

/* Whether a question would be taken, as far as is known: false while Redis is down or the
 * breaker is open. */
bool redis_asks(struct redis *r);
/* Asks about t. False, without answering, when Redis is down: policy must decide. */
bool redis_take(struct redis *r, struct take *t);

/* "redis", "redis (connecting)" or "redis (down: why)". Borrowed until the loop runs on. */
const char *redis_state(struct redis *r);
/* False when that says that it is down. */
bool redis_up(const struct redis *r);

#endif
