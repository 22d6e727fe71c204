/*
 * Whose language a refusal speaks and what form its body takes.
 */
#include "reply_scene.h"
#include "with_params.h"

static char label[] = "user/sw60s";

static char zh
	[] = "zh",
      zh_text[] =
	      "\xe8\xaf\xb7 {retry_after} \xe7\xa7\x92\xe5\x90\x8e\xe9\x87\x8d\xe8\xaf\x95",
      de[] = "de", de_text[] = "In {retry_after} s wieder";
static struct localized languages[] = { { zh, zh_text }, { de, de_text } };

/* A tier that refuses for 30 seconds. */
static void scene_refused(struct scene *s)
{
	scene_init(s, OUTCOME_REFUSED);
	refuse(s, add_tier(s, label, 5, 60 * US_PER_S), 30 * US_PER_S);
}

static struct reply refusal(const struct scene *s, const char *params)
{
	struct request rq = with_params(params);
	struct reply r = { 0 };

	snprintf(rq.id, sizeof(rq.id), "the-id");
	cr_assert(reply_refusal(&r, &s->c, &s->v, &s->endpoint, &rq));
	cr_assert_not_null(buf_str(&r.head));
	cr_assert_not_null(buf_str(&r.body));
	request_release(&rq);
	return r;
}

static json_t *parsed(const struct reply *r)
{
	json_t *json = json_loadb(r->body.p, r->body.n, JSON_REJECT_DUPLICATES, NULL);

	cr_assert_not_null(json, "%s", r->body.p);
	return json;
}

static const char *member(const json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

static bool has_line(const struct reply *r, const char *line)
{
	char with_ends[256];

	snprintf(with_ends, sizeof(with_ends), "\r\n%s\r\n", line);
	return strstr(r->head.p, with_ends) != NULL;
}

Test(reply_forms, the_message_is_in_the_clients_language)
{
	static char own[] = "Own {retry_after}";
	static const struct {
		const char *accept;
		char *own; /* the operator's message, NULL for ours */
		const char *message, *language;
	} rows[] = {
		{ "zh-Hans-CN, en;q=0.5", NULL,
			"\xe8\xaf\xb7 30 \xe7\xa7\x92\xe5\x90\x8e\xe9\x87\x8d\xe8\xaf\x95",
			"Content-Language: zh" },
		{ "fr, de-AT;q=0.5", own, "In 30 s wieder", "Content-Language: de" },
		{ "en, de;q=0.5", NULL, "Too many requests, retry in 30 seconds",
			"Content-Language: en" },
		{ "fr", NULL, "Too many requests, retry in 30 seconds",
			"Content-Language: en" },
		{ "", NULL, "Too many requests, retry in 30 seconds",
			"Content-Language: en" },
		/* Nobody knows in which language the operator wrote. */
		{ "fr", own, "Own 30", NULL },
		{ "en, de;q=0.5", own, "In 30 s wieder", "Content-Language: de" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;
		struct reply r;
		char params[128];
		json_t *json;

		scene_refused(&s);
		if (rows[i].own)
			s.c.reply.message = rows[i].own;
		s.c.reply.messages = languages;
		s.c.reply.n_messages = COUNT_OF(languages);
		snprintf(params, sizeof(params), "HTTP_ACCEPT_LANGUAGE=%s", rows[i].accept);
		r = refusal(&s, params);
		json = parsed(&r);
		cr_expect_str_eq(member(json, "message"), rows[i].message, "row %zu", i);
		cr_expect(has_line(&r, "Vary: Accept-Language"), "%s", r.head.p);
		if (rows[i].language)
			cr_expect(has_line(&r, rows[i].language), "%s", r.head.p);
		else
			cr_expect_null(strstr(r.head.p, "Content-Language"));
		json_decref(json);
		reply_release(&r);
	}
}

Test(reply_forms, without_languages_there_is_no_word_about_them)
{
	struct scene s;
	struct reply r;

	scene_refused(&s);
	r = refusal(&s, "HTTP_ACCEPT_LANGUAGE=zh, en");
	cr_assert_null(strstr(r.head.p, "Content-Language"));
	cr_assert_null(strstr(r.head.p, "Vary"));
	reply_release(&r);
}

Test(reply_forms, what_costs_more_than_a_limit_holds_gets_413_and_no_time)
{
	static char other[] = "ip/tb1h";
	struct scene s;
	struct reply r;
	json_t *json;

	scene_init(&s, OUTCOME_NEVER);
	s.c.reply.rate_limit_fields = s.c.reply.x_rate_limit_fields = true;
	refuse(&s, add_tier(&s, label, 5, 60 * US_PER_S), 0);
	admit(add_tier(&s, other, 100, 3600 * US_PER_S), 90, US_PER_S);
	s.v.wait_us = INT64_MAX;
	r = refusal(&s, "");
	check("head", &r.head,
		text_of("Status: 413 Content Too Large\r\nContent-Type: "
			"application/json\r\n"
			"Content-Length: %zu\r\nCache-Control: no-store\r\n",
			r.body.n));
	json = parsed(&r);
	cr_assert_eq(json_integer_value(json_object_get(json, "code")), 41300);
	cr_assert_not_null(strstr(member(json, "message"), "costs more than its limit"));
	cr_assert_null(json_object_get(json, "retry_after"));
	cr_assert_str_eq(member(json, "rule"), "user/sw60s");
	cr_assert_eq(json_array_size(json_object_get(json, "rules")), 1);
	json_decref(json);
	reply_release(&r);
}

Test(reply_forms, each_outcome_has_its_status)
{
	cr_assert_eq(reply_status(OUTCOME_PASS), 200);
	cr_assert_eq(reply_status(OUTCOME_REFUSED), 429);
	cr_assert_eq(reply_status(OUTCOME_FORBIDDEN), 403);
	cr_assert_eq(reply_status(OUTCOME_NEVER), 413);
	cr_assert_eq(reply_status(OUTCOME_UNAVAILABLE), 503);
}

/* -- problem details --------------------------------------------------------------- */

Test(reply_forms, a_client_that_asks_gets_problem_details)
{
	struct scene s;
	struct reply r;

	scene_refused(&s);
	r = refusal(&s, "HTTP_ACCEPT=application/problem+json, application/json;q=0.5");
	check("body", &r.body,
		"{\"type\":\"https://iana.org/assignments/"
		"http-problem-types#quota-exceeded\","
		"\"title\":\"Quota Exceeded\",\"status\":429,"
		"\"detail\":\"Too many requests, retry in 30 seconds\",\"code\":42900,"
		"\"message\":\"Too many requests, retry in 30 seconds\",\"retry_after\":30,"
		"\"endpoint\":\"eval-submit\",\"rule\":\"user/sw60s\","
		"\"rules\":[\"user/sw60s\"],\"violated-policies\":[\"user/sw60s\"],"
		"\"request_id\":\"the-id\"}");
	cr_assert(has_line(&r, "Content-Type: application/problem+json"), "%s", r.head.p);
	cr_assert(has_line(&r, "Vary: Accept"), "%s", r.head.p);
	cr_assert(has_line(&r, "Retry-After: 30"), "%s", r.head.p);
	reply_release(&r);
}

Test(reply_forms, the_form_follows_configuration_and_client)
{
	static char text[] = "T{code}", html[] = "text/html",
		    problem[] = "Application/Problem+JSON;charset=utf-8";
	static const struct {
		bool configured;
		char *template_text, *template_type;
		const char *accept, *type, *vary;
	} rows[] = {
		{ false, NULL, NULL, "*/*", "application/json", NULL },
		{ true, NULL, NULL, "*/*", "application/problem+json", NULL },
		{ true, NULL, NULL, "application/json", "application/problem+json", NULL },
		{ false, NULL, NULL, "application/problem+json", "application/problem+json",
			"Vary: Accept" },
		{ true, text, html, "*/*", "text/html", NULL },
		{ false, text, html, "application/problem+json", "application/problem+json",
			"Vary: Accept" },
		{ false, text, problem, "application/problem+json", problem, NULL },
		{ false, text, NULL, "", "text/plain; charset=utf-8", NULL },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;
		struct reply r;
		char line[128];

		scene_refused(&s);
		s.c.reply.problem_json = rows[i].configured;
		s.c.reply.template_text = rows[i].template_text;
		s.c.reply.template_type = rows[i].template_type;
		snprintf(line, sizeof(line), "HTTP_ACCEPT=%s", rows[i].accept);
		r = refusal(&s, line);
		snprintf(line, sizeof(line), "Content-Type: %s", rows[i].type);
		cr_expect(has_line(&r, line), "row %zu: %s", i, r.head.p);
		if (rows[i].vary)
			cr_expect(has_line(&r, rows[i].vary), "row %zu: %s", i, r.head.p);
		else
			cr_expect_null(strstr(r.head.p, "Vary"), "row %zu", i);
		reply_release(&r);
	}
}

Test(reply_forms, problem_details_of_other_refusals_have_no_type_of_their_own)
{
	static const struct {
		enum outcome outcome;
		int status;
		const char *title;
	} rows[] = {
		{ OUTCOME_FORBIDDEN, 403, "Forbidden" },
		{ OUTCOME_NEVER, 413, "Content Too Large" },
		{ OUTCOME_UNAVAILABLE, 503, "Service Unavailable" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;
		struct reply r;
		json_t *json;

		scene_refused(&s);
		s.v.outcome = rows[i].outcome;
		s.c.reply.messages = languages;
		s.c.reply.n_messages = COUNT_OF(languages);
		r = refusal(&s,
			"HTTP_ACCEPT=application/problem+json\nHTTP_ACCEPT_LANGUAGE=zh");
		json = parsed(&r);
		cr_assert_str_eq(member(json, "type"), "about:blank");
		cr_assert_str_eq(member(json, "title"), rows[i].title);
		cr_assert_str_eq(member(json, "detail"), member(json, "message"));
		cr_assert_eq(json_integer_value(json_object_get(json, "status")),
			rows[i].status);
		cr_assert_null(json_object_get(json, "violated-policies"));
		cr_assert(has_line(&r, "Content-Language: en"), "%s", r.head.p);
		cr_assert(has_line(&r, "Vary: Accept"), "%s", r.head.p);
		json_decref(json);
		reply_release(&r);
	}
}

Test(reply_forms, both_preferences_show_in_one_vary)
{
	struct scene s;
	struct reply r;

	scene_refused(&s);
	s.c.reply.messages = languages;
	s.c.reply.n_messages = COUNT_OF(languages);
	r = refusal(&s, "HTTP_ACCEPT=application/problem+json\nHTTP_ACCEPT_LANGUAGE=de");
	cr_assert(has_line(&r, "Vary: Accept-Language, Accept"), "%s", r.head.p);
	cr_assert(has_line(&r, "Content-Language: de"), "%s", r.head.p);
	reply_release(&r);
}

/* -- templates --------------------------------------------------------------------- */

Test(reply_forms, a_template_is_filled_in)
{
	static struct {
		char text[128];
		const char *want;
	} rows[] = {
		{ "{code} {message} {retry_after} {endpoint} {rule} {request_id}",
			"42900 Too many requests, retry in 30 seconds 30 eval-submit "
			"user/sw60s the-id" },
		{ "{retry_after}{retry_after}", "3030" },
		{ "{{code}}", "{42900}" },
		{ "{\"error\": {\"code\": {code}}}", "{\"error\": {\"code\": 42900}}" },
		{ "{other} {code {Code} code}", "{other} {code {Code} code}" },
		{ "{", "{" },
		{ "", "" },
		{ "caf\xe9 %s %n", "caf\xe9 %s %n" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;
		struct reply r;
		char length[64];

		scene_refused(&s);
		s.c.reply.template_text = rows[i].text;
		r = refusal(&s, "");
		check("body", &r.body, rows[i].want);
		snprintf(length, sizeof(length), "Content-Length: %zu",
			strlen(rows[i].want));
		cr_assert(has_line(&r, length), "%s", r.head.p);
		cr_assert(has_line(&r, "Retry-After: 30"), "%s", r.head.p);
		reply_release(&r);
	}
}

Test(reply_forms, what_a_template_is_filled_with_is_escaped_for_its_type)
{
	static char text[] = "[{endpoint}]";
	static struct {
		char type[48];
		const char *want;
	} rows[] = {
		{ "application/json",
			"[<a "
			"href='x'>\\\"&\\\\\\u000a\\u001b\xc2\x9b\xc3\xbc\xef\xbf\xbd{code}"
			"]" },
		{ "Application/VND.own+JSON ; charset=utf-8",
			"[<a "
			"href='x'>\\\"&\\\\\\u000a\\u001b\xc2\x9b\xc3\xbc\xef\xbf\xbd{code}"
			"]" },
		{ "text/html; charset=utf-8",
			"[&lt;a "
			"href=&#39;x&#39;&gt;&quot;&amp;\\\xc3\xbc\xef\xbf\xbd{code}]" },
		{ "TEXT/HTML",
			"[&lt;a "
			"href=&#39;x&#39;&gt;&quot;&amp;\\\xc3\xbc\xef\xbf\xbd{code}]" },
		{ "application/xhtml+xml",
			"[&lt;a "
			"href=&#39;x&#39;&gt;&quot;&amp;\\\xc3\xbc\xef\xbf\xbd{code}]" },
		{ "text/plain", "[<a href='x'>\"&\\\xc3\xbc\xef\xbf\xbd{code}]" },
		{ "json", "[<a href='x'>\"&\\\xc3\xbc\xef\xbf\xbd{code}]" },
		{ "", "[<a href='x'>\"&\\\xc3\xbc\xef\xbf\xbd{code}]" },
	};
	static char name[] = "<a href='x'>\"&\\\n\x1b\xc2\x9b\xc3\xbc\xff{code}";

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;
		struct reply r;

		scene_refused(&s);
		s.endpoint.name = name;
		s.c.reply.template_text = text;
		s.c.reply.template_type = rows[i].type;
		r = refusal(&s, "");
		cr_expect(view_eq(buf_view(&r.body), view_str(rows[i].want)), "%s: %s",
			rows[i].type, r.body.p);
		reply_release(&r);
	}
}

Test(reply_forms, what_does_not_apply_is_empty_in_a_template)
{
	static char text[] = "{\"c\":{code},\"r\":{retry_after},\"e\":\"{endpoint}\","
			     "\"n\":\"{rule}\",\"i\":\"{request_id}\"}",
		    type[] = "application/json";
	struct scene s;
	struct reply r = { 0 };

	scene_init(&s, OUTCOME_FORBIDDEN);
	s.c.reply.template_text = text;
	s.c.reply.template_type = type;
	cr_assert(reply_refusal(&r, &s.c, &s.v, NULL, NULL));
	check("body", &r.body, "{\"c\":40300,\"r\":0,\"e\":\"\",\"n\":\"\",\"i\":\"\"}");
	reply_release(&r);
}

Test(reply_forms, a_templates_message_is_in_the_clients_language)
{
	static char text[] = "<p>{message}</p>", type[] = "text/html";
	struct scene s;
	struct reply r;

	scene_refused(&s);
	s.c.reply.messages = languages;
	s.c.reply.n_messages = COUNT_OF(languages);
	s.c.reply.template_text = text;
	s.c.reply.template_type = type;
	r = refusal(&s, "HTTP_ACCEPT_LANGUAGE=de");
	check("body", &r.body, "<p>In 30 s wieder</p>");
	cr_assert(has_line(&r, "Content-Language: de"), "%s", r.head.p);
	reply_release(&r);
}
