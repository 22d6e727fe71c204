/*
 * test_programs.c - programs that people run, unchanged, behind weir: git over HTTP, a PHP
 * application with sessions and uploads, CGI.pm, php-cgi.
 */
#include "support.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define IN_MEMORY "[store]\ntype = memory\n"

static const char *made_dir(const char *name)
{
	const char *dir = test_path(name);

	if (mkdir(dir, 0755) < 0)
		fail("%s: %s", dir, strerror(errno));
	return dir;
}

static void program_write(const char *path, const char *content)
{
	file_write(path, content);
	if (chmod(path, 0755) < 0)
		fail("%s: %s", path, strerror(errno));
}

/* The three web servers in front of w. */
static void all_webs(const struct weir *w, const char *root, struct web *webs[3])
{
	static const char *const confs[] = { "lighttpd/weir.conf", "nginx/weir.conf",
		"apache/weir.conf" };

	for (size_t i = 0; i < COUNT_OF(confs); i++)
		webs[i] = web_start(&(struct web_spec){
			.conf = confs[i], .backend = w->addr, .root = root });
}

/* ---- git http-backend ---- */

static void run_script(const char *script)
{
	const char *const argv[] = { "sh", "-ec", script, NULL };
	const char *const env[] = { text("HOME=%s", test_dir()), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "PATH=/usr/bin:/bin", "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.org", NULL };
	struct process *p = process_start(&(struct process_spec){
		.name = "git", .argv = argv, .env = env, .bare_env = true });

	cr_assert_eq(process_exit(p, 60000), 0, "%s\n%s", script, process_log(p));
}

static struct weir *before_git(const char *options)
{
	return weir_start(&(struct weir_spec){ .server = "workers = 2\n",
		.sections = text(IN_MEMORY "[backend git]\ncgi = /usr/lib/git-core\n"
					   "prefix = /git\n%s",
			options),
		.endpoints = "[endpoint git]\nmatch = * /git/**\nbackend = git\n"
			     "@RateLimit = type=ip count=1000 window=1h\n" });
}

static void clone_and_push(const struct weir *w, struct web *const *webs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *url = text("%s/git/git-http-backend/repo.git", webs[i]->url);

		run_script(
			text("git init -q work%zu; cd work%zu; git remote add origin %s\n"
			     "head -c 5242880 /dev/urandom >big\n"
			     "git add big; git commit -q -m big\n"
			     "git push -q origin HEAD:refs/heads/b%zu\n"
			     "cd ..; git clone -q --single-branch -b b%zu %s again%zu\n"
			     "cmp work%zu/big again%zu/big",
				i, i, url, i, i, url, i, i, i));
	}
	cr_assert(weir_counts(w, "backend_failures", 0, 5000));
	cr_assert(weir_counts(w, "backend_truncated", 0, 5000));
	cr_assert_eq(weir_counter(w, "programs_killed"), 0);
}

/* Without a Content-Length: git sends chunks above 1 MiB. The configuration says where
 * repositories are, which is no place that web servers know. */
Test(programs, git_clones_and_pushes_5_mib_over_each_web_server, .timeout = 180)
{
	const char *root = made_dir("repositories");
	struct web *webs[3];
	struct weir *w;

	run_script(text("git init -q --bare %s/repo.git; cd %s/repo.git\n"
			"git config http.receivepack true",
		root, root));
	w = before_git(
		text("env.GIT_PROJECT_ROOT = %s\nenv.GIT_HTTP_EXPORT_ALL =\n", root));
	all_webs(w, made_dir("documents"), webs);
	clone_and_push(w, webs, COUNT_OF(webs));
}

/* Without GIT_PROJECT_ROOT it is PATH_TRANSLATED that says where a repository is. */
Test(programs, git_finds_repositories_among_the_documents, .timeout = 180)
{
	const char *root = made_dir("projects");
	struct weir *w = before_git("");
	struct web *web = web_start(&(struct web_spec){
		.conf = "lighttpd/weir.conf", .backend = w->addr, .root = root });

	run_script(text("git init -q --bare %s/repo.git; cd %s/repo.git\n"
			"touch git-daemon-export-ok; git config http.receivepack true",
		root, root));
	clone_and_push(w, &web, 1);
}

/* ---- A PHP application ---- */

static const char application[] =
	"<?php\n"
	"session_start(['save_path' => __DIR__, 'use_strict_mode' => true]);\n"
	"$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;\n"
	"header('Content-Type: text/plain');\n"
	"echo \"visits=$_SESSION[visits]\\n\";\n"
	"if (isset($_FILES['file'])) {\n"
	"	echo 'file=', $_FILES['file']['name'], \"\\n\";\n"
	"	echo 'sha256=', hash_file('sha256', $_FILES['file']['tmp_name']), "
	"\"\\n\";\n"
	"	echo 'comment=', $_POST['comment'], \"\\n\";\n"
	"}\n";

#define BOUNDARY "----a-boundary-as-browsers-make-it"

static void form_compose(struct buf *b, size_t file_bytes)
{
	char *content = malloc(file_bytes);

	if (!content)
		fail("no memory");
	pattern_fill(content, 0, file_bytes);
	buf_add_str(b,
		"--" BOUNDARY "\r\n"
		"Content-Disposition: form-data; name=\"comment\"\r\n\r\nwith love\r\n"
		"--" BOUNDARY "\r\n"
		"Content-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n"
		"Content-Type: application/x-a\r\n\r\n");
	buf_add(b, view_of(content, file_bytes));
	buf_add_str(b, "\r\n--" BOUNDARY "--\r\n");
	free(content);
}

static void says(const struct http_answer *a, const char *name, const char *value)
{
	const char *said = line_of(buf_view(&a->body), name);

	cr_assert_eq(a->status, 200, "%ld %.*s", a->status, (int)a->body.n, a->body.p);
	cr_assert_str_eq(said ? said : "(nothing)", value, "%s in %.*s", name,
		(int)a->body.n, a->body.p);
}

/* A browser that was here keeps its session and sends a form with a file. */
static void keeps_a_session(const char *url)
{
	struct buf form = { 0 };
	struct http_answer a;
	const char *cookie;

	form_compose(&form, 1500000);
	http_get(url, &a);
	says(&a, "visits", "1");
	cookie = field_of(buf_view(&a.head), "Set-Cookie");
	cr_assert_not_null(cookie, "%.*s", (int)a.head.n, a.head.p);
	cookie = text("Cookie: %.*s", (int)strcspn(cookie, ";"), cookie);
	http_release(&a);
	http_call(&(struct http_request){ .url = url,
			  .headers = (const char *const[]){ cookie,
				  "Content-Type: multipart/form-data; boundary=" BOUNDARY,
				  NULL },
			  .body = buf_view(&form) },
		&a);
	says(&a, "visits", "2");
	says(&a, "file", "a.bin");
	says(&a, "sha256", sha256_of_pattern(1500000));
	says(&a, "comment", "with love");
	cr_assert_null(field_of(buf_view(&a.head), "Set-Cookie"));
	http_release(&a);
	buf_release(&form);
}

Test(programs, a_php_application_keeps_sessions_and_takes_uploads, .timeout = 120)
{
	const char *root = made_dir("application");
	struct weir *w = weir_start(&(struct weir_spec){ .server = "backend = php\n",
		.sections = text(
			IN_MEMORY "[backend php]\nfastcgi = %s\n", php_fpm_start(3)) });
	struct web *webs[3];

	file_write(text("%s/index.php", root), application);
	all_webs(w, root, webs);
	for (size_t i = 0; i < COUNT_OF(webs); i++)
		keeps_a_session(text("%s/index.php", webs[i]->url));
}

/* ---- CGI.pm ---- */

static const char with_cgi_pm[] =
	"#!/usr/bin/perl\n"
	"use strict; use warnings; use CGI; use Digest::SHA 'sha256_hex';\n"
	"my $q = CGI->new;\n"
	"print $q->header(-type => 'text/plain', -status => '200 Fine',\n"
	"	-cookie => $q->cookie(-name => 'seen', -value => 'yes'));\n"
	"print 'q=', scalar($q->url_param('q')) // '', \"\\n\";\n"
	"print 'path=', $q->path_info, \"\\n\";\n"
	"print 'url=', $q->url(-absolute => 1), \"\\n\";\n"
	"print 'comment=', scalar($q->param('comment')) // '', \"\\n\";\n"
	"if (my $file = $q->upload('file')) {\n"
	"	local $/; binmode $file;\n"
	"	print 'sha256=', sha256_hex(<$file>), \"\\n\";\n"
	"}\n";

Test(programs, a_perl_program_with_cgi_pm_reads_a_form, .timeout = 120)
{
	const char *root = made_dir("cgi");
	struct weir *w = weir_start(&(struct weir_spec){ .server = "backend = perl\n",
		.sections = text(IN_MEMORY "[backend perl]\ncgi = %s\n", root) });
	struct buf form = { 0 };
	struct web *webs[3];

	program_write(text("%s/form.pl", root), with_cgi_pm);
	form_compose(&form, 1500000);
	all_webs(w, root, webs);
	for (size_t i = 0; i < COUNT_OF(webs); i++) {
		struct http_answer a;

		http_call(
			&(struct http_request){
				.url = text("%s/form.pl/more/path?q=a%%20b", webs[i]->url),
				.headers = (const char *const[]){ "Content-Type: "
								  "multipart/form-data; "
								  "boundary=" BOUNDARY,
					NULL },
				.body = buf_view(&form) },
			&a);
		says(&a, "q", "a b");
		says(&a, "path", "/more/path");
		says(&a, "url", "/form.pl");
		says(&a, "comment", "with love");
		says(&a, "sha256", sha256_of_pattern(1500000));
		cr_assert(strstr(field_of(buf_view(&a.head), "Set-Cookie"), "seen=yes"));
		http_release(&a);
	}
	buf_release(&form);
}

/* ---- Names ---- */

static const char tells_its_names[] =
	"#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\n"
	"printf 'file=%s\\nscript=%s\\ninfo=%s\\n' "
	"\"$SCRIPT_FILENAME\" \"$SCRIPT_NAME\" \"$PATH_INFO\"\n";

/* However the web server hands the name over: escaped once, or not at all. */
Test(programs, whose_names_are_escaped_in_urls_run_over_each_web_server, .timeout = 120)
{
	static const struct {
		const char *url, *name;
	} rows[] = {
		{ "/dir%20x/h%C3%A9%20llo.sh", "/dir x/hé llo.sh" },
		{ "/a%2541b.sh", "/a%41b.sh" },
		{ "/100%25.sh", "/100%.sh" },
		{ "/a+b&c=d;e.sh", "/a+b&c=d;e.sh" },
	};
	static const char *const confs[] = { "apache/weir.conf",
		"apache/weir-proxypass.conf", "apache/weir-proxypass-reuse.conf",
		"lighttpd/weir.conf", "nginx/weir.conf" };
	const char *root = made_dir("names");
	const char *tcp = addr_tcp();
	struct weir *w = weir_start(
		&(struct weir_spec){ .server = text("listen = %s\nbackend = cgi\n", tcp),
			.sections = text(IN_MEMORY "[backend cgi]\ncgi = %s\n", root) });

	made_dir("names/dir x");
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		program_write(text("%s%s", root, rows[i].name), tells_its_names);
	for (size_t i = 0; i < COUNT_OF(confs) * COUNT_OF(rows); i++) {
		const char *conf = confs[i / COUNT_OF(rows)];
		const char *name = rows[i % COUNT_OF(rows)].name;
		static struct web *web;
		struct http_answer a;

		if (i % COUNT_OF(rows) == 0)
			web = web_start(&(struct web_spec){ .conf = conf,
				.backend = w->addr,
				.tcp = tcp,
				.root = root });
		http_get(text("%s%s/in%%20fo/%%2541?a=b%%3F", web->url,
				 rows[i % COUNT_OF(rows)].url),
			&a);
		cr_expect_eq(a.status, 200, "%s %s: %ld", conf, name, a.status);
		if (a.status == 200) {
			says(&a, "file", text("%s%s", root, name));
			says(&a, "script", name);
			says(&a, "info", "/in fo/%41");
		}
		http_release(&a);
	}
}

/* ... and none of it leads out of the directory. */
Test(programs, outside_the_root_run_over_no_web_server, .timeout = 120)
{
	static const char *const paths[] = { "/..%2foutside.sh", "/..%2Foutside.sh",
		"/%2e%2e%2foutside.sh", "/%2e%2e/outside.sh", "/%252e%252e/outside.sh",
		"/dir/..%2f..%2foutside.sh", "/dir/%252e%252e/%252e%252e/outside.sh",
		"/link.sh", "/%6cink.sh", "/up/outside.sh", "/in.sh%00", "/in.sh%00.txt",
		"/dir%2f..%2f..%2foutside.sh" };
	static const char *const confs[] = { "apache/weir.conf",
		"apache/weir-proxypass.conf", "lighttpd/weir.conf", "nginx/weir.conf" };
	const char *root = made_dir("inside");
	struct weir *w = weir_start(&(struct weir_spec){ .server = "backend = cgi\n",
		.sections = text(IN_MEMORY "[backend cgi]\ncgi = %s\n", root) });

	made_dir("inside/dir");
	program_write(test_path("outside.sh"), tells_its_names);
	program_write(text("%s/in.sh", root), tells_its_names);
	cr_assert_eq(symlink("../outside.sh", text("%s/link.sh", root)), 0);
	cr_assert_eq(symlink("..", text("%s/up", root)), 0);
	for (size_t c = 0; c < COUNT_OF(confs); c++) {
		struct web *web = web_start(&(struct web_spec){
			.conf = confs[c], .backend = w->addr, .root = root });
		struct http_answer a;

		http_get(text("%s/in.sh", web->url), &a);
		says(&a, "script", "/in.sh");
		http_release(&a);
		for (size_t i = 0; i < COUNT_OF(paths); i++) {
			http_get(text("%s%s", web->url, paths[i]), &a);
			cr_expect(a.status >= 400 && a.status < 500, "%s %s: %ld %.*s",
				confs[c], paths[i], a.status, (int)a.body.n, a.body.p);
			http_release(&a);
		}
	}
}

/* ---- php-cgi ---- */

/* CVE-2012-1823 and CVE-2024-4577: a query without '=' became options of php-cgi, where
 * -s shows the source and -d sets what includes the attacker's code. */
Test(programs, no_query_becomes_an_option_of_php_cgi, .timeout = 120)
{
	static const char *const queries[] = { "", "-s", "-n", "-h", "a+b", "+-s", "%2ds",
		"%2d%64+auto_prepend_file%3d/etc/passwd", "-d+allow_url_include%3d1",
		"%ADd+allow_url_include%3d1+%ADd+auto_prepend_file%3dphp://input", "--help",
		"-s=1", "\\-s" };
	const char *root = made_dir("php");
	struct weir *w = weir_start(&(struct weir_spec){ .server = "backend = php\n",
		.sections = text(IN_MEMORY "[backend php]\ncgi = %s\n", root) });
	struct web *webs[] = {
		web_start(&(struct web_spec){
			.conf = "lighttpd/weir.conf", .backend = w->addr, .root = root }),
		web_start(&(struct web_spec){
			.conf = "nginx/weir.conf", .backend = w->addr, .root = root }),
		/* php-cgi runs only where a server says that it was asked for. */
		web_start(&(struct web_spec){ .conf = "apache/weir.conf",
			.backend = w->addr,
			.root = root,
			.more = "SetEnv REDIRECT_STATUS 200\n" }),
	};

	program_write(text("%s/index.php", root),
		"#!/usr/bin/php-cgi8.2\n<?php echo 'query=', $_SERVER['QUERY_STRING'], "
		"\"\\nprepend=\", ini_get('auto_prepend_file'), \"\\n\";\n");
	for (size_t i = 0; i < COUNT_OF(webs) * COUNT_OF(queries); i++) {
		const struct web *web = webs[i / COUNT_OF(queries)];
		const char *query = queries[i % COUNT_OF(queries)];
		const char *end = "\nprepend=\n", *said;
		struct http_answer a;

		http_call(&(struct http_request){ .url = text("%s/index.php?%s", web->url,
							  query),
				  .method = "POST",
				  .body = VIEW("<?php echo 'pwned';") },
			&a);
		cr_assert_eq(a.status, 200, "%s: %ld", query, a.status);
		/* lighttpd writes "%2d" as "-". */
		said = text("%.*s", (int)a.body.n, a.body.p);
		cr_assert(strncmp(said, "query=", 6) == 0 &&
				strcmp(strchr(said, '\n'), end) == 0,
			"%s: %s", query, said);
		http_release(&a);
	}
}
