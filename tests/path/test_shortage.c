/*
 * test_shortage.c - what happens when the system has no descriptor, no process, no memory
 * or no disk left for weir: the request that wanted one is told so, or waits; it is
 * counted; the others are served; and once there is some again all is as before.
 */
#include "faults.h"
#include "site.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTHING view_of(NULL, 0)

/* The kinds of requests, by what they need. */
static const struct kind {
	const char *name, *uri;
	uint64_t body;
} kinds[] = {
	{ "FastCGI", "/x", 0 },                     /* a socket */
	{ "FastCGI, large body", "/x", 300000 },    /* a file and a socket */
	{ "CGI", "/hello.sh", 0 },                  /* /dev/null, places, pipes, a pidfd */
	{ "CGI, body", "/echo", 1000 },             /* the body in memory, as a file */
	{ "CGI, large body", "/echo?x=y", 300000 }, /* a file, opened again */
};

/* The script of the kind, for the endpoints of site.h. */
static struct fcgi_request request_of(const struct site *s, const struct kind *k)
{
	return (struct fcgi_request){ .uri = k->uri,
		.pattern_bytes = k->body,
		.script = k->uri[1] == 'x'
			? NULL
			: text("%s%s", s->programs, k->body ? "/echo" : "/hello.sh") };
}

static void expect_all_kinds_served(const struct site *s, const char *when)
{
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		struct fcgi_request rq = request_of(s, &kinds[i]);
		struct fcgi_answer a;

		cr_assert(
			fcgi_call(s->addr, &rq, &a, 20000), "%s: %s", when, kinds[i].name);
		cr_assert_eq(answer_status(&a), 200, "%s: %s: %d", when, kinds[i].name,
			answer_status(&a));
		if (kinds[i].body)
			cr_assert_str_eq(line_of(answer_body(&a), "body_sha256"),
				sha256_of_pattern(kinds[i].body));
		fcgi_answer_release(&a);
	}
}

/* ---- Descriptors ---- */

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Lowers the limit of a running process so that spare descriptors are free below it. */
static void leave_descriptors(const struct process *p, int spare)
{
	DIR *d = opendir(text("/proc/%d/fd", (int)p->pid));
	struct rlimit limit;
	static int fds[4096];
	struct dirent *e;
	int n = 0, limit_at = 0, taken = 0;

	cr_assert_not_null(d);
	while ((e = readdir(d)) && n < (int)COUNT_OF(fds))
		if (e->d_name[0] != '.')
			fds[n++] = atoi(e->d_name);
	closedir(d);
	qsort(fds, (size_t)n, sizeof(fds[0]), by_number);
	for (limit_at = 0; spare > 0 || taken < n; limit_at++) {
		if (taken < n && fds[taken] == limit_at)
			taken++;
		else if (spare-- == 0)
			break;
	}
	cr_assert_eq(prlimit(p->pid, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = (rlim_t)limit_at;
	cr_assert_eq(
		prlimit(p->pid, RLIMIT_NOFILE, &limit, NULL), 0, "%s", strerror(errno));
}

static void give_descriptors_back(const struct process *p)
{
	struct rlimit limit;

	cr_assert_eq(prlimit(p->pid, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	cr_assert_eq(prlimit(p->pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* Until nothing is on its way out any more, such as the last question for a counter. */
static void await_files(const struct process *p, size_t n)
{
	cr_assert(WAIT_UNTIL(10000, process_open_files(p) <= n),
		"%zu descriptors are open instead of %zu", process_open_files(p), n);
}

/* With so many to spare, over connections that are there already; of these and all others
 * there are open. */
static void ask_each_kind(const struct site *s, const int *fds, int spare, size_t open)
{
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		struct fcgi_request rq = request_of(s, &kinds[i]);
		const char *name = text("%s with %d", kinds[i].name, spare);
		struct fcgi_answer a;
		struct buf b = { 0 };

		fcgi_compose(&b, &rq);
		fcgi_answer_init(&a);
		await_files(s->weir->process, open - i);
		leave_descriptors(s->weir->process, spare);
		cr_assert(fcgi_exchange(fds[i], buf_view(&b), &a, FCGI_UNTIL_END, 20000),
			"%s: no answer", name);
		if (answer_status(&a) != 200) {
			json_t *body = json_of(answer_body(&a));
			const char *reason = json_string_value(
				json_object_get(body, "reason"));

			cr_assert(strcmp(reason, "spool") == 0 ||
				strcmp(reason, "resources") == 0);
			expect_busy(&a, reason, name);
			json_decref(body);
		} else if (kinds[i].body) {
			cr_assert_str_eq(line_of(answer_body(&a), "body_sha256"),
				sha256_of_pattern(kinds[i].body), "%s", name);
		}
		if (spare == 0)
			cr_assert_eq(answer_status(&a), 503, "%s", name);
		fcgi_answer_release(&a);
		buf_release(&b);
		close(fds[i]);
	}
}

enum {
	SPARE_MOST = 12,
};

Test(shortage, without_descriptors_requests_are_told_so_and_all_come_back, .timeout = 120)
{
	struct site *s = site_start(&(struct site_spec){
		.no_php = true, .server = "head_timeout = 60s\nspool_memory = 16K\n" });
	struct process *p = s->weir->process;
	int fds[SPARE_MOST][COUNT_OF(kinds)];
	struct fcgi_request rq = { .uri = "/x" };
	struct fcgi_answer a;
	struct buf b = { 0 };
	size_t before;
	int waiting;

	if (under_valgrind())
		skip_test("valgrind keeps descriptors for itself");
	expect_all_kinds_served(s, "before");
	cr_assert(WAIT_UNTIL(5000, weir_counter(s->weir, "connections_open") == 0));
	before = process_files_at_rest(p);
	for (int spare = 0; spare < SPARE_MOST; spare++)
		for (size_t i = 0; i < COUNT_OF(kinds); i++)
			cr_assert((fds[spare][i] = dial(s->addr)) >= 0);
	cr_assert(WAIT_UNTIL(5000,
		weir_counter(s->weir, "connections_open") ==
			SPARE_MOST * (int64_t)COUNT_OF(kinds)));
	for (int spare = 0; spare < SPARE_MOST; spare++)
		ask_each_kind(s, fds[spare], spare,
			before + (size_t)(SPARE_MOST - spare) * COUNT_OF(kinds));
	await_files(p, before);

	/* Nor is there one for another connection: it waits. */
	leave_descriptors(p, 0);
	fcgi_compose(&b, &rq);
	waiting = dial(s->addr);
	fcgi_answer_init(&a);
	cr_assert_not(fcgi_exchange(waiting, buf_view(&b), &a, FCGI_UNTIL_END, 300));
	give_descriptors_back(p);
	cr_assert(fcgi_exchange(waiting, NOTHING, &a, FCGI_UNTIL_END, 10000));
	cr_assert_eq(answer_status(&a), 200, "the one that waited");
	fcgi_answer_release(&a);
	close(waiting);
	buf_release(&b);

	expect_all_kinds_served(s, "afterwards");
	cr_assert(weir_counter(s->weir, "short_of_descriptors") > 5);
	cr_assert(process_logs(p, "out of file descriptors", 1000));
	await_files(p, before);
	cr_assert(WAIT_UNTIL(5000, process_children(p) == 0));
	expect_clean_end(s->weir);
}

/* ---- One call after the other ---- */

Test(shortage, each_call_that_fails_is_told_counted_and_forgotten, .timeout = 120)
{
	static const struct row {
		enum fault fault;
		int err;
		size_t kind; /* of kinds */
		const char *reason, *counter;
	} rows[] = {
		{ FAULT_FORK, ENOMEM, 2, "resources", "short_of_memory" },
		{ FAULT_FORK, EAGAIN, 2, "resources", "short_of_memory" },
		{ FAULT_FORK, EAGAIN, 3, "resources", "programs_unstarted" },
		{ FAULT_PIPE, EMFILE, 2, "resources", "short_of_descriptors" },
		{ FAULT_PIPE, ENFILE, 2, "resources", "programs_unstarted" },
		{ FAULT_MEMFD, EMFILE, 3, "resources", "short_of_descriptors" },
		{ FAULT_MEMFD, ENOMEM, 3, "resources", "short_of_memory" },
		{ FAULT_SOCKET, EMFILE, 0, "resources", "short_of_descriptors" },
		{ FAULT_SOCKET, ENOBUFS, 0, "resources", "short_of_memory" },
		{ FAULT_FILE, EMFILE, 1, "spool", "short_of_descriptors" },
		{ FAULT_FILE, ENOSPC, 1, "spool", "spool_failures" },
		{ FAULT_FILE, EACCES, 1, "spool", "spool_failures" },
		{ FAULT_WRITE, ENOSPC, 1, "spool", "spool_failures" },
		{ FAULT_WRITE, EDQUOT, 4, "spool", "spool_failures" },
		{ FAULT_WRITE, EIO, 1, "spool", "spool_failures" },
		{ FAULT_READ, EIO, 1, "resources", "backend_failures" },
	};
	struct site *s = site_start(&(struct site_spec){
		.no_php = true, .env = faults_env(), .server = "spool_memory = 16K\n" });
	size_t before;

	expect_all_kinds_served(s, "before");
	cr_assert(WAIT_UNTIL(5000, weir_counter(s->weir, "connections_open") == 0));
	before = process_files_at_rest(s->weir->process);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct row *r = &rows[i];
		const char *name = text(
			"row %zu: %s, %s", i, kinds[r->kind].name, strerror(r->err));
		struct fcgi_request rq = request_of(s, &kinds[r->kind]);
		int64_t counted = weir_counter(s->weir, r->counter);
		int met = faults_met(r->fault);
		struct fcgi_answer a;

		faults_set(r->fault, r->err, -1);
		cr_assert(fcgi_call(s->addr, &rq, &a, 10000), "%s: no answer", name);
		expect_busy(&a, r->reason, name);
		fcgi_answer_release(&a);
		cr_assert_gt(faults_met(r->fault), met, "%s: was not met", name);
		cr_assert_gt(weir_counter(s->weir, r->counter), counted, "%s: %s", name,
			r->counter);
		/* Who needs nothing of the sort is served meanwhile. */
		if (r->fault != FAULT_SOCKET)
			cr_assert_eq(site_get(s, "/x"), 200, "%s", name);
		else
			cr_assert_eq(site_get(s, "/hello.sh"), 200, "%s", name);
		faults_set(r->fault, 0, 0);
		fcgi_call(s->addr, &rq, &a, 10000);
		cr_assert_eq(answer_status(&a), 200, "%s: afterwards", name);
		fcgi_answer_release(&a);
	}
	await_files(s->weir->process, before);
	cr_assert(WAIT_UNTIL(5000, process_children(s->weir->process) == 0));
	expect_clean_end(s->weir);
}

/* It has begun: ending it for want of a descriptor to watch it by would do its work twice
 * once the client asks again. */
Test(shortage, a_program_that_was_started_runs_to_its_end_without_a_pidfd)
{
	struct site *s = site_start(&(struct site_spec){
		.no_php = true, .env = faults_env(), .cgi = "kill_grace = 100ms\n" });
	struct fcgi_request quick = { .uri = "/echo", .pattern_bytes = 1000 },
			    slow = { .uri = "/hello.sh?sleep=60" };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd;

	faults_set(FAULT_PIDFD, EMFILE, -1);
	for (int i = 0; i < 3; i++) {
		cr_assert(fcgi_call(s->addr, &quick, &a, 10000));
		cr_assert_eq(answer_status(&a), 200);
		cr_assert_str_eq(
			line_of(answer_body(&a), "body_sha256"), sha256_of_pattern(1000));
		fcgi_answer_release(&a);
	}
	cr_assert_eq(faults_met(FAULT_PIDFD), 3);
	cr_assert(WAIT_UNTIL(5000, process_children(s->weir->process) == 0),
		"they are reaped");
	cr_assert(WAIT_UNTIL(5000, weir_counter(s->weir, "programs_running") == 0));

	/* And one whose client leaves is ended as ever. */
	fd = dial(s->addr);
	fcgi_compose(&b, &slow);
	cr_assert(fcgi_send(fd, buf_view(&b), 1000));
	cr_assert(weir_counts(s->weir, "programs_running", 1, 5000));
	close(fd);
	cr_assert(WAIT_UNTIL(10000, weir_counter(s->weir, "programs_running") == 0));
	cr_assert(WAIT_UNTIL(5000, process_children(s->weir->process) == 0));
	expect_clean_end(s->weir);
	buf_release(&b);
}

Test(shortage, a_connection_that_cannot_be_accepted_waits)
{
	struct site *s = site_start(
		&(struct site_spec){ .no_php = true, .env = faults_env() });
	static const int errors[] = { EMFILE, ENFILE, ENOBUFS, ENOMEM };

	/* Whoever looked whether weir was up is through. */
	cr_assert_eq(site_get(s, "/x"), 200);
	cr_assert_eq(weir_counter(s->weir, "short_of_descriptors"), 0);
	for (size_t i = 0; i < COUNT_OF(errors); i++) {
		int met = faults_met(FAULT_ACCEPT);

		faults_set(FAULT_ACCEPT, errors[i], 2);
		cr_assert_eq(site_get(s, "/x"), 200, "%s", strerror(errors[i]));
		cr_assert_eq(faults_met(FAULT_ACCEPT), met + 2);
	}
	cr_assert_eq(weir_counter(s->weir, "short_of_descriptors"), 4);
	cr_assert_eq(weir_counter(s->weir, "short_of_memory"), 4);
}

/* Programs beyond max_programs are told so; the rest of the site does not notice. */
Test(shortage, a_program_too_many_is_told_so_and_started_when_there_is_room)
{
	struct site *s = site_start(&(struct site_spec){
		.no_php = true, .cgi = "max_programs = 1\nkill_grace = 100ms\n" });
	struct fcgi_request slow = { .uri = "/hello.sh?sleep=60" },
			    quick = { .uri = "/hello.sh" };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(s->addr);

	fcgi_compose(&b, &slow);
	cr_assert(fcgi_send(fd, buf_view(&b), 1000));
	cr_assert(weir_counts(s->weir, "programs_running", 1, 5000));
	cr_assert(fcgi_call(s->addr, &quick, &a, 5000));
	expect_busy(&a, "programs", "a second one");
	fcgi_answer_release(&a);
	cr_assert_eq(weir_counter(s->weir, "programs_refused"), 1);
	cr_assert_eq(site_get(s, "/x"), 200);
	close(fd);
	cr_assert(WAIT_UNTIL(10000, site_get(s, "/hello.sh") == 200));
	buf_release(&b);
}

/* ---- Redis ---- */

Test(shortage, without_a_descriptor_for_redis_the_policy_decides_until_there_is_one)
{
	const struct redis *redis = redis_start();
	const char *dir = programs_dir();
	struct weir *w = weir_start(&(struct weir_spec){ .server = "workers = 1\n",
		.sections = text(
			"[store]\nurl = %s\n[backend cgi]\ncgi = %s\n", redis->url, dir),
		.endpoints = "[endpoint a]\nmatch = * /hello.sh\nbackend = cgi\n"
			     "@RateLimit = type=ip count=1000 window=1h\n",
		.env = faults_env() });
	struct fcgi_request rq = { .uri = "/hello.sh", .script = text("%s/hello.sh", dir) };
	struct site s = { .weir = w, .addr = w->addr };
	int64_t by_redis;

	cr_assert(WAIT_UNTIL(10000,
		site_get(&s, rq.uri) == 200 && weir_counter(w, "decisions_redis") > 0));
	faults_set(FAULT_SOCKET, EMFILE, -1);
	redis_run(redis, "CLIENT KILL TYPE normal");
	cr_assert(WAIT_UNTIL(10000,
		site_get(&s, rq.uri) == 200 && weir_counter(w, "decisions_fallback") > 0));
	cr_assert(WAIT_UNTIL(10000, weir_counter(w, "short_of_descriptors") > 0));
	cr_assert_eq(site_get(&s, rq.uri), 200);
	by_redis = weir_counter(w, "decisions_redis");
	faults_set(FAULT_SOCKET, 0, 0);
	cr_assert(WAIT_UNTIL(20000,
		site_get(&s, rq.uri) == 200 &&
			weir_counter(w, "decisions_redis") > by_redis));
}

/* ---- The limit of open files ---- */

Test(shortage, weir_takes_the_descriptors_it_may_have_and_programs_get_what_it_was_given)
{
	struct rlimit limit;
	const char *limits, *line, *program;
	struct fcgi_answer a;
	struct site *s;
	unsigned long soft = 0, hard = 0;

	if (under_valgrind())
		skip_test("valgrind keeps descriptors for itself");
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 123;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	s = site_start(&(struct site_spec){ .no_php = true,
		.endpoints = "[endpoint limit]\nmatch = * /limit.sh\nbackend = cgi\n" });
	program = text("%s/limit.sh", s->programs);
	file_write(program, "#!/bin/sh\necho; ulimit -S -n; ulimit -H -n\n");
	cr_assert_eq(chmod(program, 0755), 0);
	limits = file_read(text("/proc/%d/limits", (int)s->weir->process->pid));
	line = strstr(limits, "Max open files");
	cr_assert_eq(sscanf(line, "Max open files %lu %lu", &soft, &hard), 2, "%s", limits);
	cr_assert_eq(soft, limit.rlim_max);
	cr_assert(fcgi_call(
		s->addr, &(struct fcgi_request){ .uri = "/limit.sh" }, &a, 10000));
	cr_assert_eq(answer_status(&a), 200);
	cr_assert(view_starts(answer_body(&a), VIEW("123\n")), "%.*s",
		VIEW_ARG(answer_body(&a)));
	fcgi_answer_release(&a);
}
