/*
 * config/rules_together.c - what the rules of all files have to say to each other, and to
 * the options of weir.ini.
 */
#include <stdlib.h>

#include "config/load.h"
#include "config/units.h"
#include "config/words.h"

/* What a tier's keys in the store begin with, but for the client. */
struct counted {
	const struct tier *tier;
	const char *where; /* key, the endpoint, or "*" */
};

static int by_key(const void *left, const void *right)
{
	const struct counted *a = left, *b = right;
	const struct rule *ra = a->tier->rules, *rb = b->tier->rules;
	int c;

	if (ra->type != rb->type)
		return ra->type < rb->type ? -1 : 1;
	c = strcmp(a->where, b->where);
	return c ? c : strcmp(a->tier->id, b->tier->id);
}

static void list_counted(
	struct counted *list, size_t *n, const struct tiers *tiers, const char *where)
{
	for (size_t i = 0; i < tiers->n; i++) {
		const struct rule *r = &tiers->list[i].rules[0];
		bool shared = r->key[0] && r->type != RULE_CUSTOM;

		list[(*n)++] = (struct counted){ &tiers->list[i], shared ? r->key : where };
	}
}

/* With key= and name= two endpoints can come to one key in the store. What is kept
 * there must be read the way it was written. */
static void check_shared_keys(struct load *l)
{
	const struct config *c = l->config;
	size_t all = c->site.n, n = 0;
	struct counted *list;

	for (size_t i = 0; i < c->n_endpoints; i++)
		all += c->endpoints[i].tiers.n;
	list = calloc(all + 1, sizeof(*list));
	if (!list) {
		l->m->no_memory = true;
		return;
	}
	list_counted(list, &n, &c->site, "*");
	for (size_t i = 0; i < c->n_endpoints; i++)
		list_counted(list, &n, &c->endpoints[i].tiers, c->endpoints[i].name);
	qsort(list, n, sizeof(*list), by_key);
	for (size_t i = 1; i < n; i++) {
		const struct rule *a = list[i - 1].tier->rules, *b = list[i].tier->rules;

		if (by_key(&list[i - 1], &list[i]) != 0 ||
			(a->rate.algorithm == b->rate.algorithm &&
				a->rate.window_us == b->rate.window_us))
			continue;
		mistake_add(l->m, (struct place){ b->file, b->line },
			"@RateLimit name: \"%s\" with this key is also counted at %s:%u, "
			"with another algorithm or window; write another name or key",
			list[i].tier->id, a->file, a->line);
	}
	free(list);
}

/* The log of a sliding window takes ten bytes for each event in Redis, eight in memory. */
#define LARGE_COUNT    1000000
#define EVENT_BYTES    8
#define BESIDE_THE_LOG 1024

/* The most events of one client that the table of this process has room for: a client's
 * log lies in one shard of it. */
static uint64_t most_in_memory(const struct config *c)
{
	uint64_t bytes = c->store.memory;

	/* What was a mistake itself has no value. */
	if (bytes == 0)
		return UINT64_MAX;
	return (bytes / config_memory_shards(bytes) - BESIDE_THE_LOG) / EVENT_BYTES;
}

/* A log that does not fit into memory could never be filled: those beyond would be
 * refused, or with local counted by nobody. */
static void check_fits(struct load *l, const struct rule *r)
{
	const struct config *c = l->config;
	uint64_t most = most_in_memory(c);

	if (c->store.type == STORE_MEMORY && r->rate.count > most)
		mistake_add(l->m, (struct place){ r->file, r->line },
			"@RateLimit count: a sliding_window of %llu does not fit into "
			"store.memory; write at most %llu, more store.memory, or "
			"algorithm=sliding_counter, fixed_window or token_bucket",
			(unsigned long long)r->rate.count, (unsigned long long)most);
	else if (c->store.type == STORE_REDIS && r->on_error == ON_ERROR_LOCAL &&
		c->fallback.instances && r->rate.count / c->fallback.instances > most)
		mistake_notice(l->m, (struct place){ r->file, r->line },
			"@RateLimit count: a sliding_window of %llu does not fit into "
			"store.memory, so while Redis is silent nobody counts it; "
			"algorithm=sliding_counter, fixed_window or token_bucket keep two "
			"numbers",
			(unsigned long long)r->rate.count);
	else if (r->rate.count > LARGE_COUNT)
		mistake_notice(l->m, (struct place){ r->file, r->line },
			"@RateLimit count: a sliding_window of %llu keeps up to %llu "
			"megabytes for each client; algorithm=sliding_counter, "
			"fixed_window or token_bucket keep two numbers",
			(unsigned long long)r->rate.count,
			(unsigned long long)r->rate.count / 100000);
}

/* A queue in which nobody ever waits was not meant to be one. */
static void note_leaky(struct load *l, const struct rule *r)
{
	int64_t apart_us = r->rate.window_us / (int64_t)r->rate.count;
	struct buf apart = { 0 };

	if (r->rate.max_delay_us == 0 || r->rate.burst == 1 ||
		apart_us <= r->rate.max_delay_us)
		return;
	unit_put_duration(&apart, apart_us / 1000);
	if (buf_str(&apart))
		mistake_notice(l->m, (struct place){ r->file, r->line },
			"@RateLimit max_delay: requests of this leaky_bucket have their "
			"turn %s apart, which is longer than one may be held, so none ever "
			"is; write a longer max_delay, or algorithm=token_bucket with "
			"burst=1",
			apart.p);
	else
		l->m->no_memory = true;
	buf_release(&apart);
}

/* Who is on none of its plans meets no rule of a tier; and while the directory cannot be
 * read that may be anybody. */
static void note_plans(struct load *l, const struct tier *t)
{
	const struct config *c = l->config;

	if (!c->client.directory || !*c->client.directory ||
		c->client.directory_error == ON_ERROR_CLOSED)
		return;
	for (size_t i = 0; i < t->n_rules; i++) {
		const char *plan = t->rules[i].plan;

		if (!plan || plan_is_usual(plan))
			return;
	}
	mistake_notice(l->m, (struct place){ t->rules[0].file, t->rules[0].line },
		"@RateLimit plan: %s has rules for some plans only, so nobody else meets "
		"it, nor who is not known while the directory cannot be read; a rule "
		"without plan= is for all others, and directory_error = closed refuses "
		"meanwhile",
		t->label);
}

static const struct rule *rule_naming(const struct tier *t, const char *plan)
{
	for (size_t i = 0; i < t->n_rules; i++) {
		const char *own = t->rules[i].plan;

		if (plan ? own && strcmp(own, plan) == 0 : !own)
			return &t->rules[i];
	}
	return NULL;
}

/* A rule for a plan takes the place of the one without in its own tier alone. With another
 * window it is a tier of its own, and the plan's clients meet that of all others as well,
 * which is mostly the lower one. */
static void note_also_met(struct load *l, const struct tiers *tiers, const struct tier *t)
{
	for (size_t i = 0; i < tiers->n; i++) {
		const struct tier *other = &tiers->list[i];
		const struct rule *general = rule_naming(other, NULL);

		if (!general || general->type != t->rules[0].type ||
			general->type == RULE_CUSTOM ||
			general->counting == COUNT_UNLIMITED || general->mode == MODE_OFF)
			continue;
		for (size_t j = 0; j < t->n_rules; j++) {
			const struct rule *r = &t->rules[j];

			if (!r->plan || r->mode == MODE_OFF || rule_naming(other, r->plan))
				continue;
			mistake_notice(l->m, (struct place){ r->file, r->line },
				"@RateLimit plan: clients of plan %s meet %s of line %u "
				"too, which counts by itself; if this rule is to take its "
				"place, write there another for plan=%s with "
				"count=unlimited",
				r->plan, other->label, general->line, r->plan);
		}
	}
}

/* Without users everybody is on plan anonymous. */
static void note_unmet(struct load *l, const struct tier *t)
{
	for (size_t i = 0; i < t->n_rules && !l->config->client.n_user; i++) {
		const struct rule *r = &t->rules[i];

		if (r->plan && strcmp(r->plan, "anonymous") != 0)
			mistake_notice(l->m, (struct place){ r->file, r->line },
				"@RateLimit plan: client.user is none, so nobody is on "
				"plan %s and meets this rule; write user = token or "
				"user = remote_user in [client]",
				r->plan);
	}
}

/* Plans are in the directory. A rule for one that nobody can have limits nobody. */
static void check_plan(struct load *l, const struct rule *r)
{
	static const char *const without[] = { "anonymous", "default" };
	const struct config *c = l->config;
	struct place at = { r->file, r->line };
	const char *meant = NULL;

	/* What was a mistake itself has no value. */
	if (!r->plan || !c->client.directory || *c->client.directory ||
		plan_is_usual(r->plan))
		return;
	for (size_t i = 0; i < COUNT_OF(without); i++) {
		size_t d = word_distance(view_str(r->plan), view_str(without[i]));

		if (d <= WORD_SLIP)
			meant = without[i];
	}
	if (meant)
		mistake_value(l->m, at, "@RateLimit plan", view_str(r->plan),
			"is a plan that nobody has without a directory; did you mean %s?",
			meant);
	else
		mistake_value(l->m, at, "@RateLimit plan", view_str(r->plan),
			"is a plan that nobody has without a directory; write anonymous "
			"or default, or directory = sqlite:/var/lib/weir/weir.db under "
			"[client]");
}

/* What a rule has to say to the options of weir.ini, which it may stand before. */
static void finish_rules(struct load *l, const struct tiers *tiers)
{
	for (size_t i = 0; i < tiers->n; i++) {
		note_plans(l, &tiers->list[i]);
		note_unmet(l, &tiers->list[i]);
		if (!rule_naming(&tiers->list[i], NULL))
			note_also_met(l, tiers, &tiers->list[i]);
		for (size_t j = 0; j < tiers->list[i].n_rules; j++) {
			struct rule *r = &tiers->list[i].rules[j];

			check_plan(l, r);
			if (!r->has_on_error)
				r->on_error = l->config->fallback.policy;
			if (r->counting != COUNT_LIMITED)
				continue;
			if (r->rate.algorithm == RATE_SLIDING_WINDOW)
				check_fits(l, r);
			if (r->rate.algorithm == RATE_LEAKY_BUCKET)
				note_leaky(l, r);
		}
	}
}

void load_check_rules(struct load *l)
{
	finish_rules(l, &l->config->site);
	for (size_t i = 0; i < l->config->n_endpoints; i++)
		finish_rules(l, &l->config->endpoints[i].tiers);
	check_shared_keys(l);
}
