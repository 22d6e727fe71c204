/*
 * exchange_state.h - the inside of an exchange, shared by the two files that make it:
 * exchange.c (the stations and their order) and answering.c (what goes back to the
 * client, and what is logged of it). Nobody else includes it.
 */
#ifndef WEIR_EXCHANGE_STATE_H
#define WEIR_EXCHANGE_STATE_H

#include "exchange.h"
#include "limit/limit.h"
#include "proxy/relay.h"
#include "proxy/reply.h"
#include "proxy/spool.h"

enum station {
	AT_HEAD,    /* is there a head, and does it make sense */
	AT_CLIENT,  /* who is asking: until the directory has answered */
	AT_MATCH,   /* which endpoint, which backend */
	AT_DECIDE,  /* until the store has answered */
	AT_HOLD,    /* leaky bucket: until its turn comes */
	AT_BODY,    /* until the body is spooled */
	AT_BACKEND, /* until the backend has answered; its answer passes through */
	AT_REPLY,   /* our own answer goes out */
	AT_END,
};

enum step {
	STEP_NEXT, /* on to the next station, or to the one that was set */
	STEP_PARK, /* an event will call exchange_run() again */
};

/* A timer outlives its exchange by the turn of the loop that closing it takes. */
struct hold {
	uv_timer_t timer;
	struct exchange *exchange;
};

struct exchange {
	struct exchanges *set;
	struct exchange *next, **link;
	struct config *config;
	struct front *front;

	enum station at;
	bool running; /* exchange_run() is on the stack: events only leave their mark */
	bool identified, decided;
	bool body_ended;
	bool body_stopped;
	bool counted;             /* among those that server.max_requests allows */
	bool has_length;          /* the answer passing through has said how long it is */
	bool relay_full;          /* the relay is paused until the front has room */
	int problem;              /* the front's: status to answer with */
	enum spool_result stored; /* of the body, as far as it has come */

	struct request rq;
	struct buf scratch;           /* path where REQUEST_URI is missing */
	struct buf path;              /* canonical */
	struct request_target target; /* as sent */
	struct client client;
	struct limit_subject subject;  /* what the decision is about, the endpoint in it */
	const struct backend *backend; /* NULL: nobody to ask */
	struct decision decision;
	struct hold *hold; /* while it waits for its turn */
	struct spool body;
	struct relay *relay;
	struct pair extra[4]; /* what handlers are told */
	struct reply reply;

	int64_t started_us;
	int status;        /* of the answer; 0 until one is chosen */
	uint64_t answer_n; /* bytes of it */
};

/* exchange.c: goes on from where it stands. False when the exchange is over, and freed. */
bool exchange_run(struct exchange *x);
/* Whether it asks weir as an authorizer: a yes or no, never a body or a backend. */
bool exchange_is_authorizer(const struct exchange *x);
/* The end: logs and frees. */
void exchange_finish(struct exchange *x);

/* answering.c: each of these puts an answer of our own in place of whatever station comes
 * next. */
enum step answer_error(struct exchange *x, int status, const char *message);
/* 503, for a while: something of weir's or the machine's has run out. reason is a word for
 * programs, and its names are in the manual. */
enum step answer_busy(struct exchange *x, const char *reason, const char *message);
enum step answer_refusal(struct exchange *x);
enum step answer_allowed(struct exchange *x);
/* Sends that answer. */
enum step answer_send(struct exchange *x);
/* Calls the backend; its answer passes through. */
enum step answer_from_backend(struct exchange *x);
/* The line about a request that is over; event says how. */
void answer_log(const struct exchange *x, const char *event);

#endif
