#include "base/counters.h"
#include "base/log.h"
#include "client/client.h"
#include "make_request.h"

static struct network proxies[] = { { .addr = { 10 }, .addr_n = 4, .bits = 8 } };
static struct network friends[] = {
	{ .addr = { 203, 0, 113 }, .addr_n = 4, .bits = 24 },
	{ .addr = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 }, .addr_n = 16, .bits = 128 },
	{ .addr = { 10, 0, 0, 1 }, .addr_n = 4, .bits = 32 },
};

static const struct config config = {
	.client = { .trusted_proxies = { proxies, 1 }, .ipv6_prefix = 64 },
	.allow.networks = { friends, COUNT_OF(friends) },
};

static void note_done(struct client *c)
{
	(void)c;
}

/* Without a directory nothing waits, so no loop is needed. */
static void identify_now(
	struct client *out, const struct config *c, const struct request *rq)
{
	*out = (struct client){ .done = note_done };
	client_identify(out, NULL, NULL, c, rq);
	cr_assert(!out->pending);
}

static void identify(struct client *out, const struct config *c, const char *peer,
	const char *forwarded_for, const char *user)
{
	struct request rq;

	log_open(2, LOG_LEVEL_ERROR);
	make_request(&rq, "REMOTE_ADDR", peer, "HTTP_X_FORWARDED_FOR", forwarded_for,
		"REMOTE_USER", user, NULL);
	identify_now(out, c, &rq);
	request_release(&rq);
}

Test(client, the_peer_counts_unless_it_is_a_trusted_proxy)
{
	static const struct {
		const char *peer, *forwarded_for, *address, *network;
		bool exempt;
	} rows[] = {
		{ "192.0.2.7", "", "192.0.2.7", "192.0.2.7", false },
		/* A new X-Forwarded-For with each request changes nothing. */
		{ "192.0.2.7", "6.6.6.6", "192.0.2.7", "192.0.2.7", false },
		{ "192.0.2.7", "8.7.6.5, 10.0.0.2", "192.0.2.7", "192.0.2.7", false },
		{ "192.0.2.7", "203.0.113.9", "192.0.2.7", "192.0.2.7", false },
		{ "10.0.0.2", "6.6.6.6, 192.0.2.7", "192.0.2.7", "192.0.2.7", false },
		{ "10.0.0.2", "203.0.113.9, 192.0.2.7", "192.0.2.7", "192.0.2.7", false },
		{ "::ffff:10.0.0.2", "192.0.2.7", "192.0.2.7", "192.0.2.7", false },
		{ "10.0.0.2", "", "10.0.0.2", "10.0.0.2", false },
		{ "10.0.0.2", "garbage", "10.0.0.2", "10.0.0.2", false },
		/* A whole /64 belongs to one customer. */
		{ "2001:db8::2", "", "2001:db8::2", "2001:db8::/64", false },
		{ "2001:db8::ffff", "", "2001:db8::ffff", "2001:db8::/64", false },
		{ "10.0.0.2", "2001:db8::1:2", "2001:db8::1:2", "2001:db8::/64", false },
		{ "fe80::1%eth0", "", "fe80::1", "fe80::/64", false },
		{ "::ffff:192.0.2.7", "", "192.0.2.7", "192.0.2.7", false },
		/* The allow list looks at the whole address. */
		{ "203.0.113.9", "", "203.0.113.9", "203.0.113.9", true },
		{ "10.0.0.2", "203.0.113.9", "203.0.113.9", "203.0.113.9", true },
		{ "2001:db8::1", "", "2001:db8::1", "2001:db8::/64", true },
		{ "10.0.0.1", "", "10.0.0.1", "10.0.0.1", true },
		{ "10.0.0.1", "192.0.2.7", "192.0.2.7", "192.0.2.7", false },
		/* An exempt proxy exempts nobody whom it does not name. */
		{ "10.0.0.1", "garbage", "10.0.0.1", "10.0.0.1", false },
		{ "10.0.0.1", "unknown", "10.0.0.1", "10.0.0.1", false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct client client;

		identify(&client, &config, rows[i].peer, rows[i].forwarded_for, "");
		cr_expect_str_eq(client.address, rows[i].address, "row %zu", i);
		cr_expect_str_eq(client.network, rows[i].network, "row %zu", i);
		cr_expect_eq(client.exempt, rows[i].exempt, "row %zu", i);
		cr_expect_str_eq(client.plan, "anonymous");
	}
}

Test(client, without_an_address_all_are_one_client)
{
	static const char *const peers[] = { "", "unix:", "localhost", "999.0.0.1" };
	int64_t before = counter_sum(COUNT_requests_without_address);
	struct request none;
	struct client client;

	for (size_t i = 0; i < COUNT_OF(peers); i++) {
		identify(&client, &config, peers[i], "203.0.113.9", "");
		cr_expect_str_eq(client.address, "");
		cr_expect_str_eq(client.network, "unknown");
		cr_expect(!client.exempt);
	}
	make_request(&none, "HTTP_X_FORWARDED_FOR", "192.0.2.7", NULL);
	identify_now(&client, &config, &none);
	cr_expect_str_eq(client.network, "unknown");
	request_release(&none);
	cr_expect_eq(counter_sum(COUNT_requests_without_address) - before,
		(int64_t)COUNT_OF(peers) + 1);
}

Test(client, both_headers_at_odds_leave_the_proxy)
{
	struct request rq;
	struct client client;

	log_open(2, LOG_LEVEL_ERROR);
	make_request(&rq, "REMOTE_ADDR", "10.0.0.1", "HTTP_X_FORWARDED_FOR", "192.0.2.7",
		"HTTP_FORWARDED", "for=6.6.6.6", NULL);
	identify_now(&client, &config, &rq);
	cr_expect_str_eq(client.address, "10.0.0.1");
	cr_expect(!client.exempt, "although the proxy itself would be");
	request_release(&rq);
}
