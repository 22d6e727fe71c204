/*
 * store/denied.c - see denied.h.
 *
 * A table of refusals in shards with a lock each, in the order they were noted. A
 * process that refuses nobody pays one look at a counter.
 */
#include "store/denied.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/table.h"
#include "store/store.h"

/* What an entry is found by: the limit, in so many numbers, and the store key. Longer
 * ones are not remembered; keys are limited in what they are made of, so there are none. */
#define LIMIT_NUMBERS 5
#define NAME_MAX_N    2048

struct name {
	size_t n;
	uint64_t hash;
	char bytes[NAME_MAX_N];
};

struct entry {
	struct table_node node;      /* key behind the struct */
	struct entry *newer, *older; /* in the order of noting */
	uint64_t cost;               /* this and more is refused */
	uint64_t remaining;
	int64_t until_us;  /* no question till then */
	int64_t probed_us; /* nor till then: one is on its way */
	int64_t admits_us; /* no refusal from then on */
	int64_t reset_us;
	char bytes[];
};

struct shard {
	/* Guards everything below. Aligned: no two locks in one cache line. */
	_Alignas(64) pthread_mutex_t lock;
	struct table table;
	struct entry *newest, *oldest;
};

struct denied {
	struct shard shards[DENIED_SHARDS];
	atomic_size_t used; /* in all shards */
	atomic_uint_fast64_t epoch;
};

/* False when it is too long. */
static bool name_of(struct name *name, const struct take_tier *t)
{
	const struct rate *r = t->rate;
	const uint64_t limit[LIMIT_NUMBERS] = { r->algorithm, r->count,
		(uint64_t)r->window_us, r->burst, (uint64_t)r->max_delay_us };

	if (t->key.n > sizeof(name->bytes) - sizeof(limit))
		return false;
	memcpy(name->bytes, limit, sizeof(limit));
	if (t->key.n)
		memcpy(name->bytes + sizeof(limit), t->key.p, t->key.n);
	name->n = sizeof(limit) + t->key.n;
	name->hash = table_hash(view_of(name->bytes, name->n));
	return true;
}

/* The table's chains go by the low bits of the hash. */
static struct shard *shard_of(struct denied *d, const struct name *name)
{
	return &d->shards[(name->hash >> 32) % DENIED_SHARDS];
}

static struct entry *find(const struct shard *s, const struct name *name)
{
	struct table_node *node = table_find(
		&s->table, view_of(name->bytes, name->n), name->hash);

	return node ? CONTAINER_OF(node, struct entry, node) : NULL;
}

static void unlink_entry(struct shard *s, struct entry *e)
{
	*(e->newer ? &e->newer->older : &s->newest) = e->older;
	*(e->older ? &e->older->newer : &s->oldest) = e->newer;
}

static void link_newest(struct shard *s, struct entry *e)
{
	e->newer = NULL;
	e->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = e;
	s->newest = e;
}

static void drop(struct denied *d, struct shard *s, struct entry *e)
{
	table_remove(&s->table, &e->node);
	unlink_entry(s, e);
	free(e);
	atomic_fetch_sub_explicit(&d->used, 1, memory_order_relaxed);
}

static struct entry *add(struct denied *d, struct shard *s, const struct name *name)
{
	struct entry *e;

	if (s->table.used >= DENIED_SHARD_LIMIT)
		drop(d, s, s->oldest);
	e = calloc(1, sizeof(*e) + name->n);
	if (!e)
		return NULL;
	memcpy(e->bytes, name->bytes, name->n);
	e->node.key = view_of(e->bytes, name->n);
	e->node.hash = name->hash;
	if (!table_insert(&s->table, &e->node)) {
		free(e);
		return NULL;
	}
	link_newest(s, e);
	atomic_fetch_add_explicit(&d->used, 1, memory_order_relaxed);
	return e;
}

/* Its time has passed, or nobody has asked for long, in which case it only saves the one
 * question by which it would be renewed. */
static bool is_idle(const struct entry *e, int64_t now_us)
{
	return e->admits_us <= now_us || e->until_us <= now_us - 10 * DENIED_US;
}

/* Two a note, so the table shrinks faster than it grows. */
static void drop_idle(struct denied *d, struct shard *s, int64_t now_us)
{
	for (int i = 0; i < 2 && s->oldest && is_idle(s->oldest, now_us); i++)
		drop(d, s, s->oldest);
}

static enum denied_says look(struct denied *d, const struct take_tier *t, int64_t now_us,
	bool probe, struct rate_view *view)
{
	enum denied_says says = DENIED_UNKNOWN;
	struct name name;
	struct shard *s;
	struct entry *e;

	if (atomic_load_explicit(&d->used, memory_order_relaxed) == 0 || !name_of(&name, t))
		return DENIED_UNKNOWN;
	s = shard_of(d, &name);
	pthread_mutex_lock(&s->lock);
	e = find(s, &name);
	if (!e || t->cost < e->cost || now_us >= e->admits_us) {
		says = DENIED_UNKNOWN;
	} else if (now_us >= e->until_us && now_us >= e->probed_us) {
		says = DENIED_PROBE;
		if (probe)
			e->probed_us = now_us + DENIED_PROBE_US;
	} else {
		says = DENIED_REFUSES;
		*view = (struct rate_view){ .remaining = e->remaining,
			.wait_us = e->admits_us - now_us,
			.reset_us = e->reset_us - now_us };
	}
	pthread_mutex_unlock(&s->lock);
	return says;
}

enum denied_says denied_look(
	struct denied *d, const struct take_tier *t, int64_t now_us, struct rate_view *view)
{
	return look(d, t, now_us, false, view);
}

enum denied_says denied_probe(
	struct denied *d, const struct take_tier *t, int64_t now_us, struct rate_view *view)
{
	return look(d, t, now_us, true, view);
}

void denied_note(struct denied *d, const struct take_tier *t, const struct rate_view *view,
	int64_t asked_us, uint64_t epoch)
{
	struct name name;
	struct shard *s;
	struct entry *e;

	if (!name_of(&name, t))
		return;
	s = shard_of(d, &name);
	pthread_mutex_lock(&s->lock);
	/* Under the lock, which denied_clear() takes after it has begun the next one. */
	if (epoch != denied_epoch(d))
		goto out;
	drop_idle(d, s, asked_us);
	e = find(s, &name);
	/* What refuses a smaller cost says more. */
	if (e && e->cost < t->cost && e->admits_us > asked_us)
		goto out;
	if (e) {
		unlink_entry(s, e);
		link_newest(s, e);
	} else {
		e = add(d, s, &name);
	}
	if (!e)
		goto out;
	e->cost = t->cost;
	e->remaining = view->remaining;
	e->admits_us = asked_us + view->wait_us;
	e->reset_us = asked_us +
		(view->reset_us > view->wait_us ? view->reset_us : view->wait_us);
	e->until_us = asked_us + (view->wait_us < DENIED_US ? view->wait_us : DENIED_US);
	e->probed_us = e->until_us;
out:
	pthread_mutex_unlock(&s->lock);
}

void denied_drop(struct denied *d, const struct take_tier *t)
{
	struct name name;
	struct shard *s;
	struct entry *e;

	if (!name_of(&name, t))
		return;
	s = shard_of(d, &name);
	pthread_mutex_lock(&s->lock);
	e = find(s, &name);
	if (e)
		drop(d, s, e);
	pthread_mutex_unlock(&s->lock);
}

struct denied *denied_new(void)
{
	struct denied *d = aligned_alloc(_Alignof(struct denied), sizeof(*d));

	if (!d)
		return NULL;
	memset(d, 0, sizeof(*d));
	for (size_t i = 0; i < DENIED_SHARDS; i++)
		pthread_mutex_init(&d->shards[i].lock, NULL);
	return d;
}

void denied_clear(struct denied *d)
{
	atomic_fetch_add(&d->epoch, 1);
	for (size_t i = 0; i < DENIED_SHARDS; i++) {
		struct shard *s = &d->shards[i];

		pthread_mutex_lock(&s->lock);
		while (s->oldest)
			drop(d, s, s->oldest);
		pthread_mutex_unlock(&s->lock);
	}
}

uint64_t denied_epoch(const struct denied *d)
{
	return atomic_load(&d->epoch);
}

void denied_free(struct denied *d)
{
	if (!d)
		return;
	denied_clear(d);
	for (size_t i = 0; i < DENIED_SHARDS; i++) {
		table_release(&d->shards[i].table);
		pthread_mutex_destroy(&d->shards[i].lock);
	}
	free(d);
}

size_t denied_count(const struct denied *d)
{
	return atomic_load_explicit(&d->used, memory_order_relaxed);
}
