/*
 * test_protected.c - what weir allows itself: connections, requests, bytes in temporary
 * files. Of each: what is beyond is told so, or waits; it is counted; the others do not
 * notice; and when it is over everything is as before.
 */
#include "site.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOTHING view_of(NULL, 0)
#define KIB     UINT64_C(1024)
#define MIB     (1024 * KIB)

static struct site *small_site(const char *server)
{
	return site_start(&(struct site_spec){ .server = server, .no_php = true });
}

/* weir before a backend that never answers under /silent, and echo elsewhere. */
static struct site *site_with_a_silent_backend(const char *server)
{
	static const struct backend_script silent = { .silent = true };
	const char *addr = addr_unix("silent.sock");

	backend_start(addr, &silent);
	return site_start(&(struct site_spec){ .server = server,
		.no_php = true,
		.sections = text("[backend silent]\nfastcgi = %s\n", addr),
		.endpoints = "[endpoint silent]\nmatch = * /silent\nbackend = silent\n" });
}

/* A request begun on a connection of its own: its descriptor. */
static int begin(const struct site *s, const struct fcgi_request *rq)
{
	struct buf b = { 0 };
	int fd = dial(s->addr);

	cr_assert(fd >= 0, "%s", strerror(errno));
	fcgi_compose(&b, rq);
	cr_assert(fcgi_send(fd, buf_view(&b), 5000));
	buf_release(&b);
	return fd;
}

static void finish(int fd, struct fcgi_answer *a)
{
	fcgi_answer_init(a);
	cr_assert(fcgi_exchange(fd, NOTHING, a, FCGI_UNTIL_END, 10000), "no answer");
}

static bool counts(const struct site *s, const char *name, int64_t n)
{
	return weir_counts(s->weir, name, n, 5000);
}

/* Or more. */
static bool reaches(const struct site *s, const char *name, int64_t n)
{
	return WAIT_UNTIL(5000, weir_counter(s->weir, name) >= n);
}

/* ---- Requests ---- */

Test(protected, a_request_too_many_is_told_so_and_let_in_when_there_is_room)
{
	struct site *s = site_with_a_silent_backend("max_requests = 2\n");
	struct fcgi_request silent = { .uri = "/silent" }, rq = { .uri = "/x" };
	struct fcgi_answer a;
	int first = begin(s, &silent), second = begin(s, &silent);

	cr_assert(counts(s, "exchanges_open", 2));
	for (int i = 0; i < 3; i++) {
		cr_assert(fcgi_call(s->addr, &rq, &a, 5000));
		expect_busy(&a, "requests", "a third one");
		fcgi_answer_release(&a);
	}
	cr_assert(counts(s, "requests_crowded_out", 3));
	cr_assert_eq(weir_counter(s->weir, "exchanges_open"), 2, "the two are left alone");
	cr_assert(process_logs(s->weir->process, "server.max_requests", 1000));
	close(first);
	cr_assert(counts(s, "exchanges_open", 1));
	cr_assert_eq(site_get(s, "/x"), 200);
	close(second);
}

/* Who asks for permission is answered the same, and nothing is charged. */
Test(protected, an_authorizer_too_many_is_told_so_and_charged_nothing)
{
	static const struct backend_script script = { .silent = true };
	const char *addr = addr_unix("silent.sock");
	const char *const role[] = { "WEIR_ROLE=authorizer", NULL };
	struct fcgi_request silent = { .uri = "/silent" },
			    asks = { .uri = "/asked", .params = role };
	struct site *s;
	struct fcgi_answer a;
	int first;

	backend_start(addr, &script);
	s = site_start(&(struct site_spec){ .server = "max_requests = 1\n",
		.no_php = true,
		.sections = text("[backend silent]\nfastcgi = %s\n", addr),
		.endpoints = "[endpoint silent]\nmatch = * /silent\nbackend = silent\n"
			     "[endpoint asked]\nmatch = * /asked\n"
			     "@RateLimit = type=ip count=1 window=1h\n" });
	first = begin(s, &silent);
	cr_assert(counts(s, "exchanges_open", 1));
	cr_assert(fcgi_call(s->addr, &asks, &a, 5000));
	expect_busy(&a, "requests", "an authorizer");
	fcgi_answer_release(&a);
	close(first);
	cr_assert(counts(s, "exchanges_open", 0));
	cr_assert(fcgi_call(s->addr, &asks, &a, 5000));
	cr_assert_eq(answer_status(&a), 200, "the one that counts");
	fcgi_answer_release(&a);
}

Test(protected, limits_of_a_reload_hold_at_once)
{
	struct site *s = site_with_a_silent_backend("max_requests = 1\n");
	struct fcgi_request silent = { .uri = "/silent" };
	const char *ini = file_read(s->weir->ini), *at = strstr(ini, "max_requests = 1");
	int fd = begin(s, &silent);

	cr_assert(counts(s, "exchanges_open", 1));
	cr_assert_eq(site_get(s, "/x"), 503);
	file_write(s->weir->ini,
		text("%.*smax_requests = 9%s", (int)(at - ini), ini,
			at + strlen("max_requests = 1")));
	process_signal(s->weir->process, SIGHUP);
	cr_assert(process_logs(s->weir->process, "configuration reloaded", 10000));
	cr_assert(WAIT_UNTIL(5000, site_get(s, "/x") == 200));
	close(fd);
}

/* ---- Connections ---- */

Test(protected, a_connection_too_many_waits_and_is_served_when_another_goes)
{
	struct site *s = small_site("max_connections = 3\nhead_timeout = 60s\n");
	struct fcgi_request rq = { .uri = "/x" };
	struct fcgi_answer a;
	int silent[3], waiting;

	for (size_t i = 0; i < COUNT_OF(silent); i++)
		cr_assert((silent[i] = dial(s->addr)) >= 0);
	cr_assert(counts(s, "connections_open", 3));
	waiting = begin(s, &rq);
	cr_assert(reaches(s, "connections_paused", 2));
	cr_assert_eq(weir_counter(s->weir, "connections_open"), 3);
	cr_assert_eq(weir_counter(s->weir, "requests"), 0, "it is not served yet");
	cr_assert(process_logs(s->weir->process, "server.max_connections", 1000));
	close(silent[1]);
	finish(waiting, &a);
	cr_assert_eq(answer_status(&a), 200);
	fcgi_answer_release(&a);
	close(waiting);
	for (size_t i = 0; i < COUNT_OF(silent); i++)
		if (i != 1)
			close(silent[i]);
	cr_assert(counts(s, "connections_open", 0));
}

/* A web server that keeps connections must not shut out another one. */
Test(protected, a_connection_kept_idle_makes_room_for_another_and_a_busy_one_does_not)
{
	struct site *s = site_with_a_silent_backend("max_connections = 3\n");
	struct fcgi_request keeps = { .uri = "/x", .keep = true },
			    busy = { .uri = "/silent", .keep = true };
	struct fcgi_answer a, closed;
	int kept[2], waits = begin(s, &busy);

	cr_assert(counts(s, "exchanges_open", 1));
	for (size_t i = 0; i < COUNT_OF(kept); i++) {
		kept[i] = begin(s, &keeps);
		finish(kept[i], &a);
		cr_assert_eq(answer_status(&a), 200);
		fcgi_answer_release(&a);
	}
	for (int i = 0; i < 5; i++)
		cr_assert_eq(site_get(s, "/x"), 200);
	cr_assert(reaches(s, "connections_reclaimed", 1));
	/* The one idle longest is gone for certain. */
	fcgi_answer_init(&closed);
	cr_assert(fcgi_exchange(kept[0], NOTHING, &closed, FCGI_UNTIL_CLOSED, 5000));
	fcgi_answer_release(&closed);
	cr_assert_eq(weir_counter(s->weir, "exchanges_open"), 1, "the busy one stays");
	close(kept[0]);
	close(kept[1]);
	close(waits);
	expect_clean_end(s->weir);
}

static uint64_t value_of(const struct site *s, const char *name)
{
	struct buf pairs = { 0 }, record = { 0 }, got = { 0 };
	struct fcgi_answer a;
	int fd = dial(s->addr);
	uint64_t n;

	fcgi_pair(&pairs, view_str(name), NOTHING);
	fcgi_record(&record, 9, 0, buf_view(&pairs), 0);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&record), &a, FCGI_UNTIL_MANAGEMENT, 5000));
	cr_assert(a.management.n > 3);
	buf_add(&got, view_skip(buf_view(&a.management), 2));
	cr_assert_not_null(param_of(buf_view(&got), name), "%s", name);
	n = strtoull(param_of(buf_view(&got), name), NULL, 10);
	close(fd);
	buf_release(&pairs);
	buf_release(&record);
	buf_release(&got);
	fcgi_answer_release(&a);
	return n;
}

Test(protected, a_web_server_that_asks_is_told_the_limits)
{
	struct site *s = small_site("max_connections = 77\nmax_requests = 55\n");

	cr_assert_eq(value_of(s, "FCGI_MAX_CONNS"), 77);
	cr_assert_eq(value_of(s, "FCGI_MAX_REQS"), 55);
}

/* ---- Bytes in temporary files ---- */

static int post(const struct site *s, uint64_t bytes, struct fcgi_answer *a)
{
	struct fcgi_request rq = { .uri = "/x", .pattern_bytes = bytes };

	cr_assert(fcgi_call(s->addr, &rq, a, 20000), "no answer to %lu bytes", bytes);
	return answer_status(a);
}

static void expect_stored(const struct site *s, uint64_t bytes)
{
	struct fcgi_answer a;

	cr_assert_eq(post(s, bytes, &a), 200, "%lu bytes", bytes);
	cr_assert_str_eq(line_of(answer_body(&a), "body_sha256"), sha256_of_pattern(bytes));
	fcgi_answer_release(&a);
}

static void expect_not_stored(const struct site *s, uint64_t bytes, const char *why)
{
	struct fcgi_answer a;

	post(s, bytes, &a);
	expect_busy(&a, "spool", why);
	fcgi_answer_release(&a);
}

Test(protected, bodies_that_do_not_fit_together_wait_for_those_that_are_there)
{
	struct site *s = small_site("spool_limit = 1M\nbody_limit = 1M\n");
	struct fcgi_request slow = { .uri = "/x", .pattern_bytes = 900 * KIB };
	struct buf whole = { 0 };
	struct fcgi_answer a;
	int fd = dial(s->addr);
	size_t half;

	fcgi_compose(&whole, &slow);
	half = whole.n - 100 * KIB;
	cr_assert(fcgi_send(fd, view_of(whole.p, half), 5000));
	cr_assert(reaches(s, "spool_bytes", 700 * KIB));
	expect_not_stored(s, 500 * KIB, "beside another");
	expect_not_stored(s, 500 * KIB, "and again");
	expect_stored(s, 40 * KIB); /* in memory */
	expect_stored(s, 100 * KIB);
	cr_assert(counts(s, "spool_full", 2));
	cr_assert(process_logs(s->weir->process, "server.spool_limit", 1000));

	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(
		fd, view_skip(buf_view(&whole), half), &a, FCGI_UNTIL_END, 10000));
	cr_assert_eq(answer_status(&a), 200);
	cr_assert_str_eq(
		line_of(answer_body(&a), "body_sha256"), sha256_of_pattern(900 * KIB));
	fcgi_answer_release(&a);
	close(fd);
	cr_assert(counts(s, "spool_bytes", 0));
	expect_stored(s, 500 * KIB);
	expect_clean_end(s->weir);
	buf_release(&whole);
}

/* One that does not say how long it is is found out on the way. */
Test(protected, a_body_of_unknown_length_is_stopped_where_the_room_ends)
{
	struct site *s = small_site("spool_limit = 300K\nbody_limit = 8M\n");
	struct fcgi_request rq = { .method = "POST", .uri = "/x" };
	struct buf head = { 0 };
	static char piece[60000];
	struct fcgi_answer a;
	int fd = dial(s->addr);

	fcgi_begin(&head, 1, 1, 0);
	{
		struct buf pairs = { 0 };

		fcgi_pair(&pairs, VIEW("REQUEST_METHOD"), view_str(rq.method));
		fcgi_pair(&pairs, VIEW("REQUEST_URI"), view_str(rq.uri));
		fcgi_pair(&pairs, VIEW("REMOTE_ADDR"), VIEW("127.0.0.1"));
		fcgi_record(&head, 4, 1, buf_view(&pairs), 0);
		fcgi_record(&head, 4, 1, NOTHING, 0);
		buf_release(&pairs);
	}
	for (int i = 0; i < 20; i++)
		fcgi_record(&head, 5, 1, view_of(piece, sizeof(piece)), 0);
	fcgi_record(&head, 5, 1, NOTHING, 0);
	fcgi_answer_init(&a);
	cr_assert(fcgi_exchange(fd, buf_view(&head), &a, FCGI_UNTIL_END, 10000));
	expect_busy(&a, "spool", "1.2 MB");
	fcgi_answer_release(&a);
	close(fd);
	cr_assert(counts(s, "spool_bytes", 0));
	cr_assert(counts(s, "spool_full", 1));
	expect_stored(s, 200 * KIB);
	buf_release(&head);
}

/* ---- A disk that is full ---- */

/* What a full spool_dir looks like from outside, whatever fills it. */
static void expect_full_disk_is_survived(struct site *s, const char *words)
{
	expect_stored(s, 300 * KIB);
	for (int i = 0; i < 3; i++)
		expect_not_stored(s, 4 * MIB, "on a full disk");
	cr_assert(counts(s, "spool_failures", 3));
	cr_assert(counts(s, "spool_bytes", 0));
	cr_assert(process_logs(s->weir->process, words, 1000));
	expect_stored(s, 20 * KIB);
	expect_stored(s, 300 * KIB);
	cr_assert_eq(site_get(s, "/hello.sh"), 200);
}

Test(protected, a_full_disk_under_the_spool_is_told_and_survived)
{
	struct site *s = small_site(text("spool_dir = %s\n", small_disk("small")));

	expect_full_disk_is_survived(s, "No space left on device");
	expect_clean_end(s->weir);
}

/* Of a process whose files may not grow the first byte too many is a signal, and that ends
 * who does not expect it. */
Test(protected, a_file_that_may_not_grow_is_told_and_survived)
{
	struct site *s = small_site(NULL);
	const struct rlimit small = { MIB, RLIM_INFINITY },
			    large = { RLIM_INFINITY, RLIM_INFINITY };
	pid_t pid = s->weir->process->pid;

	cr_assert_eq(prlimit(pid, RLIMIT_FSIZE, &small, NULL), 0, "%s", strerror(errno));
	expect_full_disk_is_survived(s, "File too large");
	cr_assert_eq(prlimit(pid, RLIMIT_FSIZE, &large, NULL), 0);
	expect_stored(s, 4 * MIB);
	expect_clean_end(s->weir);
}

/* nginx finds its kept connections closed now and then, and takes another. */
Test(protected, kept_connections_that_make_room_cost_nginx_no_answer, .timeout = 60)
{
	struct site *s = small_site("max_connections = 2\nhead_timeout = 1h\n");
	const struct web *web = nginx_keepalive_start(s->addr);
	const char *url = text("%s/x", web->url);
	struct buf bytes = { 0 };
	int fd = dial(s->addr);

	/* Half a head holds one connection: what nginx keeps is all there is to close. */
	fcgi_compose_head(&bytes, &(struct fcgi_request){ .uri = "/x" });
	cr_assert(fcgi_send(fd, view_of(bytes.p, 20), 5000));
	for (int i = 0; i < 100; i++) {
		struct http_answer a;

		http_get(url, &a);
		cr_assert_eq(a.status, 200, "%d: %ld", i, a.status);
		http_release(&a);
		for (int k = 0; k < 2; k++)
			cr_assert_eq(site_get(s, "/x"), 200);
	}
	cr_assert(reaches(s, "connections_reclaimed", 1));
	buf_release(&bytes);
	close(fd);
}
