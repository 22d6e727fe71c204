/*
 * store/rate.c - one table of operations per algorithm.
 *
 * Each first settles the time: the moment at which a state is looked at is now, or its
 * newest stamp when the clock has stepped back a little. All others then take that
 * moment and need not think of clocks. What expired stays in a state until it is
 * charged, since a clock that steps back may bring it to life again and Redis, where a
 * refusal writes nothing, would know of it.
 */
#include "store/rate.h"

#include <assert.h>
#include <stdlib.h>

struct algorithm {
	/* The moment to look at, repairing stamps too far ahead. */
	int64_t (*settle)(struct rate_state *s, const struct rate *r, int64_t now_us);
	struct rate_view (*look)(const struct rate_state *s, const struct rate *r,
		uint64_t cost, int64_t at_us);
	/* Elements the state has room for once cost is charged. */
	size_t (*room)(const struct rate_state *s, const struct rate *r, uint64_t cost,
		int64_t at_us);
	bool (*reserve)(
		struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us);
	void (*charge)(
		struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us);
	int64_t (*ends)(const struct rate_state *s, const struct rate *r);
};

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/*
 * Sliding window. An event at t counts while now < t + window. The log holds accepted
 * events only, so it is never longer than the largest count in force.
 */
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

/*
 * Token bucket. A microsecond gives back count units of 1/window_us of a token each, so
 * no fraction exists that could be lost.
 */
static int64_t bucket_capacity(const struct rate *r)
{
	return (int64_t)r->burst * r->window_us;
}

static int64_t bucket_full_us(const struct rate *r)
{
	return (int64_t)div_up((uint64_t)bucket_capacity(r), r->count);
}

/* What was used as of the stamp, in today's units. */
static uint64_t bucket_stamped(const struct rate_bucket *b, const struct rate *r)
{
	const uint64_t most = ((UINT64_C(1) << 53) - 1) / (uint64_t)r->window_us;
	uint64_t tokens;

	if (b->used == 0 || b->unit_us == r->window_us)
		return (uint64_t)b->used;
	tokens = div_up((uint64_t)b->used, (uint64_t)b->unit_us);
	return (tokens < most ? tokens : most) * (uint64_t)r->window_us;
}

static int64_t bucket_used(const struct rate_bucket *b, const struct rate *r, int64_t at_us)
{
	const uint64_t used = bucket_stamped(b, r);

	if (used == 0)
		return 0;
	/* Compared before it is multiplied, so the product stays below used. */
	if ((uint64_t)(at_us - b->stamp_us) >= div_up(used, r->count))
		return 0;
	return (int64_t)(used - (uint64_t)(at_us - b->stamp_us) * r->count);
}

static int64_t bucket_settle(struct rate_state *s, const struct rate *r, int64_t now_us)
{
	struct rate_bucket *b = &s->bucket;

	if (b->used == 0 || b->stamp_us <= now_us)
		return now_us;
	if (b->stamp_us - now_us > bucket_full_us(r))
		b->stamp_us = now_us;
	return b->stamp_us;
}

static struct rate_view bucket_look(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const int64_t capacity = bucket_capacity(r);
	const bool fits_ever = cost <= r->burst;
	const int64_t units = fits_ever ? (int64_t)cost * r->window_us : 0;
	int64_t used = bucket_used(&s->bucket, r, at_us);
	struct rate_view v = { .admitted = fits_ever && units <= capacity - used };

	if (v.admitted)
		used += units;
	else if (!fits_ever)
		v.wait_us = bucket_full_us(r);
	else
		v.wait_us = (int64_t)div_up(
			(uint64_t)(units - (capacity - used)), r->count);
	if (used < capacity)
		v.remaining = (uint64_t)((capacity - used) / r->window_us);
	v.reset_us = (int64_t)div_up((uint64_t)used, r->count);
	return v;
}

static size_t bucket_room(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	(void)s, (void)r, (void)cost, (void)at_us;
	return 0;
}

static bool bucket_reserve(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	(void)s, (void)r, (void)cost, (void)at_us;
	return true;
}

static void bucket_charge(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	int64_t used = bucket_used(&s->bucket, r, at_us);

	s->bucket.used = used + (int64_t)cost * r->window_us;
	s->bucket.stamp_us = at_us;
	s->bucket.unit_us = r->window_us;
}

static int64_t bucket_ends(const struct rate_state *s, const struct rate *r)
{
	const struct rate_bucket *b = &s->bucket;

	if (b->used == 0)
		return INT64_MIN;
	return b->stamp_us + (int64_t)div_up(bucket_stamped(b, r), r->count);
}

static const struct algorithm algorithms[] = {
	[RATE_SLIDING_WINDOW] = { log_settle, log_look, log_room, log_reserve, log_charge,
		log_ends },
	[RATE_TOKEN_BUCKET] = { bucket_settle, bucket_look, bucket_room, bucket_reserve,
		bucket_charge, bucket_ends },
};

struct rate_view rate_look(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	const struct algorithm *a = &algorithms[r->algorithm];

	return a->look(s, r, cost, a->settle(s, r, now_us));
}

bool rate_reserve(struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	const struct algorithm *a = &algorithms[r->algorithm];

	return a->reserve(s, r, cost, a->settle(s, r, now_us));
}

bool rate_charge(struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	const struct algorithm *a = &algorithms[r->algorithm];
	const int64_t at_us = a->settle(s, r, now_us);

	if (!a->reserve(s, r, cost, at_us))
		return false;
	a->charge(s, r, cost, at_us);
	return true;
}

int64_t rate_ends_us(const struct rate_state *s, const struct rate *r)
{
	return algorithms[r->algorithm].ends(s, r);
}

size_t rate_state_bytes(const struct rate_state *s, enum rate_algorithm a)
{
	return a == RATE_SLIDING_WINDOW ? s->log.cap * sizeof(*s->log.at_us) : 0;
}

size_t rate_reserve_bytes(
	struct rate_state *s, const struct rate *r, uint64_t cost, int64_t now_us)
{
	const struct algorithm *a = &algorithms[r->algorithm];

	return a->room(s, r, cost, a->settle(s, r, now_us)) * sizeof(int64_t);
}

void rate_state_release(struct rate_state *s, enum rate_algorithm a)
{
	if (a == RATE_SLIDING_WINDOW)
		free(s->log.at_us);
	*s = (struct rate_state){ 0 };
}
