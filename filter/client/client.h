/*
 * client/client.h - who is asking.
 *
 * The address is REMOTE_ADDR or, when that is a trusted proxy, the first untrusted
 * one from the right of X-Forwarded-For or Forwarded (RFC 7239). IPv4-mapped IPv6
 * counts as IPv4; IPv6 is cut to client.ipv6_prefix.
 *
 * The user is what the first of the sources in client.user names: the owner of the token
 * that the request carries (client/token.h), or REMOTE_USER where the configuration says
 * that the server verified it. A token that the directory does not know, or one given
 * twice, names nobody: the next source is asked, and at last the client is its address.
 * The plan is the user's in the directory, "default" where that has none, and
 * "anonymous" without a user.
 *
 * No header passes anybody by being there: exempt are networks, and tokens that the
 * directory calls an administrator's.
 */
#ifndef WEIR_CLIENT_CLIENT_H
#define WEIR_CLIENT_CLIENT_H

#include <uv.h>

#include "client/name.h"
#include "config/config.h"
#include "front/request.h"

#define CLIENT_ADDRESS_MAX 64

struct directory; /* client/directory.h */

struct client {
	/* Set by the caller, once, before client_identify(). */
	void (*done)(struct client *c);

	/* Valid in done and after it. */
	char address[CLIENT_ADDRESS_MAX]; /* whole, for handlers and logs; "" if unknown */
	char network[CLIENT_ADDRESS_MAX]; /* as it counts: "192.0.2.7", "2001:db8::/64";
					   * "unknown" without an address */
	char user[CLIENT_NAME_MAX];       /* as name_put() has it; "": anonymous */
	char plan[CLIENT_NAME_MAX];
	bool exempt;  /* on the allow list, or an admin's token: meets no tier */
	bool unknown; /* the directory could not be read and its policy is closed: 503;
		       * never together with exempt */

	/* Private. */
	bool pending;
	struct directory_ask *ask;
	struct directory *directory;
	const struct config *config;
	const struct request *request;
	uv_loop_t *loop;
	size_t source; /* in config->client.user, the one that is asked now */
};

/* Finds out who is asking; calls done once, at once where nothing has to be looked up or
 * the cache knows it, else later from loop. c is zeroed but for done, or was used before
 * and is not pending; it may be gone once done was called. d may be NULL (no directory).
 * rq and config are borrowed until done. What cannot be read counts as the peer, or as
 * one shared client.
 *
 * While the directory cannot be read and its policy is open, who was known stays who and
 * what he was; any other token names nobody, and any other REMOTE_USER is on plan
 * "default". */
void client_identify(struct client *c, uv_loop_t *loop, struct directory *d,
	const struct config *config, const struct request *rq);
/* Ends a pending identification without done. NULL-safe on a zeroed client. */
void client_cancel(struct client *c);

#endif
