/*
 * config/endpoints.c - from what one file says to an endpoint, and to the site's tiers.
 */
#include <stdlib.h>

#include "config/load.h"
#include "config/pattern.h"
#include "config/rule_read.h"

static bool name_is_new(struct load *l)
{
	for (size_t i = 0; i < l->config->n_endpoints; i++) {
		const struct endpoint *other = &l->config->endpoints[i];

		if (strcmp(other->name, l->endpoint_name) != 0)
			continue;
		mistake_add(l->m, load_here(l, l->rules_line),
			"[endpoint %s] is also the name of %s:%u; write another",
			other->name, other->file, other->line);
		return false;
	}
	return true;
}

/* The line of the option a sentence of pattern_add() begins with. */
static struct place pattern_place(const struct load *l, struct view why)
{
	const struct option *o = option_find(VIEW("endpoint"), view_cut(&why, ':'));
	unsigned line = o ? l->section_lines[o - options] : 0;

	return load_here(l, line ? line : l->rules_line);
}

static void add_pattern(struct load *l)
{
	struct endpoint *endpoints = l->config->endpoints;
	const struct pattern_text text = { l->endpoint.match, l->endpoint.host,
		l->endpoint.query };
	struct buf why = { 0 };
	struct place at;
	size_t tie;

	if (!text.match) {
		mistake_add(l->m, load_here(l, l->rules_line),
			"[endpoint %s] has no match; write match = METHOD PATH",
			l->endpoint_name);
		return;
	}
	if (pattern_add(l->config->patterns, l->config->n_endpoints, &text, &why, &tie))
		return;
	at = pattern_place(l, buf_view(&why));
	if (!buf_str(&why))
		l->m->no_memory = true;
	else if (tie == SIZE_MAX)
		mistake_add(l->m, at, "endpoint.%s", why.p);
	else
		mistake_add(l->m, at,
			"endpoint.%s, %s at %s:%u: some request meets both, and neither is "
			"more specific; change one",
			why.p, endpoints[tie].name, endpoints[tie].file,
			endpoints[tie].line);
	buf_release(&why);
}

/* Whether the path of match has {name} in it. */
static bool path_has(struct view match, struct view name)
{
	struct view segment;

	while (match.n) {
		segment = view_trim(view_cut(&match, '/'));
		if (segment.n == name.n + 2 && segment.p[0] == '{' &&
			view_eq(view_of(segment.p + 1, name.n), name) &&
			segment.p[segment.n - 1] == '}')
			return true;
	}
	return false;
}

/* A {path:name} that the endpoint's path does not have would be empty for everybody. */
static void check_captures(struct load *l, const struct rule *r, const char *match)
{
	for (size_t i = 0; i < r->n_pieces; i++) {
		const struct key_piece *p = &r->pieces[i];

		if (p->kind != PIECE_PATH)
			continue;
		if (!match)
			mistake_add(l->m, (struct place){ r->file, r->line },
				"@RateLimit key: {path:%s} says nothing under [site], "
				"which "
				"has no match; write the rule under [endpoint NAME]",
				p->text);
		else if (!path_has(view_str(match), view_str(p->text)))
			mistake_add(l->m, (struct place){ r->file, r->line },
				"@RateLimit key: {path:%s} is not in match = %s; write "
				"{%s} "
				"for a segment there, or another name here",
				p->text, match, p->text);
	}
}

/* The endpoint joins the configuration even after a mistake, so that its name, its path
 * and its backend are known to the files that follow. */
void load_finish_endpoint(struct load *l)
{
	struct config *c = l->config;
	struct endpoint e = { .file = l->file, .line = l->rules_line }, *list;
	size_t rules = l->rules.n;

	if (!name_is_new(l))
		return;
	list = realloc(c->endpoints, (c->n_endpoints + 1) * sizeof(*list));
	if (!list) {
		l->m->no_memory = true;
		return;
	}
	c->endpoints = list;
	add_pattern(l);
	e.backend = c->server.backend;
	if (l->endpoint.backend)
		e.backend = load_find_backend(l, pattern_place(l, VIEW("backend")),
			"endpoint.backend", l->endpoint.backend);
	for (size_t i = 0; i < rules && l->endpoint.match; i++)
		check_captures(l, &l->rules.list[i], l->endpoint.match);
	l->rules.n = 0;
	if (tiers_build(&e.tiers, l->rules.list, rules, false, l->m) &&
		c->site.n + e.tiers.n > TIERS_MAX)
		mistake_add(l->m, load_here(l, l->rules_line),
			"[endpoint %s] has %zu tiers, with those of [site] %zu; a request "
			"can "
			"meet %d: merge rules, or take some away",
			l->endpoint_name, e.tiers.n, c->site.n + e.tiers.n, TIERS_MAX);
	e.name = l->endpoint_name;
	l->endpoint_name = NULL;
	list[c->n_endpoints++] = e;
}

void load_finish_site(struct load *l)
{
	size_t rules = l->rules.n;

	for (size_t i = 0; i < rules; i++)
		check_captures(l, &l->rules.list[i], NULL);
	l->rules.n = 0;
	if (tiers_build(&l->config->site, l->rules.list, rules, true, l->m) &&
		l->config->site.n > TIERS_MAX)
		mistake_add(l->m, load_here(l, l->rules_line),
			"[site] has %zu tiers; a request can meet %d: merge rules, or take "
			"some "
			"away",
			l->config->site.n, TIERS_MAX);
}
