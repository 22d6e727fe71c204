/*
 * proxy/sending.h - the bytes of a request as a FastCGI application is sent them.
 *
 * Head (BEGIN_REQUEST and PARAMS) is built once; STDIN is a function of the spooled
 * body and a position, so it costs no memory and what a socket did not take is made
 * again. No I/O but reading the spool.
 */
#ifndef WEIR_PROXY_SENDING_H
#define WEIR_PROXY_SENDING_H

#include "proxy/relay.h"

#define SENDING_ID 1 /* the request's; each has a connection of its own */

enum sending_result {
	SENDING_OK,
	SENDING_NO_MEMORY,
	SENDING_TOO_LARGE, /* a parameter fits in no record */
};

/* Replaces *out. keep asks the application to leave the connection open. The request's
 * own parameters go in their order, but for those that relay_withholds() and with the true
 * length of the body; backend.env and weir's own at the end. */
enum sending_result sending_head(struct buf *out, const struct relay_job *job, bool keep);

/* Length of STDIN for a body of that many bytes: a header before each
 * RECORD_CONTENT_MAX bytes or what is left of them, and an empty record at the end. */
uint64_t sending_stdin_length(uint64_t body_bytes);
/* STDIN from position at on. Fills out with at most cap bytes, fewer only at the end;
 * returns how many, or -1 with errno when the spool cannot be read. */
ssize_t sending_stdin(const struct spool *body, uint64_t at, char *out, size_t cap);

#endif
