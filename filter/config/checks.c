/*
 * config/checks.c - what single options and files cannot see: mistakes between two
 * places, and notices about what works and may not be meant.
 */
#include <stdlib.h>

#include "config/kinds.h"
#include "config/load.h"

struct place load_place(const struct load *l, const char *section, const char *name)
{
	const struct option *o = option_find(view_str(section), view_str(name));

	return (struct place){ l->config->files[0], o ? l->lines[o - options] : 0 };
}

static void no_such_backend(
	struct load *l, struct place at, const char *subject, const char *name)
{
	const struct config *c = l->config;
	struct buf hint = { 0 };

	buf_add_str(&hint, c->n_backends ? "there is " : "write ");
	for (size_t i = 0; i < c->n_backends; i++)
		buf_addf(&hint, "%s%s", i ? ", " : "", c->backends[i].name);
	if (!c->n_backends)
		buf_addf(&hint, "[backend %s] and what belongs to it", name);
	if (buf_str(&hint))
		mistake_value(
			l->m, at, subject, view_str(name), "is not a backend; %s", hint.p);
	else
		l->m->no_memory = true;
	buf_release(&hint);
}

const struct backend *load_find_backend(
	struct load *l, struct place at, const char *subject, const char *name)
{
	const struct config *c = l->config;

	for (size_t i = 0; i < c->n_backends; i++) {
		if (strcmp(c->backends[i].name, name) == 0)
			return &c->backends[i];
	}
	no_such_backend(l, at, subject, name);
	return NULL;
}

/* weir as its own backend would call itself until connections run out. */
static void check_loops(struct load *l)
{
	const struct config *c = l->config;

	for (size_t i = 0; i < c->server.n_listen; i++) {
		const struct net_addr *mine = &c->server.listen[i];

		if (c->server.control && strcmp(c->server.control, mine->text) == 0)
			mistake_add(l->m, load_place(l, "server", "control"),
				"server.control: \"%s\" is also in server.listen; write "
				"another",
				mine->text);
		for (size_t b = 0; b < c->n_backends; b++) {
			for (size_t a = 0; a < c->backends[b].n_addrs; a++) {
				if (!kind_same_addr(mine, &c->backends[b].addrs[a]))
					continue;
				mistake_add(l->m, load_place(l, "server", "listen"),
					"server.listen: \"%s\" is also an address of "
					"[backend %s], so "
					"weir would call itself; write another",
					mine->text, c->backends[b].name);
			}
		}
	}
}

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
		const char *key = tiers->list[i].rules[0].key;

		list[(*n)++] = (struct counted){ &tiers->list[i], key[0] ? key : where };
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
			"with "
			"another algorithm or window; write another name or key",
			list[i].tier->id, a->file, a->line);
	}
	free(list);
}

static void note_everybody(struct load *l, const struct networks *nets, const char *section,
	const char *name, const char *what)
{
	for (size_t i = 0; i < nets->n; i++) {
		if (nets->list[i].bits == 0) {
			mistake_notice(l->m, load_place(l, section, name),
				"%s.%s: a network of /0 is everybody: %s", section, name,
				what);
			return;
		}
	}
}

/* The log of a sliding window takes ten bytes for each event. */
#define LARGE_COUNT 1000000

static void note_large(struct load *l, const struct tiers *tiers)
{
	for (size_t i = 0; i < tiers->n; i++) {
		for (size_t j = 0; j < tiers->list[i].n_rules; j++) {
			const struct rule *r = &tiers->list[i].rules[j];

			if (r->rate.algorithm == RATE_SLIDING_WINDOW &&
				r->rate.count > LARGE_COUNT)
				mistake_notice(l->m, (struct place){ r->file, r->line },
					"@RateLimit count: a sliding_window of %llu keeps "
					"up to %llu "
					"megabytes for each client; algorithm=token_bucket "
					"keeps "
					"two numbers",
					(unsigned long long)r->rate.count,
					(unsigned long long)r->rate.count / 100000);
		}
	}
}

static void note_what_may_not_be_meant(struct load *l)
{
	const struct config *c = l->config;

	note_everybody(l, &c->client.trusted_proxies, "client", "trusted_proxies",
		"any client can then choose its address");
	note_everybody(l, &c->allow.networks, "allow", "networks", "nobody meets a limit");
	if (c->server.socket_mode & 02)
		mistake_notice(l->m, load_place(l, "server", "socket_mode"),
			"server.socket_mode: \"%04o\" lets every local user send requests "
			"in "
			"anybody's name",
			c->server.socket_mode);
	if (c->store.type == STORE_MEMORY)
		mistake_notice(l->m, load_place(l, "store", "type"),
			"store.type: memory counts in this process alone; where a web "
			"server "
			"starts several, each of them counts for itself");
	note_large(l, &c->site);
	for (size_t i = 0; i < c->n_endpoints; i++)
		note_large(l, &c->endpoints[i].tiers);
}

void load_check(struct load *l)
{
	check_loops(l);
	check_shared_keys(l);
	note_what_may_not_be_meant(l);
}
