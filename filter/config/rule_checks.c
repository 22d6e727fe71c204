/*
 * config/rule_checks.c - what the attributes of one rule have to say to each other.
 *
 * Here also lie the bounds of the arithmetic (struct rate in config/rule.h): what could
 * not be counted to the last digit in Redis is refused, with what would do.
 */
#include <string.h>

#include "config/rule_parts.h"
#include "config/units.h"
#include "config/words.h"

/* Largest count of a sliding_window, which keeps every event (store/rate.h). */
#define EVENTS_MAX (UINT64_C(1) << 24)

static bool given(const struct reading *rd, enum attribute_id id)
{
	return rd->values[id].p != NULL;
}

static unsigned long long ull(uint64_t n)
{
	return n;
}

static const struct algorithm_words *algorithm(const struct reading *rd)
{
	return &rule_algorithms[rd->rule.rate.algorithm];
}

/* "algorithm=token_bucket or leaky_bucket" */
static void put_algorithms(
	struct buf *out, bool (*has)(const struct algorithm_words *), const char *without)
{
	const char *before = "write algorithm=";

	for (size_t i = 0; i < ALGORITHMS_N; i++) {
		if (!has(&rule_algorithms[i]))
			continue;
		buf_addf(out, "%s%s", before, rule_algorithms[i].name);
		before = " or ";
	}
	buf_addf(out, ", or no %s", without);
}

static bool has_burst(const struct algorithm_words *a)
{
	return a->has_burst;
}

static bool has_delay(const struct algorithm_words *a)
{
	return a->has_delay;
}

/* An attribute that only some algorithms have. */
static void check_belongs(struct reading *rd, enum attribute_id id,
	bool (*has)(const struct algorithm_words *), const char *name)
{
	struct buf hint = { 0 };

	if (!given(rd, id) || rd->bad[id] || rd->bad[ATTR_ALGORITHM])
		return;
	if (!has(algorithm(rd))) {
		put_algorithms(&hint, has, name);
		if (buf_str(&hint))
			rule_wrong(rd, id, "says nothing to %s; %s", algorithm(rd)->name,
				hint.p);
		else
			rd->m->no_memory = true;
	} else if (rd->rule.counting != COUNT_LIMITED) {
		rule_wrong(rd, id, "says nothing beside count=%.*s; take it away",
			VIEW_ARG(rule_written(rd, ATTR_COUNT)));
	}
	buf_release(&hint);
}

/* What is multiplied by the window must stay below 2^53. */
static void check_product(
	struct reading *rd, enum attribute_id id, uint64_t factor, const char *instead)
{
	uint64_t most = (EXACT_MAX - 1) / (uint64_t)rd->rule.rate.window_us;

	if (factor > most)
		rule_wrong(rd, id,
			"is more than can be counted exactly in a window of %.*s; write at "
			"most %llu%s",
			VIEW_ARG(rule_written(rd, ATTR_WINDOW)), ull(most), instead);
}

static void check_bounds(struct reading *rd)
{
	const struct rate *rate = &rd->rule.rate;
	bool burst = given(rd, ATTR_BURST);

	switch (rate->algorithm) {
	case RATE_SLIDING_WINDOW:
		if (rate->count > EVENTS_MAX)
			rule_wrong(rd, ATTR_COUNT,
				"is more events than a sliding_window keeps; write at most "
				"%llu, or algorithm=sliding_counter, fixed_window or "
				"token_bucket",
				ull(EVENTS_MAX));
		break;
	case RATE_FIXED_WINDOW: break;
	case RATE_SLIDING_COUNTER:
		check_product(rd, ATTR_COUNT, rate->count, ", or algorithm=fixed_window");
		break;
	case RATE_TOKEN_BUCKET:
	case RATE_LEAKY_BUCKET:
		check_product(rd, burst ? ATTR_BURST : ATTR_COUNT, rate->burst,
			burst ? "" : ", or a burst of at most that");
		break;
	}
}

/* "5, the count" */
static const char *capacity_name(const struct reading *rd)
{
	return given(rd, ATTR_BURST) ? "burst" : "count";
}

static void check_fixed_cost(struct reading *rd)
{
	static const enum attribute_id bounds[] = { ATTR_COST_MIN, ATTR_COST_MAX,
		ATTR_COST_DEFAULT };
	struct rule *r = &rd->rule;

	for (size_t i = 0; i < COUNT_OF(bounds); i++) {
		if (given(rd, bounds[i]) && !rd->bad[bounds[i]])
			rule_wrong(rd, bounds[i],
				"says nothing beside cost=%.*s; write cost=header:NAME or "
				"cost=query:NAME, or take it away",
				VIEW_ARG(rule_written(rd, ATTR_COST)));
	}
	if (!given(rd, ATTR_COST))
		r->cost.fixed = 1;
	if (r->counting == COUNT_LIMITED && r->cost.fixed > r->rate.burst)
		rule_wrong(rd, ATTR_COST, "would never fit; write at most %llu, the %s",
			ull(r->rate.burst), capacity_name(rd));
	r->cost.min = r->cost.max = r->cost.fixed;
}

/* The bounds within which a request may say its cost. */
static void check_said_cost(struct reading *rd)
{
	struct cost *c = &rd->rule.cost;
	uint64_t capacity = rd->rule.counting == COUNT_LIMITED ? rd->rule.rate.burst
							       : COUNT_MAX;

	if (!given(rd, ATTR_COST_MIN))
		c->min = 1;
	if (!given(rd, ATTR_COST_MAX))
		c->max = capacity;
	if (!given(rd, ATTR_COST_DEFAULT))
		c->fixed = c->min;
	if (c->max > capacity)
		rule_wrong(rd, ATTR_COST_MAX, "would never fit; write at most %llu, the %s",
			ull(capacity), capacity_name(rd));
	else if (c->min > capacity)
		rule_wrong(rd, ATTR_COST_MIN, "would never fit; write at most %llu, the %s",
			ull(capacity), capacity_name(rd));
	else if (c->min > c->max)
		rule_wrong(rd, ATTR_COST_MIN,
			"is more than cost_max=%llu; write at most that", ull(c->max));
	else if (c->fixed < c->min || c->fixed > c->max)
		rule_wrong(rd, ATTR_COST_DEFAULT,
			"is outside the bounds of the cost; write %llu to %llu",
			ull(c->min), ull(c->max));
}

static void check_template(struct reading *rd, struct view key)
{
	struct buf why = { 0 };

	if (!given(rd, ATTR_KEY))
		rule_wrong(rd, ATTR_TYPE,
			"does not say who is counted; write a key beside it, such as "
			"key={header:X-Tenant}");
	else if (!key_template_read(key, &rd->rule, &why)) {
		if (buf_str(&why))
			rule_wrong(rd, ATTR_KEY, "%s", why.p);
		else
			rd->m->no_memory = true;
		rd->ok = false;
	}
	buf_release(&why);
}

static void check_key(struct reading *rd)
{
	struct view key = view_str(rd->rule.key);
	bool braces = key.n && (memchr(key.p, '{', key.n) || memchr(key.p, '}', key.n));

	if (rd->bad[ATTR_KEY] || (rd->bad[ATTR_TYPE] && braces))
		return;
	if (rd->rule.type == RULE_CUSTOM)
		check_template(rd, key);
	else if (braces)
		rule_wrong(rd, ATTR_KEY,
			"is a template, which says nothing to type=%s; write type=custom, "
			"or "
			"a name",
			rule_types[rd->rule.type]);
	else if (key.n > 64 || (key.n && !word_is_name(key)))
		rule_wrong(rd, ATTR_KEY,
			"is not a name; write 1 to 64 letters, digits and _ . -");
}

static void check_prefix(struct reading *rd)
{
	if (given(rd, ATTR_PREFIX) && !rd->bad[ATTR_PREFIX] && !rd->bad[ATTR_TYPE] &&
		rd->rule.type != RULE_IP)
		rule_wrong(rd, ATTR_PREFIX,
			"says nothing to type=%s; write type=ip, or no prefix",
			rule_types[rd->rule.type]);
}

void rule_check(struct reading *rd)
{
	struct rate *rate = &rd->rule.rate;

	if (!rd->rule.key) {
		rd->rule.key = strdup("");
		if (!rd->rule.key) {
			rd->m->no_memory = true;
			rd->ok = false;
			return;
		}
	}
	check_key(rd);
	check_prefix(rd);
	check_belongs(rd, ATTR_BURST, has_burst, "burst");
	check_belongs(rd, ATTR_MAX_DELAY, has_delay, "max_delay");
	if (!rd->ok)
		return;
	if (!given(rd, ATTR_BURST))
		rate->burst = rate->count;
	if (algorithm(rd)->has_delay && !given(rd, ATTR_MAX_DELAY))
		rate->max_delay_us = 1000 * 1000;
	check_bounds(rd);
	if (!rd->ok)
		return;
	if (rd->rule.cost.source == COST_FIXED)
		check_fixed_cost(rd);
	else
		check_said_cost(rd);
}
