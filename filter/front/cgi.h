/*
 * front/cgi.h - weir run as a CGI program (RFC 3875): one request from the environment
 * and standard input, one answer to standard output.
 *
 * There is one exchange in the process, so reading the body and writing the answer
 * may block; time limits are the web server's.
 */
#ifndef WEIR_FRONT_CGI_H
#define WEIR_FRONT_CGI_H

#include <uv.h>

#include "front/front.h"

struct cgi_front {
	struct front front;
	const struct front_events *events;
	void *user;     /* NULL once the exchange is over */
	uv_idle_t pump; /* reads the body, a piece a turn of the loop */
	uint64_t body_left;
	bool body_ended;
	bool output_broken; /* nobody reads the answer: told at the next turn */
};

/* Takes the request from environ and descriptor 0 and hands it to owner. cf must live
 * until the loop has ended, which it does by itself after the exchange. */
void cgi_front_start(struct cgi_front *cf, uv_loop_t *loop,
	const struct front_events *events, void *owner);

#endif
