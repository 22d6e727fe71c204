/*
 * proxy/reply.h - weir's own answers.
 *
 * A head ("Status:" first, then fields with CRLF, no blank line) and a body: JSON,
 * valid whatever names and paths contain (jansson builds it), or what the operator's
 * template makes of a refusal. A key that does not apply is left out. The head stays
 * below REPLY_HEAD_MAX, which is what web servers give an answer's head by default.
 */
#ifndef WEIR_PROXY_REPLY_H
#define WEIR_PROXY_REPLY_H

#include "front/request.h"
#include "verdict.h"

#define REPLY_HEAD_MAX 4096

/* Zeroed is empty and ready. */
struct reply {
	struct buf head;
	struct buf body;
};

void reply_release(struct reply *r);

/* The status of an outcome: 200, 429, 403, 413 or 503. */
int reply_status(enum outcome outcome);

/* Both below replace what r held. They return false when memory is out; buf_ok() of
 * the head is false then too. */

/*
 * The answer to a verdict that refuses. Its body is, in this order:
 * - RFC 9457 problem details (application/problem+json), if the client's Accept names
 *   that type, not after application/json: "type", "title", "status" and "detail", then
 *   all keys of the plain form, and for 429 "violated-policies", the names as they are
 *   in RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers, section 5);
 * - the configuration's template, with {code} {message} {retry_after} {endpoint} {rule}
 *   {request_id} filled in: escaped for strings of a JSON type, for text of HTML and
 *   XML, without control characters elsewhere. What does not apply is empty, but
 *   {retry_after} 0. Other braces stay;
 * - problem details, if the configuration asks for them;
 * - the plain form:
 *   {"code":42900,"message":"Too many requests, retry in 30 seconds","retry_after":30,
 *    "endpoint":"eval-submit","rule":"user/sw60s","rules":["user/sw60s"],
 *    "request_id":"..."}
 *   rules are all enforcing tiers that did not admit, rule the one with the longest
 *   wait; "fallback" is the total of the fallback.
 *
 * Retry-After is in whole seconds, rounded up, at least 1; 403 and 413 have none, for
 * no wait helps. A 429 has the fields of reply_rate_limit_fields(), and its message is
 * in the language of the configuration that fits Accept-Language best: RFC 4647 lookup,
 * by weight; the message without a language where none fits. The built-in message
 * counts as English. With languages configured there are Content-Language (unless
 * nobody knows it) and Vary.
 *
 * endpoint may be NULL. rq may be NULL: no preferences and no request_id.
 */
bool reply_refusal(struct reply *r, const struct config *c, const struct verdict *v,
	const struct endpoint *endpoint, const struct request *rq);

/* Any other status: {"code":STATUS * 100,"message":...,"request_id":...}; retry_after
 * in seconds adds the field and the key where above 0. message NULL: the status's
 * standard phrase. reason is a word for programs, as in "reason":"spool", for where one
 * status has several; NULL: none. */
bool reply_error(struct reply *r, int status, const char *message, const char *reason,
	int64_t retry_after, const char *request_id);

/*
 * Appends what the configuration wants of these to an answer that passes or refuses,
 * each line with CRLF; nothing when v has no enforcing tier. Tiers in shadow show
 * nowhere.
 *
 * RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers): a list of
 * tiers, those that refuse first, then the one with the least left. Tiers that do not
 * fit in 3 KiB are left out from the end. In a refusal t is never later than
 * Retry-After.
 *
 * X-RateLimit-Limit, -Remaining, -Reset (seconds from now): the first tier of that list.
 * Of a bucket Limit is its capacity, so Remaining never exceeds it.
 */
void reply_rate_limit_fields(
	struct buf *head, const struct config *c, const struct verdict *v);
/* Whether there is a tier to tell of: then those are appended that the configuration
 * wants, unless memory is out. */
bool reply_tells_limits(const struct config *c, const struct verdict *v);

#endif
