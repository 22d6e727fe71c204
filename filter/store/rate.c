/*
 * store/rate.c - which algorithm is asked.
 *
 * Each first settles the time: the moment at which a state is looked at is now, or its
 * newest stamp when the clock has stepped back a little. All others then take that
 * moment and need not think of clocks. What expired stays in a state until it is
 * charged, since a clock that steps back may bring it to life again and Redis, where a
 * refusal writes nothing, would know of it.
 */
#include "store/rate.h"

#include <stdlib.h>

#include "store/rate_kind.h"

static const struct rate_kind *const kinds[] = {
	[RATE_SLIDING_WINDOW] = &rate_sliding_window,
	[RATE_TOKEN_BUCKET] = &rate_token_bucket,
	[RATE_FIXED_WINDOW] = &rate_fixed_window,
	[RATE_SLIDING_COUNTER] = &rate_sliding_counter,
	[RATE_LEAKY_BUCKET] = &rate_leaky_bucket,
};

struct rate_view rate_look(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	const struct rate_kind *k = kinds[r->algorithm];

	return k->look(s, r, cost, k->settle(s, r, now_us));
}

bool rate_reserve(struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	const struct rate_kind *k = kinds[r->algorithm];

	return !k->reserve || k->reserve(s, r, cost, k->settle(s, r, now_us));
}

bool rate_charge(struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	const struct rate_kind *k = kinds[r->algorithm];
	const int64_t at_us = k->settle(s, r, now_us);

	if (k->reserve && !k->reserve(s, r, cost, at_us))
		return false;
	k->charge(s, r, cost, at_us);
	return true;
}

int64_t rate_ends_us(const struct rate_state *s, const struct rate *r)
{
	return kinds[r->algorithm]->ends(s, r);
}

size_t rate_state_bytes(const struct rate_state *s, enum rate_algorithm a)
{
	return a == RATE_SLIDING_WINDOW ? s->log.cap * sizeof(*s->log.at_us) : 0;
}

size_t rate_reserve_bytes(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	const struct rate_kind *k = kinds[r->algorithm];

	return k->room ? k->room(s, r, cost, k->settle(s, r, now_us)) * sizeof(int64_t) : 0;
}

void rate_state_release(struct rate_state *s, enum rate_algorithm a)
{
	if (a == RATE_SLIDING_WINDOW)
		free(s->log.at_us);
	*s = (struct rate_state){ 0 };
}
