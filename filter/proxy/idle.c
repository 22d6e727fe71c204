#include "proxy/idle.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counters.h"

struct idle {
	struct idle *next; /* older */
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned handles; /* that are not closed yet */
	int fd;
	struct addresses *backend; /* a reference */
	int address;
};

static _Thread_local struct idle *youngest;

static void handle_closed(uv_handle_t *handle)
{
	struct idle *i = handle->data;

	if (--i->handles == 0)
		free(i);
}

/* Takes *link out of the list. Its descriptor is the caller's. */
static int take_out(struct idle **link)
{
	struct idle *i = *link;

	*link = i->next;
	uv_close((uv_handle_t *)&i->poll, handle_closed);
	uv_close((uv_handle_t *)&i->timer, handle_closed);
	count_add(COUNT_backend_idle, -1);
	addresses_unref(i->backend);
	return i->fd;
}

static void drop(struct idle *i)
{
	for (struct idle **link = &youngest; *link; link = &(*link)->next) {
		if (*link == i) {
			close(take_out(link));
			return;
		}
	}
}

/* Closed by the application, or it speaks without being asked. */
static void on_ready(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	drop(poll->data);
}

static void on_time(uv_timer_t *timer)
{
	drop(timer->data);
}

static bool is_quiet(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

int idle_take(const struct addresses *backend, int address)
{
	struct idle **link = &youngest;

	while (*link) {
		int fd;

		if ((*link)->backend != backend || (*link)->address != address) {
			link = &(*link)->next;
			continue;
		}
		fd = take_out(link);
		if (is_quiet(fd))
			return fd;
		close(fd);
	}
	return -1;
}

/* Leaves at most so many of that backend's, the youngest. */
static void keep_at_most(const struct addresses *backend, uint64_t most)
{
	struct idle **link = &youngest;

	while (*link) {
		bool its = (*link)->backend == backend;

		if (its && most == 0) {
			close(take_out(link));
			continue;
		}
		most -= its;
		link = &(*link)->next;
	}
}

void idle_put(uv_loop_t *loop, struct addresses *backend, int address, int fd,
	uint64_t at_most, uint64_t for_ms)
{
	bool wanted = at_most && !addresses_have_parted(backend);
	struct idle *i = wanted ? calloc(1, sizeof(*i)) : NULL;

	if (!i || uv_poll_init(loop, &i->poll, fd) < 0) {
		free(i);
		close(fd);
		return;
	}
	uv_timer_init(loop, &i->timer);
	i->poll.data = i->timer.data = i;
	i->handles = 2;
	i->fd = fd;
	i->backend = addresses_ref(backend);
	i->address = address;
	i->next = youngest;
	youngest = i;
	count_add(COUNT_backend_idle, 1);
	uv_poll_start(&i->poll, UV_READABLE, on_ready);
	uv_timer_start(&i->timer, on_time, for_ms, 0);
	uv_unref((uv_handle_t *)&i->poll);
	uv_unref((uv_handle_t *)&i->timer);
	keep_at_most(backend, at_most);
}

void idle_configure(const struct config *c)
{
	struct idle **link = &youngest;

	while (*link) {
		if (addresses_have_parted((*link)->backend))
			close(take_out(link));
		else
			link = &(*link)->next;
	}
	for (size_t i = 0; i < c->n_backends; i++)
		keep_at_most(c->backends[i].known, c->backends[i].keep);
}

void idle_close_all(void)
{
	while (youngest)
		close(take_out(&youngest));
}
