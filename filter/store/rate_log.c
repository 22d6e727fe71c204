/*
 * store/rate_log.c - the sliding window.
 *
 * An event at t counts while now < t + window. The log holds accepted events only, so it
 * is never longer than the largest count in force.
 */
#include <assert.h>
#include <stdlib.h>

#include "store/rate_kind.h"

static int64_t log_at(const struct rate_log *l, size_t i)
{
	return l->at_us[i < l->cap - l->first ? l->first + i : i - (l->cap - l->first)];
}

static int64_t log_newest(const struct rate_log *l)
{
	return log_at(l, l->n - 1);
}

/* How many of the oldest no longer count: gallops from the oldest, since usually
 * few have expired since the last charge. */
static size_t log_expired(const struct rate_log *l, const struct rate *r, int64_t at_us)
{
	const int64_t gone = at_us - r->window_us; /* what is not younger is gone */
	size_t lo = 0, hi, probe = 0;              /* below lo all are gone, hi counts */

	if (l->n == 0 || log_newest(l) <= gone)
		return l->n;
	hi = l->n - 1;
	while (probe < hi && log_at(l, probe) <= gone) {
		lo = probe + 1;
		probe = 2 * probe + 1;
	}
	if (probe < hi)
		hi = probe;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (log_at(l, mid) <= gone)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int64_t log_settle(struct rate_state *s, const struct rate *r, int64_t now_us)
{
	struct rate_log *l = &s->log;
	int64_t ahead = l->n ? log_newest(l) - now_us : 0;

	if (ahead <= 0)
		return now_us;
	if (ahead <= r->window_us)
		return now_us + ahead;
	for (size_t i = 0; i < l->cap; i++)
		l->at_us[i] -= ahead;
	return now_us;
}

static struct rate_view log_look(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const struct rate_log *l = &s->log;
	const size_t expired = log_expired(l, r, at_us);
	const uint64_t used = l->n - expired;
	const uint64_t left = used < r->count ? r->count - used : 0;
	struct rate_view v = { .admitted = cost <= left, .remaining = left };

	if (used > 0)
		v.reset_us = log_newest(l) + r->window_us - at_us;
	if (v.admitted && cost > 0) {
		v.remaining = left - cost;
		v.reset_us = r->window_us;
	} else if (cost > r->count) {
		v.wait_us = r->window_us;
	} else if (!v.admitted) {
		/* So many of the oldest have to go first. */
		size_t n = used + cost - r->count;

		v.wait_us = log_at(l, expired + n - 1) + r->window_us - at_us;
	}
	return v;
}

/* The ring grows by an eighth and shrinks when a fifth of it is idle, so its size
 * follows what counts and moving it costs a constant per event. */
static size_t log_room(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const struct rate_log *l = &s->log;
	uint64_t need = l->n - log_expired(l, r, at_us) + cost;
	uint64_t more = need + need / 8;

	if (need <= l->cap && l->cap <= need + need / 4 + 16)
		return l->cap;
	if (more <= r->count)
		return more;
	return need > r->count ? need : r->count;
}

static bool log_reserve(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	struct rate_log *l = &s->log;
	const size_t room = log_room(s, r, cost, at_us);
	const size_t expired = log_expired(l, r, at_us);
	int64_t *at;

	if (room == l->cap)
		return true;
	at = room <= SIZE_MAX / sizeof(*at) ? malloc(room * sizeof(*at)) : NULL;
	if (!at) /* Shrinking can wait. */
		return l->n - expired + cost <= l->cap;
	for (size_t i = expired; i < l->n; i++)
		at[i - expired] = log_at(l, i);
	free(l->at_us);
	*l = (struct rate_log){ .at_us = at, .cap = room, .n = l->n - expired };
	return true;
}

static void log_charge(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	struct rate_log *l = &s->log;
	const size_t expired = log_expired(l, r, at_us);

	l->first = (l->first + expired) % l->cap;
	l->n -= expired;
	assert(cost <= l->cap - l->n);
	for (; cost > 0; cost--, l->n++)
		l->at_us[(l->first + l->n) % l->cap] = at_us;
}

static int64_t log_ends(const struct rate_state *s, const struct rate *r)
{
	return s->log.n ? log_newest(&s->log) + r->window_us : INT64_MIN;
}

const struct rate_kind rate_sliding_window = {
	.settle = log_settle,
	.look = log_look,
	.charge = log_charge,
	.ends = log_ends,
	.room = log_room,
	.reserve = log_reserve,
};
