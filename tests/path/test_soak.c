/*
 * test_soak.c - ten thousand requests of every kind among peers and backends that
 * misbehave, and afterwards everything is as it was: descriptors, processes, memory.
 *
 * Clients, a thread each, draw one act after another; each act knows which answers are
 * right, also to what it breaks off. The seed is printed; WEIR_TEST_SEED repeats the
 * acts, though not how they meet. WEIR_SOAK_REQUESTS sets their number, for machines on
 * which ten thousand do not end in time (under sanitizers it is two thousand).
 */
#include "site.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef SANITIZED
#define REQUESTS     2000
#define GROWTH_BYTES (UINT64_C(512) << 20) /* of the sanitizer's, freed memory too */
#else
#define REQUESTS     10000
#define GROWTH_BYTES (UINT64_C(3) << 20)
#endif

#define EMPTY    view_of(NULL, 0)
#define PATIENCE 20000 /* milliseconds, on a busy machine */

enum {
	CLIENTS = 12,
	LIMIT = 100, /* of /limited */
	ABORT_REQUEST = 2,
	STDIN = 5,
	GET_VALUES = 9,
};

struct client {
	pthread_t thread;
	const char *addr;
	uint64_t state; /* of its random numbers */
	unsigned acts, number;
	unsigned done[32]; /* of each act */
	unsigned limited_passed, limited_refused;
	char wrong[256]; /* the first answer that was */
};

/* xorshift64*; below n. */
static size_t any(struct client *c, size_t n)
{
	c->state ^= c->state >> 12;
	c->state ^= c->state << 25;
	c->state ^= c->state >> 27;
	return (size_t)((c->state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % n;
}

static void wrong(struct client *c, const char *what, int status, size_t n)
{
	if (!c->wrong[0])
		snprintf(c->wrong, sizeof(c->wrong),
			"client %u: %s: status %d, %zu bytes came", c->number, what, status,
			n);
}

/* answer_status() is for the main thread only. */
static int status_of(const struct fcgi_answer *a)
{
	return a->out.n > 11 && memcmp(a->out.p, "Status: ", 8) == 0 ? atoi(a->out.p + 8)
								     : 0;
}

static size_t body_of(const struct fcgi_answer *a)
{
	for (size_t i = 0; i + 4 <= a->out.n; i++)
		if (memcmp(a->out.p + i, "\r\n\r\n", 4) == 0)
			return a->out.n - i - 4;
	return 0;
}

/* One request to its end; its status, 0 without a whole answer. */
static int call(struct client *c, const struct fcgi_request *rq, size_t *body)
{
	struct fcgi_answer a;
	bool whole = fcgi_call(c->addr, rq, &a, PATIENCE);
	int status = whole ? status_of(&a) : 0;

	if (body)
		*body = body_of(&a);
	fcgi_answer_release(&a);
	return status;
}

static void expect(struct client *c, const struct fcgi_request *rq, int status)
{
	size_t n;
	int got = call(c, rq, &n);

	if (got != status)
		wrong(c, rq->uri, got, n);
}

/* ---- What goes as it should ---- */

static void get(struct client *c)
{
	expect(c, &(struct fcgi_request){ .uri = "/x?size=3000" }, 200);
}

static void post(struct client *c)
{
	size_t n = 1 + any(c, any(c, 8) ? 4000 : 200000);

	expect(c, &(struct fcgi_request){ .uri = "/x", .pattern_bytes = n }, 200);
}

static void run_program(struct client *c)
{
	size_t n = any(c, 2) ? 0 : 1 + any(c, 100000);

	expect(c, &(struct fcgi_request){ .uri = "/echo", .pattern_bytes = n }, 200);
}

static void be_refused(struct client *c)
{
	size_t n = any(c, 2) ? 0 : 1 + any(c, 300000);

	expect(c, &(struct fcgi_request){ .uri = "/never", .pattern_bytes = n }, 403);
}

static void meet_a_limit(struct client *c)
{
	struct fcgi_request rq = { .uri = "/limited" };
	int status = call(c, &rq, NULL);

	c->limited_passed += status == 200;
	c->limited_refused += status == 429;
	if (status != 200 && status != 429)
		wrong(c, rq.uri, status, 0);
}

static void find_no_program(struct client *c)
{
	expect(c, &(struct fcgi_request){ .uri = "/programs/none" }, 404);
}

static void stay(struct client *c)
{
	static const struct {
		const char *uri;
		int status;
	} asked[] = { { "/x", 200 }, { "/x?status=404", 404 }, { "/never", 403 },
		{ "/y?size=50000", 200 }, { "/echo", 200 } };
	struct fcgi_answer a;
	int fd = dial(c->addr);

	fcgi_answer_init(&a);
	for (unsigned i = 0, n = 2 + (unsigned)any(c, 6); i < n; i++) {
		size_t which = any(c, COUNT_OF(asked));
		struct fcgi_request rq = { .uri = asked[which].uri,
			.keep = true,
			.pattern_bytes = any(c, 3) ? 0 : any(c, 20000) };
		struct buf b = { 0 };

		fcgi_compose(&b, &rq);
		buf_reset(&a.out);
		if (!fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, PATIENCE) ||
			a.ends != i + 1 || status_of(&a) != asked[which].status)
			wrong(c, "kept connection", status_of(&a), a.out.n);
		buf_release(&b);
		/* After a refusal whose body was not awaited it ends. */
		if (c->wrong[0] || a.closed || (which == 2 && rq.pattern_bytes))
			break;
	}
	close(fd);
	fcgi_answer_release(&a);
}

static void authorize(struct client *c)
{
	struct fcgi_request rq = { .uri = any(c, 2) ? "/x" : "/never", .role = 2 };

	expect(c, &rq, rq.uri[1] == 'x' ? 200 : 403);
}

/* ---- Slow ---- */

static void write_slowly(struct client *c)
{
	struct fcgi_request rq = { .uri = "/x", .pattern_bytes = any(c, 30000) };
	struct fcgi_answer a;
	struct buf b = { 0 };
	struct view left;
	int fd = dial(c->addr);

	fcgi_compose(&b, &rq);
	for (left = buf_view(&b); left.n;) {
		size_t n = 1 + any(c, left.n > 4000 ? 4000 : left.n);

		if (!fcgi_send(fd, view_of(left.p, n), PATIENCE))
			break;
		left = view_skip(left, n);
		wait_a_little();
	}
	fcgi_answer_init(&a);
	if (!fcgi_exchange(fd, EMPTY, &a, FCGI_UNTIL_END, PATIENCE) || status_of(&a) != 200)
		wrong(c, "written slowly", status_of(&a), a.out.n);
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

static void read_slowly(struct client *c)
{
	struct fcgi_request rq = { .uri = any(c, 4) ? "/x?size=150000"
						    : "/echo?size=150000" };
	struct buf b = { 0 };
	char bite[32768];
	size_t got = 0;
	ssize_t n;
	int fd = dial(c->addr);

	fcgi_compose(&b, &rq);
	fcgi_send(fd, buf_view(&b), PATIENCE);
	while ((n = recv(fd, bite, 1 + any(c, sizeof(bite)), 0)) > 0) {
		got += (size_t)n;
		wait_a_little();
	}
	if (got < 150000)
		wrong(c, rq.uri, 0, got);
	close(fd);
	buf_release(&b);
}

/* ---- Leaving ---- */

static const char *const busy_uris[] = { "/x?size=500000", "/silent", "/echo?sleep=30",
	"/echo?lines=30", "/never", "/half", "/reset" };

/* Any part of a request, then nothing more. */
static void leave_in_the_middle(struct client *c)
{
	struct fcgi_request rq = { .uri = busy_uris[any(c, COUNT_OF(busy_uris))],
		.pattern_bytes = any(c, 2) ? 0 : any(c, 100000) };
	struct buf b = { 0 };
	int fd = dial(c->addr);

	fcgi_compose(&b, &rq);
	fcgi_send(fd, view_of(b.p, any(c, b.n)), PATIENCE);
	if (any(c, 2))
		shutdown(fd, SHUT_WR);
	close(fd);
	buf_release(&b);
}

static void leave_while_waiting(struct client *c)
{
	struct fcgi_request rq = { .uri = busy_uris[any(c, COUNT_OF(busy_uris))],
		.pattern_bytes = any(c, 2) ? 0 : any(c, 100000),
		.keep = any(c, 2) };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(c->addr);

	fcgi_compose(&b, &rq);
	fcgi_answer_init(&a);
	fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_SOMETHING, (int64_t)any(c, 30));
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

static void abort_politely(struct client *c)
{
	struct fcgi_request rq = { .uri = any(c, 2) ? "/silent" : "/echo?sleep=30",
		.keep = any(c, 2) };
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(c->addr);

	fcgi_compose(&b, &rq);
	fcgi_record(&b, ABORT_REQUEST, 1, EMPTY, 0);
	fcgi_answer_init(&a);
	if (!fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_END, PATIENCE) || a.ends != 1)
		wrong(c, "aborted", status_of(&a), a.out.n);
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

static void talk_nonsense(struct client *c)
{
	char bytes[64];
	struct fcgi_answer a;
	struct buf b = { 0 };
	int fd = dial(c->addr);

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)any(c, 256);
	if (bytes[0] == 1)
		bytes[0] = 2;
	if (any(c, 2)) /* a question, then nonsense behind half a head */
		fcgi_record(&b, GET_VALUES, 0, VIEW("\16\0FCGI_MAX_CONNS"), 0);
	if (any(c, 2))
		fcgi_begin(&b, 1, 1, 1);
	buf_add(&b, view_of(bytes, sizeof(bytes)));
	fcgi_answer_init(&a);
	if (!fcgi_exchange(fd, buf_view(&b), &a, FCGI_UNTIL_CLOSED, PATIENCE) || a.ends)
		wrong(c, "nonsense", status_of(&a), a.out.n);
	close(fd);
	fcgi_answer_release(&a);
	buf_release(&b);
}

/* ---- Backends that die ---- */

/* Before a head there is an answer in their place; after it, none that looks whole. */
static void meet_a_dying_backend(struct client *c)
{
	static const struct {
		const char *uri;
		bool headless;
	} dying[] = { { "/reset", true }, { "/garbage", true }, { "/half", false },
		{ "/echo?die=100", false }, { "/nobody", true } };
	size_t which = any(c, COUNT_OF(dying));
	struct fcgi_request rq = { .uri = dying[which].uri,
		.pattern_bytes = any(c, 2) ? 0 : any(c, 50000) };
	int status = call(c, &rq, NULL);

	if (dying[which].headless ? status < 502 || status > 504 : status != 0)
		wrong(c, rq.uri, status, 0);
}

/* How often of 64. */
static const struct act {
	void (*play)(struct client *c);
	unsigned share;
	const char *name;
} acts[] = {
	{ get, 12, "GET" },
	{ post, 8, "POST" },
	{ run_program, 5, "CGI" },
	{ be_refused, 4, "refused" },
	{ meet_a_limit, 4, "limited" },
	{ find_no_program, 1, "missing" },
	{ stay, 4, "kept" },
	{ authorize, 2, "authorizer" },
	{ write_slowly, 3, "slow writer" },
	{ read_slowly, 3, "slow reader" },
	{ leave_in_the_middle, 5, "half sent" },
	{ leave_while_waiting, 5, "left" },
	{ abort_politely, 2, "aborted" },
	{ talk_nonsense, 2, "nonsense" },
	{ meet_a_dying_backend, 4, "dying backend" },
};

static void *play_all(void *arg)
{
	struct client *c = arg;

	for (unsigned i = 0; i < c->acts && !c->wrong[0]; i++) {
		size_t at = any(c, 64), which = 0;

		while (at >= acts[which].share)
			at -= acts[which++].share;
		acts[which].play(c);
		c->done[which]++;
	}
	return NULL;
}

static void play(struct client *clients, const char *addr, unsigned requests, uint64_t seed)
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct client *c = &clients[i];

		c->addr = addr;
		c->number = i;
		c->acts = requests / CLIENTS + (i < requests % CLIENTS);
		c->state = (seed * CLIENTS + i) * 2 + 1;
		cr_assert_eq(pthread_create(&c->thread, NULL, play_all, c), 0);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(clients[i].thread, NULL);
	for (unsigned i = 0; i < CLIENTS; i++)
		cr_assert(!clients[i].wrong[0], "%s", clients[i].wrong);
}

/* ---- The site ---- */

static const char *scripted(const char *name, const struct backend_script *script)
{
	const char *addr = addr_unix(text("%s.sock", name));

	backend_start(addr, script);
	return text("[backend %s]\nfastcgi = %s\n", name, addr);
}

static struct site *start(void)
{
	static const struct view half = VIEW_INIT("\1\6\0\1\0\36\0\0"
						  "Content-Type: text/plain\r\n\r\nok"),
				 garbage = VIEW_INIT("HTTP/1.1 200 OK\r\n\r\nhello"),
				 nothing;
	static const struct backend_script silent = { .silent = true },
					   reset = { .reset = true,
						   .pieces = &nothing,
						   .n_pieces = 1 },
					   halves = { .pieces = &half, .n_pieces = 1 },
					   nonsense = { .pieces = &garbage, .n_pieces = 1 };

	return site_start(&(struct site_spec){ .no_php = true,
		.echo = 8, /* each serves one request at a time, slow readers too */
		.cgi = "kill_grace = 1s\nmax_programs = 100\n",
		.sections = text("%s%s%s%s[backend nobody]\nfastcgi = unix:/nowhere.sock\n",
			scripted("silent", &silent), scripted("reset", &reset),
			scripted("half", &halves), scripted("garbage", &nonsense)),
		.endpoints = text(
			"[endpoint silent]\nmatch = * /silent\nbackend = silent\n"
			"[endpoint reset]\nmatch = * /reset\nbackend = reset\n"
			"[endpoint half]\nmatch = * /half\nbackend = half\n"
			"[endpoint garbage]\nmatch = * /garbage\nbackend = garbage\n"
			"[endpoint nobody]\nmatch = * /nobody\nbackend = nobody\n"
			"[endpoint programs]\nmatch = * /programs/**\nbackend = cgi\n"
			"[endpoint never]\nmatch = * /never\nbackend = echo\n"
			"@RateLimit = type=ip count=0\n"
			"[endpoint limited]\nmatch = * /limited\nbackend = echo\n"
			"@RateLimit = type=ip count=%d window=1d\n",
			LIMIT) });
}

/* ---- Afterwards ---- */

struct level {
	size_t files;
	uint64_t resident;
};

/* Once all is quiet. */
static struct level level_of(const struct weir *w)
{
	static const char *const gauges[] = { "exchanges_open", "connections_open",
		"programs_running" };

	for (size_t i = 0; i < COUNT_OF(gauges); i++)
		cr_assert(weir_counts(w, gauges[i], 0, PATIENCE), "%s: %ld", gauges[i],
			weir_counter(w, gauges[i]));
	cr_assert(WAIT_UNTIL(PATIENCE, process_children(w->process) == 0));
	return (struct level){ process_files_at_rest(w->process),
		process_resident_bytes(w->process) };
}

static unsigned count(const struct client *clients, size_t which)
{
	unsigned n = 0;

	for (size_t i = 0; i < CLIENTS; i++)
		n += clients[i].done[which];
	return n;
}

Test(soak, leaves_nothing_behind, .timeout = 240)
{
	static struct client clients[CLIENTS];
	const char *seed_text = getenv("WEIR_TEST_SEED"),
		   *requests_text = getenv("WEIR_SOAK_REQUESTS");
	uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : (uint64_t)time(NULL);
	unsigned requests = requests_text ? (unsigned)atoi(requests_text) : REQUESTS;
	unsigned passed = 0, refused = 0;
	struct site *s = start();
	struct weir *w = s->weir;
	struct level before, warm, after;
	int64_t began = now_ms();

	printf("soak: WEIR_TEST_SEED=%llu WEIR_SOAK_REQUESTS=%u\n",
		(unsigned long long)seed, requests);
	fflush(stdout);
	before = level_of(w);
	/* What it needs to work stays: tables, threads, the allocator's own, the descriptor
	 * that libuv holds in reserve from a loop's first connection on. */
	play(clients, s->addr, requests / 5, seed);
	warm = level_of(w);
	play(clients, s->addr, requests - requests / 5, seed + 1);
	after = level_of(w);
	printf("soak: %.1f s;", (double)(now_ms() - began) / 1000);
	for (size_t i = 0; i < COUNT_OF(acts); i++)
		printf(" %s %u%c", acts[i].name, count(clients, i),
			i + 1 < COUNT_OF(acts) ? ',' : '\n');
	printf("soak: resident KiB: %lu at the start, %lu after a fifth, %lu at the end\n",
		before.resident >> 10, warm.resident >> 10, after.resident >> 10);
	for (size_t i = 0; i < CLIENTS; i++) {
		passed += clients[i].limited_passed;
		refused += clients[i].limited_refused;
	}
	cr_assert_eq(passed, passed + refused < LIMIT ? passed + refused : LIMIT,
		"%u passed a limit of %d", passed, LIMIT);
	cr_assert(WAIT_UNTIL(PATIENCE, process_open_files(w->process) <= warm.files),
		"%zu descriptors, %zu after a fifth, %zu at the start",
		process_open_files(w->process), warm.files, before.files);
	cr_assert(under_valgrind() || after.resident < warm.resident + GROWTH_BYTES,
		"resident: %lu, then %lu", warm.resident, after.resident);
	cr_assert_eq(site_get(s, "/x"), 200);
	process_signal(w->process, SIGTERM);
	cr_assert_eq(process_exit(w->process, 10000), 0, "%s", process_log(w->process));
	cr_assert_null(strstr(process_log(w->process), "ssertion"));
}
