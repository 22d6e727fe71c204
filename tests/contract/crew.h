/*
 * crew.h - many questions, asked by several workers at once.
 *
 * Each worker is a thread with a loop and a store of its own, as in the filter; the
 * tables they share are the asker's.
 */
#ifndef WEIR_TESTS_CREW_H
#define WEIR_TESTS_CREW_H

#include "asker.h"

/* One question of a trace, of one or two tiers. */
struct errand {
	struct take_tier tiers[2]; /* set by the test, as is all that they point to */
	size_t n_tiers;
	struct take take;
	void *worker;
};

#define CREW_MAX 8

/* Asks all, errand i by worker i % n_workers in their order, at most under_way of each
 * worker's at once (0: all). Returns how many were answered; a loop without an answer for
 * PATIENCE_MS gives up. The asker's own store is not used. */
size_t crew_ask(struct asker *a, struct errand *errands, size_t n, size_t n_workers,
	size_t under_way);

#endif
