/*
 * limit/said.h - what a request says about itself: the pieces of custom keys, its cost.
 *
 * All of it is chosen by the client, unless somebody in front has verified it. So nothing
 * here may let a client do better by being unclear:
 *
 *	A key has one value for one identity. What comes twice (two fields, two cookies, two
 *	parameters of a name) is the empty value, as what is not there: one application takes
 *	the first and another the last, and whichever was counted here, a client could vary it
 *	and still be served as the other. All such requests share one count.
 *	A cost is held within the rule's bounds; one that says more than the tier ever holds
 *	can never fit and is refused as that. What is no number, or comes twice, is the most
 *	the rule knows; only what is not there or empty is the default.
 */
#ifndef WEIR_LIMIT_SAID_H
#define WEIR_LIMIT_SAID_H

#include "limit/limit.h"

/* The value of a placeholder, decoded. Borrowed: from about, or from scratch until that is
 * next changed. Empty when the request has none, or memory is out (scratch says so). */
struct view said_piece(const struct limit_subject *about, const struct key_piece *piece,
	struct buf *scratch);

/* Appends the identity of a custom rule as keys have it: values escaped like all parts,
 * each with a ':' behind it if anything follows, so that no two sets of values share one.
 * A template's own ':' behind a placeholder is that one. */
void said_identity(
	const struct limit_subject *about, const struct rule *rule, struct buf *out);

/* What the request takes from a tier with that rule: within the rule's bounds, or one more
 * than the tier's capacity where the request itself says more than that. */
uint64_t said_cost(const struct limit_subject *about, const struct rule *rule);

#endif
