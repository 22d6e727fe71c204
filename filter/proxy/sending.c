#include "proxy/sending.h"

#include "fastcgi/pairs.h"
#include "proxy/relay_kind.h"

#define STDIN_RECORD (FCGI_HEADER_LEN + RECORD_CONTENT_MAX)

static void put_pairs(struct buf *out, const struct relay_job *job)
{
	const struct request *rq = job->request;
	bool length_put = false;
	struct buf length = { 0 };

	buf_add_u64(&length, job->body->n);
	for (size_t i = 0; i < rq->n_params; i++) {
		struct view name = rq->params[i].name, value = rq->params[i].value;

		/* Applications on libfcgi take the first of two. */
		if (relay_withholds(job, name) || request_is_replaced(rq, i))
			continue;
		if (view_eq(name, VIEW("CONTENT_LENGTH"))) {
			if (length_put)
				continue;
			length_put = true;
			if (value.n || relay_needs_length(job))
				value = buf_view(&length);
		}
		pairs_put(out, name, value);
	}
	if (!length_put && relay_needs_length(job))
		pairs_put(out, VIEW("CONTENT_LENGTH"), buf_view(&length));
	for (size_t i = 0; i < job->backend->n_env; i++)
		pairs_put(out, view_str(job->backend->env[i].name),
			view_str(job->backend->env[i].value));
	for (size_t i = 0; i < job->n_extra; i++)
		pairs_put(out, job->extra[i].name, job->extra[i].value);
	if (!buf_ok(&length))
		out->failed = true;
	buf_release(&length);
}

enum sending_result sending_head(struct buf *out, const struct relay_job *job, bool keep)
{
	struct buf pairs = { 0 };
	bool fits;

	put_pairs(&pairs, job);
	buf_reset(out);
	record_put_begin(out, SENDING_ID, FCGI_RESPONDER, keep ? FCGI_KEEP_CONN : 0);
	fits = pairs_put_params(out, SENDING_ID, buf_view(&pairs));
	if (!buf_ok(&pairs))
		out->failed = true;
	buf_release(&pairs);
	if (!buf_ok(out))
		return SENDING_NO_MEMORY;
	return fits ? SENDING_OK : SENDING_TOO_LARGE;
}

uint64_t sending_stdin_length(uint64_t body)
{
	uint64_t records = body / RECORD_CONTENT_MAX + (body % RECORD_CONTENT_MAX != 0);

	return body + (records + 1) * FCGI_HEADER_LEN;
}

/* A piece of a header of an STDIN record, from its byte skip on. */
static size_t stdin_header(size_t content_n, size_t skip, char *out, size_t cap)
{
	const char head[FCGI_HEADER_LEN] = { FCGI_VERSION_1, FCGI_STDIN, 0, SENDING_ID,
		(char)(content_n >> 8), (char)content_n };
	size_t n = FCGI_HEADER_LEN - skip;

	n = n < cap ? n : cap;
	memcpy(out, head + skip, n);
	return n;
}

ssize_t sending_stdin(const struct spool *body, uint64_t at, char *out, size_t cap)
{
	/* Where the empty record starts. */
	uint64_t last = sending_stdin_length(body->n) - FCGI_HEADER_LEN;
	size_t done = 0;

	while (done < cap && at < last) {
		uint64_t from = at / STDIN_RECORD * RECORD_CONTENT_MAX;
		size_t in_record = (size_t)(at % STDIN_RECORD);
		uint64_t left = body->n - from;
		size_t content_n = left < RECORD_CONTENT_MAX ? (size_t)left
							     : RECORD_CONTENT_MAX;
		size_t n;

		if (in_record < FCGI_HEADER_LEN) {
			n = stdin_header(content_n, in_record, out + done, cap - done);
		} else {
			size_t skip = in_record - FCGI_HEADER_LEN;
			size_t room = cap - done;
			ssize_t got = spool_read(body, from + skip, out + done,
				content_n - skip < room ? content_n - skip : room);

			if (got < 0)
				return -1;
			n = (size_t)got;
		}
		done += n;
		at += n;
	}
	if (done < cap && at < last + FCGI_HEADER_LEN)
		done += stdin_header(0, (size_t)(at - last), out + done, cap - done);
	return (ssize_t)done;
}
