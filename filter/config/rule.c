/*
 * config/rule.c - one @RateLimit line.
 *
 * Attributes, types and algorithms are rows; a new one is a row, a field of struct rule
 * and what the store does with it. Each attribute is read here by itself; what they have
 * to say to each other is in rule_checks.c.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "config/rule_parts.h"
#include "config/options.h"
#include "config/units.h"
#include "config/words.h"

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
	if (word_is_name(text) && text.n <= 64)
		return keep(field, text, why);
	buf_add_str(why, "is not a name; write 1 to 64 letters, digits and _ . -");
	return false;
}

/* A name or a template, as the type will say. */
static bool read_key(struct rule *r, struct view text, struct buf *why)
{
	return keep(&r->key, text, why);
}

static bool read_prefix(struct rule *r, struct view text, struct buf *why)
{
	uint64_t bits;

	if (!view_number(text, 128, &bits) || bits == 0) {
		buf_add_str(why, "is not a length of IPv6 prefixes; write 1 to 128");
		return false;
	}
	r->prefix = (uint8_t)bits;
	return true;
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
	if (view_number(text, COUNT_MAX, out) && *out > 0)
		return true;
	buf_addf(why, "is not a number that can be counted; write 1 to %llu",
		(unsigned long long)COUNT_MAX);
	return false;
}

static bool read_count(struct rule *r, struct view text, struct buf *why)
{
	uint64_t count;

	if (view_eq_nocase(text, VIEW("unlimited"))) {
		r->counting = COUNT_UNLIMITED;
	} else if (!view_number(text, COUNT_MAX, &count)) {
		buf_addf(why,
			"is not a count; write 1 to %llu, 0 to refuse everybody, or "
			"unlimited",
			(unsigned long long)COUNT_MAX);
		return false;
	} else if (count == 0) {
		r->counting = COUNT_NONE;
	} else {
		r->counting = COUNT_LIMITED;
		r->rate.count = count;
	}
	return true;
}

/* Durations are counted in microseconds, and those below 2^48. */
#define WINDOW_DAYS_MAX 3257

static bool read_window(struct rule *r, struct view text, struct buf *why)
{
	int64_t ms;

	if (!unit_duration(text, &ms)) {
		buf_add_str(why, "is not a duration; write 3600s, 60m or 1h");
		return false;
	}
	if (ms == 0) {
		buf_add_str(why, "is no time at all; write at least 1ms");
		return false;
	}
	if (ms > INT64_C(86400000) * WINDOW_DAYS_MAX) {
		buf_addf(why, "is longer than can be counted; write at most %dd",
			WINDOW_DAYS_MAX);
		return false;
	}
	r->rate.window_us = ms * 1000;
	return true;
}

/* The number of the word that text is, or says why not: "is not a type; write ...". */
static bool read_word(struct view text, const char *const *words, size_t n,
	const char *what, unsigned *out, struct buf *why)
{
	for (unsigned i = 0; i < n; i++) {
		if (view_eq_nocase(text, view_str(words[i]))) {
			*out = i;
			return true;
		}
	}
	buf_addf(why, "is not %s; write ", what);
	for (size_t i = 0; i < n; i++)
		rule_add_word(why, i, n, words[i]);
	return false;
}

static bool read_type(struct rule *r, struct view text, struct buf *why)
{
	unsigned word = r->type;
	bool ok = read_word(text, rule_types, TYPES_N, "a type", &word, why);

	r->type = (enum rule_type)word;
	return ok;
}

static bool read_algorithm(struct rule *r, struct view text, struct buf *why)
{
	const char *names[ALGORITHMS_N];
	unsigned word = r->rate.algorithm;
	bool ok;

	for (size_t i = 0; i < ALGORITHMS_N; i++)
		names[i] = rule_algorithms[i].name;
	ok = read_word(text, names, ALGORITHMS_N, "an algorithm", &word, why);
	r->rate.algorithm = (enum rate_algorithm)word;
	return ok;
}

static bool read_mode(struct rule *r, struct view text, struct buf *why)
{
	unsigned word = r->mode;
	bool ok = read_word(text, rule_modes, MODES_N, "a mode", &word, why);

	r->mode = (enum rule_mode)word;
	return ok;
}

static bool read_on_error(struct rule *r, struct view text, struct buf *why)
{
	unsigned word = r->on_error;

	r->has_on_error = read_word(
		text, rule_policies, POLICIES_N, "a policy", &word, why);
	r->on_error = (enum on_error)word;
	return r->has_on_error;
}

static bool read_burst(struct rule *r, struct view text, struct buf *why)
{
	return read_exact(text, &r->rate.burst, why);
}

static bool read_max_delay(struct rule *r, struct view text, struct buf *why)
{
	int64_t ms;

	if (!unit_duration(text, &ms)) {
		buf_add_str(why, "is not a duration; write 500ms, 1s or 5s");
		return false;
	}
	if (ms > MAX_DELAY_MS) {
		buf_add_str(why, "is longer than a request may be held; write at most 1h");
		return false;
	}
	r->rate.max_delay_us = ms * 1000;
	return true;
}

/* cost=header:X-Tokens, cost=query:n */
static bool read_cost_source(struct cost *c, struct view text, struct buf *why)
{
	struct view name = text, source = view_cut(&name, ':');
	struct buf parameter = { 0 };

	c->source = view_eq(source, VIEW("header")) ? COST_HEADER : COST_QUERY;
	if (c->source == COST_HEADER ? !word_is_header(name) : !word_is_query_name(name)) {
		buf_addf(why, "names nothing a request can have; write %.*s:NAME",
			VIEW_ARG(source));
		return false;
	}
	if (c->source == COST_QUERY)
		return keep(&c->name, name, why);
	word_put_parameter(name, &parameter);
	c->name = buf_steal(&parameter);
	why->failed |= !c->name;
	return c->name != NULL;
}

static bool read_cost(struct rule *r, struct view text, struct buf *why)
{
	if (view_starts(text, VIEW("header:")) || view_starts(text, VIEW("query:")))
		return read_cost_source(&r->cost, text, why);
	if (view_number(text, COUNT_MAX, &r->cost.fixed) && r->cost.fixed > 0)
		return true;
	buf_addf(why, "is not a cost; write 1 to %llu, header:NAME or query:NAME",
		(unsigned long long)COUNT_MAX);
	return false;
}

static bool read_cost_min(struct rule *r, struct view text, struct buf *why)
{
	return read_exact(text, &r->cost.min, why);
}

static bool read_cost_max(struct rule *r, struct view text, struct buf *why)
{
	return read_exact(text, &r->cost.max, why);
}

static bool read_cost_default(struct rule *r, struct view text, struct buf *why)
{
	return read_exact(text, &r->cost.fixed, why);
}

static const struct attribute {
	const char *name, *form, *def;
	bool (*read)(struct rule *r, struct view text, struct buf *why);
	const char *help;
} attributes[] = {
	[ATTR_TYPE] = { "type", "user|ip|global|custom", "user", read_type,
		"Whose requests are counted together: one user's, one address's, "
		"everybody's, or what key makes of them." },
	[ATTR_COUNT] = { "count", "NUMBER|unlimited", "60", read_count,
		"How many fit into a window. 0 refuses everybody with 403." },
	[ATTR_WINDOW] = { "window", "DURATION", "60s", read_window,
		"How long a request counts; a bare number is seconds." },
	[ATTR_ALGORITHM] = { "algorithm",
		"sliding_window|fixed_window|sliding_counter|token_bucket|leaky_bucket",
		"sliding_window", read_algorithm,
		"sliding_window: never more than count in any window. fixed_window: in "
		"each "
		"window by itself, so up to twice the count around its end. "
		"sliding_counter: two of those, the older one weighted; nearly exact, and "
		"good for large counts. token_bucket: burst at once, then count per "
		"window, "
		"evenly. leaky_bucket: one after the other at that rate; who comes too "
		"early is held until its turn." },
	[ATTR_BURST] = { "burst", "NUMBER", "count", read_burst,
		"How many a token_bucket lets pass at once, and how many a leaky_bucket "
		"has "
		"in its queue." },
	[ATTR_MAX_DELAY] = { "max_delay", "DURATION", "1s", read_max_delay,
		"Longest time a leaky_bucket holds a request; what would wait longer is "
		"refused." },
	[ATTR_COST] = { "cost", "NUMBER|header:NAME|query:NAME", "1", read_cost,
		"How much one request takes from the count; with a source the request says "
		"it, within the bounds." },
	[ATTR_COST_MIN] = { "cost_min", "NUMBER", "1", read_cost_min,
		"The least a request can take, whatever it says." },
	[ATTR_COST_MAX] = { "cost_max", "NUMBER", "count, or burst", read_cost_max,
		"The most a request can take; also what one takes that says no number." },
	[ATTR_COST_DEFAULT] = { "cost_default", "NUMBER", "cost_min", read_cost_default,
		"What a request takes that says nothing." },
	[ATTR_PLAN] = { "plan", "NAME", "all", read_plan,
		"Only for users of this plan; a rule without a plan is for all others, "
		"where type, key, algorithm and window are the same." },
	[ATTR_KEY] = { "key", "NAME|TEMPLATE", "the endpoint's", read_key,
		"Endpoints whose rules have the same key share one count. Of type=custom: "
		"who is counted, put together from {header:NAME} {cookie:NAME} "
		"{query:NAME} {path:NAME} {param:NAME} {ip} {user} {plan} and text." },
	[ATTR_PREFIX] = { "prefix", "NUMBER", "client.ipv6_prefix", read_prefix,
		"Of type=ip: IPv6 addresses that have this many bits in common are counted "
		"together. IPv4 addresses are always counted one by one." },
	[ATTR_MODE] = { "mode", "enforce|shadow|off", "enforce", read_mode,
		"shadow counts and reports but refuses nobody; off does nothing." },
	[ATTR_ON_ERROR] = { "on_error", "local|open|closed", "fallback.policy",
		read_on_error,
		"What is done while Redis does not answer; of the rules a request meets "
		"the strictest holds: closed, local, open." },
	[ATTR_NAME] = { "name", "NAME", "algorithm and window", read_name,
		"What replies, logs and keys call the rule; choose a new one with a new "
		"window." },
};
_Static_assert(COUNT_OF(attributes) == ATTRIBUTES_N, "a row for each");

/* Longest "@RateLimit " and an attribute's name. */
#define SUBJECT_MAX 32

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
		rule_add_word(&all, i, COUNT_OF(attributes), attributes[i].name);
	mistake_value(rd->m, rd->at, "@RateLimit", name, "is not an attribute; write %s",
		buf_str(&all) ? all.p : "");
	buf_release(&all);
	rd->ok = false;
}

struct view rule_written(const struct reading *rd, enum attribute_id id)
{
	return rd->values[id].p ? rd->values[id] : view_str(attributes[id].def);
}

void rule_wrong(struct reading *rd, enum attribute_id id, const char *fmt, ...)
{
	char subject[SUBJECT_MAX];
	va_list ap;

	snprintf(subject, sizeof(subject), "@RateLimit %s", attributes[id].name);
	va_start(ap, fmt);
	mistake_vvalue(rd->m, rd->at, subject, rule_written(rd, id), fmt, ap);
	va_end(ap);
	rd->ok = false;
	rd->bad[id] = true;
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
	if (buf_str(&why))
		rule_wrong(rd, (enum attribute_id)i, "%s", why.p);
	else
		rd->m->no_memory = true;
	buf_release(&why);
	rd->ok = false;
	rd->bad[i] = true;
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

void rule_release(struct rule *r)
{
	key_template_release(r);
	free(r->cost.name);
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
			.rate = {
				.algorithm = RATE_SLIDING_WINDOW,
				.count = 60,
				.window_us = 60 * US_PER_S,
			},
			.type = RULE_USER,
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
	rule_check(&rd);
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

		buf_addf(out, "%s=%s    (default %s)\n", a->name, a->form, a->def);
		options_print_wrapped(a->help, out);
	}
}
