/*
 * proxy/relay_fastcgi.c - a request passed on to a FastCGI application.
 *
 * One connection per request, closed as soon as the application has ended it: php-fpm
 * keeps a worker for each open connection, used or not, so connections kept for later
 * would starve it. Nothing is multiplexed; the request's id is always 1.
 *
 * It reads while it sends. An application may answer before it has read the body, or
 * instead of reading it, and then its refusal to take more must not hide its answer:
 * a failed write only ends the writing. What is to be read decides.
 *
 * The body is never copied as a whole: STDIN is a function of the spool and a
 * position (proxy/sending.h), so what the socket did not take is made again later.
 *
 * Left out: other roles than responder, connections kept open, ABORT_REQUEST (php-fpm
 * ignores it; closing says the same).
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "proxy/relay_kind.h"
#include "proxy/sending.h"

#define PIECES_A_TURN   4 /* then the loop's other connections have their turn */
#define BACKOFF_LEAST   5 /* ms between two rounds of full listen queues ... */
#define BACKOFF_MOST    100
#define END_REQUEST_LEN 8

struct relay_fastcgi {
	struct relay relay;
	struct relay_watch *watch; /* the connection; NULL between two attempts */
	struct buf head;           /* BEGIN and PARAMS; freed once they are sent */
	size_t head_sent;
	uint64_t stdin_at, stdin_n; /* bytes of STDIN sent, and in all */
	bool sending;               /* head or STDIN are not out yet */
	bool stdout_over;           /* its empty record was seen */
	struct record_reader reader;
	unsigned char end[END_REQUEST_LEN]; /* body of END_REQUEST */
	uint8_t end_n;

	/* Finding somebody who takes the connection. */
	unsigned first;          /* address a round starts with */
	unsigned tried;          /* addresses tried in this round */
	bool queue_full;         /* one of this round's listen queues was */
	bool overdue;            /* one did not connect in time */
	bool overloaded;         /* one said so */
	int refused_errno;       /* of the last that refused */
	uint64_t knock_until_ms; /* when full listen queues count as refused */
	uint64_t backoff_ms;
};

static struct relay_fastcgi *of(struct relay *r)
{
	return (struct relay_fastcgi *)r;
}

/* Writes the request's head and sets all back to its beginning. False: it ended. */
static bool prepare(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	switch (sending_head(&f->head, &r->job)) {
	case SENDING_OK: break;
	case SENDING_NO_MEMORY:
		relay_finish(r, RELAY_FAILED, "no memory for the request");
		return false;
	case SENDING_TOO_LARGE:
		relay_finish(
			r, RELAY_TOO_LARGE, "a parameter does not fit in a FastCGI record");
		return false;
	}
	f->head_sent = 0;
	f->stdin_at = 0;
	f->stdin_n = sending_stdin_length(r->job.body->n);
	f->sending = true;
	f->reader = (struct record_reader){ 0 };
	f->stdout_over = false;
	f->end_n = 0;
	return true;
}

static void flow(struct relay *r)
{
	struct relay_fastcgi *f = of(r);
	int events = (r->paused ? 0 : UV_READABLE) | (f->sending ? UV_WRITABLE : 0);

	if (f->watch)
		relay_watch_set(f->watch, r->state == RELAY_CONNECT ? UV_WRITABLE : events);
}

static void connect_next(struct relay_fastcgi *f);

/* The next piece of the request that is to be sent; errno on failure. */
static bool next_piece(struct relay_fastcgi *f, struct view *out)
{
	ssize_t n;

	if (f->head_sent < f->head.n) {
		*out = view_skip(buf_view(&f->head), f->head_sent);
		return true;
	}
	n = sending_stdin(f->relay.job.body, f->stdin_at, relay_piece(), RELAY_PIECE);
	if (n < 0)
		return false;
	*out = view_of(relay_piece(), (size_t)n);
	return true;
}

static void sent(struct relay_fastcgi *f, size_t n)
{
	struct relay *r = &f->relay;

	relay_touch(r);
	if (f->head_sent < f->head.n) {
		f->head_sent += n;
		if (f->head_sent == f->head.n) {
			buf_release(&f->head);
			f->head_sent = 0;
		}
	} else {
		f->stdin_at += n;
	}
	f->sending = f->head.n > 0 || f->stdin_at < f->stdin_n;
	if (!f->sending && r->state == RELAY_SEND)
		relay_enter(r, RELAY_WAIT, 0);
}

/* False: the relay went another way (ended, or on to another address). */
static bool send_more(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	for (int i = 0; f->sending && i < PIECES_A_TURN; i++) {
		struct view piece = { 0 };
		ssize_t n;

		if (!next_piece(f, &piece)) {
			relay_finish_errno(
				r, RELAY_FAILED, "the body cannot be read again", errno);
			return false;
		}
		n = send(f->watch->fd, piece.p, piece.n, MSG_NOSIGNAL);
		if (n > 0) {
			sent(f, (size_t)n);
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			if (f->head.n && f->head_sent == 0) {
				f->refused_errno = errno;
				relay_watch_close(&f->watch);
				connect_next(f);
				return false;
			}
			/* It wants no more. What it said, if anything, is in the socket. */
			f->sending = false;
			buf_release(&f->head);
			if (r->state == RELAY_SEND)
				relay_enter(r, RELAY_WAIT, 0);
		}
	}
	return true;
}

/* Another address may be willing, as long as nothing of an answer has come. */
static void try_elsewhere(struct relay_fastcgi *f)
{
	relay_watch_close(&f->watch);
	if (prepare(f))
		connect_next(f);
}

static void end_request(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	switch (record_read_end(f->end).protocol_status) {
	case FCGI_REQUEST_COMPLETE: relay_judge(r, true, NULL); break;
	case FCGI_CANT_MPX_CONN:
	case FCGI_OVERLOADED:
		f->overloaded = true;
		if (r->state < RELAY_HEAD && f->tried < r->job.backend->n_addrs)
			try_elsewhere(f);
		else
			relay_finish(r, RELAY_OVERLOADED, "the backend is overloaded");
		break;
	case FCGI_UNKNOWN_ROLE:
		relay_finish(r, RELAY_BAD, "the backend is no responder");
		break;
	default: relay_finish(r, RELAY_BAD, "an unknown protocol status"); break;
	}
}

static const char *record_problem(const struct record_reader *reader)
{
	if (reader->id != SENDING_ID)
		return "a record of another request";
	switch (reader->type) {
	case FCGI_STDOUT:
	case FCGI_STDERR: return NULL;
	case FCGI_END_REQUEST:
		return reader->content_n < END_REQUEST_LEN ? "a short END_REQUEST" : NULL;
	default: return "a record that no responder sends";
	}
}

/* False: the relay went another way. */
static bool take_content(struct relay_fastcgi *f, struct view content)
{
	size_t n;

	switch (f->reader.type) {
	case FCGI_STDOUT: return f->stdout_over || relay_feed(&f->relay, content);
	case FCGI_STDERR: relay_feed_errors(&f->relay, content); return true;
	default: break;
	}
	n = (size_t)(END_REQUEST_LEN - f->end_n);
	n = n < content.n ? n : content.n;
	memcpy(f->end + f->end_n, content.p, n);
	f->end_n = (uint8_t)(f->end_n + n);
	if (f->end_n < END_REQUEST_LEN)
		return true;
	end_request(f);
	return false;
}

static bool take_records(struct relay_fastcgi *f, struct view in)
{
	struct relay *r = &f->relay;
	struct view content;
	const char *problem;

	for (;;) {
		switch (record_next(&f->reader, &in, &content)) {
		case RECORD_MORE: return true;
		case RECORD_BEGINS:
			problem = record_problem(&f->reader);
			if (problem) {
				relay_finish(r, RELAY_BAD, problem);
				return false;
			}
			break;
		case RECORD_CONTENT:
			if (!take_content(f, content))
				return false;
			break;
		case RECORD_ENDS:
			if (f->reader.type == FCGI_STDOUT && f->reader.content_n == 0)
				f->stdout_over = true;
			break;
		case RECORD_BAD:
			relay_finish(r, RELAY_BAD, "what the backend says is not FastCGI");
			return false;
		}
	}
}

static bool read_more(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	for (int i = 0; i < PIECES_A_TURN && !r->paused; i++) {
		char *piece = relay_piece();
		ssize_t n = recv(f->watch->fd, piece, RELAY_PIECE, 0);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			/* Closed or reset. An empty STDOUT record has said all there is. */
			relay_judge(r, f->stdout_over,
				n < 0 ? "the backend broke the connection"
				      : "the backend closed without ending the request");
			return false;
		}
		if (!take_records(f, view_of(piece, (size_t)n)))
			return false;
		if (n < RELAY_PIECE)
			break;
	}
	return true;
}

static void on_socket(struct relay *r, int events)
{
	struct relay_fastcgi *f = of(r);

	if (r->state == RELAY_CONNECT) {
		int err = 0;
		socklen_t len = sizeof(err);

		getsockopt(f->watch->fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (err) {
			f->refused_errno = err;
			relay_watch_close(&f->watch);
			connect_next(f);
			return;
		}
		relay_enter(r, RELAY_SEND, 0);
	}
	if ((events & UV_READABLE) && !read_more(f))
		return;
	if ((events & UV_WRITABLE) && !send_more(f))
		return;
	flow(r);
}

enum attempt {
	ATTEMPT_UNDER_WAY,
	ATTEMPT_QUEUE_FULL,
	ATTEMPT_REFUSED,
	ATTEMPT_FAILED, /* nothing to do with the address; errno */
};

static enum attempt attempt(struct relay_fastcgi *f, const struct net_addr *a)
{
	int one = 1, rc;
	int fd = socket(a->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return ATTEMPT_FAILED;
	if (a->ss.ss_family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	do
		rc = connect(fd, (const struct sockaddr *)&a->ss, a->len);
	while (rc < 0 && errno == EINTR && a->ss.ss_family == AF_UNIX);
	/* An interrupted TCP connect goes on by itself, like one in progress. */
	if (rc < 0 && errno != EINPROGRESS && errno != EINTR) {
		int err = errno;

		close(fd);
		f->refused_errno = err;
		/* For unix sockets only: of TCP it means that no local port is free. */
		return err == EAGAIN && a->ss.ss_family == AF_UNIX ? ATTEMPT_QUEUE_FULL
								   : ATTEMPT_REFUSED;
	}
	f->watch = relay_watch_new(&f->relay, fd, on_socket);
	if (!f->watch) {
		errno = ENOMEM;
		return ATTEMPT_FAILED;
	}
	relay_enter(&f->relay, rc == 0 ? RELAY_SEND : RELAY_CONNECT, 0);
	return ATTEMPT_UNDER_WAY;
}

static void nobody_there(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	if (f->overloaded)
		relay_finish(r, RELAY_OVERLOADED, "the backend is overloaded");
	else if (f->overdue)
		relay_finish(r, RELAY_TIMEOUT, "connecting took too long");
	else
		relay_finish_errno(r, RELAY_REFUSED, "the backend takes no connection",
			f->refused_errno);
}

static void connect_next(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;
	const struct backend *b = r->job.backend;

	while (f->tried < b->n_addrs) {
		switch (attempt(f, &b->addrs[(f->first + f->tried++) % b->n_addrs])) {
		case ATTEMPT_UNDER_WAY: flow(r); return;
		case ATTEMPT_QUEUE_FULL: f->queue_full = true; break;
		case ATTEMPT_REFUSED: break;
		case ATTEMPT_FAILED:
			relay_finish_errno(
				r, RELAY_FAILED, "no socket for the backend", errno);
			return;
		}
	}
	if (f->queue_full && uv_now(r->loop) < f->knock_until_ms) {
		f->tried = 0;
		f->queue_full = false;
		relay_enter(r, RELAY_RETRY, f->backoff_ms);
		f->backoff_ms *= 2;
		if (f->backoff_ms > BACKOFF_MOST)
			f->backoff_ms = BACKOFF_MOST;
		return;
	}
	nobody_there(f);
}

static void start(struct relay *r)
{
	static _Thread_local unsigned turn; /* spreads requests over the addresses */
	struct relay_fastcgi *f = of(r);
	const struct backend *b = r->job.backend;

	if (relay_unsafe_param(r->job.request)) {
		relay_finish(r, RELAY_BAD_REQUEST, "CR, LF or NUL in a path");
		return;
	}
	if (!prepare(f))
		return;
	f->first = turn++;
	f->backoff_ms = BACKOFF_LEAST;
	f->knock_until_ms = uv_now(r->loop) + (uint64_t)b->connect_timeout_ms;
	connect_next(f);
}

static bool expired(struct relay *r)
{
	struct relay_fastcgi *f = of(r);

	if (r->state != RELAY_CONNECT && r->state != RELAY_RETRY)
		return false;
	if (r->state == RELAY_CONNECT)
		f->overdue = true;
	relay_watch_close(&f->watch);
	connect_next(f);
	return true;
}

static void stop(struct relay *r, bool whole)
{
	struct relay_fastcgi *f = of(r);

	(void)whole;
	relay_watch_close(&f->watch);
	buf_release(&f->head);
}

const struct relay_kind relay_fastcgi_kind = {
	.size = sizeof(struct relay_fastcgi),
	.start = start,
	.flow = flow,
	.expired = expired,
	.stop = stop,
};
