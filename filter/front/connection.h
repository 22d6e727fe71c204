/*
 * front/connection.h - FastCGI connections from web servers.
 *
 * One struct connections a worker: the connections on its loop, with one place where
 * all that was queued during a turn of the loop is sent.
 */
#ifndef WEIR_FRONT_CONNECTION_H
#define WEIR_FRONT_CONNECTION_H

#include <uv.h>

#include "config/config.h"
#include "front/front.h"

struct connection;

struct connections {
	uv_loop_t *loop;
	const struct front_events *events;
	void *owner;
	/* Called when a connection is gone and freed. */
	void (*closed)(void *owner);

	/* Private. */
	uv_prepare_t flush; /* sends what is queued, before the loop waits */
	struct connection *all, *dirty;
	size_t n;
	bool stopping;
};

/* events and owner are borrowed for good. Returns a libuv error below zero. */
int connections_init(struct connections *set, uv_loop_t *loop,
	const struct front_events *events, void *owner, void (*closed)(void *owner));

/* Serves the connected, non-blocking socket fd, which belongs to the set from now on
 * (it is closed on failure too, where false is returned; closed() is not called then).
 * c is held by reference as long as the connection lives. */
bool connections_add(struct connections *set, int fd, struct config *c);

/* Closes some of those kept without a request, idle longest first. */
void connections_make_room(struct connections *set);
/* No connection is kept any longer: idle ones close now, the others after their
 * answer, those that have brought no request yet after it or half a second. */
void connections_stop(struct connections *set);
/* Closes all that are left; their owners learn FRONT_STOPPED. */
void connections_break(struct connections *set);
/* Closes the set's own handle; the set must be empty. */
void connections_release(struct connections *set);

#endif
