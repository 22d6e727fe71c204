/*
 * config/rule.h - @RateLimit rules and the tiers they form.
 *
 * A rule is one @RateLimit line. A tier is one thing that is counted: its scope
 * (site or endpoint), type, key, algorithm and window, or its name. The rules of
 * a tier differ in plan and what follows from it; the client's plan chooses one.
 */
#ifndef WEIR_CONFIG_RULE_H
#define WEIR_CONFIG_RULE_H

#include "base/buf.h"

/* Most tiers one request can meet, site and endpoint together. */
#define TIERS_MAX 16

enum rate_algorithm {
	RATE_SLIDING_WINDOW, /* at most count in any window; exact */
	RATE_TOKEN_BUCKET,   /* count per window, up to burst at once */
	RATE_FIXED_WINDOW, /* at most count in each window; windows start at multiples of it */
	RATE_SLIDING_COUNTER, /* two fixed windows, the older one weighted; approximate */
	RATE_LEAKY_BUCKET, /* a queue of burst that drains at count per window: holds a request
			       * until its turn, refuses what would wait over max_delay */
};

/* A limit as arithmetic sees it. What validates it (rule.c) promises, so that all sums
 * stay below 2^53 and Redis (doubles) and memory (integers) agree to the last digit:
 *
 *	any               1 <= count, 1 <= window_us < 2^48, 1 <= cost
 *	sliding_window    count <= 2^24 (RATE_LOG_MAX in store/rate.h)
 *	fixed_window      count < 2^53
 *	sliding_counter   count * window_us < 2^53
 *	token_bucket      count <= 2^53, 1 <= burst, burst * window_us < 2^53
 *	leaky_bucket      as token_bucket, and 0 <= max_delay_us < 2^48
 *
 * burst is count for the windows and the counter. max_delay_us is 0 but for the leaky
 * bucket. A cost above burst is refused for ever. */
struct rate {
	enum rate_algorithm algorithm;
	uint64_t count;       /* events per window; at least 1 */
	int64_t window_us;    /* length of the window */
	uint64_t burst;       /* capacity: of the bucket, or count for windows */
	int64_t max_delay_us; /* leaky bucket: longest time a request is held; else 0 */
};

/* What is done with a request that Redis cannot decide. */
enum on_error {
	ON_ERROR_LOCAL,
	ON_ERROR_OPEN,
	ON_ERROR_CLOSED
};

enum rule_type {
	RULE_USER,
	RULE_IP,
	RULE_GLOBAL,
	RULE_CUSTOM, /* by what the template in key finds in the request */
};
enum rule_mode {
	MODE_ENFORCE,
	MODE_SHADOW,
	MODE_OFF
};
enum rule_count {
	COUNT_LIMITED,   /* rate holds */
	COUNT_NONE,      /* count=0: refuses everybody (403) */
	COUNT_UNLIMITED, /* count=unlimited: limits nothing, counts nothing */
};

/* What one request takes. */
enum cost_source {
	COST_FIXED,
	COST_HEADER,
	COST_QUERY
};
struct cost {
	enum cost_source source;
	uint64_t fixed; /* COST_FIXED: at least 1. Else: where the request says nothing */
	char *name;     /* of the header field ("HTTP_X_COST") or query parameter */
	uint64_t min,
		max; /* bounds of what a request may say; max is at most the capacity */
};

/* A key template of type=custom, in pieces: "{header:X-Tenant}:{ip}". */
enum piece_kind {
	PIECE_TEXT,   /* text stands for itself */
	PIECE_HEADER, /* text is the parameter's name: HTTP_X_TENANT */
	PIECE_COOKIE,
	PIECE_QUERY,
	PIECE_PATH,  /* a {name} of the endpoint's match */
	PIECE_PARAM, /* a parameter by its own name */
	PIECE_IP,
	PIECE_USER,
	PIECE_PLAN,
};
struct key_piece {
	enum piece_kind kind;
	char *text;  /* NULL for ip, user and plan */
	bool secret; /* may let its bearer in: stands in keys as a hash, however short */
};

/* Most pieces of one template, literal ones included. */
#define PIECES_MAX 16

struct rule {
	struct rate rate;
	enum rule_count counting;
	enum rule_type type;
	enum rule_mode mode;
	enum on_error on_error; /* its own, or fallback.policy */
	bool has_on_error;      /* it is its own */
	struct cost cost;
	char *key;      /* replaces the endpoint in the store key, "" when not given; of
		    * type=custom the template, as written */
	uint8_t prefix; /* of type=ip: bits in which IPv6 addresses agree that count
			 * together; 0: client.ipv6_prefix */
	struct key_piece *pieces; /* of type=custom, at least one placeholder; else NULL */
	size_t n_pieces;
	char *plan;       /* NULL: for clients of any plan */
	char *name;       /* NULL when not given */
	const char *file; /* where it stands; owned by the snapshot */
	unsigned line;
};

struct tier {
	char *id;     /* its name, by default algorithm and window: "sw60s", "tb1h"; with
		      * prefix= that, "sw60s-48"; of type=custom with the hash of the
		      * template: "sw60s-1f0a9b7c" */
	char way[16]; /* with a name: what stands behind it in store keys, so that a
		       * changed algorithm, prefix or template never meets the state of
		       * another: "sw", "sw-48", "sw-1f0a9b7c"; else "" */
	char *label;  /* as replies and logs name it: "user/sw60s", "site/ip/sw60s" */
	bool site;    /* counts over all endpoints */
	struct rule *rules; /* at least one; no two for the same plan */
	size_t n_rules;
};

struct tiers {
	struct tier *list; /* in the order of the file */
	size_t n;
};

/* The rule that a client of that plan meets: the one for it, else the one for any, else NULL.
 * plan may be NULL, which is one that no rule names. */
const struct rule *tier_rule(const struct tier *t, const char *plan);

/* Whether it is one of the plans there are without a directory: anonymous and default. */
bool plan_is_usual(const char *plan);

const char *rule_type_name(enum rule_type t); /* "user" */

#endif
