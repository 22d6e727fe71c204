/*
 * test_reported.c - what people who run such software have met and reported, where no
 * other file shows it. tests/README.md says who reported what, and which test is about it.
 */
#include "site.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EMPTY view_of(NULL, 0)

enum {
	END_REQUEST = 3,
	PARAMS = 4,
	STDIN = 5,
	STDOUT = 6,
	STDERR = 7
};

/* weir before one backend that sends these bytes in that cut. */
static struct weir *before_answer(const struct view *pieces, size_t n, const char *rules)
{
	static struct backend_script scripts[8];
	static unsigned used;
	struct backend_script *script = &scripts[used++];
	const char *addr = addr_unix(text("scripted%u.sock", used));

	*script = (struct backend_script){ .pieces = pieces, .n_pieces = n };
	backend_start(addr, script);
	return weir_start(&(struct weir_spec){ .server = "backend = scripted\n",
		.sections = text("[store]\ntype = memory\n%s"
				 "[backend scripted]\nfastcgi = %s\n",
			rules, addr) });
}

static void send_head(int fd, const struct fcgi_request *rq)
{
	struct buf b = { 0 };

	fcgi_compose_head(&b, rq);
	cr_assert(fcgi_send(fd, buf_view(&b), 5000));
	buf_release(&b);
}

static const char *add_program(const struct site *s, const char *name, const char *content)
{
	const char *path = text("%s/%s", s->programs, name);

	file_write(path, content);
	cr_assert_eq(chmod(path, 0755), 0);
	return path;
}

/* ---- Answers ---- */

/* An error stream in between, records of every size, none cut or mixed on the way out. */
Test(answers, stay_whole_while_the_backend_also_writes_errors, .timeout = 60)
{
	enum {
		SIZE = 223 * 1024
	};
	static struct buf bytes;
	static struct view piece;
	static char body[SIZE];
	struct fcgi_answer a;
	struct weir *w;

	pattern_fill(body, 0, SIZE);
	fcgi_record(&bytes, STDOUT, 1, VIEW("Content-Type: text/plain\r\n\r\n"), 3);
	for (size_t at = 0, n = 1; at < SIZE; at += n, n = n * 5 % 8191) {
		n = n < SIZE - at ? n : SIZE - at;
		fcgi_record(&bytes, STDOUT, 1, view_of(body + at, n), (unsigned)n % 256);
		fcgi_record(&bytes, STDERR, 1, VIEW("a warning\n"), (unsigned)n % 7);
	}
	backend_answer(&bytes, EMPTY);
	piece = buf_view(&bytes);
	w = before_answer(&piece, 1, "");
	cr_assert(fcgi_call(w->addr, &(struct fcgi_request){ .uri = "/x" }, &a, 10000),
		"%s", a.malformed);
	cr_assert_eq(a.err.n, 0);
	cr_assert_str_eq(sha256_of(answer_body(&a)), sha256_of_pattern(SIZE));
	fcgi_answer_release(&a);
}

/* Web servers have little room for a head, and the application may need all of it. */
Test(answers, carry_few_bytes_of_weirs_own)
{
	static struct buf bytes;
	static struct view piece;
	const char *head = "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n";
	struct fcgi_answer a;
	struct weir *w;

	backend_answer(&bytes, view_str(head));
	piece = buf_view(&bytes);
	w = before_answer(
		&piece, 1, "[site]\n@RateLimit = type=global count=500000 window=1d\n");
	cr_assert(fcgi_call(w->addr, &(struct fcgi_request){ .uri = "/x" }, &a, 5000));
	cr_assert_not_null(answer_field(&a, "RateLimit"));
	cr_assert_lt(a.out.n, strlen(head) + 200, "%zu bytes", a.out.n);
	fcgi_answer_release(&a);
}

Test(answers, with_a_field_too_large_tell_the_operator_whose_limit_it_was)
{
	static struct buf bytes;
	static struct view piece;
	struct buf out = { 0 };
	struct fcgi_answer a;
	struct weir *w;

	buf_add_str(&out, "Set-Cookie: ");
	for (int i = 0; i < 20000; i++)
		buf_add_byte(&out, 'x');
	buf_add_str(&out, "\r\n\r\nok");
	backend_answer(&bytes, buf_view(&out));
	buf_release(&out);
	piece = buf_view(&bytes);
	w = before_answer(&piece, 1, "");
	cr_assert(fcgi_call(w->addr, &(struct fcgi_request){ .uri = "/x" }, &a, 5000));
	cr_assert_eq(answer_status(&a), 502);
	cr_assert(process_logs(w->process, "header too large", 2000), "%s",
		process_log(w->process));
	cr_assert(strstr(process_log(w->process), "16384"), "%s", process_log(w->process));
	fcgi_answer_release(&a);
}

Test(answers, with_chunk_framing_reach_browsers_without_it, .timeout = 60)
{
	static struct buf bytes;
	static struct view piece;
	struct web *webs[2];
	struct weir *w;

	backend_answer(&bytes,
		VIEW("Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
		     "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"));
	piece = buf_view(&bytes);
	w = before_answer(&piece, 1, "");
	webs[0] = nginx_start(w->addr);
	webs[1] = lighttpd_start(w->addr);
	for (size_t i = 0; i < COUNT_OF(webs); i++) {
		struct http_answer a;

		http_get(text("%s/x", webs[i]->url), &a);
		cr_assert(a.error == 0 && view_eq(buf_view(&a.body), VIEW("hello")),
			"server %zu: error %d, %.*s", i, a.error, (int)a.body.n, a.body.p);
		http_release(&a);
	}
}

/* What handlers have been seen to say, and what a client must see. */
static const struct {
	const char *what, *out; /* on STDOUT, before its end and END_REQUEST */
	char protocol_status;
	int status;
	const char *body;         /* NULL: any */
	const char *name, *value; /* of a field; NULL: any */
} said[] = {
	{ "nothing", "", 0, 502, NULL, NULL, NULL },
	{ "no head", "hello\n", 0, 502, NULL, NULL, NULL },
	{ "half a head", "Content-Type: text/plain\r\n", 0, 502, NULL, NULL, NULL },
	{ "an empty line for a head", "\nhello", 0, 200, "hello", NULL, NULL },
	{ "a place", "Location: /there\r\n\r\n", 0, 302, NULL, "Location", NULL },
	{ "that it is overloaded", "", 2, 503, NULL, "Retry-After", "1" },
	{ "a status line", "HTTP/1.1 201 Created\r\nX-A: 1\r\n\r\nmade", 0, 201, "made",
		"X-A", "1" },
	{ "chunks", "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 0,
		200, "hello", NULL, NULL },
	{ "a file of the server's",
		"X-Sendfile: /etc/passwd\r\nX-Accel-Redirect: /x\r\n\r\nok", 0, 200, "ok",
		NULL, NULL },
};

/* Apache makes 200 of most of these, nginx and lighttpd each something else. */
Test(answers, that_are_odd_are_shown_alike_by_each_web_server, .timeout = 90)
{
	static struct backend_script scripts[COUNT_OF(said)];
	static struct view pieces[COUNT_OF(said)];
	static struct buf bytes[COUNT_OF(said)];
	struct buf sections = { 0 }, endpoints = { 0 };
	struct web *webs[4];
	struct weir *w;

	buf_add_str(&sections, "[store]\ntype = memory\n");
	for (size_t i = 0; i < COUNT_OF(said); i++) {
		const char *addr = addr_unix(text("said%zu.sock", i));
		const char end[8] = { [4] = said[i].protocol_status };

		if (said[i].out[0])
			fcgi_record(&bytes[i], STDOUT, 1, view_str(said[i].out), 0);
		fcgi_record(&bytes[i], STDOUT, 1, EMPTY, 0);
		fcgi_record(&bytes[i], END_REQUEST, 1, view_of(end, sizeof(end)), 0);
		pieces[i] = buf_view(&bytes[i]);
		scripts[i] = (struct backend_script){ .pieces = &pieces[i], .n_pieces = 1 };
		backend_start(addr, &scripts[i]);
		buf_addf(&sections, "[backend b%zu]\nfastcgi = %s\n", i, addr);
		buf_addf(&endpoints, "[endpoint e%zu]\nmatch = * /%zu\nbackend = b%zu\n", i,
			i, i);
	}
	w = weir_start(
		&(struct weir_spec){ .sections = text("%.*s", (int)sections.n, sections.p),
			.endpoints = text("%.*s", (int)endpoints.n, endpoints.p) });
	webs[0] = lighttpd_start(w->addr);
	webs[1] = nginx_start(w->addr);
	webs[2] = apache_start(w->addr);
	webs[3] = web_start(&(struct web_spec){
		.conf = "apache/weir-proxypass.conf", .backend = w->addr });
	for (size_t i = 0; i < COUNT_OF(said) * COUNT_OF(webs); i++) {
		size_t row = i / COUNT_OF(webs), k = i % COUNT_OF(webs);
		struct http_answer a;

		http_get(text("%s/%zu", webs[k]->url, row), &a);
		cr_expect_eq(a.status, said[row].status, "%s, server %zu: %ld, error %d",
			said[row].what, k, a.status, a.error);
		if (said[row].body)
			cr_expect(view_eq(buf_view(&a.body), view_str(said[row].body)),
				"%s, server %zu: %.*s", said[row].what, k, (int)a.body.n,
				a.body.p);
		if (said[row].name) {
			const char *value = field_of(buf_view(&a.head), said[row].name);

			cr_expect(value &&
					(!said[row].value ||
						strcmp(value, said[row].value) == 0),
				"%s, server %zu: %s %s", said[row].what, k, said[row].name,
				value);
		}
		http_release(&a);
	}
	buf_release(&sections);
	buf_release(&endpoints);
}

/* 16 MiB, of which the client takes one. */
Test(answers, nobody_wants_any_more_free_their_backend, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	const char *urls[] = { text("%s/x?size=16777216", nginx_start(s->addr)->url),
		text("%s/x?size=16777216", lighttpd_start(s->addr)->url),
		text("%s/echo?size=16777216", nginx_keepalive_start(s->addr)->url) };

	for (size_t i = 0; i < COUNT_OF(urls); i++) {
		struct http_answer a;

		http_call(&(struct http_request){ .url = urls[i], .leave_after = 1 << 20 },
			&a);
		cr_assert_geq(a.body_bytes, 1 << 20);
		http_release(&a);
		cr_assert(weir_counts(s->weir, "exchanges_open", 0, 5000),
			"%s: still going on", urls[i]);
	}
	/* Both of its processes are free again. */
	for (int i = 0; i < 4; i++)
		cr_assert_eq(site_get(s, "/x"), 200);
	cr_assert(WAIT_UNTIL(10000, process_children(s->weir->process) == 0));
}

/* ---- Requests ---- */

/* httpoxy: CGI's HTTP_PROXY is a name that HTTP libraries believe. */
Test(requests, with_a_proxy_field_do_not_hand_it_to_handlers, .timeout = 60)
{
	static const char *const headers[] = { "Proxy: http://evil.example/", "X-Seen: yes",
		NULL };
	static const char *const paths[] = { "/x", "/hello.sh", "/hello.pl", "/hello.php" };
	struct site *s = site_start(&(struct site_spec){ 0 });
	struct web *webs[] = { nginx_start(s->addr), lighttpd_start(s->addr) };

	for (size_t w = 0; w < COUNT_OF(webs); w++)
		for (size_t i = 0; i < COUNT_OF(paths); i++) {
			const char *url = text("%s%s", webs[w]->url, paths[i]);
			struct http_answer a;

			http_call(&(struct http_request){ .url = url, .headers = headers },
				&a);
			cr_assert_eq(a.status, 200, "%s: %ld", url, a.status);
			cr_assert_str_eq(line_of(buf_view(&a.body), "HTTP_X_SEEN"), "yes");
			cr_assert_null(memmem(a.body.p, a.body.n, "evil.example", 12),
				"%s: %.*s", url, (int)a.body.n, a.body.p);
			http_release(&a);
		}
}

/* nginx hands the decoded path on; CVE-2019-11043 began with a %0a in it. */
Test(requests, with_a_line_break_in_the_path_are_refused, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ 0 });
	static const char *const paths[] = { "/hello.php/%0aa", "/x%0d", "/echo/%0a" };
	struct web *web = nginx_start(s->addr);

	for (size_t i = 0; i < COUNT_OF(paths); i++) {
		struct http_answer a;

		http_get(text("%s%s", web->url, paths[i]), &a);
		cr_assert_eq(a.status, 400, "%s: %ld", paths[i], a.status);
		http_release(&a);
	}
	cr_assert(weir_counts(s->weir, "backend_answers", 0, 5000));
}

/* Which web server stops it, and how, is its own affair. */
Test(requests, with_70_kib_of_cookies_harm_nobody_behind_a_web_server, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	struct web *webs[] = { lighttpd_start(s->addr), nginx_start(s->addr),
		apache_start(s->addr) };
	const char *headers[] = { text("Cookie: %070000d", 1), NULL };

	for (size_t i = 0; i < COUNT_OF(webs); i++) {
		const char *url = text("%s/x", webs[i]->url);
		struct http_answer a;

		http_call(&(struct http_request){ .url = url, .headers = headers }, &a);
		cr_expect(a.status >= 400 && a.status < 600, "server %zu: %ld, error %d", i,
			a.status, a.error);
		http_release(&a);
		http_get(url, &a);
		cr_expect_eq(a.status, 200, "server %zu: %ld", i, a.status);
		http_release(&a);
	}
	cr_assert(process_running(s->weir->process));
}

/* ---- Uploads ---- */

/* The refusal comes at once; what still comes is read for a while, and no longer. */
Test(uploads, of_a_gibibyte_are_refused_before_they_are_sent, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.server = "drain_timeout = 1s\n",
		.endpoints =
			"[endpoint never]\nmatch = * /never\n@RateLimit = count=0\n" });
	const char *params[] = { "CONTENT_LENGTH=1073741824", NULL };
	struct fcgi_request rq = { .method = "POST", .uri = "/never", .params = params };
	static char piece[32768];
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(s->addr);
	int64_t began;

	send_head(fd, &rq);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_END, 5000));
	cr_assert_eq(answer_status(&a), 403);
	fcgi_record(&b, STDIN, 1, view_of(piece, sizeof(piece)), 0);
	for (began = now_ms(); fcgi_send(fd, buf_view(&b), 5000); wait_a_little())
		cr_assert(now_ms() - began < 15000, "it is read for ever");
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

/* In chunks: Apache then names no length, which php-fpm cannot do without. */
Test(uploads, of_unknown_length_reach_php_whole_behind_each_web_server, .timeout = 60)
{
	static const char *const confs[] = { "apache/weir.conf",
		"apache/weir-proxypass.conf", "nginx/weir-unbuffered.conf",
		"lighttpd/weir.conf" };
	struct site *s = site_start(&(struct site_spec){ 0 });

	for (size_t i = 0; i < COUNT_OF(confs); i++) {
		struct web *web = web_start(
			&(struct web_spec){ .conf = confs[i], .backend = s->addr });
		const char *n, *sha256;
		struct http_answer a;

		http_call(&(struct http_request){ .url = text("%s/hello.php", web->url),
				  .pattern_bytes = 300000,
				  .chunked = true },
			&a);
		cr_expect_eq(a.status, 200, "%s: %ld", confs[i], a.status);
		n = line_of(buf_view(&a.body), "CONTENT_LENGTH");
		sha256 = line_of(buf_view(&a.body), "body_sha256");
		cr_expect_str_eq(n ? n : "", "300000", "%s", confs[i]);
		cr_expect_str_eq(
			sha256 ? sha256 : "", sha256_of_pattern(300000), "%s", confs[i]);
		http_release(&a);
	}
}

/* A backend that says 413 at once while the body is still being sent to it. */
Test(uploads, refused_by_the_backend_cost_no_processor_time, .timeout = 60)
{
	static struct buf bytes;
	static struct view piece;
	static struct backend_script script = { .pieces = &piece,
		.n_pieces = 1,
		.early = true,
		.no_reading = true,
		.stay = true };
	const char *addr = addr_unix("early.sock");
	struct fcgi_request rq = { .uri = "/x", .pattern_bytes = 8 << 20 };
	struct fcgi_answer a;
	struct weir *w;
	double cpu;

	backend_answer(&bytes, VIEW("Status: 413 Content Too Large\r\n\r\nno"));
	piece = buf_view(&bytes);
	backend_start(addr, &script);
	w = weir_start(&(struct weir_spec){ .server = "backend = early\n",
		.sections = text(
			"[store]\ntype = memory\n[backend early]\nfastcgi = %s\n", addr) });
	cr_assert(fcgi_call(w->addr, &rq, &a, 10000));
	cr_assert_eq(answer_status(&a), 413);
	cpu = process_cpu_seconds(w->process);
	WAIT_UNTIL(1000, false);
	cr_assert_lt(process_cpu_seconds(w->process), cpu + 0.3, "it is still at it");
	fcgi_answer_release(&a);
}

/* ---- php-fpm ---- */

/* It lends a worker to each connection until that is closed. */
Test(php, workers_are_free_while_web_servers_keep_their_connections, .timeout = 60)
{
	const char *php = php_fpm_start(2);
	struct weir *w = weir_start(&(struct weir_spec){ .server = "backend = php\n",
		.sections = text(
			"[store]\ntype = memory\n[backend php]\nfastcgi = %s\n", php) });
	struct fcgi_request rq = { .uri = "/hello.php",
		.script = text("%s/hello.php", programs_dir()),
		.keep = true };
	int fds[5];

	for (size_t i = 0; i < COUNT_OF(fds); i++) {
		struct fcgi_answer a;
		struct buf b = { 0 };

		fds[i] = dial(w->addr);
		fcgi_compose(&b, &rq);
		fcgi_answer_init(&a);
		cr_assert(fcgi_exchange(fds[i], buf_view(&b), &a, FCGI_UNTIL_END, 10000),
			"request %zu waits", i);
		cr_assert_eq(answer_status(&a), 200);
		cr_assert(!a.closed);
		fcgi_answer_release(&a);
		buf_release(&b);
	}
	for (size_t i = 0; i < COUNT_OF(fds); i++)
		close(fds[i]);
}

Test(php, that_is_busy_is_waited_for_as_long_as_configured, .timeout = 60)
{
	const char *php = php_fpm_start(1);
	struct weir *w = weir_start(&(struct weir_spec){ .server = "backend = php\n",
		.sections = text("[store]\ntype = memory\n[backend php]\nfastcgi = %s\n"
				 "first_byte_timeout = 1s\nretry = never\n",
			php) });
	const char *script = text("%s/hello.php", programs_dir());
	struct fcgi_request busy = { .uri = "/hello.php?sleep=4", .script = script },
			    next = { .uri = "/hello.php", .script = script };
	struct fcgi_answer a;
	int status = 0;

	for (int i = 0; i < 2; i++) {
		cr_assert(fcgi_call(w->addr, i ? &next : &busy, &a, 10000));
		cr_assert_eq(answer_status(&a), 504, "%d", answer_status(&a));
		fcgi_answer_release(&a);
	}
	cr_assert(weir_counts(w, "exchanges_open", 0, 5000));
	for (int64_t until = now_ms() + 15000; status != 200 && now_ms() < until;) {
		status = fcgi_call(w->addr, &next, &a, 10000) ? answer_status(&a) : 0;
		fcgi_answer_release(&a);
	}
	cr_assert_eq(status, 200, "%d", status);
}

/* ---- Programs ---- */

Test(programs, do_not_outlive_a_weir_that_is_killed, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.endpoints = "[endpoint pid]\nmatch = * /pid\nbackend = cgi\n" });
	struct fcgi_request rq = { .uri = "/pid" };
	const char *pid_file = test_path("pid");
	pid_t pid;
	int fd = dial(s->addr);

	add_program(s, "pid",
		text("#!/bin/sh\necho $$ >%s.new; mv %s.new %s; exec sleep 30\n", pid_file,
			pid_file, pid_file));
	send_head(fd, &rq);
	fcgi_send(fd, VIEW("\1\5\0\1\0\0\0\0"), 1000);
	cr_assert(WAIT_UNTIL(5000, access(pid_file, F_OK) == 0));
	pid = atoi(file_read(pid_file));
	process_signal(s->weir->process, SIGKILL);
	cr_assert(process_ends(s->weir->process, 5000));
	/* Nobody's child any more: init takes it, or it stays a zombie. */
	cr_assert(
		WAIT_UNTIL(5000,
			kill(pid, 0) < 0 ||
				strstr(file_read(text("/proc/%d/stat", (int)pid)), ") Z")),
		"process %d still runs", (int)pid);
	close(fd);
}

/* Programs that write much before they read what was sent: neither side may wait. */
Test(programs, that_answer_before_they_read_block_nobody, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.endpoints = "[endpoint first]\nmatch = * /first\nbackend = cgi\n" });
	struct fcgi_request rq = { .uri = "/first", .pattern_bytes = 1000000 };
	struct fcgi_answer a;

	add_program(s, "first",
		"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n"
		"head -c 300000 /dev/zero | tr '\\0' x\necho\necho \"read=$(wc -c)\"\n");
	cr_assert(fcgi_call(s->addr, &rq, &a, 20000));
	cr_assert_str_eq(line_of(answer_body(&a), "read"), "1000000");
	fcgi_answer_release(&a);
}

Test(programs, that_may_be_executed_run_and_others_do_not)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	static const struct {
		mode_t mode;
		int status;
	} rows[] = { { 0111, 200 }, { 0755, 200 }, { 0644, 403 } };

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		cr_assert_eq(chmod(text("%s/echo", s->programs), rows[i].mode), 0);
		cr_assert_eq(site_get(s, "/echo"), rows[i].status, "mode %o", rows[i].mode);
	}
}

/* By whoever can write to weir's socket. */
Test(programs, that_lie_outside_the_root_are_not_run)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.endpoints = "[endpoint all]\nmatch = * /**\nbackend = cgi\n" });
	const char *dir = s->programs;
	const struct {
		const char *script;
		int status;
	} rows[] = {
		{ text("%s/../../../../../../bin/sh", dir), 403 },
		{ text("%s/out", dir), 403 },
		{ text("%s/up/bin/sh", dir), 403 },
		{ text("proxy:fcgi://weir%s/../../../bin/sh", dir), 403 },
		/* What is named by nothing below the root is what the path names. */
		{ "/bin/sh", 404 },
	};

	cr_assert_eq(symlink("/bin/sh", text("%s/out", dir)), 0);
	cr_assert_eq(symlink("/", text("%s/up", dir)), 0);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fcgi_request rq = { .uri = "/none", .script = rows[i].script };
		struct fcgi_answer a;

		cr_assert(fcgi_call(s->addr, &rq, &a, 5000));
		cr_expect_eq(answer_status(&a), rows[i].status, "%s: %d", rows[i].script,
			answer_status(&a));
		fcgi_answer_release(&a);
	}
	cr_assert_eq(weir_counter(s->weir, "programs_started"), 0);
}

struct crowd {
	pthread_t thread;
	const char *addr;
	unsigned whole, busy, other;
};

static void *post_often(void *arg)
{
	struct crowd *c = arg;

	for (int i = 0; i < 10; i++) {
		struct fcgi_request rq = { .uri = "/echo", .pattern_bytes = 10 };
		struct fcgi_answer a;
		bool ok = fcgi_call(c->addr, &rq, &a, 30000) && a.out.n > 11;
		int status = ok ? atoi(a.out.p + 8) : 0;

		c->whole += status == 200;
		c->busy += status == 503;
		c->other += status != 200 && status != 503;
		fcgi_answer_release(&a);
	}
	return NULL;
}

/* With 64 descriptors in all, 40 posts to programs at once, each of which takes several. */
Test(programs, that_find_no_descriptors_are_refused_and_later_run, .timeout = 90)
{
	static struct crowd crowd[40];
	struct weir *w = weir_configure(&(struct weir_spec){
		.server = "backend = cgi\nworkers = 2\n",
		.sections = text("[store]\ntype = memory\n[backend cgi]\ncgi = %s\n",
			programs_dir()) });
	const char *const argv[] = { "sh", "-c",
		text("ulimit -n 64; exec %s -c %s", test_env("WEIR"), w->ini), NULL };
	struct fcgi_request rq = { .uri = "/echo", .pattern_bytes = 10 };
	unsigned whole = 0, busy = 0, other = 0;
	struct fcgi_answer a;
	size_t files;

	if (under_valgrind())
		skip_test("valgrind keeps descriptors for itself");
	w->process = process_start(&(struct process_spec){ .name = "weir", .argv = argv });
	cr_assert(WAIT_UNTIL(10000, addr_answers(w->addr) && addr_answers(w->control)));
	/* Once each worker: libuv takes a descriptor in reserve at a loop's first connection. */
	for (int i = 0; i < 2; i++) {
		cr_assert(fcgi_call(w->addr, &rq, &a, 10000) && answer_status(&a) == 200);
		fcgi_answer_release(&a);
		cr_assert(weir_counts(w, "connections_open", 0, 5000));
	}
	files = process_files_at_rest(w->process);
	for (size_t i = 0; i < COUNT_OF(crowd); i++) {
		crowd[i].addr = w->addr;
		pthread_create(&crowd[i].thread, NULL, post_often, &crowd[i]);
	}
	for (size_t i = 0; i < COUNT_OF(crowd); i++) {
		pthread_join(crowd[i].thread, NULL);
		whole += crowd[i].whole;
		busy += crowd[i].busy;
		other += crowd[i].other;
	}
	cr_log_info("%u whole, %u busy, %u other", whole, busy, other);
	cr_assert_eq(other, 0, "%u whole, %u busy, %u other", whole, busy, other);
	cr_assert(whole > 0 && busy > 0, "%u whole, %u busy", whole, busy);
	cr_assert(process_running(w->process));
	cr_assert(WAIT_UNTIL(10000, process_open_files(w->process) <= files),
		"%zu descriptors, %zu before", process_open_files(w->process), files);
	for (int i = 0; i < 100; i++) {
		cr_assert(fcgi_call(w->addr, &rq, &a, 10000) && answer_status(&a) == 200);
		fcgi_answer_release(&a);
	}
}
