#include "store/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/async.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/shortage.h"

/* What is said here about hiredis was read in the sources of its version 0.14.1
 * (async.c, net.c, read.c) at github.com/redis/hiredis. */

struct wire {
	uv_poll_t poll;
	redisAsyncContext *ac; /* NULL once hiredis has let go of us */
	const struct wire_events *events;
	void *owner;
	int watched;       /* UV_READABLE, UV_WRITABLE */
	bool owned;        /* wire_close() has not been called */
	bool handle_alive; /* the loop still knows poll */
	bool left_idle;
	char fault[WIRE_FAULT_MAX];

	/* Commands, counted from the first: queued, given to write(2), answered. */
	uint64_t queued, offered, answered;
};

static void free_when_unused(struct wire *w)
{
	if (!w->owned && !w->handle_alive)
		free(w);
}

void wire_fail(struct wire *w, const char *reason)
{
	if (!*w->fault)
		snprintf(w->fault, sizeof(w->fault), "%s", reason);
}

const char *wire_fault(const struct wire *w)
{
	return *w->fault ? w->fault : NULL;
}

bool wire_left_idle(const struct wire *w)
{
	return w->left_idle;
}

/*
 * The hooks hiredis calls. It closes the descriptor itself, right after cleanup.
 */

static void on_poll(uv_poll_t *poll, int status, int events);

static void watch(struct wire *w, int events)
{
	if (events == w->watched)
		return;
	w->watched = events;
	if (!events) {
		uv_poll_stop(&w->poll);
	} else if (uv_poll_start(&w->poll, events, on_poll) < 0) {
		/* Nothing will wake us then, but the owner's clock. */
		w->watched = 0;
		wire_fail(w, "cannot watch the connection");
	}
}

static void add_read(void *data)
{
	struct wire *w = data;

	watch(w, w->watched | UV_READABLE);
}

static void del_read(void *data)
{
	struct wire *w = data;

	watch(w, w->watched & ~UV_READABLE);
}

static void add_write(void *data)
{
	struct wire *w = data;

	watch(w, w->watched | UV_WRITABLE);
}

static void del_write(void *data)
{
	struct wire *w = data;

	watch(w, w->watched & ~UV_WRITABLE);
}

static void on_poll_closed(uv_handle_t *handle)
{
	struct wire *w = CONTAINER_OF((uv_poll_t *)handle, struct wire, poll);

	w->handle_alive = false;
	free_when_unused(w);
}

/* The context is on its way out, by our wish or because hiredis saw an error; its
 * text is the last thing to be had from it. */
static void clean_up(void *data)
{
	struct wire *w = data;

	if (w->ac->c.err == REDIS_ERR_EOF)
		wire_fail(w, "Redis closed the connection");
	else
		wire_fail(w, w->ac->c.err ? w->ac->c.errstr : "closed");
	w->ac = NULL;
	uv_close((uv_handle_t *)&w->poll, on_poll_closed);
}

/*
 * Replies
 */

/* True when bytes that come now answer nothing: no command is open, or none of the
 * open ones has been sent. RESP has no numbers on its replies, so this is where a
 * stray one can be told from the right one. */
static bool nothing_to_answer(const struct wire *w)
{
	return w->answered >= w->offered;
}

static void on_reply(redisAsyncContext *ac, void *reply, void *tag)
{
	struct wire *w = ac->data;

	/* Without a reply the context is being freed: whoever wants the open commands
	 * has a list of them. */
	if (!reply || *w->fault)
		return;
	w->answered++;
	w->events->reply(w->owner, tag, reply);
	/* hiredis would hand a further reply to a command queued meanwhile, or abort. */
	if (nothing_to_answer(w) && ac->c.reader->pos < ac->c.reader->len)
		wire_fail(w, "sent a reply nobody asked for");
	/* In a callback this only marks the context: freed when we are back in hiredis. */
	if (*w->fault)
		redisAsyncFree(ac);
}

static void leave_idle(struct wire *w)
{
	w->left_idle = w->answered == w->queued;
	wire_fail(w, "Redis closed the connection");
}

/* Readable although nothing is open. Looks without taking. */
static void read_unasked(struct wire *w)
{
	char byte;
	ssize_t n = recv(w->ac->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n > 0)
		wire_fail(w, "sent a reply nobody asked for");
	else if (n == 0)
		leave_idle(w);
	else if (errno != EAGAIN && errno != EINTR)
		wire_fail(w, strerror(errno));
}

void wire_read(struct wire *w)
{
	if (!w->ac || *w->fault)
		return;
	if (w->ac->c.flags & REDIS_CONNECTED && nothing_to_answer(w))
		read_unasked(w);
	else
		redisAsyncHandleRead(w->ac);
}

static void write_queued(struct wire *w)
{
	if (!w->ac || *w->fault)
		return;
	w->offered = w->queued;
	redisAsyncHandleWrite(w->ac);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct wire *w = CONTAINER_OF(poll, struct wire, poll);

	if (status < 0) {
		/* Refused or reset, which libuv reports once, having stopped to watch. What
		 * it was comes out of reading and writing. */
		w->watched = 0;
		events = UV_READABLE | UV_WRITABLE;
	}
	if (events & UV_READABLE)
		wire_read(w);
	if (events & UV_WRITABLE)
		write_queued(w);
	if (status < 0)
		wire_fail(w, "the connection broke");
	w->events->woken(w->owner);
}

bool wire_send(struct wire *w, struct view request, void *tag)
{
	const redisCallback *last;

	if (!w->ac || *w->fault)
		return false;
	if (redisAsyncFormattedCommand(w->ac, on_reply, tag, request.p, request.n) !=
		REDIS_OK) {
		wire_fail(w, "hiredis takes no more commands");
		return false;
	}
	/* Out of memory is not in its return value: a command or its callback would be
	 * missing, and every later reply would go to the wrong one. */
	last = w->ac->replies.tail;
	if (w->ac->c.err || !last || last->privdata != tag) {
		wire_fail(w, "out of memory");
		return false;
	}
	w->queued++;
	return true;
}

/*
 * Opening and closing
 */

static redisAsyncContext *connect_to(
	const struct sockaddr *to, char why[static WIRE_FAULT_MAX])
{
	redisAsyncContext *ac = NULL;
	char host[NI_MAXHOST], port[8];
	socklen_t len = to->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
						  : sizeof(struct sockaddr_in);

	const char *path = ((const struct sockaddr_un *)to)->sun_path;

	if (to->sa_family == AF_UNIX) {
		/* hiredis leaves the last byte of its address as it finds it. */
		if (strnlen(path, sizeof(((struct sockaddr_un *)0)->sun_path)) > 106) {
			snprintf(why, WIRE_FAULT_MAX,
				"the path of the socket is longer than 106 bytes");
			return NULL;
		}
		ac = redisAsyncConnectUnix(path);
	} else if (getnameinfo(to, len, host, sizeof(host), port, sizeof(port),
			   NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
		/* A numeric address: its getaddrinfo() asks nobody. */
		ac = redisAsyncConnect(host, atoi(port));
	} else {
		snprintf(why, WIRE_FAULT_MAX, "not an address to connect to");
		return NULL;
	}
	if (!ac) {
		snprintf(why, WIRE_FAULT_MAX, "out of memory");
		return NULL;
	}
	if (ac->err) {
		/* Of a unix socket EAGAIN is a full listen queue. */
		if (ac->err == REDIS_ERR_IO && errno != EAGAIN)
			shortage_seen(errno, "a connection to Redis");
		snprintf(why, WIRE_FAULT_MAX, "%s", ac->errstr);
		redisAsyncFree(ac);
		return NULL;
	}
	fcntl(ac->c.fd, F_SETFD, FD_CLOEXEC);
	return ac;
}

struct wire *wire_open(uv_loop_t *loop, const struct sockaddr *to,
	const struct wire_events *events, void *owner, char why[static WIRE_FAULT_MAX])
{
	struct wire *w = calloc(1, sizeof(*w));
	redisAsyncContext *ac = connect_to(to, why);
	int err;

	if (!ac)
		goto fail;
	err = w ? uv_poll_init(loop, &w->poll, ac->c.fd) : UV_ENOMEM;
	if (err) {
		snprintf(why, WIRE_FAULT_MAX, "%s", uv_strerror(err));
		redisAsyncFree(ac);
		goto fail;
	}
	w->ac = ac;
	w->events = events;
	w->owner = owner;
	w->owned = true;
	w->handle_alive = true;
	ac->data = w;
	ac->ev.data = w;
	ac->ev.addRead = add_read;
	ac->ev.delRead = del_read;
	ac->ev.addWrite = add_write;
	ac->ev.delWrite = del_write;
	ac->ev.cleanup = clean_up;
	/* No connect and no disconnect callback: a context must not be freed in its own,
	 * and clean_up() is told of every end. */
	add_write(w);
	return w;
fail:
	free(w);
	return NULL;
}

void wire_close(struct wire *w)
{
	if (!w)
		return;
	w->owned = false;
	wire_fail(w, "closed");
	if (w->ac)
		redisAsyncFree(w->ac);
	free_when_unused(w);
}
