/*
 * front/front.h - where requests come in and answers go out.
 *
 * A front is one connection from a web server, or the standard streams of a CGI
 * run. It speaks the protocol and nothing else: it reads a head, tells its owner,
 * hands over the body as it comes, frames the answer, and decides from what was
 * read whether the connection can be kept. It belongs to one worker's loop.
 *
 * For each request: head, then any number of body, then body_end; or gone at any
 * time. The owner writes the answer with front_write() and ends with
 * front_finish(), front_abort() or front_gone's return; after that the front
 * forgets the owner and lives on by itself: it sends what is queued, drains or
 * keeps the connection, and frees itself.
 */
#ifndef WEIR_FRONT_FRONT_H
#define WEIR_FRONT_FRONT_H

#include <uv.h>

#include "config/config.h"
#include "front/request.h"

struct front;

enum front_gone {
	FRONT_PEER_LEFT, /* closed, reset, or asked to abort */
	FRONT_PEER_SLOW, /* the body stopped coming, or the answer was not read, for too long */
	FRONT_MALFORMED, /* what came is not the protocol */
};

/* Up-calls. user is what head returned. */
struct front_events {
	/* A whole head is here, or problem says why there is none (status 431 or 400;
	 * rq then has role and id only). The owner takes rq's contents over. Returns
	 * what later calls get as user; NULL closes the connection. */
	void *(*head)(void *owner, struct front *f, struct request *rq, int problem);
	void (*body)(void *user, struct view bytes);
	void (*body_end)(void *user);
	/* The queue has room again after front_write() returned false. */
	void (*writable)(void *user);
	void (*gone)(void *user, enum front_gone why);
};

/* Serves connection fd, which it owns from now on (closed on failure too, with false
 * returned). c is held by reference. */
bool front_start(uv_loop_t *loop, int fd, struct config *c,
	const struct front_events *events, void *owner);

/* Stops or resumes handing over the body, for an owner that has no room for it. While
 * stopped, a peer that leaves is not noticed. */
void front_body_stop(struct front *f);
void front_body_resume(struct front *f);

/* Queues part of the answer (head and body bytes alike). False when the queue is full:
 * the bytes are queued all the same, but the owner should wait for writable. */
bool front_write(struct front *f, struct view bytes);
/* The answer is complete. */
void front_finish(struct front *f);
/* The answer broke off: closes without END_REQUEST, so that the web server can see it. */
void front_abort(struct front *f);

#endif
