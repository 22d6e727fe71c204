/*
 * test_start.c - the ways weir is started, and what it says when it cannot.
 */
#include "site.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct backend_script plain;

/* Sections with the memory store and a backend that answers "ok". */
static const char *plain_sections(void)
{
	const char *addr = addr_unix("plain.sock");

	backend_start(addr, &plain);
	return text("[store]\ntype = memory\n[backend plain]\nfastcgi = %s\n", addr);
}

static bool serves(const char *addr)
{
	struct fcgi_request rq = { .uri = "/x" };
	struct fcgi_answer a;
	bool ok = fcgi_call(addr, &rq, &a, 5000) && answer_status(&a) == 200;

	fcgi_answer_release(&a);
	return ok;
}

/* Starts weir with an ini that it should refuse; gives its output. */
static const char *refusal(const struct weir *w, int want_exit)
{
	const char *out = "";
	int status = weir_run((const char *const[]){ "-c", w->ini, NULL }, &out);

	cr_assert_eq(status, want_exit, "exit status %d: %s", status, out);
	return out;
}

/* ---- Listening ---- */

Test(start, listens_on_tcp_and_on_unix_sockets_together)
{
	const char *tcp = addr_tcp();
	struct weir *w = weir_start(
		&(struct weir_spec){ .server = text("listen = %s\nbackend = plain\n", tcp),
			.sections = plain_sections() });

	cr_assert(serves(w->addr));
	cr_assert(serves(tcp));
}

Test(start, gives_its_unix_socket_the_configured_mode)
{
	static const struct {
		const char *option;
		mode_t mode;
	} rows[] = { { "", 0660 }, { "socket_mode = 0600\n", 0600 },
		{ "socket_mode = 0666\n", 0666 } };
	const char *sections = plain_sections();

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct weir *w = weir_start(&(struct weir_spec){
			.server = text("backend = plain\n%s", rows[i].option),
			.sections = sections });
		struct stat st;

		cr_assert_eq(stat(w->addr + strlen("unix:"), &st), 0);
		cr_assert_eq(st.st_mode & 07777, rows[i].mode, "%o", st.st_mode & 07777);
	}
}

Test(start, replaces_a_socket_nobody_listens_on)
{
	const char *addr = addr_unix("stale.sock");
	struct weir *w;

	close(listen_on(addr, 1));
	w = weir_start(&(struct weir_spec){ .server = "backend = plain\n",
		.listen = addr,
		.sections = plain_sections() });
	cr_assert(serves(w->addr));
}

Test(start, replaces_neither_a_file_nor_a_socket_in_use)
{
	const char *file = addr_unix("file"), *live = addr_unix("live.sock"), *out;
	const char *sections = plain_sections();
	struct weir *w;
	int fd = listen_on(live, 8);

	file_write(file + strlen("unix:"), "precious\n");
	w = weir_configure(&(struct weir_spec){
		.server = "backend = plain\n", .listen = file, .sections = sections });
	out = refusal(w, 1);
	cr_assert(strstr(out, "not a socket"), "%s", out);
	cr_assert_str_eq(file_read(file + strlen("unix:")), "precious\n");
	w = weir_configure(&(struct weir_spec){
		.server = "backend = plain\n", .listen = live, .sections = sections });
	out = refusal(w, 1);
	cr_assert(strstr(out, "listens on"), "%s", out);
	cr_assert(addr_answers(live), "the socket in use is gone");
	close(fd);
}

Test(start, refuses_a_port_in_use)
{
	const char *addr = addr_tcp(), *out;
	int fd = listen_on(addr, 8);
	struct weir *w = weir_configure(&(struct weir_spec){ .server = "backend = plain\n",
		.listen = addr,
		.sections = plain_sections() });

	out = refusal(w, 1);
	cr_assert(strstr(out, addr), "%s", out);
	close(fd);
}

Test(start, leaves_no_socket_file_when_it_cannot_start)
{
	const char *first = addr_unix("first.sock"), *taken = addr_unix("file");
	const char *sections = plain_sections(), *out;
	struct {
		const char *server, *more, *said;
	} rows[] = {
		{ "", "[client]\ndirectory = sqlite:/nonexistent/weir.db\n",
			"no directory of users" },
		{ text("listen = %s\n", taken), "", "not a socket" },
	};

	file_write(taken + strlen("unix:"), "precious\n");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct weir *w = weir_configure(&(struct weir_spec){
			.server = text("backend = plain\n%s", rows[i].server),
			.listen = first,
			.sections = text("%s%s", sections, rows[i].more) });

		out = refusal(w, 1);
		cr_expect(strstr(out, rows[i].said), "%s", out);
		cr_expect(strstr(out, "serving"), "it listened: %s", out);
		cr_expect_neq(access(first + strlen("unix:"), F_OK), 0, "row %zu", i);
		cr_expect_neq(access(w->control + strlen("unix:"), F_OK), 0, "row %zu", i);
	}
}

/* ---- Descriptor 0 ---- */

Test(start, serves_on_descriptor_0_when_that_listens)
{
	const char *addr = addr_unix("zero.sock"), *other = addr_unix("other.sock");
	int fd = listen_on(addr, 64);
	struct weir *w = weir_start(&(struct weir_spec){
		.server = text("listen = %s\nbackend = plain\n", other),
		.listen = addr,
		.input = fd,
		.sections = plain_sections() });

	close(fd);
	cr_assert(serves(addr));
	cr_assert(process_logs(w->process, "listen is ignored", 2000), "%s",
		process_log(w->process));
	cr_assert(!addr_answers(other));
	process_signal(w->process, SIGTERM);
	cr_assert_eq(process_exit(w->process, 2000), 0);
}

Test(start, is_started_and_stopped_by_lighttpd)
{
	struct weir *w = weir_configure(&(struct weir_spec){
		.server = "backend = plain\nworkers = 2\n", .sections = plain_sections() });
	struct web *web = lighttpd_spawn_start(w->ini);
	struct http_answer a;

	http_get(text("%s/x", web->url), &a);
	cr_assert_eq(a.status, 200);
	cr_assert(weir_counts(w, "requests", 1, 5000));
	process_signal(web->process, SIGTERM);
	cr_assert(WAIT_UNTIL(5000, !addr_answers(w->control)), "weir outlives lighttpd");
	http_release(&a);
}

/* ---- As a CGI program ---- */

struct cgi_run {
	int exit;
	struct fcgi_answer answer;
	const char *log;
};

/* Runs weir as a web server runs a CGI program: parameters in the environment, the body
 * on standard input, and nobody's idea of arguments. */
static void run_as_cgi(
	const char *ini, const char *uri, struct view body, struct cgi_run *out)
{
	static unsigned n;
	const char *in = test_path(text("cgi-in-%u", ++n)),
		   *to = test_path(text("cgi-out-%u", n));
	const char *query = strchr(uri, '?');
	const char *const env[] = { text("WEIR_CONFIG=%s", ini),
		"GATEWAY_INTERFACE=CGI/1.1",
		text("REQUEST_METHOD=%s", body.n ? "POST" : "GET"),
		text("REQUEST_URI=%s", uri),
		text("QUERY_STRING=%s", query ? query + 1 : ""),
		text("CONTENT_LENGTH=%s", body.n ? text("%zu", body.n) : ""),
		"SCRIPT_NAME=/weir.cgi", "REMOTE_ADDR=192.0.2.1",
		"SERVER_PROTOCOL=HTTP/1.1", "PATH=/usr/bin:/bin", NULL };
	const char *const argv[] = { test_env("WEIR"), "-V", "--no-such-option", NULL };
	struct process *p;
	int from_fd, to_fd;

	file_write(in, "");
	from_fd = open(in, O_RDWR);
	cr_assert_eq(write(from_fd, body.p, body.n), (ssize_t)body.n);
	lseek(from_fd, 0, SEEK_SET);
	to_fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	p = process_start(&(struct process_spec){ .name = "weir-cgi",
		.argv = argv,
		.env = env,
		.bare_env = true,
		.input = from_fd,
		.output = to_fd });
	out->exit = process_exit(p, 10000);
	out->log = process_log(p);
	fcgi_answer_init(&out->answer);
	buf_add_str(&out->answer.out, file_read(to));
	close(from_fd);
	close(to_fd);
}

Test(start, counts_as_a_cgi_program_in_redis, .timeout = 60)
{
	static char body[100000];
	struct weir *w = weir_configure(&(struct weir_spec){
		.sections = text("[store]\ntype = redis\nurl = %s\ntimeout = 5s\n"
				 "[backend echo]\nfastcgi = %s\n",
			redis_start()->url, echo_start(1)),
		.endpoints = "[endpoint a]\nmatch = POST /a\nbackend = echo\n"
			     "@RateLimit = type=ip count=3 window=1h\n" });

	pattern_fill(body, 0, sizeof(body));
	for (int i = 1; i <= 4; i++) {
		const char *sha256;
		struct cgi_run run;

		run_as_cgi(w->ini, "/a?q=1", view_of(body, sizeof(body)), &run);
		cr_assert_eq(run.exit, 0, "exit status %d: %s", run.exit, run.log);
		cr_assert_eq(answer_status(&run.answer), i <= 3 ? 200 : 429,
			"run %d: %d\n%s", i, answer_status(&run.answer), run.log);
		sha256 = line_of(answer_body(&run.answer), "body_sha256");
		if (i <= 3)
			cr_assert(sha256 &&
				strcmp(sha256, sha256_of_pattern(sizeof(body))) == 0);
		fcgi_answer_release(&run.answer);
	}
}

Test(start, refuses_to_count_in_memory_as_a_cgi_program)
{
	struct weir *w = weir_configure(&(struct weir_spec){
		.server = "backend = plain\n", .sections = plain_sections() });
	struct cgi_run run;

	run_as_cgi(w->ini, "/x", view_of(NULL, 0), &run);
	cr_assert_eq(answer_status(&run.answer), 500);
	cr_assert(strstr(run.log, "Redis"), "%s", run.log);
	fcgi_answer_release(&run.answer);
}

/* Requests without a large body need no disk. */
Test(start, serves_as_a_cgi_program_while_nothing_can_hold_large_bodies, .timeout = 60)
{
	static char body[100000];
	struct weir *w = weir_configure(&(struct weir_spec){
		.server = "backend = echo\nspool_dir = /nope\n",
		.sections = text("[store]\nurl = unix:///nowhere/redis.sock\n[fallback]\n"
				 "policy = open\n[backend echo]\nfastcgi = %s\n",
			echo_start(1)) });
	struct cgi_run run;

	run_as_cgi(w->ini, "/x", view_of(NULL, 0), &run);
	cr_assert_eq(answer_status(&run.answer), 200, "%s", run.log);
	fcgi_answer_release(&run.answer);
	run_as_cgi(w->ini, "/x", view_of(body, sizeof(body)), &run);
	cr_assert_eq(answer_status(&run.answer), 503, "%s", run.log);
	fcgi_answer_release(&run.answer);
}

Test(start, says_as_a_cgi_program_that_its_configuration_is_wrong)
{
	struct cgi_run run;

	run_as_cgi("/nonexistent/weir.ini", "/x", view_of(NULL, 0), &run);
	cr_assert_eq(answer_status(&run.answer), 500);
	cr_assert(strstr(run.log, "/nonexistent/weir.ini"), "%s", run.log);
	cr_assert(strstr(run.log, "WEIR_CONFIG"), "%s", run.log);
	fcgi_answer_release(&run.answer);
}

/* ---- The command line ---- */

Test(start, tests_a_configuration_and_serves_nothing)
{
	struct weir *good = weir_configure(&(struct weir_spec){
		.server = "backend = plain\n", .sections = plain_sections() });
	struct weir *bad = weir_configure(
		&(struct weir_spec){ .server = "backend = nobody\nworkers = many\n",
			.sections = "[store]\ntype = sql\n" });
	const char *out;

	cr_assert_eq(weir_run((const char *const[]){ "-t", "-c", good->ini, NULL }, &out),
		0, "%s", out);
	cr_assert(strstr(out, good->ini), "%s", out);
	cr_assert_eq(access(good->addr + strlen("unix:"), F_OK), -1);
	/* All mistakes at once, each with its place. */
	cr_assert_eq(
		weir_run((const char *const[]){ "-t", "-c", bad->ini, NULL }, &out), 1);
	cr_assert(strstr(out, text("%s:4:", bad->ini)), "%s", out);
	cr_assert(strstr(out, text("%s:5:", bad->ini)), "%s", out);
	cr_assert(strstr(out, text("%s:8:", bad->ini)), "%s", out);
	cr_assert_str_eq(refusal(bad, 1), out);
}

Test(start, names_the_file_it_cannot_read)
{
	const char *out;

	cr_assert_eq(weir_run((const char *const[]){ "-c", "/nonexistent/weir.ini", NULL },
			     &out),
		1);
	cr_assert(strstr(out, "/nonexistent/weir.ini"), "%s", out);
}

Test(start, prints_its_version_and_its_usage)
{
	const char *out;

	cr_assert_eq(weir_run((const char *const[]){ "-V", NULL }, &out), 0);
	cr_assert(strncmp(out, "weir ", 5) == 0, "%s", out);
	cr_assert_eq(weir_run((const char *const[]){ "--version", NULL }, &out), 0);
	cr_assert(strncmp(out, "weir ", 5) == 0, "%s", out);
	cr_assert_eq(weir_run((const char *const[]){ "--help", NULL }, &out), 0);
	cr_assert(strstr(out, "usage: weir"), "%s", out);
	cr_assert_eq(weir_run((const char *const[]){ "--nonsense", NULL }, &out), 2);
	cr_assert(strstr(out, "usage: weir"), "%s", out);
	cr_assert_eq(weir_run((const char *const[]){ "serve", NULL }, &out), 2);
}
