/*
 * The store is played by this file: it keeps the question and answers with what the test
 * prepared, at once or when the test says so.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "../client/make_request.h"
#include "base/log.h"
#include "limit/limit.h"

static struct {
	struct rate_view views[TIERS_MAX];
	struct take answer; /* by, failed, closed, over_total, total, total_rate */
	bool is_memory;
	bool later; /* keep the question until answer_now() */
	struct take *kept;
	int asked, cancelled;
	struct take_tier tiers[TIERS_MAX];
	char keys[TIERS_MAX][128];
	size_t n_tiers;
} fake;

static void answer_now(struct take *t)
{
	t->by = fake.answer.by;
	t->failed = fake.answer.failed;
	t->closed = fake.answer.closed;
	t->over_total = fake.answer.over_total;
	t->total = fake.answer.total;
	t->total_rate = fake.answer.total_rate;
	t->admitted = !t->failed && !t->closed && !t->over_total;
	for (size_t i = 0; i < t->n_tiers; i++) {
		t->views[i] = fake.views[i];
		if (!t->views[i].admitted && !t->tiers[i].shadow)
			t->admitted = false;
	}
	t->done(t);
}

void store_take(struct store *s, struct take *t)
{
	(void)s;
	fake.asked++;
	fake.n_tiers = t->n_tiers;
	for (size_t i = 0; i < t->n_tiers; i++) {
		fake.tiers[i] = t->tiers[i];
		cr_assert_lt(t->tiers[i].key.n, sizeof(fake.keys[0]));
		memcpy(fake.keys[i], t->tiers[i].key.p, t->tiers[i].key.n);
		fake.keys[i][t->tiers[i].key.n] = '\0';
	}
	if (fake.later)
		fake.kept = t;
	else
		answer_now(t);
}

bool store_is_memory(const struct store *s)
{
	(void)s;
	return fake.is_memory;
}

void store_cancel(struct take *t)
{
	cr_assert_eq(t, fake.kept);
	fake.cancelled++;
}

static char empty[] = "", prefix[] = "rate", shared[] = "shared", paid[] = "paid",
	    nobody[] = "nobody", login[] = "login", search[] = "search", sw60s[] = "sw60s",
	    sw1h[] = "sw1h", tb60s[] = "tb60s", label[] = "label";

static struct config config;
static struct endpoint endpoint;
static struct decision decision;
static int done_calls;

/* The tiers of the site and of the endpoint. */
static struct section {
	struct tier list[TIERS_MAX];
	struct rule rules[TIERS_MAX][2];
} site_section, endpoint_section;

static const struct client alice = {
	.address = "192.0.2.7", .network = "192.0.2.7", .user = "alice", .plan = "default"
};
static const struct client stranger = {
	.address = "2001:db8::7", .network = "2001:db8::/64", .plan = "anonymous"
};

static struct rule *add_rule(struct tier *t, enum rule_type type, uint64_t count)
{
	struct rule *r = &t->rules[t->n_rules++];

	*r = (struct rule){ .rate = { RATE_SLIDING_WINDOW, count, 60000000, count, 0 },
		.type = type,
		.cost = { COST_FIXED, 1, NULL, 1, 1 },
		.key = empty };
	return r;
}

static struct tier *add_tier(struct tiers *to, struct section *in, char *id)
{
	struct tier *t = &in->list[to->n];

	*t = (struct tier){ .id = id, .label = label, .rules = in->rules[to->n] };
	t->site = to == &config.site;
	to->list = in->list;
	to->n++;
	return t;
}

/* A new tier of the site, or of the endpoint, and its rule. */
static struct rule *at_site(char *id, enum rule_type type, uint64_t count)
{
	return add_rule(add_tier(&config.site, &site_section, id), type, count);
}

static struct rule *at_endpoint(char *id, enum rule_type type, uint64_t count)
{
	return add_rule(add_tier(&endpoint.tiers, &endpoint_section, id), type, count);
}

/* A second rule for the endpoint's last tier. */
static struct rule *also(enum rule_type type, uint64_t count)
{
	return add_rule(&endpoint.tiers.list[endpoint.tiers.n - 1], type, count);
}

static void on_done(struct decision *d)
{
	(void)d;
	done_calls++;
}

static void setup(void)
{
	log_open(2, LOG_LEVEL_ERROR);
	config.store.prefix = prefix;
	endpoint.name = login;
	decision.done = on_done;
	fake.answer.by = DECIDED_BY_REDIS;
	for (size_t i = 0; i < TIERS_MAX; i++)
		fake.views[i] = (struct rate_view){
			.admitted = true, .remaining = 10 + i, .reset_us = 1000
		};
}

static void teardown(void)
{
	limit_release(&decision);
}

TestSuite(decide, .init = setup, .fini = teardown);

/* One decision; returns the verdict. */
static const struct verdict *decide(const struct endpoint *e, const struct client *client)
{
	struct limit_subject about = { .endpoint = e, .client = client };
	int before = done_calls;

	limit_decide(&decision, NULL, &config, &about);
	cr_assert_eq(done_calls, before + !fake.later, "done is called once");
	return &decision.verdict;
}

static void refuse(size_t tier, int64_t wait_us)
{
	fake.views[tier] = (struct rate_view){ .wait_us = wait_us,
		.reset_us = 2 * wait_us };
}

Test(decide, the_site_is_asked_first_then_the_endpoint_in_one_question)
{
	static const char *const keys[] = {
		"rate:global:{*}:sw60s",
		"rate:ip:{192.0.2.7}:*:sw1h",
		"rate:user:{alice}:login:sw60s",
		"rate:ip:{192.0.2.7}:login:sw60s",
		"rate:global:{login}:tb60s",
	};
	const struct verdict *v;

	at_endpoint(sw60s, RULE_USER, 5);
	at_endpoint(sw60s, RULE_IP, 100)->cost.fixed = 3;
	at_endpoint(tb60s, RULE_GLOBAL, 300);
	at_site(sw60s, RULE_GLOBAL, 1000);
	at_site(sw1h, RULE_IP, 600);
	v = decide(&endpoint, &alice);
	cr_assert_eq(v->outcome, OUTCOME_PASS);
	cr_assert_eq(v->by, DECIDED_BY_REDIS);
	cr_assert_null(v->worst);
	cr_assert_eq(fake.asked, 1);
	cr_assert_eq(fake.n_tiers, COUNT_OF(keys));
	cr_assert_eq(v->n_tiers, COUNT_OF(keys));
	for (size_t i = 0; i < COUNT_OF(keys); i++) {
		cr_expect_str_eq(fake.keys[i], keys[i]);
		cr_expect_eq(v->tiers[i].remaining, 10 + i);
		cr_expect(v->tiers[i].admitted);
	}
	cr_expect_eq(fake.tiers[3].cost, 3);
	cr_expect_eq(fake.tiers[3].rate->count, 100);
	cr_expect_eq(v->tiers[0].tier, &config.site.list[0]);
	cr_expect_eq(v->tiers[4].tier, &endpoint.tiers.list[2]);
	cr_expect_eq(v->tiers[4].rule, &endpoint.tiers.list[2].rules[0]);

	/* Nothing matched: the site's tiers alone. */
	decide(NULL, &stranger);
	cr_expect_eq(fake.n_tiers, 2);
	cr_expect_str_eq(fake.keys[1], "rate:ip:{2001%3Adb8%3A%3A%2F64}:*:sw1h");
}

Test(decide, who_meets_no_tier_passes_at_once)
{
	struct endpoint free_for_all = { .name = search };
	struct client friend = alice;
	const struct verdict *v;

	at_endpoint(sw60s, RULE_USER, 5);
	friend.exempt = true;
	v = decide(&endpoint, &friend);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	cr_expect_eq(v->by, DECIDED_BY_NONE);
	cr_expect_eq(v->n_tiers, 0);

	v = decide(&free_for_all, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	v = decide(NULL, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	config.server.mode = MODE_OFF;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	cr_expect_eq(v->by, DECIDED_BY_NONE);
	cr_expect_eq(fake.asked, 0);
}

Test(decide, the_plan_chooses_the_rule)
{
	struct client customer = alice;
	struct rule *rule;

	at_endpoint(sw60s, RULE_USER, 60)->plan = paid;
	also(RULE_USER, 5);
	at_endpoint(sw1h, RULE_USER, 7)->plan = nobody;
	also(RULE_USER, 8)->plan = paid;
	rule = at_endpoint(sw60s, RULE_IP, 1);
	rule->plan = paid;
	rule->counting = COUNT_UNLIMITED;
	also(RULE_IP, 9);

	memcpy(customer.plan, "paid", 5);
	decide(&endpoint, &customer);
	cr_assert_eq(fake.n_tiers, 2);
	cr_expect_eq(fake.tiers[0].rate->count, 60);
	cr_expect_eq(fake.tiers[1].rate->count, 8);

	decide(&endpoint, &alice);
	cr_assert_eq(fake.n_tiers, 2, "no rule for the plan and none for all: no tier");
	cr_expect_eq(fake.tiers[0].rate->count, 5);
	cr_expect_eq(fake.tiers[1].rate->count, 9);
}

Test(decide, rules_that_are_off_or_unlimited_are_not_asked)
{
	const struct verdict *v;
	struct rule *rule;

	at_endpoint(sw60s, RULE_USER, 5)->mode = MODE_OFF;
	at_endpoint(sw1h, RULE_USER, 5)->counting = COUNT_UNLIMITED;
	rule = at_endpoint(tb60s, RULE_USER, 5);
	rule->counting = COUNT_NONE;
	rule->mode = MODE_OFF;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	cr_expect_eq(v->n_tiers, 0);
	cr_expect_eq(fake.asked, 0);
}

Test(decide, a_key_takes_the_endpoints_place)
{
	at_endpoint(sw60s, RULE_USER, 5)->key = shared;
	at_endpoint(sw60s, RULE_GLOBAL, 5)->key = shared;
	decide(&endpoint, &stranger);
	cr_expect_str_eq(fake.keys[0], "rate:user:{ip/2001%3Adb8%3A%3A%2F64}:shared:sw60s");
	cr_expect_str_eq(fake.keys[1], "rate:global:{shared}:sw60s");
	endpoint.name = search;
	decide(&endpoint, &alice);
	cr_expect_str_eq(fake.keys[0], "rate:user:{alice}:shared:sw60s");
	cr_expect_str_eq(fake.keys[1], "rate:global:{shared}:sw60s", "one count for both");
}

Test(decide, nested_prefixes_of_an_ipv6_address_are_counted_one_beside_another)
{
	static const struct {
		const char *address, *network;
		const char *keys[4];
	} rows[] = {
		{ "2001:db8:1:2:3::7", "2001:db8:1:2::/64",
			{ "rate:ip:{2001%3Adb8%3A1%3A2%3A%3A%2F64}:login:sw60s",
				"rate:ip:{2001%3Adb8%3A1%3A%3A%2F48}:login:sw60s-48",
				"rate:ip:{2001%3Adb8%3A%3A%2F33}:login:sw60s-33",
				"rate:ip:{2001%3Adb8%3A1%3A2%3A3%3A%3A7}:login:sw60s-"
				"128" } },
		/* An IPv4 address stays whole, and each tier counts for itself. */
		{ "192.0.2.7", "192.0.2.7",
			{ "rate:ip:{192.0.2.7}:login:sw60s",
				"rate:ip:{192.0.2.7}:login:sw60s-48",
				"rate:ip:{192.0.2.7}:login:sw60s-33",
				"rate:ip:{192.0.2.7}:login:sw60s-128" } },
		{ "", "unknown",
			{ "rate:ip:{unknown}:login:sw60s",
				"rate:ip:{unknown}:login:sw60s-48",
				"rate:ip:{unknown}:login:sw60s-33",
				"rate:ip:{unknown}:login:sw60s-128" } },
	};
	static char sw48[] = "sw60s-48", sw33[] = "sw60s-33", sw128[] = "sw60s-128";

	at_endpoint(sw60s, RULE_IP, 100);
	at_endpoint(sw48, RULE_IP, 1000)->prefix = 48;
	at_endpoint(sw33, RULE_IP, 5000)->prefix = 33;
	at_endpoint(sw128, RULE_IP, 10)->prefix = 128;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct client client = { .plan = "anonymous" };

		memcpy(client.address, rows[i].address, strlen(rows[i].address));
		memcpy(client.network, rows[i].network, strlen(rows[i].network));
		decide(&endpoint, &client);
		cr_assert_eq(fake.n_tiers, COUNT_OF(rows[i].keys));
		for (size_t k = 0; k < COUNT_OF(rows[i].keys); k++)
			cr_expect_str_eq(fake.keys[k], rows[i].keys[k], "%s", fake.keys[k]);
	}
}

Test(decide, two_tiers_that_come_to_one_key_are_charged_once_by_the_stricter)
{
	const struct verdict *v;
	struct rule *rule;

	at_endpoint(sw60s, RULE_IP, 9);
	at_endpoint(sw60s, RULE_USER, 5);
	at_endpoint(sw60s, RULE_IP, 7)->key = login;
	rule = at_endpoint(sw60s, RULE_IP, 1);
	rule->key = login;
	rule->mode = MODE_SHADOW;
	v = decide(&endpoint, &alice);
	cr_assert_eq(fake.n_tiers, 2);
	cr_expect_str_eq(fake.keys[0], "rate:ip:{192.0.2.7}:login:sw60s");
	cr_expect_str_eq(fake.keys[1], "rate:user:{alice}:login:sw60s");
	cr_expect_eq(fake.tiers[0].rate->count, 7);
	cr_expect_eq(v->n_tiers, 2);
	cr_expect_eq(v->tiers[0].tier, &endpoint.tiers.list[2]);
	cr_expect_eq(v->tiers[1].tier, &endpoint.tiers.list[1]);
}

Test(decide, the_longest_wait_is_what_the_client_is_told)
{
	const struct verdict *v;

	at_endpoint(sw60s, RULE_USER, 5);
	at_endpoint(sw1h, RULE_USER, 50);
	at_endpoint(tb60s, RULE_USER, 50);
	at_endpoint(sw60s, RULE_IP, 7)->mode = MODE_SHADOW;
	refuse(0, 30000000);
	refuse(1, 1800000000);
	refuse(3, 9900000000);
	v = decide(&endpoint, &alice);
	cr_assert_eq(v->outcome, OUTCOME_REFUSED);
	cr_assert_eq(v->worst, &v->tiers[1], "a longer wait in shadow is nobody's");
	cr_assert_eq(v->wait_us, 1800000000);
	cr_expect(!v->tiers[0].admitted);
	cr_expect(v->tiers[2].admitted);
	cr_expect_eq(v->tiers[2].remaining, 12);
	cr_expect_eq(v->tiers[1].wait_us, 1800000000);
	cr_expect_eq(v->tiers[1].reset_us, 3600000000);

	refuse(1, 30000000);
	v = decide(&endpoint, &alice);
	cr_assert_eq(v->worst, &v->tiers[0], "of equals the first");
}

Test(decide, shadow_changes_no_outcome)
{
	const struct verdict *v;

	at_endpoint(sw60s, RULE_USER, 5)->mode = MODE_SHADOW;
	at_endpoint(sw60s, RULE_IP, 5);
	refuse(0, 30000000);
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	cr_expect_null(v->worst);
	cr_expect(!v->tiers[0].admitted, "but it says so");
	cr_expect(fake.tiers[0].shadow);
	cr_expect(!fake.tiers[1].shadow);

	config.server.mode = MODE_SHADOW;
	refuse(1, 30000000);
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	cr_expect(fake.tiers[1].shadow);
	cr_expect(!v->tiers[1].admitted);
}

Test(decide, count_zero_forbids_without_asking)
{
	const struct verdict *v;
	struct rule *rule;

	at_endpoint(sw60s, RULE_USER, 5);
	rule = at_endpoint(sw1h, RULE_USER, 1);
	rule->counting = COUNT_NONE;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_FORBIDDEN);
	cr_expect_eq(v->by, DECIDED_BY_NONE);
	cr_expect_eq(fake.asked, 0);
	cr_assert_eq(v->n_tiers, 1, "the rule that forbids, no other");
	cr_assert_eq(v->worst, &v->tiers[0]);
	cr_expect_eq(v->worst->tier, &endpoint.tiers.list[1]);
	cr_expect_eq(v->wait_us, 0);

	/* In shadow it says what it would have done, and the others are asked. */
	rule->mode = MODE_SHADOW;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	cr_expect_eq(fake.n_tiers, 1);
	cr_assert_eq(v->n_tiers, 2);
	cr_expect(v->tiers[0].admitted);
	cr_expect(!v->tiers[1].admitted);

	rule->mode = MODE_ENFORCE;
	config.server.mode = MODE_SHADOW;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);

	config.server.mode = MODE_ENFORCE;
	rule->plan = nobody;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS, "it is for another plan");
}

Test(decide, answers_find_their_tiers_past_one_that_was_not_asked)
{
	const struct verdict *v;
	struct rule *rule;

	rule = at_endpoint(sw1h, RULE_USER, 1);
	rule->counting = COUNT_NONE;
	rule->mode = MODE_SHADOW;
	at_endpoint(sw60s, RULE_USER, 5);
	at_endpoint(sw60s, RULE_IP, 5);
	refuse(1, 5000000);
	v = decide(&endpoint, &alice);
	cr_assert_eq(v->outcome, OUTCOME_REFUSED);
	cr_expect_eq(v->worst, &v->tiers[2]);
	cr_expect(v->tiers[1].admitted);
}

Test(decide, the_total_of_the_fallback_can_be_the_one_that_refuses)
{
	static const struct rate rate = { RATE_TOKEN_BUCKET, 7, 1000000, 7, 0 };
	const struct verdict *v;
	struct rule *rule = at_endpoint(sw60s, RULE_USER, 5);

	fake.answer.by = DECIDED_BY_FALLBACK;
	fake.answer.over_total = true;
	fake.answer.total_rate = &rate;
	fake.answer.total = (struct rate_view){ .wait_us = 2000, .reset_us = 1000000 };
	v = decide(&endpoint, &alice);
	cr_assert_eq(v->outcome, OUTCOME_REFUSED);
	cr_assert_eq(v->by, DECIDED_BY_FALLBACK);
	cr_assert_eq(v->n_tiers, 2);
	cr_assert_eq(v->worst, &v->tiers[1]);
	cr_expect_null(v->worst->tier);
	cr_expect_null(v->worst->rule);
	cr_expect_eq(v->worst->rate, &rate);
	cr_expect_eq(v->tiers[0].rate, &rule->rate);
	cr_expect_eq(v->wait_us, 2000);

	rule->mode = MODE_SHADOW;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS, "nothing refuses where all is shadow");
	cr_expect_eq(v->n_tiers, 1);
	cr_expect_null(v->worst);
}

Test(decide, a_full_question_and_the_total_fit)
{
	static char ids[TIERS_MAX][2];
	const struct verdict *v;

	for (int i = 0; i < TIERS_MAX; i++) {
		ids[i][0] = (char)('a' + i);
		at_endpoint(ids[i], RULE_IP, 5);
	}
	fake.answer.over_total = true;
	fake.answer.total.wait_us = 1;
	v = decide(&endpoint, &alice);
	cr_expect_eq(fake.n_tiers, TIERS_MAX);
	cr_expect_eq(v->n_tiers, TIERS_MAX + 1);
	cr_expect_eq(v->outcome, OUTCOME_REFUSED);
	cr_expect_str_eq(fake.keys[0], "rate:ip:{192.0.2.7}:login:a");
	cr_expect_str_eq(fake.keys[TIERS_MAX - 1], "rate:ip:{192.0.2.7}:login:p");
}

Test(decide, a_store_that_cannot_count_is_answered_by_policy)
{
	static const struct {
		enum on_error policy;
		bool failed, closed;
		enum rule_mode mode;
		enum outcome outcome;
		bool is_memory;
	} rows[] = {
		{ ON_ERROR_CLOSED, false, true, MODE_ENFORCE, OUTCOME_UNAVAILABLE },
		{ ON_ERROR_CLOSED, false, true, MODE_SHADOW, OUTCOME_PASS },
		{ ON_ERROR_CLOSED, true, false, MODE_ENFORCE, OUTCOME_UNAVAILABLE },
		{ ON_ERROR_CLOSED, true, false, MODE_SHADOW, OUTCOME_PASS },
		{ ON_ERROR_LOCAL, true, false, MODE_ENFORCE, OUTCOME_PASS },
		{ ON_ERROR_OPEN, true, false, MODE_ENFORCE, OUTCOME_PASS },
		{ ON_ERROR_OPEN, false, false, MODE_ENFORCE, OUTCOME_PASS },
		/* The policies are about Redis: memory that cannot count has nobody else. */
		{ ON_ERROR_LOCAL, true, false, MODE_ENFORCE, OUTCOME_UNAVAILABLE, true },
		{ ON_ERROR_OPEN, true, false, MODE_ENFORCE, OUTCOME_UNAVAILABLE, true },
		{ ON_ERROR_LOCAL, true, false, MODE_SHADOW, OUTCOME_PASS, true },
	};

	struct rule *rule = at_endpoint(sw60s, RULE_USER, 5);

	fake.answer.by = DECIDED_BY_FALLBACK;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct verdict *v;

		rule->on_error = rows[i].policy;
		/* What a reload says of it is for the next start. */
		config.store.type = rows[i].is_memory ? STORE_REDIS : STORE_MEMORY;
		fake.is_memory = rows[i].is_memory;
		config.server.mode = rows[i].mode;
		fake.answer.failed = rows[i].failed;
		fake.answer.closed = rows[i].closed;
		v = decide(&endpoint, &alice);
		cr_expect_eq(v->outcome, rows[i].outcome, "row %zu", i);
		cr_expect_eq(v->by, DECIDED_BY_FALLBACK);
		cr_expect_eq(v->n_tiers, 0, "nobody counted, so nothing is left to tell");
		cr_expect_null(v->worst);
	}
}

Test(decide, the_local_table_refuses_like_any_store)
{
	const struct verdict *v;

	at_endpoint(sw60s, RULE_USER, 5);
	fake.answer.by = DECIDED_BY_FALLBACK;
	refuse(0, 5000000);
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_REFUSED);
	cr_expect_eq(v->by, DECIDED_BY_FALLBACK);
	cr_expect_eq(v->worst, &v->tiers[0]);
}

Test(decide, each_rule_says_what_holds_while_the_store_is_silent)
{
	struct rule *shadow;
	const struct verdict *v;

	at_endpoint(sw60s, RULE_USER, 5)->on_error = ON_ERROR_OPEN;
	at_endpoint(sw60s, RULE_IP, 5)->on_error = ON_ERROR_LOCAL;
	shadow = at_endpoint(tb60s, RULE_IP, 5);
	shadow->on_error = ON_ERROR_CLOSED;
	shadow->mode = MODE_SHADOW;
	fake.answer.by = DECIDED_BY_FALLBACK;
	v = decide(&endpoint, &alice);
	cr_expect_eq(fake.tiers[0].on_error, ON_ERROR_OPEN);
	cr_expect_eq(fake.tiers[1].on_error, ON_ERROR_LOCAL);
	cr_expect_eq(fake.tiers[2].on_error, ON_ERROR_CLOSED);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	cr_expect_eq(v->n_tiers, 3, "local counted");

	/* Memory ran out: closed in shadow refuses nobody, elsewhere it does. */
	fake.answer.failed = true;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	shadow->mode = MODE_ENFORCE;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_UNAVAILABLE);
}

Test(decide, a_tier_that_nobody_looked_at_has_nothing_to_tell)
{
	const struct verdict *v;

	at_endpoint(sw60s, RULE_USER, 5);
	at_endpoint(sw60s, RULE_IP, 5);
	at_endpoint(tb60s, RULE_IP, 5);
	fake.views[0] = (struct rate_view){ .unknown = true };
	fake.views[2] = (struct rate_view){ .unknown = true };
	refuse(1, 3000000);
	v = decide(&endpoint, &alice);
	cr_assert_eq(v->outcome, OUTCOME_REFUSED);
	cr_assert_eq(v->n_tiers, 1);
	cr_expect_eq(v->tiers[0].tier, &endpoint.tiers.list[1]);
	cr_expect_eq(v->worst, &v->tiers[0]);
	cr_expect_eq(v->wait_us, 3000000);
}

Test(decide, a_request_is_held_for_the_longest_of_its_queues)
{
	const struct verdict *v;

	at_endpoint(sw60s, RULE_USER, 5);
	at_endpoint(sw1h, RULE_USER, 5);
	at_endpoint(tb60s, RULE_USER, 5)->mode = MODE_SHADOW;
	at_endpoint(sw60s, RULE_IP, 5);
	fake.views[0].hold_us = 20000;
	fake.views[1].hold_us = 70000;
	fake.views[2].hold_us = 900000;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
	cr_expect_eq(v->hold_us, 70000, "a queue in shadow holds nobody");

	refuse(3, 1000000);
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_REFUSED);
	cr_expect_eq(v->hold_us, 0, "who is refused waits for nothing");

	fake.views[3].admitted = true;
	config.server.mode = MODE_SHADOW;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->hold_us, 0);
}

Test(decide, what_can_never_fit_is_told_and_not_asked)
{
	const struct verdict *v;
	struct rule *small;

	at_endpoint(sw60s, RULE_USER, 50);
	small = at_endpoint(sw60s, RULE_IP, 5);
	small->cost.fixed = 6;
	v = decide(&endpoint, &alice);
	cr_assert_eq(v->outcome, OUTCOME_NEVER);
	cr_expect_eq(fake.asked, 0);
	cr_assert_eq(v->n_tiers, 1);
	cr_expect_eq(v->worst, &v->tiers[0]);
	cr_expect_eq(v->worst->tier, &endpoint.tiers.list[1]);
	cr_expect_eq(v->wait_us, 0);

	small->cost.fixed = 5;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS, "exactly the capacity fits");
	small->cost.fixed = 6;
	small->mode = MODE_SHADOW;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS, "shadow changes no outcome");
}

Test(decide, a_custom_rule_counts_by_what_its_key_finds)
{
	static char template[] = "{header:X-Tenant}:{user}", tenant[] = "HTTP_X_TENANT",
		    colon[] = ":";
	static struct key_piece pieces[] = { { PIECE_HEADER, tenant },
		{ PIECE_TEXT, colon }, { PIECE_USER, NULL } };
	struct limit_subject about = { .endpoint = &endpoint, .client = &alice };
	struct request rq;
	struct rule *rule;

	for (int site = 0; site < 2; site++) {
		rule = site ? at_site(sw60s, RULE_CUSTOM, 5)
			    : at_endpoint(sw60s, RULE_CUSTOM, 5);
		rule->key = template;
		rule->pieces = pieces;
		rule->n_pieces = COUNT_OF(pieces);
	}
	memcpy(config.site.list[0].way, "sw-12ab", 8);
	make_request(&rq, "HTTP_X_TENANT", "acme:co", NULL);
	about.request = &rq;
	limit_decide(&decision, NULL, &config, &about);
	cr_assert_eq(fake.n_tiers, 2);
	cr_expect_str_eq(fake.keys[0], "rate:custom:{acme%3Aco:alice}:*:sw60s/sw-12ab");
	cr_expect_str_eq(fake.keys[1], "rate:custom:{acme%3Aco:alice}:login:sw60s");
	request_release(&rq);
}

Test(decide, two_tiers_of_one_key_take_the_larger_cost_as_far_as_it_fits)
{
	at_endpoint(sw60s, RULE_IP, 7)->cost.fixed = 2;
	at_endpoint(sw60s, RULE_IP, 50)->cost.fixed = 5;
	endpoint.tiers.list[1].rules[0].key = login;
	decide(&endpoint, &alice);
	cr_assert_eq(fake.n_tiers, 1);
	cr_expect_eq(fake.tiers[0].rate->count, 7);
	cr_expect_eq(fake.tiers[0].cost, 5);
	endpoint.tiers.list[1].rules[0].cost.fixed = 20;
	decide(&endpoint, &alice);
	cr_expect_eq(fake.tiers[0].cost, 7);
}

/* The site's tier comes to the endpoint's key, and neither is the stricter in all. */
Test(decide, two_tiers_of_one_key_are_one_limit_with_the_least_of_both)
{
	static const struct {
		struct rate first, second, wanted;
	} rows[] = {
		{ { RATE_TOKEN_BUCKET, 10, 60000000, 100, 0 },
			{ RATE_TOKEN_BUCKET, 50, 60000000, 3, 0 },
			{ RATE_TOKEN_BUCKET, 10, 60000000, 3, 0 } },
		{ { RATE_LEAKY_BUCKET, 50, 60000000, 3, 2000000 },
			{ RATE_LEAKY_BUCKET, 10, 60000000, 7, 500000 },
			{ RATE_LEAKY_BUCKET, 10, 60000000, 3, 500000 } },
		{ { RATE_LEAKY_BUCKET, 10, 60000000, 5, 0 },
			{ RATE_LEAKY_BUCKET, 10, 60000000, 5, 900000 },
			{ RATE_LEAKY_BUCKET, 10, 60000000, 5, 0 } },
		{ { RATE_SLIDING_WINDOW, 9, 60000000, 9, 0 },
			{ RATE_SLIDING_WINDOW, 8, 60000000, 8, 0 },
			{ RATE_SLIDING_WINDOW, 8, 60000000, 8, 0 } },
	};
	struct rule *first = at_site(tb60s, RULE_IP, 1), *second;

	second = at_endpoint(tb60s, RULE_IP, 1);
	first->key = login;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct rate *got;

		first->rate = rows[i].first;
		second->rate = rows[i].second;
		decide(&endpoint, &alice);
		cr_assert_eq(fake.n_tiers, 1);
		got = fake.tiers[0].rate;
		cr_expect_eq(got->algorithm, rows[i].wanted.algorithm, "row %zu", i);
		cr_expect_eq(got->count, rows[i].wanted.count, "row %zu", i);
		cr_expect_eq(got->window_us, rows[i].wanted.window_us, "row %zu", i);
		cr_expect_eq(got->burst, rows[i].wanted.burst, "row %zu", i);
		cr_expect_eq(got->max_delay_us, rows[i].wanted.max_delay_us, "row %zu", i);
		cr_expect_eq(
			first->rate.burst, rows[i].first.burst, "the rule stays as it is");
	}
	/* Three of one key, and the strictest policy of them. */
	second->on_error = ON_ERROR_OPEN;
	first->on_error = ON_ERROR_CLOSED;
	second = at_endpoint(tb60s, RULE_IP, 2);
	second->key = login;
	second->on_error = ON_ERROR_LOCAL;
	decide(&endpoint, &alice);
	cr_assert_eq(fake.n_tiers, 1);
	cr_expect_eq(fake.tiers[0].rate->count, 2);
	cr_expect_eq(fake.tiers[0].on_error, ON_ERROR_CLOSED);
	first->mode = MODE_SHADOW;
	first->rate.count = first->rate.burst = 1;
	first->cost.fixed = 9;
	decide(&endpoint, &alice);
	cr_assert_eq(fake.n_tiers, 1);
	cr_expect(!fake.tiers[0].shadow);
	cr_expect_eq(fake.tiers[0].rate->count, 2, "shadow has no part in it");
	cr_expect_eq(fake.tiers[0].cost, 1);
	cr_expect_eq(fake.tiers[0].on_error, ON_ERROR_LOCAL);
}

/* The rule that is merged away still has its word while Redis is silent. */
Test(decide, two_tiers_of_one_key_pass_uncounted_only_if_both_are_open)
{
	const struct verdict *v;

	at_endpoint(sw60s, RULE_IP, 5)->on_error = ON_ERROR_OPEN;
	at_endpoint(sw60s, RULE_IP, 9)->on_error = ON_ERROR_LOCAL;
	endpoint.tiers.list[1].rules[0].key = login;
	fake.answer.by = DECIDED_BY_FALLBACK;
	refuse(0, 5000000);
	v = decide(&endpoint, &alice);
	cr_expect_eq(fake.tiers[0].on_error, ON_ERROR_LOCAL);
	cr_expect_eq(v->outcome, OUTCOME_REFUSED);
	endpoint.tiers.list[1].rules[0].on_error = ON_ERROR_OPEN;
	v = decide(&endpoint, &alice);
	cr_expect_eq(v->outcome, OUTCOME_PASS);
}

/* What a request says is held against each tier, before two of them become one. */
Test(decide, what_never_fits_one_of_two_tiers_of_one_key_is_told)
{
	static char n[] = "n";
	static const struct {
		const char *query;
		enum outcome outcome;
		uint64_t cost;
	} rows[] = {
		{ "n=10", OUTCOME_PASS, 10 },
		{ "n=11", OUTCOME_NEVER, 0 },
		{ "n=50", OUTCOME_NEVER, 0 },
		{ "n=101", OUTCOME_NEVER, 0 },
		{ "n=x", OUTCOME_PASS, 10 },
	};

	for (int small_first = 0; small_first < 2; small_first++) {
		static const uint64_t bursts[] = { 100, 10 };
		size_t small = !small_first;

		endpoint.tiers.n = 0;
		for (size_t i = 0; i < 2; i++) {
			struct rule *r = at_endpoint(tb60s, RULE_IP, 5);
			uint64_t burst = bursts[i ^ (size_t)small_first];

			r->key = login;
			r->rate = (struct rate){ RATE_TOKEN_BUCKET, 5, 60000000, burst, 0 };
			r->cost = (struct cost){ COST_QUERY, 1, n, 1, burst };
		}
		for (size_t i = 0; i < COUNT_OF(rows); i++) {
			struct limit_subject about = { .endpoint = &endpoint,
				.client = &alice,
				.query = view_str(rows[i].query) };
			const struct verdict *v = &decision.verdict;
			int asked = fake.asked;

			limit_decide(&decision, NULL, &config, &about);
			cr_expect_eq(v->outcome, rows[i].outcome, "%s", rows[i].query);
			cr_expect_eq(fake.asked - asked, v->outcome == OUTCOME_PASS);
			if (v->outcome == OUTCOME_PASS) {
				cr_expect_eq(fake.tiers[0].cost, rows[i].cost, "%s",
					rows[i].query);
				continue;
			}
			cr_expect_eq(v->tiers[v->n_tiers - 1].tier,
				&endpoint.tiers.list[i == 3 ? 1 : small], "%s",
				rows[i].query);
			cr_expect_eq(v->n_tiers, i == 3 ? 2 : 1);
			cr_expect_eq(v->worst, &v->tiers[0]);
		}
	}
}

Test(decide, an_answer_may_come_later_or_not_at_all)
{
	at_endpoint(sw60s, RULE_USER, 5);
	fake.later = true;
	decide(&endpoint, &alice);
	cr_assert_eq(done_calls, 0);
	refuse(0, 7000000);
	answer_now(fake.kept);
	cr_assert_eq(done_calls, 1);
	cr_assert_eq(decision.verdict.outcome, OUTCOME_REFUSED);
	limit_cancel(&decision);
	cr_assert_eq(fake.cancelled, 0, "nothing is pending any more");

	decide(&endpoint, &alice);
	limit_cancel(&decision);
	limit_release(&decision);
	cr_assert_eq(fake.cancelled, 1);
	cr_assert_eq(done_calls, 1);
}

static void free_decision(struct decision *d)
{
	limit_release(d);
	free(d);
	done_calls++;
}

Test(decide, the_decision_may_be_gone_when_done_returns)
{
	struct rule *rule = at_endpoint(sw60s, RULE_USER, 5);

	for (int i = 0; i < 4; i++) {
		struct decision *d = calloc(1, sizeof(*d));

		cr_assert_not_null(d);
		d->done = free_decision;
		fake.answer.failed = i == 2;
		if (i == 3)
			rule->counting = COUNT_NONE;
		limit_decide(d, NULL, &config,
			&(struct limit_subject){
				.endpoint = i == 1 ? NULL : &endpoint, .client = &alice });
	}
	cr_assert_eq(done_calls, 4);
}
