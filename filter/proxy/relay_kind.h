/*
 * proxy/relay_kind.h - what the two kinds of relay share; for relay*.c only.
 *
 * relay.c knows the request's states, its clock, the answer and how it ends;
 * relay_fastcgi.c and relay_cgi.c know where bytes come from. A kind reports what
 * happened and relay.c decides what the owner is told, once.
 *
 * Sockets and pipes are watched with uv_poll and read and written here, not by uv
 * streams: a full listen queue (EAGAIN from connect) and a refused write are seen
 * where they happen, SIGPIPE never arises, and no request keeps a buffer while it
 * waits: each thread has one piece of memory through which all its bytes pass.
 */
#ifndef WEIR_PROXY_RELAY_KIND_H
#define WEIR_PROXY_RELAY_KIND_H

#include "proxy/relay.h"

#define RELAY_PIECE 65536 /* bytes read or written at once */

enum relay_state {
	RELAY_NEW,     /* until the loop comes round: nothing fails inside relay_start() */
	RELAY_RETRY,   /* all listen queues are full: until it is time to knock again */
	RELAY_CONNECT, /* until the socket is connected, or the program executed */
	RELAY_SEND,    /* parameters and body going out, no answer yet */
	RELAY_WAIT,    /* all is sent: until the answer's first byte */
	RELAY_HEAD,    /* until the answer's head is complete */
	RELAY_BODY,    /* copying, whichever side is slower sets the pace */
	RELAY_LEAVE,   /* CGI: output or program ended, a moment's wait for the other */
	RELAY_ALONE,   /* its owner is gone: until the backend ends, or its time is over */
	RELAY_DONE,    /* ended or cancelled; handles are being closed */
};

struct relay_kind {
	size_t size; /* of the struct that starts with struct relay */
	/* Begins, called once from the loop. */
	void (*start)(struct relay *r);
	/* Reading was paused or resumed: watch accordingly. Reads nothing itself. */
	void (*flow)(struct relay *r);
	/* The state's time is over. False: nothing special, relay.c ends it. */
	bool (*expired)(struct relay *r);
	/* The answer has all of its length, but the backend has not ended. May take the
	 * owner its relay with relay_go_alone(). Called for each piece that comes then. */
	void (*complete)(struct relay *r);
	/* The owner cancels. True when the backend is to go on all the same; the relay
	 * then goes alone. */
	bool (*outlives)(const struct relay *r);
	/* Closes and frees what the kind holds. whole: the answer is complete. */
	void (*stop)(struct relay *r, bool whole);
};
extern const struct relay_kind relay_fastcgi_kind;
extern const struct relay_kind relay_cgi_kind;

/* What a backend writes to its error stream, on its way to the log line by line. */
struct relay_errors {
	struct buf line;
	size_t taken;   /* bytes that went to the log */
	size_t dropped; /* bytes over what one request may write */
};

struct relay {
	uv_loop_t *loop;
	const struct relay_kind *kind;
	enum relay_state state; /* changed by relay_enter() only */
	bool paused;
	struct relay_job job; /* what it borrows is gone once the state is ALONE or DONE */
	char id[REQUEST_ID_LEN + 1], backend[64]; /* for the log */
	struct relay_events events;
	void *user;
	struct answer answer;
	struct relay_errors errors;
	uv_timer_t timer;
	uint64_t deadline_ms; /* uv_now() at which the state's time is over */
	uint64_t timeout_ms;  /* of the state; 0 for none */
	uint64_t end_ms;      /* when all of it must be over; 0: no limit */
	bool alone_whole;     /* in ALONE: the answer was complete */
	struct relay *alone_next, **alone_link; /* in ALONE: those of this thread */
};

/* The door to every state: sets its time limit. for_ms is the limit of RETRY, LEAVE and
 * ALONE, and unless 0 of WAIT; else it comes from the backend's configuration. */
void relay_enter(struct relay *r, enum relay_state state, uint64_t for_ms);
/* Something moved: the state's time starts anew. */
void relay_touch(struct relay *r);

/* Answer bytes from the backend. False when the relay is over (perhaps cancelled by
 * its owner meanwhile): then touch nothing of it but its memory. */
bool relay_feed(struct relay *r, struct view bytes);
/* Bytes of the backend's error stream. */
void relay_feed_errors(struct relay *r, struct view bytes);

/* The end: reports it and releases all. why as for relay_events.end. Never from inside
 * relay_start() and relay_cancel(). */
void relay_finish(struct relay *r, enum relay_end how, const char *why);
/* The same with errno err explained behind why. */
void relay_finish_errno(struct relay *r, enum relay_end how, const char *why, int err);
/* The output is over and the answer decides what that means. clean: the backend ended
 * as it should, so an answer of unknown length is whole; otherwise why says what it
 * did instead. */
void relay_judge(struct relay *r, bool clean, const char *why);
/* The answer says by itself that nothing is missing (its length, its last chunk). */
bool relay_answer_is_whole(const struct relay *r);

/* Lets the owner go: it is told RELAY_WHOLE when the answer is complete, and nothing
 * when it has cancelled. What the backend still says is thrown away. When it has not
 * ended for_ms later (for one that was cancelled, for_ms after it last said something) it
 * is made to. */
void relay_go_alone(struct relay *r, bool whole, uint64_t for_ms);
/* For relay.c, when such a one is over and all it held is released; nothing for others. */
void relay_forget_alone(struct relay *r);

/* The parameter that must not be passed on because of CR, LF or NUL in it, or NULL. */
const char *relay_unsafe_param(const struct request *rq);
/* Whether weir's own word or the operator's (backend.env) stands in the place of this
 * parameter, or it must not reach a backend at all. */
bool relay_withholds(const struct relay_job *job, struct view name);
/* Whether CONTENT_LENGTH is to be given although the request brought none: there is a
 * body, or the method promises one. */
bool relay_needs_length(const struct relay_job *job);

/* The calling thread's memory for one piece, for use within one callback. */
char *relay_piece(void);

/* A descriptor being watched. It outlives its relay by the turn of the loop that
 * closing takes, so it is freed on its own. */
struct relay_watch {
	uv_poll_t poll;
	int fd;
	int wanted; /* events being watched for; 0: none */
	struct relay *relay;
	/* On an error of the descriptor both events are reported: reading and writing
	 * say what is wrong. */
	void (*ready)(struct relay *r, int events);
};
/* Takes fd over (it is closed on failure too). NULL when memory is out. */
struct relay_watch *relay_watch_new(
	struct relay *r, int fd, void (*ready)(struct relay *r, int events));
/* Watches for these UV_ events, 0 for none. */
void relay_watch_set(struct relay_watch *w, int events);
/* Closes *w, if any, and makes it NULL. */
void relay_watch_close(struct relay_watch **w);
/* The same, but the descriptor stays open and is the caller's. */
int relay_watch_release(struct relay_watch **w);

#endif
