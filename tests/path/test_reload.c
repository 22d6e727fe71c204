/*
 * test_reload.c - SIGHUP: new rules without a restart, and mistakes that change nothing.
 */
#include "site.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const struct backend_script plain;

#define RULE                                              \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n" \
	"@RateLimit = type=ip count=%d window=1h\n"

static struct weir *counting_to(int count)
{
	const char *addr = addr_unix("plain.sock");

	backend_start(addr, &plain);
	return weir_start(&(struct weir_spec){ .server = "workers = 2\n",
		.sections = text(
			"[store]\ntype = memory\n[backend plain]\nfastcgi = %s\n", addr),
		.endpoints = text(RULE, count) });
}

static int get(const struct weir *w)
{
	struct fcgi_request rq = { .uri = "/a" };
	struct fcgi_answer a;
	int status = fcgi_call(w->addr, &rq, &a, 5000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

/* Another endpoint's file, and a reload that goes as the words say. */
static const char *renew(const struct weir *w, const char *endpoint, const char *words)
{
	file_replace(endpoint_file(w, "a"), endpoint);
	return reload(w, words);
}

/* A reload is taken by each worker in its own time. */
#define REACHES(w, status) WAIT_UNTIL(3000, get(w) == (status))

Test(reload, takes_a_new_count_at_once_and_keeps_what_was_consumed)
{
	struct weir *w = counting_to(3);

	for (int i = 0; i < 3; i++)
		cr_assert_eq(get(w), 200);
	cr_assert_eq(get(w), 429);
	renew(w, text(RULE, 5), RELOADED);
	cr_assert(REACHES(w, 200));
	/* Four are consumed: one is left, and then none. */
	cr_assert(WAIT_UNTIL(3000, weir_counter(w, "requests_passed") == 5 || get(w) == 0));
	cr_assert_eq(get(w), 429);
	renew(w, text(RULE, 4), RELOADED);
	cr_assert_eq(get(w), 429);
	cr_assert(weir_counts(w, "requests_passed", 5, 5000));
}

Test(reload, keeps_the_old_rules_when_the_new_ones_have_mistakes)
{
	struct weir *w = counting_to(2);
	const char *file = endpoint_file(w, "a");

	cr_assert_eq(get(w), 200);
	renew(w, "[endpoint a]\nmatch = GET /a\nbackend = plain\n@RateLimit = count=many\n",
		RELOAD_FAILS);
	cr_assert(process_logs(w->process, text("%s:4", file), 1000), "%s",
		process_log(w->process));
	cr_assert_eq(get(w), 200);
	cr_assert_eq(get(w), 429);
	renew(w, text(RULE, 3), RELOADED);
	cr_assert(REACHES(w, 200));
}

Test(reload, names_what_needs_a_restart)
{
	struct weir *w = counting_to(2);
	const char *ini = file_read(w->ini), *at = strstr(ini, "workers = 2");

	cr_assert_not_null(at);
	file_write(w->ini,
		text("%.*sworkers = 1%s", (int)(at - ini), ini,
			at + strlen("workers = 2")));
	renew(w, text(RULE, 2), "need a restart");
	cr_assert(process_logs(w->process, "options=server.workers", 1000), "%s",
		process_log(w->process));
}

static _Atomic bool done;
static atomic_uint asked, failed;

static void *keep_asking(void *weir)
{
	while (!atomic_load(&done)) {
		int status = get(weir);

		atomic_fetch_add(&asked, 1);
		if (status != 200 && status != 429)
			atomic_fetch_add(&failed, 1);
	}
	return NULL;
}

Test(reload, fails_no_request_and_loses_no_count, .timeout = 60)
{
	struct weir *w = counting_to(1000);
	pthread_t threads[4];

	for (size_t i = 0; i < COUNT_OF(threads); i++)
		pthread_create(&threads[i], NULL, keep_asking, w);
	for (int i = 0; i < 50; i++)
		renew(w, text(RULE, 1000 + i % 2), RELOADED);
	cr_assert(WAIT_UNTIL(20000, weir_counter(w, "requests_refused") > 0));
	atomic_store(&done, true);
	for (size_t i = 0; i < COUNT_OF(threads); i++)
		pthread_join(threads[i], NULL);
	cr_assert_eq(failed, 0, "%u of %u requests failed", failed, asked);
	/* The last rules allow 1001, and so many have passed. */
	cr_assert(weir_counts(w, "requests_passed", 1001, 5000), "%lld passed",
		(long long)weir_counter(w, "requests_passed"));
}
