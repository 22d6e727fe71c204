/*
 * config/reload_limits.c - which limits are enforced, and which no longer are.
 *
 * A tier is looked at as each plan meets it, since an edit may let go of some clients
 * only. What counts is whether there is a limit, not how high it is.
 */
#include "config/kinds.h"
#include "config/reload_parts.h"

static bool is_enforced(const struct config *c, const struct rule *r)
{
	return r && c->server.mode == MODE_ENFORCE && r->mode == MODE_ENFORCE &&
		r->counting != COUNT_UNLIMITED;
}

bool tier_enforced(const struct config *c, const struct tier *t)
{
	for (size_t i = 0; i < t->n_rules; i++)
		if (is_enforced(c, &t->rules[i]))
			return true;
	return false;
}

size_t tiers_enforced(const struct config *c, const struct tiers *tiers)
{
	size_t n = 0;

	for (size_t i = 0; i < tiers->n; i++)
		n += tier_enforced(c, &tiers->list[i]);
	return n;
}

size_t limits_enforced(const struct config *c)
{
	size_t n = tiers_enforced(c, &c->site);

	for (size_t i = 0; i < c->n_endpoints; i++)
		n += tiers_enforced(c, &c->endpoints[i].tiers);
	return n;
}

const struct endpoint *endpoint_named(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_endpoints; i++)
		if (strcmp(c->endpoints[i].name, name) == 0)
			return &c->endpoints[i];
	return NULL;
}

static const struct tier *tier_labelled(const struct tiers *tiers, const char *label)
{
	for (size_t i = 0; tiers && i < tiers->n; i++)
		if (strcmp(tiers->list[i].label, label) == 0)
			return &tiers->list[i];
	return NULL;
}

/* ---- one tier ---- */

/* A tier before and after, and what has been found out about it. */
struct change {
	const struct config *now, *fresh;
	const struct tier *before, *after; /* after may be NULL */
	bool kept;                         /* somebody is limited as he was */
	size_t n_gone;                     /* plans that no longer are */
	const struct rule *instead;        /* what the first of them meets, or NULL */
	struct buf plans;                  /* their names */
};

static void look_at_plan(struct change *ch, const char *plan)
{
	const struct rule *instead = ch->after ? tier_rule(ch->after, plan) : NULL;

	if (!is_enforced(ch->now, tier_rule(ch->before, plan)))
		return;
	if (is_enforced(ch->fresh, instead)) {
		ch->kept = true;
		return;
	}
	if (ch->n_gone++ == 0)
		ch->instead = instead;
	buf_addf(&ch->plans, "%s%s", ch->n_gone > 1 ? ", " : "", plan ? plan : "any other");
}

static void look_at_named_plans(
	struct change *ch, const struct tier *t, const struct tier *seen)
{
	for (size_t i = 0; t && i < t->n_rules; i++) {
		const char *plan = t->rules[i].plan;
		const struct rule *known = seen && plan ? tier_rule(seen, plan) : NULL;

		if (plan && !plan_is_usual(plan) && !(known && known->plan))
			look_at_plan(ch, plan);
	}
}

/* Each plan that somebody can have: users need a source of their names, and plans of
 * their own a directory. */
static void look_at_plans(struct change *ch)
{
	const struct config *a = ch->now, *b = ch->fresh;
	bool users = a->client.n_user || b->client.n_user;

	look_at_plan(ch, "anonymous");
	if (users)
		look_at_plan(ch, "default");
	if (users && (*a->client.directory || *b->client.directory)) {
		look_at_named_plans(ch, ch->before, NULL);
		look_at_named_plans(ch, ch->after, ch->before);
		look_at_plan(ch, NULL);
	}
}

/* What was written in place of the limit, or NULL. */
static const char *statement(const struct change *ch)
{
	const struct rule *r = ch->instead;

	if (!r)
		return NULL;
	if (r->counting == COUNT_UNLIMITED)
		return "count=unlimited";
	if (r->mode != MODE_ENFORCE)
		return r->mode == MODE_OFF ? "mode=off" : "mode=shadow";
	return ch->fresh->server.mode == MODE_OFF ? "server.mode=off"
						  : "server.mode=shadow";
}

/* " (plan paid, any other: mode=off)": what it is, where it is not all of the tier. */
static void put_details(const struct change *ch, struct buf *out)
{
	const char *said = statement(ch);

	if (!ch->kept && !said)
		return;
	buf_add_str(out, " (");
	if (ch->kept) {
		buf_add_str(out, ch->n_gone > 1 ? "plans " : "plan ");
		buf_add(out, buf_view(&ch->plans));
	}
	buf_addf(out, "%s%s)", ch->kept && said ? ": " : "", said ? said : "");
}

/* ---- all of them ---- */

#define GONE_SHOWN 20

struct gone {
	const struct config *now, *fresh;
	size_t n;
	struct buf *out;
};

/* Room for one more in the list; false when it is long enough. */
static bool begin_one(struct gone *g)
{
	if (++g->n > GONE_SHOWN)
		return false;
	buf_add_str(g->out, g->n > 1 ? ", " : "");
	return true;
}

/* endpoint is NULL for tiers of the site, whose labels say so. */
static void put_gone(struct gone *g, const char *endpoint, const struct tiers *before,
	const struct tiers *after)
{
	for (size_t i = 0; i < before->n; i++) {
		const char *label = before->list[i].label;
		struct change ch = { .now = g->now,
			.fresh = g->fresh,
			.before = &before->list[i],
			.after = tier_labelled(after, label) };

		look_at_plans(&ch);
		if (ch.n_gone && begin_one(g)) {
			buf_addf(g->out, "%s%s%s", endpoint ? endpoint : "",
				endpoint ? " " : "", label);
			put_details(&ch, g->out);
		}
		g->out->failed |= ch.plans.failed;
		buf_release(&ch.plans);
	}
}

/* Who has come to be on the list meets no limit at all. */
static void put_allowed(struct gone *g)
{
	static const struct {
		unsigned addr_n;
		const char *name;
	} families[] = { { 4, "IPv4" }, { 16, "IPv6" } };

	if (!limits_enforced(g->now))
		return;
	for (size_t i = 0; i < COUNT_OF(families); i++) {
		unsigned n = families[i].addr_n;

		if (kind_networks_are_all(&g->now->allow.networks, n) ||
			!kind_networks_are_all(&g->fresh->allow.networks, n))
			continue;
		if (begin_one(g))
			buf_addf(g->out, "all of %s clients (allow.networks)",
				families[i].name);
	}
}

void config_limits_gone(
	const struct config *now, const struct config *fresh, struct buf *out)
{
	struct gone g = { now, fresh, 0, out };

	put_allowed(&g);
	put_gone(&g, NULL, &now->site, &fresh->site);
	for (size_t i = 0; i < now->n_endpoints; i++) {
		const struct endpoint *e = endpoint_named(fresh, now->endpoints[i].name);

		put_gone(&g, now->endpoints[i].name, &now->endpoints[i].tiers,
			e ? &e->tiers : NULL);
	}
	if (g.n > GONE_SHOWN)
		buf_addf(out, " and %zu more", g.n - GONE_SHOWN);
}
