/*
 * sim.h - a loop and sockets in memory, for drivers of what speaks over them.
 *
 * It defines the functions of libuv that filter/ uses for connections and timers, and
 * the linker puts it in the places of socket(), read() and so on for descriptors of its
 * own (meson.build). So a driver plays the peer: it gives bytes, in pieces, takes what is
 * sent as far as it likes, closes, resets, and lets time pass; and an input always does
 * the same, at the speed of memory.
 *
 * As in libuv: nothing is called but from sim_turn(), a turn is timers, prepare, events
 * of descriptors and closing, each descriptor has at most one event of a kind a turn, and
 * what is being written when a handle closes is told UV_ECANCELED.
 */
#ifndef WEIR_TESTS_SIM_H
#define WEIR_TESTS_SIM_H

#include <uv.h>

#include "base/buf.h"

#define SIM_PIECES_MAX  16384
#define SIM_SOCKETS_MAX 64
#define SIM_ROOM        SIZE_MAX

/* One connection, as its peer sees it. */
struct sim_socket {
	bool open;       /* our side has not closed it */
	bool shut;       /* our side has shut its writing side */
	size_t room;     /* bytes the peer still takes; SIM_ROOM at first */
	struct buf out;  /* what it was sent */
	bool connecting; /* until sim_connected() */
	int error;       /* of connecting, or the connection: an errno */
	bool eof;        /* the peer has closed; what is given afterwards never arrives */

	/* Private. */
	struct view pieces[SIM_PIECES_MAX];
	size_t first, n;
};

extern uv_loop_t sim_loop;

/* What connect() says: 0, EINPROGRESS, or another errno. Set it before. */
extern int sim_connect_says;

/* A connected socket that somebody has accepted; its descriptor. */
int sim_socket_new(void);
/* The socket of a descriptor of this file's. */
struct sim_socket *sim_socket(int fd);
/* The one that was made or sent something last, or NULL when there is none. */
struct sim_socket *sim_last(void);

/* Bytes on their way to us, each piece read by itself. Borrowed until sim_end(). */
void sim_give(struct sim_socket *s, struct view piece);
void sim_eof(struct sim_socket *s);
void sim_reset(struct sim_socket *s);
void sim_connected(struct sim_socket *s, int error);

/* One turn of the loop; false when nothing happened in it. */
bool sim_turn(void);
/* Turns until nothing happens. */
void sim_settle(void);
void sim_pass(int64_t ms);

/* After everything was closed: nothing may be left. Forgets all. */
void sim_end(void);

/* For LLVMFuzzerTestOneInput(): what is seen of an input is the same in any cut. run returns
 * what was seen, to be released; cut is the size of the pieces that are given. */
int sim_in_any_cut(
	const uint8_t *data, size_t size, struct buf (*run)(struct view in, size_t cut));

#endif
