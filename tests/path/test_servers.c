/*
 * test_servers.c - weir behind each web server, with the configurations that are shipped:
 * in front of handlers, as an authorizer, and as a CGI program.
 *
 * A refusal given while a large body is still coming is where gateways fail: closed too
 * early, the web server reports a broken backend in its place; read too little, the
 * client never sees it.
 */
#include "support.h"

#include <stdlib.h>
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

static void refuses_uploads_behind(const char *conf)
{
	struct weir_spec spec = one_upload(IN_MEMORY);
	struct weir *w = weir_start(&spec);

	refuses_uploads(web_start(&(struct web_spec){ .conf = conf, .backend = w->addr }));
	cr_assert_eq(weir_counter(w, "requests_refused"), 20);
	cr_assert(weir_counts(w, "exchanges_open", 0, 2000));
	cr_assert(process_running(w->process));
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
	refuses_uploads_behind("apache/weir-proxypass-reuse.conf");
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
	cr_assert_eq(weir_counter(w, "requests_refused"), 3);
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
	return text("<Location \"/\">\nSetHandler \"proxy:%s|fcgi://handler/\"\n"
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
