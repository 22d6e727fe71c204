/*
 * test_support.c - the ground itself: servers, handlers and clients with nothing
 * between them. When this fails, what the path tests say is not about weir.
 */
#include "support.h"

#include <unistd.h>

static void expect_body(struct view body, const char *want_sha256)
{
	const char *sha256 = line_of(body, "body_sha256");

	cr_assert(sha256 && strcmp(sha256, want_sha256) == 0, "%.*s", VIEW_ARG(body));
}

static void post_pattern(const char *url, uint64_t n)
{
	struct http_answer a;

	http_call(&(struct http_request){ .url = url, .pattern_bytes = n }, &a);
	cr_assert(a.error == 0 && a.status == 200, "%s: error %d, status %ld", url, a.error,
		a.status);
	expect_body(buf_view(&a.body), sha256_of_pattern(n));
	http_release(&a);
}

Test(support, lighttpd_and_nginx_reach_the_echo_handler_with_the_shipped_files)
{
	const char *echo = echo_start(2);

	post_pattern(text("%s/x", lighttpd_start(echo)->url), 70000);
	post_pattern(text("%s/x", nginx_start(echo)->url), 70000);
	post_pattern(text("%s/x", nginx_keepalive_start(echo)->url), 70000);
}

Test(support, nginx_and_lighttpd_reach_php)
{
	const char *php = php_fpm_start(2);

	post_pattern(text("%s/hello.php", nginx_start(php)->url), 300000);
	post_pattern(text("%s/hello.php", lighttpd_start(php)->url), 300000);
}

Test(support, a_raw_client_reaches_the_echo_handler)
{
	struct fcgi_request rq = { .uri = "/a?format=json", .pattern_bytes = 100001 };
	struct fcgi_answer a;
	json_t *json;

	cr_assert(fcgi_call(echo_start(1), &rq, &a, 5000));
	cr_assert_eq(answer_status(&a), 200);
	json = json_of(answer_body(&a));
	cr_assert_str_eq(json_string_value(json_object_get(json, "body_sha256")),
		sha256_of_pattern(100001));
	json_decref(json);
	fcgi_answer_release(&a);
}

Test(support, all_handlers_agree_on_the_numbered_answer)
{
	const char *echo = echo_start(1), *php = php_fpm_start(1), *dir = programs_dir();
	struct fcgi_request rq = { .uri = "/?size=200001",
		.script = text("%s/hello.php", dir) };
	const char *want = sha256_of_numbered(200001);

	for (const char *addr[] = { echo, php, NULL }, **p = addr; *p; p++) {
		struct fcgi_answer a;

		cr_assert(fcgi_call(*p, &rq, &a, 5000));
		cr_assert_str_eq(sha256_of(answer_body(&a)), want, "%s", *p);
		fcgi_answer_release(&a);
	}
	for (const char *name[] = { "echo", "hello.sh", "hello.pl", NULL }, **p = name; *p;
		p++) {
		const char *argv[] = { text("%s/%s", dir, *p), NULL };
		const char *env[] = { "QUERY_STRING=size=200001",
			"GATEWAY_INTERFACE=CGI/1.1", NULL };
		struct process *run = process_start(
			&(struct process_spec){ .name = *p, .argv = argv, .env = env });
		struct fcgi_answer a;

		cr_assert_eq(process_exit(run, 5000), 0);
		fcgi_answer_init(&a);
		buf_add_str(&a.out, process_log(run));
		cr_assert_str_eq(sha256_of(answer_body(&a)), want, "%s", *p);
		fcgi_answer_release(&a);
	}
}

Test(support, lines_arrive_one_by_one_through_both_web_servers)
{
	const char *echo = echo_start(2);
	const char *urls[] = { lighttpd_start(echo)->url, nginx_start(echo)->url, NULL };

	for (const char **url = urls; *url; url++) {
		struct http_answer a;

		http_get(text("%s/?lines=4&pause=200", *url), &a);
		cr_assert_eq(a.status, 200);
		cr_assert_eq(a.n_pieces, 4, "%zu pieces", a.n_pieces);
		cr_assert(a.pieces[3].ms - a.pieces[0].ms >= 500);
		http_release(&a);
	}
}

Test(support, redis_answers_commands)
{
	struct redis *r = redis_start();

	cr_assert_str_eq(redis_run(r, "SET %s %d", "a", 5), "OK");
	cr_assert_str_eq(redis_run(r, "INCR a"), "6");
	cr_assert_str_eq(redis_run(r, "GET b"), "");
}

Test(support, a_scripted_backend_notes_what_it_got_and_who_left)
{
	static const struct backend_script plain, silent = { .silent = true };
	const char *addr = addr_unix("plain.sock"), *quiet = addr_unix("silent.sock");
	struct backend *b = backend_start(addr, &plain), *s = backend_start(quiet, &silent);
	struct fcgi_request rq = { .uri = "/x", .body = VIEW("hello") };
	struct buf params, body;
	struct fcgi_answer a;

	cr_assert(fcgi_call(addr, &rq, &a, 5000));
	cr_assert(view_eq(answer_body(&a), VIEW("ok")));
	fcgi_answer_release(&a);
	cr_assert(backend_seen(b, 0, &params, &body));
	cr_assert(view_eq(buf_view(&body), VIEW("hello")));
	cr_assert_str_eq(param_of(buf_view(&params), "REQUEST_URI"), "/x");
	buf_release(&params);
	buf_release(&body);
	cr_assert(!fcgi_call(quiet, &rq, &a, 200));
	cr_assert(a.late);
	fcgi_answer_release(&a);
	cr_assert(WAIT_UNTIL(2000, backend_count(s).left_by_peer == 1));
}
