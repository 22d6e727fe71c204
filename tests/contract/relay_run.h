/*
 * A relay with everything around it, for tests: a request, a body, an owner that
 * collects what it is told, a loop that runs until nothing is left in it, and a
 * FastCGI backend whose bytes the test decides.
 */
#ifndef WEIR_TESTS_RELAY_RUN_H
#define WEIR_TESTS_RELAY_RUN_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

#include "proxy/relay.h"

/* One call: what it is given, and what came of it. Zeroed but for run_init(). */
struct run {
	struct backend backend;
	struct request request;
	struct spool body;
	struct pair extra[4];
	size_t n_extra;
	struct view path, query;
	bool own_rate_limit, own_x_rate_limit;

	/* What the owner does, besides listening. */
	bool cancel_at_once, cancel_in_head, cancel_in_body;
	int64_t cancel_after_ms; /* 0: not */
	bool then_end;           /* and then ends what is left behind, as a worker does */
	int64_t pause_ms;        /* pauses at each piece of the body for so long */

	/* What it was told. */
	int heads, ends;
	int status;
	struct buf head, answer;
	enum relay_end how;
	char why[256];
	int64_t took_ms; /* from its start to its end */

	/* Private. */
	struct relay *relay;
	uv_loop_t *loop;
	uv_timer_t resume, cancel;
	uint64_t began_ms;
	bool starting, paused;
	size_t since_pause; /* bytes that came all the same */
};

/* params: "NAME=value" lines. Limits are generous until the test says otherwise. */
void run_init(struct run *r, enum backend_kind kind, const char *params);
void run_body(struct run *r, struct view bytes);
/* Starts all at once and runs the loop until it is empty; fails when that takes half a
 * minute, when a handle is left, or when an event came too often or too early. */
void run_all(struct run *runs, size_t n);
void run(struct run *r);
/* One after the other in one loop, as a worker has it. */
void run_in_turn(struct run *runs, size_t n);
void run_release(struct run *r);
/* Runs, and compares the end, the status (0: no head) and the body (NULL: any). */
void run_expect(struct run *r, enum relay_end how, int status, const char *body);

/* Lines logged since the last call, as text. */
const char *logged(void);

/* What a backend saw of one connection. */
struct seen {
	struct buf params; /* pairs, joined */
	struct buf stdin_bytes;
	int begins, params_ends, stdin_ends;
	unsigned role, flags;
	bool cut_pair; /* a pair lay in two records */
};

struct fake {
	char path[64];
	int listening;
	pthread_t thread;
	/* Called for each connection, one after the other; closes nothing. */
	void (*serve)(struct fake *f, int fd);
	const void *script; /* for serve */
	struct seen seen;   /* of the last connection that was read */
	atomic_int served;
	int delay_ms; /* before the first accept */
	atomic_bool stop;
};

/* Listens; the thread starts with it. backlog as for listen(). */
void fake_start(struct fake *f, int backlog);
/* Waits for its thread; seen is safe to read then, until fake_release(). */
void fake_stop(struct fake *f);
void fake_release(struct fake *f);
/* Puts it among the addresses of the run's backend. */
void run_add_address(struct run *r, const char *path);

/* For serve functions. Writing to a peer that has gone is no error. */
bool fake_read_request(struct fake *f, int fd); /* to the end of STDIN */
void fake_read_head(struct fake *f, int fd);    /* to the end of PARAMS */
void fake_say(int fd, unsigned type, unsigned id, struct view text);
void fake_end(int fd, unsigned protocol_status);
void fake_write(int fd, struct view bytes);
void sleep_ms(int ms);

#endif
