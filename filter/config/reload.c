#include "config/reload.h"

#include "config/kinds.h"
#include "config/options.h"

/* -- what needs a restart ---------------------------------------------------------- */

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
	if (a->store.n_servers != b->store.n_servers)
		return false;
	for (size_t i = 0; i < a->store.n_servers; i++)
		if (!kind_same_server(&a->store.servers[i], &b->store.servers[i]))
			return false;
	return true;
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
	if (o->kind == &kind_number || o->kind == &kind_auto || o->kind == &kind_size ||
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

/* -- whether it may be taken at all ------------------------------------------------ */

static enum file_look look_of(const struct config *c, const char *file)
{
	for (size_t i = 0; i < c->n_files; i++)
		if (strcmp(c->files[i], file) == 0)
			return c->looks[i];
	return FILE_BLANK;
}

static const struct endpoint *endpoint_in(const struct config *c, const char *file)
{
	for (size_t i = 0; i < c->n_endpoints; i++)
		if (strcmp(c->endpoints[i].file, file) == 0)
			return &c->endpoints[i];
	return NULL;
}

static void check_file(
	const struct config *now, const char *file, enum file_look look, struct buf *why)
{
	const struct endpoint *e = endpoint_in(now, file);

	if (look == FILE_BLANK && e)
		buf_addf(why,
			"%s: there is nothing in it, and [endpoint %s] was; write it "
			"whole, "
			"or take the file away\n",
			file, e->name);
	else if (look == FILE_BLANK && look_of(now, file) != FILE_BLANK)
		buf_addf(why,
			"%s: there is nothing in it any more; write it whole, or restart "
			"weir if that is meant\n",
			file);
	else if (look == FILE_CUT && look_of(now, file) == FILE_WHOLE)
		buf_addf(why,
			"%s: the last line has no end, as if the file were half written; "
			"end it with a newline\n",
			file);
}

static size_t count_tiers(const struct config *c)
{
	size_t n = c->site.n;

	for (size_t i = 0; i < c->n_endpoints; i++)
		n += c->endpoints[i].tiers.n;
	return n;
}

bool config_may_replace(
	const struct config *now, const struct config *fresh, struct buf *why)
{
	size_t before = why->n, tiers = count_tiers(now);

	for (size_t i = 0; i < fresh->n_files; i++)
		check_file(now, fresh->files[i], fresh->looks[i], why);
	if (now->n_endpoints && !fresh->n_endpoints)
		buf_addf(why,
			"%s: no endpoint is left, and there were %zu; put back the files "
			"that server.endpoints names, or restart weir if that is meant\n",
			fresh->file, now->n_endpoints);
	else if (tiers && !count_tiers(fresh))
		buf_addf(why,
			"%s: no @RateLimit is left, and there were %zu; put them back, or "
			"restart weir if that is meant\n",
			fresh->file, tiers);
	return why->n == before && !why->failed;
}

/* -- what is no longer limited ----------------------------------------------------- */

#define GONE_SHOWN 20

static bool has_tier(const struct tiers *tiers, const char *label)
{
	for (size_t i = 0; tiers && i < tiers->n; i++)
		if (strcmp(tiers->list[i].label, label) == 0)
			return true;
	return false;
}

static const struct tiers *tiers_of(const struct config *c, const char *endpoint)
{
	for (size_t i = 0; i < c->n_endpoints; i++)
		if (strcmp(c->endpoints[i].name, endpoint) == 0)
			return &c->endpoints[i].tiers;
	return NULL;
}

/* endpoint is NULL for those of the site, whose labels say so. */
static void put_gone(const char *endpoint, const struct tiers *now,
	const struct tiers *fresh, size_t *n, struct buf *out)
{
	for (size_t i = 0; i < now->n; i++) {
		const char *label = now->list[i].label;

		if (has_tier(fresh, label) || ++*n > GONE_SHOWN)
			continue;
		buf_addf(out, "%s%s%s%s", *n > 1 ? ", " : "", endpoint ? endpoint : "",
			endpoint ? " " : "", label);
	}
}

void config_limits_gone(
	const struct config *now, const struct config *fresh, struct buf *out)
{
	size_t n = 0;

	put_gone(NULL, &now->site, &fresh->site, &n, out);
	for (size_t i = 0; i < now->n_endpoints; i++)
		put_gone(now->endpoints[i].name, &now->endpoints[i].tiers,
			tiers_of(fresh, now->endpoints[i].name), &n, out);
	if (n > GONE_SHOWN)
		buf_addf(out, " and %zu more", n - GONE_SHOWN);
}
