/*
 * test_backpressure.c - what a front tells its owner of the way out.
 *
 * One that has asked its owner to wait must tell it when to go on, whatever was written in
 * between. Found through a web server that read just as fast as weir wrote: the queue was full,
 * the reader took some of it, another piece of the answer fitted, and with that the
 * front forgot that its owner was waiting. The answer never ended. The moment lies
 * within microseconds when programs play both sides, so these tests play both themselves.
 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "front/connection.h"

struct owner {
	struct front *front;
	unsigned writable;
	bool over; /* the test is; the connection may go */
	bool gone;
	enum front_gone why;
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
	struct owner *o = arg;

	cr_assert(o->over, "the connection was given up: %d", why);
	o->gone = true;
	o->why = why;
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

struct scene {
	uv_loop_t loop;
	struct connections set;
	struct owner owner;
	int ends[2]; /* the peer's, and the front's */
};

/* One request has come, and its owner may answer. */
static void scene_start(struct scene *s)
{
	static const struct front_events events = { head, body, body_end, writable, gone };
	static struct config config = { .refs = 100,
		.server = { .head_limit = 65536,
			.head_timeout_ms = 60000,
			.body_timeout_ms = 60000,
			.send_timeout_ms = 60000,
			.drain_timeout_ms = 60000 } };
	struct fcgi_request rq = { .uri = "/x" };
	struct buf b = { 0 };

	*s = (struct scene){ 0 };
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->ends), 0);
	fcntl(s->ends[1], F_SETFL, O_NONBLOCK);
	uv_loop_init(&s->loop);
	cr_assert_eq(connections_init(&s->set, &s->loop, &events, &s->owner, closed), 0);
	connections_configure(&s->set, &config);
	cr_assert(connections_add(&s->set, s->ends[1]));
	fcgi_compose(&b, &rq);
	cr_assert(fcgi_send(s->ends[0], buf_view(&b), 1000));
	while (!s->owner.front)
		uv_run(&s->loop, UV_RUN_NOWAIT);
	buf_release(&b);
}

static void scene_stop(struct scene *s)
{
	s->owner.over = true;
	connections_break(&s->set);
	while (s->set.n)
		uv_run(&s->loop, UV_RUN_NOWAIT);
	connections_release(&s->set);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&s->loop), 0);
	close(s->ends[0]);
}

Test(backpressure, ends_although_more_was_written_when_the_reader_had_made_room)
{
	static const char piece[16384];
	struct scene s;
	bool room = true;

	scene_start(&s);
	/* All within one turn of the loop, as one reading of the backend brings it. */
	for (int i = 0; room && i < 1000; i++)
		room = front_write(s.owner.front, view_of(piece, sizeof(piece)));
	cr_assert(!room, "the queue never fills");
	drain(s.ends[0]);
	for (int i = 0; i < 4; i++)
		front_write(s.owner.front, view_of(piece, sizeof(piece)));

	cr_assert(WAIT_UNTIL(2000,
			  (uv_run(&s.loop, UV_RUN_NOWAIT), drain(s.ends[0]),
				  s.owner.writable > 0)),
		"everything was read, and the owner still waits");
	scene_stop(&s);
}

static int write_fd = -1, write_err;

/* In place of the C library's, which libuv calls. */
ssize_t write(int fd, const void *p, size_t n)
{
	if (fd == write_fd) {
		errno = write_err;
		return -1;
	}
	return syscall(SYS_write, fd, p, n);
}

Test(backpressure, who_ends_an_answer_that_cannot_be_sent_is_told_apart)
{
	static const struct {
		int err;
		enum front_gone why;
	} rows[] = {
		{ EPIPE, FRONT_PEER_LEFT },
		{ ECONNRESET, FRONT_PEER_LEFT },
		{ ENOMEM, FRONT_FAILED },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct scene s;

		scene_start(&s);
		s.owner.over = true;
		write_err = rows[i].err;
		write_fd = s.ends[1];
		front_write(s.owner.front, VIEW("Status: 200 OK\r\n\r\n"));
		for (int turn = 0; !s.owner.gone && turn < 1000; turn++)
			uv_run(&s.loop, UV_RUN_NOWAIT);
		write_fd = -1;
		cr_assert(s.owner.gone, "row %zu", i);
		cr_assert_eq(s.owner.why, rows[i].why, "row %zu: %d", i, s.owner.why);
		scene_stop(&s);
	}
}
