/*
 * Relays that run CGI programs, most of them small shell scripts.
 */
#include "relay_run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "proxy/program.h"

static char root[] = "/tmp/test-cgi-XXXXXX";

static void make_root(void)
{
	cr_assert(mkdtemp(root));
	/* Like a service: programs must not inherit this. */
	signal(SIGPIPE, SIG_IGN);
}

static const char *in_root(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void drop_root(void)
{
	static const char *const names[] = { "a.cgi", "pid", "done", "started" };

	for (size_t i = 0; i < COUNT_OF(names); i++)
		unlink(in_root(names[i]));
	cr_assert_eq(rmdir(root), 0);
}

TestSuite(relay_cgi, .init = make_root, .fini = drop_root);

static void write_program(const char *text, mode_t mode)
{
	int fd;

	unlink(in_root("a.cgi"));
	fd = open(in_root("a.cgi"), O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	fchmod(fd, mode);
	close(fd);
}

#define SH   "#!/bin/sh\n"
#define HEAD "printf 'Content-Type: text/plain\\n\\n'\n"

static void prepare(struct run *r, const char *program, const char *params)
{
	write_program(program, 0755);
	run_init(r, BACKEND_CGI, params);
	free(r->backend.root);
	r->backend.root = strdup(root);
	r->path = VIEW("/a.cgi");
}

static void check(const char *program, enum relay_end how, int status, const char *body)
{
	struct run r;

	prepare(&r, program, "REQUEST_METHOD=GET");
	run_expect(&r, how, status, body);
	run_release(&r);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
}

Test(relay_cgi, answers_and_exits_are_judged)
{
	static const struct {
		const char *program;
		enum relay_end how;
		int status;
		const char *body;
	} rows[] = {
		{ SH HEAD "echo ok", RELAY_WHOLE, 200, "ok\n" },
		{ SH "printf 'Status: 404 Not Found\\r\\n\\r\\nno'", RELAY_WHOLE, 404,
			"no" },
		{ SH "printf 'Location: http://h/x\\n\\n'", RELAY_WHOLE, 302, "" },
		{ SH "printf 'HTTP/1.1 201 Created\\r\\n\\r\\nok'", RELAY_WHOLE, 201,
			"ok" },
		{ SH, RELAY_BAD, 0, NULL },
		{ SH "echo hello", RELAY_BAD, 0, NULL },
		{ SH "echo X-A: 1", RELAY_BAD, 0, NULL },
		{ SH "exit 3", RELAY_BAD, 0, NULL },
		{ SH "kill -9 $$", RELAY_BAD, 0, NULL },
		{ SH HEAD "echo part; exit 3", RELAY_TRUNCATED, 200, "part\n" },
		{ SH HEAD "echo part; kill -9 $$", RELAY_TRUNCATED, 200, "part\n" },
		{ SH "printf 'Content-Length: 2\\n\\nok'; exit 3", RELAY_WHOLE, 200, "ok" },
		{ SH "printf 'Content-Length: 5\\n\\nok'", RELAY_TRUNCATED, 200, "ok" },
		{ SH "printf 'Content-Length: 2\\n\\nokmore'", RELAY_WHOLE, 200, "ok" },
		{ SH HEAD "head -c 300000 /dev/zero | tr '\\0' x", RELAY_WHOLE, 200, NULL },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		check(rows[i].program, rows[i].how, rows[i].status, rows[i].body);
}

Test(relay_cgi, programs_that_cannot_run_are_told_apart)
{
	struct run r;

	check("no binary and no interpreter named\n", RELAY_FORBIDDEN, 0, NULL);
	check("#!/nonexistent/interpreter\n", RELAY_BAD, 0, NULL);
	prepare(&r, SH, "REQUEST_METHOD=GET");
	write_program(SH, 0644);
	run_expect(&r, RELAY_FORBIDDEN, 0, NULL);
	run_release(&r);
	prepare(&r, SH, "REQUEST_METHOD=GET");
	r.path = VIEW("/none.cgi");
	run_expect(&r, RELAY_NO_PROGRAM, 0, NULL);
	run_release(&r);
	prepare(&r, SH, "REQUEST_METHOD=GET");
	r.path = VIEW("/");
	run_expect(&r, RELAY_FORBIDDEN, 0, NULL);
	run_release(&r);
	prepare(&r, SH, "REQUEST_METHOD=GET");
	r.path = VIEW("/a.cgi/x\ny");
	run_expect(&r, RELAY_BAD_REQUEST, 0, NULL);
	run_release(&r);
	prepare(&r, SH, "REQUEST_METHOD=GET");
	pairs_put(&r.request.head, VIEW("REQUEST_URI"), VIEW("/a.cgi\r"));
	run_expect(&r, RELAY_BAD_REQUEST, 0, NULL);
	run_release(&r);
	prepare(&r, SH, "REQUEST_METHOD=GET");
	free(r.backend.root);
	r.backend.root = strdup("/nonexistent");
	run_expect(&r, RELAY_FAILED, 0, NULL);
	run_release(&r);
	prepare(&r, SH HEAD, "REQUEST_METHOD=GET");
	r.backend.max_programs = 0;
	run_expect(&r, RELAY_CROWDED, 0, NULL);
	run_release(&r);
}

Test(relay_cgi, body_is_the_standard_input)
{
	static const size_t sizes[] = { 0, 5, 10, 65536, 300000 };
	char *bytes = malloc(300000);

	cr_assert(bytes);
	for (size_t i = 0; i < 300000; i++)
		bytes[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		struct run r;
		char length[64];
		struct view got;

		prepare(&r, SH HEAD "echo \"[$CONTENT_LENGTH]\"; exec cat",
			"REQUEST_METHOD=POST\nCONTENT_LENGTH=77");
		run_body(&r, view_of(bytes, sizes[i]));
		run_expect(&r, RELAY_WHOLE, 200, NULL);
		got = buf_view(&r.answer);
		snprintf(length, sizeof(length), "[%zu]\n", sizes[i]);
		cr_assert(view_starts(got, view_str(length)));
		got = view_skip(got, strlen(length));
		cr_assert(view_eq(got, view_of(bytes, sizes[i])), "%zu bytes", sizes[i]);
		run_release(&r);
	}
	free(bytes);
}

Test(relay_cgi, program_need_not_read_its_body)
{
	struct run r;
	char *bytes = calloc(1, 1000000);

	cr_assert(bytes);
	prepare(&r, SH "printf 'Status: 413 Content Too Large\\n\\nno'",
		"REQUEST_METHOD=POST");
	run_body(&r, view_of(bytes, 1000000));
	run_expect(&r, RELAY_WHOLE, 413, "no");
	run_release(&r);
	free(bytes);
}

/* Runs a script and gives its output to be looked through. */
static char *output(const char *script, const char *params, const char *path)
{
	struct run r;
	char *text;

	prepare(&r, script, params);
	r.path = view_str(path);
	r.extra[0] = (struct pair){ VIEW("WEIR_USER"), VIEW("alice") };
	r.n_extra = 1;
	run_expect(&r, RELAY_WHOLE, 200, NULL);
	text = buf_steal(&r.answer);
	cr_assert(text);
	run_release(&r);
	return text;
}

Test(relay_cgi, environment_holds_what_it_should_and_no_more)
{
	static const char *const there[] = { "\nPATH=/usr/bin:/bin\n",
		"\nREMOTE_ADDR=192.0.2.7\n", "\nSCRIPT_NAME=/a.cgi\n", "\nPATH_INFO=/x/y\n",
		"\nWEIR_USER=alice\n", "\nHTTP_X=1, 2\n", "\nGATEWAY_INTERFACE=CGI/1.1\n" };
	static const char *const not_there[] = { "LD_PRELOAD", "HTTP_PROXY", "evil",
		"WEIR_TEST_OWN", "CONTENT_LENGTH" };
	char *text;

	setenv("WEIR_TEST_OWN", "1", 1);
	text = output(SH HEAD "echo; exec env",
		"REQUEST_METHOD=GET\nREMOTE_ADDR=192.0.2.7\nPATH=/evil\nLD_PRELOAD=/x.so\n"
		"HTTP_PROXY=http://evil\nWEIR_USER=evil\nHTTP_X=1\nHTTP_X=2",
		"/a.cgi/x/y");
	for (size_t i = 0; i < COUNT_OF(there); i++)
		cr_assert(strstr(text, there[i]), "no %s in %s", there[i], text);
	for (size_t i = 0; i < COUNT_OF(not_there); i++)
		cr_assert_null(strstr(text, not_there[i]), "%s in %s", not_there[i], text);
	free(text);
}

Test(relay_cgi, program_starts_in_a_clean_place)
{
	int forgotten = dup(0); /* by a library that knows no close-on-exec */
	char *text = output(SH HEAD
		"echo \"args $#\"\n"
		"echo \"name $0\"\n"
		"pwd\n"
		"umask\n"
		"[ \"$(cut -d' ' -f6 /proc/$$/stat)\" = $$ ] && echo own\n"
		"ls /proc/self/fd\n"
		"exec grep -E '^Sig(Blk|Ign)' /proc/self/status\n",
		"REQUEST_METHOD=GET\nQUERY_STRING=-s+a", "/a.cgi");
	char want[512];

	/* 3 is the directory that ls reads. */
	snprintf(want, sizeof(want),
		"args 0\nname %s/a.cgi\n%s\n0022\nown\n0\n1\n2\n3\n"
		"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n",
		root, root);
	cr_assert_str_eq(text, want);
	free(text);
	close(forgotten);
}

Test(relay_cgi, program_gets_the_limit_of_open_files_weir_had)
{
	char *text;

	program_set_nofile(77);
	text = output(SH HEAD "ulimit -n", "REQUEST_METHOD=GET", "/a.cgi");
	cr_assert_str_eq(text, "77\n");
	free(text);
}

Test(relay_cgi, error_output_cannot_block_the_answer)
{
	const char *text;

	logged();
	check(SH "echo first problem >&2\n"
		 "head -c 1000000 /dev/zero | tr '\\0' e | fold -w 100 >&2\n" HEAD
		 "echo ok",
		RELAY_WHOLE, 200, "ok\n");
	text = logged();
	cr_assert(strstr(text, "text=\"first problem\""));
	cr_assert(strstr(text, "dropped_bytes="));
	cr_assert_lt(strlen(text), 100000);
	check(SH "echo the reason >&2; exit 1", RELAY_BAD, 0, NULL);
	cr_assert(strstr(logged(), "text=\"the reason\""));
}

Test(relay_cgi, child_that_holds_the_output_does_not_hold_the_answer)
{
	int64_t began = clock_mono_us();

	check(SH HEAD "echo ok; sleep 6 2>/dev/null & exit 0", RELAY_WHOLE, 200, "ok\n");
	/* Even if the child never falls silent, once the answer is known to be whole. */
	check(SH "printf 'Content-Length: 2\n\nok'\n"
		 "(for i in 1 2 3 4 5 6; do echo more; sleep 1; done) 2>/dev/null & exit 0",
		RELAY_WHOLE, 200, "ok");
	cr_assert_lt(clock_mono_us() - began, 5 * US_PER_S);
}

/* What a program wrote about itself; 0 when it was ended before it came to that. */
static pid_t read_pid(void)
{
	FILE *file = fopen(in_root("pid"), "re");
	int pid = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%d", &pid) != 1)
		pid = 0;
	fclose(file);
	return pid;
}

/* An orphan may be a zombie until init takes it; it runs no more. */
static bool is_running(pid_t pid)
{
	char path[64], state = 'Z';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = 'Z';
	fclose(file);
	return state != 'Z';
}

Test(relay_cgi, program_that_closed_its_output_may_finish_its_work)
{
	struct run r;

	prepare(&r, SH HEAD "echo ok; exec >&- 2>&-; sleep 1; echo >done",
		"REQUEST_METHOD=GET");
	run_expect(&r, RELAY_WHOLE, 200, "ok\n");
	cr_assert_eq(access(in_root("done"), F_OK), 0);
	cr_assert_eq(counter_sum(COUNT_programs_killed), 0);
	run_release(&r);
	/* But not for ever. */
	prepare(&r, SH HEAD "echo ok; echo $$ >pid; exec >&- 2>&-; exec sleep 99",
		"REQUEST_METHOD=GET");
	r.backend.kill_grace_ms = 100;
	run_expect(&r, RELAY_WHOLE, 200, "ok\n");
	cr_assert(!is_running(read_pid()));
	cr_assert_eq(counter_sum(COUNT_programs_killed), 1);
	run_release(&r);
}

Test(relay_cgi, silent_programs_are_ended)
{
	static const struct {
		const char *program;
		enum relay_end how;
		int status;
	} rows[] = {
		{ SH "echo $$ >pid; exec sleep 99", RELAY_TIMEOUT, 0 },
		{ SH "echo $$ >pid; sleep 99", RELAY_TIMEOUT, 0 },
		{ SH "trap '' TERM; echo $$ >pid; sleep 99; sleep 99", RELAY_TIMEOUT, 0 },
		{ SH "echo $$ >pid; echo X: 1; sleep 99", RELAY_TIMEOUT, 0 },
		{ SH "echo $$ >pid\n" HEAD "echo part; sleep 99", RELAY_TRUNCATED, 200 },
		/* The shell goes at SIGTERM, its child does not. */
		{ SH "(trap '' TERM; sh -c 'echo $$ >pid; exec sleep 99'); exit",
			RELAY_TIMEOUT, 0 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct run r;
		int64_t killed = counter_sum(COUNT_programs_killed);

		prepare(&r, rows[i].program, "REQUEST_METHOD=GET");
		r.backend.first_byte_timeout_ms = 600;
		r.backend.idle_timeout_ms = 600;
		r.backend.kill_grace_ms = 100;
		run_expect(&r, rows[i].how, rows[i].status, NULL);
		/* The shell's child is nobody's to wait for: SIGKILL takes its moment. */
		for (int k = 0; k < 5000 && i == 5 && is_running(read_pid()); k++)
			sleep_ms(1);
		cr_assert(!is_running(read_pid()), "row %zu", i);
		cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
		cr_assert_eq(counter_sum(COUNT_programs_killed), killed + 1);
		cr_assert_eq(counter_sum(COUNT_programs_running), 0);
		run_release(&r);
	}
}

Test(relay_cgi, cancelled_program_is_gone)
{
	static const char *const programs[] = {
		SH "echo $$ >pid; sleep 99",
		SH "echo $$ >pid\n" HEAD "echo part; exec sleep 99",
		SH "echo $$ >pid; trap '' TERM\n" HEAD "sleep 99; sleep 99",
	};

	for (size_t i = 0; i < COUNT_OF(programs); i++) {
		struct run r;

		int64_t began = clock_mono_us();

		prepare(&r, programs[i], "REQUEST_METHOD=GET");
		/* Only the last one lets it come to that. */
		r.backend.kill_grace_ms = i == 2 ? 100 : 20000;
		r.cancel_after_ms = 600;
		r.cancel_in_body = i == 1;
		run(&r);
		cr_assert_eq(r.ends, 0);
		cr_assert(!is_running(read_pid()));
		cr_assert_lt(clock_mono_us() - began, 10 * US_PER_S);
		cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
		run_release(&r);
	}
}

Test(relay_cgi, cancelled_before_it_began_starts_nothing)
{
	struct run r;

	prepare(&r, SH "echo >started\n" HEAD, "REQUEST_METHOD=GET");
	r.cancel_at_once = true;
	run(&r);
	cr_assert_eq(r.ends, 0);
	cr_assert_eq(counter_sum(COUNT_programs_started), 0);
	run_release(&r);
}

Test(relay_cgi, slow_reader_gets_all_of_it)
{
	struct run r;

	prepare(&r, SH HEAD "head -c 2000000 /dev/zero | tr '\\0' x", "REQUEST_METHOD=GET");
	r.pause_ms = 3;
	run_expect(&r, RELAY_WHOLE, 200, NULL);
	cr_assert_eq(r.answer.n, 2000000);
	run_release(&r);
}

Test(relay_cgi, end_of_the_program_waits_for_a_slow_reader)
{
	clock_t began = clock();
	struct run r;

	/* It is gone long before its output is read. */
	prepare(&r, SH HEAD "printf 'Y%.0s' 1 2 3; head -c 60000 /dev/zero | tr '\\0' x",
		"REQUEST_METHOD=GET");
	r.pause_ms = 700;
	run_expect(&r, RELAY_WHOLE, 200, NULL);
	cr_assert_eq(r.answer.n, 60003);
	cr_assert_lt(clock() - began, CLOCKS_PER_SEC / 10, "waiting costs time");
	run_release(&r);
}

Test(relay_cgi, too_few_descriptors_are_survived)
{
	struct run runs[40];
	struct rlimit old, few;
	size_t whole = 0;
	int before, after;

	before = dup(0);
	close(before);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		prepare(&runs[i], SH HEAD "exec cat", "REQUEST_METHOD=POST");
		run_body(&runs[i], VIEW("hello"));
	}
	getrlimit(RLIMIT_NOFILE, &old);
	few = (struct rlimit){ (rlim_t)before + 30, old.rlim_max };
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	run_all(runs, COUNT_OF(runs));
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		whole += runs[i].how == RELAY_WHOLE;
		cr_assert(runs[i].how == RELAY_WHOLE || runs[i].how == RELAY_FAILED,
			"end %d (%s)", (int)runs[i].how, runs[i].why);
		run_release(&runs[i]);
	}
	cr_assert(whole > 0 && whole < COUNT_OF(runs), "%zu were answered", whole);
	after = dup(0);
	close(after);
	cr_assert_eq(after, before);
	cr_assert_eq(counter_sum(COUNT_programs_running), 0);
	check(SH HEAD "echo ok", RELAY_WHOLE, 200, "ok\n");
}

Test(relay_cgi, programs_that_somebody_else_reaps_are_noticed)
{
	signal(SIGCHLD, SIG_IGN);
	check(SH HEAD "echo ok", RELAY_WHOLE, 200, "ok\n");
	cr_assert_eq(counter_sum(COUNT_programs_running), 0);
}

Test(relay_cgi, many_at_once_leave_nothing_behind)
{
	struct run runs[40];
	int before, after;
	size_t refused = 0;

	before = dup(0);
	close(before);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		prepare(&runs[i], SH HEAD "exec cat", "REQUEST_METHOD=POST");
		run_body(&runs[i], VIEW("hello"));
		runs[i].backend.max_programs = 30;
	}
	run_all(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		if (runs[i].how == RELAY_CROWDED)
			refused++;
		else
			cr_assert(runs[i].how == RELAY_WHOLE &&
				view_eq(buf_view(&runs[i].answer), VIEW("hello")));
		run_release(&runs[i]);
	}
	cr_assert_eq(refused, 10);
	after = dup(0);
	close(after);
	cr_assert_eq(after, before);
	cr_assert_eq(counter_sum(COUNT_programs_running), 0);
	cr_assert_eq(waitpid(-1, NULL, WNOHANG), -1, "a child is left");
	/* All places are free again. */
	prepare(&runs[0], SH HEAD "echo ok", "REQUEST_METHOD=GET");
	runs[0].backend.max_programs = 1;
	run_expect(&runs[0], RELAY_WHOLE, 200, "ok\n");
	run_release(&runs[0]);
}
