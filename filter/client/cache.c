#include "client/cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/counters.h"
#include "base/table.h"

struct link {
	struct link *newer, *older;
};

/* Key, user and plan stand behind it, the latter two as C strings. */
struct line {
	struct table_node node;
	struct link link;
	int64_t until_us;
	int64_t expires_s;
	size_t user_n, plan_n; /* with their NULs; 0: nothing was found */
	bool admin;
	char bytes[];
};

/* A ring through its anchor: anchor.older is the newest, anchor.newer the oldest. */
struct share {
	struct link anchor;
	size_t used, most;
	int64_t ttl_us;
};

struct cache {
	pthread_mutex_t lock; /* guards everything below */
	struct table table;
	struct share hits, misses;
};

static void share_init(struct share *s, size_t most, int64_t ttl_us)
{
	s->anchor.newer = s->anchor.older = &s->anchor;
	s->most = most;
	s->ttl_us = ttl_us;
}

static void unlink_line(struct line *l)
{
	l->link.newer->older = l->link.older;
	l->link.older->newer = l->link.newer;
}

static void link_newest(struct share *s, struct line *l)
{
	l->link.newer = &s->anchor;
	l->link.older = s->anchor.older;
	l->link.older->newer = &l->link;
	s->anchor.older = &l->link;
}

static struct share *share_of(struct cache *c, const struct line *l)
{
	return l->user_n ? &c->hits : &c->misses;
}

static void drop(struct cache *c, struct line *l)
{
	share_of(c, l)->used--;
	unlink_line(l);
	table_remove(&c->table, &l->node);
	free(l);
}

static void drop_oldest(struct cache *c, struct share *s)
{
	drop(c, CONTAINER_OF(s->anchor.newer, struct line, link));
}

struct cache *cache_new(size_t entries, int64_t ttl_us, int64_t miss_ttl_us)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	share_init(&c->misses, entries / 4, miss_ttl_us);
	share_init(&c->hits, entries - c->misses.most, ttl_us);
	return c;
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	while (c->hits.used)
		drop_oldest(c, &c->hits);
	while (c->misses.used)
		drop_oldest(c, &c->misses);
	table_release(&c->table);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct line *find(struct cache *c, struct view key, uint64_t hash)
{
	struct table_node *node = table_find(&c->table, key, hash);

	return node ? CONTAINER_OF(node, struct line, node) : NULL;
}

static void read_line(const struct line *l, struct found *out)
{
	const char *user = l->bytes + l->node.key.n;

	memcpy(out->entry.user, user, l->user_n);
	memcpy(out->entry.plan, user + l->user_n, l->plan_n);
	out->entry.admin = l->admin;
	out->expires_s = l->expires_s;
}

bool cache_get(struct cache *c, struct view key, int64_t now_us,
	enum directory_result *result, struct found *out)
{
	uint64_t hash = table_hash(key);
	struct line *l;
	bool known;

	pthread_mutex_lock(&c->lock);
	l = find(c, key, hash);
	known = l && now_us < l->until_us;
	if (known) {
		unlink_line(l);
		link_newest(share_of(c, l), l);
		*result = l->user_n ? DIRECTORY_FOUND : DIRECTORY_UNKNOWN;
		if (l->user_n)
			read_line(l, out);
	}
	pthread_mutex_unlock(&c->lock);
	return known;
}

static struct line *make_line(struct view key, const struct found *found)
{
	size_t user_n = found ? strlen(found->entry.user) + 1 : 0;
	size_t plan_n = found ? strlen(found->entry.plan) + 1 : 0;
	struct line *l = malloc(sizeof(*l) + key.n + user_n + plan_n);

	if (!l)
		return NULL;
	*l = (struct line){ .user_n = user_n, .plan_n = plan_n };
	memcpy(l->bytes, key.p, key.n);
	l->node.key = view_of(l->bytes, key.n);
	l->node.hash = table_hash(key);
	if (found) {
		memcpy(l->bytes + key.n, found->entry.user, user_n);
		memcpy(l->bytes + key.n + user_n, found->entry.plan, plan_n);
		l->admin = found->entry.admin;
		l->expires_s = found->expires_s;
	}
	return l;
}

void cache_put(
	struct cache *c, struct view key, const struct found *found, int64_t asked_us)
{
	struct share *share = found ? &c->hits : &c->misses;
	bool keeps = share->most && share->ttl_us > 0;
	struct line *l = keeps ? make_line(key, found) : NULL, *old;

	pthread_mutex_lock(&c->lock);
	/* Also when nothing is kept: what was revoked must not come back by its age. */
	old = find(c, key, table_hash(key));
	if (old)
		drop(c, old);
	while (l && share->used >= share->most) {
		drop_oldest(c, share);
		count_one(COUNT_directory_evictions);
	}
	if (l) {
		l->until_us = asked_us + share->ttl_us;
		if (table_insert(&c->table, &l->node)) {
			link_newest(share, l);
			share->used++;
			l = NULL;
		}
	}
	pthread_mutex_unlock(&c->lock);
	free(l);
}

size_t cache_used(struct cache *c)
{
	size_t n;

	pthread_mutex_lock(&c->lock);
	n = c->table.used;
	pthread_mutex_unlock(&c->lock);
	return n;
}
