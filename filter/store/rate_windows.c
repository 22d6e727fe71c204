/*
 * store/rate_windows.c - fixed window and sliding counter.
 *
 * Both hold when they were last charged and what the window of that moment has taken;
 * which window that is follows from the stamp, so nothing has to be moved when a window
 * begins. The counter also holds what the window before had.
 *
 * The counter weighs in units of 1/window_us of an event: what the window before took
 * counts for as many units each as microseconds of it lie within the last window_us.
 */
#include "store/rate_kind.h"

/* How far at_us is into its window. */
static int64_t into_window(const struct rate *r, int64_t at_us)
{
	const int64_t into = at_us % r->window_us;

	return into < 0 ? into + r->window_us : into;
}

/* How many windows lie between that of the stamp and that of at_us, which is not before
 * it: 0 for the same one, 2 for any that are further apart than neighbours. */
static unsigned windows_past(
	const struct rate_windows *w, const struct rate *r, int64_t at_us)
{
	const int64_t from_us = w->stamp_us - into_window(r, w->stamp_us);

	if (at_us - from_us < r->window_us)
		return 0;
	return at_us - from_us - r->window_us < r->window_us ? 1 : 2;
}

static int64_t windows_settle(struct rate_state *s, const struct rate *r, int64_t now_us)
{
	struct rate_windows *w = &s->windows;

	if (w->used == 0 || w->stamp_us <= now_us)
		return now_us;
	if (w->stamp_us - now_us > r->window_us)
		w->stamp_us = now_us;
	return w->stamp_us;
}

/*
 * Fixed window
 */

static uint64_t fixed_used(
	const struct rate_windows *w, const struct rate *r, int64_t at_us)
{
	return w->used && windows_past(w, r, at_us) == 0 ? w->used : 0;
}

static struct rate_view fixed_look(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const uint64_t used = fixed_used(&s->windows, r, at_us);
	const uint64_t left = used < r->count ? r->count - used : 0;
	const int64_t ends_us = r->window_us - into_window(r, at_us);
	struct rate_view v = { .admitted = cost <= left, .remaining = left };

	if (v.admitted)
		v.remaining -= cost;
	else
		v.wait_us = cost <= r->count ? ends_us : r->window_us;
	if (used > 0 || (v.admitted && cost > 0))
		v.reset_us = ends_us;
	return v;
}

static void fixed_charge(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	s->windows.used = fixed_used(&s->windows, r, at_us) + cost;
	s->windows.stamp_us = at_us;
}

static int64_t fixed_ends(const struct rate_state *s, const struct rate *r)
{
	const struct rate_windows *w = &s->windows;

	if (w->used == 0)
		return INT64_MIN;
	return w->stamp_us - into_window(r, w->stamp_us) + r->window_us;
}

/*
 * Sliding counter
 */

struct pair {
	uint64_t used, before; /* of the window at_us lies in, and the one before it */
};

/* What both took as of the stamp, in windows of today's length. */
static struct pair counter_stamped(const struct rate_windows *w, const struct rate *r)
{
	const uint64_t most = ((UINT64_C(1) << 53) - 1) / (uint64_t)r->window_us;
	struct rate old = { .window_us = w->unit_us };
	uint64_t weighs;

	if (w->used == 0 || w->unit_us == r->window_us)
		return (struct pair){ w->used, w->before };
	weighs = w->used +
		div_up(w->before * (uint64_t)(w->unit_us - into_window(&old, w->stamp_us)),
			(uint64_t)w->unit_us);
	return (struct pair){ weighs < most ? weighs : most, 0 };
}

static struct pair counter_pair(
	const struct rate_windows *w, const struct rate *r, int64_t at_us)
{
	struct pair p = counter_stamped(w, r);

	if (p.used == 0)
		return p;
	switch (windows_past(w, r, at_us)) {
	case 0: return p;
	case 1: return (struct pair){ 0, p.used };
	default: return (struct pair){ 0, 0 };
	}
}

/* In units, into microseconds after the window began. */
static int64_t counter_weighs(struct pair p, const struct rate *r, int64_t into)
{
	return (int64_t)p.used * r->window_us + (int64_t)p.before * (r->window_us - into);
}

/* How far into the window a cost fits that has free units left by what does not fade: as
 * soon as the other window's events weigh no more than that. */
static int64_t fades_at(uint64_t fading, int64_t free, const struct rate *r)
{
	const int64_t may_last = free / (int64_t)fading;

	return may_last < r->window_us ? r->window_us - may_last : 0;
}

/* Weights only fall while nobody adds, so the first moment at which the cost fits is in
 * this window if this window's own events leave room, else in the next, where they fade,
 * or at its very end. */
static int64_t counter_wait(
	struct pair p, const struct rate *r, uint64_t cost, int64_t into)
{
	if (p.used + cost <= r->count)
		return fades_at(p.before,
			       (int64_t)(r->count - p.used - cost) * r->window_us, r) -
			into;
	return r->window_us - into +
		fades_at(p.used, (int64_t)(r->count - cost) * r->window_us, r);
}

static struct rate_view counter_look(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const struct pair p = counter_pair(&s->windows, r, at_us);
	const int64_t into = into_window(r, at_us);
	const int64_t free = (int64_t)r->count * r->window_us - counter_weighs(p, r, into);
	const bool fits_ever = cost <= r->count;
	struct rate_view v = { .admitted = fits_ever &&
			(int64_t)cost * r->window_us <= free };

	if (free > 0)
		v.remaining = (uint64_t)(free / r->window_us);
	if (v.admitted)
		v.remaining -= cost;
	else
		v.wait_us = fits_ever ? counter_wait(p, r, cost, into) : r->window_us;
	if (p.used > 0 || (v.admitted && cost > 0))
		v.reset_us = 2 * r->window_us - into;
	else if (p.before > 0)
		v.reset_us = r->window_us - into;
	return v;
}

static void counter_charge(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const struct pair p = counter_pair(&s->windows, r, at_us);

	s->windows = (struct rate_windows){ .used = p.used + cost,
		.before = p.before,
		.stamp_us = at_us,
		.unit_us = r->window_us };
}

static int64_t counter_ends(const struct rate_state *s, const struct rate *r)
{
	const struct rate_windows *w = &s->windows;

	if (w->used == 0)
		return INT64_MIN;
	return w->stamp_us - into_window(r, w->stamp_us) + 2 * r->window_us;
}

const struct rate_kind rate_fixed_window = {
	.settle = windows_settle,
	.look = fixed_look,
	.charge = fixed_charge,
	.ends = fixed_ends,
};

const struct rate_kind rate_sliding_counter = {
	.settle = windows_settle,
	.look = counter_look,
	.charge = counter_charge,
	.ends = counter_ends,
};
