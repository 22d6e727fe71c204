/*
 * test_exact.c - the promise itself: nobody passes over a limit and nobody is refused
 * below it, however many ask at once, of however many processes.
 */
#include "site.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
	CLIENTS = 64,
	EACH = 4, /* requests of each client */
	RUNS = 50,
	LIMIT = 100,
};

struct crowd {
	const struct weir *const *weirs; /* taken in turn */
	size_t n_weirs;
	const char *uri;
	pthread_barrier_t start;
	atomic_int passed, refused, other;
};

struct member {
	struct crowd *crowd;
	size_t number;
	pthread_t thread;
};

static void *ask(void *arg)
{
	struct member *m = arg;
	struct crowd *c = m->crowd;
	const char *addr = c->weirs[m->number % c->n_weirs]->addr;
	struct fcgi_request rq = { .uri = c->uri, .keep = true };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(addr);

	fcgi_compose(&b, &rq);
	fcgi_answer_init(&a);
	pthread_barrier_wait(&c->start);
	for (int i = 0; i < EACH; i++) {
		int status = 0;

		buf_reset(&a.out);
		if (fd >= 0 && fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 20000))
			status = answer_status(&a);
		atomic_fetch_add(status == 200  ? &c->passed
				: status == 429 ? &c->refused
						: &c->other,
			1);
		/* A refusal may close the connection. */
		if (!a.closed && status != 429)
			continue;
		if (fd >= 0)
			close(fd);
		fd = dial(addr);
		fcgi_answer_release(&a);
	}
	if (fd >= 0)
		close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
	return NULL;
}

static void crowd_run(struct crowd *c)
{
	static struct member members[CLIENTS];

	atomic_store(&c->passed, 0);
	atomic_store(&c->refused, 0);
	atomic_store(&c->other, 0);
	pthread_barrier_init(&c->start, NULL, CLIENTS);
	for (size_t i = 0; i < CLIENTS; i++) {
		members[i] = (struct member){ .crowd = c, .number = i };
		cr_assert_eq(pthread_create(&members[i].thread, NULL, ask, &members[i]), 0);
	}
	for (size_t i = 0; i < CLIENTS; i++)
		pthread_join(members[i].thread, NULL);
	pthread_barrier_destroy(&c->start);
}

/* Each run counts from nothing: its path is an endpoint of its own. */
static const char *endpoints(const char *algorithm)
{
	struct buf all = { 0 };
	const char *s;

	for (int i = 0; i < RUNS; i++)
		buf_addf(&all,
			"[endpoint run%d]\nmatch = GET /run%d\nbackend = plain\n"
			"@RateLimit = type=ip count=%d window=%s algorithm=%s\n",
			i, i, LIMIT, algorithm[0] == 's' ? "60s" : "1h", algorithm);
	s = text("%s", buf_str(&all));
	buf_release(&all);
	return s;
}

static void expect_exact(const char *store, const char *server, size_t n_weirs,
	const char *algorithm, const char *decided)
{
	static const struct backend_script plain;
	const char *addr = addr_unix("plain.sock");
	struct weir *weirs[4] = { 0 };
	struct crowd c = { .weirs = (const struct weir *const *)weirs, .n_weirs = n_weirs };
	int64_t decisions = 0;

	backend_start(addr, &plain);
	for (size_t i = 0; i < n_weirs; i++)
		weirs[i] = weir_start(&(struct weir_spec){ .server = server,
			.sections = text("%s[backend plain]\nfastcgi = %s\n", store, addr),
			.endpoints = endpoints(algorithm) });
	for (int run = 0; run < RUNS; run++) {
		c.uri = text("/run%d", run);
		crowd_run(&c);
		cr_assert_eq(c.other, 0, "run %d: %d without an answer", run, c.other);
		cr_assert_eq(c.passed, LIMIT, "run %d: %d passed, %d refused, limit %d",
			run, c.passed, c.refused, LIMIT);
	}
	for (size_t i = 0; i < n_weirs; i++) {
		cr_assert(weir_counts(weirs[i], "decisions_fallback", 0, 5000),
			"some were decided without Redis: the numbers prove nothing");
		decisions += weir_counter(weirs[i], decided);
	}
	cr_assert(decisions >= RUNS * LIMIT, "%ld decisions", decisions);
}

static const char *redis_section(void)
{
	/* The patience is for a busy test machine: no decision may be local here. */
	return text("[store]\ntype = redis\nurl = %s\ntimeout = 5s\n", redis_start()->url);
}

Test(exact, over_two_processes_on_one_redis_by_sliding_window, .timeout = 120)
{
	expect_exact(
		redis_section(), "workers = 2\n", 2, "sliding_window", "decisions_redis");
}

Test(exact, over_two_processes_on_one_redis_by_token_bucket, .timeout = 120)
{
	expect_exact(
		redis_section(), "workers = 2\n", 2, "token_bucket", "decisions_redis");
}

Test(exact, over_four_workers_in_memory_by_sliding_window, .timeout = 120)
{
	expect_exact("[store]\ntype = memory\n", "workers = 4\n", 1, "sliding_window",
		"decisions_memory");
}

Test(exact, over_four_workers_in_memory_by_token_bucket, .timeout = 120)
{
	expect_exact("[store]\ntype = memory\n", "workers = 4\n", 1, "token_bucket",
		"decisions_memory");
}
