/*
 * test_operator.c - what an operator has beside a running weir: weirctl and the status
 * page, the programs as they are installed.
 */
#include "site.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct backend_script plain;
/* No peer that weirctl expects. */
static const struct view greeting = VIEW("220 ready\n");
static const struct backend_script babble = {
	.early = true, .pieces = &greeting, .n_pieces = 1
};

#define RULES                                             \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n" \
	"@RateLimit = type=user count=2 window=1h\n"
/* Where there is a directory to have them in. */
#define PLANS                                                  \
	"@RateLimit = type=user plan=paid count=4 window=1h\n" \
	"@RateLimit = type=user plan=bulk count=100000 window=1h\n"

static struct weir_spec spec_with(const char *more)
{
	const char *addr = addr_unix("plain.sock");

	return (struct weir_spec){ .server = "workers = 2\n",
		.sections = text(
			"[store]\ntype = memory\n[backend plain]\nfastcgi = %s\n%s", addr,
			more),
		.endpoints = strstr(more, "directory =") ? RULES PLANS : RULES };
}

static struct weir *running(const char *more)
{
	struct weir_spec spec = spec_with(more);
	static struct backend *backend;

	if (!backend)
		backend = backend_start(addr_unix("plain.sock"), &plain);
	return weir_start(&spec);
}

static int get(const struct weir *w, const char *token)
{
	struct fcgi_request rq = { .uri = "/a",
		.params = (const char *const[]){
			token ? text("HTTP_AUTHORIZATION=Bearer %s", token) : NULL,
			NULL } };
	struct fcgi_answer a;
	int status = fcgi_call(w->addr, &rq, &a, 20000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

/* ---- weirctl ---- */

static json_t *parsed(const char *out)
{
	json_t *o = json_loads(out, 0, NULL);

	cr_assert(json_is_object(o), "%s", out);
	return o;
}

static int64_t number(const json_t *o, const char *part, const char *name)
{
	const json_t *n = json_object_get(json_object_get(o, part), name);

	cr_assert(json_is_integer(n), "%s.%s", part, name);
	return json_integer_value(n);
}

/* "       3  requests  ...": the value of a counter on the screen. */
static long shown(const char *out, const char *name)
{
	char found[64], value[32];

	for (const char *at = out; at; at = strchr(at + 1, '\n'))
		if (sscanf(at, " %31[0-9] %63[a-z_]", value, found) == 2 &&
			strcmp(found, name) == 0)
			return atol(value);
	fail("no %s in\n%s", name, out);
}

Test(operator, sees_what_weir_is_doing, .timeout = 60)
{
	struct weir *w = running("");
	const char *good = file_read(endpoint_file(w, "a")), *out;
	json_t *o;

	for (int i = 0; i < 3; i++)
		cr_assert_eq(get(w, NULL), i < 2 ? 200 : 429);
	cr_assert(weir_counts(w, "requests_refused", 1, 10000));
	out = weirctl("-c %s status", w->ini);
	cr_assert(strstr(out, text("process %d, up ", (int)w->process->pid)), "%s", out);
	cr_assert(strstr(out, text("configuration %s, read ", w->ini)), "%s", out);
	cr_assert_null(strstr(out, "was not taken"), "%s", out);
	cr_assert_eq(shown(out, "requests"), 3);
	cr_assert_eq(shown(out, "requests_passed"), 2);
	cr_assert_eq(shown(out, "requests_refused"), 1);
	/* The same for machines, wherever the option stands, and without the file. */
	for (int i = 0; i < 3; i++) {
		static const char *const forms[] = { "-c %s status --json",
			"status --json --config %s", "--socket %s status --json" };

		out = weirctl(i == 0     ? "-c %s status --json"
				: i == 1 ? "status --json --config %s"
					 : "--socket %s status --json",
			i == 2 ? w->control : w->ini);
		o = parsed(out);
		cr_assert_eq(number(o, "process", "pid"), w->process->pid, "%s", forms[i]);
		cr_assert_eq(number(o, "counters", "requests"), 3);
		cr_assert_eq(number(o, "counters", "requests_refused"), 1);
		cr_assert_eq(json_array_size(json_object_get(o, "workers")), 2);
		json_decref(o);
	}
	/* A reload that went wrong, and one that went well. */
	file_replace(endpoint_file(w, "a"), "[endpoint a]\n");
	reload(w, RELOAD_FAILS);
	out = weirctl("-c %s --socket %s status", w->ini, w->control);
	cr_assert(strstr(out, "The last reload was not taken"), "%s", out);
	file_replace(endpoint_file(w, "a"), good);
	reload(w, RELOADED);
	out = weirctl("-c %s status", w->ini);
	cr_assert_null(strstr(out, "was not taken"), "%s", out);
}

/* Exit status 1, nothing on the output, and a sentence that says why. */
static void expect_failure(struct run r, const char *why, const char *when)
{
	cr_assert_eq(r.status, 1, "%s: %d, %s", when, r.status, r.err);
	cr_assert_str_eq(r.out, "", "%s", when);
	cr_assert(strncmp(r.err, "weirctl: ", 9) == 0 && strstr(r.err, why), "%s: %s", when,
		r.err);
}

Test(operator, is_told_why_weir_cannot_be_asked, .timeout = 60)
{
	struct weir *w = running(""), *other;
	const char *path = w->control + strlen("unix:"), *wrong = test_path("wrong.ini");
	const char *file = test_path("file"), *odd = addr_unix("odd.sock");
	const char *const silent[] = { "[server]\ncontrol =\n", "[server]\ncontrol = x\n" };

	/* Stopped in its tracks: it is there, and says nothing. */
	process_signal(w->process, SIGSTOP);
	expect_failure(weirctl_run("-c %s status", w->ini), "did not answer on", "stopped");
	process_signal(w->process, SIGCONT);
	cr_assert(strstr(weirctl("-c %s status", w->ini), "weir "));
	/* Killed: its socket stays behind. */
	process_signal(w->process, SIGKILL);
	cr_assert(process_ends(w->process, 10000));
	cr_assert_eq(access(path, F_OK), 0);
	expect_failure(
		weirctl_run("-c %s status", w->ini), "weir is not running", "killed");
	expect_failure(weirctl_run("-c %s status --json", w->ini), "weir is not running",
		"killed, for machines");
	/* Ended as it should: no socket. */
	other = running("");
	process_signal(other->process, SIGTERM);
	cr_assert_eq(process_exit(other->process, 20000), 0);
	expect_failure(weirctl_run("-c %s status", other->ini),
		text("there is no %s: weir is not running",
			other->control + strlen("unix:")),
		"ended");
	/* Something else at its place. */
	file_write(file, "");
	expect_failure(
		weirctl_run("--socket unix:%s status", file), "is not a socket", "a file");
	backend_start(odd, &babble);
	expect_failure(weirctl_run("--socket %s status", odd),
		"does not speak as weir does", "somebody else");
	expect_failure(weirctl_run("--socket /run/weir.sock status"),
		"is no control address", "no address");
	/* The configuration does not say where. */
	file_write(wrong, silent[0]);
	expect_failure(
		weirctl_run("-c %s status", wrong), "has no control socket", "no socket");
	file_write(wrong, silent[1]);
	expect_failure(
		weirctl_run("-c %s status", wrong), "weirctl check says why", "mistakes");
	expect_failure(weirctl_run("-c /nonexistent/weir.ini status"),
		"cannot be read from", "no file");
}

Test(operator, is_told_what_a_command_line_should_be)
{
	static const char *const rows[] = { "", "no-such-command", "status now",
		"--no-such-option status", "status --no-such-option", "check twice",
		"token", "token forget 1", "db", "--json check", "--db x status" };

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct run r = *rows[i] ? weirctl_run("%s", rows[i])
					: weirctl_run("-c /nonexistent");

		cr_assert_eq(r.status, 2, "weirctl %s: %d, %s", rows[i], r.status, r.err);
		cr_assert_str_eq(r.out, "", "weirctl %s", rows[i]);
		cr_assert_str_neq(r.err, "", "weirctl %s", rows[i]);
	}
	cr_assert_str_eq(weirctl_run("status --jsn").err,
		"weirctl status: unrecognized option '--jsn'\n");
	cr_assert_str_eq(
		weirctl_run("check --json").err, "weirctl: check takes no \"--json\"\n");
	cr_assert(strncmp(weirctl_run("--jsn").err,
			  "weirctl: unrecognized option '--jsn'\nusage: ", 44) == 0);
	cr_assert(strstr(weirctl("--help"), "usage: weirctl"));
	cr_assert(strncmp(weirctl("--version"), "weirctl ", 8) == 0);
}

Test(operator, checks_what_is_to_be_put_in_force)
{
	struct weir_spec spec = spec_with("[client]\nuser = remote_user\n");
	const struct weir *w;
	const char *out;
	struct run r;

	spec.endpoints = RULES "@RateLimit = type=user plan=default count=4 window=1h\n";
	w = weir_configure(&spec);
	out = weirctl("-c %s check", w->ini);
	cr_assert(strstr(out, text("%s: files 2, endpoints 1, backends 1", w->ini)), "%s",
		out);
	cr_assert(strstr(out, "plan default: 4"), "%s", out);
	file_write(w->ini, "[server]\nworkers = many\n");
	r = weirctl_run("-c %s check", w->ini);
	cr_assert_eq(r.status, 1);
	cr_assert_str_eq(r.out, "");
	cr_assert(
		strstr(r.err, text("%s:2: server.workers: \"many\"", w->ini)), "%s", r.err);
}

/* The reference and the commented file that is shipped name the same options. */
Test(operator, finds_every_option_of_the_shipped_file_in_the_reference)
{
	const char *reference = weirctl("options");
	const char *ini = file_read(text("%s/../etc/weir.ini", test_env("WEIR_CONTRIB")));
	unsigned found = 0;

	for (const char *line = ini; line && *line; line += strcspn(line, "\n") + 1) {
		const char *name = *line == ';' ? line + 1 : line;
		size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

		if (n && strncmp(name + n, " =", 2) == 0) {
			cr_assert(strstr(reference, text("\n%.*s ", (int)n, name)) ||
					strstr(reference,
						text("\n  %.*s ", (int)n, name)) ||
					strstr(reference, text(".%.*s ", (int)n, name)),
				"%.*s", (int)n, name);
			found++;
		}
	}
	cr_assert_geq(found, 50);
}

Test(operator, finds_every_attribute_and_algorithm_in_the_reference)
{
	static const char *const words[] = { "\n[site], [endpoint NAME]\n@RateLimit = ",
		"\ntype=user|ip|global|custom ", "\ncount=NUMBER|unlimited ",
		"\nwindow=DURATION ", "\non_error=", "\nname=NAME ", "token_bucket",
		"sliding_counter", "{header:NAME}" };
	const char *reference = weirctl("options");

	for (size_t i = 0; i < COUNT_OF(words); i++)
		cr_assert(strstr(reference, words[i]), "no \"%s\" in\n%s", words[i],
			reference);
}

/* ---- The log ---- */

Test(operator, is_told_of_each_backend_that_fails, .timeout = 60)
{
	static const char *const uris[] = { "/a", "/b", "/a", "/b" };
	struct weir *w = weir_start(
		&(struct weir_spec){ .sections = text("[store]\ntype = memory\n"
						      "[backend one]\nfastcgi = %s\n"
						      "[backend two]\nfastcgi = %s\n",
					     addr_unix("one.sock"), addr_unix("two.sock")),
			.endpoints = "[endpoint a]\nmatch = * /a\nbackend = one\n"
				     "[endpoint b]\nmatch = * /b\nbackend = two\n" });

	for (size_t i = 0; i < COUNT_OF(uris); i++) {
		struct fcgi_request rq = { .uri = uris[i] };
		struct fcgi_answer a;

		cr_assert(fcgi_call(w->addr, &rq, &a, 20000));
		cr_assert_eq(answer_status(&a), 503);
		fcgi_answer_release(&a);
	}
	cr_assert(process_logs(w->process, "backend=two", 5000), "%s",
		process_log(w->process));
	cr_assert(strstr(process_log(w->process), "backend=one"), "%s",
		process_log(w->process));
}

Test(operator, has_the_lines_of_requests_at_any_level)
{
	struct weir *w = running("[log]\nlevel = error\nrequests = all\n");

	cr_assert_eq(get(w, NULL), 200);
	cr_assert(process_logs(w->process, "status=200", 5000), "%s",
		process_log(w->process));
	cr_assert(!strstr(process_log(w->process), "level=notice"), "%s",
		process_log(w->process));
}

/* ---- Users and tokens while weir serves ---- */

Test(operator, gives_and_takes_tokens_while_weir_serves, .timeout = 60)
{
	const char *client = text("[client]\nuser = token\ndirectory = sqlite:%s\n"
				  "directory_ttl = 200ms\ndirectory_miss_ttl = 200ms\n",
		test_path("weir.db"));
	struct weir_spec spec = spec_with(client);
	const char *ini = weir_configure(&spec)->ini, *alice, *bob, *admin;
	struct weir *w;

	weirctl("-c %s db init", ini);
	w = running(client);
	/* By address; from here on whoever is nobody is refused. */
	for (int i = 0; i < 3; i++)
		cr_assert_eq(get(w, "weir_nobody"), i < 2 ? 200 : 429);
	/* The first request that brings a token is the first that is looked up. */
	weirctl("-c %s plan add paid", ini);
	weirctl("-c %s user add alice", ini);
	alice = token_in(weirctl("-c %s token add alice --label laptop", ini));
	for (int i = 0; i < 3; i++)
		cr_assert_eq(get(w, alice), i < 2 ? 200 : 429);
	/* Another plan, of which two are used. */
	weirctl("-c %s user set alice --plan paid", ini);
	cr_assert(WAIT_UNTIL(20000, get(w, alice) == 200));
	cr_assert_eq(get(w, alice), 200);
	cr_assert_eq(get(w, alice), 429);
	/* An admin meets no limit, for as long as the token is one. */
	admin = token_in(weirctl("-c %s token add alice --admin --label boss", ini));
	for (int i = 0; i < 6; i++)
		cr_assert_eq(get(w, admin), 200);
	cr_assert_geq(weir_counter(w, "requests_exempt"), 6);
	cr_assert(strstr(weirctl("-c %s token list", ini), "boss"));
	weirctl("-c %s token revoke boss", ini);
	cr_assert(WAIT_UNTIL(20000, get(w, admin) == 429));
	/* A user that is disabled is nobody, and then somebody again. */
	weirctl("-c %s plan add bulk", ini);
	weirctl("-c %s user add bob --plan bulk", ini);
	bob = token_in(weirctl("-c %s token add bob --expires 30d", ini));
	cr_assert_eq(get(w, bob), 200);
	weirctl("-c %s user disable bob", ini);
	cr_assert(WAIT_UNTIL(20000, get(w, bob) == 429));
	weirctl("-c %s user enable bob", ini);
	cr_assert(WAIT_UNTIL(20000, get(w, bob) == 200));
}

/* ---- The status page ---- */

/* lighttpd with weir-status as a FastCGI application and as a CGI program. */
static const char *status_pages(const char *control)
{
	const char *conf = test_path("lighttpd.conf"), *cgi = test_path("cgi");
	const char *const argv[] = { "lighttpd", "-D", "-f", conf, NULL };
	unsigned port = free_port();
	struct process *p;

	cr_assert_eq(mkdir(cgi, 0755), 0);
	file_copy(test_env("WEIR_STATUS"), text("%s/weir-status", cgi));
	file_write(conf,
		text("server.modules = ( \"mod_fastcgi\", \"mod_cgi\", \"mod_alias\", "
		     "\"mod_setenv\" )\n"
		     "server.document-root = \"%s\"\n"
		     "server.bind = \"127.0.0.1\"\n"
		     "server.port = %u\n"
		     "fastcgi.server = ( \"/weir-status\" => ((\n"
		     "\t\"socket\" => \"%s\",\n\t\"bin-path\" => \"%s/weir-status\",\n"
		     "\t\"max-procs\" => 1,\n\t\"check-local\" => \"disable\",\n"
		     "\t\"bin-environment\" => ( \"WEIR_CONTROL\" => \"%s\" )\n)))\n"
		     "$HTTP[\"url\"] =~ \"^/cgi/\" {\n"
		     "alias.url = ( \"/cgi/\" => \"%s/\" )\n"
		     "setenv.add-environment = ( \"WEIR_CONTROL\" => \"%s\" )\n"
		     "cgi.assign = ( \"\" => \"\" )\n}\n",
			test_dir(), port, test_path("status.sock"), cgi, control, cgi,
			control));
	p = process_start(&(struct process_spec){ .name = "lighttpd", .argv = argv });
	process_expect(p, text("tcp:127.0.0.1:%u", port));
	return text("http://127.0.0.1:%u", port);
}

/* GET of a page below both places: its status, and the words that have to be in it. */
static void expect_page(const char *place, const char *page, long status, const char *type,
	const char *words)
{
	const char *url = text("%s%s", place, page), *got;
	struct http_answer a;

	http_get(url, &a);
	cr_assert_eq(a.error, 0, "%s: %d", url, a.error);
	cr_assert_eq(a.status, status, "%s: %ld", url, a.status);
	got = field_of(buf_view(&a.head), "Content-Type");
	cr_assert(got && strncmp(got, type, strlen(type)) == 0, "%s: %s", url, got);
	cr_assert(memmem(a.body.p, a.body.n, words, strlen(words)),
		"%s: no \"%s\" in\n%.*s", url, words, (int)a.body.n, a.body.p);
	if (status == 503)
		cr_assert(fields_of(buf_view(&a.head), "Retry-After") == 1, "%s", url);
	http_release(&a);
}

static int64_t refused_by(const char *place)
{
	struct http_answer a;
	int64_t n;
	json_t *o;

	http_get(text("%s/status.json", place), &a);
	cr_assert_eq(a.status, 200);
	o = json_of(buf_view(&a.body));
	n = number(o, "counters", "requests_refused");
	json_decref(o);
	http_release(&a);
	return n;
}

Test(operator, has_a_status_page_as_fastcgi_and_as_cgi, .timeout = 60)
{
	struct weir *w = running("");
	const char *web = status_pages(w->control);
	const char *const places[] = { text("%s/weir-status", web),
		text("%s/cgi/weir-status", web) };

	for (size_t i = 0; i < COUNT_OF(places); i++) {
		struct http_request post = { .url = text("%s/", places[i]),
			.method = "POST",
			.body = VIEW("reset=1") };
		struct http_answer a;
		int64_t before = refused_by(places[i]);

		expect_page(places[i], "/", 200, "text/html", "</html>");
		expect_page(places[i], "/metrics", 200, "text/plain; version=0.0.4",
			"weir_workers 2\n");
		expect_page(places[i], "/status.json", 200, "application/json",
			text("\"pid\": %d", (int)w->process->pid));
		expect_page(
			places[i], "/secrets", 404, "text/plain", "There is no such page");
		http_call(&post, &a);
		cr_assert_eq(a.status, 405, "%s: %ld", post.url, a.status);
		http_release(&a);
		/* Each answer asks anew. */
		while (get(w, NULL) != 429)
			;
		cr_assert(WAIT_UNTIL(10000, refused_by(places[i]) == before + 1));
		expect_page(places[i], "/metrics", 200, "text/plain",
			text("\nweir_requests_refused_total %lld\n",
				(long long)before + 1));
	}
	/* weir is gone: each page says so, in its own form. */
	process_signal(w->process, SIGTERM);
	cr_assert_eq(process_exit(w->process, 20000), 0);
	for (size_t i = 0; i < COUNT_OF(places); i++) {
		expect_page(places[i], "/", 503, "text/html", "weir is not running");
		expect_page(
			places[i], "/metrics", 503, "text/plain", "weir is not running");
		expect_page(
			places[i], "/status.json", 503, "application/json", "\"error\": ");
	}
}

/* The shipped file in place, as contrib/lighttpd says; weir.conf takes every path behind it. */
Test(operator, has_the_shipped_status_page_beside_weir, .timeout = 60)
{
	static const char socket[] = "/run/weir/weir.sock";
	struct weir *w = running("");
	const char *program = test_path("weir-status"), *second = test_path("weir.conf");
	const char *conf = file_read(
		text("%s/lighttpd/weir.conf", test_env("WEIR_CONTRIB")));
	const char *at = strstr(conf, socket);
	struct web *web;

	cr_assert(at);
	file_write(second,
		text("%.*s%s%s", (int)(at - conf), conf, w->addr + strlen("unix:"),
			at + strlen(socket)));
	file_write(program,
		text("#!/bin/sh\nWEIR_CONTROL=%s exec %s\n", w->control,
			test_env("WEIR_STATUS")));
	cr_assert_eq(chmod(program, 0755), 0);
	web = web_start(&(struct web_spec){ .conf = "lighttpd/weir-status.conf",
		.backend = w->addr,
		.more = text("include \"%s\"\n", second) });
	expect_page(
		web->url, "/weir-status/metrics", 200, "text/plain", "weir_workers 2\n");
	expect_page(web->url, "/missing", 404, "application/json", "\"code\":40400");
}

Test(operator, finds_the_status_page_again_when_weir_is_back, .timeout = 60)
{
	struct weir *w = running("");
	const char *place = text("%s/weir-status", status_pages(w->control));
	const char *const argv[] = { test_env("WEIR"), "-c", w->ini, NULL };

	expect_page(place, "/metrics", 200, "text/plain", "weir_workers 2\n");
	process_signal(w->process, SIGKILL);
	cr_assert(process_ends(w->process, 10000));
	expect_page(place, "/metrics", 503, "text/plain", "weir is not running");
	w->process = process_start(&(struct process_spec){ .name = "weir", .argv = argv });
	process_expect(w->process, w->control);
	expect_page(place, "/metrics", 200, "text/plain", "weir_workers 2\n");
	expect_page(place, "/status.json", 200, "application/json",
		text("\"pid\": %d", (int)w->process->pid));
}
