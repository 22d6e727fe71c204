/* Log lines: whatever a peer sends, a line stays one line that can be read back. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static void check_line(const char *event, const struct log_field *fields, const char *want)
{
	char line[LOG_LINE_MAX];
	size_t n = log_format(line, sizeof(line), event, fields);

	cr_assert(view_eq(view_of(line, n), view_str(want)), "got  %.*s\nwant %s", (int)n,
		line, want);
}

Test(log, an_event_and_its_fields_are_pairs)
{
	check_line("backend is down",
		(const struct log_field[]){
			LOG_STR("backend", "php"), LOG_INT("error", -111), { 0 } },
		"event=\"backend is down\" backend=php error=-111");
	check_line("start", (const struct log_field[]){ { 0 } }, "event=start");
}

Test(log, what_could_break_a_line_is_quoted_and_escaped)
{
	static const struct {
		struct view value;
		const char *want;
	} rows[] = {
		{ VIEW("plain/value:1"), "event=e v=plain/value:1" },
		{ VIEW(""), "event=e v=\"\"" },
		{ VIEW("two words"), "event=e v=\"two words\"" },
		{ VIEW("a=b"), "event=e v=\"a=b\"" },
		{ VIEW("a\"b"), "event=e v=\"a\\\"b\"" },
		{ VIEW("a\\b"), "event=e v=\"a\\\\b\"" },
		{ VIEW("x\nlevel=error event=forged"),
			"event=e v=\"x\\x0alevel=error event=forged\"" },
		{ VIEW("\r\t\x1b[2J"), "event=e v=\"\\x0d\\x09\\x1b[2J\"" },
		{ VIEW("a\0b"), "event=e v=\"a\\x00b\"" },
		{ VIEW("\x7f"), "event=e v=\"\\x7f\"" },
		{ VIEW("\xe8\xb0\x83"), "event=e v=\"\\xe8\\xb0\\x83\"" },
		{ VIEW("\xff"), "event=e v=\"\\xff\"" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		check_line("e",
			(const struct log_field[]){ LOG_VIEW("v", rows[i].value), { 0 } },
			rows[i].want);
}

Test(log, every_byte_stays_printable)
{
	char line[LOG_LINE_MAX], all[256];
	size_t n;

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	n = log_format(line, sizeof(line), "e",
		(const struct log_field[]){ LOG_VIEW("v", view_of(all, 256)), { 0 } });
	for (size_t i = 0; i < n; i++)
		cr_assert(line[i] >= ' ' && line[i] < 0x7f, "byte %zu is %02x", i,
			(unsigned char)line[i]);
}

Test(log, numbers_keep_their_range)
{
	check_line("e",
		(const struct log_field[]){
			LOG_INT("a", INT64_MAX), LOG_INT("b", INT64_MIN), { 0 } },
		"event=e a=9223372036854775807 b=-9223372036854775808");
}

Test(log, a_line_ends_at_the_size_it_is_given)
{
	static char value[4096];
	char line[64];

	memset(line, 'z', sizeof(line));
	memset(value, 'x', sizeof(value) - 1);
	cr_assert_eq(log_format(line, 20, "e",
			     (const struct log_field[]){ LOG_STR("v", value), { 0 } }),
		20);
	cr_assert(view_eq(view_of(line, 20), VIEW("event=e v=xxxxxxxxxx")));
	cr_assert_eq(line[20], 'z', "nothing is written behind the end");
	cr_assert_eq(log_format(line, 0, "e", (const struct log_field[]){ { 0 } }), 0);
}

/* What log_write() puts on a descriptor: a pipe here. */
static size_t written_line(char *out, size_t cap, const char *value)
{
	ssize_t n;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	log_open(fds[1], LOG_LEVEL_NOTICE);
	log_warn("e", LOG_STR("v", value));
	log_info("not wanted at this level", LOG_STR("v", value));
	close(fds[1]);
	n = read(fds[0], out, cap);
	close(fds[0]);
	log_open(2, LOG_LEVEL_NOTICE);
	cr_assert_gt(n, 0);
	return (size_t)n;
}

Test(log, a_line_has_time_and_level_and_less_urgent_ones_are_left_out)
{
	char line[LOG_LINE_MAX * 2];
	size_t n = written_line(line, sizeof(line), "x");
	int year, month, day, hour, minute, second, ms, end = 0;

	line[n] = '\0';
	sscanf(line, "time=%4d-%2d-%2dT%2d:%2d:%2d.%3dZ level=warning event=e v=x\n%n",
		&year, &month, &day, &hour, &minute, &second, &ms, &end);
	cr_assert_eq((size_t)end, n, "got: %s", line);
}

Test(log, a_line_too_long_is_cut_and_still_ends_with_a_newline)
{
	static char value[2 * LOG_LINE_MAX];
	char line[2 * LOG_LINE_MAX];
	size_t n;

	memset(value, 'x', sizeof(value) - 1);
	n = written_line(line, sizeof(line), value);
	cr_assert_eq(n, LOG_LINE_MAX);
	cr_assert_eq(line[n - 1], '\n');
	cr_assert_null(memchr(line, '\n', n - 1));
}

/* In place of the C library's: what it says is old by the time the caller has it. */
static const struct timespec a_moment = { .tv_nsec = 2000000 };
static atomic_bool poll_is_slow;

/* Another process that writes to the same pipe, as soon as poll() has seen room there. */
static _Atomic int fill_fd = -1; /* the pipe; -1 once it is full */
static size_t filled;            /* bytes, before that */

static void fill(void)
{
	static const char page[4096];
	ssize_t n;

	while ((n = write(fill_fd, page, sizeof(page))) > 0)
		filled += (size_t)n;
	close(fill_fd);
	fill_fd = -1;
}

int poll(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec wait = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
	int got = (int)syscall(SYS_ppoll, fds, n, ms < 0 ? NULL : &wait, NULL, 0);

	if (poll_is_slow)
		nanosleep(&a_moment, NULL);
	if (fill_fd >= 0)
		fill();
	return got;
}

enum {
	LINES = 10 /* of each thread */
};

static void *write_lines(void *value)
{
	for (int i = 0; i < LINES; i++)
		log_warn("e", LOG_STR("v", value));
	return NULL;
}

/* What is in the pipe. */
static size_t read_lines(int fd, char *out, size_t cap)
{
	ssize_t n = read(fd, out, cap - 1);
	size_t lines = 0;

	cr_assert_gt(n, 0);
	out[n] = '\0';
	for (const char *at = out; (at = strchr(at, '\n')); at++)
		lines++;
	return lines;
}

Test(log, threads_whose_log_nobody_reads_drop_lines_and_never_wait, .timeout = 60)
{
	enum {
		THREADS = 8,
		PAGES = 2
	};
	const char *dropped = "event=\"log lines dropped\" lines=";
	static char value[LOG_LINE_MAX], got[PAGES * 65536 + 1];
	pthread_t threads[THREADS];
	size_t written;
	int fds[2];

	memset(value, 'x', sizeof(value) - 1);
	cr_assert_eq(pipe(fds), 0);
	cr_assert(fcntl(fds[1], F_SETPIPE_SZ, PAGES * sysconf(_SC_PAGESIZE)) > 0);
	log_open(fds[1], LOG_LEVEL_NOTICE);
	poll_is_slow = true;
	for (int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, write_lines, value), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	poll_is_slow = false;
	written = read_lines(fds[0], got, sizeof(got));
	cr_assert_lt(written, THREADS * LINES);
	cr_assert_null(strstr(got, dropped), "there is no room to say it");
	log_warn("short");
	cr_assert_eq(read_lines(fds[0], got, sizeof(got)), 2, "%s", got);
	cr_assert_not_null(strstr(got, dropped));
	cr_assert_eq(strtoul(strstr(got, dropped) + strlen(dropped), NULL, 10),
		THREADS * LINES - written, "%s", got);
	log_open(2, LOG_LEVEL_NOTICE);
	close(fds[0]);
	close(fds[1]);
}

static void *write_one(void *value)
{
	log_warn("e", LOG_STR("v", value));
	return NULL;
}

static void read_filler(int fd)
{
	char got[4096];

	while (filled) {
		ssize_t n = read(fd, got, filled < sizeof(got) ? filled : sizeof(got));

		cr_assert_gt(n, 0);
		filled -= (size_t)n;
	}
}

Test(log, while_a_write_hangs_other_threads_drop_their_lines_and_go_on, .timeout = 60)
{
	static char hangs[] = "hanging";
	char got[65536], name[64];
	pthread_t hanging;
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	log_open(fds[1], LOG_LEVEL_NOTICE);
	/* Opened anew, so that the log's own end still waits for room. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fds[1]);
	fill_fd = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	cr_assert_geq(fill_fd, 0);
	cr_assert_eq(pthread_create(&hanging, NULL, write_one, hangs), 0);
	while (fill_fd >= 0)
		nanosleep(&a_moment, NULL);
	/* Nobody reads, so a line that waited would wait for ever. */
	for (int i = 0; i < 3; i++)
		log_warn("e", LOG_STR("v", "meanwhile"));
	read_filler(fds[0]);
	pthread_join(hanging, NULL);
	log_warn("e", LOG_STR("v", "later"));
	cr_assert_eq(read_lines(fds[0], got, sizeof(got)), 3, "%s", got);
	cr_assert_not_null(strstr(got, "v=hanging\n"), "%s", got);
	cr_assert_not_null(strstr(got, "event=\"log lines dropped\" lines=3\n"), "%s", got);
	cr_assert_not_null(strstr(got, "v=later\n"), "%s", got);
	cr_assert_null(strstr(got, "meanwhile"), "%s", got);
	log_open(2, LOG_LEVEL_NOTICE);
	close(fds[0]);
	close(fds[1]);
}

Test(log, what_peers_provoke_is_let_through_once_a_minute_and_counted)
{
	static const struct {
		int64_t at_us;
		bool open;
		uint64_t missed;
	} rows[] = {
		{ 5 * US_PER_S, true, 0 },
		{ 5 * US_PER_S, false, 0 },
		{ 64 * US_PER_S, false, 0 },
		{ 65 * US_PER_S - 1, false, 0 },
		{ 65 * US_PER_S, true, 3 },
		{ 125 * US_PER_S, true, 0 },
		{ 126 * US_PER_S, false, 0 },
		{ 1000 * US_PER_S, true, 1 },
	};
	struct log_gate gate = { 0 };

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t missed = 4711;

		cr_assert_eq(log_gate_open(&gate, rows[i].at_us, &missed), rows[i].open,
			"row %zu", i);
		if (rows[i].open)
			cr_assert_eq(missed, rows[i].missed, "row %zu", i);
	}
}
