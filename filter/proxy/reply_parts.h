/*
 * proxy/reply_parts.h - what the files that make replies share; for them only.
 *
 * Times of a verdict as whole seconds, names of tiers, text in the encodings a body
 * can have. Pure functions; results go to a buf whose failure the caller looks at.
 */
#ifndef WEIR_PROXY_REPLY_PARTS_H
#define WEIR_PROXY_REPLY_PARTS_H

#include "base/clock.h"
#include "verdict.h"

static inline int64_t ceil_s(int64_t us)
{
	return us <= 0 ? 0 : us / US_PER_S + (us % US_PER_S != 0);
}

/* A wait as clients are told it: coming back then succeeds, a second earlier not. */
static inline int64_t retry_s(int64_t wait_us)
{
	int64_t s = ceil_s(wait_us);

	return s ? s : 1;
}

/* Whether the tier has a say; the total of the fallback always has. */
static inline bool enforces(const struct config *c, const struct tier_verdict *tv)
{
	if (!tv->rule)
		return true;
	return tv->rule->mode == MODE_ENFORCE && c->server.mode == MODE_ENFORCE;
}

static inline const char *label_of(const struct tier_verdict *tv)
{
	return tv->tier ? tv->tier->label : "fallback";
}

/* -- reply_fields.c -- */

/* label as a policy's name in RateLimit-Policy: without the bytes no structured string
 * can hold (RFC 9651, section 3.3.3). */
void put_policy_name(struct buf *out, const char *label);

/* -- reply_text.c -- */

/* v with every byte that is not UTF-8 replaced by U+FFFD. */
void put_utf8(struct buf *out, struct view v);

/* Text with {retry_after} filled in. */
void put_message(struct buf *out, const char *text, int64_t retry_after);

/* What a template's placeholders stand for. NULL is empty. */
struct reply_values {
	int status;
	int64_t retry_after; /* seconds, 0 for none */
	struct view message;
	const char *endpoint, *rule, *request_id;
};
/* type is the Content-Type of what template makes; it decides the escaping. */
void put_template(struct buf *out, const char *template, const char *type,
	const struct reply_values *values);

#endif
