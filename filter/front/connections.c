/*
 * front/connections.c - a worker's connections: how one comes in, which ones go when
 * others want to come, and the end of all.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/shortage.h"
#include "front/dialogue.h"

#define ROOM_AT_ONCE 16 /* idle connections closed in one go */

int connections_init(struct connections *set, uv_loop_t *loop,
	const struct front_events *events, void *owner, void (*closed)(void *owner))
{
	int err;

	*set = (struct connections){
		.loop = loop, .events = events, .owner = owner, .closed = closed
	};
	err = uv_prepare_init(loop, &set->flush);
	if (err < 0)
		return err;
	set->flush.data = set;
	uv_prepare_start(&set->flush, connection_flush_dirty);
	uv_unref((uv_handle_t *)&set->flush);
	return 0;
}

/* libuv's init functions for these handles cannot fail on Linux. */
static int open_stream(struct connection *c, int family, int fd)
{
	int err;

	if (family == AF_UNIX) {
		uv_pipe_init(c->set->loop, &c->io.pipe, 0);
		return uv_pipe_open(&c->io.pipe, fd);
	}
	uv_tcp_init(c->set->loop, &c->io.tcp);
	err = uv_tcp_open(&c->io.tcp, fd);
	if (err == 0)
		uv_tcp_nodelay(&c->io.tcp, 1);
	return err;
}

void connections_configure(struct connections *set, struct config *config)
{
	set->config = config;
}

bool connections_add(struct connections *set, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (!c)
		shortage_seen(ENOMEM, "a connection of a web server");
	if (!c || getsockname(fd, (struct sockaddr *)&ss, &len) < 0) {
		free(c);
		close(fd);
		return false;
	}
	c->front.kind = &connection_kind;
	c->set = set;
	c->handles = 2;
	c->config = config_ref(set->config);
	c->link = &set->all;
	c->next = set->all;
	if (c->next)
		c->next->link = &c->next;
	set->all = c;
	set->n++;
	count_one(COUNT_connections);
	count_one(COUNT_connections_open);
	uv_timer_init(set->loop, &c->timer);
	c->timer.data = c;
	if (open_stream(c, ss.ss_family, fd) < 0) {
		close(fd);
		c->io.handle.data = c;
		connection_die(c);
		return true;
	}
	c->io.handle.data = c;
	front_body_resume(&c->front);
	/* The first request is due now. */
	connection_arm(c, c->config->server.head_timeout_ms);
	return true;
}

/* Nothing of a request has come, as far as we have read. */
static bool is_spare(const struct connection *c)
{
	return c->state == CONN_IDLE && c->served && record_at_boundary(&c->reader) &&
		!c->out.n && !c->write_pending;
}

/* The next request is in its socket already. */
static bool is_asked(const struct connection *c)
{
	uv_os_fd_t fd;
	char byte;

	return uv_fileno(&c->io.handle, &fd) == 0 &&
		recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void connections_make_room(struct connections *set)
{
	struct connection *oldest[ROOM_AT_ONCE];
	size_t n = 0, at;

	for (struct connection *c = set->all; c; c = c->next) {
		if (!is_spare(c))
			continue;
		for (at = n; at && oldest[at - 1]->idle_since_ms > c->idle_since_ms; at--)
			if (at < ROOM_AT_ONCE)
				oldest[at] = oldest[at - 1];
		if (at < ROOM_AT_ONCE)
			oldest[at] = c;
		n += n < ROOM_AT_ONCE;
	}
	for (size_t i = 0; i < n; i++) {
		if (is_asked(oldest[i]))
			continue;
		connection_die(oldest[i]);
		count_one(COUNT_connections_reclaimed);
	}
}

void connections_stop(struct connections *set)
{
	set->stopping = true;
	for (struct connection *c = set->all; c; c = c->next) {
		if (c->state == CONN_DRAIN)
			connection_arm_for_state(c);
		if (c->state != CONN_IDLE || c->out.n || c->write_pending)
			continue;
		/* The request of a new one may be in its socket already. */
		if (c->served)
			connection_die(c);
		else
			connection_arm_for_state(c);
	}
}

void connections_break(struct connections *set)
{
	for (struct connection *c = set->all; c; c = c->next)
		connection_lose(c, FRONT_STOPPED);
}

void connections_release(struct connections *set)
{
	uv_close((uv_handle_t *)&set->flush, NULL);
}
