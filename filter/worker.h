/*
 * worker.h - one loop on one thread, and all that is served there.
 *
 * A worker owns its connections, exchanges and store connection; the rest of the
 * process talks to it only through the calls below, which any thread may make.
 */
#ifndef WEIR_WORKER_H
#define WEIR_WORKER_H

#include "config/config.h"
#include "store/store.h"

struct worker;
struct directory; /* client/directory.h; NULL for none */

/* Starts the thread. NULL, with a sentence in why, when it cannot be had. */
struct worker *worker_start(unsigned number, struct config *c, struct store_shared *shared,
	struct directory *directory, struct buf *why);

/* Hands over an accepted, non-blocking socket. */
void worker_give(struct worker *w, int fd);
/* Connections it has or has been given: what new ones are spread by. */
size_t worker_load(const struct worker *w);

/* Closes some of its kept connections, those idle longest: others want to connect. */
void worker_make_room(struct worker *w);

/* New requests and connections are served by c, which is held by reference. */
void worker_reload(struct worker *w, struct config *c);

/* No request is begun any more; the thread ends once the running ones have, and what goes
 * on without a client (relays_are_alone()), or at once when by_force is set. It waits for
 * no look-up (ending.h). */
void worker_stop(struct worker *w, bool by_force);
bool worker_ended(const struct worker *w);
/* Waits for the thread and frees it. False, and its memory stays, when its look-up of a
 * name has not ended: the process must end by leave(). */
bool worker_join(struct worker *w);

/* For the status: its slot of counters, and its store as store_state() puts it, copied;
 * cap of STORE_STATE_MAX holds all of it. False when it is down. */
unsigned worker_slot(const struct worker *w);
bool worker_store_state(struct worker *w, char *out, size_t cap);

#endif
