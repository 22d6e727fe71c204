#include "with_params.h"

#include "proxy/environment.h"

/* What the tests do not care about. */
static const struct environment_paths paths = {
	.script_filename = { "/srv/cgi/a.cgi", 14 },
	.script_name = { "/a.cgi", 6 },
};

static struct environment build(const char *lines)
{
	struct request rq = with_params(lines);
	struct environment_input in = {
		.request = &rq,
		.paths = &paths,
		.path = "/usr/bin:/bin",
	};
	struct environment e;

	cr_assert(environment_build(&e, &in));
	request_release(&rq);
	return e;
}

struct row {
	const char *lines;        /* what the web server sent */
	const char *name, *value; /* NULL: not there */
};

static void check(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct environment e = build(rows[i].lines);
		const char *value = environment_get(&e, rows[i].name);

		if (rows[i].value)
			cr_assert(value && strcmp(value, rows[i].value) == 0,
				"%s with \"%s\" is %s, not %s", rows[i].name, rows[i].lines,
				value ? value : "absent", rows[i].value);
		else
			cr_assert_null(value, "%s with \"%s\" is %s", rows[i].name,
				rows[i].lines, value);
		environment_release(&e);
	}
}

Test(environment, variables_of_the_request_are_passed_on)
{
	const struct row rows[] = {
		{ "AUTH_TYPE=Basic", "AUTH_TYPE", "Basic" },
		{ "CONTENT_TYPE=text/plain", "CONTENT_TYPE", "text/plain" },
		{ "DOCUMENT_ROOT=/srv/www", "DOCUMENT_ROOT", "/srv/www" },
		{ "HTTPS=on", "HTTPS", "on" },
		{ "REDIRECT_STATUS=200", "REDIRECT_STATUS", "200" },
		{ "REMOTE_ADDR=192.0.2.7", "REMOTE_ADDR", "192.0.2.7" },
		{ "REMOTE_PORT=4711", "REMOTE_PORT", "4711" },
		{ "REMOTE_USER=alice", "REMOTE_USER", "alice" },
		{ "REQUEST_METHOD=POST", "REQUEST_METHOD", "POST" },
		{ "REQUEST_SCHEME=https", "REQUEST_SCHEME", "https" },
		{ "REQUEST_URI=/a.cgi?x=1", "REQUEST_URI", "/a.cgi?x=1" },
		{ "SERVER_ADDR=192.0.2.1", "SERVER_ADDR", "192.0.2.1" },
		{ "SERVER_NAME=www.example.org", "SERVER_NAME", "www.example.org" },
		{ "SERVER_PORT=8080", "SERVER_PORT", "8080" },
		{ "SERVER_PROTOCOL=HTTP/2.0", "SERVER_PROTOCOL", "HTTP/2.0" },
		{ "SERVER_SOFTWARE=lighttpd", "SERVER_SOFTWARE", "lighttpd" },
		{ "QUERY_STRING=a=b&c=d", "QUERY_STRING", "a=b&c=d" },
		{ "HTTP_HOST=www.example.org", "HTTP_HOST", "www.example.org" },
		{ "HTTP_AUTHORIZATION=Bearer x", "HTTP_AUTHORIZATION", "Bearer x" },
		{ "HTTP_X_LONG_NAME_2=1", "HTTP_X_LONG_NAME_2", "1" },
		{ "HTTP_EMPTY=", "HTTP_EMPTY", "" },
		{ "REMOTE_USER=", "REMOTE_USER", NULL },
		{ "HTTPS=", "HTTPS", NULL },
		/* The last counts, as with php-fpm. */
		{ "REMOTE_USER=alice\nREMOTE_USER=bob", "REMOTE_USER", "bob" },
	};

	check(rows, COUNT_OF(rows));
}

Test(environment, what_the_standard_demands_is_always_there)
{
	const struct row rows[] = {
		{ "", "GATEWAY_INTERFACE", "CGI/1.1" },
		{ "GATEWAY_INTERFACE=CGI/9.9", "GATEWAY_INTERFACE", "CGI/1.1" },
		{ "", "QUERY_STRING", "" },
		{ "REQUEST_URI=/a?x=1", "QUERY_STRING", "x=1" },
		{ "REQUEST_URI=/a?x=1\nQUERY_STRING=", "QUERY_STRING", "" },
		{ "", "REMOTE_ADDR", "0.0.0.0" },
		{ "REMOTE_ADDR=", "REMOTE_ADDR", "0.0.0.0" },
		{ "", "REQUEST_METHOD", "GET" },
		{ "", "SCRIPT_NAME", "/a.cgi" },
		{ "SCRIPT_NAME=/other", "SCRIPT_NAME", "/a.cgi" },
		{ "SCRIPT_FILENAME=/bin/sh", "SCRIPT_FILENAME", "/srv/cgi/a.cgi" },
		{ "", "SERVER_NAME", "localhost" },
		{ "", "SERVER_PORT", "80" },
		{ "HTTPS=on", "SERVER_PORT", "443" },
		{ "HTTPS=off", "SERVER_PORT", "80" },
		{ "REQUEST_SCHEME=https", "SERVER_PORT", "443" },
		{ "", "SERVER_PROTOCOL", "HTTP/1.0" },
		{ "", "SERVER_SOFTWARE", "weir/" WEIR_VERSION },
		{ "", "PATH", "/usr/bin:/bin" },
		{ "", "PATH_INFO", NULL },
		{ "PATH_INFO=/x", "PATH_INFO", NULL },
		{ "", "PATH_TRANSLATED", NULL },
		{ "", "REMOTE_USER", NULL },
		{ "", "CONTENT_LENGTH", NULL },
		{ "CONTENT_LENGTH=12", "CONTENT_LENGTH", NULL },
	};

	check(rows, COUNT_OF(rows));
}

Test(environment, nothing_else_a_peer_sends_reaches_the_program)
{
	const struct row rows[] = {
		{ "PATH=/evil", "PATH", "/usr/bin:/bin" },
		{ "LD_PRELOAD=/x.so", "LD_PRELOAD", NULL },
		{ "LD_LIBRARY_PATH=/x", "LD_LIBRARY_PATH", NULL },
		{ "IFS=x", "IFS", NULL },
		{ "BASH_ENV=/x", "BASH_ENV", NULL },
		{ "ENV=/x", "ENV", NULL },
		{ "PERL5LIB=/x", "PERL5LIB", NULL },
		{ "PYTHONPATH=/x", "PYTHONPATH", NULL },
		{ "WEIR_USER=admin", "WEIR_USER", NULL },
		{ "SERVER_SIGNATURE=x", "SERVER_SIGNATURE", NULL },
		{ "http_lower=x", "http_lower", NULL },
		{ "HTTP_=x", "HTTP_", NULL },
		/* httpoxy, whatever the letter case. */
		{ "HTTP_PROXY=http://evil", "HTTP_PROXY", NULL },
		{ "HTTP_Proxy=http://evil", "HTTP_Proxy", NULL },
		{ "HTTP_pROXY=http://evil", "HTTP_pROXY", NULL },
		{ "http_proxy=http://evil", "http_proxy", NULL },
		{ "Http_Proxy=http://evil", "Http_Proxy", NULL },
		{ "HTTP_PROXY_X=1", "HTTP_PROXY_X", "1" },
		/* One value for the body's type and length, and no coding that is gone. */
		{ "HTTP_CONTENT_LENGTH=9", "HTTP_CONTENT_LENGTH", NULL },
		{ "HTTP_CONTENT_TYPE=a/b", "HTTP_CONTENT_TYPE", NULL },
		{ "HTTP_TRANSFER_ENCODING=chunked", "HTTP_TRANSFER_ENCODING", NULL },
	};

	check(rows, COUNT_OF(rows));
}

Test(environment, repeated_fields_become_one)
{
	const struct row rows[] = {
		{ "HTTP_ACCEPT=a/b\nHTTP_X=1\nHTTP_ACCEPT=c/d", "HTTP_ACCEPT", "a/b, c/d" },
		{ "HTTP_ACCEPT=a/b\nHTTP_X=1\nHTTP_ACCEPT=c/d", "HTTP_X", "1" },
		{ "HTTP_X=1\nHTTP_X=2\nHTTP_X=3", "HTTP_X", "1, 2, 3" },
		{ "HTTP_COOKIE=a=1\nHTTP_COOKIE=b=2", "HTTP_COOKIE", "a=1; b=2" },
		{ "HTTP_X=\nHTTP_X=2", "HTTP_X", ", 2" },
		/* Other variables are replaced by the last of their name. */
		{ "REMOTE_USER=eve\nHTTPS=\nREMOTE_USER=", "REMOTE_USER", NULL },
		{ "QUERY_STRING=a\nQUERY_STRING=b", "QUERY_STRING", "b" },
	};

	check(rows, COUNT_OF(rows));
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct environment e = build(rows[i].lines);
		size_t times = 0;

		for (size_t k = 0; k < e.n; k++)
			times += strncmp(e.vars[k], "HTTP_X=", 7) == 0;
		cr_assert_leq(times, 1);
		cr_assert_null(e.vars[e.n]);
		environment_release(&e);
	}
}

Test(environment, bytes_that_would_make_another_variable_are_kept_out)
{
	struct request rq;
	struct environment_input in = { .request = &rq, .paths = &paths, .path = "/bin" };
	struct environment e;

	request_init(&rq, FCGI_RESPONDER);
	add_param(&rq, VIEW("HTTP_A=B"), VIEW("c"));
	add_param(&rq, VIEW("HTTP_A\0LD_PRELOAD=/x.so"), VIEW("c"));
	add_param(&rq, VIEW("HTTP_NUL"), VIEW("a\0LD_PRELOAD=/x.so"));
	add_param(&rq, VIEW("REMOTE_USER"), VIEW("root\0x"));
	add_param(&rq, VIEW("HTTP_GOOD"), VIEW("yes"));
	cr_assert(request_index(&rq));
	cr_assert(environment_build(&e, &in));
	cr_assert_null(environment_get(&e, "HTTP_A"));
	cr_assert_null(environment_get(&e, "HTTP_NUL"));
	cr_assert_null(environment_get(&e, "LD_PRELOAD"));
	cr_assert_null(environment_get(&e, "REMOTE_USER"));
	cr_assert_str_eq(environment_get(&e, "HTTP_GOOD"), "yes");
	environment_release(&e);
	request_release(&rq);
}

Test(environment, body_paths_and_own_variables_are_weirs)
{
	struct request rq = with_params(
		"CONTENT_LENGTH=5\nWEIR_USER=admin\nREMOTE_USER=mallory\nPATH_INFO=/sent");
	const struct environment_paths found = {
		.script_filename = VIEW("/srv/cgi/b.cgi"),
		.script_name = VIEW("/cgi/b.cgi"),
		.path_info = VIEW("/x/y"),
		.path_translated = VIEW("/srv/www/x/y"),
	};
	const struct pair extra[] = {
		{ VIEW("WEIR_USER"), VIEW("alice") },
		{ VIEW("WEIR_PLAN"), VIEW("default") },
		{ VIEW("REMOTE_USER"), VIEW("alice") },
	};
	struct environment_input in = {
		.request = &rq,
		.paths = &found,
		.path = "/bin",
		.extra = extra,
		.n_extra = COUNT_OF(extra),
		.body_bytes = 300000,
		.length_given = true,
	};
	struct environment e;

	cr_assert(environment_build(&e, &in));
	cr_assert_str_eq(environment_get(&e, "CONTENT_LENGTH"), "300000");
	cr_assert_str_eq(environment_get(&e, "PATH_INFO"), "/x/y");
	cr_assert_str_eq(environment_get(&e, "PATH_TRANSLATED"), "/srv/www/x/y");
	cr_assert_str_eq(environment_get(&e, "WEIR_USER"), "alice");
	cr_assert_str_eq(environment_get(&e, "WEIR_PLAN"), "default");
	for (size_t i = 0, times = 0; i < e.n; i++) {
		times += strncmp(e.vars[i], "REMOTE_USER=", 12) == 0;
		cr_assert_leq(times, 1);
		cr_assert_str_neq(e.vars[i], "REMOTE_USER=mallory");
	}
	environment_release(&e);
	request_release(&rq);
}

Test(environment, the_operators_variables_take_the_place_of_the_web_servers)
{
	struct request rq = with_params("REDIRECT_STATUS=404\nGIT_PROJECT_ROOT=/sent");
	struct variable env[] = {
		{ (char[]){ "GIT_PROJECT_ROOT" }, (char[]){ "/srv/git" } },
		{ (char[]){ "GIT_HTTP_EXPORT_ALL" }, (char[]){ "" } },
		{ (char[]){ "REDIRECT_STATUS" }, (char[]){ "200" } },
	};
	struct environment_input in = { .request = &rq,
		.paths = &paths,
		.path = "/bin",
		.env = env,
		.n_env = COUNT_OF(env) };
	struct environment e;

	cr_assert(environment_build(&e, &in));
	for (size_t i = 0; i < COUNT_OF(env); i++) {
		size_t n = strlen(env[i].name), times = 0;

		cr_expect_str_eq(environment_get(&e, env[i].name), env[i].value);
		for (size_t k = 0; k < e.n; k++)
			times += strncmp(e.vars[k], env[i].name, n) == 0 &&
				e.vars[k][n] == '=';
		cr_expect_eq(times, 1, "%s: %zu times", env[i].name, times);
	}
	environment_release(&e);
	request_release(&rq);
}
