/*
 * config/tiers.c - which rules count together.
 *
 * A tier's id is its name, or its algorithm and window. With scope, type and key it is
 * what the store's key is made of: rules that agree in these count in one place, so
 * they have to agree in how they count, and differ in the plan they are for. The key of
 * a custom rule and the prefix of one for addresses say who is counted, so they are in the
 * id too, the key as a hash.
 */
#include <assert.h>
#include <stdlib.h>

#include "config/rule_read.h"

static void tier_release(struct tier *t)
{
	for (size_t i = 0; i < t->n_rules; i++)
		rule_release(&t->rules[i]);
	free(t->rules);
	free(t->id);
	free(t->label);
}

void tiers_release(struct tiers *t)
{
	for (size_t i = 0; i < t->n; i++)
		tier_release(&t->list[i]);
	free(t->list);
	*t = (struct tiers){ 0 };
}

bool plan_is_usual(const char *plan)
{
	return strcmp(plan, "anonymous") == 0 || strcmp(plan, "default") == 0;
}

const struct rule *tier_rule(const struct tier *t, const char *plan)
{
	const struct rule *any = NULL;

	for (size_t i = 0; i < t->n_rules; i++) {
		if (!t->rules[i].plan)
			any = &t->rules[i];
		else if (plan && strcmp(t->rules[i].plan, plan) == 0)
			return &t->rules[i];
	}
	return any;
}

static struct tier *find_tier(const struct tiers *t, const struct rule *r, const char *id)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct rule *first = t->list[i].rules;

		/* A tier whose first rule found no memory has none. */
		if (first && first->type == r->type && strcmp(t->list[i].id, id) == 0 &&
			(r->type == RULE_CUSTOM || strcmp(first->key, r->key) == 0))
			return &t->list[i];
	}
	return NULL;
}

/* Whether r can join the tier; tells if not. */
static bool fits(const struct tier *t, const struct rule *r, struct mistakes *m)
{
	const struct rule *first = &t->rules[0];
	struct place at = { r->file, r->line };

	if (!first->name != !r->name) {
		at.line = r->name ? r->line : first->line;
		mistake_add(m, at,
			"@RateLimit name: \"%s\" is what the rule in line %u is called "
			"without "
			"a name; write another",
			t->id, r->name ? first->line : r->line);
		return false;
	}
	if (first->rate.algorithm != r->rate.algorithm ||
		first->rate.window_us != r->rate.window_us) {
		mistake_add(m, at,
			"@RateLimit name: \"%s\" is also the name of line %u, which counts "
			"with "
			"another algorithm or window; write another",
			t->id, first->line);
		return false;
	}
	if (r->type == RULE_CUSTOM && strcmp(first->key, r->key) != 0) {
		mistake_add(m, at,
			"@RateLimit name: \"%s\" is also the name of line %u, which counts "
			"by another key; write another",
			t->id, first->line);
		return false;
	}
	if (first->prefix != r->prefix) {
		mistake_add(m, at,
			"@RateLimit name: \"%s\" is also the name of line %u, which counts "
			"by another prefix; write another",
			t->id, first->line);
		return false;
	}
	for (size_t i = 0; i < t->n_rules; i++) {
		if (!text_eq(t->rules[i].plan, r->plan))
			continue;
		mistake_add(m, at,
			"@RateLimit: a second rule for %s and %s%s, after the one in line "
			"%u; "
			"write one of them, or give this one a plan, another window or a "
			"name",
			t->label, r->plan ? "plan " : "every plan", r->plan ? r->plan : "",
			t->rules[i].line);
		return false;
	}
	return true;
}

static struct tier *add_tier(
	struct tiers *t, const struct rule *r, const char *id, bool site)
{
	struct tier *list = realloc(t->list, (t->n + 1) * sizeof(*list)), *tier;
	/* A template would be all braces in the fields of an answer; the id has its hash. */
	const char *key = r->type == RULE_CUSTOM ? "" : r->key;
	struct buf label = { 0 }, way = { 0 };

	if (!list)
		return NULL;
	t->list = list;
	tier = &list[t->n];
	buf_addf(&label, "%s%s/%s%s%s", site ? "site/" : "", rule_type_name(r->type), key,
		key[0] ? "/" : "", id);
	rule_put_way(r, &way);
	*tier = (struct tier){
		.id = strdup(id),
		.label = buf_steal(&label),
		.site = site,
	};
	assert(way.n < sizeof(tier->way));
	if (way.n)
		memcpy(tier->way, way.p, way.n);
	if (!tier->id || !tier->label || !buf_ok(&way)) {
		buf_release(&way);
		tier_release(tier);
		return NULL;
	}
	buf_release(&way);
	t->n++;
	return tier;
}

/* Moves r to the end of the tier's rules. */
static bool add_rule(struct tier *t, struct rule *r)
{
	struct rule *rules = realloc(t->rules, (t->n_rules + 1) * sizeof(*rules));

	if (!rules)
		return false;
	t->rules = rules;
	rules[t->n_rules++] = *r;
	*r = (struct rule){ 0 };
	return true;
}

static bool place_rule(struct tiers *t, struct rule *r, bool site, struct mistakes *m)
{
	struct buf text = { 0 };
	struct tier *tier;
	const char *id;
	bool ok = false;

	rule_put_id(r, &text);
	id = buf_str(&text);
	if (!id)
		goto no_memory;
	tier = find_tier(t, r, id);
	if (tier && !fits(tier, r, m))
		goto out;
	if (!tier)
		tier = add_tier(t, r, id, site);
	if (!tier || !add_rule(tier, r))
		goto no_memory;
	ok = true;
	goto out;

no_memory:
	m->no_memory = true;
out:
	buf_release(&text);
	return ok;
}

bool tiers_build(
	struct tiers *out, struct rule *rules, size_t n, bool site, struct mistakes *m)
{
	struct tiers all = { 0 };
	bool ok = true;

	for (size_t i = 0; i < n; i++) {
		if (!place_rule(&all, &rules[i], site, m))
			ok = false;
		rule_release(&rules[i]);
	}
	if (!ok) {
		tiers_release(&all);
		return false;
	}
	*out = all;
	return true;
}
