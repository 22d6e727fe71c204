/*
 * test_outage.c - the built program and a Redis that goes, and comes back: what a client,
 * the operator and the metrics see of it.
 */
#include "site.h"

static const struct backend_script plain;

#define RULE                                              \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n" \
	"@RateLimit = type=ip count=100000 window=1h\n"

static struct weir *start(const char *store)
{
	const char *addr = addr_unix("plain.sock");

	backend_start(addr, &plain);
	return weir_start(&(struct weir_spec){ .server = "workers = 2\n",
		.sections = text("[store]\ntimeout = 2s\n%s"
				 "[fallback]\ninstances = 1\n"
				 "[backend plain]\nfastcgi = %s\n",
			store, addr),
		.endpoints = RULE });
}

static int get(const struct weir *w)
{
	const struct fcgi_request rq = { .uri = "/a" };
	struct fcgi_answer a;
	int status = fcgi_call(w->addr, &rq, &a, 20000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

/* Whether the next request is counted in Redis. */
static bool counts_there(const struct weir *w)
{
	int64_t before = weir_counter(w, "decisions_redis");

	cr_assert_eq(get(w), 200);
	return weir_counts(w, "decisions_redis", before + 1, 100);
}

static bool is_open(const struct weir *w)
{
	/* Nobody waits and nobody is refused, whatever the state. */
	cr_assert_eq(get(w), 200);
	return weir_counter(w, "store_breaker_open") == 1;
}

static void start_again(struct redis *r)
{
	r->process = process_start(&(struct process_spec){ .name = "redis-again",
		.argv = (const char *const[]){ "redis-server", "--port", "0",
			"--unixsocket", r->socket, "--unixsocketperm", "777", "--save", "",
			NULL } });
}

Test(outage, of_redis_is_seen_in_status_and_metrics_and_not_by_clients)
{
	struct redis *r = redis_start();
	struct weir *w = start(text("url = %s\n", r->url));
	const char *log;

	cr_assert(WAIT_UNTIL(10000, counts_there(w)));
	cr_assert_eq(weir_counter(w, "store_breaker_open"), 0);
	process_signal(r->process, SIGKILL);
	cr_assert(WAIT_UNTIL(20000, is_open(w)));
	cr_assert_eq(weir_counter(w, "store_breaker_failed"), 1);
	cr_assert(WAIT_UNTIL(10000,
		strstr(weirctl_run("-c %s status", w->ini).out,
			"redis (down: 5 failures in a row, the last: ")));
	cr_assert(WAIT_UNTIL(10000, weir_counter(w, "store_probes") > 1));
	start_again(r);
	cr_assert(WAIT_UNTIL(20000, counts_there(w)));
	cr_assert(WAIT_UNTIL(10000, weir_counter(w, "store_breaker_open") == 0));
	log = process_log(w->process);
	cr_assert(strstr(log, "event=\"redis is down\""));
	cr_assert(strstr(log, "event=\"redis is no longer asked\" from=closed to=open"));
	cr_assert(strstr(log, "event=\"redis is asked again\" from=half-open to=closed"));
}

Test(outage, by_a_new_password_ends_with_a_reload_of_the_file_it_is_in)
{
	struct redis *r = redis_start();
	const char *file = test_path("password");
	struct weir *w;

	file_write(file, "old\n");
	redis_run(r, "ACL SETUSER weir on >old ~rate:* +@all");
	w = start(text("url = unix://weir:@%s\npassword_file = %s\n", r->socket, file));
	cr_assert(WAIT_UNTIL(10000, counts_there(w)));
	redis_run(r, "ACL SETUSER weir resetpass >new");
	redis_run(r, "CLIENT KILL USER weir");
	cr_assert(WAIT_UNTIL(20000, is_open(w)));
	cr_assert(strstr(
		process_log(w->process), "AUTH: WRONGPASS; check user and password"));
	file_replace(file, "new\n");
	reload(w, RELOADED);
	cr_assert(WAIT_UNTIL(20000, counts_there(w)));
	cr_assert_null(strstr(process_log(w->process), "need a restart"));
}

Test(outage, of_the_first_address_moves_everybody_to_the_second)
{
	struct redis *first = redis_start(), *second = redis_start();
	struct weir *w = start(text("url = %s\nurl = %s\n", first->url, second->url));

	cr_assert(WAIT_UNTIL(10000, counts_there(w)));
	cr_assert_str_eq(redis_run(second, "DBSIZE"), "0");
	process_signal(first->process, SIGKILL);
	cr_assert(WAIT_UNTIL(20000, counts_there(w)));
	cr_assert_str_neq(redis_run(second, "DBSIZE"), "0");
	cr_assert_eq(weir_counter(w, "requests_uncounted"), 0);
}

/* Of as many as anybody has, at names of the usual length. */
Test(outage, of_all_addresses_is_told_with_each_ones_reason)
{
	struct buf urls = { 0 };
	const char *status = "";
	struct weir *w;

	for (unsigned i = 0; i < 8; i++)
		buf_addf(
			&urls, "url = unix:///nowhere/run/redis-number-%u/redis.sock\n", i);
	w = start(text("%.*s", VIEW_ARG(buf_view(&urls))));
	buf_release(&urls);
	cr_assert_eq(get(w), 200);
	cr_assert(WAIT_UNTIL(10000,
		strstr(status = weirctl_run("-c %s status", w->ini).out, "redis (down: ")));
	/* As soon as it is down, and when the breaker is open and says how that came. */
	for (int open = 0; open < 2; open++) {
		for (unsigned i = 0; i < 8; i++)
			cr_expect(strstr(status,
					  text("number-%u/redis.sock: No such file or "
					       "directory",
						  i)),
				"number %u in %s", i, status);
		cr_assert(WAIT_UNTIL(20000, is_open(w)));
		cr_assert(WAIT_UNTIL(10000,
			strstr(status = weirctl_run("-c %s status", w->ini).out,
				"failures in a row")));
	}
}
