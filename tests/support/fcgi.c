/*
 * fcgi.c - a web server's side of FastCGI, as exact or as wrong as a test wants it.
 *
 * Written on its own from the specification and not over filter/fastcgi: bytes that
 * both ends compose with one function prove nothing.
 */
#include "support.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	BEGIN_REQUEST = 1,
	END_REQUEST = 3,
	PARAMS = 4,
	STDIN = 5,
	STDOUT = 6,
	STDERR = 7,
};

void fcgi_header(struct buf *b, unsigned version, unsigned type, unsigned id, unsigned n,
	unsigned padding)
{
	const unsigned char head[8] = { (unsigned char)version, (unsigned char)type,
		(unsigned char)(id >> 8), (unsigned char)id, (unsigned char)(n >> 8),
		(unsigned char)n, (unsigned char)padding, 0 };

	buf_add(b, view_of((const char *)head, sizeof(head)));
}

void fcgi_record(
	struct buf *b, unsigned type, unsigned id, struct view content, unsigned padding)
{
	fcgi_header(b, 1, type, id, (unsigned)content.n, padding);
	buf_add(b, content);
	while (padding--)
		buf_add_byte(b, '\0');
}

void fcgi_begin(struct buf *b, unsigned id, unsigned role, unsigned flags)
{
	const char body[8] = { (char)(role >> 8), (char)role, (char)flags };

	fcgi_record(b, BEGIN_REQUEST, id, view_of(body, sizeof(body)), 0);
}

static void put_length(struct buf *b, size_t n)
{
	if (n >= 128) {
		buf_add_byte(b, (char)(0x80 | n >> 24));
		buf_add_byte(b, (char)(n >> 16));
		buf_add_byte(b, (char)(n >> 8));
	}
	buf_add_byte(b, (char)n);
}

void fcgi_pair(struct buf *b, struct view name, struct view value)
{
	put_length(b, name.n);
	put_length(b, value.n);
	buf_add(b, name);
	buf_add(b, value);
}

static void pair(struct buf *b, const char *name, const char *value)
{
	fcgi_pair(b, view_str(name), view_str(value));
}

static uint64_t body_bytes(const struct fcgi_request *rq)
{
	return rq->pattern_bytes ? rq->pattern_bytes : rq->body.n;
}

/* A parameter that the test gives itself is not given twice. */
static bool given(const struct fcgi_request *rq, const char *name)
{
	size_t n = strlen(name);

	for (const char *const *p = rq->params; p && *p; p++)
		if (strncmp(*p, name, n) == 0 && (*p)[n] == '=')
			return true;
	return false;
}

void fcgi_compose_params(struct buf *b, const struct fcgi_request *rq)
{
	const char *uri = rq->uri ? rq->uri : "/", *query = strchr(uri, '?');
	size_t path_n = query ? (size_t)(query - uri) : strlen(uri);
	const char *method = rq->method ? rq->method : body_bytes(rq) ? "POST" : "GET";
	char length[24];

	snprintf(length, sizeof(length), "%llu", (unsigned long long)body_bytes(rq));
	if (rq->script)
		pair(b, "SCRIPT_FILENAME", rq->script);
	pair(b, "QUERY_STRING", query ? query + 1 : "");
	pair(b, "REQUEST_METHOD", method);
	if (!given(rq, "CONTENT_LENGTH"))
		pair(b, "CONTENT_LENGTH", body_bytes(rq) ? length : "");
	fcgi_pair(b, VIEW("SCRIPT_NAME"), view_of(uri, path_n));
	pair(b, "REQUEST_URI", uri);
	pair(b, "GATEWAY_INTERFACE", "CGI/1.1");
	pair(b, "SERVER_PROTOCOL", "HTTP/1.1");
	pair(b, "SERVER_NAME", "localhost");
	pair(b, "SERVER_PORT", "80");
	pair(b, "REDIRECT_STATUS", "200");
	if (!given(rq, "REMOTE_ADDR"))
		pair(b, "REMOTE_ADDR", rq->address ? rq->address : "127.0.0.1");
	for (const char *const *p = rq->params; p && *p; p++) {
		size_t n = strcspn(*p, "=");

		fcgi_pair(b, view_of(*p, n), view_str(*p + n + 1));
	}
}

void fcgi_compose_head(struct buf *b, const struct fcgi_request *rq)
{
	unsigned id = rq->id ? rq->id : 1;
	struct buf pairs = { 0 };
	struct view left;

	fcgi_compose_params(&pairs, rq);
	fcgi_begin(b, id, rq->role ? rq->role : 1, rq->keep);
	for (left = buf_view(&pairs); left.n;) {
		size_t n = left.n < 65535 ? left.n : 65535;

		fcgi_record(b, PARAMS, id, view_of(left.p, n), (8 - n % 8) % 8);
		left = view_skip(left, n);
	}
	fcgi_record(b, PARAMS, id, view_of(NULL, 0), 0);
	buf_release(&pairs);
}

void fcgi_compose_body(struct buf *b, const struct fcgi_request *rq)
{
	unsigned id = rq->id ? rq->id : 1;
	uint64_t whole = body_bytes(rq);
	char piece[32768];

	for (uint64_t at = 0; at < whole;) {
		size_t n = whole - at < sizeof(piece) ? (size_t)(whole - at)
						      : sizeof(piece);

		if (rq->pattern_bytes)
			pattern_fill(piece, at, n);
		else
			memcpy(piece, rq->body.p + at, n);
		fcgi_record(b, STDIN, id, view_of(piece, n), (8 - n % 8) % 8);
		at += n;
	}
	fcgi_record(b, STDIN, id, view_of(NULL, 0), 0);
}

void fcgi_compose(struct buf *b, const struct fcgi_request *rq)
{
	fcgi_compose_head(b, rq);
	fcgi_compose_body(b, rq);
}

/* ---- The answer ---- */

void fcgi_answer_init(struct fcgi_answer *a)
{
	*a = (struct fcgi_answer){ .began_ms = now_ms() };
}

void fcgi_answer_release(struct fcgi_answer *a)
{
	buf_release(&a->out);
	buf_release(&a->err);
	buf_release(&a->management);
	buf_release(&a->raw);
	free(a->pieces);
	fcgi_answer_init(a);
}

static void take_out(struct fcgi_answer *a, struct view content)
{
	if (content.n == 0)
		return;
	buf_add(&a->out, content);
	pieces_add(&a->pieces, &a->n_pieces, now_ms() - a->began_ms, content.n);
}

static void take_record(
	struct fcgi_answer *a, const unsigned char *head, struct view content)
{
	unsigned type = head[1], id = (unsigned)(head[2] << 8 | head[3]);
	const unsigned char *c = (const unsigned char *)content.p;

	if (id == 0) {
		buf_add_byte(&a->management, (char)type);
		buf_add_byte(&a->management, (char)content.n);
		buf_add(&a->management, content);
		return;
	}
	switch (type) {
	case STDOUT: take_out(a, content); break;
	case STDERR: buf_add(&a->err, content); break;
	case END_REQUEST:
		if (content.n != 8) {
			a->malformed = "an END_REQUEST without its eight bytes";
			break;
		}
		a->ends++;
		a->end_id = id;
		a->app_status = (uint32_t)c[0] << 24 | (uint32_t)c[1] << 16 |
			(uint32_t)c[2] << 8 | c[3];
		a->protocol_status = c[4];
		break;
	default: a->malformed = "a record of a type no application sends";
	}
}

static void take_bytes(struct fcgi_answer *a)
{
	size_t at = 0;

	while (!a->malformed && a->raw.n - at >= 8) {
		const unsigned char *head = (const unsigned char *)a->raw.p + at;
		size_t n = (size_t)(head[4] << 8 | head[5]), whole = 8 + n + head[6];

		if (head[0] != 1)
			a->malformed = "a record whose version is not 1";
		if (a->raw.n - at < whole)
			break;
		if (!a->malformed)
			take_record(a, head, view_of(a->raw.p + at + 8, n));
		at += whole;
	}
	if (at)
		buf_drop(&a->raw, at);
}

static void receive(int fd, struct fcgi_answer *a)
{
	ssize_t n;

	if (!buf_reserve(&a->raw, 65536)) {
		a->closed = true;
		return;
	}
	n = recv(fd, a->raw.p + a->raw.n, 65536, MSG_DONTWAIT);
	if (n > 0) {
		a->raw.n += (size_t)n;
		take_bytes(a);
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	a->closed = true;
	a->reset = n < 0;
	if (a->raw.n && !a->malformed)
		a->malformed = "a record cut off by the end";
}

bool fcgi_exchange(
	int fd, struct view bytes, struct fcgi_answer *a, enum fcgi_until until, int64_t ms)
{
	unsigned ends = a->ends;
	size_t managed = a->management.n;
	int64_t end = now_ms() + ms;

	for (;;) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		int64_t left = end - now_ms();

		if (a->closed || a->malformed ||
			(bytes.n == 0 && until == FCGI_UNTIL_MANAGEMENT &&
				a->management.n > managed) ||
			(until == FCGI_UNTIL_END && a->ends > ends))
			return true;
		if (left <= 0) {
			a->late = true;
			return false;
		}
		pfd.events |= bytes.n ? POLLOUT : 0;
		if (poll(&pfd, 1, (int)left) <= 0)
			continue;
		if (pfd.revents & (POLLIN | POLLHUP | POLLERR)) {
			receive(fd, a);
			if (until == FCGI_UNTIL_SOMETHING)
				return true;
		}
		if (pfd.revents & POLLOUT) {
			ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);

			if (n > 0)
				bytes = view_skip(bytes, (size_t)n);
			else if (n < 0 && errno != EAGAIN && errno != EINTR)
				bytes.n = 0; /* what was answered may still be read */
		}
	}
}

bool fcgi_send(int fd, struct view bytes, int64_t ms)
{
	int64_t end = now_ms() + ms;

	while (bytes.n) {
		struct pollfd pfd = { .fd = fd, .events = POLLOUT };
		ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			bytes = view_skip(bytes, (size_t)n);
		else if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		else if (now_ms() >= end)
			return false;
		else
			poll(&pfd, 1, 10);
	}
	return true;
}

bool fcgi_call(
	const char *addr, const struct fcgi_request *rq, struct fcgi_answer *a, int64_t ms)
{
	struct buf b = { 0 };
	int fd = dial(addr);
	bool whole = false;

	fcgi_answer_init(a);
	if (fd < 0)
		return false;
	fcgi_compose(&b, rq);
	if (buf_ok(&b) && fcgi_exchange(fd, buf_view(&b), a, FCGI_UNTIL_END, ms))
		whole = a->ends == 1 && !a->malformed;
	close(fd);
	buf_release(&b);
	return whole;
}
