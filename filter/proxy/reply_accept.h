/*
 * proxy/reply_accept.h - what form of an answer a client would rather have.
 *
 * Reads Accept and Accept-Language (RFC 9110, sections 12.5.1 and 12.5.4). Both come
 * from strangers: of each only the first ACCEPT_MEMBERS_MAX members are looked at,
 * and one that is malformed counts for nothing. Pure; no allocation.
 */
#ifndef WEIR_PROXY_REPLY_ACCEPT_H
#define WEIR_PROXY_REPLY_ACCEPT_H

#include "config/config.h"

#define ACCEPT_MEMBERS_MAX 32

/* Whether Accept names application/problem+json, and does not like application/json
 * better. Ranges with a * do not name it. */
bool accept_problem_json(struct view accept);

/* The message in the language that fits best (RFC 4647, section 3.4: zh-Hans-CN falls
 * back to zh-Hans, then to zh), or NULL for the one without a language: where nothing
 * fits, or other, the language that one is known to be in (NULL when it is not), does.
 * Borrowed from list. */
const struct localized *accept_language(
	const struct localized *list, size_t n, const char *other, struct view accept);

#endif
