/*
 * store/store.h - where limits are counted.
 *
 * One question is one decision: all tiers of a request, looked at together and
 * charged together or not at all. Redis answers later, memory at once; when Redis
 * is silent the local table answers in its place, so every question is answered
 * within store.timeout, and at once while the workers have found it not worth asking
 * (store/health.h). What Redis has just refused is refused here for up to a second
 * without asking it again (store/denied.h).
 *
 * struct store belongs to one worker and its loop. struct store_shared belongs to
 * the process and is locked inside.
 */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include <uv.h>

#include "config/config.h"
#include "store/rate.h"
#include "verdict.h"

/* One tier of a question. Borrowed until the answer. */
struct take_tier {
	struct view key; /* the whole store key */
	const struct rate *rate;
	uint64_t cost;
	bool shadow; /* changes no outcome; charged only when it admits and all pass */
	enum on_error on_error; /* when Redis is silent; fallback.policy is not looked at */
};

/* One question; lives inside the caller's own structure. */
struct take {
	/* Set by the caller. */
	const struct take_tier *tiers;
	size_t n_tiers;               /* 1 to TIERS_MAX */
	void (*done)(struct take *t); /* once; may come before store_take() returns */

	/* The answer, valid in done and after it. A view that is unknown says nothing but
	 * that its tier did not refuse: it was not looked at. */
	enum decided_by by;
	bool admitted; /* every enforcing tier admitted; all that admitted are charged */
	bool failed; /* nobody could count it (memory ran out): by is FALLBACK. Where memory
			* is the store this is its silence: nothing else is there to count it */
	bool closed; /* Redis did not answer and an enforcing tier is to refuse then: nobody
			* decided, views are empty, by is FALLBACK */
	struct rate_view views[TIERS_MAX]; /* one per tier, in order */
	bool over_total; /* refused by fallback.rate, and no tier was asked: views are
			  * unknown; total says for how long */
	struct rate_view total;
	const struct rate *total_rate; /* over_total: fallback.rate as it is in force, which
					* a reload leaves as it was; for ever */

	/* Private to the store. */
	struct take **link; /* the one pointer the store has to this, or NULL */
	int64_t asked_us;
	uint64_t epoch; /* of the refusals remembered, when it was asked */
	bool probes;    /* asks again what is remembered as refused */
};

struct store_shared;
struct store;

/* Tables and locks of the process. NULL when memory is out. */
struct store_shared *store_shared_new(const struct config *c);
void store_shared_free(struct store_shared *s);
/* Forgets what Redis has refused: after counts were reset, or rules were read anew. What
 * is being asked at that moment is not remembered either. Any thread. */
void store_forget_denied(struct store_shared *s);

/* A worker's store on its loop; starts connecting. It keeps a reference to c. */
struct store *store_new(uv_loop_t *loop, struct config *c, struct store_shared *shared);
/* Takes another configuration, of which it keeps a reference in place of the old one's:
 * time-outs, policies and the password of Redis. Type, servers and sizes stay what they
 * were. */
void store_reload(struct store *s, struct config *c);
/* Whether memory is the store, and not what counts while Redis is silent: as the process
 * was started, whatever a configuration says that came later. */
bool store_is_memory(const struct store *s);
/* Drops the connection and every pending question without calling done. The memory
 * is freed once the loop has run its close callbacks and a look-up under way has ended; a
 * loop that ends before that (ending.h) leaves it. */
void store_close(struct store *s);

void store_take(struct store *s, struct take *t);
/* Forgets a question that is still pending; done will not be called. */
void store_cancel(struct take *t);

/* For people: "memory", "redis", or "redis (down: why)", in less than STORE_STATE_MAX bytes.
 * Borrowed until the loop runs on. */
const char *store_state(const struct store *s);
/* False while it is down, and the fallback decides. */
bool store_up(const struct store *s);

#endif
