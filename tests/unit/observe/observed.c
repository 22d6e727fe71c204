#include "observed.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/net.h"

static struct control_ops ops; /* observed_ops with the patience of the test */

static void facts(void *user, struct control_facts *out)
{
	if (user)
		++*(_Atomic int *)user;
	*out = (struct control_facts){
		.config_file = "/etc/weir/weir.ini",
		.started_as = "on its own sockets",
		.started_us = clock_mono_us() - 90 * US_PER_S,
		.loaded_us = clock_mono_us() - 30 * US_PER_S,
		.n_workers = 2,
	};
}

static void worker(void *user, size_t i, struct control_worker *out)
{
	(void)user;
	out->slot = (unsigned)i;
	snprintf(out->store, sizeof(out->store), "%s",
		i ? "redis (down: connection refused)" : "redis");
	out->store_up = i == 0;
}

const struct control_ops observed_ops = { .facts = facts, .worker = worker };

static void on_stop(uv_async_t *async)
{
	struct observed *o = async->data;

	control_stop(o->control);
	uv_close((uv_handle_t *)async, NULL);
}

/* Ends when the control socket has closed every handle: a leak would hang here. */
static void serve(void *user)
{
	struct observed *o = user;

	uv_run(&o->loop, UV_RUN_DEFAULT);
}

void observed_start(struct observed *o, int64_t patience_ms)
{
	static const struct net_listen how = {
		.backlog = 64, .mode = 0600, .uid = (uid_t)-1, .gid = (gid_t)-1
	};
	struct net_addr addr;
	struct buf why = { 0 };
	int fd;

	snprintf(o->dir, sizeof(o->dir), "/tmp/weir-control-XXXXXX");
	cr_assert_not_null(mkdtemp(o->dir));
	snprintf(o->address, sizeof(o->address), "unix:%s/control.sock", o->dir);
	o->path = o->address + 5;
	o->calls = 0;
	cr_assert(net_addr_parse(view_str(o->address), &addr, &why));
	fd = net_listen(&addr, &how, &why);
	cr_assert_geq(fd, 0, "%s", buf_str(&why));
	ops = observed_ops;
	ops.patience_ms = patience_ms;
	uv_loop_init(&o->loop);
	uv_async_init(&o->loop, &o->stop, on_stop);
	o->stop.data = o;
	o->control = control_start(&o->loop, fd, &ops, &o->calls);
	cr_assert_not_null(o->control);
	cr_assert_eq(uv_thread_create(&o->thread, serve, o), 0);
}

void observed_stop(struct observed *o)
{
	uv_async_send(&o->stop);
	uv_thread_join(&o->thread);
	cr_assert_eq(uv_loop_close(&o->loop), 0, "every handle is closed");
	unlink(o->path);
	rmdir(o->dir);
}

int observed_connect(const struct observed *o)
{
	struct timeval limit = { .tv_sec = 5 };
	struct net_addr addr;
	struct buf why = { 0 };
	int fd;

	cr_assert(net_addr_parse(view_str(o->address), &addr, &why));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	cr_assert_eq(connect(fd, (const struct sockaddr *)&addr.ss, addr.len), 0);
	return fd;
}

bool observed_line(int fd, char *out, size_t cap)
{
	size_t n = 0;

	while (n + 1 < cap && recv(fd, out + n, 1, 0) == 1) {
		if (out[n] == '\n') {
			out[n] = '\0';
			return true;
		}
		n++;
	}
	out[n] = '\0';
	return false;
}
