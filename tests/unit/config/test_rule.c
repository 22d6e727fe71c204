#include <criterion/criterion.h>

#include "config/rule_read.h"
#include "config/units.h"

static const struct place at = { "site.ini", 3 };

/* Reads a rule that has no mistake in it. */
static struct rule read_good(const char *text)
{
	struct mistakes m = { 0 };
	struct rule r = { 0 };
	struct buf told = { 0 };
	bool ok = rule_read(view_str(text), at, &r, &m);

	mistakes_write(&m, NULL, 0, &told);
	cr_assert(ok, "%s: %s", text, buf_str(&told));
	buf_release(&told);
	mistakes_release(&m);
	return r;
}

Test(rule, an_empty_rule_is_sixty_a_minute_for_each_user)
{
	struct rule r = read_good("");

	cr_expect_eq(r.type, RULE_USER);
	cr_expect_eq(r.counting, COUNT_LIMITED);
	cr_expect_eq(r.rate.algorithm, RATE_SLIDING_WINDOW);
	cr_expect_eq(r.rate.count, 60);
	cr_expect_eq(r.rate.window_us, 60000000);
	cr_expect_eq(r.rate.burst, 60);
	cr_expect_eq(r.cost.source, COST_FIXED);
	cr_expect_eq(r.cost.fixed, 1);
	cr_expect_eq(r.mode, MODE_ENFORCE);
	cr_expect_not(r.has_on_error);
	cr_expect_eq(r.rate.max_delay_us, 0);
	cr_expect_null(r.pieces);
	cr_expect_str_eq(r.key, "");
	cr_expect_null(r.plan);
	cr_expect_null(r.name);
	cr_expect_str_eq(r.file, "site.ini");
	cr_expect_eq(r.line, 3);
	rule_release(&r);
}

Test(rule, every_attribute_is_read_in_any_order)
{
	struct rule r = read_good(
		"name=slow mode=Shadow cost=2 plan=paid burst=20 window=1h "
		"algorithm=TOKEN_BUCKET count=5 type=IP key=eval");

	cr_expect_eq(r.type, RULE_IP);
	cr_expect_eq(r.rate.algorithm, RATE_TOKEN_BUCKET);
	cr_expect_eq(r.rate.count, 5);
	cr_expect_eq(r.rate.window_us, INT64_C(3600000000));
	cr_expect_eq(r.rate.burst, 20);
	cr_expect_eq(r.cost.fixed, 2);
	cr_expect_eq(r.mode, MODE_SHADOW);
	cr_expect_str_eq(r.key, "eval");
	cr_expect_str_eq(r.plan, "paid");
	cr_expect_str_eq(r.name, "slow");
	rule_release(&r);
}

Test(rule, blanks_around_the_equals_sign_do_no_harm)
{
	struct rule r = read_good("  type = ip\tcount= 7   window =2s key=");

	cr_expect_eq(r.type, RULE_IP);
	cr_expect_eq(r.rate.count, 7);
	cr_expect_eq(r.rate.window_us, 2000000);
	cr_expect_str_eq(r.key, "");
	rule_release(&r);
}

Test(rule, count_says_none_and_unlimited)
{
	struct rule none = read_good("count=0"), all = read_good("count=Unlimited cost=99");

	cr_expect_eq(none.counting, COUNT_NONE);
	cr_expect_eq(all.counting, COUNT_UNLIMITED);
	/* What somebody computes with all the same must not divide by zero. */
	cr_expect_geq(none.rate.count, 1);
	cr_expect_geq(all.rate.burst, 1);
	rule_release(&none);
	rule_release(&all);
}

/* The largest that is taken, and one more, which is not. */
Test(rule, what_cannot_be_counted_to_the_last_digit_is_refused)
{
	static const struct {
		const char *largest, *too_large;
	} rows[] = {
		{ "algorithm=token_bucket count=150119987579 window=60ms",
			"algorithm=token_bucket count=150119987580 window=60ms" },
		{ "algorithm=token_bucket count=9007199254740991 window=60ms burst=5",
			"algorithm=token_bucket count=9007199254740992 window=60ms "
			"burst=5" },
		{ "algorithm=leaky_bucket count=104249 window=1d max_delay=1h",
			"algorithm=leaky_bucket count=104250 window=1d max_delay=1h" },
		{ "algorithm=leaky_bucket max_delay=1h",
			"algorithm=leaky_bucket max_delay=3601s" },
		{ "algorithm=sliding_counter count=104249 window=1d",
			"algorithm=sliding_counter count=104250 window=1d" },
		{ "algorithm=fixed_window count=9007199254740991 window=3257d",
			"algorithm=fixed_window count=9007199254740992" },
		{ "count=16777216 window=3257d", "count=16777217" },
		{ "window=3257d", "window=3258d" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct mistakes m = { 0 };
		struct rule r = read_good(rows[i].largest);
		double product = (double)r.rate.burst * (double)r.rate.window_us;

		cr_expect_lt(r.rate.window_us, INT64_C(1) << 48);
		cr_expect_lt(r.rate.count, EXACT_MAX);
		if (r.rate.algorithm != RATE_FIXED_WINDOW &&
			r.rate.algorithm != RATE_SLIDING_WINDOW)
			cr_expect_lt(product, 9007199254740992.0, "%s", rows[i].largest);
		rule_release(&r);
		cr_expect_not(rule_read(view_str(rows[i].too_large), at, &r, &m), "%s",
			rows[i].too_large);
		cr_expect_eq(m.errors, 1, "%s", rows[i].too_large);
		mistakes_release(&m);
	}
}

Test(rule, a_leaky_bucket_holds_a_second_unless_told_otherwise)
{
	static const struct {
		const char *text;
		uint64_t burst;
		int64_t max_delay_us;
	} rows[] = {
		{ "algorithm=leaky_bucket count=10 window=1s", 10, 1000000 },
		{ "algorithm=leaky_bucket count=10 window=1s burst=3 max_delay=200ms", 3,
			200000 },
		{ "max_delay=0 algorithm=leaky_bucket", 60, 0 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct rule r = read_good(rows[i].text);

		cr_expect_eq(r.rate.algorithm, RATE_LEAKY_BUCKET);
		cr_expect_eq(r.rate.burst, rows[i].burst);
		cr_expect_eq(r.rate.max_delay_us, rows[i].max_delay_us, "%s", rows[i].text);
		rule_release(&r);
	}
}

Test(rule, on_error_is_the_rules_own_when_it_says_so)
{
	struct rule r = read_good("on_error=Closed");

	cr_expect(r.has_on_error);
	cr_expect_eq(r.on_error, ON_ERROR_CLOSED);
	rule_release(&r);
}

Test(rule, a_request_may_say_its_cost_within_bounds)
{
	static const struct {
		const char *text;
		enum cost_source source;
		const char *name;
		uint64_t min, max, fixed;
	} rows[] = {
		{ "count=100 cost=header:X-Tokens cost_min=2 cost_max=50 cost_default=3",
			COST_HEADER, "HTTP_X_TOKENS", 2, 50, 3 },
		{ "cost=header:content-length count=5", COST_HEADER, "CONTENT_LENGTH", 1, 5,
			1 },
		{ "cost=query:n count=9 cost_min=4", COST_QUERY, "n", 4, 9, 4 },
		{ "cost=query:n[] algorithm=token_bucket burst=7", COST_QUERY, "n[]", 1, 7,
			1 },
		{ "cost=7", COST_FIXED, NULL, 7, 7, 7 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct rule r = read_good(rows[i].text);

		cr_expect_eq(r.cost.source, rows[i].source);
		if (rows[i].name)
			cr_expect_str_eq(r.cost.name, rows[i].name);
		else
			cr_expect_null(r.cost.name);
		cr_expect_eq(r.cost.min, rows[i].min, "%s", rows[i].text);
		cr_expect_eq(r.cost.max, rows[i].max, "%s", rows[i].text);
		cr_expect_eq(r.cost.fixed, rows[i].fixed, "%s", rows[i].text);
		rule_release(&r);
	}
}

Test(rule, a_prefix_says_which_ipv6_addresses_count_together)
{
	static const struct {
		const char *text;
		unsigned prefix;
	} rows[] = {
		{ "type=ip", 0 },
		{ "type=ip prefix=1", 1 },
		{ "prefix=48 type=ip", 48 },
		{ "type=ip prefix=128", 128 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct rule r = read_good(rows[i].text);

		cr_expect_eq(r.prefix, rows[i].prefix, "%s", rows[i].text);
		rule_release(&r);
	}
}

Test(rule, a_prefix_is_told_where_limits_are_shown)
{
	struct rule r = read_good("type=ip count=1000 prefix=48");
	struct buf out = { 0 };

	rule_put_limit(&r, &out);
	cr_expect_str_eq(buf_str(&out), "1000 in 60s, IPv6 by /48");
	buf_release(&out);
	rule_release(&r);
}

Test(rule, a_template_is_read_into_pieces)
{
	static const struct {
		enum piece_kind kind;
		const char *text;
	} wanted[] = {
		{ PIECE_TEXT, "t-" },
		{ PIECE_HEADER, "HTTP_X_TENANT" },
		{ PIECE_TEXT, ":" },
		{ PIECE_COOKIE, "sid" },
		{ PIECE_QUERY, "id" },
		{ PIECE_PATH, "id" },
		{ PIECE_PARAM, "SSL_CLIENT_S_DN" },
		{ PIECE_IP, NULL },
		{ PIECE_TEXT, "/" },
		{ PIECE_USER, NULL },
		{ PIECE_PLAN, NULL },
	};
	static const char key[] = "t-{header:X-Tenant}:{cookie:sid}{query:id}{path:id}"
				  "{param:SSL_CLIENT_S_DN}{ip}/{user}{plan}";
	struct buf text = { 0 };
	struct rule r;

	/* Before the type, which alone says what a key is. */
	buf_addf(&text, "key=%s count=5 type=custom", key);
	r = read_good(buf_str(&text));
	cr_expect_eq(r.type, RULE_CUSTOM);
	cr_expect_str_eq(r.key, key);
	cr_assert_eq(r.n_pieces, COUNT_OF(wanted));
	for (size_t i = 0; i < COUNT_OF(wanted); i++) {
		cr_expect_eq(r.pieces[i].kind, wanted[i].kind, "piece %zu", i);
		if (wanted[i].text)
			cr_expect_str_eq(r.pieces[i].text, wanted[i].text);
		else
			cr_expect_null(r.pieces[i].text);
	}
	rule_release(&r);
	buf_release(&text);
}

/* What lets its bearer in must not be read out of the store. */
Test(rule, placeholders_of_secrets_are_known_by_their_names)
{
	static const struct {
		const char *placeholder;
		bool secret;
	} rows[] = {
		{ "{cookie:sid}", true },
		{ "{cookie:theme}", true },
		{ "{header:Authorization}", true },
		{ "{header:proxy-authorization}", true },
		{ "{header:Cookie}", true },
		{ "{header:X-Api-Key}", true },
		{ "{header:X_API_KEY}", true },
		{ "{header:ApiKey}", true },
		{ "{header:X-Auth-User}", true },
		{ "{header:X-CSRF-Token}", true },
		{ "{param:HTTP_AUTHORIZATION}", true },
		{ "{param:HTTP_COOKIE}", true },
		{ "{query:access_token}", true },
		{ "{query:api-key}", true },
		{ "{path:token}", true },
		{ "{header:X-Tenant}", false },
		{ "{header:User-Agent}", false },
		{ "{header:X-Key}", false },
		{ "{param:SSL_CLIENT_S_DN}", false },
		{ "{query:id}", false },
		{ "{path:id}", false },
		{ "{ip}", false },
		{ "{user}", false },
		{ "{plan}", false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf text = { 0 };
		struct rule r;

		buf_addf(&text, "type=custom key=token:%s", rows[i].placeholder);
		r = read_good(buf_str(&text));
		cr_assert_eq(r.n_pieces, 2);
		cr_expect_not(r.pieces[0].secret, "text of the operator's is none");
		cr_expect_eq(r.pieces[1].secret, rows[i].secret, "%s", rows[i].placeholder);
		rule_release(&r);
		buf_release(&text);
	}
}

Test(rule, one_line_can_hold_many_mistakes_and_each_is_told)
{
	struct mistakes m = { 0 };
	struct rule r;

	cr_expect_not(
		rule_read(VIEW("type=x count=x window=x algorithm=x burst=x cost=x plan=/ "
			       "key=/ mode=x name=/ foo=x type=ip"),
			at, &r, &m));
	cr_expect_eq(m.errors, 12);
	mistakes_release(&m);
}

/* ---- tiers ---- */

static bool build(
	const char *const *texts, size_t n, bool site, struct tiers *out, struct buf *told)
{
	struct rule rules[32];
	struct mistakes m = { 0 };
	bool ok;

	for (size_t i = 0; i < n; i++) {
		cr_assert(rule_read(view_str(texts[i]),
			(struct place){ "site.ini", (unsigned)i + 1 }, &rules[i], &m));
	}
	ok = tiers_build(out, rules, n, site, &m);
	mistakes_write(&m, NULL, 0, told);
	mistakes_release(&m);
	return ok;
}

Test(tiers, rules_that_differ_in_plan_are_one_tier_others_are_their_own)
{
	static const char *const texts[] = {
		"type=user count=5",
		"type=ip count=100",
		"type=user plan=paid count=60 window=1m",
		"type=user count=500 window=1h",
		"type=user plan=staff count=unlimited",
		"type=user key=shared count=9",
		"type=global algorithm=token_bucket count=300 window=60s burst=50",
		"type=ip count=9 window=1500ms",
		"type=ip count=9 window=1d name=daily",
		"type=custom algorithm=fixed_window window=1s key={header:X-Tenant}",
		"type=custom algorithm=fixed_window window=1s key={header:X-Tenant} plan=b",
		"type=custom algorithm=fixed_window window=1s key={ip}{user}",
		"type=custom algorithm=fixed_window window=1s key={ip}{user} name=each",
		"type=global algorithm=sliding_counter",
		"type=global algorithm=leaky_bucket",
		"type=ip prefix=48 count=1000",
		"type=ip prefix=32 count=5000",
		"type=ip prefix=48 count=2000 plan=paid",
	};
	static const struct {
		const char *id, *label;
		size_t n_rules;
	} wanted[] = {
		{ "sw60s", "user/sw60s", 3 },
		{ "sw60s", "ip/sw60s", 1 },
		{ "sw1h", "user/sw1h", 1 },
		{ "sw60s", "user/shared/sw60s", 1 },
		{ "tb60s", "global/tb60s", 1 },
		{ "sw1500ms", "ip/sw1500ms", 1 },
		{ "daily", "ip/daily", 1 },
		/* The first digits of SHA-256 of the template, from sha256sum(1). */
		{ "fw1s-a34da27f", "custom/fw1s-a34da27f", 2 },
		{ "fw1s-e41ad069", "custom/fw1s-e41ad069", 1 },
		{ "each", "custom/each", 1 },
		{ "sc60s", "global/sc60s", 1 },
		{ "lb60s", "global/lb60s", 1 },
		{ "sw60s-48", "ip/sw60s-48", 2 },
		{ "sw60s-32", "ip/sw60s-32", 1 },
	};
	struct tiers t = { 0 };
	struct buf told = { 0 };

	cr_assert(build(texts, COUNT_OF(texts), false, &t, &told));
	cr_expect_eq(told.n, 0);
	cr_assert_eq(t.n, COUNT_OF(wanted));
	for (size_t i = 0; i < t.n; i++) {
		cr_expect_str_eq(t.list[i].id, wanted[i].id);
		cr_expect_str_eq(t.list[i].label, wanted[i].label);
		cr_expect_eq(t.list[i].n_rules, wanted[i].n_rules);
		cr_expect_not(t.list[i].site);
	}
	cr_expect_null(t.list[0].rules[0].plan);
	cr_expect_str_eq(t.list[0].rules[1].plan, "paid");
	cr_expect_eq(t.list[0].rules[2].counting, COUNT_UNLIMITED);
	tiers_release(&t);
	buf_release(&told);
}

Test(tiers, a_site_tier_says_so)
{
	static const char *const texts[] = { "type=ip", "type=global window=1s mode=off" };
	struct tiers t = { 0 };
	struct buf told = { 0 };

	cr_assert(build(texts, COUNT_OF(texts), true, &t, &told));
	cr_expect_str_eq(t.list[0].label, "site/ip/sw60s");
	cr_expect_str_eq(t.list[1].label, "site/global/sw1s");
	cr_expect(t.list[1].site);
	tiers_release(&t);
	buf_release(&told);
}

Test(tiers, one_window_has_one_id_however_it_is_written)
{
	static const char *const texts[] = { "window=3600", "plan=b window=60m",
		"plan=c window=1h", "plan=d window=3600000ms" };
	struct tiers t = { 0 };
	struct buf told = { 0 };

	cr_assert(build(texts, COUNT_OF(texts), false, &t, &told));
	cr_expect_eq(t.n, 1);
	cr_expect_str_eq(t.list[0].id, "sw1h");
	tiers_release(&t);
	buf_release(&told);
}

Test(tiers, a_name_keeps_rules_apart_that_would_be_one_tier)
{
	static const char *const texts[] = { "count=5", "count=5 name=other plan=paid",
		"count=9 name=other" };
	struct tiers t = { 0 };
	struct buf told = { 0 };

	cr_assert(build(texts, COUNT_OF(texts), false, &t, &told));
	cr_assert_eq(t.n, 2);
	cr_expect_eq(t.list[1].n_rules, 2);
	tiers_release(&t);
	buf_release(&told);
}

/* State of one algorithm means nothing to another, and counts by one template nothing
 * under another: what has a name that stays must not meet it in the store. */
Test(tiers, a_named_tier_says_in_keys_how_it_counts)
{
	static const char *const texts[] = {
		"name=a",
		"name=b algorithm=token_bucket",
		"name=c algorithm=fixed_window",
		"name=d algorithm=sliding_counter",
		"name=e algorithm=leaky_bucket",
		"name=f type=custom key={ip}{user}",
		"type=custom key={ip}{user}",
		"type=ip",
		"name=g type=ip prefix=128",
		"type=ip prefix=128",
	};
	static const char *const ways[] = { "sw", "tb", "fw", "sc", "lb", "sw-e41ad069", "",
		"", "sw-128", "" };
	struct tiers t = { 0 };
	struct buf told = { 0 };

	cr_assert(build(texts, COUNT_OF(texts), false, &t, &told));
	cr_assert_eq(t.n, COUNT_OF(ways));
	for (size_t i = 0; i < t.n; i++)
		cr_expect_str_eq(t.list[i].way, ways[i], "%s", texts[i]);
	tiers_release(&t);
	buf_release(&told);
}

/* What is changed on a reload here finds the counts of before. */
Test(tiers, a_changed_limit_keeps_what_was_consumed)
{
	static const char *const before[] = {
		"count=5",
		"count=100 algorithm=token_bucket burst=10",
		"count=10 window=1s algorithm=leaky_bucket name=pace max_delay=1s",
		"type=custom key={ip} count=5 cost=2",
	};
	static const char *const after[] = {
		"count=50 mode=shadow on_error=open",
		"count=90 algorithm=token_bucket burst=1",
		"count=20 window=2s algorithm=leaky_bucket name=pace max_delay=5s burst=7",
		"type=custom key={ip} count=9 cost=query:n",
	};
	struct tiers was = { 0 }, is = { 0 };
	struct buf told = { 0 };

	cr_assert(build(before, COUNT_OF(before), false, &was, &told));
	cr_assert(build(after, COUNT_OF(after), false, &is, &told));
	for (size_t i = 0; i < COUNT_OF(before); i++) {
		cr_expect_str_eq(was.list[i].id, is.list[i].id);
		cr_expect_str_eq(was.list[i].way, is.list[i].way);
	}
	tiers_release(&was);
	tiers_release(&is);
	buf_release(&told);
}

Test(tiers, no_rules_are_no_tiers)
{
	struct tiers t = { 0 };
	struct buf told = { 0 };

	cr_expect(build(NULL, 0, false, &t, &told));
	cr_expect_eq(t.n, 0);
	tiers_release(&t);
}

Test(rule, the_reference_names_every_attribute)
{
	static const char *const names[] = { "type=", "count=", "window=", "algorithm=",
		"burst=", "max_delay=", "cost=", "cost_min=", "cost_max=", "cost_default=",
		"plan=", "key=", "prefix=", "mode=", "on_error=", "name=" };
	struct buf out = { 0 };

	rules_print(&out);
	for (size_t i = 0; i < COUNT_OF(names); i++)
		cr_expect(strstr(buf_str(&out), names[i]), "%s", names[i]);
	buf_release(&out);
}
