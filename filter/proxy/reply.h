/*
 * proxy/reply.h - weir's own answers.
 *
 * A head ("Status:" first, then fields with CRLF, no blank line) and a JSON body,
 * valid whatever names and paths contain (jansson builds it). A key that does not
 * apply is left out. The head stays below REPLY_HEAD_MAX, which is what web servers
 * give an answer's head by default.
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

/* Both below replace what r held. They return false when memory is out; buf_ok() of
 * the head is false then too. */

/* 429, 403 or 503 for a verdict that refuses:
 * {"code":42900,"message":"Too many requests, retry in 30 seconds","retry_after":30,
 *  "endpoint":"eval-submit","rule":"user/sw60s","rules":["user/sw60s"],"request_id":"..."}
 * with Retry-After in whole seconds, rounded up, at least 1 (not for 403), and for 429
 * the fields of reply_rate_limit_fields(). rules are all enforcing tiers that did not
 * admit, rule the one with the longest wait; "fallback" is the total of the fallback.
 * endpoint may be NULL. */
bool reply_refusal(struct reply *r, const struct config *c, const struct verdict *v,
	const struct endpoint *endpoint, const char *request_id);

/* Any other status: {"code":STATUS * 100,"message":...,"request_id":...}; retry_after
 * in seconds adds the field and the key where above 0. message NULL: the status's
 * standard phrase. */
bool reply_error(struct reply *r, int status, const char *message, int64_t retry_after,
	const char *request_id);

/* Appends RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for the
 * enforcing tiers of v, if the configuration wants them and there are any; each line
 * with CRLF. Tiers that do not fit in 3 KiB are left out, those that refuse last. */
void reply_rate_limit_fields(
	struct buf *head, const struct config *c, const struct verdict *v);

#endif
