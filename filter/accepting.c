/*
 * accepting.c - connections come in on the main thread, one socket after the other.
 *
 * One thread accepts for all workers, so that kept connections spread evenly: each new
 * one goes to the worker that has fewest. That costs a wake-up of the worker, which
 * one busy with requests does not need.
 *
 * With server.max_connections open, or no descriptor left, nothing is accepted for a
 * moment and who comes waits in the listen queue: so do lighttpd (server.max-connections)
 * and Apache (MaxRequestWorkers, ListenBacklog). nginx accepts and closes at once
 * ("worker_connections are not enough"), which a web server in front takes for a dead
 * backend and answers with 502. To accept and say 503 would take the very connection that
 * is one too many; it is said to requests beyond server.max_requests, which is lower. What
 * we have of nginx is that kept connections on which nothing happens make room: else
 * those of one web server could shut out another for good.
 */
#include "accepting.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/shortage.h"

#define ACCEPT_AT_ONCE  64  /* connections taken in one wake-up */
#define ACCEPT_PAUSE_MS 100 /* when there are no descriptors left */
#define FULL_PAUSE_MS   10  /* when max_connections are open */

struct listener {
	uv_poll_t poll;
	int fd;
	struct net_addr addr; /* without length: descriptor 0 */
};

static struct {
	struct listener listeners[LISTEN_MAX];
	size_t n_listeners;
	struct worker **workers; /* main's */
	size_t n_workers;
	uint64_t most; /* connections open at once */
	uv_timer_t pause;
} accepting;

static void add_listener(int fd, const struct net_addr *addr)
{
	struct listener *l = &accepting.listeners[accepting.n_listeners];

	/* The configuration is checked for it. */
	assert(accepting.n_listeners < LISTEN_MAX);
	l->fd = fd;
	if (addr)
		l->addr = *addr;
	accepting.n_listeners++;
}

static void close_listener(const struct listener *l)
{
	net_unlink(&l->addr);
	if (l->fd == STDIN_FILENO)
		net_occupy(l->fd);
	else
		close(l->fd);
}

void accepting_close(void)
{
	for (size_t i = 0; i < accepting.n_listeners; i++)
		close_listener(&accepting.listeners[i]);
	accepting.n_listeners = 0;
}

bool accepting_open(const struct config *c, bool on_descriptor_0)
{
	struct net_listen how = { .backlog = (int)c->server.backlog,
		.mode = c->server.socket_mode };
	struct buf why = { 0 };

	if (on_descriptor_0) {
		if (c->server.n_listen)
			log_notice("listen is ignored: descriptor 0 is a listening socket");
		fcntl(0, F_SETFD, FD_CLOEXEC);
		fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
		add_listener(0, NULL);
		return true;
	}
	if (!c->server.n_listen) {
		log_error("nowhere to serve: add \"listen = unix:/run/weir/weir.sock\" to "
			  "[server], "
			  "or start weir from a web server",
			LOG_STR("file", c->file));
		return false;
	}
	if (!net_find_owner(c->server.socket_user, c->server.socket_group, &how, &why)) {
		log_error("cannot serve", LOG_VIEW("why", buf_view(&why)));
		buf_release(&why);
		return false;
	}
	for (size_t i = 0; i < c->server.n_listen; i++) {
		int fd = net_listen(&c->server.listen[i], &how, &why);

		if (fd < 0) {
			log_error("cannot serve", LOG_VIEW("why", buf_view(&why)));
			buf_release(&why);
			accepting_close();
			return false;
		}
		add_listener(fd, &c->server.listen[i]);
		log_notice("serving", LOG_STR("listen", c->server.listen[i].text));
	}
	return true;
}

static void accept_some(uv_poll_t *poll, int status, int events);

static void listen_again(uv_timer_t *t)
{
	(void)t;
	for (size_t i = 0; i < accepting.n_listeners; i++)
		uv_poll_start(&accepting.listeners[i].poll, UV_READABLE, accept_some);
}

/* Connections wait in the listen queue for a moment, and kept ones make room. */
static void pause_accepting(uint64_t ms)
{
	for (size_t i = 0; i < accepting.n_listeners; i++)
		uv_poll_stop(&accepting.listeners[i].poll);
	for (size_t i = 0; i < accepting.n_workers; i++)
		worker_make_room(accepting.workers[i]);
	uv_timer_start(&accepting.pause, listen_again, ms, 0);
}

static bool is_full(void)
{
	uint64_t n = 0;

	for (size_t i = 0; i < accepting.n_workers; i++)
		n += worker_load(accepting.workers[i]);
	return n >= accepting.most;
}

static void pause_for_room(void)
{
	static struct log_gate gate;
	uint64_t missed;

	count_one(COUNT_connections_paused);
	if (log_gate_open(&gate, clock_mono_us(), &missed))
		log_warn("server.max_connections are open; others wait to be accepted",
			LOG_INT("max_connections", accepting.most),
			LOG_INT("suppressed", missed));
	pause_accepting(FULL_PAUSE_MS);
}

static struct worker *least_loaded(void)
{
	static size_t turn; /* equals take turns */
	struct worker *best = NULL;

	turn++;
	for (size_t i = 0; i < accepting.n_workers; i++) {
		struct worker *w = accepting.workers[(turn + i) % accepting.n_workers];

		if (!best || worker_load(w) < worker_load(best))
			best = w;
	}
	return best;
}

static void accept_some(uv_poll_t *poll, int status, int events)
{
	struct listener *l = poll->data;

	(void)status;
	(void)events;
	/* Somebody is waiting. */
	if (is_full()) {
		pause_for_room();
		return;
	}
	for (int i = 0; i < ACCEPT_AT_ONCE && !is_full(); i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			worker_give(least_loaded(), fd);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			errno == ENOMEM) {
			shortage_seen(errno, "a connection of a web server");
			pause_accepting(ACCEPT_PAUSE_MS);
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return; /* EAGAIN: somebody else took it, or there are no more */
		}
	}
}

void accepting_limit(uint64_t connections)
{
	accepting.most = connections;
}

void accepting_start(uv_loop_t *loop, struct worker **workers, size_t n_workers)
{
	accepting.workers = workers;
	accepting.n_workers = n_workers;
	uv_timer_init(loop, &accepting.pause);
	for (size_t i = 0; i < accepting.n_listeners; i++) {
		struct listener *l = &accepting.listeners[i];

		uv_poll_init(loop, &l->poll, l->fd);
		l->poll.data = l;
		uv_poll_start(&l->poll, UV_READABLE, accept_some);
	}
}

/* Whoever has connected by now is still served. */
static void accept_the_rest(struct listener *l)
{
	int fd;

	while ((fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		worker_give(least_loaded(), fd);
}

void accepting_stop(void)
{
	uv_close((uv_handle_t *)&accepting.pause, NULL);
	for (size_t i = 0; i < accepting.n_listeners; i++) {
		struct listener *l = &accepting.listeners[i];

		if (l->addr.len)
			accept_the_rest(l);
		uv_close((uv_handle_t *)&l->poll, NULL);
		close_listener(l);
	}
	accepting.n_listeners = 0;
}
