/*
 * limit/limit.h - from a request to a verdict: which endpoint, which tiers, what
 * the store says.
 */
#ifndef WEIR_LIMIT_LIMIT_H
#define WEIR_LIMIT_LIMIT_H

#include "client/client.h"
#include "config/pattern.h"
#include "store/store.h"
#include "verdict.h"

/* What the {name} segments of a match were in the path, in their order. */
struct captures {
	struct {
		const char *name;  /* borrowed from the configuration */
		struct view value; /* canonical, never empty; borrowed from the path */
	} list[PATTERN_PARAMS_MAX];
	size_t n;
};

/* The most specific endpoint that matches, or NULL. Method and host are taken from rq;
 * path is canonical (limit/path.h), query as it came. *captures is always set; it may be
 * NULL for who does not want it. */
const struct endpoint *limit_match(const struct config *c, const struct request *rq,
	struct view path, struct view query, struct captures *captures);

/* What a decision is about. Borrowed during limit_decide(). */
struct limit_subject {
	const struct endpoint *endpoint; /* NULL: none matched, site tiers only */
	const struct client *client;
	const struct request *request; /* for templates and costs; NULL: says nothing */
	struct view path;              /* canonical */
	struct view query;             /* as it came */
	struct captures captures;      /* of limit_match(), for {path:...} */
};

/* A decision under way; lives inside the exchange. */
struct decision {
	struct verdict verdict;           /* valid in done and after it */
	void (*done)(struct decision *d); /* set by the caller */

	/* Private. */
	const struct config *config;
	struct take take;
	struct take_tier asks[TIERS_MAX]; /* one per limited tier of verdict, in order */
	struct rate rates[TIERS_MAX];     /* of the asks; two tiers can come to one */
	enum on_error policy; /* strictest of the tiers that may refuse; open without any */
	bool enforces;        /* there are any */
	bool in_memory;       /* the store is memory: there is nothing else to count in */
	struct buf keys;
	bool pending;
};

/* Decides whether the client may call the endpoint (NULL: site tiers only). d is zeroed
 * but for done, or was used before and is not pending. c is borrowed until done; the
 * verdict points into it. about is borrowed during the call. done is
 * called once, perhaps before this returns; d may be gone then.
 *
 * A refusal (403 too) has its tier in verdict.worst. Tiers in shadow are in
 * verdict.tiers, with admitted as it would have been. Where nobody counted (fallback
 * policy open or closed, or a memory store that is full) verdict.tiers is empty.
 *
 * Tiers that come to one store key are one in verdict.tiers: that of the stricter rule,
 * counted with the least count, burst and max_delay of them and the largest cost. */
void limit_decide(struct decision *d, struct store *s, const struct config *c,
	const struct limit_subject *about);
/* Ends a pending decision without done. */
void limit_cancel(struct decision *d);
void limit_release(struct decision *d);

#endif
