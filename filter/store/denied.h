/*
 * store/denied.h - what Redis has refused and would refuse again.
 *
 * A refusal says when the tier could first admit that cost. Until then the process may
 * give that answer by itself, since nobody else's use makes a wait shorter. A larger cost
 * would be refused too, but has a longer wait that only Redis knows, so each cost has an
 * entry of its own. It does so for DENIED_US at a time, because a count may be
 * reset and another process may have read other rules; then one question goes to Redis
 * while the others are still refused, for at most DENIED_PROBE_US and never beyond the
 * moment that Redis has named. So a flood of refused requests costs Redis a command a
 * second for each cost.
 *
 * An entry belongs to a store key, the cost, and the limit it was refused by: one refused
 * by another count, window or burst does not meet it. Moments are of the monotonic clock.
 * Redis looked between being asked and having answered: an entry ends as counted from the
 * former, so nobody is refused longer than Redis would, and says how long to wait as
 * counted from the latter, so that this wait is never too short.
 *
 * All this holds while Redis can be asked; when it is down the rules decide (store.c).
 *
 * Shared by the workers; any thread. Bounded: a full shard drops the refusal noted
 * longest ago, which costs Redis a question and nobody a request.
 */
#ifndef WEIR_STORE_DENIED_H
#define WEIR_STORE_DENIED_H

#include "store/rate.h"

#define DENIED_US       INT64_C(1000000)
#define DENIED_PROBE_US INT64_C(500000)

#define DENIED_SHARDS      16
#define DENIED_SHARD_LIMIT 4096 /* entries of a shard */

struct denied;
struct take_tier; /* store/store.h */

/* NULL when memory is out. */
struct denied *denied_new(void);
void denied_free(struct denied *d);

/* Forgets everything, and starts another epoch: what was asked in an earlier one is not
 * noted any more. */
void denied_clear(struct denied *d);
uint64_t denied_epoch(const struct denied *d);

enum denied_says {
	DENIED_UNKNOWN, /* Redis has to be asked */
	DENIED_REFUSES, /* *view is as Redis saw it, its times from now on */
	DENIED_PROBE,   /* the same, but Redis should be asked again: denied_probe() */
};
/* *view is untouched when it is unknown. */
enum denied_says denied_look(struct denied *d, const struct take_tier *t, int64_t now_us,
	struct rate_view *view);
/* The caller would ask Redis for all. DENIED_PROBE: it is to ask, and the others are
 * refused meanwhile. Else as for denied_look(), somebody else having been faster. */
enum denied_says denied_probe(struct denied *d, const struct take_tier *t, int64_t now_us,
	struct rate_view *view);

/* Redis, asked at asked_us in that epoch, has refused t: view is what it said, as heard at
 * now_us. Nothing happens when memory is out. */
void denied_note(struct denied *d, const struct take_tier *t, const struct rate_view *view,
	int64_t asked_us, int64_t now_us, uint64_t epoch);
/* It has admitted t after all, or did not say. */
void denied_drop(struct denied *d, const struct take_tier *t);

/* Entries held. A reading, not a moment. */
size_t denied_count(const struct denied *d);

#endif
