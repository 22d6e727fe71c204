#include "store/store.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "store/denied.h"
#include "store/health.h"
#include "store/memory.h"
#include "store/redis.h"

/* The table is the memory store, or what counts in place of Redis; never both, as a
 * process has one type of store. */
struct store_shared {
	struct memory *table;
	struct denied *denied;
	struct health *health; /* of Redis */
	pthread_mutex_t lock;  /* guards total, and that it is charged with the tiers */
	struct rate_state total;
	struct rate total_rate; /* fixed */
};

struct store {
	struct config *config; /* a reference */
	struct store_shared *shared;
	struct redis *redis; /* NULL: the memory store */
};

struct store_shared *store_shared_new(const struct config *c)
{
	struct store_shared *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->table = memory_new(c->store.memory);
	s->denied = denied_new();
	s->health = health_new();
	s->total_rate = c->fallback.rate;
	pthread_mutex_init(&s->lock, NULL);
	if (!s->table || !s->denied || !s->health) {
		store_shared_free(s);
		return NULL;
	}
	return s;
}

void store_shared_free(struct store_shared *s)
{
	if (!s)
		return;
	memory_free(s->table);
	denied_free(s->denied);
	health_free(s->health);
	rate_state_release(&s->total, s->total_rate.algorithm);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void store_forget_denied(struct store_shared *s)
{
	denied_clear(s->denied);
}

/*
 * Without Redis
 */

/* This process's part of a limit that was meant for all of them. */
static struct rate share_of(const struct rate *rate, uint64_t instances)
{
	struct rate share = *rate;

	share.count = rate->count / instances;
	share.burst = rate->burst / instances;
	if (share.count < 1)
		share.count = 1;
	if (share.burst < 1)
		share.burst = 1;
	return share;
}

/* Nobody looked at it. */
static const struct rate_view unknown = { .admitted = true, .unknown = true };

/* Asks the table, at now_us, for the tiers that count locally. A cost over the share
 * counts as the whole share. */
static bool take_share(struct store *s, struct take *t, int64_t now_us)
{
	uint64_t instances = s->config->fallback.instances;
	struct take_tier tiers[TIERS_MAX];
	struct rate_view views[TIERS_MAX];
	struct rate shares[TIERS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < t->n_tiers; i++) {
		if (t->tiers[i].on_error != ON_ERROR_LOCAL)
			continue;
		tiers[n] = t->tiers[i];
		shares[n] = share_of(t->tiers[i].rate, instances ? instances : 1);
		tiers[n].rate = &shares[n];
		if (tiers[n].cost > shares[n].burst)
			tiers[n].cost = shares[n].burst;
		n++;
	}
	if (!memory_take(s->shared->table, tiers, n, now_us, &t->admitted, views))
		return false;
	n = 0;
	for (size_t i = 0; i < t->n_tiers; i++)
		t->views[i] = t->tiers[i].on_error == ON_ERROR_LOCAL ? views[n++] : unknown;
	return true;
}

/* The tiers and the total are charged together or not at all. */
static void take_local(struct store *s, struct take *t)
{
	struct store_shared *sh = s->shared;
	int64_t now_us;
	bool counted;

	pthread_mutex_lock(&sh->lock);
	now_us = clock_mono_us();
	t->total = rate_look(&sh->total, &sh->total_rate, 1, now_us);
	if (!t->total.admitted) {
		t->over_total = true;
		t->total_rate = &sh->total_rate;
		for (size_t i = 0; i < t->n_tiers; i++)
			t->views[i] = unknown;
		goto out;
	}
	counted = take_share(s, t, now_us);
	if (counted && t->admitted)
		counted = rate_charge(&sh->total, &sh->total_rate, 1, now_us);
	if (!counted) {
		t->failed = true;
		t->admitted = false;
	}
out:
	pthread_mutex_unlock(&sh->lock);
	memory_tell(sh->table);
}

static void take_open(struct take *t)
{
	t->admitted = true;
	for (size_t i = 0; i < t->n_tiers; i++)
		t->views[i] = unknown;
}

/* Of what the tiers say about a silent Redis, the strictest: closed, local, open. Those in
 * shadow have no say, unless there are no others. */
static enum on_error strictest(const struct take *t)
{
	static const unsigned strict[] = {
		[ON_ERROR_OPEN] = 0, [ON_ERROR_LOCAL] = 1, [ON_ERROR_CLOSED] = 2
	};
	enum on_error worst = ON_ERROR_OPEN;
	bool enforces = false;

	for (size_t i = 0; i < t->n_tiers; i++)
		enforces = enforces || !t->tiers[i].shadow;
	for (size_t i = 0; i < t->n_tiers; i++)
		if ((!enforces || !t->tiers[i].shadow) &&
			strict[t->tiers[i].on_error] > strict[worst])
			worst = t->tiers[i].on_error;
	return worst;
}

/* Redis does not say: the rules do. */
static void take_by_policy(struct store *s, struct take *t)
{
	t->by = DECIDED_BY_FALLBACK;
	switch (strictest(t)) {
	case ON_ERROR_LOCAL: take_local(s, t); break;
	case ON_ERROR_OPEN: take_open(t); break;
	case ON_ERROR_CLOSED: t->closed = true; break;
	}
	count_one(COUNT_decisions_fallback);
	t->done(t);
}

static void take_memory(struct store *s, struct take *t)
{
	t->by = DECIDED_BY_MEMORY;
	if (memory_take(s->shared->table, t->tiers, t->n_tiers, clock_mono_us(),
		    &t->admitted, t->views)) {
		count_one(COUNT_decisions_memory);
	} else {
		t->by = DECIDED_BY_FALLBACK;
		t->failed = true;
	}
	memory_tell(s->shared->table);
	t->done(t);
}

/*
 * With Redis
 */

/* Whether it has just refused one of the tiers: those that it has refused have then a view,
 * the others are unknown. If that was too long ago, one question is let through. */
static bool take_denied(struct store *s, struct take *t)
{
	struct denied *d = s->shared->denied;
	const int64_t now_us = t->asked_us;
	bool probe[TIERS_MAX] = { false }, refused = false;

	for (size_t i = 0; i < t->n_tiers; i++) {
		enum denied_says says = DENIED_UNKNOWN;

		t->views[i] = unknown;
		/* What is to be asked about again has a view as well: it counts when
		 * another tier refuses, so that the longest wait is told. */
		if (!t->tiers[i].shadow)
			says = denied_look(d, &t->tiers[i], now_us, &t->views[i]);
		refused = refused || says == DENIED_REFUSES;
		probe[i] = says == DENIED_PROBE;
	}
	for (size_t i = 0; i < t->n_tiers && !refused; i++) {
		if (!probe[i])
			continue;
		if (denied_probe(d, &t->tiers[i], now_us, &t->views[i]) == DENIED_REFUSES)
			refused = true;
		t->probes = true;
	}
	return refused;
}

/* What Redis has said is remembered as far as it refuses. */
static void note_denied(struct store *s, const struct take *t)
{
	const int64_t now_us = clock_mono_us();

	for (size_t i = 0; i < t->n_tiers; i++) {
		if (t->tiers[i].shadow)
			continue;
		if (!t->views[i].admitted)
			denied_note(s->shared->denied, &t->tiers[i], &t->views[i],
				t->asked_us, now_us, t->epoch);
		else if (t->probes)
			denied_drop(s->shared->denied, &t->tiers[i]);
	}
}

/* The others, refused meanwhile, must not wait for an answer that does not come: they
 * ask for themselves. */
static void give_up_probe(struct store *s, const struct take *t)
{
	for (size_t i = 0; i < t->n_tiers; i++)
		if (!t->tiers[i].shadow)
			denied_drop(s->shared->denied, &t->tiers[i]);
}

static void on_answered(void *owner, struct take *t, bool counted)
{
	struct store *s = owner;

	if (!counted) {
		if (t->probes)
			give_up_probe(s, t);
		take_by_policy(s, t);
		return;
	}
	if (!t->admitted || t->probes)
		note_denied(s, t);
	t->by = DECIDED_BY_REDIS;
	count_one(COUNT_decisions_redis);
	t->done(t);
}

static void on_closed(void *owner)
{
	struct store *s = owner;

	config_unref(s->config);
	free(s);
}

static const struct redis_events redis_events = {
	.answered = on_answered,
	.closed = on_closed,
};

struct store *store_new(uv_loop_t *loop, struct config *c, struct store_shared *shared)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->shared = shared;
	s->config = config_ref(c);
	if (c->store.type == STORE_REDIS) {
		s->redis = redis_new(loop, c, shared->health, &redis_events, s);
		if (!s->redis) {
			on_closed(s);
			return NULL;
		}
	}
	return s;
}

void store_reload(struct store *s, struct config *c)
{
	struct config *old = s->config;

	s->config = config_ref(c);
	if (s->redis)
		redis_reload(s->redis, c);
	config_unref(old);
}

bool store_is_memory(const struct store *s)
{
	return !s->redis;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	if (s->redis)
		redis_close(s->redis);
	else
		on_closed(s);
}

static void take_redis(struct store *s, struct take *t)
{
	/* What it said is no answer once it can no longer be asked. */
	if (!redis_asks(s->redis)) {
		take_by_policy(s, t);
		return;
	}
	t->asked_us = clock_mono_us();
	t->epoch = denied_epoch(s->shared->denied);
	if (take_denied(s, t)) {
		t->by = DECIDED_BY_REDIS;
		count_one(COUNT_decisions_denied);
		t->done(t);
		return;
	}
	memset(t->views, 0, sizeof(t->views));
	if (!redis_take(s->redis, t))
		on_answered(s, t, false);
}

void store_take(struct store *s, struct take *t)
{
	t->by = DECIDED_BY_NONE;
	t->admitted = t->failed = t->closed = t->over_total = t->probes = false;
	memset(t->views, 0, sizeof(t->views));
	memset(&t->total, 0, sizeof(t->total));
	t->total_rate = NULL;
	t->link = NULL;
	if (!s->redis)
		take_memory(s, t);
	else
		take_redis(s, t);
}

void store_cancel(struct take *t)
{
	if (!t->link)
		return;
	*t->link = NULL;
	t->link = NULL;
}

const char *store_state(const struct store *s)
{
	return s->redis ? redis_state(s->redis) : "memory";
}

bool store_up(const struct store *s)
{
	return !s->redis || redis_up(s->redis);
}
