/*
 * front/dialogue.h - the inside of a connection, shared by the files that make it:
 * connection.c (handles, time, sending, life), dialogue.c (what records mean) and
 * connections.c (a worker's set of them). Nobody else includes it.
 */
#ifndef WEIR_FRONT_DIALOGUE_H
#define WEIR_FRONT_DIALOGUE_H

#include "front/connection.h"

enum connection_state {
	CONN_IDLE,  /* until a BEGIN_REQUEST; what is not ours is skipped */
	CONN_HEAD,  /* PARAMS coming */
	CONN_BODY,  /* the owner works; STDIN coming */
	CONN_BUSY,  /* the owner works; STDIN is at its end, the peer is only watched */
	CONN_FLUSH, /* the answer is complete and being sent */
	CONN_TAIL,  /* it is sent; the end of an empty STDIN is due any moment */
	CONN_DRAIN, /* our side is shut; input is discarded until the peer closes */
	CONN_GONE,  /* handles are closing */
};

/* What becomes of the connection once its answer is sent. While the end of STDIN may
 * still change that, input is read as records; else it is not parsed any more. */
enum connection_after {
	AFTER_KEEP,  /* for the next request */
	AFTER_TAIL,  /* kept as soon as STDIN, which has no content, ends */
	AFTER_LAST,  /* CLOSE if STDIN, which has no content, ends by then, else DRAIN */
	AFTER_REST,  /* KEEP if the rest of STDIN is here already, else DRAIN */
	AFTER_CLOSE, /* at once */
	AFTER_DRAIN, /* when the peer has closed, or the patience for what it sends is over */
};

struct connection {
	struct front front;
	struct connections *set;
	struct connection *next, **link; /* in set->all */
	struct connection *dirty_next;   /* in set->dirty while dirty */
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_pipe_t pipe;
		uv_tcp_t tcp;
	} io;
	uv_timer_t timer;
	uv_write_t write_req;
	int handles; /* open handles; the struct is freed with the last */
	struct config *config;

	enum connection_state state;
	enum connection_after after;
	void *user;             /* the owner's, in CONN_BODY and CONN_BUSY */
	uint16_t id;            /* of the request at hand */
	bool keep;              /* the peer asked for it */
	bool bodiless;          /* CONTENT_LENGTH promises no body */
	bool ended;             /* STDIN has */
	bool served;            /* a whole head has come on this connection before */
	bool reading;           /* uv_read_start() is in force */
	uint64_t idle_since_ms; /* uv_now(), in CONN_IDLE */
	bool dirty;
	bool full;        /* front_write() returned false; writable is owed */
	bool peer_closed; /* end of input seen */
	uint64_t drained; /* bytes discarded behind the answer */
	size_t unsent;    /* of sending, when the send timer was last set */

	struct record_reader reader;
	unsigned char begin[8]; /* of a BEGIN_REQUEST, as it comes */
	uint8_t begin_n;
	struct buf values; /* of a GET_VALUES, as it comes */
	struct request rq; /* in CONN_HEAD */

	struct buf out;     /* waits to be sent */
	struct buf sending; /* given to libuv */
	bool write_pending;
};

/* connection.c: */
extern const struct front_kind connection_kind;
void connection_enter(struct connection *c, enum connection_state state);
/* (Re)starts the only timer: the peer is too slow after ms. */
void connection_arm(struct connection *c, int64_t ms);
/* Something was appended to out: send it before the loop waits. */
void connection_mark_dirty(struct connection *c);
/* As connection_mark_dirty(), for answers that no owner waits for: a peer that asks for
 * more of them than it reads is let go. */
void connection_answered(struct connection *c);
/* The request is over for the owner; what is queued still goes out, then after. */
void connection_end_request(struct connection *c, enum connection_after after);
void connection_die(struct connection *c);
/* Ends it under the owner's feet, who is told why. */
void connection_lose(struct connection *c, enum front_gone why);
/* Starts or stops the timer as the state it is in wants it. */
void connection_arm_for_state(struct connection *c);
/* Sends all that was queued in a set: what connections.flush calls. */
void connection_flush_dirty(uv_prepare_t *prepare);
/* The peer broke the protocol: counted, logged once a minute, closed. */
void connection_malformed(struct connection *c, const char *what);

/* dialogue.c: takes bytes as they come, and calls the owner. */
void dialogue_take(struct connection *c, struct view in);

#endif
