/*
 * client/client.c - who is asking.
 *
 * An address that had to be guessed (the peer in place of a client its proxy does not
 * name) is good enough to be limited by and not good enough to be exempt by: otherwise
 * whoever confuses a proxy on the allow list would be on it too.
 */
#include "client/client.h"

#include <assert.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "client/forwarded.h"

static_assert(CLIENT_ADDRESS_MAX >= ADDRESS_TEXT_MAX, "a client has room for an address");

static void warn_no_address(struct view remote_addr)
{
	static struct log_gate gate;
	uint64_t missed;

	count_one(COUNT_requests_without_address);
	if (log_gate_open(&gate, clock_mono_us(), &missed))
		log_warn(
			"request without a client address; all of them count as one client",
			LOG_VIEW("remote_addr", remote_addr),
			LOG_INT("suppressed", missed));
}

static void warn_forwarded(enum forwarded what, const char *peer)
{
	static struct log_gate malformed, contradictory;
	uint64_t missed;

	if (what == FORWARDED_MALFORMED &&
		log_gate_open(&malformed, clock_mono_us(), &missed))
		log_warn("trusted proxy names no client address; its own is used",
			LOG_STR("proxy", peer), LOG_INT("suppressed", missed));
	if (what == FORWARDED_CONTRADICTORY &&
		log_gate_open(&contradictory, clock_mono_us(), &missed))
		log_warn(
			"X-Forwarded-For and Forwarded name different clients; the proxy's "
			"address is used. Let the proxy remove the one it does not write",
			LOG_STR("proxy", peer), LOG_INT("suppressed", missed));
}

static void identify_address(
	struct client *out, const struct config *c, const struct request *rq)
{
	struct view remote_addr = request_param(rq, "REMOTE_ADDR");
	enum forwarded got = FORWARDED_NONE;
	struct address a;

	/* nginx says "unix:" for a peer on a unix socket. */
	if (!address_parse(remote_addr, &a)) {
		warn_no_address(remote_addr);
		memcpy(out->network, "unknown", sizeof("unknown"));
		return;
	}
	if (address_in(&a, &c->client.trusted_proxies))
		got = forwarded_client(rq, &c->client.trusted_proxies, &a);
	address_text(&a, out->address);
	address_network_text(&a, c->client.ipv6_prefix, out->network);
	if (got == FORWARDED_NONE || got == FORWARDED_FOUND)
		out->exempt = address_in(&a, &c->allow.networks);
	else
		warn_forwarded(got, out->address);
}

void client_identify(struct client *out, const struct config *c, const struct request *rq)
{
	*out = (struct client){ .plan = "anonymous" };
	identify_address(out, c, rq);
	if (c->client.user != USER_REMOTE_USER)
		return;
	out->user = request_param(rq, "REMOTE_USER");
	if (out->user.n)
		out->plan = "default";
}
