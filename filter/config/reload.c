#include "config/reload.h"

#include "config/kinds.h"
#include "config/options.h"

static bool same_text(const void *a, const void *b)
{
	const char *left = *(char *const *)a, *right = *(char *const *)b;

	return left && right ? strcmp(left, right) == 0 : left == right;
}

static bool same_addresses(const struct option *o, const char *a, const char *b)
{
	const struct net_addr *left = *(struct net_addr *const *)(a + o->at);
	const struct net_addr *right = *(struct net_addr *const *)(b + o->at);
	size_t n = *(const size_t *)(a + o->n_at);

	if (n != *(const size_t *)(b + o->n_at))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!kind_same_addr(&left[i], &right[i]))
			return false;
	return true;
}

static bool same_redis(const struct config *a, const struct config *b)
{
	return kind_same_addr(&a->store.addr, &b->store.addr) &&
		same_text(&a->store.host, &b->store.host) &&
		a->store.port == b->store.port &&
		same_text(&a->store.username, &b->store.username) &&
		same_text(&a->store.password, &b->store.password) &&
		a->store.db == b->store.db;
}

/* Whether a row's field holds the same in both. */
static bool same(const struct option *o, const struct config *a, const struct config *b)
{
	const char *left = (const char *)a, *right = (const char *)b;

	if (o->kind == &kind_addresses)
		return same_addresses(o, left, right);
	if (o->kind == &kind_redis)
		return same_redis(a, b);
	if (o->kind == &kind_enum || o->kind == &kind_mode)
		return memcmp(left + o->at, right + o->at, sizeof(unsigned)) == 0;
	if (o->kind == &kind_rate)
		return memcmp(left + o->at, right + o->at, sizeof(struct rate)) == 0;
	if (o->kind == &kind_number || o->kind == &kind_workers || o->kind == &kind_size ||
		o->kind == &kind_ms)
		return memcmp(left + o->at, right + o->at, sizeof(uint64_t)) == 0;
	return same_text(left + o->at, right + o->at);
}

void config_restart_needed(const struct config *a, const struct config *b, struct buf *out)
{
	for (size_t i = 0; i < options_n; i++) {
		const struct option *o = &options[i];

		if (o->in != IN_CONFIG || (o->flags & OPT_RELOAD) || same(o, a, b))
			continue;
		buf_addf(out, "%s%s.%s", out->n ? ", " : "", o->section, o->name);
	}
}
