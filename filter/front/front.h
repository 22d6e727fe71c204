/*
 * front/front.h - where requests come in and answers go out.
 *
 * A front is one connection from a web server (front/connection.h), or the standard
 * streams of a CGI run (front/cgi.h). It speaks the protocol and nothing else: it
 * reads a head, tells its owner, hands over the body as it comes and frames the
 * answer. It belongs to one worker's loop.
 *
 * For each request the owner sees: head, then any number of body, then body_end; or
 * gone at any time. It writes the answer with front_write() and ends it with
 * front_finish() or front_abort(). After either, and after gone has returned, the
 * front has forgotten the owner and lives on by itself: it sends what is queued,
 * drains or keeps the connection, and frees itself.
 */
#ifndef WEIR_FRONT_FRONT_H
#define WEIR_FRONT_FRONT_H

#include "front/request.h"

struct front;

/* The answer where there is no memory to make one: a constant, and without a length, so
 * that it does for HEAD. */
#define FRONT_NO_MEMORY                                                         \
	"Status: 503 Service Unavailable\r\nContent-Type: application/json\r\n" \
	"Cache-Control: no-store\r\nRetry-After: 1\r\n\r\n"                     \
	"{\"code\":50300,\"message\":\"Out of memory\",\"retry_after\":1}"

enum front_gone {
	FRONT_PEER_LEFT, /* closed, reset, or asked to abort */
	FRONT_PEER_SLOW, /* the body stopped coming, or the answer was not read, for too long */
	FRONT_MALFORMED, /* what came is not the protocol */
	FRONT_STOPPED,   /* weir ends and its patience is over */
	FRONT_FAILED,    /* not enough memory here to go on */
};

/* Up-calls. user is what head returned. */
struct front_events {
	/* A whole head is here, or problem is the status (431) that says why there is
	 * none; rq then has only role and id. The owner takes rq's contents over. What
	 * it returns is the user of later calls. NULL means that it has finished already,
	 * or else that the connection is to be closed without an answer. */
	void *(*head)(void *owner, struct front *f, struct request *rq, int problem);
	void (*body)(void *user, struct view bytes);
	void (*body_end)(void *user);
	/* The queue has room again after front_write() returned false. */
	void (*writable)(void *user);
	void (*gone)(void *user, enum front_gone why);
};

/* What a kind of front does; call through the functions below. */
struct front_kind {
	void (*body_stop)(struct front *f);
	void (*body_resume)(struct front *f);
	bool (*write)(struct front *f, struct view bytes);
	void (*finish)(struct front *f);
	void (*abort)(struct front *f, bool too_short);
};

struct front {
	const struct front_kind *kind;
};

/* Stops or resumes handing over the body, for an owner that has no room for it. What
 * was read already (64 KiB at most) still comes. While stopped nothing is read, and a
 * peer that leaves is noticed within half a second; unless the last of what it sent over
 * TCP still waits for room in our socket. The body's end resumes nothing: an owner that
 * had stopped must, or the peer is not watched at all. A CGI run begins stopped, and is
 * not watched while it is. Resuming twice is fine. */
static inline void front_body_stop(struct front *f)
{
	f->kind->body_stop(f);
}

static inline void front_body_resume(struct front *f)
{
	f->kind->body_resume(f);
}

/* Queues part of the answer, head and body bytes alike; they leave before the loop
 * next waits. False when the queue is full: the bytes are queued all the same, but
 * the owner should wait for writable. */
static inline bool front_write(struct front *f, struct view bytes)
{
	return f->kind->write(f, bytes);
}

/* The answer is complete. */
static inline void front_finish(struct front *f)
{
	f->kind->finish(f);
}

/* The answer broke off: what is queued is sent, and the connection closed in the middle of
 * a record, so that any web server can see it. too_short: it had said how long it would
 * be; nginx then passes on all that came, and otherwise drops what it has not passed on. */
static inline void front_abort(struct front *f, bool too_short)
{
	f->kind->abort(f, too_short);
}

#endif
