/*
 * observe/control.c - the control socket's connections.
 *
 * Peers live in a fixed array, so accepting one needs no memory and cannot fail half-way.
 * Each is in one of three states, and each state but the last has a deadline: a peer that
 * says nothing, or takes nothing, is gone after a while. Reading stops while an answer
 * is on its way, so a peer that only sends fills its own socket and nothing here.
 *
 * When every place is taken, the ones kept for it tell newcomers that weir is busy; when
 * those too are taken the kernel's backlog holds them until the loop has closed some.
 */
#include "observe/control.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/counters.h"

/* Places beyond those served, for telling somebody that there are no more. */
#define PLACES_TO_REFUSE 8

enum peer_state {
	PEER_FREE,    /* the place is empty */
	PEER_LINE,    /* until a whole line is here */
	PEER_REPLY,   /* until the peer has taken the answer */
	PEER_CLOSING, /* until the loop has closed both handles */
};

/* One handle by the names libuv has for what it is. */
union pipe_io {
	uv_handle_t handle;
	uv_stream_t stream;
	uv_pipe_t pipe;
};

struct peer {
	struct control *control;
	enum peer_state state;
	union pipe_io io;
	uv_timer_t deadline;
	uv_write_t write;
	unsigned handles; /* open or closing */
	struct buf in; /* read and not answered yet; CONTROL_LINE_MAX and a chunk at most */
	char *reply;   /* being written */
	bool skipping; /* the rest of a line that was too long is dropped */
	bool ended;    /* the peer has closed its sending side */
};

struct control {
	uv_loop_t *loop;
	const struct control_ops *ops;
	void *user;
	union pipe_io listener;
	bool listening;
	bool stopping;
	bool waiting; /* libuv holds a connection for which there was no place */
	size_t served, taken;
	char chunk[8192]; /* what is read passes through here; one loop, one reader */
	struct peer peers[CONTROL_PEERS_MAX + PLACES_TO_REFUSE];
};

static void accept_one(struct control *c);
static void take_lines(struct peer *p);

/* The memory goes when stopped and no handle of ours is left in the loop. */
static void free_when_idle(struct control *c)
{
	if (c->stopping && !c->listening && c->taken == 0)
		free(c);
}

static void on_peer_closed(uv_handle_t *handle)
{
	struct peer *p = handle->data;
	struct control *c = p->control;

	if (--p->handles)
		return;
	buf_release(&p->in);
	free(p->reply);
	*p = (struct peer){ .state = PEER_FREE };
	c->taken--;
	if (c->waiting && !c->stopping)
		accept_one(c);
	free_when_idle(c);
}

/* The one door to a peer's end. */
static void close_peer(struct peer *p)
{
	if (p->state == PEER_CLOSING)
		return;
	assert(p->state != PEER_FREE);
	p->control->served--;
	p->state = PEER_CLOSING;
	uv_close(&p->io.handle, on_peer_closed);
	uv_close((uv_handle_t *)&p->deadline, on_peer_closed);
}

/* Says why, if the socket takes it at once, and closes. */
static void close_with_error(struct peer *p, struct view message)
{
	char *line = control_error(message);
	uv_buf_t out;

	if (line) {
		out = uv_buf_init(line, (unsigned)strlen(line));
		uv_try_write(&p->io.stream, &out, 1);
		free(line);
	}
	close_peer(p);
}

static void on_deadline(uv_timer_t *timer)
{
	struct peer *p = timer->data;

	if (p->state == PEER_LINE)
		close_with_error(p,
			VIEW("no whole line came in time; send one JSON "
			     "object and a newline"));
	else
		close_peer(p);
}

static void enter(struct peer *p, enum peer_state state)
{
	int64_t ms = p->control->ops->patience_ms;

	p->state = state;
	uv_timer_start(
		&p->deadline, on_deadline, (uint64_t)(ms ? ms : CONTROL_PATIENCE_MS), 0);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
	struct peer *p = handle->data;

	(void)suggested;
	*out = uv_buf_init(p->control->chunk, sizeof(p->control->chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *chunk)
{
	struct peer *p = stream->data;

	if (n == UV_EOF) {
		p->ended = true;
		uv_read_stop(stream);
	} else if (n < 0) {
		close_peer(p);
		return;
	} else {
		buf_add(&p->in, view_of(chunk->base, (size_t)n));
	}
	take_lines(p);
}

static void on_written(uv_write_t *write, int status)
{
	struct peer *p = write->data;

	if (p->state == PEER_CLOSING)
		return;
	free(p->reply);
	p->reply = NULL;
	if (status < 0) {
		close_peer(p);
		return;
	}
	enter(p, PEER_LINE);
	if (!p->ended && uv_read_start(&p->io.stream, on_alloc, on_read) < 0) {
		close_peer(p);
		return;
	}
	take_lines(p);
}

/* Sends reply, which it takes over, and reads nothing until it is taken. */
static void send_reply(struct peer *p, char *reply)
{
	uv_buf_t out;

	assert(p->state == PEER_LINE && !p->reply);
	if (!reply) {
		close_peer(p);
		return;
	}
	p->reply = reply;
	p->write.data = p;
	out = uv_buf_init(reply, (unsigned)strlen(reply));
	uv_read_stop(&p->io.stream);
	enter(p, PEER_REPLY);
	if (uv_write(&p->write, &p->io.stream, &out, 1, on_written) < 0)
		close_peer(p);
}

/* Answers the first line that is whole; on_written() comes back for the next. */
static void take_lines(struct peer *p)
{
	struct control *c = p->control;

	if (!buf_ok(&p->in)) {
		close_peer(p);
		return;
	}
	while (p->state == PEER_LINE) {
		const char *end = p->in.n ? memchr(p->in.p, '\n', p->in.n) : NULL;
		size_t line_n = end ? (size_t)(end - p->in.p) : p->in.n;
		struct view line = view_trim(view_of(p->in.p, line_n));

		if (p->skipping) {
			p->skipping = !end;
		} else if (line_n > CONTROL_LINE_MAX) {
			p->skipping = !end;
			send_reply(p,
				control_error(VIEW("the line is too long; at most "
						   "65536 bytes make a request")));
		} else if (!end && !p->ended) {
			return;
		} else if (line.n) {
			/* At its end the peer may leave out the last newline. */
			send_reply(p, control_answer(c->ops, c->user, line));
		}
		buf_drop(&p->in, end ? line_n + 1 : line_n);
		if (p->in.n == 0 && p->state == PEER_LINE) {
			if (p->ended)
				close_peer(p);
			return;
		}
	}
}

static struct peer *free_place(struct control *c)
{
	for (size_t i = 0; i < COUNT_OF(c->peers); i++) {
		if (c->peers[i].state == PEER_FREE)
			return &c->peers[i];
	}
	return NULL;
}

static void accept_one(struct control *c)
{
	struct peer *p = free_place(c);

	c->waiting = !p;
	if (!p)
		return;
	p->control = c;
	uv_timer_init(c->loop, &p->deadline);
	uv_pipe_init(c->loop, &p->io.pipe, 0);
	p->io.handle.data = p;
	p->deadline.data = p;
	p->handles = 2;
	c->taken++;
	c->served++;
	p->state = PEER_LINE;
	if (uv_accept(&c->listener.stream, &p->io.stream) < 0) {
		close_peer(p);
		return;
	}
	if (c->served > CONTROL_PEERS_MAX) {
		count_one(COUNT_control_refused);
		close_with_error(p,
			VIEW("weir is busy with other control connections; "
			     "try again in a few seconds"));
		return;
	}
	enter(p, PEER_LINE);
	if (uv_read_start(&p->io.stream, on_alloc, on_read) < 0)
		close_peer(p);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct control *c = listener->data;

	if (status == 0 && !c->stopping)
		accept_one(c);
}

static void on_listener_closed(uv_handle_t *handle)
{
	struct control *c = handle->data;

	c->listening = false;
	free_when_idle(c);
}

struct control *control_start(
	uv_loop_t *loop, int listening_fd, const struct control_ops *ops, void *user)
{
	struct control *c = calloc(1, sizeof(*c));
	int err;

	if (!c) {
		close(listening_fd);
		return NULL;
	}
	c->loop = loop;
	c->ops = ops;
	c->user = user;
	uv_pipe_init(loop, &c->listener.pipe, 0);
	c->listener.handle.data = c;
	c->listening = true;
	err = uv_pipe_open(&c->listener.pipe, listening_fd);
	if (err < 0)
		close(listening_fd);
	else
		err = uv_listen(&c->listener.stream, CONTROL_PEERS_MAX, on_connection);
	if (err == 0)
		return c;
	control_stop(c);
	return NULL;
}

void control_stop(struct control *c)
{
	if (!c || c->stopping)
		return;
	c->stopping = true;
	for (size_t i = 0; i < COUNT_OF(c->peers); i++) {
		if (c->peers[i].state != PEER_FREE)
			close_peer(&c->peers[i]);
	}
	uv_close(&c->listener.handle, on_listener_closed);
}
