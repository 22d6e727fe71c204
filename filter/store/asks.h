/*
 * store/asks.h - commands to Redis, in lists that are first in, first out.
 *
 * The question a command belongs to may be cancelled at any time; the command then
 * stays where it is, without one, because its reply will come all the same.
 */
#ifndef WEIR_STORE_ASKS_H
#define WEIR_STORE_ASKS_H

#include "store/store.h"

struct ask {
	struct ask *next;
	struct take *take; /* NULL: cancelled */
	int64_t asked_us;
	int64_t sent_us; /* when it was first put on the wire; 0: not yet */
	bool replayed;   /* after NOSCRIPT; once only */
	bool counted;    /* at its end: Redis decided */
};

struct asks {
	struct ask *head, **tail;
};

void asks_init(struct asks *l);
void asks_push(struct asks *l, struct ask *a);
/* The oldest, or NULL. */
struct ask *asks_pop(struct asks *l);
/* When the oldest was asked; INT64_MAX for an empty list. Replays stand behind younger
 * ones, so this looks at all of them. */
int64_t asks_oldest_us(const struct asks *l);
/* How many were asked at that moment or before. */
uint64_t asks_until(const struct asks *l, int64_t at_us);
/* Frees all; their questions are free again. */
void asks_release(struct asks *l);

/* NULL when memory is out. t is tied to the ask. */
struct ask *ask_new(struct take *t, int64_t now_us);
/* Unties the question and frees the ask. Returns the question, or NULL. */
struct take *ask_free(struct ask *a);

#endif
