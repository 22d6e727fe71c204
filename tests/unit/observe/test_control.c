/* The control socket: what it answers, and what a peer cannot do to it. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/counters.h"
#include "observe/metrics.h"
#include "observed.h"

static json_t *answer(struct view line)
{
	char *text = control_answer(&observed_ops, NULL, line);
	json_t *o;

	cr_assert_not_null(text);
	cr_assert_eq(strchr(text, '\n'), text + strlen(text) - 1, "one line: %s", text);
	o = json_loads(text, 0, NULL);
	cr_assert(json_is_object(o), "%s", text);
	free(text);
	return o;
}

Test(command, status_tells_process_workers_totals_and_counters)
{
	json_t *o, *process, *first, *second;

	counters_join(); /* slot 0, as the first worker's */
	count_add(COUNT_connections_open, 3);
	count_add(COUNT_exchanges_open, 2);
	count_add(COUNT_requests, 120);
	o = answer(VIEW("{\"command\":\"status\"}"));

	process = json_object_get(o, "process");
	cr_assert_str_eq(metrics_str(process, "version", ""), WEIR_VERSION);
	cr_assert_eq(metrics_int(process, "pid", 0), getpid());
	cr_assert(metrics_int(process, "uptime_seconds", 0) >= 90);
	cr_assert(metrics_int(process, "config_age_seconds", 0) >= 30);
	cr_assert(metrics_int(process, "config_age_seconds", 0) < 90);
	cr_assert(metrics_int(process, "started_at", 0) > 1600000000);
	cr_assert(metrics_int(process, "resident_bytes", 0) > 4096);
	cr_assert_str_eq(metrics_str(process, "config_file", ""), "/etc/weir/weir.ini");
	cr_assert_str_eq(metrics_str(process, "started_as", ""), "on its own sockets");
	cr_assert(json_is_false(json_object_get(process, "reload_failed")));

	cr_assert_eq(json_array_size(json_object_get(o, "workers")), 2);
	first = json_array_get(json_object_get(o, "workers"), 0);
	second = json_array_get(json_object_get(o, "workers"), 1);
	cr_assert_eq(metrics_int(first, "connections_open", -1), 3);
	cr_assert_eq(metrics_int(first, "exchanges_open", -1), 2);
	cr_assert_str_eq(metrics_str(first, "store", ""), "redis");
	cr_assert(json_is_true(json_object_get(first, "store_up")));
	cr_assert_eq(metrics_int(second, "connections_open", -1), 0);
	cr_assert_str_eq(
		metrics_str(second, "store", ""), "redis (down: connection refused)");
	cr_assert(json_is_false(json_object_get(second, "store_up")));

	cr_assert_eq(metrics_int(json_object_get(o, "totals"), "connections_open", -1), 3);
	cr_assert_eq(metrics_int(json_object_get(o, "counters"), "requests", -1), 120);
	json_decref(o);
}

Test(command, what_is_no_command_gets_a_sentence)
{
	static const struct {
		struct view line;
		const char *hint;
	} rows[] = {
		{ VIEW("{\"command\":\"stop\"}"),
			"unknown command \"stop\"; there is status" },
		{ VIEW("{\"command\":\"\"}"), "unknown command \"\"" },
		{ VIEW("{\"command\":5}"), "write {\"command\":\"status\"}" },
		{ VIEW("{}"), "write {\"command\":\"status\"}" },
		{ VIEW("[\"status\"]"), "write {\"command\":\"status\"}" },
		{ VIEW("status"), "not JSON" },
		{ VIEW(""), "not JSON" },
		{ VIEW("{\"command\":\"status\""), "not JSON" },
		{ VIEW("{\"command\":\"status\"} {}"), "not JSON" },
		{ VIEW("{\"command\":\"status\",\"command\":\"x\"}"), "not JSON" },
		{ VIEW("{\"command\":\"a\\u0000b\"}"), "not JSON" },
		{ VIEW("\0"), "not JSON" },
		{ VIEW("\xff\xfe"), "not JSON" },
		{ VIEW("{\"command\":\"\xff\"}"), "not JSON" },
		{ VIEW("GET / HTTP/1.1\r"), "not JSON" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		json_t *o = answer(rows[i].line);

		cr_assert(strstr(metrics_str(o, "error", "no error"), rows[i].hint),
			"row %zu: %s", i, metrics_str(o, "error", "no error"));
		cr_assert_eq(json_object_size(o), 1);
		json_decref(o);
	}
}

Test(command, a_long_unknown_name_is_not_given_back_whole)
{
	/* Three-byte characters, so that a cut falls into the middle of one. */
	struct buf line = { 0 };
	json_t *o;

	buf_add_str(&line, "{\"command\":\"");
	for (int i = 0; i < 10000; i++)
		buf_add_str(&line, "\xe8\xb0\x83");
	buf_add_str(&line, "\"}");
	o = answer(buf_view(&line));
	cr_assert_lt(strlen(metrics_str(o, "error", "")), 200);
	cr_assert(strstr(metrics_str(o, "error", ""), "unknown command"));
	json_decref(o);
	buf_release(&line);
}

Test(command, deep_nesting_is_refused)
{
	struct buf line = { 0 };
	json_t *o;

	for (int i = 0; i < CONTROL_LINE_MAX; i++)
		buf_add_byte(&line, '[');
	o = answer(buf_view(&line));
	cr_assert(strstr(metrics_str(o, "error", ""), "not JSON"));
	json_decref(o);
	buf_release(&line);
}

static struct observed weir;

static void start_patient(void)
{
	signal(SIGPIPE, SIG_IGN);
	observed_start(&weir, 0);
}

static void start_impatient(void)
{
	signal(SIGPIPE, SIG_IGN);
	observed_start(&weir, 100);
}

static void stop(void)
{
	observed_stop(&weir);
}

TestSuite(control, .init = start_patient, .fini = stop, .timeout = 60);
TestSuite(control_patience, .init = start_impatient, .fini = stop, .timeout = 60);

static void send_str(int fd, const char *text)
{
	cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void expect_line(int fd, const char *part)
{
	char line[65536];

	cr_assert(observed_line(fd, line, sizeof(line)), "no line, but \"%s\"", line);
	cr_assert(strstr(line, part), "no %s in %s", part, line);
}

static void expect_end(int fd)
{
	char byte;

	cr_assert_leq(recv(fd, &byte, 1, 0), 0);
}

#define STATUS "{\"command\":\"status\"}\n"

Test(control, lines_are_answered_in_order_on_one_connection)
{
	int fd = observed_connect(&weir);

	send_str(fd, STATUS "nonsense\n\n  \r\n" STATUS "{\"command\":\"x\"}\n");
	expect_line(fd, "\"process\"");
	expect_line(fd, "not JSON");
	expect_line(fd, "\"process\"");
	expect_line(fd, "unknown command");
	send_str(fd, STATUS);
	expect_line(fd, "\"process\"");
	close(fd);
}

Test(control, a_line_may_come_in_any_cut)
{
	int fd = observed_connect(&weir);

	for (const char *p = STATUS; *p; p++)
		cr_assert_eq(send(fd, p, 1, MSG_NOSIGNAL), 1);
	expect_line(fd, "\"process\"");
	close(fd);
}

Test(control, the_last_line_may_do_without_its_newline)
{
	int fd = observed_connect(&weir);

	send_str(fd, STATUS "{\"command\":\"x\"}");
	shutdown(fd, SHUT_WR);
	expect_line(fd, "\"process\"");
	expect_line(fd, "unknown command");
	expect_end(fd);
	close(fd);
}

Test(control, a_line_of_the_longest_length_is_read)
{
	struct buf line = { 0 };
	int fd = observed_connect(&weir);

	buf_add_str(&line, "{\"command\":\"status\",\"pad\":\"");
	while (line.n < CONTROL_LINE_MAX - 2)
		buf_add_byte(&line, 'x');
	buf_add_str(&line, "\"}");
	cr_assert_eq(line.n, CONTROL_LINE_MAX);
	buf_add_byte(&line, '\n');
	send_str(fd, buf_str(&line));
	expect_line(fd, "\"process\"");
	buf_release(&line);
	close(fd);
}

Test(control, a_line_too_long_is_refused_once_and_the_next_one_answered)
{
	char *junk = malloc(1 << 20);
	int fd = observed_connect(&weir);

	memset(junk, 'x', 1 << 20);
	for (size_t sent = 0; sent < 1 << 20;) {
		ssize_t n = send(fd, junk + sent, (1 << 20) - sent, MSG_NOSIGNAL);

		cr_assert_gt(n, 0);
		sent += (size_t)n;
	}
	send_str(fd, "\n" STATUS);
	expect_line(fd, "too long");
	expect_line(fd, "\"process\"");
	free(junk);
	close(fd);
}

Test(control, a_peer_that_does_not_read_stops_only_itself)
{
	int flood = observed_connect(&weir), fd;
	struct timeval soon = { .tv_usec = 200000 };
	size_t asked = 0;

	/* Ask until our own socket is full: the answers that nobody takes wait in it,
	 * and behind them the questions. */
	setsockopt(flood, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
	while (asked < 10000000 && send(flood, STATUS, strlen(STATUS), MSG_NOSIGNAL) > 0)
		asked++;
	cr_assert_lt(asked, 10000000, "what is not read is not answered");
	cr_assert_lt(weir.calls, 10000, "nor worked on");
	fd = observed_connect(&weir);
	send_str(fd, STATUS);
	expect_line(fd, "\"process\"");
	close(fd);
	close(flood);
}

Test(control, peers_beyond_the_limit_are_told_and_places_come_back)
{
	int fds[CONTROL_PEERS_MAX], more[3 * CONTROL_PEERS_MAX];

	for (size_t i = 0; i < COUNT_OF(fds); i++) {
		fds[i] = observed_connect(&weir);
		send_str(fds[i], STATUS);
		expect_line(fds[i], "\"process\"");
	}
	for (size_t i = 0; i < COUNT_OF(more); i++)
		more[i] = observed_connect(&weir);
	for (size_t i = 0; i < COUNT_OF(more); i++) {
		expect_line(more[i], "busy");
		expect_end(more[i]);
		close(more[i]);
	}
	cr_assert_eq(counter_sum(COUNT_control_refused), COUNT_OF(more));
	send_str(fds[0], STATUS);
	expect_line(fds[0], "\"process\"");
	for (size_t i = 0; i < COUNT_OF(fds); i++)
		close(fds[i]);
	/* The loop needs a moment to see the ends; a busy answer meanwhile is honest. */
	for (int tries = 0; tries < 1000; tries++) {
		char line[65536];
		int fd = observed_connect(&weir);

		send(fd, STATUS, strlen(STATUS), MSG_NOSIGNAL);
		if (observed_line(fd, line, sizeof(line)) && strstr(line, "\"process\"")) {
			close(fd);
			return;
		}
		close(fd);
	}
	cr_assert_fail("no place came back");
}

Test(control, peers_that_leave_at_any_moment_leave_nothing_behind)
{
	for (int i = 0; i < 200; i++) {
		int fd = observed_connect(&weir);

		if (i % 4 == 1)
			send(fd, "{\"comm", 7, MSG_NOSIGNAL);
		else if (i % 4 == 2)
			send(fd, STATUS, strlen(STATUS), MSG_NOSIGNAL);
		else if (i % 4 == 3)
			send(fd, STATUS STATUS "x", 2 * strlen(STATUS) + 1, MSG_NOSIGNAL);
		close(fd);
	}
	/* observed_stop() fails when a handle is left. */
}

Test(control, stopping_cuts_off_whoever_is_connected)
{
	int idle = observed_connect(&weir), half = observed_connect(&weir);

	send_str(idle, STATUS);
	expect_line(idle, "\"process\"");
	send_str(half, "{\"comm");
	observed_stop(&weir);
	expect_end(idle);
	expect_end(half);
	close(idle);
	close(half);
	observed_start(&weir, 0); /* for the suite's end */
}

Test(control_patience, a_silent_peer_is_told_why_and_closed)
{
	int fd = observed_connect(&weir);

	expect_line(fd, "no whole line came in time");
	expect_end(fd);
	close(fd);
}

Test(control_patience, a_line_that_drips_does_not_buy_time)
{
	int fd = observed_connect(&weir);
	struct timeval tick = { .tv_usec = 20000 };
	char byte;

	/* A byte a tick: each would restart a clock that counts silence. */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof(tick));
	for (int i = 0; i < 200; i++) {
		send(fd, "x", 1, MSG_NOSIGNAL);
		if (recv(fd, &byte, 1, 0) == 1) {
			close(fd);
			return;
		}
	}
	cr_assert_fail("still waiting for the line after four seconds");
}

Test(control_patience, a_peer_that_takes_no_answer_is_closed)
{
	struct timeval soon = { .tv_usec = 20000 };
	int fd = observed_connect(&weir);

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
	for (int tries = 0; tries < 500; tries++) {
		ssize_t n = send(fd, STATUS, strlen(STATUS), MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN) {
			close(fd);
			return; /* EPIPE or ECONNRESET: we were closed */
		}
		if (n > 0)
			tries = 0;
	}
	cr_assert_fail("nobody closed us in ten seconds");
}

Test(control_start, a_descriptor_that_is_no_socket_is_refused_and_closed)
{
	uv_loop_t loop;
	int fds[2];

	uv_loop_init(&loop);
	cr_assert_eq(pipe(fds), 0);
	cr_assert_null(control_start(&loop, fds[0], &observed_ops, NULL));
	cr_assert_eq(close(fds[0]), -1, "it was ours to close");
	close(fds[1]);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0);
	control_stop(NULL);
}
