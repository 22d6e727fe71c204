/*
 * Connections that are kept for later requests, and those that must not be.
 */
#include "relay_run.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counters.h"

/* What an application does on one of its connections. */
struct manner {
	int requests;     /* served on a connection before it is closed; 0: any number */
	bool die;         /* reads one more request then, and closes without a word */
	const char *tail; /* bytes behind END_REQUEST */
	size_t tail_n;
	bool late;  /* they come a moment later */
	bool early; /* ends before the body is read, which is read later */
	bool deaf;  /* after its first request does not read for a while */
};

static atomic_int connections, requests, closed_by_weir;
static atomic_int flags;

static void serve_one(struct fake *f, int fd, const struct manner *m)
{
	struct view tail = view_of(m->tail, m->tail_n);
	struct buf end = { 0 };

	fake_say(fd, FCGI_STDOUT, 1, VIEW("Content-Type: text/plain\r\n\r\nok"));
	record_put_end(&end, 1, 0, FCGI_REQUEST_COMPLETE);
	if (!m->late)
		buf_add(&end, tail);
	fake_write(fd, buf_view(&end));
	if (m->late)
		fake_write(fd, tail);
	buf_release(&end);
	flags = (int)f->seen.flags;
	requests++;
}

static void serve(struct fake *f, int fd)
{
	const struct manner *m = f->script;

	connections++;
	for (int n = 0; m->requests == 0 || n < m->requests + m->die; n++) {
		if (m->early)
			fake_read_head(f, fd);
		else
			fake_read_request(f, fd);
		if (f->seen.params_ends == 0) {
			closed_by_weir++;
			return;
		}
		if (m->requests && n == m->requests)
			return;
		serve_one(f, fd, m);
		if (!(f->seen.flags & FCGI_KEEP_CONN))
			return;
	}
}

/* Serves each connection in a thread of its own. */
struct connection {
	struct fake own;
	struct manner manner; /* the test may be over before the thread */
	int fd;
};

static void *serve_in_thread(void *arg)
{
	struct connection *c = arg;

	serve(&c->own, c->fd);
	if (((const struct manner *)c->own.script)->deaf)
		sleep_ms(1000);
	close(c->fd);
	fake_release(&c->own);
	free(c);
	return NULL;
}

static void serve_many(struct fake *f, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));
	pthread_t thread;

	cr_assert(c);
	c->manner = *(const struct manner *)f->script;
	c->own.script = &c->manner;
	c->fd = dup(fd);
	cr_assert_eq(pthread_create(&thread, NULL, serve_in_thread, c), 0);
	pthread_detach(thread);
}

static void clear(void)
{
	connections = requests = closed_by_weir = 0;
	flags = -1;
}

static struct run request(struct fake *f, const char *params, uint64_t keep)
{
	struct run r;

	run_init(&r, BACKEND_FASTCGI, params);
	run_add_address(&r, f->path);
	r.backend.keep = keep;
	return r;
}

/* So many GETs, one after the other; all must be answered. */
static void get_in_turn(const struct manner *m, size_t n, uint64_t keep)
{
	struct fake f = { .serve = serve_many, .script = m };
	struct run runs[8];

	clear();
	fake_start(&f, 8);
	for (size_t i = 0; i < n; i++)
		runs[i] = request(&f, "REQUEST_METHOD=GET", keep);
	run_in_turn(runs, n);
	for (size_t i = 0; i < n; i++) {
		cr_expect_eq((int)runs[i].how, RELAY_WHOLE, "%zu: %s", i, runs[i].why);
		cr_expect_eq(runs[i].status, 200);
		run_release(&runs[i]);
	}
	fake_stop(&f);
	fake_release(&f);
}

Test(relay_keep, nothing_is_kept_unless_told)
{
	get_in_turn(&(struct manner){ 0 }, 5, 0);
	cr_expect_eq(connections, 5);
	cr_expect_eq(flags, 0);
}

Test(relay_keep, requests_in_turn_share_a_connection)
{
	get_in_turn(&(struct manner){ 0 }, 5, 2);
	cr_expect_eq(connections, 1);
	cr_expect_eq(flags, FCGI_KEEP_CONN);
	cr_expect_eq(counter_sum(COUNT_backend_reuses), 4);
	cr_expect_eq(counter_sum(COUNT_backend_idle), 0, "all closed in the end");
}

Test(relay_keep, an_application_that_closes_after_some_requests_costs_nobody_an_answer)
{
	get_in_turn(&(struct manner){ .requests = 2 }, 6, 2);
	cr_expect_eq(requests, 6);
	cr_expect_eq(connections, 3);
	/* It takes the request, and is gone. */
	get_in_turn(&(struct manner){ .requests = 1, .die = true }, 6, 2);
	cr_expect_eq(requests, 6);
	cr_expect_eq(counter_sum(COUNT_backend_ejections), 0);
}

Test(relay_keep, what_is_not_clean_is_not_kept)
{
	get_in_turn(&(struct manner){ .tail = "\1", .tail_n = 1 }, 3, 2);
	cr_expect_eq(connections, 3, "bytes behind the end");
	get_in_turn(&(struct manner){ .tail = "\1\6\0\1\0\1\0\0x", .tail_n = 9 }, 3, 2);
	cr_expect_eq(connections, 3, "a record behind the end");
	/* Too late to be seen before the connection is used again. */
	get_in_turn(&(struct manner){ .tail = "\1", .tail_n = 1, .late = true }, 3, 2);
}

Test(relay_keep, posts_and_bodies_get_connections_of_their_own)
{
	static const struct {
		const char *params, *body;
		int connections;
	} rows[] = {
		{ "REQUEST_METHOD=GET", "", 1 },
		{ "REQUEST_METHOD=POST", "", 2 },
		{ "REQUEST_METHOD=DELETE", "", 2 },
		{ "REQUEST_METHOD=GET", "body", 2 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fake f = { .serve = serve_many, .script = &(struct manner){ 0 } };
		struct run runs[2];

		clear();
		fake_start(&f, 8);
		runs[0] = request(&f, "REQUEST_METHOD=GET", 2);
		runs[1] = request(&f, rows[i].params, 2);
		run_body(&runs[1], view_str(rows[i].body));
		run_in_turn(runs, 2);
		for (size_t k = 0; k < 2; k++) {
			cr_expect_eq((int)runs[k].how, RELAY_WHOLE, "%s", runs[k].why);
			run_release(&runs[k]);
		}
		cr_expect_eq(connections, rows[i].connections, "row %zu", i);
		fake_stop(&f);
		fake_release(&f);
	}
}

Test(relay_keep, an_answer_before_the_body_was_read_ends_its_connection)
{
	struct fake f = { .serve = serve_many,
		.script = &(struct manner){ .requests = 1, .early = true } };
	char *body = calloc(1, 5000000);
	struct run runs[2];

	cr_assert(body);
	clear();
	fake_start(&f, 8);
	runs[0] = request(&f, "REQUEST_METHOD=POST", 2);
	run_body(&runs[0], view_of(body, 5000000));
	runs[1] = request(&f, "REQUEST_METHOD=GET", 2);
	run_in_turn(runs, 2);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq((int)runs[i].how, RELAY_WHOLE, "%s", runs[i].why);
		run_release(&runs[i]);
	}
	cr_expect_eq(connections, 2);
	cr_expect_eq(counter_sum(COUNT_backend_reuses), 0);
	fake_stop(&f);
	fake_release(&f);
	free(body);
}

Test(relay_keep, no_more_than_so_many_are_kept_and_not_for_long)
{
	struct fake f = { .serve = serve_many, .script = &(struct manner){ 0 } };
	struct run runs[6];

	clear();
	fake_start(&f, 8);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		runs[i] = request(&f, "REQUEST_METHOD=GET", 2);
		runs[i].backend.keep_idle_ms = i == 5 ? 1 : 10000;
	}
	run_all(runs, 5);
	for (size_t i = 0; i < 5; i++)
		run_release(&runs[i]);
	cr_expect_eq(connections, 5);
	/* The loop's end has closed the two that were kept as well. */
	for (int i = 0; i < 500 && closed_by_weir < 5; i++)
		sleep_ms(10);
	cr_expect_eq(closed_by_weir, 5);
	run_release(&runs[5]);
	fake_stop(&f);
	fake_release(&f);
}

/* A php script that has ended its request, works on, and calls its own site. */
Test(relay_keep, a_request_that_nobody_reads_gets_another_connection)
{
	struct fake f = { .serve = serve_many,
		.script = &(struct manner){ .requests = 1, .deaf = true } };
	struct run runs[2];

	clear();
	fake_start(&f, 8);
	for (size_t i = 0; i < 2; i++)
		runs[i] = request(&f, "REQUEST_METHOD=GET", 2);
	run_in_turn(runs, 2);
	cr_expect_eq(counter_sum(COUNT_backend_reuses), 1);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_eq((int)runs[i].how, RELAY_WHOLE, "%s", runs[i].why);
		run_release(&runs[i]);
	}
	cr_expect_lt(runs[1].took_ms, 900);
	cr_expect_eq(connections, 2);
	fake_stop(&f);
	fake_release(&f);
}
