/*
 * proxy/reply.h - weir's own answers.
 *
 * A head ("Status:" first, then fields with CRLF, no blank line) and a JSON body,
 * valid whatever names and paths contain (jansson builds it).
 */
#ifndef WEIR_PROXY_REPLY_H
#define WEIR_PROXY_REPLY_H

#include "front/request.h"
#include "verdict.h"

struct reply {
	struct buf head;
	struct buf body;
};

void reply_release(struct reply *r);

/* 429, 403 or 503 for a verdict that refuses:
 * {"code":42900,"message":"Too many requests, retry in 30 seconds","retry_after":30,
 *  "endpoint":"eval-submit","rule":"user/sw60s","rules":["user/sw60s"],"request_id":"..."}
 * with Retry-After in whole seconds, rounded up, at least 1 (not for 403). endpoint may
 * be NULL. False when memory is out. */
bool reply_refusal(struct reply *r, const struct config *c, const struct verdict *v,
	const struct endpoint *endpoint, const char *request_id);

/* Any other status: {"code":STATUS * 100,"message":...,"request_id":...}; retry_after
 * in seconds adds the field where above 0. */
bool reply_error(struct reply *r, int status, const char *message, int64_t retry_after,
	const char *request_id);

/* Appends RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for the
 * enforcing tiers of v, if the configuration wants them and there are any. */
void reply_rate_limit_fields(
	struct buf *head, const struct config *c, const struct verdict *v);

#endif
