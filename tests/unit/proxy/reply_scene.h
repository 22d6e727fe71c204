/*
 * A verdict with tiers to fill in, and what a reply to it needs, for tests.
 */
#ifndef WEIR_TESTS_REPLY_SCENE_H
#define WEIR_TESTS_REPLY_SCENE_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "proxy/reply.h"

/* A configuration, an endpoint and a verdict with tiers to fill in. */
struct scene {
	struct config c;
	struct endpoint endpoint;
	struct tier tiers[TIERS_MAX];
	struct rule rules[TIERS_MAX];
	struct rate total_rate;
	struct verdict v;
};

static char default_message[] = "Too many requests, retry in {retry_after} seconds";
static char endpoint_name[] = "eval-submit";

static inline void scene_init(struct scene *s, enum outcome outcome)
{
	*s = (struct scene){ 0 };
	s->c.reply.message = default_message;
	s->total_rate = (struct rate){ .algorithm = RATE_TOKEN_BUCKET,
		.count = 1000,
		.window_us = US_PER_S,
		.burst = 1000 };
	s->endpoint.name = endpoint_name;
	s->v.outcome = outcome;
}

/* A sliding window of count in window_us. */
static inline struct tier_verdict *add_tier(
	struct scene *s, char *label, uint64_t count, int64_t window_us)
{
	size_t i = s->v.n_tiers++;

	s->rules[i] = (struct rule){ .rate = { .algorithm = RATE_SLIDING_WINDOW,
					     .count = count,
					     .window_us = window_us,
					     .burst = count } };
	s->tiers[i] = (struct tier){ .label = label, .rules = &s->rules[i], .n_rules = 1 };
	s->v.tiers[i] = (struct tier_verdict){
		.tier = &s->tiers[i], .rule = &s->rules[i], .rate = &s->rules[i].rate
	};
	return &s->v.tiers[i];
}

/* The total of the fallback. */
static inline struct tier_verdict *add_total(struct scene *s)
{
	struct tier_verdict *total = &s->v.tiers[s->v.n_tiers++];

	*total = (struct tier_verdict){ .rate = &s->total_rate };
	return total;
}

static inline void refuse(struct scene *s, struct tier_verdict *tv, int64_t wait_us)
{
	tv->admitted = false;
	tv->wait_us = wait_us;
	tv->reset_us = wait_us * 2;
	if (!s->v.worst || wait_us > s->v.wait_us) {
		s->v.worst = tv;
		s->v.wait_us = wait_us;
	}
}

static inline void admit(struct tier_verdict *tv, uint64_t remaining, int64_t reset_us)
{
	tv->admitted = true;
	tv->remaining = remaining;
	tv->reset_us = reset_us;
}

static inline void check(const char *what, const struct buf *got, const char *want)
{
	cr_assert(view_eq(buf_view(got), view_str(want)), "%s is\n%.*s\nnot\n%s", what,
		VIEW_ARG(buf_view(got)), want);
}

/* Formatted text, valid until the next call. */
static inline const char *__attribute__((format(printf, 1, 2)))
text_of(const char *fmt, ...)
{
	static char out[REPLY_HEAD_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out, sizeof(out), fmt, ap);
	va_end(ap);
	return out;
}

#endif
