/*
 * store/denied.c - see denied.h.
 *
 * A table of refusals in shards with a lock each, in the order they were noted. A
 * process that refuses nobody pays one look at a counter.
 */
#include "store/denied.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/table.h"
#include "store/store.h"

/* What an entry is found by: the SHA-256 of the store key, however long that is, of the
 * limit and of the cost. */
struct name {
	uint64_t hash; /* the table's, of the bytes below */
	unsigned char bytes[crypto_hash_sha256_BYTES];
};

struct entry {
	struct table_node node;      /* its key are the name's bytes */
	struct entry *newer, *older; /* in the order of noting */
	struct name name;
	uint64_t remaining;
	int64_t until_us;  /* no question till then */
	int64_t probed_us; /* nor till then: one is on its way */
	int64_t admits_us; /* no refusal from then on */
	/* As people are told. Not before the moments that Redis means, as a wait that is
	 * too short by what an answer takes would be refused once more. */
	int64_t told_wait_us, told_reset_us;
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

static struct view bytes_of(const struct name *name)
{
	return view_of((const char *)name->bytes, sizeof(name->bytes));
}

static struct name name_of(const struct take_tier *t)
{
	const struct rate *r = t->rate;
	const uint64_t limit[] = { r->algorithm, r->count, (uint64_t)r->window_us, r->burst,
		(uint64_t)r->max_delay_us, t->cost };
	crypto_hash_sha256_state sha;
	struct name name;

	crypto_hash_sha256_init(&sha);
	crypto_hash_sha256_update(&sha, (const unsigned char *)limit, sizeof(limit));
	if (t->key.n)
		crypto_hash_sha256_update(&sha, (const unsigned char *)t->key.p, t->key.n);
	crypto_hash_sha256_final(&sha, name.bytes);
	name.hash = table_hash(bytes_of(&name));
	return name;
}

/* The table's chains go by the low bits of the hash. */
static struct shard *shard_of(struct denied *d, const struct name *name)
{
	return &d->shards[(name->hash >> 32) % DENIED_SHARDS];
}

static struct entry *find(const struct shard *s, const struct name *name)
{
	struct table_node *node = table_find(&s->table, bytes_of(name), name->hash);

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

	if (s->table.used >= DENIED_SHARD_LIMIT) {
		drop(d, s, s->oldest);
		count_one(COUNT_denied_evictions);
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->name = *name;
	e->node.key = bytes_of(&e->name);
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

	if (atomic_load_explicit(&d->used, memory_order_relaxed) == 0)
		return DENIED_UNKNOWN;
	name = name_of(t);
	s = shard_of(d, &name);
	pthread_mutex_lock(&s->lock);
	e = find(s, &name);
	if (!e || now_us >= e->admits_us)
		goto out;
	says = DENIED_REFUSES;
	*view = (struct rate_view){ .remaining = e->remaining,
		.wait_us = e->told_wait_us - now_us,
		.reset_us = e->told_reset_us - now_us };
	if (now_us >= e->until_us && now_us >= e->probed_us) {
		says = DENIED_PROBE;
		if (probe)
			e->probed_us = now_us + DENIED_PROBE_US;
	}
out:
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
	int64_t asked_us, int64_t now_us, uint64_t epoch)
{
	const struct name name = name_of(t);
	struct shard *s = shard_of(d, &name);
	struct entry *e;

	pthread_mutex_lock(&s->lock);
	/* Under the lock, which denied_clear() takes after it has begun the next one. */
	if (epoch != denied_epoch(d))
		goto out;
	drop_idle(d, s, asked_us);
	e = find(s, &name);
	if (e) {
		unlink_entry(s, e);
		link_newest(s, e);
	} else {
		e = add(d, s, &name);
	}
	if (!e)
		goto out;
	e->remaining = view->remaining;
	e->admits_us = asked_us + view->wait_us;
	e->told_wait_us = now_us + view->wait_us;
	e->told_reset_us = now_us +
		(view->reset_us > view->wait_us ? view->reset_us : view->wait_us);
	e->until_us = asked_us + (view->wait_us < DENIED_US ? view->wait_us : DENIED_US);
	e->probed_us = e->until_us;
out:
	pthread_mutex_unlock(&s->lock);
}

void denied_drop(struct denied *d, const struct take_tier *t)
{
	const struct name name = name_of(t);
	struct shard *s = shard_of(d, &name);
	struct entry *e;

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
