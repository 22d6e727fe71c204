/*
 * fcgi_load.c - puts a FastCGI application under load and says how it did.
 *
 *	fcgi_load [-c CONNECTIONS] [-n REQUESTS] [-k] [-u URI] [-b BODY_BYTES]
 *	          [-a CLIENTS] [-s SCRIPT_FILENAME] [-t SECONDS] ADDRESS
 *
 * ADDRESS is unix:/path or tcp:host:port. CONNECTIONS are open at a time (64), each
 * with one request under way, until REQUESTS (10000) are answered; -k keeps them for
 * the next request. Requests come from CLIENTS (1) different addresses in turn. What
 * is not answered after SECONDS (60) has failed. Prints one JSON object:
 *
 *	{"requests":10000,"failed":0,"seconds":0.5,"requests_per_second":20000.0,
 *	 "latency_ms":{"p50":2.9,"p90":4.1,"p99":6.0,"max":9.3},"status":{"200":10000}}
 *
 * Exits with 1 when any request failed. One thread and one epoll set; a connection
 * costs its struct and, while its answer comes, the few bytes that hold the status.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "fastcgi/pairs.h"

#define STATUS_MAX 600

struct conn {
	int fd; /* -1: to be connected */
	struct record_reader reader;
	struct buf request;
	size_t sent;
	char head[16]; /* "Status: 200" */
	size_t head_n;
	int64_t began_us;
	bool busy;
};

static struct {
	size_t connections, requests, body_bytes, clients;
	bool keep;
	int64_t patience_us;
	const char *uri, *script;
	struct net_addr addr;
} options = { .connections = 64,
	.requests = 10000,
	.clients = 1,
	.patience_us = 60 * US_PER_S,
	.uri = "/" };

static struct {
	int epoll;
	size_t started, finished, failed;
	int64_t *latencies_us;
	size_t n_latencies;
	size_t status[STATUS_MAX];
} load;

static void pair(struct buf *b, const char *name, const char *value)
{
	pairs_put(b, view_str(name), view_str(value));
}

static void compose(struct conn *c)
{
	const char *query = strchr(options.uri, '?');
	unsigned client = (unsigned)(load.started % options.clients);
	struct buf pairs = { 0 }, body = { 0 };
	char number[32];

	buf_reset(&c->request);
	pair(&pairs, "REQUEST_METHOD", options.body_bytes ? "POST" : "GET");
	pair(&pairs, "REQUEST_URI", options.uri);
	pairs_put(&pairs, VIEW("SCRIPT_NAME"),
		view_of(options.uri,
			query ? (size_t)(query - options.uri) : strlen(options.uri)));
	pair(&pairs, "QUERY_STRING", query ? query + 1 : "");
	if (options.script)
		pair(&pairs, "SCRIPT_FILENAME", options.script);
	snprintf(number, sizeof(number), "%zu", options.body_bytes);
	pair(&pairs, "CONTENT_LENGTH", number);
	snprintf(number, sizeof(number), "10.%u.%u.%u", client >> 16 & 255,
		client >> 8 & 255, client & 255);
	pair(&pairs, "REMOTE_ADDR", number);
	pair(&pairs, "SERVER_PROTOCOL", "HTTP/1.1");
	record_put_begin(&c->request, 1, FCGI_RESPONDER, options.keep ? FCGI_KEEP_CONN : 0);
	pairs_put_params(&c->request, 1, buf_view(&pairs));
	while (body.n < options.body_bytes)
		buf_add_byte(&body, 'x');
	record_put_stream(&c->request, FCGI_STDIN, 1, buf_view(&body));
	record_end_stream(&c->request, FCGI_STDIN, 1);
	buf_release(&pairs);
	buf_release(&body);
	if (!buf_ok(&c->request)) {
		fputs("fcgi_load: out of memory\n", stderr);
		exit(2);
	}
}

static void conn_close(struct conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->reader = (struct record_reader){ 0 };
}

/* False when it has to be tried again: a full backlog of a unix socket. */
static bool conn_open(struct conn *c)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c };

	c->fd = socket(
		options.addr.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return false;
	if (connect(c->fd, (struct sockaddr *)&options.addr.ss, options.addr.len) < 0 &&
		errno != EINPROGRESS) {
		conn_close(c);
		return false;
	}
	epoll_ctl(load.epoll, EPOLL_CTL_ADD, c->fd, &e);
	return true;
}

static void request_ended(struct conn *c, bool answered)
{
	unsigned status = 200;

	if (answered) {
		sscanf(c->head, "Status: %3u", &status);
		load.status[status < STATUS_MAX ? status : 0]++;
		load.latencies_us[load.n_latencies++] = clock_mono_us() - c->began_us;
	} else {
		load.failed++;
	}
	load.finished++;
	c->busy = false;
	if (!answered || !options.keep)
		conn_close(c);
}

static void send_more(struct conn *c)
{
	while (c->busy && c->sent < c->request.n) {
		ssize_t n = send(c->fd, c->request.p + c->sent, c->request.n - c->sent,
			MSG_NOSIGNAL);

		if (n < 0)
			return; /* a connection that is gone shows when it is read */
		c->sent += (size_t)n;
	}
}

/* Begins the next request, if any is left. */
static void conn_next(struct conn *c)
{
	if (c->busy || load.started == options.requests)
		return;
	if (c->began_us == 0)
		c->began_us = clock_mono_us();
	if (c->fd < 0 && !conn_open(c))
		return;
	compose(c);
	load.started++;
	c->busy = true;
	c->sent = c->head_n = 0;
	send_more(c);
}

static void take(struct conn *c, struct view in)
{
	struct view content;

	for (;;) {
		switch (record_next(&c->reader, &in, &content)) {
		case RECORD_CONTENT:
			if (c->reader.type != FCGI_STDOUT)
				break;
			while (content.n && c->head_n + 1 < sizeof(c->head)) {
				c->head[c->head_n++] = *content.p;
				content = view_skip(content, 1);
			}
			c->head[c->head_n] = '\0';
			break;
		case RECORD_ENDS:
			if (c->reader.type == FCGI_END_REQUEST && c->busy)
				request_ended(c, true);
			break;
		case RECORD_BEGINS: break;
		case RECORD_MORE: return;
		case RECORD_BAD: request_ended(c, false); return;
		}
		if (!c->busy)
			return;
	}
}

static void conn_event(struct conn *c)
{
	static char chunk[65536];
	ssize_t n;

	send_more(c);
	while (c->fd >= 0 && (n = read(c->fd, chunk, sizeof(chunk))) != -1) {
		if (n > 0 && c->busy) {
			take(c, view_of(chunk, (size_t)n));
			continue;
		}
		if (c->busy)
			request_ended(c, false);
		conn_close(c);
	}
	if (c->fd >= 0 && errno != EAGAIN && c->busy)
		request_ended(c, false);
	if (!c->busy)
		c->began_us = 0;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static double percentile_ms(double part)
{
	size_t at = (size_t)(part * (double)load.n_latencies);

	if (load.n_latencies == 0)
		return 0;
	at = at < load.n_latencies ? at : load.n_latencies - 1;
	return (double)load.latencies_us[at] / 1000;
}

static void report(double seconds)
{
	const char *comma = "";

	qsort(load.latencies_us, load.n_latencies, sizeof(int64_t), by_value);
	printf("{\"requests\":%zu,\"failed\":%zu,\"seconds\":%.3f,\"requests_per_second\":%"
	       ".1f,"
	       "\"latency_ms\":{\"p50\":%.2f,\"p90\":%.2f,\"p99\":%.2f,\"max\":%.2f},"
	       "\"status\":{",
		load.finished, load.failed, seconds,
		(double)load.n_latencies / (seconds > 0 ? seconds : 1), percentile_ms(0.5),
		percentile_ms(0.9), percentile_ms(0.99), percentile_ms(1));
	for (unsigned i = 0; i < STATUS_MAX; i++) {
		if (!load.status[i])
			continue;
		printf("%s\"%u\":%zu", comma, i, load.status[i]);
		comma = ",";
	}
	puts("}}");
}

static void run(struct conn *conns)
{
	struct epoll_event events[256];
	int64_t began_us = clock_mono_us();

	while (load.finished < options.requests) {
		int n;

		for (size_t i = 0; i < options.connections; i++)
			conn_next(&conns[i]);
		n = epoll_wait(load.epoll, events, COUNT_OF(events), 2);
		for (int i = 0; i < n; i++)
			conn_event(events[i].data.ptr);
		if (clock_mono_us() - began_us > options.patience_us) {
			load.failed += options.requests - load.finished;
			load.finished = options.requests;
		}
	}
	report((double)(clock_mono_us() - began_us) / (double)US_PER_S);
}

static void raise_nofile(size_t n)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < n + 16)
		fprintf(stderr, "fcgi_load: only %llu open files are allowed\n",
			(unsigned long long)limit.rlim_cur);
}

static size_t number(const char *arg)
{
	char *end;
	unsigned long long n = strtoull(arg, &end, 10);

	if (*end || n == 0) {
		fprintf(stderr, "fcgi_load: %s is not a number above 0\n", arg);
		exit(2);
	}
	return (size_t)n;
}

static void read_options(int argc, char **argv)
{
	struct buf why = { 0 };
	int opt;

	while ((opt = getopt(argc, argv, "c:n:ku:b:a:s:t:")) != -1) {
		switch (opt) {
		case 'c': options.connections = number(optarg); break;
		case 'n': options.requests = number(optarg); break;
		case 'k': options.keep = true; break;
		case 'u': options.uri = optarg; break;
		case 'b': options.body_bytes = number(optarg); break;
		case 'a': options.clients = number(optarg); break;
		case 's': options.script = optarg; break;
		case 't': options.patience_us = (int64_t)number(optarg) * US_PER_S; break;
		default: optind = argc + 1;
		}
	}
	if (optind + 1 != argc) {
		fputs("usage: fcgi_load [-c CONNECTIONS] [-n REQUESTS] [-k] [-u URI] "
		      "[-b BODY_BYTES] [-a CLIENTS] [-s SCRIPT_FILENAME] [-t SECONDS] "
		      "ADDRESS\n",
			stderr);
		exit(2);
	}
	if (!net_addr_parse(view_str(argv[optind]), &options.addr, &why)) {
		fprintf(stderr, "fcgi_load: %s: %s\n", argv[optind], buf_str(&why));
		exit(2);
	}
	buf_release(&why);
}

int main(int argc, char **argv)
{
	struct conn *conns;

	read_options(argc, argv);
	if (options.connections > options.requests)
		options.connections = options.requests;
	raise_nofile(options.connections);
	load.epoll = epoll_create1(EPOLL_CLOEXEC);
	load.latencies_us = calloc(options.requests, sizeof(int64_t));
	conns = calloc(options.connections, sizeof(*conns));
	if (load.epoll < 0 || !load.latencies_us || !conns) {
		fputs("fcgi_load: out of memory\n", stderr);
		return 2;
	}
	for (size_t i = 0; i < options.connections; i++)
		conns[i].fd = -1;
	run(conns);
	for (size_t i = 0; i < options.connections; i++) {
		conn_close(&conns[i]);
		buf_release(&conns[i].request);
	}
	free(conns);
	free(load.latencies_us);
	return load.failed ? 1 : 0;
}
