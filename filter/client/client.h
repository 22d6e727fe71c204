/*
 * client/client.h - who is asking.
 *
 * The address is REMOTE_ADDR or, when that is a trusted proxy, the first untrusted
 * one from the right of X-Forwarded-For or Forwarded (RFC 7239). IPv4-mapped IPv6
 * counts as IPv4; IPv6 is cut to client.ipv6_prefix. The user is REMOTE_USER where
 * the configuration says that the server verified it. No header passes anybody by
 * being there.
 */
#ifndef WEIR_CLIENT_CLIENT_H
#define WEIR_CLIENT_CLIENT_H

#include "config/config.h"
#include "front/request.h"

#define CLIENT_ADDRESS_MAX 64

struct client {
	char address[CLIENT_ADDRESS_MAX]; /* whole, for handlers and logs; "" if unknown */
	char network[CLIENT_ADDRESS_MAX]; /* as it counts: "192.0.2.7", "2001:db8::/64";
					   * "unknown" without an address */
	struct view user; /* empty: anonymous. Borrowed: as long as the request */
	const char *plan; /* "anonymous" or "default"; static */
	bool exempt;      /* on the allow list: meets no tier */
};

/* Never fails: what cannot be read counts as the peer, or as one shared client. */
void client_identify(struct client *out, const struct config *c, const struct request *rq);

#endif
