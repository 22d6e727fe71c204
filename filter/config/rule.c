/*
 * config/rule.c - one @RateLimit line.
 *
 * Attributes, types and algorithms are rows; a new one is a row, a field of struct rule
 * and what the store does with it. Each attribute is read by itself; what they have to
 * say to each other is checked at the end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "config/rule_read.h"
#include "config/units.h"

/* What an algorithm is called, and what it is called in a tier's id. */
static const struct algorithm {
	const char *name, *id;
	bool has_burst;
} algorithms[] = {
	[RATE_SLIDING_WINDOW] = { "sliding_window", "sw", false },
	[RATE_TOKEN_BUCKET] = { "token_bucket", "tb", true },
};

static const char *const types[] = {
	[RULE_USER] = "user",
	[RULE_IP] = "ip",
	[RULE_GLOBAL] = "global",
};

static const char *const modes[] = {
	[MODE_ENFORCE] = "enforce",
	[MODE_SHADOW] = "shadow",
	[MODE_OFF] = "off",
};

const char *rate_algorithm_name(enum rate_algorithm a)
{
	return algorithms[a].name;
}

const char *rule_type_name(enum rule_type t)
{
	return types[t];
}

/* Keeps a copy of text in *field. */
static bool keep(char **field, struct view text, struct buf *why)
{
	*field = strndup(text.p ? text.p : "", text.n);
	if (!*field)
		why->failed = true;
	return *field != NULL;
}

static bool keep_name(char **field, struct view text, struct buf *why)
{
	if (unit_is_name(text) && text.n <= 64)
		return keep(field, text, why);
	buf_add_str(why, "is not a name; write 1 to 64 letters, digits and _ . -");
	return false;
}

static bool read_key(struct rule *r, struct view text, struct buf *why)
{
	return text.n ? keep_name(&r->key, text, why) : keep(&r->key, text, why);
}

static bool read_plan(struct rule *r, struct view text, struct buf *why)
{
	return keep_name(&r->plan, text, why);
}

static bool read_name(struct rule *r, struct view text, struct buf *why)
{
	return keep_name(&r->name, text, why);
}

static bool read_exact(struct view text, uint64_t *out, struct buf *why)
{
	if (view_number(text, EXACT_MAX, out) && *out > 0)
		return true;
	buf_addf(why, "is not a number that can be counted; write 1 to %llu",
		(unsigned long long)EXACT_MAX);
	return false;
}

static bool read_count(struct rule *r, struct view text, struct buf *why)
{
	uint64_t count;

	if (view_eq_nocase(text, VIEW("unlimited"))) {
		r->counting = COUNT_UNLIMITED;
	} else if (!view_number(text, EXACT_MAX, &count)) {
		buf_addf(why,
			"is not a count; write 1 to %llu, 0 to refuse everybody, or "
			"unlimited",
			(unsigned long long)EXACT_MAX);
		return false;
	} else if (count == 0) {
		r->counting = COUNT_NONE;
	} else {
		r->counting = COUNT_LIMITED;
		r->rate.count = count;
	}
	return true;
}

static bool read_window(struct rule *r, struct view text, struct buf *why)
{
	int64_t ms;

	if (!unit_duration(text, &ms) || ms == 0) {
		buf_add_str(why, "is not a duration; write 3600s, 60m or 1h");
		return false;
	}
	r->rate.window_us = ms * 1000;
	return true;
}

/* "a, b or c" */
static void add_word(struct buf *b, size_t i, size_t n, const char *word)
{
	buf_addf(b, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", word);
}

static bool read_type(struct rule *r, struct view text, struct buf *why)
{
	for (unsigned i = 0; i < COUNT_OF(types); i++) {
		if (view_eq_nocase(text, view_str(types[i]))) {
			r->type = (enum rule_type)i;
			return true;
		}
	}
	buf_add_str(why,
		view_eq_nocase(text, VIEW("custom")) ? "is not supported; write "
						     : "is not a type; write ");
	for (size_t i = 0; i < COUNT_OF(types); i++)
		add_word(why, i, COUNT_OF(types), types[i]);
	return false;
}

static bool read_algorithm(struct rule *r, struct view text, struct buf *why)
{
	for (unsigned i = 0; i < COUNT_OF(algorithms); i++) {
		if (view_eq_nocase(text, view_str(algorithms[i].name))) {
			r->rate.algorithm = (enum rate_algorithm)i;
			return true;
		}
	}
	buf_add_str(why, "is not an algorithm that is supported; write ");
	for (size_t i = 0; i < COUNT_OF(algorithms); i++)
		add_word(why, i, COUNT_OF(algorithms), algorithms[i].name);
	return false;
}

static bool read_burst(struct rule *r, struct view text, struct buf *why)
{
	return read_exact(text, &r->rate.burst, why);
}

static bool read_cost(struct rule *r, struct view text, struct buf *why)
{
	return read_exact(text, &r->cost, why);
}

static bool read_mode(struct rule *r, struct view text, struct buf *why)
{
	for (unsigned i = 0; i < COUNT_OF(modes); i++) {
		if (view_eq_nocase(text, view_str(modes[i]))) {
			r->mode = (enum rule_mode)i;
			return true;
		}
	}
	buf_add_str(why, "is not a mode; write ");
	for (size_t i = 0; i < COUNT_OF(modes); i++)
		add_word(why, i, COUNT_OF(modes), modes[i]);
	return false;
}

static const struct attribute {
	const char *name, *form, *def;
	bool (*read)(struct rule *r, struct view text, struct buf *why);
	const char *help;
} attributes[] = {
	{ "type", "user|ip|global", "user", read_type,
		"Whose requests are counted together: one user's, one address's, "
		"everybody's." },
	{ "count", "NUMBER|unlimited", "60", read_count,
		"How many fit into a window. 0 refuses everybody with 403." },
	{ "window", "DURATION", "60s", read_window,
		"How long a request counts; a bare number is seconds." },
	{ "algorithm", "sliding_window|token_bucket", "sliding_window", read_algorithm,
		"sliding_window: never more than count in any window. token_bucket: burst "
		"at "
		"once, then count per window, evenly." },
	{ "burst", "NUMBER", "count", read_burst,
		"How many a token_bucket lets pass at once." },
	{ "cost", "NUMBER", "1", read_cost, "How much one request takes from the count." },
	{ "plan", "NAME", "all", read_plan,
		"Only for users of this plan; a rule without a plan is for all others." },
	{ "key", "NAME", "the endpoint's", read_key,
		"Endpoints whose rules have the same key share one count." },
	{ "mode", "enforce|shadow|off", "enforce", read_mode,
		"shadow counts and reports but refuses nobody; off does nothing." },
	{ "name", "NAME", "algorithm and window", read_name,
		"What replies, logs and keys call the rule; choose a new one with a new "
		"algorithm or window." },
};

/* Longest "@RateLimit " and an attribute's name. */
#define SUBJECT_MAX 32

struct reading {
	struct rule rule;
	struct view values[COUNT_OF(attributes)]; /* p is NULL when not given */
	struct place at;
	struct mistakes *m;
	bool ok;
};

static size_t find_attribute(struct view name)
{
	size_t i = 0;

	while (i < COUNT_OF(attributes) && !view_eq(name, view_str(attributes[i].name)))
		i++;
	return i;
}

static void unknown_attribute(struct reading *rd, struct view name)
{
	struct buf all = { 0 };

	for (size_t i = 0; i < COUNT_OF(attributes); i++)
		add_word(&all, i, COUNT_OF(attributes), attributes[i].name);
	mistake_value(rd->m, rd->at, "@RateLimit", name, "is not an attribute; write %s",
		buf_str(&all) ? all.p : "");
	buf_release(&all);
	rd->ok = false;
}

static void read_attribute(struct reading *rd, struct view name, struct view value)
{
	size_t i = find_attribute(name);
	char subject[SUBJECT_MAX];
	struct buf why = { 0 };

	if (i == COUNT_OF(attributes)) {
		unknown_attribute(rd, name);
		return;
	}
	snprintf(subject, sizeof(subject), "@RateLimit %s", attributes[i].name);
	if (rd->values[i].p) {
		mistake_value(rd->m, rd->at, subject, value,
			"is a second value beside \"%.*s\"; give one",
			VIEW_ARG(rd->values[i]));
		rd->ok = false;
		return;
	}
	rd->values[i] = value;
	if (value.n && value.p[value.n - 1] == ',')
		buf_add_str(&why,
			"ends in a comma; write attributes with blanks between "
			"them");
	else if (attributes[i].read(&rd->rule, value, &why))
		return;
	if (!buf_ok(&why))
		rd->m->no_memory = true;
	else
		mistake_value(rd->m, rd->at, subject, value, "%s", buf_str(&why));
	buf_release(&why);
	rd->ok = false;
}

/* Bytes at the end of text that belong to its last word. */
static size_t last_word(struct view text)
{
	size_t n = 0;

	while (n < text.n && text.p[text.n - 1 - n] != ' ' &&
		text.p[text.n - 1 - n] != '\t')
		n++;
	return n;
}

/* A value reaches up to the next attribute's name, the word before the next '='. So
 * blanks around '=' do no harm, and a value with a blank in it is shown whole. */
static void read_attributes(struct reading *rd, struct view text)
{
	struct view rest = text, name = view_trim(view_cut(&rest, '='));

	if (name.n && !rest.p) {
		mistake_value(rd->m, rd->at, "@RateLimit", name,
			"is not attribute=value; write for example type=ip count=5 "
			"window=60s");
		rd->ok = false;
		return;
	}
	while (rest.p) {
		struct view value, next = { 0 };
		struct view part = view_trim(view_cut(&rest, '='));

		value = part;
		if (rest.p) {
			value.n -= last_word(part);
			next = view_skip(part, value.n);
			value = view_trim(value);
		}
		/* An empty value is given all the same. */
		read_attribute(rd, name, value.p ? value : VIEW(""));
		name = next;
	}
}

/* What was written for the attribute, or its default. */
static struct view written(const struct reading *rd, const char *name)
{
	size_t i = find_attribute(view_str(name));

	return rd->values[i].p ? rd->values[i] : view_str(attributes[i].def);
}

static void check_burst(struct reading *rd)
{
	struct rate *rate = &rd->rule.rate;
	struct view given = rd->values[find_attribute(VIEW("burst"))];
	uint64_t most = (EXACT_MAX - 1) / (uint64_t)rate->window_us;

	if (given.p && !algorithms[rate->algorithm].has_burst) {
		mistake_value(rd->m, rd->at, "@RateLimit burst", given,
			"says nothing to %s; write algorithm=token_bucket, or no burst",
			algorithms[rate->algorithm].name);
		rd->ok = false;
	} else if (given.p && rd->rule.counting != COUNT_LIMITED) {
		mistake_value(rd->m, rd->at, "@RateLimit burst", given,
			"says nothing beside count=%.*s; take it away",
			VIEW_ARG(written(rd, "count")));
		rd->ok = false;
	}
	if (!given.p)
		rate->burst = rate->count;
	if (algorithms[rate->algorithm].has_burst && rate->burst > most) {
		mistake_value(rd->m, rd->at,
			given.p ? "@RateLimit burst" : "@RateLimit count",
			written(rd, given.p ? "burst" : "count"),
			"is more than can be counted exactly in a window of %.*s; write at "
			"most %llu",
			VIEW_ARG(written(rd, "window")), (unsigned long long)most);
		rd->ok = false;
	}
}

static void check_cost(struct reading *rd)
{
	const struct rate *rate = &rd->rule.rate;

	if (rd->rule.counting != COUNT_LIMITED || rd->rule.cost <= rate->burst)
		return;
	mistake_value(rd->m, rd->at, "@RateLimit cost", written(rd, "cost"),
		"would never fit; write at most %llu, the %s",
		(unsigned long long)rate->burst,
		rd->values[find_attribute(VIEW("burst"))].p ? "burst" : "count");
	rd->ok = false;
}

void rule_release(struct rule *r)
{
	free(r->key);
	free(r->plan);
	free(r->name);
	*r = (struct rule){ 0 };
}

/* @RateLimit = (type=IP, count=5) */
static bool java_value(struct view text, struct place at, struct mistakes *m)
{
	struct buf line = { 0 };

	if (text.n == 0 || text.p[0] != '(')
		return false;
	buf_add_str(&line, "@RateLimit ");
	buf_add(&line, text);
	if (buf_ok(&line))
		rule_odd_line(buf_view(&line), at, m);
	else
		m->no_memory = true;
	buf_release(&line);
	return true;
}

bool rule_read(struct view text, struct place at, struct rule *out, struct mistakes *m)
{
	struct reading rd = {
		.rule = {
			.rate = { RATE_SLIDING_WINDOW, 60, 60 * 1000 * 1000, 0 },
			.type = RULE_USER,
			.cost = 1,
			.file = at.file,
			.line = at.line,
		},
		.at = at,
		.m = m,
		.ok = true,
	};

	if (java_value(view_trim(text), at, m))
		return false;
	read_attributes(&rd, view_trim(text));
	if (rd.ok) {
		check_burst(&rd);
		check_cost(&rd);
	}
	if (rd.ok && !rd.rule.key) {
		rd.rule.key = strdup("");
		if (!rd.rule.key) {
			m->no_memory = true;
			rd.ok = false;
		}
	}
	if (!rd.ok) {
		rule_release(&rd.rule);
		return false;
	}
	*out = rd.rule;
	return true;
}

void rules_print(struct buf *out)
{
	for (size_t i = 0; i < COUNT_OF(attributes); i++) {
		const struct attribute *a = &attributes[i];

		buf_addf(out, "%s=%s    (default %s)\n        %s\n", a->name, a->form,
			a->def, a->help);
	}
}

void rule_put_id(const struct rule *r, struct buf *out)
{
	int64_t ms = r->rate.window_us / 1000;

	/* Whole hours in hours, else whole seconds, else milliseconds: one id for one
	 * window, however it was written. */
	buf_add_str(out, algorithms[r->rate.algorithm].id);
	if (ms % (3600 * 1000) == 0)
		buf_addf(out, "%lldh", (long long)ms / (3600 * 1000));
	else if (ms % 1000 == 0)
		buf_addf(out, "%llds", (long long)ms / 1000);
	else
		buf_addf(out, "%lldms", (long long)ms);
}

void rule_put_limit(const struct rule *r, struct buf *out)
{
	switch (r->counting) {
	case COUNT_NONE: buf_add_str(out, "none"); break;
	case COUNT_UNLIMITED: buf_add_str(out, "unlimited"); break;
	case COUNT_LIMITED:
		buf_addf(out, "%llu in ", (unsigned long long)r->rate.count);
		unit_put_duration(out, r->rate.window_us / 1000);
		if (algorithms[r->rate.algorithm].has_burst)
			buf_addf(out, ", burst %llu", (unsigned long long)r->rate.burst);
		break;
	}
	if (r->cost > 1)
		buf_addf(out, ", cost %llu", (unsigned long long)r->cost);
	if (r->mode != MODE_ENFORCE)
		buf_addf(out, ", %s", modes[r->mode]);
}
