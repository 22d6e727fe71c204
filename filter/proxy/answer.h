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

#define ANSWER_HEAD_MAX 65536 /* bytes of the backend's head, line ends included */
#define ANSWER_LINE_MAX 16384 /* bytes of one of its lines, likewise */

enum answer_event {
	ANSWER_MORE, /* the input is used up */
	ANSWER_HEAD, /* the head is complete: status and head are set. Once. */
	ANSWER_BODY, /* *piece is the next part of the body, a view into the input */
	/* No answer can be made of this: why says what is wrong. Before ANSWER_HEAD
	 * another answer can take its place (502). After it only chunk framing can
	 * break: what was reported is all there is, and the answer is truncated. */
	ANSWER_BAD,
};

struct answer {
	int status; /* 200 to 599; 200, or 302 with a Location, unless the backend says */
	/* "Status: 200 OK\r\n", then fields, each with CRLF; no blank line. Content-Length
	 * comes last when it is known and right. */
	struct buf head;
	bool has_length; /* from the head on: it gives the body's length */
	const char *why; /* static; set with ANSWER_BAD */
	bool no_body;    /* the request was HEAD */
	/* To be set before feeding: pass on the fields that make a web server send a file
	 * of its own or bend its limits (X-Sendfile, X-LIGHTTPD-*, X-Accel-*). A backend
	 * that may use them can read what the web server can read. False: dropped, but
	 * for X-Accel-Buffering, which only asks nginx to pass on each piece at once. */
	bool keep_sendfile;
	/* Likewise: weir adds these to the answer itself, so the backend's own are dropped:
	 * two answers to one question help nobody. RateLimit and RateLimit-Policy;
	 * X-RateLimit-*. */
	bool own_rate_limit, own_x_rate_limit;

	/* Private. */
	struct buf raw;      /* the field being read, unfolded, then the line being read */
	size_t line_at;      /* where that line starts */
	struct buf fields;   /* those that will follow Status */
	struct buf listed;   /* names in Connection, each with a comma behind it */
	size_t head_n;       /* bytes of the backend's head so far */
	bool parsed, headed; /* head read; head reported (later, for a chunked body) */
	bool failed, bodyless, has_location;
	bool length_bad, chunked;
	uint64_t length;    /* Content-Length */
	uint64_t body_left; /* of the length, or of the chunk */
	int chunk_state;
	size_t chunk_n; /* bytes of the line with the chunk's size */
};

void answer_init(struct answer *a, bool no_body);
void answer_release(struct answer *a);

/* Takes bytes from the front of *in; call until ANSWER_MORE or ANSWER_BAD. Dropped are
 * bytes beyond Content-Length, beyond the last chunk, and the whole body when it was
 * not asked for (HEAD) or may not be (204, 304). Memory running out is ANSWER_BAD. */
enum answer_event answer_next(struct answer *a, struct view *in, struct view *piece);

/* At the end of the output: what is to be made of it. */
enum answer_end {
	ANSWER_WHOLE,
	ANSWER_EMPTY,     /* nothing came at all */
	ANSWER_HEADLESS,  /* it ended, or went bad, before ANSWER_HEAD */
	ANSWER_TRUNCATED, /* body shorter than Content-Length, or without its last chunk */
};
enum answer_end answer_finish(const struct answer *a);

#endif
