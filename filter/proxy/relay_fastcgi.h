/*
 * proxy/relay_fastcgi.h - the inside of a request to a FastCGI application, for the two
 * files that make it: relay_fastcgi.c (what is said on a connection) and
 * relay_fastcgi_find.c (whose it is).
 */
#ifndef WEIR_PROXY_RELAY_FASTCGI_H
#define WEIR_PROXY_RELAY_FASTCGI_H

#include "proxy/addresses.h"
#include "proxy/relay_kind.h"

#define END_REQUEST_LEN 8

struct relay_fastcgi {
	struct relay relay;
	struct relay_watch *watch; /* the connection; NULL between two attempts */
	struct buf head;           /* BEGIN and PARAMS; freed once they are sent */
	size_t head_sent;
	uint64_t stdin_at, stdin_n; /* bytes of STDIN sent, and in all */
	bool sending;               /* head or STDIN are not out yet */
	bool stdout_over;           /* its empty record was seen */
	bool kept;                  /* the connection has served before */
	int unread;                 /* on it, when the head was sent; 0: it was read */
	bool keepable;              /* and may serve again */
	struct record_reader reader;
	unsigned char end[END_REQUEST_LEN]; /* body of END_REQUEST */
	uint8_t end_n;

	/* Finding somebody who takes the connection. Sets of addresses: bit i is the
	 * address i. */
	struct addresses *addresses; /* a reference; NULL until it starts */
	int at;                      /* the address in use; -1: none */
	uint64_t tried;              /* in this round */
	uint64_t spent;              /* not to be asked again for this request */
	uint64_t blamed;             /* whose failure is counted */
	bool not_well;           /* the address in use has shown nothing good this time */
	bool repeatable;         /* it may go out on more than one */
	bool fresh;              /* no kept connection any more */
	bool queue_full;         /* one of this round's listen queues was */
	bool overdue;            /* one did not connect in time */
	bool overloaded;         /* one said so */
	unsigned broken;         /* so many closed without a word */
	int refused_errno;       /* of the last that refused */
	uint64_t knock_until_ms; /* when full listen queues count as refused */
	uint64_t backoff_ms;
	uint64_t keep,
		keep_idle_ms; /* of the backend's configuration, which may go first */
};

static inline uint64_t fastcgi_bit(int address)
{
	return UINT64_C(1) << address;
}

/* -- relay_fastcgi_find.c ---------------------------------------------------------- */

/* Looks for a connection; goes on looking, among those not yet tried. Each ends with one
 * under way, a pause, or the relay over. */
void fastcgi_find_start(struct relay_fastcgi *f);
void fastcgi_find_next(struct relay_fastcgi *f);
/* Gives the connection up and brings the request elsewhere from its beginning. */
void fastcgi_try_elsewhere(struct relay_fastcgi *f);
/* The same when the connection had served before: the address may be asked again. */
void fastcgi_try_afresh(struct relay_fastcgi *f);
/* The address in use has failed. A request counts once against each, though it may knock
 * often. Not for what the client or the operator's limits have ended. */
void fastcgi_blame(struct relay_fastcgi *f, const char *why);
/* Closes the connection, if there is one, and leaves its address. */
void fastcgi_leave(struct relay_fastcgi *f);

/* -- relay_fastcgi.c --------------------------------------------------------------- */

/* Writes the request's head and sets all back to its beginning. False: it ended. */
bool fastcgi_prepare(struct relay_fastcgi *f);
/* Watches for what is awaited. */
void fastcgi_flow(struct relay *r);
/* The connection can be read or written. */
void fastcgi_ready(struct relay *r, int events);

#endif
