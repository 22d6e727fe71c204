/*
 * test_peers.c - web servers that read slowly, leave, stay, or come in great number.
 */
#include "site.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define EMPTY view_of(NULL, 0)
#define MIB   (1 << 20)

/* A site whose one backend follows a script. */
static struct weir *scripted(const char *addr, const char *server, const char *backend)
{
	return weir_start(&(struct weir_spec){
		.server = text("workers = 2\nbackend = scripted\n%s", server),
		.sections = text(
			"[store]\ntype = memory\n[backend scripted]\nfastcgi = %s\n%s",
			addr, backend) });
}

static int send_request(const char *addr, const struct fcgi_request *rq)
{
	struct buf b = { 0 };
	int fd = dial(addr);

	fcgi_compose(&b, rq);
	cr_assert(fd >= 0 && fcgi_send(fd, buf_view(&b), 5000));
	buf_release(&b);
	return fd;
}

/* ---- Slow ---- */

Test(peers, that_stop_reading_do_not_fill_the_memory, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	struct fcgi_request rq = { .uri = "/x?size=33554432" };
	uint64_t before, after;
	struct fcgi_answer a;
	int fd;

	cr_assert_eq(site_get(s, "/x"), 200);
	before = process_resident_bytes(s->weir->process);
	fd = send_request(s->addr, &rq);
	/* The answer has begun, and the handler has had time to write much more. */
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_SOMETHING, 5000));
	cr_assert(!WAIT_UNTIL(1500,
			  process_resident_bytes(s->weir->process) > before + 8 * MIB),
		"grew to %lu bytes", process_resident_bytes(s->weir->process));
	after = process_resident_bytes(s->weir->process);
	cr_log_info("resident: %lu before, %lu while 32 MiB wait", before, after);
	/* Nothing is lost meanwhile. */
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_END, 30000));
	cr_assert_eq(answer_body(&a).n, 32 * MIB, "%zu bytes", answer_body(&a).n);
	close(fd);
	fcgi_answer_release(&a);
}

/* Reads to the end, about as fast as weir writes, in small bites of changing size. */
struct reader {
	int fd;
	unsigned number;
	size_t bytes;
	pthread_t thread;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;
	char bite[20000];
	ssize_t n;

	for (unsigned turn = r->number;; turn++) {
		n = recv(r->fd, bite, 500 + turn * 977 % (sizeof(bite) - 500), 0);
		if (n <= 0)
			return NULL;
		r->bytes += (size_t)n;
		if (turn % 512 == 0)
			wait_a_little();
	}
}

/* Such a reader has weir stop and resume its backend all the time; one resumption
 * forgotten, and the answer never ends. Small records give it the most occasions. */
Test(peers, that_read_as_fast_as_weir_writes_get_all_of_it, .timeout = 90)
{
	enum {
		PEERS = 4,
		SIZE = 6 * MIB
	};
	static struct backend_script script = { .n_pieces = 1 };
	static struct reader readers[PEERS];
	const char *addr = addr_unix("small-records.sock");
	struct weir *w = scripted(addr, "", "");
	struct fcgi_request rq = { .uri = "/x" };
	static struct buf answer; /* the backend sends from it until the end */
	struct view piece;

	fcgi_record(&answer, 6, 1, VIEW("Content-Type: text/plain\r\n\r\n"), 0);
	for (size_t n = 0; n < SIZE; n += 16)
		fcgi_record(&answer, 6, 1, VIEW("0123456789abcde\n"), 0);
	backend_answer(&answer, EMPTY);
	piece = buf_view(&answer);
	script.pieces = &piece;
	backend_start(addr, &script);
	for (unsigned i = 0; i < PEERS; i++) {
		struct reader *r = &readers[i];

		*r = (struct reader){ .fd = send_request(w->addr, &rq), .number = i };
		setsockopt(r->fd, SOL_SOCKET, SO_RCVTIMEO,
			&(struct timeval){ .tv_sec = 15 }, sizeof(struct timeval));
		cr_assert_eq(pthread_create(&r->thread, NULL, read_all, r), 0);
	}
	for (unsigned i = 0; i < PEERS; i++) {
		pthread_join(readers[i].thread, NULL);
		close(readers[i].fd);
	}
	for (unsigned i = 0; i < PEERS; i++)
		cr_assert(readers[i].bytes > SIZE,
			"peer %u: nothing came any more after %zu bytes", i,
			readers[i].bytes);
}

Test(peers, that_take_nothing_for_too_long_are_let_go, .timeout = 60)
{
	struct site *s = site_start(
		&(struct site_spec){ .no_php = true, .server = "send_timeout = 1s\n" });
	struct fcgi_request rq = { .uri = "/x?size=33554432" };
	int fd = send_request(s->addr, &rq);

	cr_assert(weir_counts(s->weir, "connections_slow", 1, 15000));
	cr_assert(weir_counts(s->weir, "exchanges_open", 0, 5000));
	close(fd);
}

Test(peers, whose_body_stops_coming_are_let_go, .timeout = 60)
{
	struct site *s = site_start(
		&(struct site_spec){ .no_php = true, .server = "body_timeout = 1s\n" });
	struct fcgi_request rq = { .uri = "/x", .body = VIEW("hello") };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(s->addr);

	fcgi_compose_head(&b, &rq);
	fcgi_record(&b, 5, 1, VIEW("hel"), 0);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_CLOSED, 15000));
	cr_assert_eq(site_get(s, "/x"), 200);
	/* It had not left. */
	cr_assert(weir_counts(s->weir, "requests_cut_off", 1, 5000));
	cr_assert_eq(weir_counter(s->weir, "requests_abandoned"), 0);
	cr_assert_eq(weir_counter(s->weir, "connections_slow"), 1);
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

/* mod_fcgid writes the whole request before it reads a byte. */
Test(peers, that_write_all_before_they_read_get_an_early_refusal)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.endpoints =
			"[endpoint never]\nmatch = * /never\n@RateLimit = count=0\n" });
	struct fcgi_request rq = { .uri = "/never", .pattern_bytes = 3 * MIB };
	int fd = send_request(s->addr, &rq);
	struct fcgi_answer a;

	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_CLOSED, 5000));
	cr_assert(!a.reset, "the connection was reset");
	cr_assert_eq(a.ends, 1);
	cr_assert_eq(answer_status(&a), 403);
	close(fd);
	fcgi_answer_release(&a);
}

Test(peers, see_an_early_refusal_through_their_web_server, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.endpoints =
			"[endpoint never]\nmatch = * /never\n@RateLimit = count=0\n" });
	struct web *webs[] = { lighttpd_start(s->addr), nginx_start(s->addr),
		nginx_keepalive_start(s->addr) };

	for (size_t w = 0; w < COUNT_OF(webs); w++)
		for (int i = 0; i < 5; i++) {
			const char *url = text("%s/never", webs[w]->url);
			struct http_answer a;

			http_call(&(struct http_request){ .url = url,
					  .pattern_bytes = 3 * MIB },
				&a);
			cr_assert_eq(a.status, 403, "%s: error %d, status %ld", url,
				a.error, a.status);
			http_release(&a);
		}
}

/* ---- Leaving ---- */

Test(peers, that_leave_free_their_backend, .timeout = 60)
{
	static const struct backend_script silent = { .silent = true };
	const char *addr = addr_unix("silent.sock");
	struct backend *b = backend_start(addr, &silent);
	struct weir *w = scripted(addr, "", "");
	struct fcgi_request rq = { .uri = "/x", .body = VIEW("hello") };
	int fd = send_request(w->addr, &rq);

	cr_assert(WAIT_UNTIL(5000, backend_count(b).requests == 1));
	close(fd);
	cr_assert(WAIT_UNTIL(1000, backend_count(b).left_by_peer == 1),
		"the backend's connection is still open");
	cr_assert(weir_counts(w, "exchanges_open", 0, 5000));
	cr_assert(weir_counts(w, "requests_abandoned", 1, 5000));
}

Test(peers, that_abort_free_their_backend_and_get_an_end, .timeout = 60)
{
	static const struct backend_script silent = { .silent = true };
	const char *addr = addr_unix("silent.sock");
	struct backend *b = backend_start(addr, &silent);
	struct weir *w = scripted(addr, "", "");
	struct fcgi_request rq = { .uri = "/x" };
	struct fcgi_answer a;
	struct buf abort_it = { 0 };
	int fd = send_request(w->addr, &rq);

	fcgi_record(&abort_it, 2, 1, EMPTY, 0);
	cr_assert(WAIT_UNTIL(5000, backend_count(b).requests == 1));
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&abort_it), &a, FCGI_UNTIL_END, 2000));
	cr_assert_eq(a.ends, 1, "no END_REQUEST");
	cr_assert(WAIT_UNTIL(1000, backend_count(b).left_by_peer == 1));
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&abort_it);
}

/* Also programs that have begun their answer, and such as ignore a polite request. */
Test(peers, that_leave_end_their_program, .timeout = 60)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true,
		.cgi = "kill_grace = 1s\n",
		.endpoints = "[endpoint stubborn]\nmatch = * /stubborn\nbackend = cgi\n" });
	static const char *const uris[] = { "/hello.sh?sleep=30", "/hello.pl?sleep=30",
		"/hello.pl?lines=30", "/stubborn" };
	const char *stubborn = text("%s/stubborn", s->programs);

	file_write(stubborn, "#!/bin/sh\ntrap '' TERM\nsleep 30\nsleep 30\n");
	cr_assert_eq(system(text("chmod 755 %s", stubborn)), 0);
	for (size_t i = 0; i < COUNT_OF(uris); i++) {
		struct fcgi_request rq = { .uri = uris[i] };
		int fd = send_request(s->addr, &rq);

		cr_assert(WAIT_UNTIL(5000, process_children(s->weir->process) == 1),
			"%s: %zu", uris[i], process_children(s->weir->process));
		close(fd);
		cr_assert(WAIT_UNTIL(5000, process_children(s->weir->process) == 0),
			"%s still runs", uris[i]);
	}
	cr_assert(weir_counts(s->weir, "programs_running", 0, 5000));
}

/* ---- Staying ---- */

Test(peers, that_keep_their_connection_are_served_on_it_again_and_again)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	static const char *const uris[] = { "/x", "/x?size=3000000", "/x?status=404",
		"/y?size=0" };
	struct fcgi_answer a;
	int fd = dial(s->addr);

	fcgi_answer_init(&a);
	for (unsigned i = 0; i < 40; i++) {
		struct fcgi_request rq = { .uri = uris[i % COUNT_OF(uris)],
			.keep = true,
			.id = i % 3 ? 1 : 500,
			.pattern_bytes = i % 2 ? 70000 : 0 };
		struct buf b = { 0 };

		fcgi_compose(&b, &rq);
		cr_assert(fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, 5000));
		cr_assert(!a.closed && !a.malformed, "request %u", i);
		cr_assert_eq(a.ends, i + 1);
		cr_assert_eq(a.end_id, rq.id);
		buf_release(&b);
	}
	close(fd);
	fcgi_answer_release(&a);
}

Test(peers, that_do_not_ask_for_it_are_not_kept)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	struct fcgi_request rq = { .uri = "/x" };
	struct fcgi_answer a;
	int fd = send_request(s->addr, &rq);

	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_CLOSED, 5000));
	cr_assert_eq(a.ends, 1);
	close(fd);
	fcgi_answer_release(&a);
}

Test(peers, with_kept_connections_are_spread_over_the_workers)
{
	enum {
		WORKERS = 4,
		CONNECTIONS = 32
	};
	static const struct backend_script plain;
	const char *addr = addr_unix("plain.sock");
	struct backend *b = backend_start(addr, &plain);
	struct weir *w = weir_start(&(struct weir_spec){
		.server = text("workers = %d\nbackend = plain\n", WORKERS),
		.sections = text(
			"[store]\ntype = memory\n[backend plain]\nfastcgi = %s\n", addr) });
	struct fcgi_request rq = { .uri = "/x", .keep = true };
	int fds[CONNECTIONS];
	json_t *status, *workers;

	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct fcgi_answer a;

		fds[i] = send_request(w->addr, &rq);
		fcgi_answer_init(&a);
		cr_assert(fcgi_exchange(fds[i], EMPTY, &a, FCGI_UNTIL_END, 5000));
		fcgi_answer_release(&a);
	}
	status = weir_status(w);
	workers = json_object_get(status, "workers");
	cr_assert_eq(json_array_size(workers), WORKERS);
	for (size_t i = 0; i < WORKERS; i++) {
		json_t *open = json_object_get(
			json_array_get(workers, i), "connections_open");

		cr_assert(json_integer_value(open) >= CONNECTIONS / WORKERS / 2,
			"worker %zu has %lld of %d connections", i,
			json_integer_value(open), CONNECTIONS);
	}
	json_decref(status);
	cr_assert_eq(backend_count(b).requests, CONNECTIONS);
	for (size_t i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
}

/* select(2) ends at descriptor 1023, and many programs with it. */
Test(peers, may_be_fifteen_hundred_at_once, .timeout = 60)
{
	enum {
		CONNECTIONS = 1500
	};
	static int fds[CONNECTIONS];
	static const struct backend_script plain;
	const char *addr = addr_unix("plain.sock");
	struct fcgi_request rq = { .uri = "/x", .keep = true };
	struct buf b = { 0 };
	struct weir *w;

	need_open_files(8192);
	backend_start(addr, &plain);
	w = scripted(addr, "backlog = 4096\n", "");
	fcgi_compose(&b, &rq);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		fds[i] = dial(w->addr);
		cr_assert(fds[i] >= 0, "connection %zu: %s", i, strerror(errno));
	}
	for (size_t i = 0; i < CONNECTIONS; i++)
		cr_assert(fcgi_send(fds[i], buf_view(&b), 5000));
	for (size_t i = 0; i < CONNECTIONS; i++) {
		struct fcgi_answer a;

		fcgi_answer_init(&a);
		cr_assert(fcgi_exchange(fds[i], EMPTY, &a, FCGI_UNTIL_END, 20000));
		cr_assert_eq(
			answer_status(&a), 200, "connection %zu: %d", i, answer_status(&a));
		fcgi_answer_release(&a);
	}
	cr_assert(weir_counts(w, "connections_open", CONNECTIONS, 5000));
	for (size_t i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	cr_assert(weir_counts(w, "connections_open", 0, 5000));
	buf_release(&b);
}

/* ---- Stopping ---- */

Test(stopping, is_at_once_when_nothing_is_going_on)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });

	process_signal(s->weir->process, SIGTERM);
	cr_assert_eq(process_exit(s->weir->process, 2000), 0);
	cr_assert(access(s->addr + strlen("unix:"), F_OK) < 0, "the socket is left behind");
}

Test(stopping, is_at_once_with_an_idle_kept_connection)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	struct fcgi_request rq = { .uri = "/x", .keep = true };
	struct fcgi_answer a;
	int fd = send_request(s->addr, &rq), silent = dial(s->addr);

	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_END, 5000));
	process_signal(s->weir->process, SIGTERM);
	cr_assert_eq(process_exit(s->weir->process, 2000), 0);
	close(fd);
	close(silent);
	fcgi_answer_release(&a);
}

Test(stopping, waits_for_the_running_request_and_takes_no_new_one)
{
	struct site *s = site_start(&(struct site_spec){ .no_php = true });
	struct fcgi_request rq = { .uri = "/x?sleep=1", .keep = true };
	struct fcgi_answer a;
	int fd = send_request(s->addr, &rq);

	cr_assert(weir_counts(s->weir, "requests_passed", 1, 5000));
	process_signal(s->weir->process, SIGTERM);
	cr_assert(WAIT_UNTIL(500, !addr_answers(s->addr)), "still takes connections");
	cr_assert(process_running(s->weir->process), "did not wait");
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_CLOSED, 5000));
	cr_assert_eq(a.ends, 1);
	cr_assert_eq(answer_status(&a), 200);
	cr_assert_eq(process_exit(s->weir->process, 2000), 0);
	close(fd);
	fcgi_answer_release(&a);
}

Test(stopping, cuts_off_what_still_runs_when_its_patience_is_over)
{
	struct site *s = site_start(
		&(struct site_spec){ .no_php = true, .server = "stop_timeout = 1s\n" });
	struct fcgi_request rq = { .uri = "/hello.sh?sleep=30" };
	int fd = send_request(s->addr, &rq);

	cr_assert(WAIT_UNTIL(5000, process_children(s->weir->process) == 1));
	process_signal(s->weir->process, SIGTERM);
	cr_assert_eq(process_exit(s->weir->process, 10000), 0);
	close(fd);
}

/* A program that needs so long for its work, and says in a file what came of it. */
static void write_job(const char *dir, int seconds)
{
	const char *path = text("%s/job.sh", dir);

	file_write(path,
		text("#!/bin/sh\n"
		     "exec 2>/dev/null\n" /* where a shell says what was killed */
		     "trap 'echo cut off >%s/outcome; exit' TERM\n"
		     "echo >%s/begun\n"
		     "sleep %d\n"
		     "echo finished >%s/outcome\n",
			dir, dir, seconds, dir));
	cr_assert_eq(system(text("chmod 755 %s", path)), 0);
}

Test(stopping, lets_a_program_without_a_client_finish_within_its_patience, .timeout = 100)
{
	static const struct {
		const char *stop_timeout;
		int job_s;
		const char *outcome;
	} rows[] = {
		{ "60s", 3, "finished\n" },
		{ "1s", 60, "cut off\n" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct site *s = site_start(&(struct site_spec){ .no_php = true,
			.server = text("stop_timeout = %s\n", rows[i].stop_timeout),
			.cgi = "client_gone = finish\n",
			.endpoints = "[endpoint job]\nmatch = * /job.sh\n"
				     "backend = cgi\n" });
		const char *outcome = text("%s/outcome", s->programs);
		int fd;

		write_job(s->programs, rows[i].job_s);
		unlink(outcome);
		unlink(text("%s/begun", s->programs));
		fd = send_request(s->addr, &(struct fcgi_request){ .uri = "/job.sh" });
		cr_assert(WAIT_UNTIL(
			10000, access(text("%s/begun", s->programs), F_OK) == 0));
		close(fd);
		cr_assert(weir_counts(s->weir, "requests_abandoned", 1, 5000));
		cr_assert(weir_counts(s->weir, "connections_open", 0, 5000));
		process_signal(s->weir->process, SIGTERM);
		cr_assert_eq(process_exit(s->weir->process, 30000), 0);
		/* Who is told to end may do so a moment after weir. */
		cr_assert(WAIT_UNTIL(5000, access(outcome, F_OK) == 0));
		cr_assert(WAIT_UNTIL(5000, !strcmp(file_read(outcome), rows[i].outcome)),
			"%s", file_read(outcome));
	}
}
