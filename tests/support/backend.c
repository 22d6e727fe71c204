/*
 * backend.c - a FastCGI application that does what a script says, in one thread, for
 * any number of connections at once.
 *
 * It looks only for what a script can depend on: where the request ends, what it
 * brought, and when the other side leaves.
 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SEEN_MAX 64 /* requests whose content is kept */

struct conn {
	struct conn *next, *prev;
	int fd;
	struct buf raw, params, body;
	bool whole, left;   /* its request; the peer closed */
	size_t piece, sent; /* what goes out next */
	int64_t due_ms;     /* ... and when; 0: nothing */
};

struct seen {
	struct buf params, body;
};

struct backend {
	const struct backend_script *script;
	int listener, epoll;
	struct conn *conns;
	pthread_mutex_t lock; /* guards what follows */
	struct backend_counts counts;
	struct seen seen[SEEN_MAX];
};

static const struct view ok_piece = { "\1\6\0\1\0\36\0\0Content-Type: text/plain\r\n\r\nok"
				      "\1\6\0\1\0\0\0\0\1\3\0\1\0\10\0\0\0\0\0\0\0\0\0\0",
	8 + 30 + 8 + 16 };

void backend_answer(struct buf *b, struct view out)
{
	while (out.n) {
		size_t n = out.n < 65528 ? out.n : 65528;

		fcgi_record(b, 6, 1, view_of(out.p, n), 0);
		out = view_skip(out, n);
	}
	fcgi_record(b, 6, 1, view_of(NULL, 0), 0);
	fcgi_record(b, 3, 1, VIEW("\0\0\0\0\0\0\0\0"), 0);
}

static size_t pieces_of(const struct backend *b, const struct view **list)
{
	*list = b->script->n_pieces ? b->script->pieces : &ok_piece;
	return b->script->n_pieces ? b->script->n_pieces : 1;
}

static void conn_close(struct backend *b, struct conn *c)
{
	const struct view *pieces;
	bool before = c->piece < pieces_of(b, &pieces);

	if (b->script->reset)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 },
			sizeof(struct linger));
	/* A child that the test just forked may hold the descriptor for a moment more, and
	 * with it epoll's interest in c. */
	epoll_ctl(b->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
	if (c->prev)
		c->prev->next = c->next;
	else
		b->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	pthread_mutex_lock(&b->lock);
	b->counts.open--;
	b->counts.left_by_peer += c->left && before;
	pthread_mutex_unlock(&b->lock);
	buf_release(&c->raw);
	buf_release(&c->params);
	buf_release(&c->body);
	free(c);
}

static void conn_begin_answer(struct backend *b, struct conn *c)
{
	if (!b->script->silent)
		c->due_ms = now_ms() + b->script->delay_ms;
}

static void conn_whole(struct backend *b, struct conn *c)
{
	unsigned i;

	c->whole = true;
	pthread_mutex_lock(&b->lock);
	i = b->counts.requests++;
	if (i < SEEN_MAX) {
		b->seen[i] = (struct seen){ c->params, c->body };
		c->params = c->body = (struct buf){ 0 };
	}
	pthread_mutex_unlock(&b->lock);
	if (!b->script->early)
		conn_begin_answer(b, c);
}

static void conn_records(struct backend *b, struct conn *c)
{
	size_t at = 0;

	while (c->raw.n - at >= 8) {
		const unsigned char *h = (const unsigned char *)c->raw.p + at;
		size_t n = (size_t)(h[4] << 8 | h[5]), record = 8 + n + h[6];
		struct view content = view_of(c->raw.p + at + 8, n);

		if (c->raw.n - at < record)
			break;
		at += record;
		if (h[1] == 4)
			buf_add(&c->params, content);
		else if (h[1] == 5 && n)
			buf_add(&c->body, content);
		else if (h[1] == 5 && !c->whole)
			conn_whole(b, c);
	}
	if (at)
		buf_drop(&c->raw, at);
}

/* False when the connection is gone. */
static bool conn_read(struct backend *b, struct conn *c)
{
	ssize_t n;

	if (!buf_reserve(&c->raw, 65536))
		return false;
	n = read(c->fd, c->raw.p + c->raw.n, 65536);
	if (n > 0) {
		c->raw.n += (size_t)n;
		conn_records(b, c);
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	c->left = true;
	return false;
}

/* Sends what is due; false when the connection is to be closed. */
static bool conn_write(struct backend *b, struct conn *c)
{
	const struct view *pieces;
	size_t n_pieces = pieces_of(b, &pieces);

	while (c->piece < n_pieces) {
		struct view left = view_skip(pieces[c->piece], c->sent);
		ssize_t n = send(c->fd, left.p, left.n, MSG_NOSIGNAL);

		if (n < 0) {
			c->due_ms = now_ms() + 2;
			c->left = errno != EAGAIN && errno != EINTR;
			return !c->left;
		}
		c->sent += (size_t)n;
		if (c->sent < pieces[c->piece].n)
			continue;
		c->piece++;
		c->sent = 0;
		if (b->script->gap_ms && c->piece < n_pieces) {
			c->due_ms = now_ms() + b->script->gap_ms;
			return true;
		}
	}
	c->due_ms = 0;
	return b->script->stay;
}

static void conn_accept(struct backend *b)
{
	int fd = accept4(b->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct epoll_event e = { .events = EPOLLIN };
	struct conn *c;

	if (fd < 0)
		return;
	c = calloc(1, sizeof(*c));
	if (!c) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->next = b->conns;
	if (c->next)
		c->next->prev = c;
	b->conns = c;
	e.data.ptr = c;
	if (b->script->no_reading)
		e.events = EPOLLERR;
	epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &e);
	pthread_mutex_lock(&b->lock);
	b->counts.accepted++;
	b->counts.open++;
	pthread_mutex_unlock(&b->lock);
	if (b->script->early)
		conn_begin_answer(b, c);
}

static void *serve(void *arg)
{
	struct backend *b = arg;

	for (;;) {
		struct epoll_event events[64];
		int n = epoll_wait(b->epoll, events, COUNT_OF(events), 5);
		int64_t now;

		for (int i = 0; i < n; i++) {
			struct conn *c = events[i].data.ptr;

			if (!c)
				conn_accept(b);
			else if (!conn_read(b, c))
				conn_close(b, c);
		}
		now = now_ms();
		if (b->script->hold && *b->script->hold)
			continue;
		for (struct conn *c = b->conns, *next; c; c = next) {
			next = c->next;
			if (c->due_ms && c->due_ms <= now && !conn_write(b, c))
				conn_close(b, c);
		}
	}
	return NULL;
}

struct backend *backend_start(const char *addr, const struct backend_script *script)
{
	struct epoll_event e = { .events = EPOLLIN };
	struct backend *b = calloc(1, sizeof(*b));
	static struct backend *all[64]; /* reachable for leak checkers */
	static size_t n;
	pthread_t thread;

	if (!b || n == COUNT_OF(all))
		fail("no memory for a backend");
	all[n++] = b;
	b->script = script;
	b->listener = listen_on(addr, 8192);
	fcntl(b->listener, F_SETFL, O_NONBLOCK);
	b->epoll = epoll_create1(EPOLL_CLOEXEC);
	pthread_mutex_init(&b->lock, NULL);
	epoll_ctl(b->epoll, EPOLL_CTL_ADD, b->listener, &e);
	if (pthread_create(&thread, NULL, serve, b) != 0)
		fail("no thread for a backend");
	pthread_detach(thread);
	return b;
}

struct backend_counts backend_count(struct backend *b)
{
	struct backend_counts counts;

	pthread_mutex_lock(&b->lock);
	counts = b->counts;
	pthread_mutex_unlock(&b->lock);
	return counts;
}

bool backend_seen(struct backend *b, unsigned i, struct buf *params, struct buf *body)
{
	bool there;

	*params = *body = (struct buf){ 0 };
	pthread_mutex_lock(&b->lock);
	there = i < SEEN_MAX && i < b->counts.requests;
	if (there) {
		buf_add(params, buf_view(&b->seen[i].params));
		buf_add(body, buf_view(&b->seen[i].body));
	}
	pthread_mutex_unlock(&b->lock);
	return there;
}

static size_t length_at(struct view *v)
{
	const unsigned char *p = (const unsigned char *)v->p;
	size_t n = 0, bytes = v->n && p[0] & 0x80 ? 4 : 1;

	if (v->n < bytes)
		return SIZE_MAX;
	n = bytes == 1 ? p[0]
		       : (size_t)(p[0] & 0x7f) << 24 | (size_t)p[1] << 16 |
			(size_t)p[2] << 8 | p[3];
	*v = view_skip(*v, bytes);
	return n;
}

const char *param_of(struct view params, const char *name)
{
	while (params.n) {
		size_t name_n = length_at(&params), value_n = length_at(&params);

		if (name_n > params.n || value_n > params.n - name_n)
			return NULL;
		if (view_eq(view_of(params.p, name_n), view_str(name)))
			return text("%.*s", (int)value_n, params.p + name_n);
		params = view_skip(params, name_n + value_n);
	}
	return NULL;
}
