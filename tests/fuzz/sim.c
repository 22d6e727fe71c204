#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

#define FD_FIRST    0x10000
#define HANDLES_MAX 256

uv_loop_t sim_loop;
int sim_connect_says;

static struct sim_socket sockets[SIM_SOCKETS_MAX];
static struct sim_socket *last;
static size_t n_sockets;
static int64_t now_us = INT64_C(1000000000);

/* -- sockets ----------------------------------------------------------------------- */

/* The linker sends calls of the system's functions here. */
#define WRAPPED(type, name, ...)         \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

static bool is_mine(int fd)
{
	return fd >= FD_FIRST && fd < FD_FIRST + SIM_SOCKETS_MAX;
}

struct sim_socket *sim_socket(int fd)
{
	MUST(is_mine(fd) && (size_t)(fd - FD_FIRST) < n_sockets);
	return &sockets[fd - FD_FIRST];
}

struct sim_socket *sim_last(void)
{
	return last;
}

int sim_socket_new(void)
{
	struct sim_socket *s = &sockets[n_sockets];

	MUST(n_sockets < SIM_SOCKETS_MAX);
	s->open = true;
	s->shut = s->connecting = s->eof = false;
	s->error = 0;
	s->room = SIM_ROOM;
	buf_reset(&s->out); /* its memory is kept: most of the time would go there */
	s->first = s->n = 0;
	last = s;
	return FD_FIRST + (int)n_sockets++;
}

void sim_give(struct sim_socket *s, struct view piece)
{
	if (s->first == s->n)
		s->first = s->n = 0;
	MUST(s->n < SIM_PIECES_MAX);
	if (piece.n && !s->eof && !s->error)
		s->pieces[s->n++] = piece;
}

void sim_eof(struct sim_socket *s)
{
	s->eof = true;
}

void sim_reset(struct sim_socket *s)
{
	s->error = ECONNRESET;
	s->first = s->n;
}

void sim_connected(struct sim_socket *s, int error)
{
	s->error = error;
	s->connecting = false;
	/* That is how poll() tells it. */
	if (!s->room)
		s->room = 1;
}

/* read(2) on it. */
static ssize_t take(struct sim_socket *s, char *out, size_t cap, bool peek)
{
	struct view *piece = &s->pieces[s->first];
	size_t n;

	MUST(s->open);
	if (s->first < s->n) {
		n = piece->n < cap ? piece->n : cap;
		memcpy(out, piece->p, n);
		if (!peek) {
			*piece = view_skip(*piece, n);
			s->first += piece->n == 0;
		}
		return (ssize_t)n;
	}
	if (!s->error && s->eof)
		return 0;
	errno = s->error ? s->error : EAGAIN;
	return -1;
}

/* write(2) to it. */
static ssize_t put(struct sim_socket *s, const char *p, size_t n)
{
	MUST(s->open && !s->shut);
	if (s->error || s->connecting || s->room == 0) {
		errno = s->error ? EPIPE : EAGAIN;
		return -1;
	}
	if (n > s->room)
		n = s->room;
	if (s->room != SIM_ROOM)
		s->room -= n;
	last = s;
	buf_add(&s->out, view_of(p, n));
	return (ssize_t)n;
}

WRAPPED(int, socket, int family, int type, int protocol)
{
	(void)family;
	(void)type;
	(void)protocol;
	if (n_sockets == SIM_SOCKETS_MAX) {
		errno = EMFILE;
		return -1;
	}
	return sim_socket_new();
}

WRAPPED(int, connect, int fd, const struct sockaddr *to, socklen_t len)
{
	struct sim_socket *s = sim_socket(fd);

	(void)to;
	(void)len;
	s->connecting = sim_connect_says == EINPROGRESS;
	errno = sim_connect_says;
	return sim_connect_says ? -1 : 0;
}

WRAPPED(ssize_t, recv, int fd, void *out, size_t cap, int flags)
{
	return take(sim_socket(fd), out, cap, flags & MSG_PEEK);
}

WRAPPED(ssize_t, read, int fd, void *out, size_t cap)
{
	return is_mine(fd) ? take(sim_socket(fd), out, cap, false)
			   : __real_read(fd, out, cap);
}

WRAPPED(ssize_t, send, int fd, const void *p, size_t n, int flags)
{
	(void)flags;
	return put(sim_socket(fd), p, n);
}

WRAPPED(ssize_t, write, int fd, const void *p, size_t n)
{
	return is_mine(fd) ? put(sim_socket(fd), p, n) : __real_write(fd, p, n);
}

/* Of what there is to poll for, only whether the peer has left is asked of a socket. */
WRAPPED(int, poll, struct pollfd *fds, nfds_t n, int ms)
{
	const struct sim_socket *s;

	if (n != 1 || !is_mine(fds->fd))
		return __real_poll(fds, n, ms);
	MUST(fds->events == POLLRDHUP && ms == 0);
	s = sim_socket(fds->fd);
	return s->eof || s->error;
}

static void close_socket(struct sim_socket *s)
{
	MUST(s->open);
	s->open = false;
}

WRAPPED(int, close, int fd)
{
	if (!is_mine(fd))
		return __real_close(fd);
	close_socket(sim_socket(fd));
	return 0;
}

WRAPPED(int, shutdown, int fd, int how)
{
	struct sim_socket *s = sim_socket(fd);

	MUST(how == SHUT_WR && s->open);
	s->shut = true;
	errno = ENOTCONN;
	return s->error ? -1 : 0;
}

WRAPPED(int, getsockname, int fd, struct sockaddr *out, socklen_t *len)
{
	MUST(is_mine(fd) && *len >= sizeof(out->sa_family));
	out->sa_family = AF_UNIX;
	return 0;
}

WRAPPED(int, getsockopt, int fd, int level, int name, void *out, socklen_t *len)
{
	(void)level;
	MUST(name == SO_ERROR && *len == sizeof(int));
	memcpy(out, &sim_socket(fd)->error, sizeof(int));
	return 0;
}

WRAPPED(int, setsockopt, int fd, int level, int name, const void *value, socklen_t len)
{
	(void)level;
	(void)name;
	(void)value;
	(void)len;
	MUST(sim_socket(fd)->open);
	return 0;
}

/* Only SIOCOUTQ is asked for: the peer has read all. */
int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_ioctl(int fd, unsigned long what, ...)
{
	va_list ap;

	(void)what;
	MUST(is_mine(fd));
	va_start(ap, what);
	*va_arg(ap, int *) = 0;
	va_end(ap);
	return 0;
}

int __wrap_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...)
{
	(void)fd;
	(void)what;
	return 0;
}

int __wrap_fcntl64(int fd, int what, ...);
int __wrap_fcntl64(int fd, int what, ...)
{
	(void)fd;
	(void)what;
	return 0;
}

WRAPPED(int64_t, clock_mono_us, void)
{
	return now_us;
}

/* -- handles ----------------------------------------------------------------------- */

enum kind {
	KIND_TIMER,
	KIND_PREPARE,
	KIND_POLL,
	KIND_STREAM
};

struct handle {
	uv_handle_t *its;
	enum kind kind;
	bool active, closing;
	uv_close_cb closed;

	uint64_t due_ms, serial; /* timer */
	uv_timer_cb on_timer;
	uv_prepare_cb on_prepare;
	struct sim_socket *socket;
	int events; /* poll */
	uv_poll_cb on_poll;
	uv_alloc_cb give; /* stream; active: reading */
	uv_read_cb on_read;
	uv_write_t *write;
	struct view unwritten;
	int write_error;
};

static struct handle *handles[HANDLES_MAX];
static size_t n_handles;
static uint64_t serial;
static bool happened;

static struct handle *of(const void *its)
{
	struct handle *h = ((const uv_handle_t *)its)->u.reserved[0];

	MUST(h && h->its == its);
	return h;
}

static struct handle *init(void *its, enum kind kind)
{
	struct handle *h = calloc(1, sizeof(*h));
	uv_handle_t *handle = its;
	void *data = handle->data;

	MUST(h && n_handles < HANDLES_MAX);
	h->its = handle;
	h->kind = kind;
	handle->data = data;
	handle->u.reserved[0] = h;
	handles[n_handles++] = h;
	return h;
}

void uv_close(uv_handle_t *its, uv_close_cb closed)
{
	struct handle *h = of(its);

	MUST(!h->closing);
	h->closing = true;
	h->active = false;
	h->closed = closed;
	if (h->kind == KIND_STREAM && h->socket)
		close_socket(h->socket);
}

int uv_is_active(const uv_handle_t *its)
{
	return of(its)->active;
}

void uv_unref(uv_handle_t *its)
{
	of(its);
}

uint64_t uv_now(const uv_loop_t *loop)
{
	(void)loop;
	return (uint64_t)now_us / 1000;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *its)
{
	(void)loop;
	init(its, KIND_TIMER);
	return 0;
}

int uv_timer_start(uv_timer_t *its, uv_timer_cb call, uint64_t ms, uint64_t repeat)
{
	struct handle *h = of(its);

	MUST(repeat == 0);
	if (h->closing)
		return UV_EINVAL;
	h->active = true;
	h->on_timer = call;
	h->due_ms = uv_now(&sim_loop) + ms;
	h->serial = serial++;
	return 0;
}

int uv_timer_stop(uv_timer_t *its)
{
	of(its)->active = false;
	return 0;
}

uint64_t uv_timer_get_due_in(const uv_timer_t *its)
{
	const struct handle *h = of(its);

	return h->due_ms > uv_now(&sim_loop) ? h->due_ms - uv_now(&sim_loop) : 0;
}

int uv_prepare_init(uv_loop_t *loop, uv_prepare_t *its)
{
	(void)loop;
	init(its, KIND_PREPARE);
	return 0;
}

int uv_prepare_start(uv_prepare_t *its, uv_prepare_cb call)
{
	of(its)->on_prepare = call;
	of(its)->active = true;
	return 0;
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *its, int fd)
{
	struct sim_socket *s = sim_socket(fd);

	(void)loop;
	MUST(s->open);
	init(its, KIND_POLL)->socket = s;
	return 0;
}

int uv_poll_start(uv_poll_t *its, int events, uv_poll_cb call)
{
	struct handle *h = of(its);

	MUST(!h->closing);
	h->active = events != 0;
	h->events = events;
	h->on_poll = call;
	return 0;
}

int uv_poll_stop(uv_poll_t *its)
{
	MUST(!of(its)->closing);
	of(its)->active = false;
	return 0;
}

int uv_pipe_init(uv_loop_t *loop, uv_pipe_t *its, int ipc)
{
	(void)loop;
	(void)ipc;
	init(its, KIND_STREAM);
	return 0;
}

int uv_pipe_open(uv_pipe_t *its, uv_file fd)
{
	of(its)->socket = sim_socket(fd);
	return 0;
}

int uv_read_start(uv_stream_t *its, uv_alloc_cb give, uv_read_cb call)
{
	struct handle *h = of(its);

	if (h->closing)
		return UV_EINVAL;
	h->active = true;
	h->give = give;
	h->on_read = call;
	return 0;
}

int uv_read_stop(uv_stream_t *its)
{
	of(its)->active = false;
	return 0;
}

size_t uv_stream_get_write_queue_size(const uv_stream_t *its)
{
	return of(its)->unwritten.n;
}

int uv_try_write(uv_stream_t *its, const uv_buf_t bufs[], unsigned n_bufs)
{
	struct handle *h = of(its);
	ssize_t n;

	MUST(!h->closing && n_bufs == 1);
	if (h->write)
		return UV_EAGAIN;
	n = put(h->socket, bufs->base, bufs->len);
	return n < 0 ? -errno : (int)n;
}

/* As much as the peer takes now. */
static void write_more(struct handle *h)
{
	ssize_t n = put(h->socket, h->unwritten.p, h->unwritten.n);

	if (n >= 0)
		h->unwritten = view_skip(h->unwritten, (size_t)n);
	else if (errno != EAGAIN)
		h->write_error = -errno;
}

int uv_write(uv_write_t *req, uv_stream_t *its, const uv_buf_t bufs[], unsigned n_bufs,
	uv_write_cb call)
{
	struct handle *h = of(its);

	MUST(!h->closing && !h->write && n_bufs == 1);
	req->handle = its;
	req->cb = call;
	h->write = req;
	h->unwritten = view_of(bufs->base, bufs->len);
	h->write_error = 0;
	write_more(h);
	return 0;
}

int uv_fileno(const uv_handle_t *its, uv_os_fd_t *out)
{
	const struct handle *h = of(its);

	if (h->closing)
		return UV_EBADF;
	*out = FD_FIRST + (int)(h->socket - sockets);
	return 0;
}

/* -- turns ------------------------------------------------------------------------- */

static void run_timers(void)
{
	uint64_t before = serial; /* those started meanwhile wait for the next turn */

	for (;;) {
		struct handle *first = NULL;

		for (size_t i = 0; i < n_handles; i++) {
			struct handle *h = handles[i];

			if (h->kind != KIND_TIMER || !h->active || h->serial >= before ||
				h->due_ms > uv_now(&sim_loop))
				continue;
			if (!first || h->due_ms < first->due_ms ||
				(h->due_ms == first->due_ms && h->serial < first->serial))
				first = h;
		}
		if (!first)
			return;
		first->active = false;
		happened = true;
		first->on_timer((uv_timer_t *)first->its);
	}
}

static void run_poll(struct handle *h)
{
	struct sim_socket *s = h->socket;
	int events = 0;

	if (s->error) { /* EPOLLERR is told as this */
		h->active = false;
		happened = true;
		h->on_poll((uv_poll_t *)h->its, UV_EBADF, 0);
		return;
	}
	if (s->first < s->n || s->eof)
		events |= UV_READABLE;
	if (!s->connecting && s->room)
		events |= UV_WRITABLE;
	events &= s->connecting ? 0 : h->events;
	if (!events)
		return;
	happened = true;
	h->on_poll((uv_poll_t *)h->its, 0, events);
}

static void run_reading(struct handle *h)
{
	uv_stream_t *its = (uv_stream_t *)h->its;
	uv_buf_t chunk = { 0 };
	ssize_t n;

	if (h->socket->first == h->socket->n && !h->socket->eof && !h->socket->error)
		return;
	happened = true;
	h->give(h->its, 65536, &chunk);
	MUST(chunk.base && chunk.len);
	n = take(h->socket, chunk.base, chunk.len, false);
	if (n <= 0) {
		h->active = false;
		n = n < 0 ? -errno : UV_EOF;
	}
	h->on_read(its, n, &chunk);
}

static void end_write(struct handle *h, int status)
{
	uv_write_t *req = h->write;

	h->write = NULL;
	h->unwritten = view_of(NULL, 0);
	req->cb(req, status);
}

static void run_writing(struct handle *h)
{
	if (h->write && !h->write_error)
		write_more(h);
	if (h->write && (h->write_error || h->unwritten.n == 0)) {
		happened = true;
		end_write(h, h->write_error);
	}
}

static void end_closing(size_t i)
{
	struct handle *h = handles[i];

	happened = true;
	if (h->write)
		end_write(h, UV_ECANCELED);
	handles[i] = handles[--n_handles];
	if (h->closed)
		h->closed(h->its);
	free(h);
}

bool sim_turn(void)
{
	happened = false;
	run_timers();
	for (size_t i = 0; i < n_handles; i++)
		if (handles[i]->kind == KIND_PREPARE && handles[i]->active)
			handles[i]->on_prepare((uv_prepare_t *)handles[i]->its);
	for (size_t i = 0; i < n_handles; i++) {
		struct handle *h = handles[i];

		if (h->kind == KIND_POLL && h->active)
			run_poll(h);
		if (h->kind == KIND_STREAM && h->active)
			run_reading(h);
		if (h->kind == KIND_STREAM && !h->closing)
			run_writing(h);
	}
	for (size_t i = 0; i < n_handles;) {
		if (handles[i]->closing)
			end_closing(i);
		else
			i++;
	}
	return happened;
}

void sim_settle(void)
{
	size_t turns = 0;

	while (sim_turn())
		MUST(turns++ < 100000); /* it does not go round in circles */
}

void sim_pass(int64_t ms)
{
	now_us += ms * 1000;
}

void sim_end(void)
{
	MUST(n_handles == 0);
	last = NULL;
	while (n_sockets)
		MUST(!sockets[--n_sockets].open);
}

int sim_in_any_cut(
	const uint8_t *data, size_t size, struct buf (*run)(struct view in, size_t cut))
{
	struct view in = view_of((const char *)data, size);
	struct buf whole, cut;

	if (size < 2)
		return 0;
	whole = run(in, SIZE_MAX);
	if (data[1] < 128) {
		cut = run(in, 1 + data[1] % 32);
		MUST(view_eq(buf_view(&whole), buf_view(&cut)));
		buf_release(&cut);
	}
	buf_release(&whole);
	return 0;
}
