#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../client/make_request.h"
#include "config/pattern.h"
#include "limit/limit.h"
#include "limit/path.h"

#define ENDPOINTS_MAX 64

struct site {
	struct config config;
	struct endpoint endpoints[ENDPOINTS_MAX];
};

static void site_init(struct site *s)
{
	memset(s, 0, sizeof(*s));
	s->config.endpoints = s->endpoints;
	s->config.patterns = pattern_index_new();
	cr_assert_not_null(s->config.patterns);
}

static void site_release(struct site *s)
{
	for (size_t i = 0; i < s->config.n_endpoints; i++)
		free(s->endpoints[i].name);
	pattern_index_free(s->config.patterns);
}

/* An endpoint that goes by what it matches. */
static void site_add(struct site *s, const char *match, const char *host, const char *query)
{
	struct pattern_text text = { match, host, query };
	struct buf why = { 0 };
	size_t tie, i = s->config.n_endpoints++;

	cr_assert_lt(i, ENDPOINTS_MAX);
	s->endpoints[i].name = strdup(match);
	cr_assert(pattern_add(s->config.patterns, i, &text, &why, &tie), "%s: %s", match,
		buf_str(&why));
	buf_release(&why);
}

static const char *ask_rq(const struct site *s, const struct request *rq, const char *uri)
{
	const struct endpoint *found;
	struct view query = view_str(uri), path = view_cut(&query, '?');
	struct buf canonical = { 0 };

	path_canonical(path, &canonical);
	found = limit_match(&s->config, rq, buf_view(&canonical), query, NULL);
	buf_release(&canonical);
	return found ? found->name : "none";
}

static const char *ask(
	const struct site *s, const char *method, const char *host, const char *uri)
{
	const char *name;
	struct request rq;

	make_request(&rq, "REQUEST_METHOD", method, "HTTP_HOST", host, NULL);
	name = ask_rq(s, &rq, uri);
	request_release(&rq);
	return name;
}

Test(match, the_most_specific_path_wins_whatever_the_order)
{
	static const char *const patterns[] = {
		"* /**",
		"* /",
		"* /api/**",
		"* /api/{kind}",
		"* /api/eval",
		"* /api/e*",
		"* /api/ev*l",
		"* /api/{kind}/submit",
		"* /api/eval/{name}",
		"* /api/eval/*.json",
		"* /api/*/list",
		"* /files/{name}/**",
		"* /files/*.txt/raw",
		"* /{a}/{b}/{c}/{d}",
	};
	static const struct {
		const char *uri, *pattern;
	} rows[] = {
		{ "/", "* /" },
		{ "/nothing", "* /**" },
		{ "/nothing/at/all", "* /**" },
		{ "/api", "* /api/**" },
		{ "/api/", "* /api/**" },
		{ "/api/eval", "* /api/eval" },
		{ "/api//%65val/", "* /api/eval" },
		{ "/api/EVAL", "* /api/{kind}" },
		/* {name} stands before * in the order of what is specific. */
		{ "/api/evil", "* /api/{kind}" },
		{ "/api/other/submit", "* /api/{kind}/submit" },
		/* The literal branch comes first as long as anything in it matches. */
		{ "/api/eval/submit", "* /api/eval/{name}" },
		{ "/api/eval/a.json", "* /api/eval/{name}" },
		/* And is left again where nothing does. */
		{ "/api/eval/submit/now", "* /api/**" },
		{ "/api/other/list", "* /api/*/list" },
		{ "/api/other/more", "* /api/**" },
		{ "/files", "* /**" },
		{ "/files/a.txt", "* /files/{name}/**" },
		{ "/files/a.txt/raw", "* /files/{name}/**" },
		{ "/files/a.txt/raw/x", "* /files/{name}/**" },
		{ "/1/2/3/4", "* /{a}/{b}/{c}/{d}" },
		{ "/1/2/3/4/5", "* /**" },
	};

	for (int backwards = 0; backwards < 2; backwards++) {
		struct site s;

		site_init(&s);
		for (size_t i = 0; i < COUNT_OF(patterns); i++)
			site_add(&s, patterns[backwards ? COUNT_OF(patterns) - 1 - i : i],
				NULL, NULL);
		for (size_t i = 0; i < COUNT_OF(rows); i++)
			cr_expect_str_eq(ask(&s, "GET", "", rows[i].uri), rows[i].pattern,
				"%s met %s", rows[i].uri, ask(&s, "GET", "", rows[i].uri));
		site_release(&s);
	}
}

Test(match, what_a_name_stood_for_is_captured_in_the_order_of_the_path)
{
	static const char *const patterns[] = {
		"* /{kind}/{id}/show",
		"* /a/{only}/show/{more}/**",
		"* /a/{x}/{y}/{z}",
		"GET /{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/**",
		"* /plain/**",
	};
	static const struct {
		const char *uri;
		const char *captured; /* "name=value name=value" */
	} rows[] = {
		{ "/users/7/show", "kind=users id=7" },
		{ "/a/7/show", "kind=a id=7" },
		{ "/a/7/show/b/c/d", "only=7 more=b" },
		{ "/a//7/./show/%62/", "only=7 more=b" },
		/* The branch that led nowhere leaves nothing behind. */
		{ "/a/1/2/3", "x=1 y=2 z=3" },
		{ "/a/%7B/}/=", "x={ y=} z==" },
		{ "/1/2/3/4/5/6/7/8/9", "a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8" },
		{ "/plain/1/2", "" },
		{ "/1/2/3/4/5/6/7", "" },
	};
	struct request rq;
	struct site s;

	site_init(&s);
	for (size_t i = 0; i < COUNT_OF(patterns); i++)
		site_add(&s, patterns[i], NULL, NULL);
	make_request(&rq, "REQUEST_METHOD", "GET", NULL);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf path = { 0 }, got = { 0 };
		struct captures captures = { .n = 99 };

		path_canonical(view_str(rows[i].uri), &path);
		limit_match(&s.config, &rq, buf_view(&path), VIEW(""), &captures);
		cr_assert_leq(captures.n, PATTERN_PARAMS_MAX);
		for (size_t j = 0; j < captures.n; j++)
			buf_addf(&got, "%s%s=%.*s", j ? " " : "", captures.list[j].name,
				VIEW_ARG(captures.list[j].value));
		cr_expect_str_eq(buf_str(&got), rows[i].captured, "%s", rows[i].uri);
		buf_release(&path);
		buf_release(&got);
	}
	request_release(&rq);
	site_release(&s);
}

/* Processor time for n look-ups in an index of that many endpoints, half of them literal
 * and half with a name in the middle. */
static double look_ups_take(size_t endpoints)
{
	struct config c = { .patterns = pattern_index_new(),
		.endpoints = calloc(endpoints, sizeof(struct endpoint)) };
	struct buf text = { 0 }, why = { 0 };
	struct timespec from, to;
	struct request rq;
	size_t tie;

	cr_assert_not_null(c.endpoints);
	make_request(&rq, "REQUEST_METHOD", "POST", "HTTP_HOST", "www.example.org", NULL);
	for (size_t i = 0; i < endpoints; i++) {
		struct pattern_text one = { 0 };

		buf_reset(&text);
		buf_addf(&text,
			i % 2 ? "GET,POST /api/v%zu/{id}/submit"
			      : "POST /site/page%zu/submit",
			i);
		one.match = buf_str(&text);
		cr_assert(
			pattern_add(c.patterns, i, &one, &why, &tie), "%s", buf_str(&why));
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	for (size_t i = 0; i < 100000; i++) {
		size_t wanted = i * 7919 % endpoints;
		char path[64];
		int n = snprintf(path, sizeof(path),
			wanted % 2 ? "/api/v%zu/77/submit" : "/site/page%zu/submit",
			wanted);
		const struct endpoint *found = limit_match(
			&c, &rq, view_of(path, (size_t)n), VIEW("a=b"), NULL);

		cr_assert_eq(found, &c.endpoints[wanted]);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	request_release(&rq);
	buf_release(&text);
	buf_release(&why);
	pattern_index_free(c.patterns);
	free(c.endpoints);
	return (double)(to.tv_sec - from.tv_sec) +
		(double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* A search through all of them would take a thousand times as long. */
Test(match, ten_thousand_endpoints_cost_a_request_no_more_than_ten, .timeout = 60)
{
	double few = look_ups_take(10), many = look_ups_take(10000);

	cr_expect_lt(many, 10 * few, "%.3f s, and %.3f s with ten", many, few);
}

Test(match, a_star_stays_within_its_segment)
{
	static const struct {
		const char *pattern, *uri;
		bool meets;
	} rows[] = {
		{ "* /a*", "/a", true },
		{ "* /a*", "/abc", true },
		{ "* /a*", "/b", false },
		{ "* /a*", "/a/b", false },
		{ "* /*c", "/abc", true },
		{ "* /*c", "/abcd", false },
		{ "* /*c", "/ccc", true },
		{ "* /a*c", "/ac", true },
		{ "* /a*c", "/a", false },
		{ "* /a*a", "/a", false },
		{ "* /a*b*c", "/axbxc", true },
		{ "* /a*b*c", "/acb", false },
		{ "* /a*bc*d", "/abcbcxd", true },
		{ "* /*ab", "/aab", true },
		{ "* /*.php", "/index.php", true },
		{ "* /*.php", "/index.php/x", false },
		{ "* /*", "/anything", true },
		{ "* /*", "/", false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct site s;

		site_init(&s);
		site_add(&s, rows[i].pattern, NULL, NULL);
		cr_expect_str_eq(ask(&s, "GET", "", rows[i].uri),
			rows[i].meets ? rows[i].pattern : "none", "%s and %s",
			rows[i].pattern, rows[i].uri);
		site_release(&s);
	}
}

Test(match, methods_are_exact_and_get_covers_head)
{
	static const char *const patterns[] = { "POST /a", "GET /a", "* /a",
		"PUT,DELETE /b", "HEAD /c", "* /c", "POST /{any}", "* /d/**", "POST /**" };
	static const struct {
		const char *method, *uri, *pattern;
	} rows[] = {
		{ "POST", "/a", "POST /a" },
		{ "GET", "/a", "GET /a" },
		{ "HEAD", "/a", "GET /a" },
		{ "PUT", "/a", "* /a" },
		{ "post", "/a", "* /a" },
		{ "POSTX", "/a", "* /a" },
		{ "", "/a", "* /a" },
		{ "PUT", "/b", "PUT,DELETE /b" },
		{ "DELETE", "/b", "PUT,DELETE /b" },
		/* The path weighs more, but only if the method fits. */
		{ "POST", "/b", "POST /{any}" },
		{ "GET", "/b", "none" },
		{ "HEAD", "/c", "HEAD /c" },
		{ "GET", "/c", "* /c" },
		{ "POST", "/d/e", "* /d/**" },
		{ "POST", "/e/f", "POST /**" },
		{ "", "/e/f", "none" },
	};
	struct site s;

	site_init(&s);
	for (size_t i = 0; i < COUNT_OF(patterns); i++)
		site_add(&s, patterns[i], NULL, NULL);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_str_eq(ask(&s, rows[i].method, "", rows[i].uri), rows[i].pattern,
			"%s %s", rows[i].method, rows[i].uri);
	site_release(&s);
}

Test(match, a_host_given_comes_before_everything)
{
	static const struct {
		const char *host, *uri, *pattern;
	} rows[] = {
		{ "example.org", "/a/b", "* /a/*" },
		{ "EXAMPLE.Org", "/a/b", "* /a/*" },
		{ "example.org:8080", "/a/b", "* /a/*" },
		{ "example.org.", "/a/b", "* /a/*" },
		{ "Example.ORG.:443", "/a/b", "* /a/*" },
		{ " example.org ", "/a/b", "* /a/*" },
		{ "www.example.org", "/a/b", "* /a/b" },
		{ "example.orgs", "/a/b", "* /a/b" },
		{ "", "/a/b", "* /a/b" },
		{ "example.org", "/b", "* /b" },
		{ "[2001:db8::1]", "/a/b", "* /a/**" },
		{ "[2001:DB8::1]:8080", "/a/b", "* /a/**" },
		{ "[2001:db8::1", "/a/b", "* /a/b" },
	};
	struct buf name = { 0 };
	struct request rq;
	struct site s;

	site_init(&s);
	site_add(&s, "* /a/b", NULL, NULL);
	site_add(&s, "* /b", NULL, NULL);
	site_add(&s, "* /a/*", "example.org", NULL);
	site_add(&s, "* /a/**", "[2001:db8::1]", NULL);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_str_eq(ask(&s, "GET", rows[i].host, rows[i].uri), rows[i].pattern,
			"%s%s met %s", rows[i].host, rows[i].uri,
			ask(&s, "GET", rows[i].host, rows[i].uri));

	make_request(&rq, "REQUEST_METHOD", "GET", "SERVER_NAME", "example.org", NULL);
	cr_expect_str_eq(ask_rq(&s, &rq, "/a/b"), "* /a/*", "without a Host field");
	request_release(&rq);
	make_request(&rq, "HTTP_HOST", "other", "SERVER_NAME", "example.org", NULL);
	cr_expect_str_eq(ask_rq(&s, &rq, "/a/b"), "* /a/b");
	request_release(&rq);
	for (int i = 0; i < 100000; i++)
		buf_add_str(&name, "example.org");
	cr_expect_str_eq(ask(&s, "GET", buf_str(&name), "/a/b"), "* /a/b");
	buf_release(&name);
	site_release(&s);
}

Test(match, a_condition_on_the_query_cannot_be_dodged)
{
	static const struct {
		const char *query;
		bool meets;
	} rows[] = {
		{ "act_ion=do_it", true },
		{ "%61ct_ion=do%5Fit", true },
		{ "act%5fion=%64%6F_it", true },
		{ "x=1&act_ion=do_it", true },
		{ "act_ion=do_it&x=1", true },
		{ "act_ion=do_it&act_ion=other", true },
		{ "act_ion=other&act_ion=do_it", true },
		{ "&&act_ion=do_it&&", true },
		{ "x;act_ion=do_it", true },
		{ "act_ion=do_it;x", true },
		{ "act_ion=do_it#top", true },
		/* As PHP reads names. */
		{ "+act_ion=do_it", true },
		{ "%20%20act_ion=do_it", true },
		{ "act_ion%00x=do_it", true },
		{ "act.ion=do_it", true },
		{ "act+ion=do_it", true },
		{ "act%20ion=do_it", true },
		{ "act[ion=do_it", true },
		{ "", false },
		{ "act_ion", false },
		{ "act_ion=", false },
		{ "act_ion=do", false },
		{ "act_ion=do_it+", false },
		{ "act_ion=+do_it", false },
		{ "act_ion=do+it", false },
		{ "act_ion=do.it", false },
		{ "act_ion=do%255Fit", false },
		{ "%2561ct_ion=do_it", false },
		{ "act_ion=Do_it", false },
		{ "Act_ion=do_it", false },
		{ "act_io=do_it", false },
		{ "act_ionn=do_it", false },
		{ "act-ion=do_it", false },
		{ "xact_ion=do_it", false },
		{ "x=act_ion=do_it", false },
		{ "x#act_ion&act_ion=do_it", false },
		{ "act_ion=do_it%00", false },
		{ "act_ion=do_i%t", false },
	};
	struct buf uri = { 0 };
	struct site s;

	site_init(&s);
	site_add(&s, "POST /do", NULL, NULL);
	site_add(&s, "* /do", NULL, "act_ion=do_it");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		buf_reset(&uri);
		buf_add_str(&uri, "/do?");
		buf_add_str(&uri, rows[i].query);
		cr_expect_str_eq(ask(&s, "GET", "", buf_str(&uri)),
			rows[i].meets ? "* /do" : "none", "%s", rows[i].query);
	}
	cr_expect_str_eq(ask(&s, "POST", "", "/do?act_ion=do_it"), "POST /do",
		"a method given comes before a query given");
	buf_release(&uri);
	site_release(&s);
}

Test(match, hostile_requests_end_soon, .timeout = 20)
{
	static const char *const units[] = { "/a", "/a/..", "a", "ab", "&x=1", "?a=b&",
		"%61" };
	struct buf uri = { 0 };
	struct site s;

	site_init(&s);
	site_add(&s, "* /a/a/a/a/a/a", NULL, NULL);
	site_add(&s, "* /{x}/a/{y}/a/{z}/a/{u}", NULL, NULL);
	site_add(&s, "* /a*/a*/a*/a*/a*/b", NULL, NULL);
	site_add(&s, "* /*a*a*a*a*c", NULL, NULL);
	site_add(&s, "* /q", NULL, "a=c");
	for (size_t i = 0; i < COUNT_OF(units); i++) {
		buf_reset(&uri);
		buf_add_str(&uri, i == 4 || i == 5 ? "/q?a=b" : "/");
		while (uri.n < 65536)
			buf_add_str(&uri, units[i]);
		cr_expect_str_eq(ask(&s, "GET", "", buf_str(&uri)), "none", "%s", units[i]);
	}
	buf_release(&uri);
	site_release(&s);
}

Test(match, without_endpoints_nothing_matches)
{
	struct site s;

	site_init(&s);
	cr_expect_str_eq(ask(&s, "GET", "example.org", "/a?b=c"), "none");
	site_release(&s);
}
