/*
 * client/forwarded.h - the client as trusted proxies name it.
 *
 * Each proxy adds the address it was asked from at the right end of X-Forwarded-For or
 * Forwarded (RFC 7239). What stands at the left end is whatever the client liked to
 * send. So the list is read from the right, past the trusted proxies, to the first
 * address that is none; nothing to the left of it is looked at.
 */
#ifndef WEIR_CLIENT_FORWARDED_H
#define WEIR_CLIENT_FORWARDED_H

#include "client/address.h"
#include "front/request.h"

/* Longest chain of trusted proxies that is followed. */
#define FORWARDED_HOPS_MAX 64

enum forwarded {
	FORWARDED_NONE,  /* neither header says anything */
	FORWARDED_FOUND, /* *out is the client */
	/* Nothing can be believed; the peer has to stand for its client. */
	FORWARDED_MALFORMED, /* a trusted proxy's entry names no address: garbage, "unknown",
			      * "_hidden", or the chain is too long */
	FORWARDED_CONTRADICTORY, /* the two headers name different clients */
};

/* Reads the headers of a request whose peer is a trusted proxy. When every address is
 * a trusted one, the leftmost is the client. The cost is linear in the headers.
 *
 * When both headers are there they must name the same client. A proxy that writes one
 * of them usually passes the other through as the client sent it, and nothing in the
 * request says which is which: to prefer either would let clients behind the other kind
 * of proxy choose their address. */
enum forwarded forwarded_client(
	const struct request *rq, const struct networks *trusted, struct address *out);

#endif
