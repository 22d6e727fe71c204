/*
 * store/rate.h - the arithmetic of limits. Pure: no clock, no lock, no I/O.
 *
 * store/take.lua does the same sums in Redis; tests/contract holds the two
 * together. State holds what was consumed, never what is left, so that a changed
 * count keeps it. Integers only; nothing is rounded away.
 *
 * Time is in microseconds on a clock that may step back: a state never runs
 * backwards. With stamps up to one window ahead of now they count as now; further
 * ahead they are moved to now, so nobody gains and nobody is locked out for
 * longer than a window.
 *
 * A decision over several tiers is: rate_look() at each, then, if all enforcing
 * ones admit, rate_charge() each that admitted.
 */
#ifndef WEIR_STORE_RATE_H
#define WEIR_STORE_RATE_H

#include "config/rule.h"

/* Sliding window: the moments of the accepted events, oldest first, in a ring. */
struct rate_log {
	int64_t *at_us; /* owned */
	size_t cap;
	size_t first; /* index of the oldest */
	size_t n;
};

/* Token bucket: what is used up, in units of 1/window_us of a token, as of stamp. */
struct rate_bucket {
	int64_t used;
	int64_t stamp_us;
};

struct rate_state {
	union {
		struct rate_log log;
		struct rate_bucket bucket;
	};
};

/* What a tier says to a cost. */
struct rate_view {
	bool admitted;
	uint64_t remaining; /* whole events left after this request (admitted: after it
			     * is charged) */
	int64_t wait_us; /* until this cost fits if nobody else uses the key; 0 if admitted */
	int64_t reset_us; /* until the state equals never seen, after this request */
};

/* Looks without charging. It may tidy: drop events that have left the window and
 * repair stamps from a far future; the answers stay the same. A zeroed state was
 * never used. */
struct rate_view rate_look(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us);

/* Charges cost after a look that admitted it at the same now_us. False when there
 * is no memory for it; the state is then as before. */
bool rate_charge(struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us);

/* Bytes the state holds beyond sizeof(struct rate_state). */
size_t rate_state_bytes(const struct rate_state *s, enum rate_algorithm a);
void rate_state_release(struct rate_state *s, enum rate_algorithm a);

#endif
