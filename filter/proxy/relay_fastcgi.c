/*
 * proxy/relay_fastcgi.c - a request passed on to a FastCGI application.
 *
 * One connection per request, closed as soon as the application has ended it: php-fpm
 * keeps a worker for each open connection, used or not, so connections kept for later
 * would starve it. Where the configuration wants some kept all the same, they carry only
 * requests that may be sent twice, since an application that closes one in the moment
 * it is taken is nobody's fault. Nothing is multiplexed; the request's id is always 1.
 *
 * A php script may end its request, so that its connection is kept, and work on
 * (fastcgi_finish_request). If it then calls its own site on that connection, it waits
 * for itself: https://github.com/php/php-src/issues/10335. So a kept connection is
 * looked at: a request that stays unread gets another connection. Of unix sockets only;
 * TCP does not tell.
 *
 * It reads while it sends. An application may answer before it has read the body, or
 * instead of reading it, and then its refusal to take more must not hide its answer:
 * a failed write only ends the writing. What is to be read decides.
 *
 * The body is never copied as a whole: STDIN is a function of the spool and a
 * position (proxy/sending.h), so what the socket did not take is made again later.
 *
 * Left out: other roles than responder, ABORT_REQUEST (php-fpm ignores it; closing says
 * the same).
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/counters.h"
#include "proxy/idle.h"
#include "proxy/relay_fastcgi.h"
#include "proxy/sending.h"

#define PIECES_A_TURN 4    /* then the loop's other connections have their turn */
#define SENDINGS_MOST 3    /* backends that one after the other may die of a request */
#define ALONE_MS      5000 /* for END_REQUEST, once the answer is whole */
#define UNREAD_MS     100  /* after which a kept connection should have been read */

static struct relay_fastcgi *of(struct relay *r)
{
	return (struct relay_fastcgi *)r;
}

/* Writes the request's head and sets all back to its beginning. False: it ended. */
bool fastcgi_prepare(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	switch (sending_head(&f->head, &r->job, f->keep > 0)) {
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
	f->keepable = false;
	f->end_n = 0;
	return true;
}

void fastcgi_flow(struct relay *r)
{
	struct relay_fastcgi *f = of(r);
	int events = (r->paused ? 0 : UV_READABLE) | (f->sending ? UV_WRITABLE : 0);

	if (f->watch)
		relay_watch_set(f->watch, r->state == RELAY_CONNECT ? UV_WRITABLE : events);
}

static void refused(struct relay_fastcgi *f, const char *why);
static void end_request(struct relay_fastcgi *f);

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

/* All is sent, or it takes no more. A kept connection is looked at soon. */
static void enter_wait(struct relay_fastcgi *f)
{
	relay_enter(&f->relay, RELAY_WAIT, f->unread ? UNREAD_MS : 0);
}

/* What the other end of a unix socket has not read yet, in the kernel's measure: whole
 * buffers, each at least as large as one of a few bytes. */
static int unread_on(const struct relay_fastcgi *f)
{
	int n = 0;

	return ioctl(f->watch->fd, SIOCOUTQ, &n) < 0 ? 0 : n;
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
			/* What comes behind it is one small buffer. */
			f->unread = f->kept ? unread_on(f) : 0;
		}
	} else {
		f->stdin_at += n;
	}
	f->sending = f->head.n > 0 || f->stdin_at < f->stdin_n;
	if (f->sending)
		return;
	f->keepable = true;
	if (r->state == RELAY_SEND)
		enter_wait(f);
	else if (relay_answer_is_whole(r))
		relay_go_alone(r, true, ALONE_MS);
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
		/* STDIN, if only its end, follows the head in the same packet. */
		n = send(f->watch->fd, piece.p, piece.n,
			MSG_NOSIGNAL | (f->head.n ? MSG_MORE : 0));
		if (n > 0) {
			sent(f, (size_t)n);
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			if (f->head.n && f->head_sent == 0) {
				f->refused_errno = errno;
				refused(f, "the connection broke at once");
				return false;
			}
			/* It wants no more. What it said, if anything, is in the socket. */
			f->sending = false;
			buf_release(&f->head);
			if (r->state == RELAY_SEND)
				enter_wait(f);
		}
	}
	return true;
}

/* Nothing of the request has gone out. */
static void refused(struct relay_fastcgi *f, const char *why)
{
	if (f->kept) {
		fastcgi_try_afresh(f);
		return;
	}
	fastcgi_blame(f, why);
	fastcgi_leave(f);
	fastcgi_find_next(f);
}

/* The connection is over. */
static void closed(struct relay_fastcgi *f, const char *why)
{
	struct relay *r = &f->relay;

	/* END_REQUEST is whole, only its padding is missing. */
	if (f->end_n == END_REQUEST_LEN) {
		end_request(f);
		return;
	}
	if (r->state >= RELAY_HEAD || f->stdout_over) {
		/* An empty STDOUT record has said all there is. */
		if (!f->stdout_over && !relay_answer_is_whole(r))
			fastcgi_blame(f, "it broke off in its answer");
		relay_judge(r, f->stdout_over, why);
		return;
	}
	if (f->kept) {
		fastcgi_try_afresh(f);
		return;
	}
	fastcgi_blame(f, why);
	if (!f->repeatable || ++f->broken == SENDINGS_MOST) {
		relay_judge(r, false, why);
		return;
	}
	f->spent |= fastcgi_bit(f->at);
	count_one(COUNT_backend_retries);
	fastcgi_try_elsewhere(f);
}

static void end_request(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;
	unsigned status = record_read_end(f->end);

	f->keepable = f->keepable && status == FCGI_REQUEST_COMPLETE;
	switch (status) {
	case FCGI_REQUEST_COMPLETE: relay_judge(r, true, NULL); break;
	case FCGI_CANT_MPX_CONN:
		if (f->kept && r->state < RELAY_HEAD) {
			fastcgi_try_afresh(f);
			break;
		}
		__attribute__((fallthrough));
	case FCGI_OVERLOADED:
		f->overloaded = true;
		fastcgi_blame(f, "it is overloaded");
		if (r->state < RELAY_HEAD) {
			f->spent |= fastcgi_bit(f->at);
			fastcgi_try_elsewhere(f);
		} else {
			relay_finish(r, RELAY_OVERLOADED, "the backend is overloaded");
		}
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

static void take_end(struct relay_fastcgi *f, struct view content)
{
	size_t n = (size_t)(END_REQUEST_LEN - f->end_n);

	n = n < content.n ? n : content.n;
	memcpy(f->end + f->end_n, content.p, n);
	f->end_n = (uint8_t)(f->end_n + n);
}

/* False: the relay went another way. */
static bool take_content(struct relay_fastcgi *f, struct view content)
{
	struct relay *r = &f->relay;

	switch (f->reader.type) {
	case FCGI_STDOUT:
		if (f->stdout_over)
			return true;
		if (r->state < RELAY_HEAD)
			address_answers(f->addresses, f->at);
		return relay_feed(r, content);
	case FCGI_STDERR: relay_feed_errors(r, content); return true;
	default: take_end(f, content); return true;
	}
}

static bool nonsense(struct relay_fastcgi *f, const char *what)
{
	/* Words that came late to the request before. */
	if (f->kept && f->relay.state < RELAY_HEAD) {
		fastcgi_try_afresh(f);
		return false;
	}
	fastcgi_blame(f, what);
	relay_finish(&f->relay, RELAY_BAD, what);
	return false;
}

static bool take_records(struct relay_fastcgi *f, struct view in)
{
	struct view content;
	const char *problem;

	for (;;) {
		switch (record_next(&f->reader, &in, &content)) {
		case RECORD_MORE: return true;
		case RECORD_BEGINS:
			problem = record_problem(&f->reader);
			if (problem)
				return nonsense(f, problem);
			break;
		case RECORD_CONTENT:
			if (!take_content(f, content))
				return false;
			break;
		case RECORD_ENDS:
			if (f->reader.type == FCGI_STDOUT && f->reader.content_n == 0)
				f->stdout_over = true;
			if (f->reader.type == FCGI_END_REQUEST) {
				f->keepable = f->keepable && in.n == 0;
				end_request(f);
				return false;
			}
			break;
		case RECORD_BAD: return nonsense(f, "what the backend says is not FastCGI");
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
			closed(f,
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

void fastcgi_ready(struct relay *r, int events)
{
	struct relay_fastcgi *f = of(r);

	if (r->state == RELAY_CONNECT) {
		int err = 0;
		socklen_t len = sizeof(err);

		getsockopt(f->watch->fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (err) {
			f->refused_errno = err;
			refused(f, "it takes no connection");
			return;
		}
		relay_enter(r, RELAY_SEND, 0);
	}
	if ((events & UV_READABLE) && !read_more(f))
		return;
	if ((events & UV_WRITABLE) && !send_more(f))
		return;
	fastcgi_flow(r);
}

/* Whether the configuration lets it go out twice. */
static bool is_repeatable(const struct relay_job *job)
{
	static const char *const methods[] = { "GET", "HEAD", "OPTIONS", "PUT", "DELETE" };
	size_t n = job->backend->retry == RETRY_SAFE      ? 3
		: job->backend->retry == RETRY_IDEMPOTENT ? 5
							  : 0;
	struct view method = request_param(job->request, "REQUEST_METHOD");

	for (size_t i = 0; i < n; i++)
		if (view_eq(method, view_str(methods[i])))
			return true;
	return false;
}

static void start(struct relay *r)
{
	struct relay_fastcgi *f = of(r);
	const struct backend *b = r->job.backend;

	f->at = -1;
	if (relay_unsafe_param(r->job.request)) {
		relay_finish(r, RELAY_BAD_REQUEST, "CR, LF or NUL in a path");
		return;
	}
	f->addresses = addresses_ref(b->known);
	f->keep = b->keep;
	f->keep_idle_ms = (uint64_t)b->keep_idle_ms;
	if (!fastcgi_prepare(f))
		return;
	f->repeatable = is_repeatable(&r->job);
	fastcgi_find_start(f);
}

/* Has nobody read a byte of it, on a connection that served before? */
static bool is_unread(struct relay_fastcgi *f)
{
	return unread_on(f) > f->unread;
}

static bool expired(struct relay *r)
{
	struct relay_fastcgi *f = of(r);

	switch (r->state) {
	case RELAY_CONNECT:
		f->overdue = true;
		fastcgi_blame(f, "connecting took too long");
		fastcgi_leave(f);
		fastcgi_find_next(f);
		return true;
	case RELAY_RETRY: fastcgi_find_next(f); return true;
	case RELAY_WAIT:
		if (f->kept && f->unread) {
			bool unread = is_unread(f);

			f->unread = 0;
			if (unread)
				fastcgi_try_afresh(f);
			else
				enter_wait(f);
			return true;
		}
		fastcgi_blame(f, "no answer in time");
		return false;
	case RELAY_SEND: fastcgi_blame(f, "it takes no more of a request"); return false;
	case RELAY_HEAD:
		fastcgi_blame(f, "its answer's head stopped half-way");
		return false;
	/* Where events are few it is the operator's way to end a stream. */
	case RELAY_BODY: f->not_well = true; return false;
	default: return false;
	}
}

static void complete(struct relay *r)
{
	/* While the application still takes the body, that is to go on. */
	if (!of(r)->sending)
		relay_go_alone(r, true, ALONE_MS);
}

static bool outlives(const struct relay *r)
{
	(void)r;
	return false;
}

static void stop(struct relay *r, bool whole)
{
	struct relay_fastcgi *f = of(r);

	/* Also when the client left before the end: until then it went well. */
	if (r->state >= RELAY_HEAD && f->at >= 0 && !f->not_well)
		address_good(f->addresses, f->at);
	if (whole && f->keepable && f->keep && f->end_n == END_REQUEST_LEN && f->watch)
		idle_put(r->loop, f->addresses, f->at, relay_watch_release(&f->watch),
			f->keep, f->keep_idle_ms);
	fastcgi_leave(f);
	addresses_unref(f->addresses);
	f->addresses = NULL;
	buf_release(&f->head);
}

const struct relay_kind relay_fastcgi_kind = {
	.size = sizeof(struct relay_fastcgi),
	.start = start,
	.flow = fastcgi_flow,
	.expired = expired,
	.complete = complete,
	.outlives = outlives,
	.stop = stop,
};
