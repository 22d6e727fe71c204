/*
 * store/rate_bucket.c - token bucket and leaky bucket.
 *
 * Both hold what is used up, of which a microsecond gives back count units of 1/window_us
 * of a token each, so no fraction exists that could be lost. They differ in what they
 * say: the leaky one also when a request has its turn.
 */
#include "store/rate_kind.h"

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

/* What a cost would find, before it is charged. */
struct weighing {
	int64_t used, units; /* now; what the cost takes, 0 when it can never fit */
	bool fits_ever, fits;
	int64_t wait_us; /* for room */
};

static struct weighing weigh(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const int64_t capacity = bucket_capacity(r);
	struct weighing w = { .used = bucket_used(&s->bucket, r, at_us),
		.fits_ever = cost <= r->burst };

	if (w.fits_ever)
		w.units = (int64_t)cost * r->window_us;
	w.fits = w.fits_ever && w.units <= capacity - w.used;
	if (!w.fits_ever)
		w.wait_us = bucket_full_us(r);
	else if (!w.fits)
		w.wait_us = (int64_t)div_up(
			(uint64_t)(w.units - (capacity - w.used)), r->count);
	return w;
}

static uint64_t bucket_left(const struct rate *r, int64_t used)
{
	const int64_t capacity = bucket_capacity(r);

	return used < capacity ? (uint64_t)((capacity - used) / r->window_us) : 0;
}

static struct rate_view bucket_look(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const struct weighing w = weigh(s, r, cost, at_us);
	const int64_t after = w.fits ? w.used + w.units : w.used;

	return (struct rate_view){
		.admitted = w.fits,
		.remaining = bucket_left(r, after),
		.wait_us = w.wait_us,
		.reset_us = (int64_t)div_up((uint64_t)after, r->count),
	};
}

/* Single events that would be admitted now: one has to find room, and its turn within
 * max_delay_us. Where that is as long as a full queue takes, it forbids nothing. */
static uint64_t queue_left(const struct rate *r, int64_t used)
{
	const uint64_t room = bucket_left(r, used);
	int64_t within; /* what drains in max_delay_us: below the capacity */
	uint64_t turns;

	if (r->max_delay_us >= bucket_full_us(r))
		return room;
	within = r->max_delay_us * (int64_t)r->count;
	if (used > within)
		return 0;
	turns = (uint64_t)((within - used) / r->window_us) + 1;
	return turns < room ? turns : room;
}

static struct rate_view queue_look(
	const struct rate_state *s, const struct rate *r, uint64_t cost, int64_t at_us)
{
	const struct weighing w = weigh(s, r, cost, at_us);
	const int64_t turn_us = (int64_t)div_up((uint64_t)w.used, r->count);
	const int64_t late_us = turn_us - r->max_delay_us;
	struct rate_view v = { .admitted = w.fits && (late_us <= 0 || cost == 0),
		.wait_us = w.wait_us };
	int64_t after = w.used;

	if (v.admitted) {
		v.hold_us = turn_us;
		after += w.units;
	} else if (w.fits_ever && late_us > v.wait_us) {
		v.wait_us = late_us;
	}
	v.remaining = queue_left(r, after);
	v.reset_us = (int64_t)div_up((uint64_t)after, r->count);
	return v;
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

const struct rate_kind rate_token_bucket = {
	.settle = bucket_settle,
	.look = bucket_look,
	.charge = bucket_charge,
	.ends = bucket_ends,
};

const struct rate_kind rate_leaky_bucket = {
	.settle = bucket_settle,
	.look = queue_look,
	.charge = bucket_charge,
	.ends = bucket_ends,
};
