#include "fastcgi/record.h"

enum {
	PHASE_HEADER,
	PHASE_CONTENT,
	PHASE_PADDING,
	PHASE_BAD
};

static void start_record(struct record_reader *r)
{
	const unsigned char *h = r->head;

	r->head_n = 0;
	r->type = h[1];
	r->id = (uint16_t)(h[2] << 8 | h[3]);
	r->content_n = (uint16_t)(h[4] << 8 | h[5]);
	r->content_left = r->content_n;
	r->padding_left = h[6];
	r->phase = PHASE_CONTENT;
}

enum record_event record_next(
	struct record_reader *r, struct view *in, struct view *content)
{
	size_t n;

	switch (r->phase) {
	case PHASE_HEADER:
		n = FCGI_HEADER_LEN - r->head_n;
		if (n > in->n)
			n = in->n;
		if (n)
			memcpy(r->head + r->head_n, in->p, n);
		r->head_n = (uint8_t)(r->head_n + n);
		*in = view_skip(*in, n);
		/* A wrong version shows in the first byte; do not wait for the other seven. */
		if (r->head_n && r->head[0] != FCGI_VERSION_1) {
			r->phase = PHASE_BAD;
			return RECORD_BAD;
		}
		if (r->head_n < FCGI_HEADER_LEN)
			return RECORD_MORE;
		start_record(r);
		return RECORD_BEGINS;
	case PHASE_CONTENT:
		if (r->content_left == 0) {
			r->phase = PHASE_PADDING;
			return record_next(r, in, content);
		}
		n = r->content_left < in->n ? r->content_left : in->n;
		if (n == 0)
			return RECORD_MORE;
		*content = view_of(in->p, n);
		*in = view_skip(*in, n);
		r->content_left = (uint16_t)(r->content_left - n);
		return RECORD_CONTENT;
	case PHASE_PADDING:
		n = r->padding_left < in->n ? r->padding_left : in->n;
		*in = view_skip(*in, n);
		r->padding_left = (uint8_t)(r->padding_left - n);
		if (r->padding_left)
			return RECORD_MORE;
		r->phase = PHASE_HEADER;
		return RECORD_ENDS;
	default: return RECORD_BAD;
	}
}

void record_put_header(struct buf *b, uint8_t type, uint16_t id, uint16_t content_n)
{
	const char head[FCGI_HEADER_LEN] = {
		FCGI_VERSION_1,
		(char)type,
		(char)(id >> 8),
		(char)id,
		(char)(content_n >> 8),
		(char)content_n,
	};

	buf_add(b, view_of(head, sizeof(head)));
}

void record_put_stream(struct buf *b, uint8_t type, uint16_t id, struct view content)
{
	while (content.n) {
		size_t n = content.n < RECORD_CONTENT_MAX ? content.n : RECORD_CONTENT_MAX;

		record_put_header(b, type, id, (uint16_t)n);
		buf_add(b, view_of(content.p, n));
		content = view_skip(content, n);
	}
}

void record_end_stream(struct buf *b, uint8_t type, uint16_t id)
{
	record_put_header(b, type, id, 0);
}

void record_put_begin(struct buf *b, uint16_t id, uint16_t role, uint8_t flags)
{
	const char body[8] = { (char)(role >> 8), (char)role, (char)flags };

	record_put_header(b, FCGI_BEGIN_REQUEST, id, sizeof(body));
	buf_add(b, view_of(body, sizeof(body)));
}

void record_put_end(
	struct buf *b, uint16_t id, uint32_t app_status, uint8_t protocol_status)
{
	const char body[8] = {
		(char)(app_status >> 24),
		(char)(app_status >> 16),
		(char)(app_status >> 8),
		(char)app_status,
		(char)protocol_status,
	};

	record_put_header(b, FCGI_END_REQUEST, id, sizeof(body));
	buf_add(b, view_of(body, sizeof(body)));
}

void record_put_broken_end(struct buf *b, uint16_t id)
{
	const char record[FCGI_HEADER_LEN + 8] = { FCGI_VERSION_1, FCGI_END_REQUEST,
		(char)(id >> 8), (char)id, 0, 8, 8 /* of padding */ };

	buf_add(b, view_of(record, sizeof(record)));
}

void record_put_unknown_type(struct buf *b, uint8_t type)
{
	const char body[8] = { (char)type };

	record_put_header(b, FCGI_UNKNOWN_TYPE, FCGI_NULL_REQUEST_ID, sizeof(body));
	buf_add(b, view_of(body, sizeof(body)));
}

struct record_begin record_read_begin(const unsigned char body[8])
{
	return (struct record_begin){
		.role = (uint16_t)(body[0] << 8 | body[1]),
		.keep_conn = body[2] & FCGI_KEEP_CONN,
	};
}

uint8_t record_read_end(const unsigned char body[8])
{
	return body[4];
}
