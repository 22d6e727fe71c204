#include "reply_scene.h"

/* The fields every reply has, and rest behind them. */
static void check_head(const struct reply *r, const char *status, const char *rest)
{
	char want[REPLY_HEAD_MAX];

	snprintf(want, sizeof(want),
		"Status: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
		"Cache-Control: no-store\r\n%s",
		status, r->body.n, rest);
	check("head", &r->head, want);
}

Test(reply, a_refusal_names_the_rule_and_the_time)
{
	struct scene s;
	struct reply r = { 0 };
	static char label[] = "user/sw60s";

	scene_init(&s, OUTCOME_REFUSED);
	refuse(&s, add_tier(&s, label, 5, 60 * US_PER_S), 30 * US_PER_S);
	cr_assert(reply_refusal(&r, &s.c, &s.v, &s.endpoint,
		&(struct request){ .id = "0123456789abcdef" }));
	check("body", &r.body,
		"{\"code\":42900,\"message\":\"Too many requests, retry in 30 seconds\","
		"\"retry_after\":30,\"endpoint\":\"eval-submit\",\"rule\":\"user/sw60s\","
		"\"rules\":[\"user/sw60s\"],\"request_id\":\"0123456789abcdef\"}");
	check_head(&r, "429 Too Many Requests", "Retry-After: 30\r\n");
	reply_release(&r);
}

Test(reply, a_refusal_carries_the_fields_when_they_are_wanted)
{
	struct scene s;
	struct reply r = { 0 };
	static char label[] = "user/sw60s";

	scene_init(&s, OUTCOME_REFUSED);
	s.c.reply.rate_limit_fields = true;
	refuse(&s, add_tier(&s, label, 5, 60 * US_PER_S), 30 * US_PER_S);
	cr_assert(reply_refusal(&r, &s.c, &s.v, NULL, NULL));
	check("body", &r.body,
		"{\"code\":42900,\"message\":\"Too many requests, retry in 30 seconds\","
		"\"retry_after\":30,\"rule\":\"user/sw60s\",\"rules\":[\"user/sw60s\"]}");
	check_head(&r, "429 Too Many Requests",
		"Retry-After: 30\r\n"
		"RateLimit-Policy: \"user/sw60s\";q=5;w=60\r\n"
		"RateLimit: \"user/sw60s\";r=0;t=30\r\n");
	reply_release(&r);
}

Test(reply, all_refusing_rules_are_named_and_the_longest_wait_counts)
{
	struct scene s;
	struct reply r = { 0 };
	static char user[] = "user/sw60s", ip[] = "ip/sw1h", site[] = "site/global/sw1s",
		    shadow[] = "user/sw1d";
	json_t *json, *rules;
	const char *wanted[] = { "user/sw60s", "ip/sw1h", "fallback" };

	scene_init(&s, OUTCOME_REFUSED);
	refuse(&s, add_tier(&s, user, 5, 60 * US_PER_S), 2 * US_PER_S);
	refuse(&s, add_tier(&s, ip, 50, 3600 * US_PER_S), 90 * US_PER_S);
	admit(add_tier(&s, site, 100, US_PER_S), 3, US_PER_S);
	add_tier(&s, shadow, 1, 86400 * US_PER_S)->wait_us = 1000 * US_PER_S;
	s.rules[3].mode = MODE_SHADOW;
	refuse(&s, add_total(&s), US_PER_S);
	cr_assert(reply_refusal(
		&r, &s.c, &s.v, &s.endpoint, &(struct request){ .id = "id" }));
	json = json_loadb(r.body.p, r.body.n, 0, NULL);
	cr_assert_not_null(json);
	cr_assert_eq(json_integer_value(json_object_get(json, "retry_after")), 90);
	cr_assert_str_eq(json_string_value(json_object_get(json, "rule")), "ip/sw1h");
	rules = json_object_get(json, "rules");
	cr_assert_eq(json_array_size(rules), COUNT_OF(wanted));
	for (size_t i = 0; i < COUNT_OF(wanted); i++)
		cr_assert_str_eq(json_string_value(json_array_get(rules, i)), wanted[i]);
	json_decref(json);
	reply_release(&r);
}

Test(reply, retry_after_is_rounded_up_and_never_below_one)
{
	static const struct {
		int64_t wait_us;
		const char *field, *words;
	} rows[] = {
		{ 0, "Retry-After: 1\r\n", "retry in 1 second\"" },
		{ 1, "Retry-After: 1\r\n", "retry in 1 second\"" },
		{ US_PER_S, "Retry-After: 1\r\n", "retry in 1 second\"" },
		{ US_PER_S + 1, "Retry-After: 2\r\n", "retry in 2 seconds\"" },
		{ 29 * US_PER_S + 999999, "Retry-After: 30\r\n", "retry in 30 seconds\"" },
		{ 86400 * US_PER_S, "Retry-After: 86400\r\n", "retry in 86400 seconds\"" },
		{ INT64_MAX, "Retry-After: 9223372036855\r\n",
			"retry in 9223372036855 seconds\"" },
	};
	static char label[] = "user/sw60s";

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;
		struct reply r = { 0 };

		scene_init(&s, OUTCOME_REFUSED);
		add_tier(&s, label, 5, 60 * US_PER_S)->wait_us = rows[i].wait_us;
		s.v.worst = &s.v.tiers[0];
		s.v.wait_us = rows[i].wait_us;
		cr_assert(reply_refusal(
			&r, &s.c, &s.v, &s.endpoint, &(struct request){ .id = "id" }));
		cr_assert_not_null(strstr(buf_str(&r.head), rows[i].field), "%s", r.head.p);
		cr_assert_not_null(strstr(buf_str(&r.body), rows[i].words), "%s", r.body.p);
		reply_release(&r);
	}
}

Test(reply, the_message_is_the_operators)
{
	static struct {
		char message[64];
		const char *json; /* of the message, in 7 seconds */
	} rows[] = {
		{ "Too many requests, retry in {retry_after} seconds",
			"\"Too many requests, retry in 7 seconds\"" },
		{ "Slow down", "\"Slow down\"" },
		{ "{retry_after}", "\"7\"" },
		{ "{retry_after}s or {retry_after}000ms", "\"7s or 7000ms\"" },
		{ "{retry_after", "\"{retry_after\"" },
		{ "{other}", "\"{other}\"" },
		{ "", "\"\"" },
		{ "100%s \"now\"\n", "\"100%s \\\"now\\\"\\n\"" },
		{ "\xe8\xaf\xb7 {retry_after} \xe7\xa7\x92",
			"\"\xe8\xaf\xb7 7 \xe7\xa7\x92\"" },
		{ "caf\xe9", "\"caf\xef\xbf\xbd\"" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;
		struct reply r = { 0 };
		char want[256];

		scene_init(&s, OUTCOME_REFUSED);
		s.c.reply.message = rows[i].message;
		s.v.wait_us = 7 * US_PER_S;
		cr_assert(reply_refusal(&r, &s.c, &s.v, NULL, NULL));
		snprintf(want, sizeof(want),
			"{\"code\":42900,\"message\":%s,\"retry_after\":7}", rows[i].json);
		check("body", &r.body, want);
		reply_release(&r);
	}
}

Test(reply, without_a_message_the_default_is_used)
{
	struct scene s;
	struct reply r = { 0 };

	scene_init(&s, OUTCOME_REFUSED);
	s.c.reply.message = NULL;
	cr_assert(reply_refusal(&r, &s.c, &s.v, NULL, NULL));
	check("body", &r.body,
		"{\"code\":42900,\"message\":\"Too many requests, retry in 1 second\","
		"\"retry_after\":1}");
	reply_release(&r);
}

Test(reply, a_rule_that_admits_nobody_gives_403_without_a_time)
{
	struct scene s;
	struct reply r = { 0 };
	static char label[] = "ip/sw60s";

	scene_init(&s, OUTCOME_FORBIDDEN);
	s.c.reply.rate_limit_fields = true;
	refuse(&s, add_tier(&s, label, 1, 60 * US_PER_S), 0);
	s.rules[0].counting = COUNT_NONE;
	cr_assert(reply_refusal(
		&r, &s.c, &s.v, &s.endpoint, &(struct request){ .id = "id" }));
	check("body", &r.body,
		"{\"code\":40300,\"message\":\"Requests of this kind are not allowed\","
		"\"endpoint\":\"eval-submit\",\"rule\":\"ip/sw60s\",\"rules\":[\"ip/"
		"sw60s\"],"
		"\"request_id\":\"id\"}");
	check_head(&r, "403 Forbidden", "");
	reply_release(&r);
}

Test(reply, a_silent_store_under_the_policy_closed_gives_503)
{
	struct scene s;
	struct reply r = { 0 };

	scene_init(&s, OUTCOME_UNAVAILABLE);
	s.c.reply.rate_limit_fields = true;
	cr_assert(reply_refusal(
		&r, &s.c, &s.v, &s.endpoint, &(struct request){ .id = "id" }));
	check("body", &r.body,
		"{\"code\":50300,\"message\":\"The limit cannot be checked now, retry in 1 "
		"second\","
		"\"retry_after\":1,\"endpoint\":\"eval-submit\",\"request_id\":\"id\"}");
	check_head(&r, "503 Service Unavailable", "Retry-After: 1\r\n");
	reply_release(&r);
}

Test(reply, errors_have_the_same_shape)
{
	static const struct {
		int status;
		const char *message;
		int64_t retry_after;
		const char *id, *status_line, *body, *reason;
	} rows[] = {
		{ 400, "The head contradicts itself", 0, "x", "Status: 400 Bad Request\r\n",
			"{\"code\":40000,\"message\":\"The head contradicts itself\","
			"\"request_id\":\"x\"}" },
		{ 403, NULL, 0, "x", "Status: 403 Forbidden\r\n",
			"{\"code\":40300,\"message\":\"Forbidden\",\"request_id\":\"x\"}" },
		{ 404, "No such endpoint", 0, "x", "Status: 404 Not Found\r\n",
			"{\"code\":40400,\"message\":\"No such "
			"endpoint\",\"request_id\":\"x\"}" },
		{ 413, NULL, 0, "x", "Status: 413 Content Too Large\r\n",
			"{\"code\":41300,\"message\":\"Content Too "
			"Large\",\"request_id\":\"x\"}" },
		{ 431, NULL, 0, NULL, "Status: 431 Request Header Fields Too Large\r\n",
			"{\"code\":43100,\"message\":\"Request Header Fields Too "
			"Large\"}" },
		{ 502, NULL, 0, "x", "Status: 502 Bad Gateway\r\n",
			"{\"code\":50200,\"message\":\"Bad "
			"Gateway\",\"request_id\":\"x\"}" },
		{ 503, "Busy", 5, "x", "Status: 503 Service Unavailable\r\n",
			"{\"code\":50300,\"message\":\"Busy\",\"retry_after\":5,"
			"\"request_id\":\"x\"}" },
		{ 503, "Full", 5, "x", "Status: 503 Service Unavailable\r\n",
			"{\"code\":50300,\"message\":\"Full\",\"retry_after\":5,"
			"\"reason\":\"spool\",\"request_id\":\"x\"}",
			"spool" },
		{ 504, "a\xff/\"b\"\\\r\n", -1, "x", "Status: 504 Gateway Timeout\r\n",
			"{\"code\":50400,\"message\":\"a\xef\xbf\xbd/\\\"b\\\"\\\\\\r\\n\","
			"\"request_id\":\"x\"}" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct reply r = { 0 };
		char length[64];

		cr_assert(reply_error(&r, rows[i].status, rows[i].message, rows[i].reason,
			rows[i].retry_after, rows[i].id));
		check("body", &r.body, rows[i].body);
		cr_assert(view_starts(buf_view(&r.head), view_str(rows[i].status_line)));
		snprintf(length, sizeof(length), "\r\nContent-Length: %zu\r\n", r.body.n);
		cr_assert_not_null(strstr(buf_str(&r.head), length));
		cr_assert_eq(strstr(r.head.p, "Retry-After: 5\r\n") != NULL,
			rows[i].retry_after > 0);
		cr_assert_eq(
			strstr(r.head.p, "Retry-After") != NULL, rows[i].retry_after > 0);
		reply_release(&r);
	}
}

Test(reply, one_struct_can_be_used_again)
{
	struct reply r = { 0 };

	cr_assert(reply_error(&r, 404, NULL, NULL, 0, NULL));
	cr_assert(reply_error(&r, 502, NULL, NULL, 0, NULL));
	check("body", &r.body, "{\"code\":50200,\"message\":\"Bad Gateway\"}");
	reply_release(&r);
}

Test(reply, what_is_not_utf8_is_replaced_and_the_rest_kept)
{
	static const struct {
		const char *name, *want; /* as a JSON string holds it */
	} rows[] = {
		{ "plain", "plain" },
		{ "\xc3\xbc", "\xc3\xbc" },
		{ "\xe2\x82\xac", "\xe2\x82\xac" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "\xef\xbf\xbf", "\xef\xbf\xbf" },
		{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" },
		{ "a\x80z", "a\xef\xbf\xbdz" },
		{ "a\xffz", "a\xef\xbf\xbdz" },
		{ "\xc3", "\xef\xbf\xbd" },
		{ "\xc3(", "\xef\xbf\xbd(" },
		{ "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },                 /* overlong */
		{ "\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* overlong */
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* surrogate */
		{ "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xf0\x80\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xe2\x82x", "\xef\xbf\xbd\xef\xbf\xbdx" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct reply r = { 0 };
		json_t *json;

		cr_assert(reply_error(&r, 404, rows[i].name, NULL, 0, rows[i].name));
		json = json_loadb(r.body.p, r.body.n, 0, NULL);
		cr_assert_not_null(json, "row %zu", i);
		cr_assert_str_eq(
			json_string_value(json_object_get(json, "message")), rows[i].want);
		cr_assert_str_eq(json_string_value(json_object_get(json, "request_id")),
			rows[i].want);
		json_decref(json);
		reply_release(&r);
	}
}
