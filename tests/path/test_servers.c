/*
 * test_servers.c - weir behind each web server, with the configurations that are shipped:
 * in front of handlers, as an authorizer, and as a CGI program.
 *
 * A refusal given while a large body is still coming is where gateways fail: closed too
 * early, the web server reports a broken backend in its place; read too little, the
 * client never sees it.
 */
#include "faults.h"
#include "site.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEGABYTES_3 (3u << 20)
#define IN_MEMORY   "[store]\ntype = memory\n"

static const char *in_redis(void)
{
	return text("[store]\ntype = redis\nurl = %s\ntimeout = 5s\n", redis_start()->url);
}

/* The echo handler, which weir reaches whoever it runs as. */
static const char *echo_for_all(void)
{
	const char *addr = echo_start(2);

	open_to_all(addr);
	return addr;
}

static struct weir_spec one_upload(const char *store)
{
	return (struct weir_spec){ .server = "workers = 2\nbackend = echo\n",
		.sections = text("%s[backend echo]\nfastcgi = %s\n", store, echo_for_all()),
		.endpoints = "[endpoint up]\nmatch = POST /up\n"
			     "@RateLimit = type=global count=1 window=1h\n" };
}

static void post(const struct web *web, const char *path, struct http_answer *a)
{
	http_call(&(struct http_request){ .url = text("%s%s", web->url, path),
			  .pattern_bytes = MEGABYTES_3 },
		a);
	cr_assert_eq(a->error, 0, "%s: curl error %d, status %ld\n%s", path, a->error,
		a->status, process_log(web->process));
}

static void arrives_whole(const struct web *web, const char *path)
{
	struct http_answer a;
	const char *sha256;

	post(web, path, &a);
	sha256 = line_of(buf_view(&a.body), "body_sha256");
	cr_assert_eq(a.status, 200, "%s: %ld", path, a.status);
	cr_assert_str_eq(sha256 ? sha256 : "", sha256_of_pattern(MEGABYTES_3));
	http_release(&a);
}

/* With its body and its fields. */
static void is_refusal(const struct http_answer *a)
{
	const char *wait = field_of(buf_view(&a->head), "Retry-After");
	json_t *json;

	cr_assert_eq(a->status, 429, "%ld\n%.*s", a->status, (int)a->body.n, a->body.p);
	cr_assert(wait && atoi(wait) >= 1, "%.*s", (int)a->head.n, a->head.p);
	json = json_of(buf_view(&a->body));
	cr_assert_eq(json_integer_value(json_object_get(json, "code")), 42900);
	cr_assert_eq(json_integer_value(json_object_get(json, "retry_after")), atoi(wait));
	json_decref(json);
}

/* One upload passes, the next twenty are refused while they come; nothing breaks. */
static void refuses_uploads(const struct web *web)
{
	arrives_whole(web, "/up");
	for (int i = 0; i < 20; i++) {
		struct http_answer a;

		post(web, "/up", &a);
		is_refusal(&a);
		http_release(&a);
	}
	arrives_whole(web, "/free");
}

static void refuses_uploads_behind_this(const struct weir_spec *spec, const char *conf)
{
	struct weir *w = weir_start(spec);

	refuses_uploads(web_start(&(struct web_spec){ .conf = conf, .backend = w->addr }));
	cr_assert(weir_counts(w, "requests_refused", 20, 5000));
	cr_assert(weir_counts(w, "exchanges_open", 0, 2000));
	cr_assert(process_running(w->process));
}

static void refuses_uploads_behind(const char *conf)
{
	struct weir_spec spec = one_upload(IN_MEMORY);

	refuses_uploads_behind_this(&spec, conf);
}

/* ---- Refused while 3 MB come ---- */

Test(servers, show_a_refusal_of_an_upload_lighttpd, .timeout = 60)
{
	refuses_uploads_behind("lighttpd/weir.conf");
}

Test(servers, show_a_refusal_of_an_upload_nginx, .timeout = 60)
{
	refuses_uploads_behind("nginx/weir.conf");
}

Test(servers, show_a_refusal_of_an_upload_nginx_unbuffered, .timeout = 60)
{
	refuses_uploads_behind("nginx/weir-unbuffered.conf");
}

Test(servers, show_a_refusal_of_an_upload_nginx_keepalive, .timeout = 60)
{
	refuses_uploads_behind("nginx/weir-keepalive.conf");
}

Test(servers, show_a_refusal_of_an_upload_apache_sethandler, .timeout = 60)
{
	refuses_uploads_behind("apache/weir.conf");
}

Test(servers, show_a_refusal_of_an_upload_apache_proxypass, .timeout = 60)
{
	refuses_uploads_behind("apache/weir-proxypass.conf");
}

Test(servers, show_a_refusal_of_an_upload_apache_reuse, .timeout = 60)
{
	struct weir_spec spec = one_upload(IN_MEMORY);

	/* Apache begins its next request on the same connection as soon as it has an answer,
	 * also when weir was not quick to end it. */
	spec.listen = addr_tcp();
	spec.env = faults_env();
	faults_set(FAULT_SHUT, 0, -1);
	refuses_uploads_behind_this(&spec, "apache/weir-proxypass-reuse.conf");
}

/* Small bodies are here with the head: refused or not, the connection serves the next. Had
 * it to end, nginx would not send a POST again that met the end. */
Test(servers, show_refusals_of_small_posts_over_one_kept_connection, .timeout = 60)
{
	struct weir_spec spec = one_upload(IN_MEMORY);
	struct weir *w;
	struct web *web;
	int64_t before;

	spec.env = faults_env();
	faults_set(FAULT_SHUT, 0, -1);
	w = weir_start(&spec);
	web = web_start(&(struct web_spec){
		.conf = "nginx/weir-keepalive.conf", .backend = w->addr });
	before = weir_counter(w, "connections");
	for (int i = 0; i < 30; i++) {
		struct http_answer a;

		http_call(&(struct http_request){ .url = text("%s/up", web->url),
				  .pattern_bytes = 1000 },
			&a);
		if (i == 0)
			cr_assert_eq(a.status, 200, "%ld", a.status);
		else
			is_refusal(&a);
		http_release(&a);
	}
	cr_assert_eq(faults_met(FAULT_SHUT), 0);
	cr_assert_leq(weir_counter(w, "connections") - before, 2);
}

Test(servers, show_a_refusal_of_an_upload_apache_fcgid, .timeout = 90)
{
	struct weir_spec spec = one_upload(in_redis());
	struct web *web = web_start(&(struct web_spec){
		.conf = "apache/weir-fcgid.conf", .ini = weir_configure(&spec)->ini });
	const char *log;

	refuses_uploads(web);
	/* What mod_fcgid says of a process it cannot use or has to kill. */
	log = process_log(web->process);
	cr_assert_null(strstr(log, "mod_fcgid:"), "%s", log);
	process_signal(web->process, SIGTERM);
	cr_assert_eq(process_exit(web->process, 10000), 0);
}

Test(servers, lighttpd_starts_weir_and_shows_a_refusal_of_an_upload, .timeout = 60)
{
	struct weir_spec spec = one_upload(IN_MEMORY);

	refuses_uploads(lighttpd_spawn_start(weir_configure(&spec)->ini));
}

/* ---- As an authorizer ---- */

/* Two requests to /hello.php, whoever answers them; and weir as the responder too. */
static struct weir *two_requests(const char *listen, const char *reply)
{
	return weir_start(&(struct weir_spec){ .listen = listen,
		.server = "workers = 2\nbackend = php\n",
		.sections = text(IN_MEMORY "%s[backend php]\nfastcgi = %s\n", reply,
			php_fpm_start(3)),
		.endpoints = "[endpoint hello]\nmatch = * /hello.php\n"
			     "@RateLimit = type=ip count=2 window=1h\n" });
}

/* The handler runs twice, and sees the whole body; the third client sees the refusal. */
static void admits_two(const struct weir *w, const struct web *web)
{
	static char body[100000];
	struct http_request rq = { .url = text("%s/hello.php", web->url),
		.body = view_of(body, sizeof(body)) };
	struct http_answer a;

	pattern_fill(body, 0, sizeof(body));
	for (int i = 0; i < 2; i++) {
		const char *sha256;

		http_call(&rq, &a);
		cr_assert_eq(a.status, 200, "%ld\n%s", a.status, process_log(web->process));
		sha256 = line_of(buf_view(&a.body), "body_sha256");
		cr_assert_str_eq(sha256 ? sha256 : "", sha256_of_pattern(sizeof(body)));
		http_release(&a);
	}
	/* Also when the refused body is large, and without any. */
	for (int i = 0; i < 3; i++) {
		if (i == 0)
			post(web, "/hello.php", &a);
		else
			http_get(rq.url, &a);
		is_refusal(&a);
		http_release(&a);
	}
	cr_assert(weir_counts(w, "requests_refused", 3, 5000));
}

Test(servers, lighttpd_asks_weir_as_an_authorizer, .timeout = 60)
{
	struct weir *w = two_requests(NULL, "");

	admits_two(w,
		web_start(&(struct web_spec){ .conf = "lighttpd/weir-authorizer.conf",
			.backend = w->addr,
			.php = php_fpm_start(3) }));
}

/* An answer that streams must not be waited for (lighttpd bug 3106). */
Test(servers, lighttpd_asks_weir_as_an_authorizer_while_streaming, .timeout = 60)
{
	struct weir *w = two_requests(NULL, "");

	admits_two(w,
		web_start(&(struct web_spec){ .conf = "lighttpd/weir-authorizer.conf",
			.backend = w->addr,
			.php = php_fpm_start(3),
			.more = "server.stream-response-body = 2\n"
				"server.stream-request-body = 2\n" }));
}

Test(servers, lighttpds_authorizer_and_responder_charge_once, .timeout = 60)
{
	struct weir *w = two_requests(NULL, "");

	admits_two(w,
		web_start(&(struct web_spec){ .conf = "lighttpd/weir-authorizer.conf",
			.backend = w->addr,
			.php = w->addr }));
}

Test(servers, nginx_asks_weir_as_an_authorizer, .timeout = 60)
{
	struct weir *w = two_requests(NULL, "[reply]\nauthorizer_status = 403\n");

	admits_two(w,
		web_start(&(struct web_spec){ .conf = "nginx/weir-authorizer.conf",
			.backend = w->addr,
			.more = text("client_max_body_size 8m;\nlocation / {\n"
				     "include /etc/nginx/fastcgi.conf;\n"
				     "fastcgi_pass %s;\n}\n",
				php_fpm_start(3)) }));
}

/* nginx makes the answer itself, so what it says of the body is nginx's as well. */
Test(servers, nginx_shows_an_authorizers_refusal_as_json, .timeout = 60)
{
	struct weir *w = weir_start(&(struct weir_spec){
		.sections = IN_MEMORY "[reply]\nauthorizer_status = 403\n",
		.endpoints = "[endpoint style]\nmatch = * /style.css\n"
			     "@RateLimit = type=ip count=1 window=1h\n" });
	struct web *web = web_start(&(struct web_spec){
		.conf = "nginx/weir-authorizer.conf", .backend = w->addr });

	for (int i = 0; i < 2; i++) {
		struct http_answer a;

		http_get(text("%s/style.css", web->url), &a);
		if (i == 1) {
			struct view head = buf_view(&a.head);

			is_refusal(&a);
			cr_assert_eq(fields_of(head, "Content-Type"), 1);
			cr_assert_str_eq(
				field_of(head, "Content-Type"), "application/json");
		}
		http_release(&a);
	}
}

Test(servers, nginxs_authorizer_and_responder_charge_once, .timeout = 60)
{
	struct weir *w = two_requests(NULL, "[reply]\nauthorizer_status = 403\n");

	admits_two(w,
		web_start(&(struct web_spec){ .conf = "nginx/weir-authorizer.conf",
			.backend = w->addr,
			.more = text("client_max_body_size 8m;\nlocation / {\n"
				     "include /etc/nginx/fastcgi.conf;\n"
				     "fastcgi_param WEIR_DECIDED $weir_decided;\n"
				     "fastcgi_pass %s;\n}\n",
				w->addr) }));
}

static const char *apache_proxy(const char *addr)
{
	open_to_all(addr);
	return text("<Location \"/\">\nSetHandler \"proxy:%s|fcgi://handler\"\n"
		    "</Location>\n",
		addr);
}

Test(servers, apache_asks_weir_as_an_authorizer, .timeout = 60)
{
	struct weir *w = two_requests(addr_tcp(), "");

	admits_two(w,
		web_start(&(struct web_spec){ .conf = "apache/weir-authorizer.conf",
			.backend = w->addr,
			.more = apache_proxy(php_fpm_start(3)) }));
}

Test(servers, apaches_authorizer_and_responder_charge_once, .timeout = 60)
{
	const char *also = addr_unix("also.sock");
	struct weir *w = weir_start(&(struct weir_spec){ .listen = addr_tcp(),
		.server = text("listen = %s\nworkers = 2\nbackend = php\n", also),
		.sections = text(
			IN_MEMORY "[backend php]\nfastcgi = %s\n", php_fpm_start(3)),
		.endpoints = "[endpoint hello]\nmatch = * /hello.php\n"
			     "@RateLimit = type=ip count=2 window=1h\n" });

	admits_two(w,
		web_start(&(struct web_spec){ .conf = "apache/weir-authorizer.conf",
			.backend = w->addr,
			.more = apache_proxy(also) }));
}

/* mod_fcgid's own way to ask shows 401 for every refusal, but it asks: the handler's body
 * is untouched, and weir reads none of it. */
Test(servers, apaches_fcgid_asks_weir_as_an_access_checker, .timeout = 60)
{
	struct weir_spec spec = { .sections = in_redis(),
		.endpoints = "[endpoint hello]\nmatch = * /hello.php\n"
			     "@RateLimit = type=ip count=2 window=1h\n" };
	static char body[100000];
	struct web *web;

	pattern_fill(body, 0, sizeof(body));
	web = web_start(&(struct web_spec){ .conf = "apache/weir-fcgid.conf",
		.ini = weir_configure(&spec)->ini,
		.more = text("%s<Location \"/\">\n"
			     "FcgidAccessChecker \"%s -c %s\"\n"
			     "FcgidAccessCheckerAuthoritative On\n</Location>\n",
			apache_proxy(php_fpm_start(3)), test_path("bin/weir"),
			test_path("weir1.ini")) });
	for (int i = 0; i < 3; i++) {
		struct http_answer a;
		const char *sha256;

		http_call(&(struct http_request){ .url = text("%s/hello.php", web->url),
				  .body = view_of(body, sizeof(body)) },
			&a);
		cr_assert_eq(a.status, i < 2 ? 200 : 401, "%ld\n%s", a.status,
			process_log(web->process));
		sha256 = line_of(buf_view(&a.body), "body_sha256");
		if (i < 2)
			cr_assert_str_eq(
				sha256 ? sha256 : "", sha256_of_pattern(sizeof(body)));
		http_release(&a);
	}
}

/* What is no wait has a status of its own, whichever server passes it on. */
Test(servers, pass_on_every_refusal_of_an_authorizer, .timeout = 60)
{
	static const char endpoints[] =
		"[endpoint never]\nmatch = * /never\n@RateLimit = type=ip count=0\n"
		"[endpoint dear]\nmatch = * /dear\n"
		"@RateLimit = type=ip count=2 window=1h cost=query:n\n";
	const struct weir_spec spec = { .sections = IN_MEMORY, .endpoints = endpoints };
	const struct weir_spec nginxs = { .sections = IN_MEMORY
		"[reply]\nauthorizer_status = 403\n",
		.endpoints = endpoints };
	struct web *webs[] = {
		web_start(&(struct web_spec){ .conf = "lighttpd/weir-authorizer.conf",
			.backend = weir_start(&spec)->addr }),
		web_start(&(struct web_spec){ .conf = "nginx/weir-authorizer.conf",
			.backend = weir_start(&nginxs)->addr }),
	};

	for (size_t i = 0; i < COUNT_OF(webs); i++) {
		static const struct {
			const char *path;
			int status;
		} rows[] = { { "/never", 403 }, { "/dear?n=5", 413 }, { "/missing", 404 } };

		for (size_t r = 0; r < COUNT_OF(rows); r++) {
			struct http_answer a;
			json_t *json;

			http_get(text("%s%s", webs[i]->url, rows[r].path), &a);
			cr_assert_eq(a.status, rows[r].status, "%zu %s: %ld", i,
				rows[r].path, a.status);
			if (a.status != 404) {
				json = json_of(buf_view(&a.body));
				cr_assert_eq(
					json_integer_value(json_object_get(json, "code")),
					rows[r].status * 100);
				json_decref(json);
			}
			http_release(&a);
		}
	}
}

/* HTTP/2 servers have pushed a body's bytes into an authorizer (lighttpd bug 3272). */
Test(servers, may_send_an_authorizer_a_stray_body)
{
	struct weir *w = weir_start(&(struct weir_spec){ .sections = IN_MEMORY });
	struct fcgi_request rq = { .role = 2, .method = "POST" };
	struct buf b = { 0 };
	struct fcgi_answer a;
	int fd = dial(w->addr);

	fcgi_compose_head(&b, &rq);
	fcgi_record(&b, 5, 1, view_of(test_dir(), 10), 0);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 5000));
	cr_assert_eq(answer_status(&a), 200);
	cr_assert_str_eq(answer_field(&a, "Variable-WEIR_DECIDED"), "1");
	/* Stray bytes behind the answer start nothing either. */
	b.n = 0;
	fcgi_record(&b, 5, 1, view_of(test_dir(), 10), 0);
	cr_assert(fcgi_send(fd, buf_view(&b), 1000));
	shutdown(fd, SHUT_WR);
	cr_assert(fcgi_exchange(fd, view_of(NULL, 0), &a, FCGI_UNTIL_CLOSED, 5000));
	cr_assert_eq(a.ends, 1);
	cr_assert(weir_counts(w, "requests", 1, 5000));
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

/* The same as it happens: until 1.4.77 lighttpd gives the authorizer what has come of an
 * HTTP/2 request's body, and what it gave away never reaches the handler, for which the
 * client then waits; and a stream that it ends early is an error to curl 7.88, whoever
 * refused. weir decides all the same, once, and is not held up. */
Test(servers, lighttpd_asks_weir_as_an_authorizer_over_http_2, .timeout = 90)
{
	static const size_t bodies[] = { 5, 60000, MEGABYTES_3, 5, 60000, MEGABYTES_3 };
	struct weir *w = two_requests(NULL, "");
	struct web *web = web_start(
		&(struct web_spec){ .conf = "lighttpd/weir-authorizer.conf",
			.backend = w->addr,
			.php = php_fpm_start(3) });
	struct http_request rq = { .http2 = true };
	struct http_answer a;

	rq.url = text("%s/hello.php", web->url);
	for (int i = 0; i < 4; i++) {
		http_call(&rq, &a);
		if (i < 2)
			cr_assert_eq(a.status, 200, "request %d: %ld", i, a.status);
		else
			is_refusal(&a);
		http_release(&a);
	}
	rq.timeout_ms = 4000;
	for (size_t i = 0; i < COUNT_OF(bodies); i++) {
		if (i == 3)
			rq.url = text("%s/unlimited.php", web->url);
		rq.pattern_bytes = bodies[i];
		http_call(&rq, &a);
		if (i < 3 && a.status)
			is_refusal(&a);
		http_release(&a);
	}
	cr_assert(weir_counts(w, "requests", 4 + COUNT_OF(bodies), 5000));
	cr_assert_eq(weir_counter(w, "requests_refused"), 2 + 3);
	cr_assert(weir_counts(w, "exchanges_open", 0, 5000));
	cr_assert_eq(weir_counter(w, "connections_malformed"), 0);
}

/* One browser of several. */
struct browser {
	pthread_t thread;
	const char *url;
	unsigned requests, wrong;
};

static void *browse(void *arg)
{
	struct browser *b = arg;

	for (unsigned i = 0; i < b->requests; i++) {
		struct http_answer a;

		http_get(b->url, &a);
		b->wrong += a.status != 200;
		http_release(&a);
	}
	return NULL;
}

/* Four at once; how many of their requests did not pass. */
static unsigned browse_all(const char *url, unsigned requests)
{
	struct browser browsers[4];
	unsigned wrong = 0;

	for (size_t i = 0; i < COUNT_OF(browsers); i++) {
		browsers[i] = (struct browser){ .url = url, .requests = requests / 4 };
		pthread_create(&browsers[i].thread, NULL, browse, &browsers[i]);
	}
	for (size_t i = 0; i < COUNT_OF(browsers); i++) {
		pthread_join(browsers[i].thread, NULL);
		wrong += browsers[i].wrong;
	}
	return wrong;
}

#ifdef SANITIZED
#define LONG 2000
#else
#define LONG 10000
#endif

/* The same weir before and behind lighttpd, for long. As many pass as the limit says, so
 * each is charged once. */
Test(servers, authorizer_and_responder_for_ever_keep_the_memory_flat, .timeout = 300)
{
	struct weir *w = weir_start(&(struct weir_spec){ .server = "workers = 2\n"
								   "backend = echo\n",
		.sections = text(IN_MEMORY "[log]\nrequests = none\n[backend echo]\n"
					   "fastcgi = %s\n",
			echo_start(2)),
		.endpoints = text("[endpoint x]\nmatch = * /hello.php\n"
				  "@RateLimit = type=ip count=%d window=1h\n",
			LONG) });
	struct web *web = web_start(
		&(struct web_spec){ .conf = "lighttpd/weir-authorizer.conf",
			.backend = w->addr,
			.php = w->addr,
			.more = "server.max-keep-alive-requests = 0\n" });
	const char *url = text("%s/hello.php", web->url);
	struct http_answer a;
	uint64_t before;

	cr_assert_eq(browse_all(url, LONG / 5), 0);
	before = process_resident_bytes(w->process);
	cr_assert_eq(browse_all(url, LONG / 5 * 4), 0);
	/* Eight thousand requests that each kept a head would be 16 MB and more. The address
	 * sanitizer keeps what was freed for a while; it knows of leaks by itself. */
#ifndef SANITIZED
	cr_assert_leq(process_resident_bytes(w->process), before + (1 << 20));
#else
	(void)before;
#endif
	cr_assert(weir_counts(w, "requests", 2 * LONG, 5000));
	http_get(url, &a);
	is_refusal(&a);
	http_release(&a);
	process_signal(w->process, SIGTERM);
	cr_assert_eq(process_exit(w->process, 10000), 0, "%s", process_log(w->process));
}

/* ---- Names and paths ---- */

static void answers(const struct web *web, const char *uri, const char *line)
{
	struct http_answer a;

	http_get(text("%s%s", web->url, uri), &a);
	cr_assert_eq(a.status, 200, "%s: %ld %.*s", uri, a.status, (int)a.body.n, a.body.p);
	cr_assert(memmem(a.body.p, a.body.n, line, strlen(line)), "%s: no %s in\n%.*s", uri,
		line, (int)a.body.n, a.body.p);
	http_release(&a);
}

Test(servers, apache_gives_handlers_the_names_they_know, .timeout = 90)
{
	static const char *const confs[] = { "apache/weir.conf",
		"apache/weir-proxypass.conf", "apache/weir-proxypass-reuse.conf" };
	const char *tcp = addr_tcp();
	struct site *s = site_start(&(struct site_spec){
		.server = text("listen = %s\n", tcp),
		.endpoints = "[endpoint below]\nmatch = * /hello.sh/**\nbackend = cgi\n" });

	for (size_t i = 0; i < COUNT_OF(confs); i++) {
		struct web *web = web_start(&(struct web_spec){
			.conf = confs[i], .backend = s->addr, .tcp = tcp });
		const char *file = text("SCRIPT_FILENAME=%s/hello", web->root);

		answers(web, "/hello.php?q=1", text("%s.php\n", file));
		answers(web, "/hello.php?q=1", "\nQUERY_STRING=q=1\n");
		answers(web, "/hello.sh/a/b?q=1", text("%s.sh\n", file));
		answers(web, "/hello.sh/a/b?q=1", "SCRIPT_NAME=/hello.sh\n");
		answers(web, "/hello.sh/a/b?q=1", "PATH_INFO=/a/b\n");
		answers(web, "/hello.pl", text("%s.pl\n", file));
		answers(web, "/any/a%2Fb", "REQUEST_URI=/any/a%2Fb\n");
	}
}

/* ---- A PHP site ---- */

static const char *php_site(void)
{
	static const char *const folders[] = { "", "/sub" };
	const char *root = test_path("site");

	for (size_t i = 0; i < COUNT_OF(folders); i++) {
		const char *dir = text("%s%s", root, folders[i]);

		cr_assert_eq(mkdir(dir, 0755), 0);
		file_copy(text("%s/hello.php", programs_dir()), text("%s/index.php", dir));
	}
	file_copy(text("%s/hello.php", programs_dir()), text("%s/hello.php", root));
	file_write(text("%s/style.css", root), "body { color: blue }\n");
	file_write(text("%s/picture.jpg", root), "<?php echo 'ran';");
	return root;
}

static int status_of(const struct web *web, const char *uri)
{
	struct http_answer a;
	int status;

	http_get(text("%s%s", web->url, uri), &a);
	status = (int)a.status;
	http_release(&a);
	return status;
}

/* Index pages, files and what follows a program's name, as without weir; and limits. */
Test(servers, leave_files_of_a_php_site_alone_and_limit_its_programs, .timeout = 120)
{
	static const struct {
		const char *conf, *more;
	} rows[] = {
		/* As Debian's lighttpd.conf and dir.conf have it. */
		{ "lighttpd/weir-php.conf", "index-file.names = ( \"index.php\" )\n" },
		{ "nginx/weir-php.conf", "" },
		{ "apache/weir-php.conf", "DirectoryIndex index.php\n" },
	};
	const char *root = php_site(), *php = php_fpm_start(2);

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct weir *w = weir_start(&(struct weir_spec){
			.server = "backend = php\n",
			.sections = text(IN_MEMORY "[backend php]\nfastcgi = %s\n", php),
			.endpoints = "[endpoint start]\nmatch = GET /\n"
				     "@RateLimit = type=ip count=2 window=1h\n"
				     "[endpoint below]\nmatch = GET /hello.php/**\n"
				     "@RateLimit = type=ip count=2 window=1h\n" });
		struct web *web = web_start(&(struct web_spec){ .conf = rows[i].conf,
			.backend = w->addr,
			.root = root,
			.more = rows[i].more });
		struct http_answer a;

		answers(web, "/", text("SCRIPT_FILENAME=%s/index.php\n", root));
		answers(web, "/?q=1", "\nQUERY_STRING=q=1\n");
		answers(web, "/sub/", text("SCRIPT_FILENAME=%s/sub/index.php\n", root));
		answers(web, "/hello.php/extra/info", "\nPATH_INFO=/extra/info\n");
		answers(web, "/hello.php/extra/info", "\nSCRIPT_NAME=/hello.php\n");
		answers(web, "/style.css", "body { color: blue }\n");
		cr_assert(weir_counts(w, "requests", 5, 5000), "%s", rows[i].conf);
		cr_assert_eq(status_of(web, "/missing.css"), 404, "%s", rows[i].conf);
		cr_assert_eq(status_of(web, "/missing.php"), 404, "%s", rows[i].conf);
		http_get(text("%s/picture.jpg/a.php", web->url), &a);
		cr_assert(!view_eq(buf_view(&a.body), VIEW("ran")), "%s", rows[i].conf);
		http_release(&a);
		http_get(text("%s/", web->url), &a);
		is_refusal(&a);
		http_release(&a);
		cr_assert_eq(status_of(web, "/hello.php/other"), 429, "%s", rows[i].conf);
		cr_assert_eq(status_of(web, "/sub/"), 200, "%s", rows[i].conf);
	}
}

/* ---- As a CGI program ---- */

Test(servers, apache_runs_weir_before_an_old_cgi_program, .timeout = 60)
{
	static const char program[] =
		"#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n"
		"echo \"args=$#\"; echo \"query=$QUERY_STRING\"\n"
		"echo \"script=$SCRIPT_NAME\"; echo \"body=$(wc -c)\"\n";
	const char *root = test_path("documents");
	struct weir_spec spec = { .server = "backend = programs\n",
		.sections = text("%s[backend programs]\ncgi = %s\nprefix = /cgi-bin\n"
				 "[backend documents]\ncgi = %s\n",
			in_redis(), root, root),
		.endpoints = "[endpoint old]\nmatch = * /cgi-bin/old.cgi\n"
			     "@RateLimit = type=ip count=5 window=1h\n"
			     "[endpoint page]\nmatch = * /old.cgi\nbackend = documents\n"
			     "@RateLimit = type=ip count=1 window=1h\n" };
	struct http_answer a;
	struct web *web;

	mkdir(root, 0755);
	file_write(text("%s/old.cgi", root), program);
	chmod(text("%s/old.cgi", root), 0755);
	web = web_start(&(struct web_spec){ .conf = "apache/weir-cgi.conf",
		.ini = weir_configure(&spec)->ini,
		.root = root });
	/* Apache makes arguments of these; neither weir nor the program gets any. */
	answers(web, "/cgi-bin/old.cgi?-V", "args=0\nquery=-V\nscript=/cgi-bin/old.cgi\n");
	answers(web, "/cgi-bin/old.cgi?-t+-c+/etc/passwd", "args=0\n");
	answers(web, "/cgi-bin/old.cgi?--help", "args=0\nquery=--help\n");
	answers(web, "/cgi-bin/old.cgi?a=b", "query=a=b\n");
	post(web, "/cgi-bin/old.cgi", &a);
	cr_assert(memmem(a.body.p, a.body.n, "body=3145728\n", 13), "%.*s", (int)a.body.n,
		a.body.p);
	http_release(&a);
	post(web, "/cgi-bin/old.cgi", &a);
	is_refusal(&a);
	http_release(&a);
	/* By its suffix, where it lies among documents. */
	answers(web, "/old.cgi?x", "args=0\nquery=x\nscript=/old.cgi\n");
	http_get(text("%s/old.cgi", web->url), &a);
	is_refusal(&a);
	http_release(&a);
	/* And no other way to it. */
	http_get(text("%s/weir-limited/old.cgi", web->url), &a);
	cr_assert_eq(a.status, 403);
	http_release(&a);
}
