/*
 * verdict.h - what was decided about a request. Types only: written by limit,
 * read by replies, logs and the exchange.
 */
#ifndef WEIR_VERDICT_H
#define WEIR_VERDICT_H

#include "config/config.h"

enum outcome {
	OUTCOME_PASS,        /* to its backend */
	OUTCOME_REFUSED,     /* a limit is reached: 429 */
	OUTCOME_FORBIDDEN,   /* a rule with count=0: 403 */
	OUTCOME_NEVER,       /* it costs more than a tier ever holds: 413, no Retry-After */
	OUTCOME_UNAVAILABLE, /* the store is silent and the policy is closed: 503 */
};

enum decided_by {
	DECIDED_BY_NONE, /* no tier applied, or the client is exempt */
	DECIDED_BY_REDIS,
	DECIDED_BY_MEMORY,
	DECIDED_BY_FALLBACK, /* the local table, Redis being silent */
};

/* One tier's part. Times are from the moment of the decision. */
struct tier_verdict {
	const struct tier *tier; /* NULL for the total of the fallback */
	const struct rule *rule; /* the one chosen by the client's plan; NULL likewise */
	const struct rate *rate; /* by which it was counted: the rule's, or that total's */
	bool admitted;           /* within its limit */
	uint64_t remaining;      /* what is left after this request */
	int64_t wait_us;         /* until this cost would fit; 0 when admitted */
	int64_t reset_us;        /* until the tier is as if never used */
};

struct verdict {
	enum outcome outcome;
	enum decided_by by;
	struct tier_verdict tiers[TIERS_MAX + 1];
	size_t n_tiers;
	const struct tier_verdict *worst; /* refused: the enforcing tier with the longest
					   * wait; in tiers, NULL otherwise */
	int64_t wait_us;                  /* refused: that wait */
	int64_t hold_us; /* passes: until its turn comes, the longest of the leaky buckets */
};

#endif
