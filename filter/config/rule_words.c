/*
 * config/rule_words.c - what rules are made of and come to, in words.
 */
#include "config/rule_parts.h"

#include <sodium.h>
#include <stdio.h>

#include "config/units.h"

const struct algorithm_words rule_algorithms[] = {
	[RATE_SLIDING_WINDOW] = { "sliding_window", "sw", false, false },
	[RATE_TOKEN_BUCKET] = { "token_bucket", "tb", true, false },
	[RATE_FIXED_WINDOW] = { "fixed_window", "fw", false, false },
	[RATE_SLIDING_COUNTER] = { "sliding_counter", "sc", false, false },
	[RATE_LEAKY_BUCKET] = { "leaky_bucket", "lb", true, true },
};
_Static_assert(COUNT_OF(rule_algorithms) == ALGORITHMS_N, "a row for each");

const char *const rule_types[] = {
	[RULE_USER] = "user",
	[RULE_IP] = "ip",
	[RULE_GLOBAL] = "global",
	[RULE_CUSTOM] = "custom",
};
_Static_assert(COUNT_OF(rule_types) == TYPES_N, "a row for each");

const char *const rule_modes[] = {
	[MODE_ENFORCE] = "enforce",
	[MODE_SHADOW] = "shadow",
	[MODE_OFF] = "off",
};
_Static_assert(COUNT_OF(rule_modes) == MODES_N, "a row for each");

const char *const rule_policies[] = {
	[ON_ERROR_LOCAL] = "local",
	[ON_ERROR_OPEN] = "open",
	[ON_ERROR_CLOSED] = "closed",
};
_Static_assert(COUNT_OF(rule_policies) == POLICIES_N, "a row for each");

const char *rule_type_name(enum rule_type t)
{
	return rule_types[t];
}

void rule_add_word(struct buf *b, size_t i, size_t n, const char *word)
{
	buf_addf(b, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", word);
}

/* Eight digits are for telling a few templates apart, not for keeping off attackers: who
 * writes templates is the operator. */
static void put_template_hash(const struct rule *r, struct buf *out)
{
	unsigned char hash[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(hash, (const unsigned char *)r->key, strlen(r->key));
	buf_addf(out, "-%02x%02x%02x%02x", hash[0], hash[1], hash[2], hash[3]);
}

/* Who is counted, where the type does not say it all. */
static void put_whom(const struct rule *r, struct buf *out)
{
	if (r->type == RULE_CUSTOM)
		put_template_hash(r, out);
	if (r->prefix)
		buf_addf(out, "-%u", r->prefix);
}

void rule_put_id(const struct rule *r, struct buf *out)
{
	int64_t ms = r->rate.window_us / 1000;

	if (r->name) {
		buf_add_str(out, r->name);
		return;
	}
	/* Whole hours in hours, else whole seconds, else milliseconds: one id for one
	 * window, however it was written. */
	buf_add_str(out, rule_algorithms[r->rate.algorithm].id);
	if (ms % (3600 * 1000) == 0)
		buf_addf(out, "%lldh", (long long)ms / (3600 * 1000));
	else if (ms % 1000 == 0)
		buf_addf(out, "%llds", (long long)ms / 1000);
	else
		buf_addf(out, "%lldms", (long long)ms);
	put_whom(r, out);
}

void rule_put_way(const struct rule *r, struct buf *out)
{
	if (!r->name)
		return;
	buf_add_str(out, rule_algorithms[r->rate.algorithm].id);
	put_whom(r, out);
}

static void put_cost(const struct rule *r, struct buf *out)
{
	const struct cost *c = &r->cost;

	if (c->source == COST_FIXED) {
		if (c->fixed > 1)
			buf_addf(out, ", cost %llu", (unsigned long long)c->fixed);
		return;
	}
	buf_addf(out, ", cost %llu to %llu from %s %s", (unsigned long long)c->min,
		(unsigned long long)c->max, c->source == COST_QUERY ? "query" : "parameter",
		c->name);
}

void rule_put_limit(const struct rule *r, struct buf *out)
{
	const struct algorithm_words *a = &rule_algorithms[r->rate.algorithm];

	switch (r->counting) {
	case COUNT_NONE: buf_add_str(out, "none"); break;
	case COUNT_UNLIMITED: buf_add_str(out, "unlimited"); break;
	case COUNT_LIMITED:
		buf_addf(out, "%llu in ", (unsigned long long)r->rate.count);
		unit_put_duration(out, r->rate.window_us / 1000);
		if (a->has_burst)
			buf_addf(out, ", burst %llu", (unsigned long long)r->rate.burst);
		if (a->has_delay) {
			buf_add_str(out, ", held up to ");
			unit_put_duration(out, r->rate.max_delay_us / 1000);
		}
		break;
	}
	put_cost(r, out);
	if (r->type == RULE_CUSTOM)
		buf_addf(out, ", by %s", r->key);
	if (r->prefix)
		buf_addf(out, ", IPv6 by /%u", r->prefix);
	if (r->has_on_error)
		buf_addf(out, ", on_error %s", rule_policies[r->on_error]);
	if (r->mode != MODE_ENFORCE)
		buf_addf(out, ", %s", rule_modes[r->mode]);
}
