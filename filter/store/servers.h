/*
 * store/servers.h - the addresses at which Redis may be, one after the other.
 *
 * The servers of store.url in their order, and of each the addresses of its name, which
 * is looked up anew in each round, on a thread of libuv's pool. A look-up has no time limit
 * but the resolver's, and what has begun cannot be cancelled. Meanwhile no loop waits: a
 * link has no connection and its questions are answered without Redis. Of the pool's four
 * threads libuv gives two to look-ups (1.44, UV__WORK_SLOW_IO in src/threadpool.c): further
 * ones wait for those, the directory's questions and a reload do not. A loop ends without
 * it (ending.h).
 *
 * Belongs to one loop.
 */
#ifndef WEIR_STORE_SERVERS_H
#define WEIR_STORE_SERVERS_H

#include <uv.h>

#include "config/config.h"

#define SERVERS_WHERE_MAX 128
#define SERVERS_WHY_MAX   160

struct servers {
	uv_loop_t *loop;
	struct config *config;         /* a reference */
	size_t at;                     /* the one whose turn it is */
	bool begun;                    /* its addresses have been asked for */
	char where[SERVERS_WHERE_MAX]; /* what it is called in the log */
	char why[SERVERS_WHY_MAX];     /* of a look-up that failed, or empty */

	void (*found)(void *owner);
	void *owner;
	uv_getaddrinfo_t lookup;
	bool looking_up; /* and nothing of this may be freed */
	struct addrinfo *addresses, *next;
};

/* Over c->store.servers, of which there is one at least. found is called from the loop
 * when a look-up has ended, also after servers_stop(), if the loop still runs then. */
void servers_init(struct servers *s, uv_loop_t *loop, struct config *c,
	void (*found)(void *owner), void *owner);
/* No further address; a look-up under way still ends with found. */
void servers_stop(struct servers *s);
/* After servers_stop(), when no look-up is under way. */
void servers_release(struct servers *s);

/* Starts a round, at the first server. */
void servers_rewind(struct servers *s);
/* Goes to the next server. False when there is none. */
bool servers_advance(struct servers *s);

enum servers_next {
	SERVERS_ADDRESS, /* *to is the next, borrowed until the next call */
	SERVERS_LATER,   /* ask again in found */
	SERVERS_NONE,    /* this server has no more; if a look-up failed why says so */
};
enum servers_next servers_next(struct servers *s, const struct sockaddr **to);

/* The one whose turn it is. */
const struct redis_server *servers_current(const struct servers *s);

#endif
