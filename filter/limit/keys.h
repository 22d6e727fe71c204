/*
 * limit/keys.h - under which key the store counts.
 *
 *	rate:user:{ID}:ENDPOINT:RULE
 *	rate:ip:{ADDRESS}:ENDPOINT:RULE
 *	rate:global:{ENDPOINT}:RULE
 *
 * "rate" is store.prefix. The braces are Redis's hash tag: in a cluster all keys of one
 * user lie together. Parts are escaped, so no two different tuples share a key, whatever
 * users call themselves:
 *
 *	/ : { } % * and bytes outside printable ASCII    %XX, upper-case hexadecimal
 *	a part of more than 64 bytes                     sha256/ and its SHA-256 in hex
 *
 * '/' and '*' as such are written by weir alone: "ip/192.0.2.7" is the ID of an anonymous
 * user, "*" the ENDPOINT of a site tier.
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
	struct view address; /* as it counts: client.network */
	const char *place;   /* the endpoint's name or what key= puts there; NULL: all */
	const char *rule;    /* the tier's id */
};

/* Appends the key to out. */
void key_put(struct buf *out, const char *prefix, const struct key_parts *parts);

#endif
