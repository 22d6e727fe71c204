/*
 * store/rate_kind.h - what an algorithm has to say, for store/rate.c alone.
 *
 * at_us is the moment a state is looked at: what settle returned. Only settle thinks of
 * clocks that step back.
 */
#ifndef WEIR_STORE_RATE_KIND_H
#define WEIR_STORE_RATE_KIND_H

#include "store/rate.h"

struct rate_kind {
	/* The moment to look at, repairing stamps too far ahead. */
	int64_t (*settle)(struct rate_state *s, const struct rate *r, int64_t now_us);
	struct rate_view (*look)(const struct rate_state *s, const struct rate *r,
		uint64_t cost, int64_t at_us);
	void (*charge)(
		struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us);
	int64_t (*ends)(const struct rate_state *s, const struct rate *r);

	/* NULL where a state is the struct alone. */

	/* Elements the state has room for once cost is charged. */
	size_t (*room)(const struct rate_state *s, const struct rate *r, uint64_t cost,
		int64_t at_us);
	bool (*reserve)(
		struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us);
};

extern const struct rate_kind rate_sliding_window;  /* rate_log.c */
extern const struct rate_kind rate_fixed_window;    /* rate_windows.c */
extern const struct rate_kind rate_sliding_counter; /* rate_windows.c */
extern const struct rate_kind rate_token_bucket;    /* rate_bucket.c */
extern const struct rate_kind rate_leaky_bucket;    /* rate_bucket.c */

static inline uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

#endif
