/*
 * fastcgi/record.h - FastCGI records, both ways (FastCGI Specification 1.0, section 3.3).
 *
 * The reader takes bytes in any cut and hands out each record's content as it
 * comes, without collecting it: a record of 65535 bytes costs a header's eight.
 * The writers append whole records to a buffer. No I/O, no clock.
 */
#ifndef WEIR_FASTCGI_RECORD_H
#define WEIR_FASTCGI_RECORD_H

#include <fastcgi.h>

#include "base/buf.h"

/* What a call of record_next() found. */
enum record_event {
	RECORD_MORE,    /* the input is used up */
	RECORD_BEGINS,  /* a header was read: type, id and content_n are set */
	RECORD_CONTENT, /* *content holds the next piece of the record's content */
	RECORD_ENDS,    /* content and padding have passed */
	RECORD_BAD, /* the header's version is not 1; nothing behind it can be trusted */
};

/* Zeroed is ready: waiting for the first header. */
struct record_reader {
	unsigned char head[FCGI_HEADER_LEN];
	uint8_t head_n;     /* bytes of head read so far */
	uint8_t phase;      /* 0 header, 1 content, 2 padding, 3 bad */
	uint8_t type;       /* FCGI_BEGIN_REQUEST ... */
	uint16_t id;        /* request id, 0 for management records */
	uint16_t content_n; /* content length the header declared */
	uint16_t content_left;
	uint8_t padding_left;
};

/* Takes what it can from the front of *in. Call until RECORD_MORE (or BAD).
 * *content is a piece of *in's bytes, valid as long as they are. */
enum record_event record_next(
	struct record_reader *r, struct view *in, struct view *content);

/* True between records: an end of input here cuts nothing off. */
static inline bool record_at_boundary(const struct record_reader *r)
{
	return r->phase == 0 && r->head_n == 0;
}

/* Appends content as records of that type, each at most 65528 bytes of content
 * without padding. Empty content appends nothing: see record_end_stream(). */
void record_put_stream(struct buf *b, uint8_t type, uint16_t id, struct view content);
/* Appends the empty record that ends a stream. */
void record_end_stream(struct buf *b, uint8_t type, uint16_t id);
void record_put_begin(struct buf *b, uint16_t id, uint16_t role, uint8_t flags);
void record_put_end(
	struct buf *b, uint16_t id, uint32_t app_status, uint8_t protocol_status);
/* Appends END_REQUEST without the padding it announces, to be followed by nothing: an end
 * that breaks off. */
void record_put_broken_end(struct buf *b, uint16_t id);
void record_put_unknown_type(struct buf *b, uint8_t type);
/* Just the eight bytes of a header, for content sent from elsewhere. */
void record_put_header(struct buf *b, uint8_t type, uint16_t id, uint16_t content_n);

/* The largest content this side puts in one record: with its header a multiple
 * of eight, and below the 65535 that php-fpm allows for content and padding. */
#define RECORD_CONTENT_MAX 65528

/* A BEGIN_REQUEST body's eight bytes. */
struct record_begin {
	uint16_t role;
	bool keep_conn;
};
struct record_begin record_read_begin(const unsigned char body[8]);

/* The protocol status in an END_REQUEST body's eight bytes. Of the others four are the
 * application's own status, which no web server reads, and three may hold anything. */
uint8_t record_read_end(const unsigned char body[8]);

#endif
