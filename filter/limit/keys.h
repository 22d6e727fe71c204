/*
 * limit/keys.h - under which key the store counts.
 *
 *	rate:user:{ID}:ENDPOINT:RULE
 *	rate:ip:{ADDRESS}:ENDPOINT:RULE
 *	rate:global:{ENDPOINT}:RULE
 *	rate:custom:{VALUE}:ENDPOINT:RULE
 *
 * "rate" is store.prefix. The braces are Redis's hash tag: in a cluster all keys of one
 * user lie together. Parts are escaped, so no two different tuples share a key, whatever
 * users call themselves:
 *
 *	/ : { } % * and bytes outside printable ASCII    %XX, upper-case hexadecimal
 *	a part of more than 64 bytes, or a secret        sha256/ and its SHA-256 in hex
 *
 * '/' and '*' as such are written by weir alone: "ip/192.0.2.7" is the ID of an anonymous
 * user, "*" the ENDPOINT of a site tier, and a RULE that has a name says behind it how it
 * counts: "quota/sw". VALUE is several parts with ':' behind them (limit/said.h).
 */
#ifndef WEIR_LIMIT_KEYS_H
#define WEIR_LIMIT_KEYS_H

#include "base/buf.h"
#include "config/rule.h"

/* Longest part that is written out; also the limit of the length of keys. */
#define KEY_PART_MAX 64

struct key_parts {
	enum rule_type type;
	struct view user;    /* empty: anonymous, counted by address */
	struct view address; /* as it counts: client.network, or cut to the rule's prefix */
	struct view custom;  /* of said_identity(): escaped already */
	const char *place;   /* the endpoint's name or what key= puts there; NULL: all */
	const char *rule;    /* the tier's id */
	const char *way;     /* the tier's way; "" or NULL for none */
};

/* Appends the key to out. */
void key_put(struct buf *out, const char *prefix, const struct key_parts *parts);

/* Appends one part, escaped or hashed; one that is a secret, hashed unless it is empty;
 * and text of the operator's, escaped. */
void key_put_part(struct buf *out, struct view part);
void key_put_secret(struct buf *out, struct view part);
void key_put_text(struct buf *out, struct view text);

#endif
