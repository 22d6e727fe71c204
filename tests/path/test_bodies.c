/*
 * test_bodies.c - what is sent arrives, and what is answered comes back, byte for byte
 * and in its time: over each web server, at each kind of handler.
 */
#include "site.h"

#include <stdlib.h>

static const char *const handlers[] = { "/hello.php", "/fastcgi", "/hello.pl", "/echo" };

/* As a browser through a web server. */
static void post_over(struct web *web, uint64_t n)
{
	for (size_t i = 0; i < COUNT_OF(handlers); i++) {
		const char *url = text("%s%s", web->url, handlers[i]);
		struct http_request rq = {
			.method = "POST", .url = url, .pattern_bytes = n
		};
		const char *sha256, *bytes;
		struct http_answer a;

		http_call(&rq, &a);
		cr_assert(a.error == 0 && a.status == 200,
			"%s, %lu bytes: error %d, status %ld", url, n, a.error, a.status);
		bytes = line_of(buf_view(&a.body), "body_bytes");
		sha256 = line_of(buf_view(&a.body), "body_sha256");
		cr_assert(bytes && strtoull(bytes, NULL, 10) == n, "%s: %s of %lu bytes",
			url, bytes, n);
		cr_assert(sha256 && strcmp(sha256, sha256_of_pattern(n)) == 0,
			"%s: %lu bytes arrived changed", url, n);
		http_release(&a);
	}
}

/* As a web server of our own. */
static void post_direct(const struct site *s, uint64_t n)
{
	for (size_t i = 0; i < COUNT_OF(handlers); i++) {
		struct fcgi_request rq = { .method = "POST",
			.uri = handlers[i],
			.script = text("%s%s", s->programs, handlers[i]),
			.pattern_bytes = n };
		const char *sha256;
		struct fcgi_answer a;

		cr_assert(fcgi_call(s->addr, &rq, &a, 30000), "%s, %lu bytes: no answer",
			handlers[i], n);
		sha256 = line_of(answer_body(&a), "body_sha256");
		cr_assert(answer_status(&a) == 200 && sha256 &&
				strcmp(sha256, sha256_of_pattern(n)) == 0,
			"%s, %lu bytes: status %d", handlers[i], n, answer_status(&a));
		fcgi_answer_release(&a);
	}
}

static const uint64_t sizes[] = { 0, 1, 65536, 70000, 8 << 20 };

Test(bodies, arrive_whole_over_lighttpd, .timeout = 60)
{
	struct web *web = lighttpd_start(site_start(&(struct site_spec){ 0 })->addr);

	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		post_over(web, sizes[i]);
}

Test(bodies, arrive_whole_over_nginx, .timeout = 60)
{
	struct web *web = nginx_start(site_start(&(struct site_spec){ 0 })->addr);

	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		post_over(web, sizes[i]);
}

Test(bodies, arrive_whole_over_nginx_with_kept_connections, .timeout = 60)
{
	struct web *web = nginx_keepalive_start(site_start(&(struct site_spec){ 0 })->addr);

	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		post_over(web, sizes[i]);
}

Test(bodies, arrive_whole_directly, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ 0 });

	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		post_direct(s, sizes[i]);
}

/* nginx and lighttpd read a chunked body to its end and then give its length; a web
 * server that does not leaves CONTENT_LENGTH out. */
Test(bodies, of_unknown_length_reach_the_handler_with_their_length, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ 0 });
	const char *none[] = { "CONTENT_LENGTH=", NULL };

	for (size_t i = 0; i < COUNT_OF(handlers); i++) {
		struct fcgi_request rq = { .method = "POST",
			.uri = handlers[i],
			.script = text("%s%s", s->programs, handlers[i]),
			.pattern_bytes = 300000,
			.params = none };
		struct fcgi_answer a;
		const char *n, *sha256;

		cr_assert(fcgi_call(s->addr, &rq, &a, 10000), "%s", handlers[i]);
		n = line_of(answer_body(&a), "CONTENT_LENGTH");
		sha256 = line_of(answer_body(&a), "body_sha256");
		cr_assert(n && strcmp(n, "300000") == 0, "%s: CONTENT_LENGTH %s",
			handlers[i], n);
		cr_assert(sha256 && strcmp(sha256, sha256_of_pattern(300000)) == 0, "%s",
			handlers[i]);
		fcgi_answer_release(&a);
	}
}

static void get_large(const char *url, const char *want)
{
	struct http_answer a;

	http_call(&(struct http_request){ .url = url, .keep_body_bytes = 64 }, &a);
	cr_assert(a.error == 0 && a.status == 200, "%s: error %d, status %ld", url, a.error,
		a.status);
	cr_assert_eq(a.body_bytes, 16 << 20, "%s: %lu bytes", url, a.body_bytes);
	cr_assert_str_eq(a.sha256, want, "%s: came back changed", url);
	http_release(&a);
}

Test(answers, of_16_mebibytes_come_back_whole, .timeout = 120)
{
	struct site *s = site_start(&(struct site_spec){ 0 });
	const char *want = sha256_of_numbered(16 << 20);
	struct web *webs[] = { lighttpd_start(s->addr), nginx_start(s->addr),
		nginx_keepalive_start(s->addr) };

	for (size_t w = 0; w < COUNT_OF(webs); w++)
		for (size_t i = 0; i < COUNT_OF(handlers); i++)
			get_large(text("%s%s?size=16777216", webs[w]->url, handlers[i]),
				want);
}

Test(answers, keep_two_set_cookie_lines_as_two_in_their_order, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ 0 });
	struct web *webs[] = { lighttpd_start(s->addr), nginx_start(s->addr) };

	for (size_t i = 0; i < COUNT_OF(handlers); i++) {
		struct fcgi_request rq = { .uri = text("%s?cookies=2", handlers[i]),
			.script = text("%s%s", s->programs, handlers[i]) };
		struct fcgi_answer direct;

		cr_assert(fcgi_call(s->addr, &rq, &direct, 10000), "%s", handlers[i]);
		cr_assert_eq(answer_fields(&direct, "Set-Cookie"), 2, "%s", handlers[i]);
		cr_assert_str_eq(answer_field(&direct, "Set-Cookie"), "cookie1=1; Path=/");
		fcgi_answer_release(&direct);
		for (size_t w = 0; w < COUNT_OF(webs); w++) {
			struct http_answer a;

			http_get(text("%s%s?cookies=2", webs[w]->url, handlers[i]), &a);
			cr_assert_eq(fields_of(buf_view(&a.head), "Set-Cookie"), 2);
			http_release(&a);
		}
	}
}

/* Four lines 300 ms apart: what would be held back would come with the last. */
static void expect_one_by_one(const struct http_piece *pieces, size_t n, const char *what)
{
	cr_assert(n >= 4, "%s: %zu pieces", what, n);
	cr_assert(pieces[n - 1].ms - pieces[0].ms >= 600,
		"%s: first after %ld ms, last after %ld", what, pieces[0].ms,
		pieces[n - 1].ms);
	for (size_t i = 0; i < n; i++)
		cr_assert(pieces[i].bytes < 200, "%s: %zu bytes at once", what,
			pieces[i].bytes);
}

Test(answers, reach_the_client_line_by_line_as_they_are_written, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ 0 });
	struct web *webs[] = { lighttpd_start(s->addr), nginx_start(s->addr) };

	for (size_t i = 0; i < COUNT_OF(handlers); i++) {
		const char *path = text("%s?lines=4&pause=300", handlers[i]);
		struct fcgi_request rq = { .uri = path,
			.script = text("%s%s", s->programs, handlers[i]) };
		struct fcgi_answer direct;

		cr_assert(fcgi_call(s->addr, &rq, &direct, 10000));
		expect_one_by_one(direct.pieces, direct.n_pieces, path);
		fcgi_answer_release(&direct);
		for (size_t w = 0; w < COUNT_OF(webs); w++) {
			struct http_answer a;

			http_get(text("%s%s", webs[w]->url, path), &a);
			expect_one_by_one(
				a.pieces, a.n_pieces, text("%s%s", webs[w]->url, path));
			http_release(&a);
		}
	}
}

/* A handler that dies in the middle must not look like one that finished. Web servers
 * pass on what came, since they are not told how long it should have been; what weir can
 * do is leave END_REQUEST out, as the handler did. */
Test(answers, that_break_off_are_seen_to_break_off, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .echo = 8 });

	for (size_t i = 0; i < COUNT_OF(handlers); i++) {
		struct fcgi_request rq = { .uri = text("%s?die=100", handlers[i]),
			.script = text("%s%s", s->programs, handlers[i]) };
		struct fcgi_answer a;

		fcgi_call(s->addr, &rq, &a, 10000);
		cr_assert(a.closed && a.ends == 0, "%s: END_REQUEST came all the same",
			handlers[i]);
		cr_assert_eq(
			answer_status(&a), 200, "%s: %d", handlers[i], answer_status(&a));
		cr_assert_eq(answer_body(&a).n, 100, "%s: %zu bytes", handlers[i],
			answer_body(&a).n);
		fcgi_answer_release(&a);
	}
	cr_assert(weir_counts(s->weir, "backend_truncated", COUNT_OF(handlers), 5000));
}

Test(answers, given_before_the_body_was_read_arrive, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ 0 });
	struct web *webs[] = { lighttpd_start(s->addr), nginx_start(s->addr),
		nginx_keepalive_start(s->addr) };

	for (size_t w = 0; w < COUNT_OF(webs); w++)
		for (size_t i = 0; i < COUNT_OF(handlers); i++) {
			const char *url = text("%s%s?early=413", webs[w]->url, handlers[i]);
			struct http_answer a;

			http_call(&(struct http_request){ .url = url,
					  .pattern_bytes = 3 << 20 },
				&a);
			cr_assert_eq(a.status, 413, "%s: error %d, status %ld", url,
				a.error, a.status);
			http_release(&a);
		}
}
