/*
 * What fields say, and that whatever they say can be read: every field of a head is
 * held against RFC 9651 and against the verdict it was made from.
 */
#include "reply_scene.h"

#include "fields.h"

/* The fields of what s is about. */
static void expect_fields(const struct scene *s, const char *want)
{
	struct buf head = { 0 };

	reply_rate_limit_fields(&head, &s->c, &s->v);
	check("fields", &head, want);
	cr_assert(reply_tells_limits(&s->c, &s->v));
	buf_release(&head);
}

Test(reply_fields, an_answer_that_passes_tells_what_is_left)
{
	struct scene s;
	static char user[] = "user/sw60s", bucket[] = "global/tb60s", shadow[] = "ip/sw1s",
		    none[] = "ip/sw2s", off[] = "ip/sw3s";

	scene_init(&s, OUTCOME_PASS);
	s.c.reply.rate_limit_fields = true;
	admit(add_tier(&s, user, 5, 60 * US_PER_S), 4, 59 * US_PER_S + 1);
	admit(add_tier(&s, bucket, 300, 1500000), 49, 200000);
	s.rules[1].rate.algorithm = RATE_TOKEN_BUCKET;
	s.rules[1].rate.burst = 50;
	admit(add_tier(&s, shadow, 5, US_PER_S), 1, US_PER_S);
	s.rules[2].mode = MODE_SHADOW;
	add_tier(&s, none, 5, US_PER_S);
	s.rules[3].counting = COUNT_NONE;
	add_tier(&s, off, 5, US_PER_S);
	s.rules[4].mode = MODE_OFF;
	expect_fields(&s,
		"RateLimit-Policy: \"user/sw60s\";q=5;w=60, "
		"\"global/tb60s\";q=300;w=2;weir-burst=50\r\n"
		"RateLimit: \"user/sw60s\";r=4;t=60, \"global/tb60s\";r=49;t=1\r\n");
}

Test(reply_fields, no_fields_without_a_tier_to_tell_of)
{
	struct scene s;
	struct buf head = { 0 };
	static char label[] = "user/sw60s";

	scene_init(&s, OUTCOME_PASS);
	s.c.reply.rate_limit_fields = true;
	reply_rate_limit_fields(&head, &s.c, &s.v);
	cr_assert_eq(head.n, 0, "exempt");
	cr_assert_not(reply_tells_limits(&s.c, &s.v));
	admit(add_tier(&s, label, 5, US_PER_S), 1, 1);
	s.c.server.mode = MODE_SHADOW;
	reply_rate_limit_fields(&head, &s.c, &s.v);
	cr_assert_eq(head.n, 0, "the whole server in shadow");
	cr_assert_not(reply_tells_limits(&s.c, &s.v));
	s.c.server.mode = MODE_ENFORCE;
	s.c.reply.rate_limit_fields = false;
	reply_rate_limit_fields(&head, &s.c, &s.v);
	cr_assert_eq(head.n, 0, "not wanted");
	s.c.reply.rate_limit_fields = true;
	reply_rate_limit_fields(&head, &s.c, &s.v);
	cr_assert_gt(head.n, 0);
	buf_release(&head);
}

Test(reply_fields, the_total_of_the_fallback_is_told_only_to_whom_it_refuses)
{
	struct scene s;
	struct buf head = { 0 };
	struct tier_verdict *total;

	scene_init(&s, OUTCOME_REFUSED);
	s.c.reply.rate_limit_fields = true;
	total = add_total(&s);
	admit(total, 5, US_PER_S);
	reply_rate_limit_fields(&head, &s.c, &s.v);
	cr_assert_eq(head.n, 0);
	total->remaining = 0;
	refuse(&s, total, 1);
	reply_rate_limit_fields(&head, &s.c, &s.v);
	check("fields", &head,
		"RateLimit-Policy: \"fallback\";q=1000;w=1\r\nRateLimit: "
		"\"fallback\";r=0;t=1\r\n");
	buf_release(&head);
}

Test(reply_fields, names_become_structured_field_strings)
{
	static struct {
		char label[32];
		const char *want;
	} rows[] = {
		{ "a \"quoted\" name", "\"a \\\"quoted\\\" name\"" },
		{ "back\\slash", "\"back\\\\slash\"" },
		{ "gr\xc3\xbc\xc3\x9f", "\"gr\"" },
		{ "cr\r\nlf", "\"crlf\"" },
		{ "del\x7f~", "\"del~\"" },
		{ "semi;q=9, x", "\"semi;q=9, x\"" },
		{ "", "\"\"" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;
		char want[128];

		scene_init(&s, OUTCOME_PASS);
		s.c.reply.rate_limit_fields = true;
		admit(add_tier(&s, rows[i].label, 5, US_PER_S), 2, US_PER_S);
		snprintf(want, sizeof(want),
			"RateLimit-Policy: %s;q=5;w=1\r\nRateLimit: %s;r=2;t=1\r\n",
			rows[i].want, rows[i].want);
		expect_fields(&s, want);
	}
}

Test(reply_fields, numbers_stay_within_what_a_structured_field_can_hold)
{
	struct scene s;
	static char label[] = "x";

	scene_init(&s, OUTCOME_PASS);
	s.c.reply.rate_limit_fields = true;
	admit(add_tier(&s, label, UINT64_MAX, INT64_MAX), UINT64_MAX, INT64_MAX);
	expect_fields(&s,
		"RateLimit-Policy: \"x\";q=999999999999999;w=9223372036855\r\n"
		"RateLimit: \"x\";r=999999999999999;t=9223372036855\r\n");
}

Test(reply_fields, the_head_stays_below_its_limit_and_keeps_the_tier_that_refuses)
{
	struct scene s;
	struct reply r = { 0 };
	static char labels[TIERS_MAX][300];

	scene_init(&s, OUTCOME_REFUSED);
	s.c.reply.rate_limit_fields = true;
	for (size_t i = 0; i < TIERS_MAX; i++) {
		memset(labels[i], 'a' + (int)i, sizeof(labels[i]) - 1);
		admit(add_tier(&s, labels[i], 5, US_PER_S), 1, US_PER_S);
	}
	refuse(&s, &s.v.tiers[TIERS_MAX - 1], 9 * US_PER_S);
	cr_assert(reply_refusal(
		&r, &s.c, &s.v, &s.endpoint, &(struct request){ .id = "id" }));
	cr_assert_leq(r.head.n, REPLY_HEAD_MAX);
	cr_assert_gt(r.head.n, 2500);
	cr_assert_not_null(strstr(buf_str(&r.head), "RateLimit-Policy: \"pppp"));
	cr_assert_not_null(strstr(r.head.p, "RateLimit: \"pppp"));
	cr_assert_not_null(strstr(r.head.p, "\"aaaa"));
	cr_assert_null(strstr(r.head.p, "\"oooo"));
	reply_release(&r);
}

Test(reply_fields, the_tier_that_matters_comes_first)
{
	struct scene s;
	static char wide[] = "wide", tight[] = "tight", slow[] = "slow",
		    short_wait[] = "short", long_wait[] = "long";

	scene_init(&s, OUTCOME_REFUSED);
	s.c.reply.rate_limit_fields = s.c.reply.x_rate_limit_fields = true;
	admit(add_tier(&s, wide, 100, US_PER_S), 90, US_PER_S);
	refuse(&s, add_tier(&s, short_wait, 10, 60 * US_PER_S), 2 * US_PER_S);
	admit(add_tier(&s, tight, 10, US_PER_S), 2, US_PER_S);
	refuse(&s, add_tier(&s, long_wait, 20, 60 * US_PER_S), 7 * US_PER_S);
	admit(add_tier(&s, slow, 10, 60 * US_PER_S), 2, 7 * US_PER_S);
	expect_fields(&s,
		"RateLimit-Policy: \"long\";q=20;w=60, \"short\";q=10;w=60, "
		"\"slow\";q=10;w=60, \"tight\";q=10;w=1, \"wide\";q=100;w=1\r\n"
		"RateLimit: \"long\";r=0;t=7, \"short\";r=0;t=2, \"slow\";r=2;t=7, "
		"\"tight\";r=2;t=1, \"wide\";r=90;t=1\r\n"
		"X-RateLimit-Limit: 20\r\nX-RateLimit-Remaining: 0\r\n"
		"X-RateLimit-Reset: 7\r\n");
}

Test(reply_fields, in_a_refusal_no_time_is_later_than_retry_after)
{
	struct scene s;
	static char minute[] = "minute", day[] = "day";

	scene_init(&s, OUTCOME_REFUSED);
	s.c.reply.rate_limit_fields = true;
	refuse(&s, add_tier(&s, minute, 5, 60 * US_PER_S), 9 * US_PER_S + 1);
	admit(add_tier(&s, day, 100, 86400 * US_PER_S), 50, 86400 * US_PER_S);
	expect_fields(&s,
		"RateLimit-Policy: \"minute\";q=5;w=60, \"day\";q=100;w=86400\r\n"
		"RateLimit: \"minute\";r=0;t=10, \"day\";r=50\r\n");
}

Test(reply_fields, the_x_fields_are_those_of_the_tier_with_the_least_left)
{
	static const struct {
		enum rate_algorithm algorithm;
		uint64_t count, burst, remaining;
		const char *want;
	} rows[] = {
		{ RATE_SLIDING_WINDOW, 5, 5, 4,
			"X-RateLimit-Limit: 5\r\nX-RateLimit-Remaining: 4\r\n"
			"X-RateLimit-Reset: 2\r\n" },
		{ RATE_TOKEN_BUCKET, 300, 10, 9,
			"X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 9\r\n"
			"X-RateLimit-Reset: 2\r\n" },
		{ RATE_LEAKY_BUCKET, 1, 20, 19,
			"X-RateLimit-Limit: 20\r\nX-RateLimit-Remaining: 19\r\n"
			"X-RateLimit-Reset: 2\r\n" },
		{ RATE_FIXED_WINDOW, 7, 7, 0,
			"X-RateLimit-Limit: 7\r\nX-RateLimit-Remaining: 0\r\n"
			"X-RateLimit-Reset: 2\r\n" },
	};
	static char name[] = "tight", wide[] = "wide", shadow[] = "shadow";

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;

		scene_init(&s, OUTCOME_PASS);
		s.c.reply.x_rate_limit_fields = true;
		admit(add_tier(&s, wide, 1000, US_PER_S), 900, 1);
		admit(add_tier(&s, name, rows[i].count, US_PER_S), rows[i].remaining,
			US_PER_S + 1);
		s.rules[1].rate.algorithm = rows[i].algorithm;
		s.rules[1].rate.burst = rows[i].burst;
		add_tier(&s, shadow, 1, US_PER_S);
		s.rules[2].mode = MODE_SHADOW;
		expect_fields(&s, rows[i].want);
	}
}

Test(reply_fields, a_leaky_bucket_tells_how_long_its_queue_is)
{
	struct scene s;
	static char name[] = "global/lb1s";

	scene_init(&s, OUTCOME_PASS);
	s.c.reply.rate_limit_fields = true;
	admit(add_tier(&s, name, 10, US_PER_S), 3, 700000);
	s.rules[0].rate.algorithm = RATE_LEAKY_BUCKET;
	s.rules[0].rate.burst = 4;
	expect_fields(&s,
		"RateLimit-Policy: \"global/lb1s\";q=10;w=1;weir-burst=4\r\n"
		"RateLimit: \"global/lb1s\";r=3;t=1\r\n");
}

/* -- any verdict, any name --------------------------------------------------------- */

static uint64_t seed;

static uint64_t random_below(uint64_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 33) % n;
}

static char names[TIERS_MAX][40];

/* One that could end a string, a field or a head, and tells which tier it is. */
static char *random_name(size_t i)
{
	static const char *const pieces[] = { "\"", "\\", "\r\n", ";", ",", "=", " ", "a",
		"%", "\xc3\xbc", "\xff", "\x7f", "\t", "RateLimit: \"x\";r=9", "(", ":" };
	size_t at = (size_t)snprintf(names[i], sizeof(names[i]), "%zu:", i);

	for (uint64_t n = random_below(6); n > 0; n--) {
		const char *piece = pieces[random_below(COUNT_OF(pieces))];

		if (at + strlen(piece) < sizeof(names[i]))
			at += (size_t)snprintf(
				names[i] + at, sizeof(names[i]) - at, "%s", piece);
	}
	return names[i];
}

static uint64_t random_size(void)
{
	return random_below(8) ? random_below(1000) : UINT64_MAX >> random_below(60);
}

static void random_tier(struct scene *s, size_t i)
{
	uint64_t count = 1 + random_size() / 2;
	int64_t window_us = 1 + (int64_t)(random_size() / 4);
	int64_t time_us = (int64_t)(random_size() / 4 * random_below(2));
	struct tier_verdict *tv = add_tier(s, random_name(i), count, window_us);

	s->rules[i].rate.algorithm = (enum rate_algorithm)random_below(5);
	s->rules[i].rate.burst = 1 + random_size() / 2;
	s->rules[i].mode = random_below(4) ? MODE_ENFORCE : MODE_SHADOW;
	s->rules[i].counting = random_below(8) ? COUNT_LIMITED : COUNT_UNLIMITED;
	admit(tv, random_size(), time_us);
	if (s->v.outcome == OUTCOME_REFUSED && random_below(2) &&
		s->rules[i].counting == COUNT_LIMITED) {
		if (s->rules[i].mode == MODE_ENFORCE) {
			refuse(s, tv, time_us);
		} else {
			tv->admitted = false;
			tv->wait_us = INT64_MAX;
		}
	}
}

static void random_scene(struct scene *s)
{
	scene_init(s, random_below(2) ? OUTCOME_REFUSED : OUTCOME_PASS);
	s->c.reply.rate_limit_fields = random_below(4);
	s->c.reply.x_rate_limit_fields = random_below(2);
	s->c.reply.problem_json = random_below(2);
	for (size_t i = 0, n = random_below(TIERS_MAX + 1); i < n; i++)
		random_tier(s, i);
}

/* The fields of a head, parsed. */
struct parsed_head {
	struct sf_field policy, state, retry_after, limit, remaining, reset, other;
};

static void parse_line(struct parsed_head *p, struct view line)
{
	const struct {
		const char *name;
		enum sf_kind kind;
		struct sf_field *out;
	} rows[] = {
		{ "RateLimit-Policy", SF_LIST, &p->policy },
		{ "RateLimit", SF_LIST, &p->state },
		{ "Retry-After", SF_ITEM, &p->retry_after },
		{ "X-RateLimit-Limit", SF_ITEM, &p->limit },
		{ "X-RateLimit-Remaining", SF_ITEM, &p->remaining },
		{ "X-RateLimit-Reset", SF_ITEM, &p->reset },
		{ "Content-Type", SF_ITEM, &p->other },
		{ "Content-Length", SF_ITEM, &p->other },
		{ "Cache-Control", SF_DICTIONARY, &p->other },
	};
	struct view value = line, name = view_cut(&value, ':');

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if (!view_eq(name, view_str(rows[i].name)))
			continue;
		cr_assert(rows[i].out == &p->other || rows[i].out->n == 0, "twice: %.*s",
			VIEW_ARG(line));
		sf_release(rows[i].out);
		cr_assert(sf_parse(rows[i].kind, value, rows[i].out), "%s at %zu: %.*s",
			rows[i].out->why, rows[i].out->at, VIEW_ARG(line));
		cr_assert_gt(rows[i].out->n, 0, "%.*s", VIEW_ARG(line));
		return;
	}
	cr_assert(false, "unknown field: %.*s", VIEW_ARG(line));
}

static struct parsed_head parse_head(struct view head)
{
	struct parsed_head p = { 0 };

	while (head.n) {
		struct view line = view_cut(&head, '\n');

		cr_assert(line.n && line.p[line.n - 1] == '\r');
		line.n--;
		if (!view_starts(line, VIEW("Status: ")))
			parse_line(&p, line);
	}
	return p;
}

static void release_head(struct parsed_head *p)
{
	struct sf_field *const all[] = { &p->policy, &p->state, &p->retry_after, &p->limit,
		&p->remaining, &p->reset, &p->other };

	for (size_t i = 0; i < COUNT_OF(all); i++)
		sf_release(all[i]);
}

/* The verdict's tier that an item of RateLimit speaks of. */
static const struct tier_verdict *tier_of(const struct scene *s, const struct sf_member *m)
{
	size_t i = 0;

	cr_assert_eq(m->type, SF_STRING);
	for (size_t at = 0; at < m->text.n && m->text.p[at] != ':'; at++)
		i = i * 10 + (size_t)(m->text.p[at] - '0');
	cr_assert_lt(i, s->v.n_tiers);
	return &s->v.tiers[i];
}

static uint64_t number_of(const struct sf_member *m)
{
	cr_assert(m && m->type == SF_INTEGER && m->number >= 0);
	return (uint64_t)m->number;
}

/* What is shown of each tier: never more than is left, nothing of a shadow, no time
 * beyond Retry-After; the X fields repeat the first. */
static void check_state(const struct scene *s, const struct parsed_head *p)
{
	uint64_t least = UINT64_MAX;
	bool refused = s->v.outcome == OUTCOME_REFUSED;

	cr_assert_eq(p->policy.n, p->state.n);
	for (size_t i = 0; i < p->state.n; i++) {
		const struct sf_member *m = &p->state.members[i], *t = sf_param(m, "t");
		const struct tier_verdict *tv = tier_of(s, m);
		uint64_t r = number_of(sf_param(m, "r"));

		cr_assert(
			view_eq(buf_view(&m->text), buf_view(&p->policy.members[i].text)));
		number_of(sf_param(&p->policy.members[i], "q"));
		cr_assert_gt(number_of(sf_param(&p->policy.members[i], "w")), 0);
		cr_assert_eq(tv->rule->mode, MODE_ENFORCE);
		cr_assert_leq(r, tv->remaining);
		cr_assert(t || (refused && tv->admitted));
		if (t && p->retry_after.n)
			cr_assert_leq(number_of(t), number_of(&p->retry_after.members[0]));
	}
	for (size_t i = 0; i < s->v.n_tiers; i++) {
		const struct rule *rule = s->v.tiers[i].rule;

		if (rule->mode == MODE_ENFORCE && rule->counting == COUNT_LIMITED &&
			s->v.tiers[i].remaining < least)
			least = s->v.tiers[i].remaining;
	}
	if (p->remaining.n && !refused)
		cr_assert_leq(number_of(&p->remaining.members[0]), least);
	if (p->state.n && !refused)
		cr_assert_leq(number_of(sf_param(&p->state.members[0], "r")), least);
	cr_assert(p->limit.n == p->remaining.n && p->limit.n == p->reset.n);
}

/* Policies that were violated are called what the field calls them. */
static void check_violated(const struct reply *r, const struct parsed_head *p)
{
	json_t *json = json_loadb(r->body.p, r->body.n, 0, NULL), *violated;

	cr_assert_not_null(json);
	violated = json_object_get(json, "violated-policies");
	for (size_t i = 0; i < json_array_size(violated); i++) {
		const char *name = json_string_value(json_array_get(violated, i));
		size_t at = 0;

		while (at < p->policy.n &&
			!sf_is_text(&p->policy.members[at], SF_STRING, name))
			at++;
		cr_assert(p->policy.n == 0 || at < p->policy.n, "%s", name);
	}
	json_decref(json);
}

Test(reply_fields, whatever_the_verdict_and_the_names_every_field_can_be_read)
{
	size_t told = 0, refused = 0;

	for (seed = 1; seed <= 3000; seed++) {
		uint64_t start = seed;
		struct scene s;
		struct reply r = { 0 };
		struct parsed_head p;

		random_scene(&s);
		if (s.v.outcome == OUTCOME_REFUSED)
			cr_assert(reply_refusal(&r, &s.c, &s.v, &s.endpoint, NULL));
		else
			reply_rate_limit_fields(&r.head, &s.c, &s.v);
		cr_assert(buf_ok(&r.head));
		cr_assert_leq(r.head.n, REPLY_HEAD_MAX);
		p = parse_head(buf_view(&r.head));
		check_state(&s, &p);
		if (s.v.outcome == OUTCOME_REFUSED) {
			cr_assert_geq(number_of(&p.retry_after.members[0]), 1);
			check_violated(&r, &p);
			refused++;
		}
		told += p.state.n;
		release_head(&p);
		reply_release(&r);
		seed = start;
	}
	cr_assert_gt(told, 3000, "%zu", told);
	cr_assert_gt(refused, 500, "%zu", refused);
}
