/*
 * proxy/relay.h - one request passed on to its backend, and the answer coming back.
 *
 * A relay connects (or starts the program), sends head and spooled body, and reports
 * the answer as it comes, each piece at once. It belongs to one worker's loop. Errors
 * before the head may be retried inside on the backend's next address; what is
 * reported is final.
 *
 * An answer that says how long it is ends there: the owner is told, and the relay gives
 * the backend some time to end too, by itself.
 */
#ifndef WEIR_PROXY_RELAY_H
#define WEIR_PROXY_RELAY_H

#include <uv.h>

#include "config/config.h"
#include "front/request.h"
#include "proxy/answer.h"
#include "proxy/spool.h"

enum relay_end {
	RELAY_WHOLE,     /* the answer is complete */
	RELAY_TRUNCATED, /* it broke off after its head: make that visible */
	/* Before the head; the exchange answers in the backend's place. */
	RELAY_REFUSED,    /* nobody listens, or all are busy: 503 */
	RELAY_OVERLOADED, /* the backend said so: 503 */
	RELAY_CROWDED,    /* as many programs run as may: 503 */
	RELAY_TIMEOUT,    /* connecting, sending or waiting took too long: 504 */
	RELAY_BAD,        /* closed early, empty, not an answer: 502 */
	RELAY_NO_PROGRAM, /* CGI: no such file: 404 */
	RELAY_FORBIDDEN,  /* CGI: outside the root, or not executable: 403 */
	RELAY_TOO_LARGE,  /* a parameter does not fit in a record: 431 */
	/* A path parameter holds CR, LF or NUL: 400. Applications that cut paths up have
	 * been led astray by these (CVE-2019-11043). */
	RELAY_BAD_REQUEST,
	RELAY_FAILED, /* weir itself: no memory, no descriptors, fork failed: 503 */
};

struct relay_events {
	/* The head is there; a->status, a->head. Borrowed during the call. */
	void (*head)(void *user, const struct answer *a);
	void (*body)(void *user, struct view piece);
	/* Last call of all. why is a sentence for the log, static or borrowed during the
	 * call. The relay frees itself after it, in its own time. */
	void (*end)(void *user, enum relay_end how, const char *why);
};

/* What is passed on. Everything is borrowed until end or relay_cancel(). */
struct relay_job {
	const struct backend *backend;
	const struct request *request;
	const struct spool *body;
	struct view path;         /* canonical path, for finding a CGI program */
	struct view query;        /* for its arguments, undecoded */
	const struct pair *extra; /* parameters weir adds: WEIR_CLIENT ... */
	size_t n_extra;
	/* The owner adds these fields to the answer; a backend's own are dropped. */
	bool own_rate_limit, own_x_rate_limit;
};

struct relay;
/* Starts; NULL when memory is out. Events come from the loop, never from inside
 * this call. */
struct relay *relay_start(uv_loop_t *loop, const struct relay_job *job,
	const struct relay_events *events, void *user);
/* Stops and resumes reading the answer, when the web server reads slowly. Up to 64 KiB
 * that were read before may still be reported; no time limit runs while it is stopped.
 * Both may be called from inside head and body. */
void relay_pause(struct relay *r);
void relay_resume(struct relay *r);
/* Ends it without further events: connection closed, program ended (SIGTERM to its
 * process group, SIGKILL after backend.kill_grace_ms), unless backend.client_gone lets
 * it finish. May be called from inside head and body, and not after end. The loop has to
 * run on for what is freed in it: a few handles at once, a program until it is gone. */
void relay_cancel(struct relay *r);

/* Some of the calling thread's relays go on without their owners: backends that have some
 * time to end by themselves, programs that finish without a client. */
bool relays_are_alone(void);
/* none_alone(arg) is called, from the loop or from inside relays_end(), whenever the last
 * of those has ended. Of the calling thread; NULL: nobody is told. */
void relays_tell(void (*none_alone)(void *arg), void *arg);
/* Ends those, and idle connections. Before a loop is to end. */
void relays_end(void);

#endif
