#include <criterion/criterion.h>
#include <stdio.h>

#include "base/counters.h"
#include "proxy/addresses.h"

static struct backend with_addresses(char *name, struct net_addr *addrs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snprintf(addrs[i].text, sizeof(addrs[i].text), "unix:/run/%zu.sock", i);
	return (struct backend){
		.name = name,
		.addrs = addrs,
		.n_addrs = n,
		.max_fails = 3,
		.fail_timeout_ms = 1000,
	};
}

/* One request to whoever is chosen; returns whom. */
static int ask(
	struct addresses *h, const struct backend *b, uint64_t except, int64_t now_ms)
{
	int i = addresses_choose(h, b, except, now_ms);

	if (i >= 0)
		address_leave(h, i);
	return i;
}

/* It fails n times at that time. */
static void fail_times(
	struct addresses *h, const struct backend *b, int i, int n, int64_t now_ms)
{
	while (n-- > 0)
		address_bad(h, b, i, now_ms, "test");
}

/* How often address i is among the next twelve. */
static int share(struct addresses *h, const struct backend *b, int i, int64_t now_ms)
{
	int n = 0;

	for (int k = 0; k < 12; k++)
		n += ask(h, b, 0, now_ms) == i;
	return n;
}

Test(addresses, equals_take_turns)
{
	struct net_addr addrs[3];
	struct backend b = with_addresses((char[]){ "turns" }, addrs, 3);
	struct addresses *h = addresses_new(&b);

	for (int i = 0; i < 3; i++)
		cr_expect_eq(share(h, &b, i, 0), 4);
	addresses_unref(h);
}

Test(addresses, the_one_with_the_fewest_requests_is_asked)
{
	struct net_addr addrs[3];
	struct backend b = with_addresses((char[]){ "fewest" }, addrs, 3);
	struct addresses *h = addresses_new(&b);
	int held[9], counts[3] = { 0 };

	for (size_t i = 0; i < COUNT_OF(held); i++) {
		held[i] = addresses_choose(h, &b, 0, 0);
		counts[held[i]]++;
	}
	for (int i = 0; i < 3; i++)
		cr_expect_eq(counts[i], 3);
	for (size_t i = 0; i < COUNT_OF(held); i++)
		if (held[i] == 1)
			address_leave(h, 1);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(addresses_choose(h, &b, 0, 0), 1);
	cr_expect_eq(addresses_choose(h, &b, 2, 0) == 1, false);
	cr_expect_eq(ask(h, &b, 7, 0), -1);
	addresses_unref(h);
}

Test(addresses, failures_in_a_row_leave_an_address_out_until_one_request_finds_it_well)
{
	struct net_addr addrs[2];
	struct backend b = with_addresses((char[]){ "row" }, addrs, 2);
	struct addresses *h = addresses_new(&b);

	fail_times(h, &b, 0, 2, 0);
	address_good(h, 0);
	fail_times(h, &b, 0, 2, 0);
	cr_expect_eq(share(h, &b, 0, 0), 6, "two in a row are not three");
	fail_times(h, &b, 0, 1, 0);
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 1);
	cr_expect_eq(share(h, &b, 0, 999), 0);
	cr_expect_eq(ask(h, &b, 0, 1000), 0, "its time is over");
	cr_expect_eq(share(h, &b, 0, 1001), 0, "one finds out, the others wait");
	fail_times(h, &b, 0, 1, 1002);
	cr_expect_eq(share(h, &b, 0, 2001), 0, "once more is enough");
	cr_expect_eq(ask(h, &b, 0, 2002), 0);
	address_answers(h, 0);
	address_good(h, 0);
	cr_expect_eq(share(h, &b, 0, 2003), 6);
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 0);
	cr_expect_eq(counter_sum(COUNT_backend_ejections), 1, "a state, not each failure");
	addresses_unref(h);
}

Test(addresses, one_that_begins_to_answer_is_back_but_not_yet_forgiven)
{
	struct net_addr addrs[2];
	struct backend b = with_addresses((char[]){ "breaks" }, addrs, 2);
	struct addresses *h = addresses_new(&b);

	for (int i = 0; i < 3; i++) {
		cr_expect_eq(share(h, &b, 0, 0), 6);
		address_answers(h, 0);
		fail_times(h, &b, 0, 1, 0);
	}
	cr_expect_eq(share(h, &b, 0, 1), 0, "three answers that broke off");
	address_answers(h, 0);
	cr_expect_eq(share(h, &b, 0, 2), 6);
	fail_times(h, &b, 0, 1, 2);
	cr_expect_eq(share(h, &b, 0, 3), 0, "the next one breaks off too");
	address_answers(h, 0);
	address_good(h, 0);
	fail_times(h, &b, 0, 2, 4);
	cr_expect_eq(share(h, &b, 0, 5), 6, "one answer was whole");
	addresses_unref(h);
}

Test(addresses, the_last_one_is_always_kept)
{
	struct net_addr addrs[3];
	struct backend b = with_addresses((char[]){ "last" }, addrs, 3);
	struct addresses *h = addresses_new(&b);

	for (int i = 0; i < 3; i++)
		fail_times(h, &b, i, 10, 0);
	cr_expect_eq(share(h, &b, 2, 1), 12);
	/* Where all that are well have been tried, the others are asked after all. */
	cr_expect_eq(ask(h, &b, 4, 1) < 2, true);
	addresses_unref(h);
}

Test(addresses, zero_fails_leave_nobody_out)
{
	struct net_addr addrs[2];
	struct backend b = with_addresses((char[]){ "zero" }, addrs, 2);
	struct addresses *h = addresses_new(&b);

	b.max_fails = 0;
	fail_times(h, &b, 0, 100, 0);
	cr_expect_eq(share(h, &b, 0, 0), 6);
	addresses_unref(h);
}

/* -- reloads ----------------------------------------------------------------------- */

/* A configuration with these backends, in force after now. */
static struct config in_force(const struct config *now, struct backend *backends, size_t n)
{
	struct config c = { .backends = backends, .n_backends = n };

	cr_assert(addresses_hand_on(now, &c));
	if (now)
		addresses_part(now, &c);
	return c;
}

/* As the last config_unref() does. */
static void end(struct config *c)
{
	c->parting(c);
}

Test(addresses, a_reload_hands_on_what_is_known_where_name_and_addresses_are_the_same)
{
	struct net_addr addrs[2], others[2];
	struct backend before = with_addresses((char[]){ "same" }, addrs, 2);
	struct backend rows[] = {
		with_addresses((char[]){ "other" }, addrs, 2),
		with_addresses((char[]){ "same" }, addrs, 1),
		with_addresses((char[]){ "same" }, others, 2),
		{ .name = (char[]){ "same" }, .kind = BACKEND_CGI },
		with_addresses((char[]){ "same" }, addrs, 2),
	};
	struct config now = in_force(NULL, &before, 1), next = { 0 };

	snprintf(others[1].text, sizeof(others[1].text), "unix:/run/new.sock");
	fail_times(before.known, &before, 0, 3, 0);
	next.backends = rows;
	next.n_backends = COUNT_OF(rows);
	cr_assert(addresses_hand_on(&now, &next));
	for (size_t i = 0; i < 3; i++)
		cr_expect(rows[i].known && rows[i].known != before.known, "row %zu", i);
	cr_expect_null(rows[3].known);
	cr_expect_eq(rows[4].known, before.known);
	end(&now);
	cr_expect_eq(share(rows[4].known, &rows[4], 0, 1), 0);
	end(&next);
}

Test(addresses, one_that_is_no_longer_configured_is_not_counted_as_left_out)
{
	struct net_addr addrs[3];
	struct backend both[2] = { with_addresses((char[]){ "goes" }, addrs, 3),
		with_addresses((char[]){ "stays" }, addrs, 2) };
	struct backend one = both[1], again[2] = { both[0], both[1] };
	struct config first = in_force(NULL, both, 2), second, third;
	struct addresses *used = addresses_ref(both[0].known);

	fail_times(used, &both[0], 0, 3, 0);
	fail_times(used, &both[0], 1, 3, 0);
	fail_times(both[1].known, &both[1], 0, 3, 0);
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 3);

	second = in_force(&first, &one, 1);
	cr_expect(addresses_have_parted(used));
	cr_expect(!addresses_have_parted(one.known));
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 1);
	end(&first);

	/* Back again it is a stranger, whatever the old one's last request still meets. */
	third = in_force(&second, again, 2);
	end(&second);
	cr_expect_neq(again[0].known, used);
	cr_expect_eq(share(again[0].known, &again[0], 0, 1), 4);
	address_answers(used, 0);
	address_bad(used, &again[0], 0, 1, "test");
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 1);
	addresses_unref(used);
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 1);
	address_answers(again[1].known, 0);
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 0);
	end(&third);
}

/* Of a reload that is not taken, say: its configuration never was in force. */
Test(addresses, a_configuration_that_is_given_up_changes_nothing)
{
	struct net_addr addrs[2];
	struct backend b = with_addresses((char[]){ "kept" }, addrs, 2), same = b;
	struct config now = in_force(NULL, &b, 1);
	struct config fresh = { .backends = &same, .n_backends = 1 };

	fail_times(b.known, &b, 0, 3, 0);
	cr_assert(addresses_hand_on(&now, &fresh));
	end(&fresh);
	cr_expect(!addresses_have_parted(b.known));
	cr_expect_eq(counter_sum(COUNT_backend_addresses_out), 1);
	cr_expect_eq(share(b.known, &b, 0, 1), 0);
	end(&now);
}
