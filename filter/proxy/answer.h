/*
 * proxy/answer.h - what a backend says, made into what a web server understands.
 *
 * Input is the output of a CGI program or FastCGI application, in any cut (RFC
 * 3875, section 6). Output is a head with exactly one Status line, first, and only
 * valid fields, then the body without transfer coding. Pure: no I/O.
 */
#ifndef WEIR_PROXY_ANSWER_H
#define WEIR_PROXY_ANSWER_H

#include "base/buf.h"

#define ANSWER_HEAD_MAX 65536 /* bytes of the backend's head */
#define ANSWER_LINE_MAX 16384 /* bytes of one of its lines */

enum answer_event {
	ANSWER_MORE, /* the input is used up */
	ANSWER_HEAD, /* the head is complete: status and head are set. Once. */
	ANSWER_BODY, /* *piece is the next part of the body, a view into the input */
	ANSWER_BAD,  /* no answer can be made of this: why says what is wrong */
};

struct answer {
	int status; /* 200, or as the backend says */
	struct buf
		head; /* "Status: 200 OK\r\n", then fields, each with CRLF; no blank line */
	const char *why; /* static; set with ANSWER_BAD and ANSWER_END_BAD */
	bool no_body;    /* set by the caller before feeding: the request was HEAD */

	/* Private. */
	struct buf raw; /* the head so far */
	bool headed, has_length, chunked, failed;
	uint64_t body_left; /* of Content-Length, or of the chunk */
	int chunk_state;
	struct view piece;
};

void answer_init(struct answer *a, bool no_body);
void answer_release(struct answer *a);

/* Takes bytes from the front of *in; call until ANSWER_MORE or ANSWER_BAD. Bytes
 * beyond Content-Length are dropped. */
enum answer_event answer_next(struct answer *a, struct view *in, struct view *piece);

/* At the end of the output: what is to be made of it. */
enum answer_end {
	ANSWER_WHOLE,
	ANSWER_EMPTY,     /* nothing came at all */
	ANSWER_HEADLESS,  /* it ended before its head did */
	ANSWER_TRUNCATED, /* body shorter than Content-Length, or a chunk cut off */
};
enum answer_end answer_finish(const struct answer *a);

#endif
