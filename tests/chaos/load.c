/*
 * load.c - the same load all the time, whatever breaks, and a line about each request.
 *
 *	load [-t SECONDS] -u 'RATE URI [SCRIPT_FILENAME]' ... NAME=ADDRESS ...
 *
 * ADDRESS is unix:/path or tcp:host:port. Each -u is a stream: RATE requests a second to
 * each ADDRESS, sent when they are due and not when others have been answered, each on a
 * connection of its own. "{n}" in the URI becomes the request's number, from 1. What is
 * not answered after SECONDS (60) is given up. A line "phase WORD" on standard input
 * names what goes on from then on; it is sent as the field X-Phase. At its end no more
 * requests are sent, and load ends with the last answer.
 *
 * A request that is over is a line of words:
 *
 *	BEGAN_US TOOK_US NAME STREAM NUMBER PHASE STATUS CODE BYTES HOW
 *
 * BEGAN_US is of the monotonic clock, STREAM the number of the -u from 0, CODE what JSON
 * answers of weir hold as "code" (0: none), BYTES those of the whole answer, and HOW
 *
 *	whole    answered
 *	cut      the connection ended before the answer did
 *	late     given up
 *	refused  nobody took the connection
 *
 * One thread and one epoll set.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "fastcgi/pairs.h"

#define STREAMS_MAX 32
#define TARGETS_MAX 8
#define FLUSH_US    (20 * US_PER_MS)
/* Who could not send for so long does not make up for it. */
#define BEHIND_MAX_US (50 * US_PER_MS)
/* A unix socket whose queue is full says so at once. */
#define AGAIN_US US_PER_MS

struct request {
	struct request *next, **link; /* all that are under way, the youngest first */
	int fd;                       /* -1: to be connected */
	unsigned target, stream;
	uint64_t number;
	char phase[32];
	int64_t began_us;
	struct record_reader reader;
	struct buf bytes;
	size_t sent;
	char head[768]; /* the first bytes of the answer */
	size_t head_n, answer_n;
	bool ended;
};

static struct {
	const char *uri, *script;
	int64_t interval_us;
} streams[STREAMS_MAX];
static unsigned n_streams;

static struct {
	const char *name;
	struct net_addr addr;
	int64_t next_us[STREAMS_MAX];
} targets[TARGETS_MAX];
static unsigned n_targets;

static int64_t patience_us = 60 * US_PER_S;
static int epoll;
static struct request *under_way;
static unsigned waiting; /* of those, for a connection */
static uint64_t numbers;
static char phase[32] = "-";

static void die(const char *what)
{
	fprintf(stderr, "load: %s\n", what);
	exit(2);
}

/*
 * One request
 */

static void pair(struct buf *b, const char *name, struct view value)
{
	pairs_put(b, view_str(name), value);
}

static void put_uri(struct buf *b, const char *uri, uint64_t number)
{
	const char *mark = strstr(uri, "{n}");

	if (!mark) {
		buf_add_str(b, uri);
		return;
	}
	buf_add(b, view_of(uri, (size_t)(mark - uri)));
	buf_addf(b, "%llu%s", (unsigned long long)number, mark + 3);
}

static void compose(struct request *r)
{
	struct buf pairs = { 0 }, uri = { 0 };
	struct view path, query;

	put_uri(&uri, streams[r->stream].uri, r->number);
	query = buf_view(&uri);
	path = view_cut(&query, '?');
	pair(&pairs, "REQUEST_METHOD", VIEW("GET"));
	pair(&pairs, "REQUEST_URI", buf_view(&uri));
	pair(&pairs, "SCRIPT_NAME", path);
	pair(&pairs, "QUERY_STRING", query);
	if (streams[r->stream].script)
		pair(&pairs, "SCRIPT_FILENAME", view_str(streams[r->stream].script));
	pair(&pairs, "REMOTE_ADDR", VIEW("192.0.2.1"));
	pair(&pairs, "SERVER_PROTOCOL", VIEW("HTTP/1.1"));
	pair(&pairs, "HTTP_X_PHASE", view_str(r->phase));
	record_put_begin(&r->bytes, 1, FCGI_RESPONDER, 0);
	pairs_put_params(&r->bytes, 1, buf_view(&pairs));
	record_end_stream(&r->bytes, FCGI_STDIN, 1);
	if (!buf_ok(&r->bytes) || !buf_ok(&uri))
		die("out of memory");
	buf_release(&pairs);
	buf_release(&uri);
}

static int status_of(const struct request *r)
{
	int status = 200;

	if (r->head_n)
		sscanf(r->head, "Status: %3d", &status);
	else
		status = 0;
	return status;
}

static long code_of(const struct request *r)
{
	const char *mark = strstr(r->head, "\"code\":");

	return mark ? strtol(mark + 7, NULL, 10) : 0;
}

static void request_over(struct request *r, const char *how)
{
	printf("%lld %lld %s %u %llu %s %d %ld %zu %s\n", (long long)r->began_us,
		(long long)(clock_mono_us() - r->began_us), targets[r->target].name,
		r->stream, (unsigned long long)r->number, r->phase, status_of(r),
		code_of(r), r->answer_n, how);
	if (r->fd >= 0)
		close(r->fd);
	else
		waiting--;
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	buf_release(&r->bytes);
	free(r);
}

static void send_more(struct request *r)
{
	while (r->sent < r->bytes.n) {
		ssize_t n = send(
			r->fd, r->bytes.p + r->sent, r->bytes.n - r->sent, MSG_NOSIGNAL);

		if (n < 0)
			return; /* a connection that is gone shows when it is read */
		r->sent += (size_t)n;
	}
}

/* False when it is over. */
static bool request_connect(struct request *r)
{
	const struct net_addr *to = &targets[r->target].addr;
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = r };
	int fd = socket(to->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		die("no more descriptors");
	if (connect(fd, (const struct sockaddr *)&to->ss, to->len) < 0 &&
		errno != EINPROGRESS) {
		bool again = errno == EAGAIN;

		close(fd);
		if (!again)
			request_over(r, "refused");
		return again;
	}
	r->fd = fd;
	waiting--;
	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
	send_more(r);
	return true;
}

static void request_begin(unsigned target, unsigned stream)
{
	struct request *r = calloc(1, sizeof(*r));

	if (!r)
		die("out of memory");
	r->fd = -1;
	r->target = target;
	r->stream = stream;
	r->number = ++numbers;
	memcpy(r->phase, phase, sizeof(phase));
	r->next = under_way;
	r->link = &under_way;
	if (under_way)
		under_way->link = &r->next;
	under_way = r;
	waiting++;
	compose(r);
	r->began_us = clock_mono_us();
	request_connect(r);
}

/* Reads records; false when they make no sense. */
static bool take(struct request *r, struct view in)
{
	struct view content;

	for (;;) {
		switch (record_next(&r->reader, &in, &content)) {
		case RECORD_CONTENT:
			if (r->reader.type != FCGI_STDOUT)
				break;
			r->answer_n += content.n;
			while (content.n && r->head_n + 1 < sizeof(r->head)) {
				r->head[r->head_n++] = *content.p;
				content = view_skip(content, 1);
			}
			break;
		case RECORD_ENDS:
			if (r->reader.type == FCGI_END_REQUEST)
				r->ended = true;
			break;
		case RECORD_BEGINS: break;
		case RECORD_MORE: return true;
		case RECORD_BAD: return false;
		}
	}
}

static void request_event(struct request *r)
{
	static char chunk[65536];
	ssize_t n;

	send_more(r);
	for (;;) {
		n = read(r->fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || !take(r, view_of(chunk, (size_t)n))) {
			request_over(r, n < 0 && errno == ECONNREFUSED ? "refused" : "cut");
			return;
		}
		if (r->ended) {
			request_over(r, "whole");
			return;
		}
	}
}

/*
 * All of them
 */

/* What waits for a connection is tried again, what waits too long is given up. */
static void look_after(int64_t now_us)
{
	struct request *r, *next;

	for (r = under_way; r; r = next) {
		next = r->next;
		if (now_us - r->began_us > patience_us)
			request_over(r, "late");
		else if (r->fd < 0)
			request_connect(r);
	}
}

/* Sends what is due; when the next is. */
static int64_t send_due(int64_t now_us)
{
	int64_t first_us = INT64_MAX;

	for (unsigned t = 0; t < n_targets; t++) {
		for (unsigned s = 0; s < n_streams; s++) {
			int64_t *next_us = &targets[t].next_us[s];

			if (*next_us < now_us - BEHIND_MAX_US)
				*next_us = now_us;
			for (; *next_us <= now_us; *next_us += streams[s].interval_us)
				request_begin(t, s);
			if (*next_us < first_us)
				first_us = *next_us;
		}
	}
	return first_us;
}

/* Lines of standard input; false at its end. */
static bool read_orders(void)
{
	static char line[128];
	static size_t n;
	ssize_t got = read(STDIN_FILENO, line + n, sizeof(line) - n - 1);
	char *end;

	if (got <= 0)
		return false;
	n += (size_t)got;
	line[n] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end++ = '\0';
		if (sscanf(line, "phase %31s", phase) != 1)
			die("write: phase WORD");
		n -= (size_t)(end - line);
		memmove(line, end, n + 1);
	}
	if (n + 1 == sizeof(line))
		die("a line is too long");
	return true;
}

/* Streams begin one after the other, so that their requests do not come in heaps. */
static void spread(int64_t now_us)
{
	for (unsigned t = 0; t < n_targets; t++)
		for (unsigned s = 0; s < n_streams; s++)
			targets[t].next_us[s] = now_us +
				streams[s].interval_us * (t * n_streams + s) /
					(n_targets * n_streams);
}

static void wait_until(int64_t until_us, bool *asked)
{
	struct epoll_event events[256];
	int64_t left_us = until_us - clock_mono_us();
	struct timespec left = { .tv_nsec = left_us > 0 ? left_us * 1000 : 0 };
	int n = epoll_pwait2(epoll, events, COUNT_OF(events), &left, NULL);

	for (int i = 0; i < n; i++) {
		if (events[i].data.ptr)
			request_event(events[i].data.ptr);
		else
			*asked = true;
	}
}

static void run(void)
{
	int64_t now_us = clock_mono_us(), flush_us = now_us;
	bool sending = true;

	spread(now_us);
	while (sending || under_way) {
		int64_t until_us = now_us + 10 * US_PER_MS, due_us = INT64_MAX;
		bool asked = false;

		if (sending)
			due_us = send_due(now_us);
		if (due_us < until_us)
			until_us = due_us;
		if (waiting && now_us + AGAIN_US < until_us)
			until_us = now_us + AGAIN_US;
		wait_until(until_us, &asked);
		if (asked && !read_orders()) {
			epoll_ctl(epoll, EPOLL_CTL_DEL, STDIN_FILENO, NULL);
			sending = false;
		}
		now_us = clock_mono_us();
		if (now_us < flush_us && !waiting)
			continue;
		look_after(now_us);
		fflush(stdout);
		flush_us = now_us + FLUSH_US;
	}
}

/*
 * The command line
 */

static void add_stream(char *spec)
{
	char *rate = strsep(&spec, " "), *uri = strsep(&spec, " "), *end;
	double a_second = strtod(rate, &end);

	if (n_streams == STREAMS_MAX)
		die("too many streams");
	if (*end || a_second < 0.001 || a_second > 1e6 || !uri || *uri != '/')
		die("a stream is 'RATE /PATH [SCRIPT_FILENAME]'");
	streams[n_streams].interval_us = (int64_t)(1e6 / a_second);
	streams[n_streams].uri = uri;
	streams[n_streams++].script = spec;
}

static void add_target(char *spec)
{
	char *name = strsep(&spec, "=");
	struct buf why = { 0 };

	if (n_targets == TARGETS_MAX)
		die("too many addresses");
	if (!spec)
		die("an address is NAME=unix:/path or NAME=tcp:host:port");
	targets[n_targets].name = name;
	if (!net_addr_parse(view_str(spec), &targets[n_targets++].addr, &why))
		die(buf_str(&why));
	buf_release(&why);
}

int main(int argc, char **argv)
{
	struct epoll_event orders = { .events = EPOLLIN };
	struct rlimit files;
	int opt;

	while ((opt = getopt(argc, argv, "t:u:")) != -1) {
		switch (opt) {
		case 't': patience_us = atoll(optarg) * US_PER_S; break;
		case 'u': add_stream(optarg); break;
		default: optind = argc;
		}
	}
	for (; optind < argc; optind++)
		add_target(argv[optind]);
	if (!n_streams || !n_targets || patience_us <= 0)
		die("usage: load [-t SECONDS] -u 'RATE URI [SCRIPT_FILENAME]' ... "
		    "NAME=ADDRESS ...");
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &orders) < 0)
		die("standard input must be a pipe");
	run();
	return ferror(stdout) ? 2 : 0;
}
