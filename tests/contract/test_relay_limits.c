/*
 * What CGI programs may do, for how long, and with which arguments.
 */
#include "relay_run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/counters.h"

static char root[] = "/tmp/test-limits-XXXXXX";

static const char *in_root(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void make_root(void)
{
	cr_assert(mkdtemp(root));
	signal(SIGPIPE, SIG_IGN);
}

static void drop_root(void)
{
	unlink(in_root("a.cgi"));
	unlink(in_root("done"));
	cr_assert_eq(rmdir(root), 0);
}

TestSuite(relay_limits, .init = make_root, .fini = drop_root);

#define SH   "#!/bin/sh\n"
#define HEAD "printf 'Content-Type: text/plain\\n\\n'\n"

static struct run program(const char *text)
{
	struct run r;
	int fd;

	unlink(in_root("a.cgi"));
	fd = open(in_root("a.cgi"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	run_init(&r, BACKEND_CGI, "REQUEST_METHOD=GET");
	free(r.backend.root);
	r.backend.root = strdup(root);
	r.path = VIEW("/a.cgi");
	return r;
}

static bool is_there(const char *name)
{
	return access(in_root(name), F_OK) == 0;
}

static void nothing_is_left(void)
{
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
	cr_assert_eq(counter_sum(COUNT_programs_running), 0);
}

/* What "ulimit" says of it in the program. */
static void check_limit(const struct run *like, const char *script, const char *want)
{
	struct run r = program(script);

	r.backend.cpu_limit_ms = like->backend.cpu_limit_ms;
	r.backend.memory_limit = like->backend.memory_limit;
	run_expect(&r, RELAY_WHOLE, 200, want);
	run_release(&r);
}

Test(relay_limits, programs_get_the_limits_of_their_backend)
{
	struct run like = { 0 };

	check_limit(&like, SH HEAD "ulimit -St; ulimit -Sv; ulimit -Sc",
		"unlimited\nunlimited\n0\n");
	like.backend.cpu_limit_ms = 2500;
	like.backend.memory_limit = UINT64_C(300) << 20;
	check_limit(&like, SH HEAD "ulimit -St; ulimit -Ht; ulimit -Sv; ulimit -Hv",
		"3\n4\n307200\n307200\n");
	nothing_is_left();
}

Test(relay_limits, a_program_that_computes_for_ever_is_ended)
{
	struct run r = program(SH HEAD "while :; do :; done");

	r.backend.cpu_limit_ms = 1000;
	run_expect(&r, RELAY_TRUNCATED, 200, "");
	cr_expect(strstr(r.why, "signal"), "%s", r.why);
	run_release(&r);
	nothing_is_left();
}

Test(relay_limits, rights_of_files_give_nothing_unless_they_may)
{
	static const char script[] = SH HEAD "grep NoNewPrivs /proc/self/status";
	struct run r = program(script);

	run_expect(&r, RELAY_WHOLE, 200, "NoNewPrivs:\t1\n");
	run_release(&r);
	r = program(script);
	r.backend.no_new_privs = false;
	run_expect(&r, RELAY_WHOLE, 200, "NoNewPrivs:\t0\n");
	run_release(&r);
}

Test(relay_limits, arguments_are_none_or_the_words_of_the_query)
{
	static const struct {
		enum program_argv argv;
		const char *query, *want;
	} rows[] = {
		{ ARGV_NONE, "a+b", "0:\n" },
		{ ARGV_NONE, "-s", "0:\n" },
		{ ARGV_ISINDEX, "a+b%20c", "2:a,b c\n" },
		{ ARGV_ISINDEX, "a=b", "0:\n" },
		{ ARGV_ISINDEX, "a++", "0:\n" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct run r = program(SH HEAD "IFS=,; echo \"$#:$*\"");

		r.backend.argv = rows[i].argv;
		r.query = view_str(rows[i].query);
		run_expect(&r, RELAY_WHOLE, 200, rows[i].want);
		run_release(&r);
	}
}

Test(relay_limits, a_program_works_on_after_an_answer_that_has_its_length)
{
	struct run r = program(SH "printf 'Content-Length: 2\\n\\nok'\n"
				  "sleep 0.5; echo more; echo more >&2; echo >done");

	run_expect(&r, RELAY_WHOLE, 200, "ok");
	cr_expect_lt(r.took_ms, 450);
	cr_expect(is_there("done"), "what it still says must not end it");
	run_release(&r);
	nothing_is_left();
}

Test(relay_limits, but_not_for_longer_than_kill_grace)
{
	struct run r = program(SH "printf 'Content-Length: 2\\n\\nok'\n"
				  "while :; do echo more; sleep 0.05; done");

	r.backend.kill_grace_ms = 200;
	run_expect(&r, RELAY_WHOLE, 200, "ok");
	run_release(&r);
	cr_expect_eq(counter_sum(COUNT_programs_killed), 1);
	nothing_is_left();
}

Test(relay_limits, requests_in_turn_do_not_count_twice)
{
	struct run runs[20];
	size_t whole = 0;

	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		runs[i] = program(SH "printf 'Content-Length: 2\\n\\nok'");
		runs[i].backend.max_programs = 1;
	}
	run_in_turn(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		whole += runs[i].how == RELAY_WHOLE;
		run_release(&runs[i]);
	}
	cr_expect_eq(whole, COUNT_OF(runs));
}

Test(relay_limits, a_program_may_finish_although_its_client_has_left)
{
	static const char *const programs[] = {
		SH "sleep 0.6; " HEAD "head -c 300000 /dev/zero; echo >done",
		SH HEAD "echo part; sleep 0.6; head -c 300000 /dev/zero && echo >done",
		SH HEAD "echo part; exec >&-; sleep 0.6; echo >done",
	};

	for (size_t i = 0; i < COUNT_OF(programs); i++) {
		struct run r = program(programs[i]);

		unlink(in_root("done"));
		r.backend.client_gone = CLIENT_GONE_FINISH;
		r.cancel_after_ms = 300;
		r.cancel_in_body = i > 0;
		run(&r);
		cr_expect_eq(r.ends, 0);
		cr_expect(is_there("done"), "program %zu", i);
		run_release(&r);
		nothing_is_left();
	}
	cr_expect_eq(counter_sum(COUNT_programs_killed), 0);
}

Test(relay_limits, but_its_time_limits_hold)
{
	static const struct {
		const char *program;
		int64_t idle_ms, all_ms;
	} rows[] = {
		{ SH "sleep 99", 300, 0 },
		{ SH HEAD "while :; do echo x; sleep 0.05; done", 10000, 600 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct run r = program(rows[i].program);

		r.backend.client_gone = CLIENT_GONE_FINISH;
		r.backend.idle_timeout_ms = rows[i].idle_ms;
		r.backend.timeout_ms = rows[i].all_ms;
		r.cancel_after_ms = 200;
		run(&r);
		run_release(&r);
		nothing_is_left();
	}
	cr_expect_eq(counter_sum(COUNT_programs_killed), 2);
}

Test(relay_limits, nor_does_one_outlive_its_worker)
{
	struct run r = program(SH HEAD "echo part; sleep 99");

	r.backend.client_gone = CLIENT_GONE_FINISH;
	r.cancel_after_ms = 300;
	r.then_end = true;
	run(&r);
	run_release(&r);
	cr_expect_eq(counter_sum(COUNT_programs_killed), 1);
	nothing_is_left();
}

Test(relay_limits, the_whole_call_has_a_limit)
{
	struct run r = program(SH HEAD "while :; do echo x; sleep 0.05; done");

	r.backend.timeout_ms = 300;
	run_expect(&r, RELAY_TRUNCATED, 200, NULL);
	cr_expect(strstr(r.why, "in all"), "%s", r.why);
	run_release(&r);
	r = program(SH "sleep 99");
	r.backend.timeout_ms = 300;
	run_expect(&r, RELAY_TIMEOUT, 0, NULL);
	run_release(&r);
	nothing_is_left();
}
