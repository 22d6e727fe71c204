/*
 * proxy/relay_fastcgi_find.c - finding an application that takes a request.
 *
 * The addresses of a backend are asked one after the other, the least busy first, each
 * once a round. A full listen queue is no refusal yet: there are further rounds as long
 * as a connection may take. A request that some address has had and lost is not brought
 * to it again.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/shortage.h"
#include "proxy/idle.h"
#include "proxy/relay_fastcgi.h"

#define BACKOFF_LEAST 5 /* ms between two rounds of full listen queues ... */
#define BACKOFF_MOST  100

void fastcgi_blame(struct relay_fastcgi *f, const char *why)
{
	struct relay *r = &f->relay;

	f->not_well = true;
	if (f->at < 0 || f->blamed & fastcgi_bit(f->at) || r->state == RELAY_ALONE)
		return;
	f->blamed |= fastcgi_bit(f->at);
	address_bad(f->addresses, r->job.backend, f->at, (int64_t)uv_now(r->loop), why);
}

/* Closes the connection, if there is one, and leaves its address. */
void fastcgi_leave(struct relay_fastcgi *f)
{
	relay_watch_close(&f->watch);
	if (f->addresses && f->at >= 0)
		address_leave(f->addresses, f->at);
	f->at = -1;
}

/* Another address may be willing, as long as nothing of an answer has come. */
void fastcgi_try_elsewhere(struct relay_fastcgi *f)
{
	fastcgi_leave(f);
	if (fastcgi_prepare(f))
		fastcgi_find_next(f);
}

/* The connection had served before, and nobody reads on it any more. */
void fastcgi_try_afresh(struct relay_fastcgi *f)
{
	f->fresh = true;
	f->tried &= ~fastcgi_bit(f->at);
	fastcgi_try_elsewhere(f);
}

enum attempt {
	ATTEMPT_UNDER_WAY,
	ATTEMPT_QUEUE_FULL,
	ATTEMPT_REFUSED,
	ATTEMPT_FAILED, /* nothing to do with the address; errno */
};

/* Without descriptors those go that are only kept for later. */
static int make_socket(int family)
{
	const int how = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int fd = socket(family, how, 0);

	if (fd < 0 && shortage_of(errno) == SHORTAGE_DESCRIPTORS) {
		idle_close_all();
		fd = socket(family, how, 0);
	}
	return fd;
}

static enum attempt attempt(struct relay_fastcgi *f, const struct net_addr *a)
{
	int one = 1, rc;
	int fd = make_socket(a->ss.ss_family);

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
	f->watch = relay_watch_new(&f->relay, fd, fastcgi_ready);
	if (!f->watch) {
		errno = ENOMEM;
		return ATTEMPT_FAILED;
	}
	f->kept = false;
	count_one(COUNT_backend_connects);
	relay_enter(&f->relay, rc == 0 ? RELAY_SEND : RELAY_CONNECT, 0);
	return ATTEMPT_UNDER_WAY;
}

/* A connection to the address in use that has served before. */
static bool take_kept(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;
	int fd = -1;

	if (f->keep && f->repeatable && !f->fresh && r->job.body->n == 0)
		fd = idle_take(f->addresses, f->at);
	if (fd < 0)
		return false;
	f->watch = relay_watch_new(r, fd, fastcgi_ready);
	if (!f->watch)
		return false;
	f->kept = true;
	count_one(COUNT_backend_reuses);
	relay_enter(r, RELAY_SEND, 0);
	return true;
}

/* An idle connection that this request may not use may hold the application's last
 * process, which then never sees the new one. */
static void give_one_up(const struct relay_fastcgi *f)
{
	int fd = f->keep ? idle_take(f->addresses, f->at) : -1;

	if (fd >= 0)
		close(fd);
}

static void nobody_there(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	if (f->overloaded)
		relay_finish(r, RELAY_OVERLOADED, "the backend is overloaded");
	else if (f->broken)
		relay_finish(r, RELAY_BAD, "the backend closed without a word");
	else if (f->overdue)
		relay_finish(r, RELAY_TIMEOUT, "connecting took too long");
	else
		relay_finish_errno(r, RELAY_REFUSED, "the backend takes no connection",
			f->refused_errno);
}

/* Goes through the addresses. True when a connection is under way or the relay over. */
static bool one_round(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;
	const struct backend *b = r->job.backend;

	for (;;) {
		f->at = addresses_choose(
			f->addresses, b, f->tried | f->spent, (int64_t)uv_now(r->loop));
		if (f->at < 0)
			return false;
		f->tried |= fastcgi_bit(f->at);
		f->not_well = false;
		if (take_kept(f))
			return true;
		give_one_up(f);
		switch (attempt(f, &b->addrs[f->at])) {
		case ATTEMPT_UNDER_WAY: return true;
		case ATTEMPT_QUEUE_FULL:
			f->queue_full = true;
			fastcgi_blame(f, "its listen queue is full");
			break;
		case ATTEMPT_REFUSED: fastcgi_blame(f, strerror(f->refused_errno)); break;
		case ATTEMPT_FAILED:
			relay_finish_errno(
				r, RELAY_FAILED, "no socket for the backend", errno);
			return true;
		}
		fastcgi_leave(f);
	}
}

void fastcgi_find_next(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	if (one_round(f)) {
		/* A unix socket takes the request at once, and some applications do not
		 * wait for it as long as a busy machine may take for a turn of the loop. */
		if (r->state == RELAY_SEND)
			fastcgi_ready(r, UV_WRITABLE);
		else if (r->state != RELAY_DONE)
			fastcgi_flow(r);
		return;
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

void fastcgi_find_start(struct relay_fastcgi *f)
{
	struct relay *r = &f->relay;

	f->backoff_ms = BACKOFF_LEAST;
	f->knock_until_ms = uv_now(r->loop) + (uint64_t)r->job.backend->connect_timeout_ms;
	fastcgi_find_next(f);
}
