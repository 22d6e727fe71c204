/*
 * store/wire.h - one asynchronous hiredis context on a libuv loop, guarded.
 *
 * hiredis 0.14 with its own libuv adapter never reports a refused connection or a
 * reset, leaves its socket to programs we start, and aborts the process on a reply
 * nobody asked for. Here every way a connection can end becomes a fault: a sentence,
 * after which nothing is handed over any more and the owner closes the wire.
 *
 * The wire does not watch the clock: that is its owner's part. It belongs to one loop.
 */
#ifndef WEIR_STORE_WIRE_H
#define WEIR_STORE_WIRE_H

#include <hiredis/hiredis.h>
#include <uv.h>

#include "base/view.h"

#define WIRE_FAULT_MAX 160

struct wire;

struct wire_events {
	/* The reply to the oldest open command, which was sent with that tag. Borrowed
	 * during the call, in which only wire_send() and wire_fail() may be used. */
	void (*reply)(void *owner, void *tag, const redisReply *reply);
	/* Something happened, and everything it brought has been handed over. The owner
	 * should look at wire_fault(), and may close the wire. */
	void (*woken)(void *owner);
};

/* Starts to connect. Commands may be sent at once and go out when it is done. Events
 * come from the loop. NULL, with a sentence in why, when it failed here and now. */
struct wire *wire_open(uv_loop_t *loop, const struct sockaddr *to,
	const struct wire_events *events, void *owner, char why[static WIRE_FAULT_MAX]);

/* Why the wire cannot be used any longer, or NULL. Borrowed until wire_close(). */
const char *wire_fault(const struct wire *w);

/* The fault is that the peer closed in an orderly way while no command was open. */
bool wire_left_idle(const struct wire *w);

/* Queues a whole RESP request. On failure there is a fault. */
bool wire_send(struct wire *w, struct view request, void *tag);

/* Hands over what has come but not been read yet. woken is not called. */
void wire_read(struct wire *w);

/* Gives up, with a reason; an earlier fault stays. */
void wire_fail(struct wire *w, const char *reason);

/* Closes the connection; open commands are forgotten and no event comes any more. Not
 * from within reply. NULL is fine. */
void wire_close(struct wire *w);

#endif
