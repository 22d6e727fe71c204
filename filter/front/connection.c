/*
 * front/connection.c - one connection from a web server, as a state machine fed by
 * whatever bytes come.
 *
 * Input is read into one buffer a thread and consumed at once: a silent connection
 * costs this struct and no buffer. Output is queued as whole records, so two writers
 * never mix, and sent once a turn of the loop.
 *
 * A connection is kept only when the peer asked for it and STDIN was read to its end.
 * After any other answer our side is shut down and the rest of the input discarded
 * unread by any parser, within bounds: whatever a body holds is never taken for a
 * request, and a server that writes its whole body before it reads still gets there.
 *
 * Spec: FastCGI Specification 1.0, sections 3 to 5.
 */
#include "front/dialogue.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/shortage.h"

#define READ_CHUNK   65536
#define QUEUE_HIGH   131072 /* queued bytes above which the owner is asked to wait */
#define QUEUE_MOST   (8 * QUEUE_HIGH)
#define STOP_MS      500   /* for the first request of a connection, once weir ends */
#define STOP_READ_MS 2000  /* for what is still sent behind an answer, then */
#define TAIL_MS      1000  /* for the record that ends an empty STDIN */
#define SEND_AT_ONCE 65536 /* queued bytes that do not wait for the end of the turn */
#define WATCH_MS     500   /* between looks at a peer while nothing is read */

static struct log_gate malformed_gate, slow_gate;
static _Thread_local char read_chunk[READ_CHUNK];

static void flush(struct connection *c);

/* -- life and death ---------------------------------------------------------------- */

static void handle_closed(uv_handle_t *h)
{
	struct connection *c = h->data;
	struct connections *set = c->set;

	if (--c->handles)
		return;
	request_release(&c->rq);
	buf_release(&c->values);
	buf_release(&c->out);
	buf_release(&c->sending);
	config_unref(c->config);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	set->n--;
	count_add(COUNT_connections_open, -1);
	free(c);
	set->closed(set->owner);
}

static void clean(struct connection *c)
{
	struct connection **at = &c->set->dirty;

	if (!c->dirty)
		return;
	while (*at != c)
		at = &(*at)->dirty_next;
	*at = c->dirty_next;
	c->dirty = false;
}

void connection_die(struct connection *c)
{
	if (c->state == CONN_GONE)
		return;
	c->state = CONN_GONE;
	clean(c);
	uv_close(&c->io.handle, handle_closed);
	uv_close((uv_handle_t *)&c->timer, handle_closed);
}

/* Ends it under the owner's feet: the one place that calls gone. */
void connection_lose(struct connection *c, enum front_gone why)
{
	void *user = c->user;

	if (c->state == CONN_GONE)
		return;
	c->user = NULL;
	connection_die(c);
	if (user)
		c->set->events->gone(user, why);
}

void connection_malformed(struct connection *c, const char *what)
{
	uint64_t missed;

	count_one(COUNT_connections_malformed);
	if (log_gate_open(&malformed_gate, clock_mono_us(), &missed))
		log_warn("connection closed: not FastCGI", LOG_STR("what", what),
			LOG_INT("suppressed", missed));
	connection_lose(c, FRONT_MALFORMED);
}

void connection_answered(struct connection *c)
{
	size_t queued = c->out.n + c->sending.n;

	/* A request under way may have filled the queue itself, but not so far. */
	if (queued > (c->user ? QUEUE_MOST : QUEUE_HIGH))
		connection_malformed(c, "more questions than answers are read");
	else
		connection_mark_dirty(c);
}

/* The peer asked for a connection that is kept, and it cannot be, for want of the end of
 * STDIN. It must not find that out from its next request, which it may begin here as soon
 * as it has the end of the answer: over TCP that end waits in the socket, for 200 ms at
 * most, and shut_and_drain() sends it in one segment with the end of our side. A unix
 * socket has nothing of the kind; there a moment remains between the two. (tcp(7),
 * TCP_CORK.) */
static void hold_the_end(struct connection *c)
{
	uv_os_fd_t fd;
	int on = 1;

	if (c->state == CONN_FLUSH && c->after == AFTER_DRAIN && c->keep &&
		c->io.handle.type == UV_TCP && uv_fileno(&c->io.handle, &fd) == 0)
		setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
}

/* Ends our side; the rest of the input is discarded until the peer ends its own. All has
 * been sent, so it is done at once: uv_shutdown() would wait for the loop's next turn, and
 * a peer that has the end of the answer by then may have begun its next request. */
static void shut_and_drain(struct connection *c)
{
	uv_os_fd_t fd;

	if (c->peer_closed || uv_fileno(&c->io.handle, &fd) < 0 ||
		shutdown(fd, SHUT_WR) < 0)
		connection_die(c);
	else
		connection_enter(c, CONN_DRAIN);
}

static void too_slow(struct connection *c)
{
	static const char *const what[] = {
		[CONN_IDLE] = "nothing came",
		[CONN_HEAD] = "the head did not come in time",
		[CONN_BODY] = "the body stopped coming",
		[CONN_BUSY] = "the answer is not read",
		[CONN_FLUSH] = "the answer is not read",
		[CONN_TAIL] = "the answer is not read",
	};
	uint64_t missed;

	/* There was a body after all; unless what was asked meanwhile is not read. */
	if (c->state == CONN_TAIL && !c->out.n && !c->write_pending) {
		shut_and_drain(c);
		return;
	}
	/* As announced. */
	if (c->state == CONN_DRAIN || (c->state == CONN_IDLE && c->set->stopping)) {
		connection_die(c);
		return;
	}
	count_one(COUNT_connections_slow);
	if (log_gate_open(&slow_gate, clock_mono_us(), &missed))
		log_warn("connection closed: too slow", LOG_STR("what", what[c->state]),
			LOG_INT("suppressed", missed));
	connection_lose(c, FRONT_PEER_SLOW);
}

/* While the body is not read its end, or the peer's, waits behind what is in the socket. */
static bool is_unread(const struct connection *c)
{
	return c->state == CONN_BODY && !c->reading;
}

static bool has_left(const struct connection *c)
{
	struct pollfd peer = { .events = POLLRDHUP };

	return uv_fileno(&c->io.handle, &peer.fd) == 0 && poll(&peer, 1, 0) > 0;
}

static void on_timer(uv_timer_t *t)
{
	struct connection *c = t->data;
	size_t unsent = uv_stream_get_write_queue_size(&c->io.stream);

	if (c->write_pending && unsent < c->unsent) { /* slow, but reading */
		c->unsent = unsent;
		connection_arm(c, c->config->server.send_timeout_ms);
	} else if (c->write_pending || !is_unread(c)) {
		too_slow(c);
	} else if (has_left(c)) {
		connection_lose(c, FRONT_PEER_LEFT);
	} else {
		connection_arm(c, WATCH_MS);
	}
}

void connection_arm(struct connection *c, int64_t ms)
{
	if (c->state != CONN_GONE)
		uv_timer_start(&c->timer, on_timer, (uint64_t)ms, 0);
}

/* The time limit of the state it is in. A kept connection may be silent as long as it
 * likes, but once a record has begun it has to go on. */
void connection_arm_for_state(struct connection *c)
{
	const struct config *config = c->config;
	bool due = c->state != CONN_BUSY;

	if (c->state == CONN_IDLE)
		due = !c->served || !record_at_boundary(&c->reader);
	if (!due) {
		uv_timer_stop(&c->timer);
		return;
	}
	switch (c->state) {
	case CONN_IDLE:
		connection_arm(
			c, c->set->stopping ? STOP_MS : config->server.head_timeout_ms);
		break;
	case CONN_HEAD: connection_arm(c, config->server.head_timeout_ms); break;
	case CONN_BODY:
		connection_arm(c, is_unread(c) ? WATCH_MS : config->server.body_timeout_ms);
		break;
	case CONN_TAIL: connection_arm(c, TAIL_MS); break;
	case CONN_DRAIN:
		connection_arm(c,
			c->set->stopping && config->server.drain_timeout_ms > STOP_READ_MS
				? STOP_READ_MS
				: config->server.drain_timeout_ms);
		break;
	case CONN_BUSY:
	case CONN_FLUSH:
	case CONN_GONE: break;
	}
}

/* The one door between states. */
void connection_enter(struct connection *c, enum connection_state state)
{
	c->state = state;
	if (state == CONN_IDLE)
		c->idle_since_ms = uv_now(c->set->loop);
	if (state == CONN_IDLE && c->set->stopping && !c->out.n && !c->write_pending)
		connection_die(c);
	else
		connection_arm_for_state(c);
}

/* -- sending ----------------------------------------------------------------------- */

void connection_mark_dirty(struct connection *c)
{
	if (c->dirty || c->state == CONN_GONE)
		return;
	c->dirty = true;
	c->dirty_next = c->set->dirty;
	c->set->dirty = c;
}

/* All that was queued has left. */
static void sent_all(struct connection *c)
{
	if (c->full) {
		c->full = false;
		if (c->user)
			c->set->events->writable(c->user);
	}
	if (c->state == CONN_IDLE && c->set->stopping) {
		connection_die(c);
		return;
	}
	if (c->state != CONN_FLUSH || c->out.n)
		return;
	if (c->after <= AFTER_TAIL && !c->set->stopping && !c->peer_closed) {
		connection_enter(c, c->after == AFTER_KEEP ? CONN_IDLE : CONN_TAIL);
		return;
	}
	if (c->after == AFTER_DRAIN || c->after == AFTER_LAST)
		shut_and_drain(c);
	else
		connection_die(c);
}

/* Whose fault it is that nothing is sent or read any more: what there is not enough of here
 * is ours. */
static enum front_gone gone_by(int status)
{
	return shortage_seen(-status, "an answer") == SHORTAGE_NONE ? FRONT_PEER_LEFT
								    : FRONT_FAILED;
}

static void written(uv_write_t *req, int status)
{
	struct connection *c = req->handle->data;

	c->write_pending = false;
	buf_release(&c->sending);
	if (c->state == CONN_GONE)
		return;
	if (status < 0) {
		connection_lose(c, gone_by(status));
		return;
	}
	connection_arm_for_state(c); /* in place of the time limit for sending */
	flush(c);
}

static void flush(struct connection *c)
{
	uv_buf_t piece;
	int done = 0;

	if (c->write_pending || c->state == CONN_GONE)
		return;
	if (!buf_ok(&c->out)) { /* part of an answer is lost: end it visibly */
		connection_lose(c, gone_by(UV_ENOMEM));
		return;
	}
	if (c->state == CONN_FLUSH && c->after == AFTER_REST)
		c->after = AFTER_DRAIN; /* what is here has been read */
	hold_the_end(c);
	piece = uv_buf_init(c->out.p, (unsigned)c->out.n);
	if (c->out.n)
		done = uv_try_write(&c->io.stream, &piece, 1);
	if (done < 0 && done != UV_EAGAIN) {
		connection_lose(c, gone_by(done));
		return;
	}
	if (done == (int)c->out.n) {
		buf_release(&c->out);
		sent_all(c);
		return;
	}
	c->sending = c->out;
	buf_init(&c->out);
	if (done > 0)
		piece = uv_buf_init(
			c->sending.p + done, (unsigned)(c->sending.n - (size_t)done));
	c->write_pending = true;
	c->unsent = piece.len;
	connection_arm(c, c->config->server.send_timeout_ms);
	done = uv_write(&c->write_req, &c->io.stream, &piece, 1, written);
	if (done < 0) {
		c->write_pending = false;
		connection_lose(c, gone_by(done));
	}
}

void connection_flush_dirty(uv_prepare_t *prepare)
{
	struct connections *set = prepare->data;

	while (set->dirty) {
		struct connection *c = set->dirty;

		set->dirty = c->dirty_next;
		c->dirty = false;
		flush(c);
	}
}

/* The request is over for the owner; what is queued still goes out. */
void connection_end_request(struct connection *c, enum connection_after after)
{
	c->user = NULL;
	c->after = after;
	connection_enter(c, CONN_FLUSH);
	if (!c->write_pending)
		uv_timer_stop(&c->timer);
	if (!c->reading && !c->peer_closed)
		front_body_resume(&c->front);
	connection_mark_dirty(c);
}

static struct connection *of_front(struct front *f)
{
	return CONTAINER_OF(f, struct connection, front);
}

static bool conn_write(struct front *f, struct view bytes)
{
	struct connection *c = of_front(f);

	record_put_stream(&c->out, FCGI_STDOUT, c->id, bytes);
	if (c->out.n >= SEND_AT_ONCE && !c->write_pending) {
		/* Not flush(): a peer that is found gone here would be reported from
		 * inside the owner's call. Only fill the socket; errors show later. */
		uv_buf_t piece = uv_buf_init(c->out.p, (unsigned)c->out.n);
		int done = uv_try_write(&c->io.stream, &piece, 1);

		if (done > 0)
			buf_drop(&c->out, (size_t)done);
	}
	connection_mark_dirty(c);
	/* Once owed, writable stays owed, even if this piece found room. */
	if (c->out.n + c->sending.n > QUEUE_HIGH)
		c->full = true;
	return !c->full;
}

static void conn_finish(struct front *f)
{
	struct connection *c = of_front(f);
	enum connection_after after = AFTER_DRAIN;

	record_end_stream(&c->out, FCGI_STDOUT, c->id);
	record_put_end(&c->out, c->id, 0, FCGI_REQUEST_COMPLETE);
	/* An authorizer may be sent no STDIN, or one that never ends: see section 6.3. */
	if (c->ended)
		after = c->keep ? AFTER_KEEP : AFTER_CLOSE;
	else if (c->bodiless && !c->keep)
		after = AFTER_LAST;
	else if (c->keep && c->rq.role != FCGI_AUTHORIZER)
		after = c->bodiless ? AFTER_TAIL : AFTER_REST;
	connection_end_request(c, after);
}

static void conn_abort(struct front *f, bool too_short)
{
	struct connection *c = of_front(f);

	/* nginx takes a connection that closes, also in the middle of a record, for the end
	 * of a whole answer. END_REQUEST makes it compare lengths before it looks at the
	 * padding. Without a length a byte that begins no record tells it, but makes it
	 * forget what it has in its hands. Other servers read a record that breaks off,
	 * which is what both are. (nginx 1.22: src/http/modules/ngx_http_fastcgi_module.c,
	 * ngx_http_fastcgi_input_filter and ngx_http_fastcgi_non_buffered_filter.) */
	if (too_short)
		record_put_broken_end(&c->out, c->id);
	else
		buf_add_byte(&c->out, '\0');
	connection_end_request(c, AFTER_CLOSE);
}

/* -- reading ----------------------------------------------------------------------- */

static void give_chunk(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
	(void)h;
	(void)suggested;
	*out = uv_buf_init(read_chunk, sizeof(read_chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk);

static void conn_body_resume(struct front *f)
{
	struct connection *c = of_front(f);

	if (c->reading || c->peer_closed || c->state == CONN_GONE)
		return;
	if (c->state == CONN_BODY)
		connection_arm(c, c->config->server.body_timeout_ms);
	c->reading = uv_read_start(&c->io.stream, give_chunk, on_read) == 0;
}

static void conn_body_stop(struct front *f)
{
	struct connection *c = of_front(f);

	if (!c->reading || c->state == CONN_GONE)
		return;
	uv_read_stop(&c->io.stream);
	c->reading = false;
	if (!c->write_pending)
		connection_arm_for_state(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk)
{
	struct connection *c = stream->data;

	if (n == 0 || c->state == CONN_GONE)
		return;
	if (n > 0) {
		/* The peer may have the whole answer, and ask again, before libuv has told
		 * us that it is sent. */
		if (c->state == CONN_FLUSH && c->after <= AFTER_TAIL && !c->out.n &&
			uv_stream_get_write_queue_size(&c->io.stream) == 0)
			sent_all(c);
		dialogue_take(c, view_of(chunk->base, (size_t)n));
		if (c->state == CONN_IDLE && c->served &&
			record_at_boundary(&c->reader) ==
				!!uv_is_active((uv_handle_t *)&c->timer))
			connection_arm_for_state(c);
		/* The bound in bytes leaves room for any body that would be accepted. */
		if (c->state == CONN_DRAIN &&
			c->drained > c->config->server.body_limit + (UINT64_C(1) << 20))
			connection_die(c);
		return;
	}
	c->reading = false;
	c->peer_closed = true;
	/* An answer that is on its way still goes out: the peer may have shut only its
	 * own side. In any other state nobody waits for one. */
	if (n == UV_EOF && c->state == CONN_FLUSH)
		return;
	connection_lose(c, gone_by((int)n));
}

const struct front_kind connection_kind = {
	.body_stop = conn_body_stop,
	.body_resume = conn_body_resume,
	.write = conn_write,
	.finish = conn_finish,
	.abort = conn_abort,
};
