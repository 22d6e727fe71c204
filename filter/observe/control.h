/*
 * observe/control.h - the control socket: what weirctl and weir-status talk to.
 *
 * A peer sends one JSON object a line, {"command":"status"}, and gets one object a
 * line back, in the same order: what it asked for, or {"error":"a sentence"}. Who may
 * connect is decided by the socket file's group; nothing here asks again.
 *
 *	status	{"process":{"version","pid","uptime_seconds","started_at",
 *		"config_file","config_age_seconds","reload_failed","started_as",
 *		"resident_bytes"},
 *		"workers":[{"connections_open","exchanges_open","store","store_up"}],
 *		"totals":{"connections_open","exchanges_open"},
 *		"counters":{"requests",...}}
 *
 * A peer can cost only so much: a line of at most CONTROL_LINE_MAX bytes, one answer
 * at a time, and so long to send the one and take the other. It is on the loop it was
 * started on, the main thread's, and no worker ever waits for it.
 */
#ifndef WEIR_OBSERVE_CONTROL_H
#define WEIR_OBSERVE_CONTROL_H

#include <uv.h>

#include "base/buf.h"
#include "config/config.h"

#define CONTROL_LINE_MAX    65536 /* bytes of a request without its newline */
#define CONTROL_PEERS_MAX   32    /* served at once; more are told so, closed, counted */
#define CONTROL_PATIENCE_MS 10000 /* to send a whole line, and to take an answer */

/* What only main knows. Handed out zeroed; strings are borrowed until the call that
 * asked for it returns to the loop. */
struct control_facts {
	const char *config_file; /* as opened */
	const char *started_as; /* a few words: "on its own sockets", "by the web server" */
	int64_t started_us;     /* clock_mono_us() when the process began */
	int64_t loaded_us;      /* ... when the rules in force were read; 0: at the start */
	bool reload_failed;     /* the last reload was not taken */
	size_t n_workers;
};

struct control_worker {
	unsigned slot;               /* what counters_join() gave it */
	char store[STORE_STATE_MAX]; /* copy of its store_state() */
	bool store_up;               /* and of its store_up() */
};

struct control_ops {
	void (*facts)(void *user, struct control_facts *out);
	/* Worker number i, below n_workers. store_state() belongs to the worker's thread,
	 * so the worker leaves a copy where this finds it, under a lock. */
	void (*worker)(void *user, size_t i, struct control_worker *out);
	int64_t patience_ms; /* 0: CONTROL_PATIENCE_MS */
};

struct control;

/* Serves listening_fd, a unix socket, which it owns from now on: closed on failure too,
 * with NULL returned. ops is borrowed until control_stop(). */
struct control *control_start(
	uv_loop_t *loop, int listening_fd, const struct control_ops *ops, void *user);

/* Closes the socket and every peer. The memory is freed once the loop has run its close
 * callbacks; ops are not called any more. NULL is fine. The socket file stays. */
void control_stop(struct control *c);

/* The answer to one line, with its newline, to be freed with free(). NULL when memory
 * is out. Never blocks. */
char *control_answer(const struct control_ops *ops, void *user, struct view line);
/* {"error":"message"} and a newline, likewise. */
char *control_error(struct view message);

#endif
