/*
 * store/memory.c - limits counted in this process.
 *
 * An entry is made when its key is first charged, so refusals fill nothing. Each shard
 * keeps its entries three ways: by key, by the moment they equal never seen (a heap), and
 * by when they were last asked for (a list). The shards share the bytes evenly, so one
 * that is full may evict while others have room; a small table has fewer shards, since a
 * key's whole state must fit in one.
 *
 * A decision always finds room for its own tiers, wherever their keys fall: at worst a shard
 * holds nothing but what the tiers of one decision need (TIERS_MAX entries), though that
 * may be more than its part. Else a request would pass uncounted, or not at all, because of
 * where the hash put its keys. The next decision to make room there drops what is above.
 */
#include "store/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/table.h"
#include "config/config.h"
#include "store/store.h"

struct entry {
	struct table_node node;      /* key behind the struct */
	struct entry *newer, *older; /* in the order of use */
	size_t heap_at;
	int64_t ends_us; /* equals never seen from then on */
	size_t bytes;
	enum rate_algorithm algorithm;
	struct rate_state state;
	char key[];
};

struct shard {
	/* Guards everything below. Aligned: no two locks in one cache line. */
	_Alignas(64) pthread_mutex_t lock;
	struct table table;
	struct entry **heap; /* soonest to end first */
	size_t heap_n, heap_cap;
	struct entry *newest, *oldest; /* by use */
	size_t bytes;                  /* of all entries */
};

struct memory {
	size_t n_shards;             /* a power of two */
	size_t shard_bytes;          /* most for each */
	atomic_uint_fast64_t untold; /* evictions that the log has not heard of */
	struct shard shards[MEMORY_SHARDS_MAX];
};

/* What malloc, the heap and the table's slots take for an entry, roughly. */
#define OVERHEAD 48

static size_t entry_bytes(size_t key_n)
{
	return sizeof(struct entry) + key_n + OVERHEAD;
}

/* The heap. */

static void heap_put(struct shard *s, size_t i, struct entry *e)
{
	s->heap[i] = e;
	e->heap_at = i;
}

/* Moves e from the free place i to where it belongs. */
static void heap_sift(struct shard *s, size_t i, struct entry *e)
{
	for (; i > 0 && s->heap[(i - 1) / 2]->ends_us > e->ends_us; i = (i - 1) / 2)
		heap_put(s, i, s->heap[(i - 1) / 2]);
	for (;;) {
		size_t child = 2 * i + 1;

		if (child + 1 < s->heap_n &&
			s->heap[child + 1]->ends_us < s->heap[child]->ends_us)
			child++;
		if (child >= s->heap_n || s->heap[child]->ends_us >= e->ends_us)
			break;
		heap_put(s, i, s->heap[child]);
		i = child;
	}
	heap_put(s, i, e);
}

static bool heap_add(struct shard *s, struct entry *e)
{
	if (s->heap_n == s->heap_cap) {
		size_t cap = s->heap_cap ? s->heap_cap * 2 : 16;
		struct entry **heap = realloc(s->heap, cap * sizeof(*heap));

		if (!heap)
			return false;
		s->heap = heap;
		s->heap_cap = cap;
	}
	s->heap_n++;
	heap_sift(s, s->heap_n - 1, e);
	return true;
}

static void heap_remove(struct shard *s, struct entry *e)
{
	struct entry *last = s->heap[--s->heap_n];

	if (last != e)
		heap_sift(s, e->heap_at, last);
}

static void set_end(struct shard *s, struct entry *e, int64_t ends_us)
{
	if (e->ends_us == ends_us)
		return;
	e->ends_us = ends_us;
	heap_sift(s, e->heap_at, e);
}

/* The order of use. */

static void use_unlink(struct shard *s, struct entry *e)
{
	*(e->newer ? &e->newer->older : &s->newest) = e->older;
	*(e->older ? &e->older->newer : &s->oldest) = e->newer;
}

static void use_now(struct shard *s, struct entry *e)
{
	e->newer = NULL;
	e->older = s->newest;
	*(s->newest ? &s->newest->newer : &s->oldest) = e;
	s->newest = e;
}

/* Entries. */

static void entry_drop(struct shard *s, struct entry *e)
{
	table_remove(&s->table, &e->node);
	heap_remove(s, e);
	use_unlink(s, e);
	s->bytes -= e->bytes;
	rate_state_release(&e->state, e->algorithm);
	free(e);
}

static struct entry *entry_add(
	struct shard *s, struct view key, uint64_t hash, enum rate_algorithm algorithm)
{
	struct entry *e = malloc(sizeof(*e) + key.n);

	if (!e)
		return NULL;
	*e = (struct entry){
		.ends_us = INT64_MAX,
		.bytes = entry_bytes(key.n),
		.algorithm = algorithm,
	};
	if (key.n)
		memcpy(e->key, key.p, key.n);
	e->node.key = view_of(e->key, key.n);
	e->node.hash = hash;
	if (!table_insert(&s->table, &e->node))
		goto out;
	if (!heap_add(s, e)) {
		table_remove(&s->table, &e->node);
		goto out;
	}
	use_now(s, e);
	s->bytes += e->bytes;
	return e;
out:
	free(e);
	return NULL;
}

/* A decision under way. */
struct look {
	struct shard *shard;
	struct entry *entry;     /* NULL: never seen, fresh is looked at in its place */
	struct rate_state fresh; /* stays empty */
	uint64_t hash;
	bool made; /* the entry was made by this decision */
};

struct taking {
	struct memory *memory;
	const struct take_tier *tiers;
	size_t n;
	int64_t now_us;
	uint64_t locked; /* a bit per shard */
	struct look looks[TIERS_MAX];
	struct rate_view views[TIERS_MAX];
};

static bool in_use(const struct taking *t, const struct entry *e)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->looks[i].entry == e)
			return true;
	}
	return false;
}

/* Makes room for more bytes in s, but not at the cost of what the decision uses: when only
 * that is left, the shard may hold more than its part until the next one makes room. */
static void make_room(struct taking *t, struct shard *s, size_t more)
{
	const size_t most = t->memory->shard_bytes;
	const size_t keep = more < most ? most - more : 0;

	if (s->bytes <= keep)
		return;
	/* What is in use goes to the heap's end until let_go(). */
	for (size_t i = 0; i < t->n; i++) {
		if (t->looks[i].shard == s && t->looks[i].entry)
			set_end(s, t->looks[i].entry, INT64_MAX);
	}
	while (s->bytes > keep) {
		struct entry *e = s->heap_n ? s->heap[0] : NULL;

		if (!e || e->ends_us > t->now_us) {
			/* What is in use was asked for last, so it stands behind all others. */
			e = s->oldest;
			if (!e || in_use(t, e))
				return;
			count_one(COUNT_store_evictions);
			atomic_fetch_add(&t->memory->untold, 1);
		}
		entry_drop(s, e);
	}
}

/* Finds the shards. False when two tiers have one key. */
static bool prepare(struct taking *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct look *l = &t->looks[i];
		size_t shard;

		l->hash = table_hash(t->tiers[i].key);
		/* The table's chains go by the low bits. */
		shard = (size_t)(l->hash >> 32) & (t->memory->n_shards - 1);
		l->shard = &t->memory->shards[shard];
		t->locked |= UINT64_C(1) << shard;
		for (size_t j = 0; j < i; j++) {
			if (t->looks[j].hash == l->hash)
				return false;
		}
	}
	return true;
}

static void lock_all(struct taking *t)
{
	for (size_t i = 0; i < t->memory->n_shards; i++) {
		if (t->locked >> i & 1)
			pthread_mutex_lock(&t->memory->shards[i].lock);
	}
}

static void unlock_all(struct taking *t)
{
	for (size_t i = 0; i < t->memory->n_shards; i++) {
		if (t->locked >> i & 1)
			pthread_mutex_unlock(&t->memory->shards[i].lock);
	}
}

/* Finds the entries, which are from now on in use. */
static bool hold(struct taking *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct look *l = &t->looks[i];
		struct table_node *node = table_find(
			&l->shard->table, t->tiers[i].key, l->hash);
		struct entry *e;

		if (!node)
			continue;
		e = CONTAINER_OF(node, struct entry, node);
		if (e->algorithm != t->tiers[i].rate->algorithm) {
			if (e->ends_us > t->now_us)
				return false;
			entry_drop(l->shard, e);
			continue;
		}
		use_unlink(l->shard, e);
		use_now(l->shard, e);
		l->entry = e;
	}
	return true;
}

/* Puts what was in use back where its state now belongs. */
static void let_go(struct taking *t, bool counted)
{
	for (size_t i = 0; i < t->n; i++) {
		struct look *l = &t->looks[i];

		if (l->entry && l->made && !counted)
			entry_drop(l->shard, l->entry);
		else if (l->entry)
			set_end(l->shard, l->entry,
				rate_ends_us(&l->entry->state, t->tiers[i].rate));
	}
}

static struct rate_view look(struct taking *t, size_t i, uint64_t cost)
{
	struct look *l = &t->looks[i];

	return rate_look(
		l->entry ? &l->entry->state : &l->fresh, t->tiers[i].rate, cost, t->now_us);
}

/* Makes sure that charging tier i cannot fail. A state that is larger than a shard's whole
 * part is refused: the configuration is checked for it (config/checks.c). */
static bool reserve(struct taking *t, size_t i)
{
	const struct take_tier *tier = &t->tiers[i];
	struct look *l = &t->looks[i];
	size_t had, needs;

	if (!l->entry) {
		make_room(t, l->shard, entry_bytes(tier->key.n));
		l->entry = entry_add(l->shard, tier->key, l->hash, tier->rate->algorithm);
		if (!l->entry)
			return false;
		l->made = true;
	}
	had = rate_state_bytes(&l->entry->state, tier->rate->algorithm);
	needs = rate_reserve_bytes(&l->entry->state, tier->rate, tier->cost, t->now_us);
	if (needs > had) {
		if (needs > t->memory->shard_bytes)
			return false;
		make_room(t, l->shard, needs - had);
	}
	if (!rate_reserve(&l->entry->state, tier->rate, tier->cost, t->now_us))
		return false;
	needs = rate_state_bytes(&l->entry->state, tier->rate->algorithm);
	l->entry->bytes += needs - had; /* may wrap round to less */
	l->shard->bytes += needs - had;
	return true;
}

static bool charge_all(struct taking *t)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->views[i].admitted && !reserve(t, i))
			return false;
	}
	for (size_t i = 0; i < t->n; i++) {
		const struct take_tier *tier = &t->tiers[i];
		bool charged = true;

		if (t->views[i].admitted)
			charged = rate_charge(&t->looks[i].entry->state, tier->rate,
				tier->cost, t->now_us);
		assert(charged);
		(void)charged;
	}
	return true;
}

/* What is left where a tier admitted but nobody was charged. */
static void look_again(struct taking *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct rate_view now = look(t, i, 0);

		t->views[i].remaining = now.remaining;
		t->views[i].reset_us = now.reset_us;
	}
}

bool memory_take(struct memory *m, const struct take_tier *tiers, size_t n, int64_t now_us,
	bool *admitted, struct rate_view *views)
{
	struct taking t = { .memory = m, .tiers = tiers, .n = n, .now_us = now_us };
	bool counted = false, pass = true;

	assert(n <= TIERS_MAX);
	if (!prepare(&t))
		return false;
	lock_all(&t);
	if (!hold(&t))
		goto out;
	for (size_t i = 0; i < n; i++) {
		t.views[i] = look(&t, i, tiers[i].cost);
		if (!t.views[i].admitted && !tiers[i].shadow)
			pass = false;
	}
	if (!pass)
		look_again(&t);
	else if (!charge_all(&t))
		goto out;
	counted = true;
out:
	let_go(&t, counted);
	unlock_all(&t);
	if (!counted)
		return false;
	*admitted = pass;
	memcpy(views, t.views, n * sizeof(*views));
	return true;
}

void memory_tell(struct memory *m)
{
	static struct log_gate gate;
	uint64_t n, missed;

	if (atomic_load_explicit(&m->untold, memory_order_relaxed) == 0 ||
		!log_gate_open(&gate, clock_mono_us(), &missed))
		return;
	n = atomic_exchange(&m->untold, 0);
	log_warn("memory table is full: dropped a count before its time",
		LOG_INT("suppressed", n ? n - 1 : 0));
}

struct memory *memory_new(size_t bytes)
{
	struct memory *m = aligned_alloc(_Alignof(struct memory), sizeof(*m));

	if (!m)
		return NULL;
	memset(m, 0, sizeof(*m));
	m->n_shards = config_memory_shards(bytes);
	m->shard_bytes = bytes / m->n_shards;
	for (size_t i = 0; i < m->n_shards; i++)
		pthread_mutex_init(&m->shards[i].lock, NULL);
	return m;
}

void memory_clear(struct memory *m)
{
	for (size_t i = 0; i < m->n_shards; i++) {
		struct shard *s = &m->shards[i];

		pthread_mutex_lock(&s->lock);
		while (s->heap_n)
			entry_drop(s, s->heap[s->heap_n - 1]);
		pthread_mutex_unlock(&s->lock);
	}
}

void memory_free(struct memory *m)
{
	if (!m)
		return;
	memory_clear(m);
	for (size_t i = 0; i < m->n_shards; i++) {
		table_release(&m->shards[i].table);
		free(m->shards[i].heap);
		pthread_mutex_destroy(&m->shards[i].lock);
	}
	free(m);
}

size_t memory_count(struct memory *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_shards; i++) {
		pthread_mutex_lock(&m->shards[i].lock);
		n += m->shards[i].heap_n;
		pthread_mutex_unlock(&m->shards[i].lock);
	}
	return n;
}

size_t memory_bytes(struct memory *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_shards; i++) {
		pthread_mutex_lock(&m->shards[i].lock);
		n += m->shards[i].bytes;
		pthread_mutex_unlock(&m->shards[i].lock);
	}
	return n;
}
