/*
 * store/rate.h - the arithmetic of limits. Pure: no clock, no lock, no I/O.
 *
 * store/take.lua does the same sums in Redis; tests/contract holds the two
 * together. State holds what was consumed, never what is left, so that a changed
 * count keeps it. Integers only; nothing is rounded away.
 *
 * Time is in microseconds on a clock that may step back: a state never runs
 * backwards. While the newest stamp is at most one window ahead of now (bucket: the
 * time a full bucket needs), it counts as now. Further ahead all stamps are moved
 * so that the newest is now, so nobody gains and no wait is longer than a window (a
 * sliding counter's: two).
 *
 * A decision over several tiers is: rate_look() at each, then, if all enforcing
 * ones admit, rate_reserve() and rate_charge() each that admitted.
 *
 * sliding window   An event at t counts while now < t + window. Exact.
 * fixed window     Windows begin at multiples of their length on the clock in use, that of
 *                  Redis or the process's own. Twice the count can pass around a boundary.
 * sliding counter  Two such windows: what the one before took counts in proportion to how
 *                  much of it lies within the last window_us. No fraction is dropped, but
 *                  it assumes that use was spread evenly. Holds any count in few bytes.
 * token bucket     Capacity burst, refilled at count per window.
 * leaky bucket     A queue of burst places that drains at count per window. A request is
 *                  charged when decided and has its turn when what is ahead of it has
 *                  drained (hold_us); refused when the queue has no place for its cost, or
 *                  when its turn is more than max_delay_us away.
 *
 * Which numbers may stand together is at struct rate in config/rule.h; whoever reads
 * rules holds them. A cost above the capacity can never fit: refused, with the wait of a
 * full window or bucket.
 */
#ifndef WEIR_STORE_RATE_H
#define WEIR_STORE_RATE_H

#include "config/rule.h"

/* Most events of a sliding window: its state is one string in Redis, of 6 to 10 bytes
 * each. */
#define RATE_LOG_MAX (UINT64_C(1) << 24)

/* Sliding window: the moments of the accepted events, oldest first, in a ring. */
struct rate_log {
	int64_t *at_us; /* owned */
	size_t cap;
	size_t first; /* index of the oldest */
	size_t n;
};

/* Token and leaky bucket: what is used up, in units of 1/unit_us of a token, as of stamp. The
 * unit is the window at the last charge; under another one used counts as whole
 * tokens, rounded up. */
struct rate_bucket {
	int64_t used; /* 0: never used */
	int64_t stamp_us;
	int64_t unit_us;
};

/* Fixed window and sliding counter: what the window of the stamp has taken and, for the
 * counter, what the one before had. Under windows of another length a fixed window's use
 * counts where its stamp lies; so does the counter's, as it weighed then, rounded up. */
struct rate_windows {
	uint64_t used; /* 0: never used */
	uint64_t before;
	int64_t stamp_us;
	int64_t unit_us; /* the length of those windows */
};

struct rate_state {
	union {
		struct rate_log log;
		struct rate_bucket bucket; /* leaky: what has not drained yet */
		struct rate_windows windows;
	};
};

/* What a tier says to a cost. */
struct rate_view {
	bool admitted;
	uint64_t remaining; /* whole events left after this request (admitted: after it
			     * is charged) */
	int64_t wait_us; /* until this cost fits if nobody else uses the key; 0 if admitted */
	int64_t reset_us; /* until the state equals never seen, after this request */
	int64_t hold_us;  /* leaky bucket, admitted: until its turn comes; else 0 */
	bool unknown;     /* nobody looked at it; never set here (store/store.h) */
};

/* Looks without charging; cost 0 asks what is left now. The state changes only where
 * stamps lie too far ahead and are moved. A zeroed state was never used. */
struct rate_view rate_look(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us);

/* Makes room for a charge that was admitted at the same now_us, which then cannot fail.
 * False when memory is out; what is counted stays as it was. */
bool rate_reserve(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us);

/* Charges cost, at least 1, after a look that admitted it at the same now_us. False when
 * there is no memory for it; what is counted is then as before. */
bool rate_charge(struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us);

/* When the state equals never seen, on the clock of its stamps; INT64_MIN when it does
 * anyway. */
int64_t rate_ends_us(const struct rate_state *s, const struct rate *r);

/* Bytes the state holds beyond sizeof(struct rate_state): now, and after
 * rate_reserve() for that charge. */
size_t rate_state_bytes(const struct rate_state *s, enum rate_algorithm a);
size_t rate_reserve_bytes(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us);
void rate_state_release(struct rate_state *s, enum rate_algorithm a);

#endif
