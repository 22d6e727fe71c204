/*
 * fuzz_rule.c - @RateLimit lines and the tiers they form.
 *
 * A rule that is taken keeps the promises of struct rate, on which all arithmetic stands;
 * one that is not is told why, in text that can be printed. Rules that agree in what they
 * count are one tier, and a tier counts in one way.
 *
 * Input: what stands behind "@RateLimit =", one rule a line.
 */
#include "config/rule_read.h"
#include "config/units.h"
#include "fuzz.h"
#include "store/rate.h"

#define RULES_MAX 16

static void check_rate(const struct rate *r)
{
	const uint64_t day_us = UINT64_C(86400) * 1000000;
	uint64_t window = (uint64_t)r->window_us;

	MUST(r->count >= 1 && r->count <= EXACT_MAX && r->burst >= 1);
	MUST(r->window_us >= 1 && r->window_us < INT64_C(1) << 48);
	MUST(window <= 3257 * day_us);
	switch (r->algorithm) {
	case RATE_SLIDING_WINDOW: MUST(r->count <= RATE_LOG_MAX); break;
	case RATE_FIXED_WINDOW: MUST(r->count < EXACT_MAX); break;
	case RATE_SLIDING_COUNTER: MUST(r->count <= (EXACT_MAX - 1) / window); break;
	case RATE_TOKEN_BUCKET:
	case RATE_LEAKY_BUCKET: MUST(r->burst <= (EXACT_MAX - 1) / window); break;
	}
	if (r->algorithm != RATE_TOKEN_BUCKET && r->algorithm != RATE_LEAKY_BUCKET)
		MUST(r->burst == r->count);
	MUST(r->max_delay_us >= 0 && r->max_delay_us < INT64_C(1) << 48);
	MUST(r->max_delay_us == 0 || r->algorithm == RATE_LEAKY_BUCKET);
}

static void check_rule(const struct rule *r)
{
	struct buf text = { 0 };

	MUST(r->key);
	if (r->counting == COUNT_LIMITED) {
		check_rate(&r->rate);
		MUST(r->cost.fixed >= 1 && r->cost.fixed <= r->rate.burst);
		if (r->cost.source != COST_FIXED) {
			MUST(r->cost.name && *r->cost.name);
			MUST(r->cost.min >= 1 && r->cost.min <= r->cost.max);
			MUST(r->cost.max <= r->rate.burst);
			MUST(r->cost.fixed >= r->cost.min && r->cost.fixed <= r->cost.max);
		}
	}
	MUST((r->type == RULE_CUSTOM) == (r->n_pieces > 0));
	MUST(r->n_pieces <= PIECES_MAX && r->prefix <= 128);
	rule_put_limit(r, &text);
	MUST(buf_ok(&text) && text.n > 0);
	buf_release(&text);
}

static void check_tiers(const struct tiers *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct tier *tier = &t->list[i];
		const struct rule *first = tier->rules;

		MUST(tier->n_rules > 0 && tier->id[0] && tier->label[0]);
		for (const char *p = tier->label; *p; p++)
			MUST(*p > ' ' && *p < 0x7f && *p != '"' && *p != '\\');
		for (size_t j = 0; j < tier->n_rules; j++) {
			const struct rule *r = &tier->rules[j];

			check_rule(r);
			MUST(r->type == first->type && r->prefix == first->prefix);
			MUST(r->rate.algorithm == first->rate.algorithm);
			MUST(r->rate.window_us == first->rate.window_us);
			MUST(strcmp(r->key, first->key) == 0);
		}
	}
}

/* What is told is for a terminal and a log: nothing in it may steer one. */
static void check_told(struct mistakes *m)
{
	static char name[] = "endpoint.ini";
	static char *const files[] = { name };
	struct buf text = { 0 };

	for (size_t i = 0; i < m->n; i++)
		m->list[i].at.file = name;
	mistakes_write(m, files, 1, &text);
	MUST(buf_ok(&text));
	for (size_t i = 0; i < text.n; i++)
		MUST((unsigned char)text.p[i] >= ' ' || strchr("\n\t", text.p[i]));
	buf_release(&text);
}

/* Lines with control bytes end before they come here (config/ini.c). */
static bool is_text(struct view line)
{
	for (size_t i = 0; i < line.n; i++)
		if (((unsigned char)line.p[i] < ' ' && line.p[i] != '\t') ||
			line.p[i] == 0x7f)
			return false;
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view rest = view_of((const char *)data, size);
	struct rule rules[RULES_MAX];
	struct mistakes m = { 0 };
	struct tiers tiers = { 0 };
	size_t n = 0;

	while (rest.n && n < RULES_MAX) {
		struct view line = fuzz_copy(view_cut(&rest, '\n'));
		struct place at = { "endpoint.ini", (unsigned)n + 1 };
		size_t errors = m.errors;

		if (!is_text(line)) {
			fuzz_drop(line);
			continue;
		}
		if (rule_read(line, at, &rules[n], &m)) {
			MUST(m.errors == errors);
			check_rule(&rules[n++]);
		} else {
			MUST(m.errors > errors);
		}
		rule_odd_line(line, at, &m);
		fuzz_drop(line);
	}
	if (tiers_build(&tiers, rules, n, false, &m))
		check_tiers(&tiers);
	check_told(&m);
	tiers_release(&tiers);
	mistakes_release(&m);
	return 0;
}
