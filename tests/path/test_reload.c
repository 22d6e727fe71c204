/*
 * test_reload.c - SIGHUP: new rules without a restart, and nobody notices but by them.
 * What mistakes do not change is in test_gate.c.
 */
#include "site.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct backend_script plain;

#define RULE                                              \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n" \
	"@RateLimit = type=ip count=%d window=1h\n"

#define IN_MEMORY "[store]\ntype = memory\n"

static struct weir *counting(const char *store, const char *backend, int count)
{
	return weir_start(&(struct weir_spec){ .server = "workers = 2\n",
		.sections = text("%s[backend plain]\nfastcgi = %s\n", store, backend),
		.endpoints = text(RULE, count) });
}

static struct weir *counting_to(int count)
{
	const char *addr = addr_unix("plain.sock");

	backend_start(addr, &plain);
	return counting(IN_MEMORY, addr, count);
}

static int call(const struct weir *w, const struct fcgi_request *rq)
{
	struct fcgi_answer a;
	int status = fcgi_call(w->addr, rq, &a, 20000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

static int get_as(const struct weir *w, const char *client, const char *param)
{
	const struct fcgi_request rq = { .uri = "/a",
		.address = client,
		.params = (const char *const[]){ param, NULL } };

	return call(w, &rq);
}

static int get(const struct weir *w)
{
	return get_as(w, NULL, NULL);
}

/* Another endpoint's file, and a reload that goes as the words say. */
static const char *renew(const struct weir *w, const char *endpoint, const char *words)
{
	file_replace(endpoint_file(w, "a"), endpoint);
	return reload(w, words);
}

/* weir.ini with other words for some that are in it. */
static void edit(const struct weir *w, const char *from, const char *to)
{
	const char *ini = file_read(w->ini), *at = strstr(ini, from);

	cr_assert_not_null(at, "no \"%s\" in\n%s", from, ini);
	file_replace(w->ini, text("%.*s%s%s", (int)(at - ini), ini, to, at + strlen(from)));
}

/* A reload is taken by each worker in its own time. */
#define REACHES(w, status) WAIT_UNTIL(10000, get(w) == (status))

/* ---- Rules ---- */

Test(reload, takes_a_new_count_at_once_and_keeps_what_was_consumed)
{
	struct weir *w = counting_to(3);

	for (int i = 0; i < 3; i++)
		cr_assert_eq(get(w), 200);
	cr_assert_eq(get(w), 429);
	renew(w, text(RULE, 5), RELOADED);
	cr_assert(REACHES(w, 200));
	/* Four are consumed: one is left, and then none. */
	cr_assert(
		WAIT_UNTIL(10000, weir_counter(w, "requests_passed") == 5 || get(w) == 0));
	cr_assert_eq(get(w), 429);
	renew(w, text(RULE, 4), RELOADED);
	cr_assert_eq(get(w), 429);
	cr_assert_eq(weir_counter(w, "requests_passed"), 5);
}

/* What needs no restart: an edit of weir.ini, and what a request meets before and after. */
Test(reload, takes_all_that_decides_who_is_asking_and_what_he_hears, .timeout = 60)
{
	static const struct {
		const char *edit;
		int before, after;
	} rows[] = {
		{ "[allow]\nnetworks = 192.0.2.0/24\n", 429, 200 },
		{ "[client]\nuser = remote_user\n", 429, 200 },
		{ "[client]\ntrusted_proxies = 192.0.2.7\n", 429, 200 },
	};
	struct weir *w = counting_to(1);
	const char *ini = file_read(w->ini);

	renew(w,
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=user count=1 window=1h\n",
		RELOADED);
	cr_assert(WAIT_UNTIL(10000, get_as(w, "192.0.2.7", NULL) == 429));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const char *user = text("REMOTE_USER=user%zu", i);
		const char *param = i == 2 ? "HTTP_X_FORWARDED_FOR=198.51.100.1" : user;

		cr_assert_eq(
			get_as(w, "192.0.2.7", param), rows[i].before, "%s", rows[i].edit);
		file_replace(w->ini, text("%s%s", ini, rows[i].edit));
		reload(w, RELOADED);
		cr_assert(WAIT_UNTIL(10000, get_as(w, "192.0.2.7", param) == rows[i].after),
			"%s", rows[i].edit);
		file_replace(w->ini, ini);
		reload(w, RELOADED);
		cr_assert(WAIT_UNTIL(10000, get_as(w, "192.0.2.7", param) == 429));
	}
}

Test(reload, ends_with_the_last_rules_however_many_were_asked_for, .timeout = 60)
{
	struct weir *w = counting_to(1);

	cr_assert_eq(get(w), 200);
	for (int i = 2; i <= 20; i++) {
		file_replace(endpoint_file(w, "a"), text(RULE, i));
		process_signal(w->process, SIGHUP);
	}
	/* One was used: nineteen are left. */
	cr_assert(WAIT_UNTIL(
		10000, get(w) != 429 && weir_counter(w, "requests_passed") == 20));
	cr_assert_eq(get(w), 429);
}

Test(reload, holds_up_no_end, .timeout = 60)
{
	struct weir *w = counting_to(2);

	for (int i = 0; i < 20; i++)
		process_signal(w->process, SIGHUP);
	process_signal(w->process, SIGTERM);
	process_signal(w->process, SIGHUP);
	cr_assert_eq(process_exit(w->process, 20000), 0, "%s", process_log(w->process));
}

/* Its weir.ini is a pipe, and weir waits for what comes. */
Test(reload, is_dropped_when_weir_ends_meanwhile, .timeout = 60)
{
	struct weir *w = counting_to(2);
	int fd;

	cr_assert_eq(unlink(w->ini), 0);
	cr_assert_eq(mkfifo(w->ini, 0600), 0);
	fd = open(w->ini, O_RDWR | O_CLOEXEC); /* a writer that is there from the start */
	cr_assert_geq(fd, 0);
	process_signal(w->process, SIGHUP);
	/* While it reads, it serves. */
	cr_assert_eq(get(w), 200);
	process_signal(w->process, SIGTERM);
	cr_assert(WAIT_UNTIL(10000, !addr_answers(w->addr)));
	cr_assert_eq(write(fd, "[log]\n", 6), 6);
	close(fd);
	cr_assert_eq(process_exit(w->process, 20000), 0, "%s", process_log(w->process));
	cr_assert_null(strstr(process_log(w->process), RELOADED));
}

/* ---- What needs a restart ---- */

static bool names(const char *log, const char *options)
{
	return strstr(log,
		text("event=\"these options have changed and need a restart\" "
		     "options=%s\n",
			options));
}

Test(reload, names_what_needs_a_restart_until_it_is_as_it_was, .timeout = 60)
{
	struct weir *w = counting_to(2);
	const char *last = text("config=%s\n", w->ini);

	edit(w, "workers = 2", "workers = 1\nbacklog = 7");
	reload(w, "need a restart");
	cr_assert(WAIT_UNTIL(5000,
		names(process_log(w->process), "\"server.backlog, server.workers\"")));
	/* With another change: the first two are still to be done. */
	edit(w, "type = memory", "type = redis");
	reload(w, "need a restart");
	cr_assert(WAIT_UNTIL(5000,
		names(process_log(w->process),
			"\"server.backlog, server.workers, store.type\"")));
	/* It counts in memory all the same. */
	cr_assert_eq(get(w), 200);
	cr_assert_eq(weir_counter(w, "decisions_memory"), 1);
	edit(w, "backlog = 7\n", "");
	edit(w, "workers = 1", "workers = 2");
	edit(w, "type = redis", "type = memory");
	reload(w, last);
	/* What comes behind that line has come once the next reload is told. */
	cr_assert_null(strstr(reload(w, last), "need a restart"));
}

/* Nobody listens there, so that the fallback decides. */
#define SILENT_REDIS "[store]\nurl = unix:///nowhere/redis.sock\n"

Test(reload, leaves_the_total_of_the_fallback_and_what_is_told_of_it, .timeout = 60)
{
	const char *addr = addr_unix("plain.sock");
	const struct fcgi_request rq = { .uri = "/a" };
	struct fcgi_answer a;
	struct weir *w;

	backend_start(addr, &plain);
	w = weir_start(&(struct weir_spec){ .server = "workers = 1\n",
		.sections = text(SILENT_REDIS "[fallback]\nrate = 2/h\n[reply]\n"
					      "[backend plain]\nfastcgi = %s\n",
			addr),
		.endpoints = text(RULE, 1000) });
	cr_assert_eq(get(w), 200);
	cr_assert_eq(get(w), 200);
	cr_assert_eq(get(w), 429);
	edit(w, "rate = 2/h", "rate = 50/m");
	edit(w, "[reply]\n", "[reply]\nx_rate_limit_fields = yes\n");
	reload(w, "need a restart");
	cr_assert(WAIT_UNTIL(5000, names(process_log(w->process), "fallback.rate")));
	for (bool taken = false; !taken; fcgi_answer_release(&a)) {
		const char *limit;

		cr_assert(fcgi_call(w->addr, &rq, &a, 20000));
		cr_assert_eq(answer_status(&a), 429);
		cr_assert_str_eq(
			answer_field(&a, "RateLimit-Policy"), "\"fallback\";q=2;w=3600");
		limit = answer_field(&a, "X-RateLimit-Limit");
		taken = limit != NULL;
		cr_assert(!taken || strcmp(limit, "2") == 0, "%s", limit);
	}
}

/* ---- Who is being served ---- */

Test(reload, lets_requests_end_under_the_rules_they_began_with, .timeout = 60)
{
	const char *dir = test_path("programs"), *go = test_path("go"),
		   *run = test_path("run");
	struct fcgi_request rq = { .uri = "/wait.sh" };
	struct fcgi_answer a;
	struct buf bytes = { 0 };
	const char *policy;
	struct weir *w;
	int fd;

	cr_assert_eq(mkdir(dir, 0755), 0);
	file_write(text("%s/wait.sh", dir),
		text("#!/bin/sh\n: >%s\nwhile [ ! -e %s ]; do sleep 0.05; done\n"
		     "printf 'Content-Type: text/plain\\n\\nunder the old rules'\n",
			run, go));
	cr_assert_eq(chmod(text("%s/wait.sh", dir), 0755), 0);
	w = weir_start(&(struct weir_spec){ .server = "workers = 1\n",
		.sections = text(IN_MEMORY "[backend cgi]\ncgi = %s\n", dir),
		.endpoints = "[endpoint a]\nmatch = GET /wait.sh\nbackend = cgi\n"
			     "@RateLimit = type=ip count=3 window=1h\n" });
	fcgi_compose(&bytes, &rq);
	fcgi_answer_init(&a);
	fd = dial(w->addr);
	cr_assert(fcgi_send(fd, buf_view(&bytes), 5000));
	cr_assert(WAIT_UNTIL(10000, access(run, F_OK) == 0));
	/* Another rule, and the backend it is waiting for is no more. */
	edit(w, text("[backend cgi]\ncgi = %s\n", dir),
		"[backend none]\nfastcgi = unix:/none.sock\n");
	renew(w,
		"[endpoint b]\nmatch = GET /wait.sh\nbackend = none\n"
		"@RateLimit = type=ip count=0\n",
		RELOADED);
	cr_assert(WAIT_UNTIL(10000, call(w, &rq) == 403));
	file_write(go, "");
	cr_assert(fcgi_exchange(fd, view_of("", 0), &a, FCGI_UNTIL_END, 20000));
	cr_assert_eq(answer_status(&a), 200);
	cr_assert(view_eq(answer_body(&a), VIEW("under the old rules")));
	policy = answer_field(&a, "RateLimit-Policy");
	cr_assert(policy && strstr(policy, "\"ip/sw1h\";q=3;w=3600"), "%s", policy);
	fcgi_answer_release(&a);
	buf_release(&bytes);
	close(fd);
}

Test(reload, lets_an_upload_end_under_the_limit_it_began_with, .timeout = 60)
{
	const char *addr = addr_unix("plain.sock");
	struct fcgi_request rq = { .uri = "/a", .pattern_bytes = 200000 };
	struct buf head = { 0 }, body = { 0 };
	struct fcgi_answer a;
	struct weir *w;
	int fd;

	backend_start(addr, &plain);
	w = weir_start(&(struct weir_spec){ .server = "workers = 1\nbackend = plain\n"
						      "body_limit = 1M\n",
		.sections = text(IN_MEMORY "[backend plain]\nfastcgi = %s\n", addr) });
	fcgi_compose_head(&head, &rq);
	fcgi_compose_body(&body, &rq);
	fcgi_answer_init(&a);
	fd = dial(w->addr);
	cr_assert(fcgi_send(fd, buf_view(&head), 5000));
	cr_assert(fcgi_send(fd, view_of(body.p, 1000), 5000));
	cr_assert(weir_counts(w, "requests", 1, 10000));
	edit(w, "body_limit = 1M", "body_limit = 1K");
	reload(w, RELOADED);
	cr_assert(WAIT_UNTIL(10000, call(w, &rq) == 413));
	cr_assert(fcgi_exchange(
		fd, view_skip(buf_view(&body), 1000), &a, FCGI_UNTIL_END, 20000));
	cr_assert_eq(answer_status(&a), 200);
	fcgi_answer_release(&a);
	buf_release(&head);
	buf_release(&body);
	close(fd);
}

Test(reload, keeps_sockets_and_connections, .timeout = 60)
{
	struct weir *w = counting_to(100);
	struct fcgi_request rq = { .uri = "/a", .keep = true };
	struct buf bytes = { 0 };
	struct fcgi_answer a;
	struct stat before, after;
	int fd = dial(w->addr), half = dial(w->addr);

	cr_assert_eq(stat(w->addr + strlen("unix:"), &before), 0);
	fcgi_compose(&bytes, &rq);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&bytes), &a, FCGI_UNTIL_END, 20000));
	/* Another in the middle of its head. */
	cr_assert(fcgi_send(half, view_of(bytes.p, 20), 5000));
	for (int i = 0; i < 3; i++) {
		renew(w, text(RULE, 100 + i), RELOADED);
		cr_assert(fcgi_exchange(fd, buf_view(&bytes), &a, FCGI_UNTIL_END, 20000));
		cr_assert_eq(answer_status(&a), 200);
	}
	cr_assert_eq(a.ends, 4);
	cr_assert(!a.closed);
	fcgi_answer_release(&a);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(
		half, view_skip(buf_view(&bytes), 20), &a, FCGI_UNTIL_END, 20000));
	cr_assert_eq(answer_status(&a), 200);
	cr_assert_eq(stat(w->addr + strlen("unix:"), &after), 0);
	cr_assert_eq(before.st_ino, after.st_ino, "the socket is another");
	fcgi_answer_release(&a);
	buf_release(&bytes);
	close(fd);
	close(half);
}

/* One worker, as each has its own connections. */
Test(reload, keeps_the_connections_and_the_health_of_unchanged_backends, .timeout = 60)
{
	const char *echo = echo_start(2), *down = addr_unix("down.sock");
	struct weir *w = weir_start(&(struct weir_spec){ .server = "workers = 1\n",
		.sections = text(IN_MEMORY "[backend plain]\nfastcgi = %s\nkeep = 2\n"
					   "keep_idle = 1m\n"
					   "[backend half]\nfastcgi = %s\nfastcgi = %s\n"
					   "max_fails = 1\nfail_timeout = 1h\n",
			echo, down, echo),
		.endpoints = text(RULE
			"[endpoint half]\nmatch = GET /half\nbackend = half\n",
			1000) });
	struct fcgi_request half = { .uri = "/half" };
	int64_t connects, reuses;

	/* The dead address is met, once, and left out. */
	cr_assert(WAIT_UNTIL(
		10000, call(w, &half) == 200 && weir_counter(w, "backend_ejections") == 1));
	cr_assert_eq(get(w), 200);
	cr_assert(weir_counts(w, "backend_idle", 1, 10000));
	connects = weir_counter(w, "backend_connects");
	reuses = weir_counter(w, "backend_reuses");
	for (int i = 1; i <= 5; i++) {
		renew(w, text(RULE, 1000 + i), RELOADED);
		cr_assert_eq(get(w), 200);
		cr_assert(weir_counts(w, "backend_reuses", reuses + i, 10000));
		cr_assert(weir_counts(w, "backend_idle", 1, 10000));
	}
	cr_assert_eq(weir_counter(w, "backend_connects"), connects);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(call(w, &half), 200);
	/* Nobody has looked at the dead address again. */
	cr_assert_eq(weir_counter(w, "backend_connects"), connects + 4);
	cr_assert_eq(weir_counter(w, "backend_ejections"), 1);
	cr_assert_eq(weir_counter(w, "backend_retries"), 0);
}

Test(reload, forgets_what_was_known_of_addresses_that_are_gone, .timeout = 60)
{
	const char *echo = echo_start(2), *down = addr_unix("down.sock");
	const char *both = text("fastcgi = %s\nfastcgi = %s\n", down, echo);
	struct weir *w = weir_start(&(struct weir_spec){ .server = "workers = 2\n",
		.sections = text(IN_MEMORY
			"[backend half]\n%smax_fails = 1\nfail_timeout = 1h\n",
			both),
		.endpoints = "[endpoint half]\nmatch = GET /half\nbackend = half\n" });
	struct fcgi_request half = { .uri = "/half" };

	for (int times = 1; times <= 2; times++) {
		cr_assert(WAIT_UNTIL(10000,
			call(w, &half) == 200 &&
				weir_counter(w, "backend_ejections") == times));
		cr_expect_eq(weir_counter(w, "backend_addresses_out"), 1);
		edit(w, both, text("fastcgi = %s\n", echo));
		reload(w, RELOADED);
		cr_expect_eq(weir_counter(w, "backend_addresses_out"), 0);
		/* Back again, it is asked again. */
		edit(w, text("fastcgi = %s\n", echo), both);
		reload(w, RELOADED);
	}
	expect_clean_end(w);
}

static const char *holding(const char *addr, const char *lines)
{
	return text("[backend plain]\nfastcgi = %s\nkeep_idle = 1h\n%s", addr, lines);
}

/* One worker, as each has its own connections. */
Test(reload, closes_idle_connections_that_are_no_longer_wanted, .timeout = 60)
{
	const char *first = echo_start(1), *second = echo_start(1);
	const char *const lines[] = { holding(first, "keep = 2\n"),
		holding(second, "keep = 2\n"), holding(second, "") };
	struct weir *w = weir_start(&(struct weir_spec){ .server = "workers = 1\n",
		.sections = text(IN_MEMORY "%s", lines[0]),
		.endpoints = text(RULE, 1000) });

	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(get(w), 200);
		cr_assert(weir_counts(w, "backend_idle", 1, 10000));
		edit(w, lines[i], lines[i + 1]);
		reload(w, RELOADED);
		cr_expect(weir_counts(w, "backend_idle", 0, 10000), "change %zu", i);
	}
}

Test(reload, keeps_no_connection_of_a_request_that_ends_after_its_backend_is_gone,
	.timeout = 60)
{
	const char *old = addr_unix("old.sock"), *new = addr_unix("new.sock");
	const char *before = holding(old, "keep = 2\n");
	static atomic_bool hold = true;
	static const struct backend_script held = { .stay = true, .hold = &hold };
	struct backend *dropped = backend_start(old, &held);
	struct weir *w = weir_start(&(struct weir_spec){ .server = "workers = 1\n",
		.sections = text(IN_MEMORY "%s", before),
		.endpoints = text(RULE, 1000) });
	struct fcgi_request rq = { .uri = "/a" };
	struct buf bytes = { 0 };
	struct fcgi_answer a;
	int fd = dial(w->addr);

	backend_start(new, &plain);
	fcgi_compose(&bytes, &rq);
	fcgi_answer_init(&a);
	cr_assert(fcgi_send(fd, buf_view(&bytes), 5000));
	cr_assert(WAIT_UNTIL(10000, backend_count(dropped).requests == 1));
	edit(w, before, holding(new, ""));
	reload(w, RELOADED);
	/* The new one answers: the worker has taken it. */
	cr_assert_eq(backend_count(dropped).open, 1);
	cr_assert(REACHES(w, 200));
	atomic_store(&hold, false);
	cr_assert(fcgi_exchange(fd, VIEW(""), &a, FCGI_UNTIL_END, 20000));
	cr_assert_eq(answer_status(&a), 200);
	cr_expect(WAIT_UNTIL(10000, backend_count(dropped).open == 0));
	cr_expect_eq(weir_counter(w, "backend_idle"), 0);
	fcgi_answer_release(&a);
	buf_release(&bytes);
	close(fd);
}

/* ---- Under load ---- */

#define MANY 500000

struct load {
	pthread_t thread;
	const struct weir *weir;
	bool keeps; /* one connection for all requests */
	_Atomic unsigned passed, refused, failed;
};

static _Atomic bool done;

static void ask_once(struct load *l, int *fd, struct view bytes)
{
	struct fcgi_answer a;
	bool whole;

	fcgi_answer_init(&a);
	if (*fd < 0)
		*fd = dial(l->weir->addr);
	whole = *fd >= 0 && fcgi_exchange(*fd, bytes, &a, FCGI_UNTIL_END, 20000) &&
		a.ends == 1;
	if (whole && answer_status(&a) == 200)
		l->passed++;
	else if (whole && answer_status(&a) == 429)
		l->refused++;
	else
		l->failed++;
	if (!whole || !l->keeps) {
		close(*fd);
		*fd = -1;
	}
	fcgi_answer_release(&a);
}

static void *keep_asking(void *arg)
{
	struct load *l = arg;
	struct fcgi_request rq = { .uri = "/a", .keep = l->keeps };
	struct buf bytes = { 0 };
	int fd = -1;

	fcgi_compose(&bytes, &rq);
	while (!atomic_load(&done))
		ask_once(l, &fd, buf_view(&bytes));
	if (fd >= 0)
		close(fd);
	buf_release(&bytes);
	return NULL;
}

/* Rules nobody reaches, and every fifth edit is a wrong one. */
static void reload_often(const struct weir *w, const struct load *loads, unsigned times)
{
	for (unsigned i = 1; i <= times; i++) {
		unsigned before = loads[0].passed;

		if (i % 5 == 0)
			renew(w, "[endpoint a]\nmatch = GET /a\n@RateLimit = count=many\n",
				RELOAD_FAILS);
		else
			renew(w, text(RULE, MANY + (int)i % 2), RELOADED);
		/* So that there is load between them, however slow the machine. */
		cr_assert(WAIT_UNTIL(20000, loads[0].passed > before + 2));
	}
}

/* The limit is what has passed and three more: so many pass, if each was counted once. */
static void reload_under_load(const char *store)
{
	const char *addr = addr_unix("plain.sock");
	struct backend *backend = backend_start(addr, &plain);
	struct weir *w = counting(store, addr, MANY);
	struct load loads[4];
	unsigned passed = 0;

	for (size_t i = 0; i < COUNT_OF(loads); i++) {
		loads[i] = (struct load){ .weir = w, .keeps = i % 2 };
		pthread_create(&loads[i].thread, NULL, keep_asking, &loads[i]);
	}
	reload_often(w, loads, 50);
	atomic_store(&done, true);
	for (size_t i = 0; i < COUNT_OF(loads); i++) {
		pthread_join(loads[i].thread, NULL);
		cr_assert_eq(loads[i].failed, 0, "%u requests failed", loads[i].failed);
		cr_assert_eq(loads[i].refused, 0, "%u were refused", loads[i].refused);
		passed += loads[i].passed;
	}
	cr_assert(weir_counts(w, "requests_passed", passed, 10000));
	cr_assert_eq(weir_counter(w, "requests_passed"), passed);
	cr_assert_eq(weir_counter(w, "requests"), passed);
	cr_assert_eq(weir_counter(w, "decisions_fallback"), 0);
	cr_assert_eq(backend_count(backend).requests, passed);
	renew(w, text(RULE, (int)passed + 3), RELOADED);
	cr_assert(WAIT_UNTIL(10000, get(w) == 429));
	cr_assert_eq(weir_counter(w, "requests_passed"), passed + 3);
}

Test(reload, fails_no_request_and_loses_no_count_in_memory, .timeout = 120)
{
	reload_under_load("[store]\ntype = memory\nmemory = 1G\n");
}

Test(reload, fails_no_request_and_loses_no_count_in_redis, .timeout = 120)
{
	reload_under_load(text("[store]\ntype = redis\nurl = %s\ntimeout = 10s\n"
			       "[fallback]\npolicy = closed\n",
		redis_start()->url));
}
