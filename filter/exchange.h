/*
 * exchange.h - the life of one request, from its head to the last byte of its answer.
 *
 * An exchange visits the stations in order and waits, without a thread, wherever one
 * has to. exchange.c is the only file that knows the order.
 */
#ifndef WEIR_EXCHANGE_H
#define WEIR_EXCHANGE_H

#include <uv.h>

#include "client/client.h"
#include "front/front.h"
#include "store/store.h"

struct exchange;

/* The exchanges of one worker and what they share. */
struct exchanges {
	uv_loop_t *loop;
	struct store *store;
	struct directory *directory; /* the process's; NULL when none is configured */
	struct config
		*config; /* what new exchanges start with; each holds its own reference */
	struct exchange *all;
	size_t n;
};

/* What a front calls; its owner is the struct exchanges. */
extern const struct front_events exchange_events;

#endif
