/*
 * test_backpressure.c - a front that has asked its owner to wait must tell it when to go
 * on, whatever was written in between.
 *
 * Found through a web server that read just as fast as weir wrote: the queue was full,
 * the reader took some of it, another piece of the answer fitted, and with that the
 * front forgot that its owner was waiting. The answer never ended. The moment lies
 * within microseconds when programs play both sides, so this test plays both itself.
 */
#include "support.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "front/connection.h"

struct owner {
	struct front *front;
	unsigned writable;
	bool over; /* the test is; the connection may go */
};

static void *head(void *arg, struct front *f, struct request *rq, int problem)
{
	struct owner *o = arg;

	cr_assert_eq(problem, 0);
	request_release(rq);
	o->front = f;
	return o;
}

static void body(void *arg, struct view bytes)
{
	(void)arg, (void)bytes;
}

static void body_end(void *arg)
{
	(void)arg;
}

static void writable(void *arg)
{
	((struct owner *)arg)->writable++;
}

static void gone(void *arg, enum front_gone why)
{
	cr_assert(((struct owner *)arg)->over, "the connection was given up: %d", why);
}

static void closed(void *arg)
{
	(void)arg;
}

static size_t drain(int fd)
{
	char piece[65536];
	size_t n = 0;
	ssize_t part;

	while ((part = recv(fd, piece, sizeof(piece), MSG_DONTWAIT)) > 0)
		n += (size_t)part;
	return n;
}

Test(backpressure, ends_although_more_was_written_when_the_reader_had_made_room)
{
	static const struct front_events events = { head, body, body_end, writable, gone };
	static const char piece[16384];
	static struct config config = { .refs = 2,
		.server = { .head_limit = 65536,
			.head_timeout_ms = 60000,
			.body_timeout_ms = 60000,
			.send_timeout_ms = 60000,
			.drain_timeout_ms = 60000 } };
	struct fcgi_request rq = { .uri = "/x" };
	struct connections set;
	struct owner owner = { 0 };
	struct buf b = { 0 };
	bool room = true;
	uv_loop_t loop;
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	uv_loop_init(&loop);
	cr_assert_eq(connections_init(&set, &loop, &events, &owner, closed), 0);
	connections_configure(&set, &config);
	cr_assert(connections_add(&set, ends[1]));
	fcgi_compose(&b, &rq);
	cr_assert(fcgi_send(ends[0], buf_view(&b), 1000));
	while (!owner.front)
		uv_run(&loop, UV_RUN_NOWAIT);

	/* All within one turn of the loop, as one reading of the backend brings it. */
	for (int i = 0; room && i < 1000; i++)
		room = front_write(owner.front, view_of(piece, sizeof(piece)));
	cr_assert(!room, "the queue never fills");
	drain(ends[0]);
	for (int i = 0; i < 4; i++)
		front_write(owner.front, view_of(piece, sizeof(piece)));

	cr_assert(
		WAIT_UNTIL(2000,
			(uv_run(&loop, UV_RUN_NOWAIT), drain(ends[0]), owner.writable > 0)),
		"everything was read, and the owner still waits");
	owner.over = true;
	connections_break(&set);
	while (set.n)
		uv_run(&loop, UV_RUN_NOWAIT);
	connections_release(&set);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0);
	close(ends[0]);
	buf_release(&b);
}
