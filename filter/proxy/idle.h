/*
 * proxy/idle.h - connections to FastCGI applications, kept for a later request.
 *
 * Each thread keeps its own, since a connection belongs to a loop. One that the
 * application closes, or on which it says anything, is closed at once. php-fpm lends a
 * process to each connection, idle or not; so few are kept, and not for long. Each holds
 * the addresses of its backend, by which it is found again.
 */
#ifndef WEIR_PROXY_IDLE_H
#define WEIR_PROXY_IDLE_H

#include <uv.h>

#include "proxy/addresses.h"

/* A connection to that address which was quiet just now, the youngest, or -1. The
 * caller's from here on. */
int idle_take(const struct addresses *backend, int address);

/* Takes fd over. Of one backend at most at_most are kept, of which the oldest makes
 * room; each is closed after for_ms. at_most 0 closes it, and so does a reload that has
 * dropped the backend. */
void idle_put(uv_loop_t *loop, struct addresses *backend, int address, int fd,
	uint64_t at_most, uint64_t for_ms);

/* After a reload: of what the calling thread keeps, closes what c has no backend for, and
 * what is more than its backend.keep. */
void idle_configure(const struct config *c);

/* Closes all that the calling thread keeps. They do not keep its loop running, but it
 * cannot be closed before. */
void idle_close_all(void);

#endif
