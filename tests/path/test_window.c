/*
 * test_window.c - no window of any place holds more than its limit, counted event by
 * event from what Redis keeps while several processes are hammered.
 *
 * The moments of all that was admitted are collected from the keys as they pass through
 * them, and looked at as one list afterwards. WEIR_WINDOW_SECONDS sets how long (6).
 */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"

enum {
	WEIRS = 3,
	CLIENTS = 64,
	ADDRESSES = 6,
	KEYS_MAX = 64,
	HEAD = 26, /* bytes of a state before its events (store/take.lua) */
};

/* Cost 7 leaves a rest of 60 that nobody can use. Each endpoint has a broad tier as well
 * that never refuses: a fixed window so long that it holds the whole run. */
#define BROAD "algorithm=fixed_window count=1000000 window=1000d\n"

static const char endpoints[] =
	"[endpoint one]\nmatch = GET /one\nbackend = plain\n"
	"@RateLimit = type=ip count=40 window=2s\n"
	"@RateLimit = type=global " BROAD
	"[endpoint two]\nmatch = GET /two\nbackend = plain\n"
	"@RateLimit = type=ip count=25 window=1500ms\n"
	"@RateLimit = type=global count=90 window=2s\n"
	"@RateLimit = type=global algorithm=token_bucket count=100000 window=1s\n"
	"@RateLimit = type=global algorithm=sliding_counter count=100000 window=1s\n"
	"@RateLimit = type=global " BROAD
	"[endpoint three]\nmatch = GET /three\nbackend = plain\n"
	"@RateLimit = type=ip count=60 window=3s cost=7\n"
	"@RateLimit = type=global cost=7 " BROAD;

static const char *const uris[] = { "/one", "/two", "/three" };

/* By what a key has in it. */
static const struct limit {
	const char *word;
	unsigned uri; /* of uris */
	uint64_t count, cost;
	int64_t window_us;
} limits[] = {
	{ ":one:", 0, 40, 1, 2000000 },
	{ ":two:", 1, 25, 1, 1500000 },
	{ "{two}:sw", 1, 90, 1, 2000000 },
	{ ":three:", 2, 60, 7, 3000000 },
};

static atomic_bool over;
static atomic_long passed[COUNT_OF(uris)], refused, other;

struct client {
	const char *addr;
	unsigned number;
	pthread_t thread;
};

static int ask_once(int *fd, const struct client *c, unsigned uri, struct fcgi_answer *a)
{
	char address[32];
	struct fcgi_request rq = { .uri = uris[uri], .keep = true, .address = address };
	struct buf b = { 0 };
	int status = 0;

	snprintf(address, sizeof(address), "192.0.2.%u", c->number % ADDRESSES);
	fcgi_compose(&b, &rq);
	buf_reset(&a->out);
	if (*fd < 0)
		*fd = dial(c->addr);
	if (*fd >= 0 && fcgi_exchange(*fd, buf_view(&b), a, FCGI_UNTIL_END, 20000))
		status = answer_status(a);
	buf_release(&b);
	/* A refusal may close the connection. */
	if (*fd >= 0 && (a->closed || status != 200)) {
		close(*fd);
		*fd = -1;
		fcgi_answer_release(a);
		fcgi_answer_init(a);
	}
	return status;
}

static void *hammer(void *arg)
{
	const struct client *c = arg;
	struct fcgi_answer a;
	int fd = -1;

	fcgi_answer_init(&a);
	for (unsigned i = c->number; !atomic_load(&over); i++) {
		const unsigned uri = i % COUNT_OF(uris);
		int status = ask_once(&fd, c, uri, &a);

		atomic_fetch_add(status == 200  ? &passed[uri]
				: status == 429 ? &refused
						: &other,
			1);
	}
	if (fd >= 0)
		close(fd);
	fcgi_answer_release(&a);
	return NULL;
}

/* Everything a key ever held. */
struct history {
	char key[128];
	const struct limit *limit;
	int64_t *at_us;
	size_t n, cap;
};

static struct history histories[KEYS_MAX];
static size_t n_histories;

static struct history *history_of(const char *key)
{
	const struct limit *limit = NULL;

	for (size_t i = 0; i < n_histories; i++)
		if (strcmp(histories[i].key, key) == 0)
			return &histories[i];
	for (size_t i = 0; i < COUNT_OF(limits); i++)
		if (strstr(key, limits[i].word))
			limit = &limits[i];
	cr_assert(limit && n_histories < KEYS_MAX, "%s", key);
	snprintf(histories[n_histories].key, sizeof(histories[0].key), "%s", key);
	histories[n_histories].limit = limit;
	return &histories[n_histories++];
}

static int64_t big_endian(const char *p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v = v << 8 | (unsigned char)p[i];
	return (int64_t)v;
}

static void add(struct history *h, int64_t at_us)
{
	if (h->n == h->cap) {
		h->cap = h->cap ? h->cap * 2 : 1024;
		h->at_us = realloc(h->at_us, h->cap * sizeof(*h->at_us));
		cr_assert(h->at_us);
	}
	h->at_us[h->n++] = at_us;
}

/* Adds what is newer than all that was seen; of one moment, as many as are more. */
static void read_state(struct history *h, const char *p, size_t bytes)
{
	const int64_t last_us = h->n ? h->at_us[h->n - 1] : INT64_MIN;
	int64_t base, first, n, same = 0;
	size_t room;

	cr_assert(bytes > HEAD && memcmp(p, "w1", 2) == 0, "%s", h->key);
	base = big_endian(p + 2, 8);
	first = big_endian(p + 18, 4);
	n = big_endian(p + 22, 4);
	room = (bytes - HEAD) / 6;
	for (size_t i = h->n; i > 0 && h->at_us[i - 1] == last_us; i--)
		same++;
	for (int64_t i = 0; i < n; i++) {
		size_t at = HEAD + 6 * (size_t)((first + i) % (int64_t)room);
		int64_t at_us = base + big_endian(p + at, 6);

		if (at_us > last_us || (at_us == last_us && same-- <= 0))
			add(h, at_us);
	}
}

/* The longest time between two looks. An event stays for a window at least. */
static int64_t read_ms, unseen_ms;

static void read_all(redisContext *c)
{
	const int64_t last_ms = read_ms ? read_ms : now_ms();
	redisReply *keys;

	read_ms = now_ms();
	keys = redisCommand(c, "KEYS *:sw*");
	cr_assert(keys && keys->type == REDIS_REPLY_ARRAY);
	for (size_t i = 0; i < keys->elements; i++) {
		redisReply *state = redisCommand(c, "GET %s", keys->element[i]->str);

		if (state && state->type == REDIS_REPLY_STRING)
			read_state(
				history_of(keys->element[i]->str), state->str, state->len);
		freeReplyObject(state);
	}
	freeReplyObject(keys);
	if (now_ms() - last_ms > unseen_ms)
		unseen_ms = now_ms() - last_ms;
}

/* The most that any window of that length holds, wherever it begins. */
static uint64_t most_in_a_window(const struct history *h)
{
	size_t from = 0;
	uint64_t most = 0;

	for (size_t to = 0; to < h->n; to++) {
		while (h->at_us[to] - h->at_us[from] >= h->limit->window_us)
			from++;
		if (to - from + 1 > most)
			most = to - from + 1;
	}
	return most;
}

static void check(const struct history *h)
{
	const struct limit *l = h->limit;
	const uint64_t reach = l->count / l->cost * l->cost;
	const uint64_t most = most_in_a_window(h);

	for (size_t i = 1; i < h->n; i++)
		cr_assert_geq(h->at_us[i], h->at_us[i - 1], "%s runs backwards", h->key);
	cr_assert_leq(most, l->count, "%s: %lu in a window of %lu", h->key, most, l->count);
	/* Hammered as they were, all limits were reached, and more than once. */
	cr_assert(l->word[0] == ':' && l->uri == 1 ? most > 0
						   : most == reach ||
				under_valgrind(), /* which leaves no time to hammer */
		"%s: never more than %lu of %lu", h->key, most, reach);
	cr_assert(l->uri == 1 || h->n > reach, "%s: %zu in all", h->key, h->n);
}

static void start_weirs(struct weir **weirs, const char *url)
{
	static const struct backend_script plain;
	const char *addr = addr_unix("plain.sock");

	backend_start(addr, &plain);
	/* The patience is for a busy test machine: no decision may be local here. */
	for (unsigned i = 0; i < WEIRS; i++)
		weirs[i] = weir_start(&(struct weir_spec){ .server = "workers = 2\n",
			.sections = text("[store]\ntype = redis\nurl = %s\ntimeout = 5s\n"
					 "[backend plain]\nfastcgi = %s\n",
				url, addr),
			.endpoints = endpoints });
}

static void start_clients(struct client *clients, struct weir *const *weirs)
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i] = (struct client){ .addr = weirs[i % WEIRS]->addr, .number = i };
		cr_assert_eq(
			pthread_create(&clients[i].thread, NULL, hammer, &clients[i]), 0);
	}
}

/* What the broad tier of an endpoint has counted (state: store/take.lua). */
static uint64_t broad_used(redisContext *c, const char *uri)
{
	redisReply *keys = redisCommand(c, "KEYS rate:global:{%s}:fw*", uri + 1);
	redisReply *state;
	uint64_t used;

	cr_assert(keys && keys->type == REDIS_REPLY_ARRAY);
	cr_assert_eq(keys->elements, 1u, "%s", uri);
	state = redisCommand(c, "GET %s", keys->element[0]->str);
	cr_assert(state && state->type == REDIS_REPLY_STRING);
	cr_assert(state->len == 18 && memcmp(state->str, "f1", 2) == 0);
	used = (uint64_t)big_endian(state->str + 10, 8);
	freeReplyObject(state);
	freeReplyObject(keys);
	return used;
}

/* Each broad tier has counted what passed, no less and no more: a refusal by another tier
 * cost it nothing. */
static void check_broad(redisContext *c)
{
	static const uint64_t costs[COUNT_OF(uris)] = { 1, 1, 7 };

	for (size_t i = 0; i < COUNT_OF(uris); i++) {
		const uint64_t used = broad_used(c, uris[i]);
		const uint64_t all = costs[i] * (uint64_t)atomic_load(&passed[i]);

		cr_assert_gt(all, 0u);
		cr_assert_eq(used, all, "%s: %lu counted, %lu passed", uris[i], used, all);
	}
}

/* The events that were seen are some of what passed, and all of it where none can have
 * come and gone between two looks. */
static void check_events(void)
{
	for (size_t l = 0; l < COUNT_OF(limits); l++) {
		const uint64_t all = limits[l].cost *
			(uint64_t)atomic_load(&passed[limits[l].uri]);
		uint64_t events = 0;

		for (size_t i = 0; i < n_histories; i++)
			if (histories[i].limit == &limits[l])
				events += histories[i].n;
		cr_assert_leq(events, all, "%s", limits[l].word);
		if (unseen_ms < 1500)
			cr_assert_eq(events, all, "%s: %lu events, %lu passed",
				limits[l].word, events, all);
	}
}

Test(window, no_window_over_three_processes_holds_more_than_its_limit, .timeout = 280)
{
	const char *given = getenv("WEIR_WINDOW_SECONDS");
	const int64_t ends_ms = (given ? atoi(given) : 6) * INT64_C(1000);
	struct client clients[CLIENTS];
	struct weir *weirs[WEIRS];
	struct redis *r = redis_start();
	redisContext *c = redisConnectUnix(r->socket);
	size_t events = 0;
	int64_t began_ms;

	cr_assert(c && !c->err);
	start_weirs(weirs, r->url);
	began_ms = read_ms = now_ms();
	start_clients(clients, weirs);
	while (now_ms() - began_ms < ends_ms) {
		read_all(c);
		usleep(50000);
	}
	atomic_store(&over, true);
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(clients[i].thread, NULL);
	read_all(c);
	cr_assert_eq(atomic_load(&other), 0, "%ld without an answer", atomic_load(&other));
	for (unsigned i = 0; i < WEIRS; i++)
		cr_assert(weir_counts(weirs[i], "decisions_fallback", 0, 5000),
			"some were decided without Redis: the numbers prove nothing");
	cr_assert_eq(n_histories, 3 * ADDRESSES + 1u);
	for (size_t i = 0; i < n_histories; i++) {
		events += histories[i].n;
		check(&histories[i]);
	}
	cr_assert_gt(atomic_load(&refused), 100);
	check_broad(c);
	check_events();
	redisFree(c);
	fprintf(stderr,
		"%zu events in %zu keys, looked at every %ld ms or sooner, %ld refused\n",
		events, n_histories, unseen_ms, atomic_load(&refused));
}
