/*
 * store/link.h - one worker's way to Redis: finding it, connecting, greeting it, and
 * trying again.
 *
 * A link is ready once Redis has been greeted (store/greeting.h) and has counted in a
 * key that stands for nobody, so one that is read-only, full or still loading is not
 * ready. Whatever goes wrong afterwards ends the connection; the next attempt begins at
 * least LINK_RETRY_MS after the last one did.
 *
 * While the breaker is open (store/health.h) no attempt is made but by the link that
 * has the turn: connecting and greeting are the probe. One that has begun before hangs up
 * within LINK_LOOK_MS; one that finds that its turn is another's by now calls no further
 * address. A link that is connected then counts once more in that key instead. So a probe
 * charges nobody and nobody waits for it. The others look every LINK_LOOK_MS whether it
 * has closed.
 *
 * Belongs to one loop. The process must ignore SIGPIPE.
 */
#ifndef WEIR_STORE_LINK_H
#define WEIR_STORE_LINK_H

#include <uv.h>

#include "store/health.h"
#include "store/wire.h"

#define LINK_RETRY_MS 300
#define LINK_LOOK_MS  100
/* Connecting may take longer than an answer: nobody waits for it. */
#define LINK_CONNECT_LEAST_MS 250

struct link;

/* From the loop, never from within a call below, but for reply from link_read(). */
struct link_events {
	/* Commands may be sent. */
	void (*ready)(void *owner);
	/* As wire_events.reply, for what the owner has sent. */
	void (*reply)(void *owner, void *tag, const redisReply *reply);
	/* The connection is gone, and with it every open command. */
	void (*lost)(void *owner);
	/* Nobody should wait for the link any longer, until it is ready. */
	void (*down)(void *owner);
	/* Something of the above happened, and all that could be in the way of its
	 * consequences has returned. */
	void (*woken)(void *owner);
	/* After link_close(): the memory is about to be freed. */
	void (*closed)(void *owner);
};

/* Starts to connect to c->store.servers, of which there is one at least, without blocking:
 * to the first that is ready, and from the first again at each attempt. It keeps a
 * reference to c; health is borrowed. NULL when memory is out. */
struct link *link_new(uv_loop_t *loop, struct config *c, struct health *health,
	const struct link_events *events, void *owner);
/* Takes another configuration, borrowed until the next. The servers stay those of the
 * first. */
void link_reload(struct link *l, const struct config *c);
void link_close(struct link *l);

/* Whether commands may be sent now; whether they may be by and by, so that waiting may be
 * worth it. */
bool link_is_ready(const struct link *l);
bool link_is_hopeful(const struct link *l);

/* Queues a whole request. When it fails the connection is about to end. */
bool link_send(struct link *l, struct view request, void *tag);
/* Loads the script once more, if that is not under way. */
void link_load_script(struct link *l);
/* Hands over what has come but not been read yet. */
void link_read(struct link *l);
/* Ends the connection, for that reason, soon after the call. */
void link_fail(struct link *l, const char *why);
/* Who waited has waited too long: it is down until it is ready. */
void link_give_up(struct link *l, const char *why);
/* Sees to it that somebody probes while the breaker is open. */
void link_poke(struct link *l);

/* Why nobody should wait for it, or NULL. Borrowed until the loop runs on. */
const char *link_why(const struct link *l);
/* What Redis is called in the log. */
const char *link_where(const struct link *l);

#endif
