#include <criterion/criterion.h>
#include <stdio.h>

#include "base/counters.h"
#include "proxy/addresses.h"

/* Each test has a backend of its own, since what is known of one stays. */
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
	struct addresses *h = addresses_of(&b);

	for (int i = 0; i < 3; i++)
		cr_expect_eq(share(h, &b, i, 0), 4);
}

Test(addresses, the_one_with_the_fewest_requests_is_asked)
{
	struct net_addr addrs[3];
	struct backend b = with_addresses((char[]){ "fewest" }, addrs, 3);
	struct addresses *h = addresses_of(&b);
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
}

Test(addresses, failures_in_a_row_leave_an_address_out_until_one_request_finds_it_well)
{
	struct net_addr addrs[2];
	struct backend b = with_addresses((char[]){ "row" }, addrs, 2);
	struct addresses *h = addresses_of(&b);

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
}

Test(addresses, one_that_begins_to_answer_is_back_but_not_yet_forgiven)
{
	struct net_addr addrs[2];
	struct backend b = with_addresses((char[]){ "breaks" }, addrs, 2);
	struct addresses *h = addresses_of(&b);

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
}

Test(addresses, the_last_one_is_always_kept)
{
	struct net_addr addrs[3];
	struct backend b = with_addresses((char[]){ "last" }, addrs, 3);
	struct addresses *h = addresses_of(&b);

	for (int i = 0; i < 3; i++)
		fail_times(h, &b, i, 10, 0);
	cr_expect_eq(share(h, &b, 2, 1), 12);
	/* Where all that are well have been tried, the others are asked after all. */
	cr_expect_eq(ask(h, &b, 4, 1) < 2, true);
}

Test(addresses, zero_fails_leave_nobody_out)
{
	struct net_addr addrs[2];
	struct backend b = with_addresses((char[]){ "zero" }, addrs, 2);
	struct addresses *h = addresses_of(&b);

	b.max_fails = 0;
	fail_times(h, &b, 0, 100, 0);
	cr_expect_eq(share(h, &b, 0, 0), 6);
}

Test(addresses, what_is_known_belongs_to_name_and_addresses)
{
	struct net_addr addrs[2], others[2];
	struct backend b = with_addresses((char[]){ "same" }, addrs, 2);
	struct backend reloaded = with_addresses((char[]){ "same" }, others, 2);
	struct backend renamed = with_addresses((char[]){ "other" }, others, 2);
	struct backend shorter = with_addresses((char[]){ "same" }, others, 1);

	cr_expect_eq(addresses_of(&b), addresses_of(&reloaded));
	cr_expect_neq(addresses_of(&b), addresses_of(&renamed));
	cr_expect_neq(addresses_of(&b), addresses_of(&shorter));
	snprintf(others[1].text, sizeof(others[1].text), "unix:/run/new.sock");
	cr_expect_neq(addresses_of(&b), addresses_of(&reloaded));
}
