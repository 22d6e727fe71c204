#include "store/store.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "store/memory.h"
#include "store/redis.h"

/* The table is the memory store, or what counts in place of Redis; never both, as a
 * process has one type of store. */
struct store_shared {
	struct memory *table;
	pthread_mutex_t lock; /* guards total, and that it is charged with the tiers */
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
	if (!s->table) {
		free(s);
		return NULL;
	}
	s->total_rate = c->fallback.rate;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void store_shared_free(struct store_shared *s)
{
	if (!s)
		return;
	memory_free(s->table);
	rate_state_release(&s->total, s->total_rate.algorithm);
	pthread_mutex_destroy(&s->lock);
	free(s);
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

/* Asks the table, at now_us. A cost over the share counts as the whole share. */
static bool take_share(struct store *s, struct take *t, int64_t now_us)
{
	uint64_t instances = s->config->fallback.instances;
	struct take_tier tiers[TIERS_MAX];
	struct rate shares[TIERS_MAX];

	for (size_t i = 0; i < t->n_tiers; i++) {
		tiers[i] = t->tiers[i];
		shares[i] = share_of(t->tiers[i].rate, instances ? instances : 1);
		tiers[i].rate = &shares[i];
		if (tiers[i].cost > shares[i].burst)
			tiers[i].cost = shares[i].burst;
	}
	return memory_take(
		s->shared->table, tiers, t->n_tiers, now_us, &t->admitted, t->views);
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
		for (size_t i = 0; i < t->n_tiers; i++)
			t->views[i].admitted = true;
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
}

static void take_open(struct take *t)
{
	t->admitted = true;
	for (size_t i = 0; i < t->n_tiers; i++) {
		t->views[i].admitted = true;
		t->views[i].remaining = t->tiers[i].rate->burst;
	}
}

/* Redis does not say: the policy does. */
static void take_by_policy(struct store *s, struct take *t)
{
	t->by = DECIDED_BY_FALLBACK;
	switch (s->config->fallback.policy) {
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
	t->done(t);
}

/*
 * With Redis
 */

static void on_answered(void *owner, struct take *t, bool counted)
{
	if (!counted) {
		take_by_policy(owner, t);
		return;
	}
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
		s->redis = redis_new(loop, c, &redis_events, s);
		if (!s->redis) {
			on_closed(s);
			return NULL;
		}
	}
	return s;
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

/* The breaker that all workers share belongs between these two lines of thought: is
 * Redis to be asked at all, and if not, what does policy say. For now each worker
 * knows for itself, from its own connection. */
void store_take(struct store *s, struct take *t)
{
	t->by = DECIDED_BY_NONE;
	t->admitted = t->failed = t->closed = t->over_total = false;
	memset(t->views, 0, sizeof(t->views));
	memset(&t->total, 0, sizeof(t->total));
	t->link = NULL;
	if (!s->redis)
		take_memory(s, t);
	else if (!redis_take(s->redis, t))
		take_by_policy(s, t);
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
