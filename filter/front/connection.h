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
	struct config *config;
	uv_prepare_t flush; /* sends what is queued, before the loop waits */
	struct connection *all, *dirty;
	size_t n;
	bool stopping;
};

/* events and owner are borrowed for good. Returns a libuv error below zero. */
int connections_init(struct connections *set, uv_loop_t *loop,
	const struct front_events *events, void *owner, void (*closed)(void *owner));

/* What holds for connections and requests that begin from now on; at least once before
 * the first. Borrowed until the next call; who began under it holds a reference. */
void connections_configure(struct connections *set, struct config *c);

/* Serves the connected, non-blocking socket fd, which belongs to the set from now on
 * (it is closed on failure too, where false is returned; closed() is not called then). */
bool connections_add(struct connections *set, int fd);

/* Closes some of those kept without a request, idle longest first. */
void connections_make_room(struct connections *set);
/* No connection is kept any longer: idle ones close now, the others after their
 * answer, those that have brought no request yet after it or half a second, and those
 * whose answer is sent but whose peer still sends after two seconds. */
void connections_stop(struct connections *set);
/* Closes all that are left; their owners learn FRONT_STOPPED. */
void connections_break(struct connections *set);
/* Closes the set's own handle; the set must be empty. */
void connections_release(struct connections *set);

#endif
