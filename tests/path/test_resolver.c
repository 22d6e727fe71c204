/*
 * test_resolver.c - the built program and a name server that does not answer. Names are
 * looked up on threads of libuv's pool, where nothing ends before the resolver does: it
 * must keep nobody waiting meanwhile, not even who wants weir to end.
 */
#include "site.h"

#include "faults.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define WORKERS 3 /* one more than libuv has threads for look-ups */

#define RULE                                              \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n" \
	"@RateLimit = type=ip count=100000 window=1h\n"

static struct backend *backend;

/* Redis by a name; nobody is there should it be found. */
#define BY_NAME                                                 \
	"[store]\nurl = redis://localhost:1\ntimeout = 300ms\n" \
	"[fallback]\npolicy = open\n"

static struct weir_spec spec_with(const struct backend_script *script, const char *more)
{
	const char *addr = addr_unix("plain.sock");

	backend = backend_start(addr, script);
	return (struct weir_spec){ .server = text("workers = %d\n", WORKERS),
		.sections = text("[backend plain]\nfastcgi = %s\n%s", addr, more),
		.endpoints = RULE,
		.env = faults_env() };
}

/* The look-ups of Redis are under way, as far as there are threads for them. */
static void wait_for_lookups(int n)
{
	cr_assert(WAIT_UNTIL(10000, faults_met(FAULT_LOOKUP) >= n), "%d of %d",
		faults_met(FAULT_LOOKUP), n);
}

static struct weir *start(const struct backend_script *script)
{
	const struct weir_spec spec = spec_with(script, BY_NAME);
	struct weir *w;

	faults_set(FAULT_LOOKUP, 0, -1);
	w = weir_start(&spec);
	wait_for_lookups(2);
	return w;
}

/* It ends by itself, as it does at other times, while the look-ups go on. */
static void expect_end(const struct weir *w)
{
	cr_assert_eq(process_exit(w->process, 10000), 0,
		"it goes on, or ended badly: status %x\n%s", (unsigned)w->process->status,
		process_log(w->process));
	cr_assert(strstr(process_log(w->process), "event=stopped"), "%s",
		process_log(w->process));
	cr_assert_eq(access(w->addr + strlen("unix:"), F_OK), -1, "its socket is left");
	cr_assert_eq(access(w->control + strlen("unix:"), F_OK), -1);
}

static const struct backend_script plain;

Test(resolver, that_is_silent_holds_up_no_request_and_no_question_about_users)
{
	struct weir_spec spec = spec_with(&plain,
		text(BY_NAME "[client]\nuser = token\ndirectory = sqlite:%s\n",
			test_path("weir.db")));
	const struct weir *before = weir_configure(&spec);
	const char *header;
	struct weir *w;

	weirctl("-c %s db init", before->ini);
	weirctl("-c %s user add ann", before->ini);
	header = text("HTTP_AUTHORIZATION=Bearer %s",
		token_in(weirctl("-c %s token add ann", before->ini)));
	faults_set(FAULT_LOOKUP, 0, -1);
	spec.endpoints = NULL; /* they are written */
	spec.server = text(
		"workers = %d\nendpoints = %s/*.ini\n", WORKERS, endpoints_dir(before));
	w = weir_start(&spec);
	wait_for_lookups(2);
	for (unsigned i = 0; i < 4 * WORKERS; i++) {
		const struct fcgi_request rq = { .uri = "/a",
			.params = (const char *const[]){ header, NULL } };
		struct buf params = { 0 }, body = { 0 };
		struct fcgi_answer a;
		const char *user;

		cr_assert(fcgi_call(w->addr, &rq, &a, 20000), "request %u", i);
		cr_assert_eq(answer_status(&a), 200);
		cr_assert(backend_seen(backend, i, &params, &body));
		user = param_of(buf_view(&params), "WEIR_USER");
		cr_assert(user && strcmp(user, "ann") == 0, "request %u: %s", i,
			user ? user : "nobody");
		buf_release(&params);
		buf_release(&body);
		fcgi_answer_release(&a);
	}
	process_signal(w->process, SIGTERM);
	expect_end(w);
}

Test(resolver, that_is_silent_keeps_weir_from_no_end)
{
	static const int signals[] = { SIGTERM, SIGINT };
	const struct weir_spec spec = spec_with(&plain, BY_NAME);

	faults_set(FAULT_LOOKUP, 0, -1);
	for (size_t i = 0; i < COUNT_OF(signals); i++) {
		int before = faults_met(FAULT_LOOKUP);
		struct weir *w = weir_start(&spec);

		wait_for_lookups(before + 2);
		process_signal(w->process, signals[i]);
		expect_end(w);
	}
}

/* Begins a request whose answer is held back; its connection. */
static int begin_request(const struct weir *w, struct fcgi_answer *a)
{
	const struct fcgi_request rq = { .uri = "/a" };
	struct buf bytes = { 0 };
	int fd = dial(w->addr);

	fcgi_compose(&bytes, &rq);
	cr_assert(fd >= 0 && buf_ok(&bytes) && fcgi_send(fd, buf_view(&bytes), 10000));
	buf_release(&bytes);
	fcgi_answer_init(a);
	cr_assert(WAIT_UNTIL(10000, backend_count(backend).requests == 1));
	return fd;
}

Test(resolver, that_is_silent_takes_nothing_from_the_request_that_is_finished_first)
{
	static atomic_bool hold = true;
	static const struct backend_script held = { .hold = &hold };
	struct weir *w = start(&held);
	struct fcgi_answer a;
	int fd = begin_request(w, &a);

	process_signal(w->process, SIGTERM);
	cr_assert(process_logs(w->process, "event=stopping", 10000));
	cr_assert(process_running(w->process));
	atomic_store(&hold, false);
	cr_assert(fcgi_exchange(fd, view_of("", 0), &a, FCGI_UNTIL_CLOSED, 20000));
	cr_assert_eq(a.ends, 1);
	cr_assert(view_eq(answer_body(&a), VIEW("ok")));
	fcgi_answer_release(&a);
	close(fd);
	expect_end(w);
}

Test(resolver, that_is_silent_is_left_behind_with_all_else_at_a_second_signal)
{
	static const struct backend_script silent = { .silent = true };
	struct weir *w = start(&silent);
	struct fcgi_answer a;
	int fd = begin_request(w, &a);

	process_signal(w->process, SIGTERM);
	cr_assert(process_logs(w->process, "event=stopping", 10000));
	process_signal(w->process, SIGTERM);
	expect_end(w);
	fcgi_answer_release(&a);
	close(fd);
}

Test(resolver, that_is_silent_while_the_rules_are_read_anew_keeps_weir_from_no_end)
{
	const struct weir_spec spec = spec_with(&plain,
		"[store]\ntype = memory\n[backend far]\nfastcgi = tcp:localhost:9\n");
	struct weir *w = weir_start(&spec);

	faults_set(FAULT_LOOKUP, 0, -1);
	process_signal(w->process, SIGHUP);
	wait_for_lookups(1);
	process_signal(w->process, SIGTERM);
	expect_end(w);
	cr_assert_null(strstr(process_log(w->process), "reloaded"));
}

/* What comes to its end, or false. */
static bool read_to_end(int fd, struct buf *out, int64_t ms)
{
	int64_t end_ms = now_ms() + ms;
	char chunk[4096];
	ssize_t n = 1;

	while (n > 0 && now_ms() < end_ms) {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		if (poll(&p, 1, (int)(end_ms - now_ms())) <= 0)
			break;
		n = read(fd, chunk, sizeof(chunk));
		if (n > 0)
			buf_add(out, view_of(chunk, (size_t)n));
	}
	return n == 0;
}

Test(resolver, that_is_silent_keeps_no_web_server_that_reads_a_cgi_answer_to_its_end)
{
	const struct weir_spec spec = spec_with(&plain, BY_NAME);
	const struct weir *w = weir_configure(&spec);
	const char *const env[] = { spec.env[0], spec.env[1], spec.env[2],
		text("WEIR_CONFIG=%s", w->ini), "GATEWAY_INTERFACE=CGI/1.1",
		"REQUEST_METHOD=GET", "REQUEST_URI=/a",
		"QUERY_STRING=", "SCRIPT_NAME=/weir.cgi", "REMOTE_ADDR=192.0.2.1",
		"SERVER_PROTOCOL=HTTP/1.1", NULL };
	struct fcgi_answer a;
	struct process *p;
	int ends[2];

	faults_set(FAULT_LOOKUP, 0, -1);
	cr_assert_eq(pipe(ends), 0);
	p = process_start(&(struct process_spec){ .name = "weir-cgi",
		.argv = (const char *const[]){ test_env("WEIR"), NULL },
		.env = env,
		.output = ends[1] });
	close(ends[1]);
	fcgi_answer_init(&a);
	cr_assert(read_to_end(ends[0], &a.out, 20000), "after %zu bytes: %s", a.out.n,
		process_log(p));
	cr_assert_eq(faults_met(FAULT_LOOKUP), 1, "nothing was looked up");
	cr_assert_eq(answer_status(&a), 200);
	cr_assert(view_eq(answer_body(&a), VIEW("ok")));
	cr_assert_eq(process_exit(p, 10000), 0, "%s", process_log(p));
	fcgi_answer_release(&a);
	close(ends[0]);
}
