/*
 * test_redis_names.c - a Redis that is known by its name: where the name leads by then,
 * and whose the probe is while somebody looks it up.
 *
 * The resolver is this file's own, in front of libc's: NAME leads to the unix socket the
 * test says, and each look-up takes as long as it wants. Several stores on one loop stand for the workers.
 */
#include <criterion/criterion.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/counters.h"
#include "fake.h"
#include "support.h"

#define NAME "redis.test"

/* Look-ups are numbered from 1 by when they begin. */
static atomic_uint begun, ended;
static _Atomic unsigned held_from; /* 0: none is held back */
static atomic_bool let_go[64];     /* but these */
static const char *_Atomic leads_to;

struct found {
	struct addrinfo info;
	struct sockaddr_un at;
};

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **out)
{
	struct found *found;
	unsigned n;

	(void)service;
	(void)hints;
	if (strcmp(host, NAME) != 0)
		return EAI_NONAME;
	n = atomic_fetch_add(&begun, 1) + 1;
	while (atomic_load(&held_from) && n >= atomic_load(&held_from) &&
		!atomic_load(&let_go[n % COUNT_OF(let_go)]))
		wait_a_little();
	found = calloc(1, sizeof(*found));
	if (!found)
		return EAI_MEMORY;
	found->at.sun_family = AF_UNIX;
	memcpy(found->at.sun_path, atomic_load(&leads_to), strlen(atomic_load(&leads_to)));
	found->info = (struct addrinfo){ .ai_family = AF_UNIX,
		.ai_socktype = SOCK_STREAM,
		.ai_addr = (struct sockaddr *)&found->at,
		.ai_addrlen = sizeof(found->at) };
	*out = &found->info;
	atomic_fetch_add(&ended, 1);
	return 0;
}

void freeaddrinfo(struct addrinfo *info)
{
	if (info)
		free(CONTAINER_OF(info, struct found, info));
}

static void ask_by_name(struct asker *a)
{
	static char name[] = NAME;

	asker_init(a, NULL);
	a->servers[0].host = name;
	a->servers[0].port = 6379;
}

Test(names, lead_to_where_they_point_when_a_connection_is_made)
{
	struct fake_redis *first = start_fake("first", NULL);
	struct fake_redis *second = start_fake("second", NULL);
	struct asker a;

	ask_by_name(&a);
	leads_to = test_path("first");
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	leads_to = test_path("second");
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	cr_assert_eq(fake_redis_count(second, ""), 0, "it stays where it is");
	cr_assert_eq(begun, 1);
	/* The host of the first is still there; the name is another's. */
	fake_redis_stop(first);
	first = start_fake("first", NULL);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	cr_assert_geq(fake_redis_count(second, "EVALSHA"), 1u);
	cr_assert_eq(fake_redis_count(first, ""), 0);
	cr_assert_eq(begun, 2);
	asker_stop(&a);
	fake_redis_stop(first);
	fake_redis_stop(second);
}

/* Two workers and an open breaker, with a name that leads to nobody; look-ups from now on
 * are held back. */
struct pair {
	struct asker a;
	struct store *other;
	unsigned n; /* look-ups before that */
};

static void pair_start(struct pair *p, int64_t timeout_ms)
{
	leads_to = test_path("nobody");
	ask_by_name(&p->a);
	p->a.config->store.breaker_failures = 2;
	p->a.config->store.breaker_pause_ms = 100;
	p->a.config->store.timeout_ms = timeout_ms;
	asker_start(&p->a);
	p->other = store_new(&p->a.loop, p->a.config, p->a.shared);
	cr_assert(p->other);
	cr_assert(
		RUN_UNTIL(&p->a, PATIENCE_MS, counter_sum(COUNT_store_breaker_open) == 1));
	p->n = begun;
	held_from = p->n + 1;
}

/* One of them looks the name up, and then, as that takes so long, the other too. */
static void pair_looks_up(struct pair *p)
{
	cr_assert(RUN_UNTIL(&p->a, PATIENCE_MS, begun == p->n + 1));
	cr_assert(RUN_UNTIL(&p->a, PATIENCE_MS, begun == p->n + 2));
}

static void pair_let_go(const struct pair *p, unsigned which)
{
	atomic_store(&let_go[(p->n + which) % COUNT_OF(let_go)], true);
}

static void pair_stop(struct pair *p)
{
	held_from = 0;
	store_close(p->other);
	asker_stop(&p->a);
}

Test(names, that_are_looked_up_for_long_keep_nobody_from_the_probe)
{
	struct fake_redis *f = start_fake("fake", NULL);
	struct pair p;

	pair_start(&p, 100);
	leads_to = test_path("fake");
	pair_looks_up(&p);
	/* He who began first is done first; the other goes on for ever. */
	pair_let_go(&p, 1);
	cr_assert(RUN_UNTIL(&p.a, PATIENCE_MS, counter_sum(COUNT_store_breaker_open) == 0));
	cr_assert(decided_by_redis_within(&p.a, PATIENCE_MS));
	cr_assert_eq(ended, p.n + 1);
	pair_stop(&p);
	fake_redis_stop(f);
}

Test(names, that_were_looked_up_for_too_long_leave_the_probe_to_another)
{
	/* The first that is called does not answer. */
	const struct fake_rule rules[] = { { "INFO", 1, 1 }, { "SCRIPT", 1, 1 }, { 0 } };
	struct fake_redis *f = start_fake("fake", rules);
	int64_t failures;
	struct pair p;

	pair_start(&p, 2000);
	leads_to = test_path("fake");
	pair_looks_up(&p);
	failures = counter_sum(COUNT_store_failures);
	pair_let_go(&p, 2);
	cr_assert(RUN_UNTIL(&p.a, PATIENCE_MS, fake_redis_count(f, "INFO") == 1));
	pair_let_go(&p, 1);
	/* What he has found is of no use while that probe goes on. */
	cr_assert(
		RUN_UNTIL(&p.a, PATIENCE_MS, counter_sum(COUNT_store_failures) > failures));
	cr_assert_eq(ended, p.n + 2);
	cr_assert_eq(fake_redis_most(f), 1);
	held_from = 0;
	cr_assert(RUN_UNTIL(&p.a, PATIENCE_MS, counter_sum(COUNT_store_breaker_open) == 0));
	cr_assert(decided_by_redis_within(&p.a, PATIENCE_MS));
	pair_stop(&p);
	fake_redis_stop(f);
}
