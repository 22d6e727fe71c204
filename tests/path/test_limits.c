/*
 * test_limits.c - what a client meets at its limits: who passes, who does not, and what
 * a refusal says.
 */
#include "site.h"

#include <stdlib.h>

/* Both stores do the same; each test below runs with either. */
static const char *const stores[] = { "memory", "redis" };

static const char *store_section(const char *type)
{
	if (strcmp(type, "redis") != 0)
		return "[store]\ntype = memory\n";
	/* The patience is for a busy test machine. */
	return text("[store]\ntype = redis\nurl = %s\ntimeout = 5s\n", redis_start()->url);
}

/* weir before a backend that answers 200 at once. */
static struct weir *limited(const char *store, const char *sections, const char *endpoints)
{
	static const struct backend_script plain;
	static unsigned n;
	const char *addr = addr_unix(text("plain%u.sock", ++n));

	backend_start(addr, &plain);
	return weir_start(&(struct weir_spec){ .server = "workers = 2\nbody_limit = 1M\n",
		.sections = text("%s[backend plain]\nfastcgi = %s\n%s",
			store_section(store), addr, sections),
		.endpoints = endpoints });
}

static void call(
	const struct weir *w, const char *uri, const char *from, struct fcgi_answer *a)
{
	struct fcgi_request rq = { .uri = uri, .address = from };

	cr_assert(fcgi_call(w->addr, &rq, a, 10000), "%s: no answer", uri);
}

static int status_of(const struct weir *w, const char *uri, const char *from)
{
	struct fcgi_answer a;
	int status;

	call(w, uri, from, &a);
	status = answer_status(&a);
	fcgi_answer_release(&a);
	return status;
}

static json_int_t member(const json_t *json, const char *name)
{
	return json_integer_value(json_object_get(json, name));
}

static const char *word(const json_t *json, const char *name)
{
	const char *s = json_string_value(json_object_get(json, name));

	return s ? s : "";
}

Test(limits, let_as_many_pass_as_they_say_and_not_one_more, .timeout = 60)
{
	for (size_t i = 0; i < COUNT_OF(stores); i++) {
		struct weir *w = limited(stores[i], "",
			"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
			"@RateLimit = type=ip count=5 window=1h\n"
			"[endpoint b]\nmatch = GET /b\nbackend = plain\n"
			"@RateLimit = type=ip algorithm=token_bucket count=2 window=1h "
			"burst=7\n");

		for (int n = 1; n <= 5; n++)
			cr_assert_eq(status_of(w, "/a", "192.0.2.1"), 200, "%s: request %d",
				stores[i], n);
		cr_assert_eq(status_of(w, "/a", "192.0.2.1"), 429, "%s", stores[i]);
		/* Another client, another endpoint: another count. */
		cr_assert_eq(status_of(w, "/a", "192.0.2.2"), 200, "%s", stores[i]);
		for (int n = 1; n <= 7; n++)
			cr_assert_eq(status_of(w, "/b", "192.0.2.1"), 200, "%s: request %d",
				stores[i], n);
		cr_assert_eq(status_of(w, "/b", "192.0.2.1"), 429, "%s", stores[i]);
		cr_assert(weir_counts(w, "requests_refused", 2, 5000));
		cr_assert(weir_counts(w, "decisions_fallback", 0, 5000));
	}
}

Test(limits, say_in_a_refusal_which_rule_and_how_long, .timeout = 60)
{
	for (size_t i = 0; i < COUNT_OF(stores); i++) {
		struct weir *w = limited(stores[i], "",
			"[endpoint submit]\nmatch = GET /submit\nbackend = plain\n"
			"@RateLimit = type=user count=2 window=1h\n"
			"@RateLimit = type=ip count=2 window=60s\n"
			"@RateLimit = type=global count=100 window=60s\n");
		struct fcgi_answer a;
		json_t *json, *rules;
		long wait;

		status_of(w, "/submit", "192.0.2.1");
		status_of(w, "/submit", "192.0.2.1");
		call(w, "/submit", "192.0.2.1", &a);
		cr_assert_eq(answer_status(&a), 429);
		cr_assert(strstr(answer_field(&a, "Content-Type"), "application/json"));
		wait = atol(answer_field(&a, "Retry-After"));
		cr_assert(wait > 3500 && wait <= 3600, "Retry-After: %ld", wait);
		json = json_of(answer_body(&a));
		rules = json_object_get(json, "rules");
		cr_assert_eq(member(json, "code"), 42900);
		cr_assert_eq(member(json, "retry_after"), wait);
		cr_assert_str_eq(word(json, "endpoint"), "submit");
		cr_assert_str_eq(word(json, "rule"), "user/sw1h", "%s", word(json, "rule"));
		cr_assert_eq(json_array_size(rules), 2);
		cr_assert_str_eq(json_string_value(json_array_get(rules, 0)), "user/sw1h");
		cr_assert(strncmp(json_string_value(json_array_get(rules, 1)), "ip/sw",
				  5) == 0);
		cr_assert(strstr(word(json, "message"), text("%ld", wait)), "%s",
			word(json, "message"));
		cr_assert_eq(strlen(word(json, "request_id")), 16);
		json_decref(json);
		fcgi_answer_release(&a);
	}
}

Test(limits, are_told_on_answers_that_pass)
{
	struct weir *w = limited("memory", "",
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip count=5 window=60s\n");
	struct fcgi_answer a;

	call(w, "/a", "192.0.2.1", &a);
	cr_assert_str_eq(answer_field(&a, "RateLimit-Policy"), "\"ip/sw60s\";q=5;w=60",
		"%s", answer_field(&a, "RateLimit-Policy"));
	cr_assert(strncmp(answer_field(&a, "RateLimit"), "\"ip/sw60s\";r=4;t=", 17) == 0,
		"%s", answer_field(&a, "RateLimit"));
	cr_assert_null(answer_field(&a, "Retry-After"));
	fcgi_answer_release(&a);
}

Test(limits, of_the_site_count_over_all_endpoints_and_name_themselves, .timeout = 60)
{
	for (size_t i = 0; i < COUNT_OF(stores); i++) {
		struct weir *w = limited(stores[i],
			"[site]\n@RateLimit = type=ip count=4 window=1h\n",
			"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
			"@RateLimit = type=ip count=3 window=1h\n"
			"[endpoint b]\nmatch = GET /b\nbackend = plain\n");
		struct fcgi_answer a;
		json_t *json;

		for (int n = 0; n < 3; n++)
			cr_assert_eq(status_of(w, "/a", "192.0.2.1"), 200);
		/* Refused by its own tier: the site's is not charged for it. */
		cr_assert_eq(status_of(w, "/a", "192.0.2.1"), 429);
		cr_assert_eq(status_of(w, "/b", "192.0.2.1"), 200, "%s", stores[i]);
		call(w, "/b", "192.0.2.1", &a);
		cr_assert_eq(answer_status(&a), 429);
		json = json_of(answer_body(&a));
		cr_assert_str_eq(
			word(json, "rule"), "site/ip/sw1h", "%s", word(json, "rule"));
		json_decref(json);
		fcgi_answer_release(&a);
	}
}

Test(limits, meet_every_spelling_of_the_path)
{
	static const char *const spellings[] = { "/api/eval", "/api//eval", "/api/eval/",
		"/api/./eval", "/api/x/../eval", "/%61pi/eval", "/api/e%76al?x=1" };
	struct weir *w = limited("memory", "",
		"[endpoint a]\nmatch = GET /api/eval\nbackend = plain\n"
		"@RateLimit = type=ip count=1 window=1h\n");

	cr_assert_eq(status_of(w, "/api/eval", "192.0.2.1"), 200);
	for (size_t i = 0; i < COUNT_OF(spellings); i++)
		cr_assert_eq(
			status_of(w, spellings[i], "192.0.2.1"), 429, "%s", spellings[i]);
}

Test(limits, in_shadow_refuse_nobody)
{
	struct weir *w = limited("memory", "",
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip count=1 window=1h mode=shadow\n");

	for (int i = 0; i < 4; i++)
		cr_assert_eq(status_of(w, "/a", "192.0.2.1"), 200);
	cr_assert(weir_counts(w, "requests_over_shadow", 3, 5000));
}

/* What cannot be served is said as JSON too, whoever would have served it. */
static void expect_json(const struct weir *w, const struct fcgi_request *rq, int status)
{
	struct fcgi_answer a;
	json_t *json;

	cr_assert(fcgi_call(w->addr, rq, &a, 10000), "%s: no answer", rq->uri);
	cr_assert_eq(answer_status(&a), status, "%s: %d", rq->uri, answer_status(&a));
	json = json_of(answer_body(&a));
	cr_assert_eq(member(json, "code"), status * 100);
	cr_assert(strlen(word(json, "message")) > 0);
	cr_assert_null(answer_field(&a, "Retry-After"));
	json_decref(json);
	fcgi_answer_release(&a);
}

Test(refusals, are_json_whatever_was_wrong)
{
	const char *programs = programs_dir(),
		   *large[] = { "CONTENT_LENGTH=1073741824", NULL };
	struct weir *w = limited("memory", text("[backend cgi]\ncgi = %s\n", programs),
		"[endpoint zero]\nmatch = * /zero\nbackend = plain\n@RateLimit = count=0\n"
		"[endpoint upload]\nmatch = * /upload\nbackend = plain\n"
		"[endpoint cgi]\nmatch = * /cgi/**\nbackend = cgi\n");

	file_write(text("%s/plain.txt", programs), "not a program\n");
	expect_json(w, &(struct fcgi_request){ .uri = "/unknown" }, 404);
	expect_json(w, &(struct fcgi_request){ .uri = "/zero" }, 403);
	expect_json(w,
		&(struct fcgi_request){ .uri = "/cgi/missing.pl",
			.script = text("%s/missing.pl", programs) },
		404);
	expect_json(w,
		&(struct fcgi_request){
			.uri = "/cgi/plain.txt", .script = text("%s/plain.txt", programs) },
		403);
	expect_json(w,
		&(struct fcgi_request){ .uri = "/upload", .pattern_bytes = (1 << 20) + 1 },
		413);
	/* Declared too long: said before any of it is read. */
	expect_json(w,
		&(struct fcgi_request){
			.uri = "/upload", .method = "POST", .params = large },
		413);
	/* Just fitting. */
	cr_assert_eq(status_of(w, "/upload", NULL), 200);
	/* The program that is missing had an endpoint. */
	cr_assert(weir_counts(w, "requests_unmatched", 1, 5000));
	cr_assert(weir_counts(w, "requests_oversized", 2, 5000));
	cr_assert(weir_counts(w, "requests_forbidden", 1, 5000));
}

Test(refusals, of_count_0_carry_their_own_code)
{
	struct weir *w = limited("memory", "",
		"[endpoint zero]\nmatch = * /zero\nbackend = plain\n@RateLimit = "
		"count=0\n");
	struct fcgi_answer a;
	json_t *json;

	call(w, "/zero", NULL, &a);
	json = json_of(answer_body(&a));
	cr_assert_eq(member(json, "code"), 40300);
	cr_assert_str_eq(word(json, "endpoint"), "zero");
	cr_assert(weir_counts(w, "requests_forbidden", 1, 5000));
	json_decref(json);
	fcgi_answer_release(&a);
}

Test(refusals, to_head_have_no_body)
{
	struct weir *w = limited("memory", "",
		"[endpoint zero]\nmatch = * /zero\nbackend = plain\n@RateLimit = "
		"count=0\n");
	struct fcgi_request rq = { .uri = "/zero", .method = "HEAD" };
	struct fcgi_answer a;

	cr_assert(fcgi_call(w->addr, &rq, &a, 5000));
	cr_assert_eq(answer_status(&a), 403);
	cr_assert_eq(answer_body(&a).n, 0);
	fcgi_answer_release(&a);
}

/* The path from a browser: turning from 200 to 429 through a real web server. */
Test(refusals, reach_a_browser_with_their_body_and_fields, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.endpoints = "[endpoint a]\nmatch = * /a\n"
			     "@RateLimit = type=ip count=2 window=1h\n" });
	struct web *webs[] = { lighttpd_start(s->addr), nginx_start(s->addr) };
	int passed = 0;

	for (size_t w = 0; w < COUNT_OF(webs); w++)
		for (int i = 0; i < 2; i++) {
			struct http_answer a;

			http_get(text("%s/a", webs[w]->url), &a);
			passed += a.status == 200;
			if (a.status != 200) {
				json_t *json = json_of(buf_view(&a.body));

				cr_assert_eq(a.status, 429);
				cr_assert_eq(member(json, "code"), 42900);
				cr_assert_not_null(
					field_of(buf_view(&a.head), "Retry-After"));
				json_decref(json);
			}
			http_release(&a);
		}
	cr_assert_eq(passed, 2);
}
