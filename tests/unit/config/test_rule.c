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
	cr_expect_eq(r.cost, 1);
	cr_expect_eq(r.mode, MODE_ENFORCE);
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
	cr_expect_eq(r.cost, 2);
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

Test(rule, the_largest_bucket_stays_below_two_to_the_53)
{
	struct mistakes m = { 0 };
	struct rule r = read_good("algorithm=token_bucket count=150119987579 window=60ms");

	cr_expect_lt(r.rate.burst * (uint64_t)r.rate.window_us, EXACT_MAX);
	rule_release(&r);
	cr_expect_not(rule_read(
		VIEW("algorithm=token_bucket count=150119987580 window=60ms"), at, &r, &m));
	cr_expect_eq(m.errors, 1);
	/* A window keeps no product. */
	r = read_good("count=9007199254740992 window=365d");
	rule_release(&r);
	mistakes_release(&m);
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
		"burst=", "cost=", "plan=", "key=", "mode=", "name=" };
	struct buf out = { 0 };

	rules_print(&out);
	for (size_t i = 0; i < COUNT_OF(names); i++)
		cr_expect(strstr(buf_str(&out), names[i]), "%s", names[i]);
	buf_release(&out);
}
