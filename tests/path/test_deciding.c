/*
 * test_deciding.c - who is asking, what one request costs, how long it is held, and
 * what stays counted when the rules change.
 */
#include "site.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const struct backend_script plain;

/* weir before a backend that answers 200 at once. */
static struct weir *deciding(const char *sections, const char *endpoints)
{
	static unsigned n;
	const char *addr = addr_unix(text("plain%u.sock", ++n));

	backend_start(addr, &plain);
	return weir_start(&(struct weir_spec){ .server = "workers = 2\n",
		.sections = text("[backend plain]\nfastcgi = %s\n%s", addr, sections),
		.endpoints = endpoints });
}

#define IN_MEMORY "[store]\ntype = memory\n"

/* The whole answer to GET uri with further parameters. */
static void ask(const struct weir *w, const char *uri, const char *const *params,
	struct fcgi_answer *a)
{
	struct fcgi_request rq = { .uri = uri, .params = params };

	cr_assert(fcgi_call(w->addr, &rq, a, 10000), "%s: no answer", uri);
}

/* Its status. The parameters are one list, or none. */
#define ASK(w, uri, ...) status_of(w, uri, (const char *const[]){ __VA_ARGS__, NULL })

static int status_of(const struct weir *w, const char *uri, const char *const *params)
{
	struct fcgi_answer a;
	int status;

	ask(w, uri, params, &a);
	status = answer_status(&a);
	fcgi_answer_release(&a);
	return status;
}

Test(deciding, names_in_the_log_who_decided)
{
	static const char *const rule = "[endpoint a]\nmatch = GET /a\nbackend = plain\n"
					"@RateLimit = type=ip count=1 window=1h\n";
	struct weir *redis = deciding(
		text("[store]\nurl = %s\n[log]\nrequests = all\n", redis_start()->url),
		rule);
	struct weir *memory = deciding(IN_MEMORY "[log]\nrequests = all\n", rule);
	struct weir *alone = deciding("[store]\nurl = unix:///none.sock\n"
				      "[log]\nrequests = all\n",
		rule);

	cr_assert_eq(ASK(redis, "/a", NULL), 200);
	cr_assert_eq(ASK(memory, "/a", NULL), 200);
	cr_assert_eq(ASK(alone, "/a", NULL), 200);
	cr_assert(process_logs(redis->process, "decided=redis", 2000));
	cr_assert(process_logs(memory->process, "decided=memory", 2000));
	cr_assert(process_logs(alone->process, "decided=fallback", 2000));
	cr_assert_eq(ASK(redis, "/other", NULL), 404);
	cr_assert(process_logs(redis->process, "decided=\"\"", 2000));
	cr_assert(weir_counts(redis, "requests_unmatched", 1, 5000));
}

/* weir with a directory in which alice (plan paid) and an admin have tokens. */
struct known {
	struct weir *weir;
	const char *alice, *bob, *admin; /* "Bearer ..." parameters */
};

static struct known with_directory(const char *ttl)
{
	const char *client = text("[client]\nuser = token\ndirectory = sqlite:%s\n"
				  "directory_ttl = %s\ndirectory_miss_ttl = %s\n",
		test_path("weir.db"), ttl, ttl);
	const char *endpoints = "[endpoint a]\nmatch = GET /a\nbackend = plain\n"
				"@RateLimit = type=user count=2 window=1h\n"
				"@RateLimit = type=user plan=paid count=4 window=1h\n";
	struct weir *before = weir_configure(&(struct weir_spec){
		.sections = text("%s%s[backend plain]\nfastcgi = unix:/none.sock\n",
			IN_MEMORY, client),
		.endpoints = endpoints });
	struct known k;

	weirctl("-c %s db init", before->ini);
	weirctl("-c %s plan add paid", before->ini);
	weirctl("-c %s user add alice --plan paid", before->ini);
	weirctl("-c %s user add bob", before->ini);
	k.alice = token_in(weirctl("-c %s token add alice --label laptop", before->ini));
	k.bob = token_in(weirctl("-c %s token add bob --label phone", before->ini));
	k.admin = token_in(weirctl("-c %s token add bob --admin", before->ini));
	k.weir = deciding(text("%s%s", IN_MEMORY, client), endpoints);
	return k;
}

static int with_token(const struct known *k, const char *token)
{
	return ASK(k->weir, "/a", text("HTTP_AUTHORIZATION=Bearer %s", token));
}

Test(deciding, gives_each_user_the_limit_of_the_plan, .timeout = 60)
{
	struct known k = with_directory("60s");

	for (int i = 0; i < 4; i++)
		cr_assert_eq(with_token(&k, k.alice), 200, "request %d", i);
	cr_assert_eq(with_token(&k, k.alice), 429);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(with_token(&k, k.bob), 200, "request %d", i);
	cr_assert_eq(with_token(&k, k.bob), 429);
	/* Nobody, by address: what is no token is no user. */
	cr_assert_eq(with_token(&k, "weir_guess"), 200);
	cr_assert_eq(ASK(k.weir, "/a", "HTTP_AUTHORIZATION=Basic YWxpY2U6eA=="), 200);
	cr_assert_eq(ASK(k.weir, "/a", "REMOTE_USER=carol"), 429);
}

Test(deciding, lets_an_admins_token_pass_and_nothing_that_looks_like_one, .timeout = 60)
{
	struct known k = with_directory("60s");
	const char *forged = text("%.*sX", (int)strlen(k.admin) - 1, k.admin);

	for (int i = 0; i < 10; i++)
		cr_assert_eq(with_token(&k, k.admin), 200, "request %d", i);
	cr_assert(weir_counts(k.weir, "requests_exempt", 10, 5000));
	cr_assert_eq(with_token(&k, forged), 200);
	cr_assert_eq(ASK(k.weir, "/a", "HTTP_X_ADMIN=1"), 200);
	cr_assert_eq(ASK(k.weir, "/a", "HTTP_WEIR_PLAN=admin"), 429);
	cr_assert(weir_counts(k.weir, "requests_exempt", 10, 5000));
}

Test(deciding, believes_a_revoked_token_no_longer_than_configured, .timeout = 60)
{
	struct known k = with_directory("300ms");

	for (int i = 0; i < 2; i++)
		cr_assert_eq(ASK(k.weir, "/a", "A=1"), 200); /* the address is used up */
	cr_assert_eq(with_token(&k, k.alice), 200);
	weirctl("-c %s token revoke laptop", k.weir->ini);
	/* Then it is nobody's, and counts by address. */
	cr_assert(WAIT_UNTIL(5000, with_token(&k, k.alice) == 429));
	cr_assert_eq(with_token(&k, k.bob), 200);
}

Test(deciding, takes_what_a_request_says_it_costs_within_bounds, .timeout = 60)
{
	struct weir *w = deciding(IN_MEMORY,
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip algorithm=token_bucket count=10 window=1h "
		"cost=header:X-Tokens cost_min=1 cost_max=8 cost_default=2\n");

	cr_assert_eq(ASK(w, "/a", "HTTP_X_TOKENS=0"), 200); /* 1 */
	cr_assert_eq(ASK(w, "/a", "A=1"), 200);             /* 2 */
	cr_assert_eq(ASK(w, "/a", "HTTP_X_TOKENS=8"), 429); /* 7 are left */
	cr_assert_eq(ASK(w, "/a", "HTTP_X_TOKENS=5"), 200);
	cr_assert_eq(ASK(w, "/a", "HTTP_X_TOKENS=9"), 429); /* 8 */
	cr_assert_eq(ASK(w, "/a", "HTTP_X_TOKENS=1000000"), 413);
	cr_assert_eq(ASK(w, "/a", "A=1"), 200);
	cr_assert_eq(ASK(w, "/a", "HTTP_X_TOKENS=1"), 429);
	cr_assert(weir_counts(w, "requests_unfit", 1, 5000));
	cr_assert(weir_counts(w, "requests_refused", 3, 5000));
}

Test(deciding, counts_by_a_key_of_ones_own, .timeout = 60)
{
	struct weir *w = deciding(IN_MEMORY,
		"[endpoint a]\nmatch = GET /t/{tenant}/a\nbackend = plain\n"
		"@RateLimit = type=custom key={path:tenant}/{header:X-Team} count=1 "
		"window=1h\n");

	cr_assert_eq(ASK(w, "/t/x/a", "HTTP_X_TEAM=red"), 200);
	cr_assert_eq(ASK(w, "/t/x/a", "HTTP_X_TEAM=red", "REMOTE_USER=a"), 429);
	cr_assert_eq(ASK(w, "/t/x/a", "HTTP_X_TEAM=blue"), 200);
	cr_assert_eq(ASK(w, "/t/y/a", "HTTP_X_TEAM=red"), 200);
	cr_assert_eq(ASK(w, "/t//y/./a", "HTTP_X_TEAM=red"), 429);
	/* What is not there is the empty value, counted like any other. */
	cr_assert_eq(ASK(w, "/t/x/a", "A=1"), 200);
	cr_assert_eq(ASK(w, "/t/x/a", "A=1"), 429);
}

Test(deciding, meets_a_rule_behind_a_front_controller_too, .timeout = 60)
{
	const char *addr = addr_unix("front.sock");
	struct weir *w;

	backend_start(addr, &plain);
	w = weir_start(&(struct weir_spec){ .server = "strip_prefix = /index.php\n",
		.sections = text(IN_MEMORY "[backend plain]\nfastcgi = %s\n", addr),
		.endpoints = "[endpoint a]\nmatch = GET /api/a\nbackend = plain\n"
			     "@RateLimit = type=ip count=3 window=1h\n" });
	cr_assert_eq(ASK(w, "/api/a", "A=1"), 200);
	cr_assert_eq(ASK(w, "/index.php/api/a", "A=1"), 200);
	cr_assert_eq(ASK(w, "//index%2ephp/./api//a", "A=1"), 200);
	cr_assert_eq(ASK(w, "/index.php/api/a", "A=1"), 429);
}

Test(deciding, holds_what_a_leaky_bucket_spaces_out_and_refuses_the_rest, .timeout = 60)
{
	struct weir *w = deciding(IN_MEMORY,
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip algorithm=leaky_bucket count=10 window=4s "
		"max_delay=1s\n");
	struct fcgi_request rq = { .uri = "/a" };
	struct fcgi_answer a[5];
	struct buf bytes = { 0 };
	int fds[COUNT_OF(a)];
	int64_t began = now_ms();

	/* One every 400 ms: the first at once, two more within a second, the others are
	 * told to come back. */
	fcgi_compose(&bytes, &rq);
	for (size_t i = 0; i < COUNT_OF(a); i++) {
		fcgi_answer_init(&a[i]);
		fds[i] = dial(w->addr);
		cr_assert(fcgi_send(fds[i], buf_view(&bytes), 1000));
		/* One after the other, so that they queue in this order. */
		cr_assert(weir_counts(w, "requests", (int64_t)i + 1, 5000));
	}
	for (size_t i = 0; i < COUNT_OF(a); i++)
		cr_assert(fcgi_exchange(
			fds[i], (struct view){ NULL, 0 }, &a[i], FCGI_UNTIL_END, 5000));
	cr_assert_eq(answer_status(&a[0]), 200);
	cr_assert_eq(answer_status(&a[1]), 200);
	cr_assert_eq(answer_status(&a[2]), 200);
	cr_assert_eq(answer_status(&a[4]), 429);
	cr_assert(now_ms() - began >= 700, "held for %lld ms only",
		(long long)(now_ms() - began));
	cr_assert_geq(weir_counter(w, "requests_held"), 2);
	for (size_t i = 0; i < COUNT_OF(a); i++) {
		fcgi_answer_release(&a[i]);
		close(fds[i]);
	}
	buf_release(&bytes);
}

Test(deciding, lets_go_of_a_held_request_whose_client_left, .timeout = 60)
{
	struct weir *w = deciding(IN_MEMORY,
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip algorithm=leaky_bucket count=2 window=60s "
		"max_delay=30s\n");
	struct fcgi_request rq = { .uri = "/a" };
	struct buf bytes = { 0 };
	int fd;

	cr_assert_eq(ASK(w, "/a", "A=1"), 200);
	fcgi_compose(&bytes, &rq);
	fd = dial(w->addr);
	cr_assert(fcgi_send(fd, buf_view(&bytes), 1000));
	cr_assert(weir_counts(w, "requests_held", 1, 2000));
	close(fd);
	cr_assert(weir_counts(w, "exchanges_open", 0, 5000));
	cr_assert(weir_counts(w, "requests_abandoned", 1, 5000));
	buf_release(&bytes);
}

Test(deciding, charges_once_what_an_authorizer_has_decided, .timeout = 60)
{
	struct weir *w = deciding(IN_MEMORY,
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip count=2 window=1h\n");

	for (int i = 0; i < 2; i++) {
		struct fcgi_request rq = { .uri = "/a", .role = 2 };
		struct fcgi_answer a;

		cr_assert(fcgi_call(w->addr, &rq, &a, 5000));
		cr_assert_eq(answer_status(&a), 200);
		cr_assert_str_eq(answer_field(&a, "Variable-WEIR_DECIDED"), "1");
		fcgi_answer_release(&a);
		cr_assert_eq(ASK(w, "/a", "WEIR_DECIDED=1"), 200);
	}
	/* A header of that name decides nothing. */
	cr_assert_eq(ASK(w, "/a", "HTTP_WEIR_DECIDED=1"), 429);
}

/* One of several processes with different counts over one Redis: as after a reload. */
static struct weir *with_count(const char *store, const char *algorithm, int count)
{
	return deciding(store,
		text("[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		     "@RateLimit = type=ip algorithm=%s count=%d window=1h\n",
			algorithm, count));
}

Test(deciding, keeps_what_was_consumed_when_a_count_changes, .timeout = 60)
{
	const char *store = text(
		"[store]\ntype = redis\nurl = %s\ntimeout = 5s\n", redis_start()->url);
	static const char *const algorithms[] = { "sliding_window", "token_bucket",
		"fixed_window", "sliding_counter" };

	for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
		struct weir *five = with_count(store, algorithms[i], 5);
		struct weir *eight = with_count(store, algorithms[i], 8);
		struct weir *two = with_count(store, algorithms[i], 2);

		for (int n = 0; n < 5; n++)
			cr_assert_eq(
				ASK(five, "/a", "A=1"), 200, "%s: %d", algorithms[i], n);
		cr_assert_eq(ASK(five, "/a", "A=1"), 429, "%s", algorithms[i]);
		/* Raised by three: at once, and by three only. */
		for (int n = 0; n < 3; n++)
			cr_assert_eq(
				ASK(eight, "/a", "A=1"), 200, "%s: %d", algorithms[i], n);
		cr_assert_eq(ASK(eight, "/a", "A=1"), 429, "%s", algorithms[i]);
		cr_assert_eq(ASK(two, "/a", "A=1"), 429, "%s", algorithms[i]);
		process_stop(five->process, 2000);
		process_stop(eight->process, 2000);
		process_stop(two->process, 2000);
	}
}

Test(deciding, answers_in_the_clients_language_and_form, .timeout = 60)
{
	struct weir *w = deciding(IN_MEMORY
		"[reply]\nmessage.zh = 调用过于频繁，请 {retry_after} 秒后重试\n",
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip count=1 window=1h\n");
	struct fcgi_answer a;
	json_t *json;

	cr_assert_eq(ASK(w, "/a", "A=1"), 200);
	ask(w, "/a", (const char *const[]){ "HTTP_ACCEPT_LANGUAGE=zh-CN,en;q=0.5", NULL },
		&a);
	json = json_of(answer_body(&a));
	cr_assert(strstr(json_string_value(json_object_get(json, "message")), "秒后重试"));
	json_decref(json);
	fcgi_answer_release(&a);
	ask(w, "/a", (const char *const[]){ "HTTP_ACCEPT=application/problem+json", NULL },
		&a);
	cr_assert(strstr(answer_field(&a, "Content-Type"), "application/problem+json"));
	json = json_of(answer_body(&a));
	cr_assert_eq(json_integer_value(json_object_get(json, "status")), 429);
	cr_assert_eq(json_array_size(json_object_get(json, "violated-policies")), 1);
	json_decref(json);
	fcgi_answer_release(&a);
}

Test(deciding, asks_redis_nothing_about_what_it_knows_to_be_refused, .timeout = 60)
{
	const struct redis *r = redis_start();
	struct weir *w = deciding(
		text("[store]\ntype = redis\nurl = %s\ntimeout = 5s\n", r->url),
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip count=1 window=1h\n");
	const int64_t began = now_ms();
	int64_t seconds;
	const char *stats;
	long calls;

	cr_assert_eq(ASK(w, "/a", "A=1"), 200);
	for (int i = 0; i < 2000; i++)
		cr_assert_eq(ASK(w, "/a", "A=1"), 429);
	seconds = (now_ms() - began) / 1000 + 1;
	stats = strstr(redis_run(r, "INFO commandstats"), "cmdstat_evalsha:calls=");
	cr_assert_not_null(stats);
	calls = atol(stats + strlen("cmdstat_evalsha:calls="));
	cr_assert(calls <= 2 + 1 + 2 * seconds, "%ld calls in %lld s", calls,
		(long long)seconds);
	cr_assert(weir_counts(w, "requests_refused", 2000, 5000));
}

/* "T21:" of the moment in so many hours, as log lines have it. */
static const char *hour_from_now(int hours)
{
	static char stamps[8][8];
	static unsigned n;
	time_t then = time(NULL) + hours * 3600;
	struct tm tm;

	gmtime_r(&then, &tm);
	strftime(stamps[n % 8], sizeof(stamps[0]), "T%H:", &tm);
	return stamps[n++ % 8];
}

Test(deciding, asks_nobody_but_redis_what_time_it_is, .timeout = 60)
{
	static const char *const offsets[] = { "+0", "+1h", "-1h" };
	static const int hours[] = { 0, 1, -1 };
	const char *store = text(
		"[store]\ntype = redis\nurl = %s\ntimeout = 5s\n", redis_start()->url);
	const char *addr = addr_unix("clock.sock");
	struct weir *w[COUNT_OF(offsets)];

	backend_start(addr, &plain);
	/* The check below reads the hour of lines from now on. */
	cr_assert(WAIT_UNTIL(61000, time(NULL) % 3600 < 3590));
	for (size_t i = 0; i < COUNT_OF(offsets); i++) {
		const char *const env[] = {
			"LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
			/* Under a sanitizer it comes before the sanitizer's own. */
			"ASAN_OPTIONS=verify_asan_link_order=0",
			text("FAKETIME=%s", offsets[i]), NULL
		};

		w[i] = weir_start(&(struct weir_spec){ .env = env,
			.sections = text("[backend plain]\nfastcgi = %s\n%s", addr, store),
			.endpoints = "[endpoint a]\nmatch = GET /a\nbackend = plain\n"
				     "@RateLimit = type=ip count=6 window=20m\n"
				     "@RateLimit = type=ip algorithm=token_bucket count=6 "
				     "window=20m\n" });
	}
	/* Were a process to go by its own clock, an hour would empty the window. */
	for (int n = 0; n < 6; n++)
		cr_assert_eq(ASK(w[n % 3], "/a", "A=1"), 200, "request %d", n);
	for (size_t i = 0; i < COUNT_OF(offsets); i++)
		cr_assert_eq(ASK(w[i], "/a", "A=1"), 429, "clock %s", offsets[i]);
	/* The clocks were false indeed: the lines of the log have them. */
	for (size_t i = 0; i < COUNT_OF(offsets); i++)
		cr_assert(strstr(process_log(w[i]->process), hour_from_now(hours[i])), "%s",
			process_log(w[i]->process));
}

Test(deciding, lets_a_slow_look_up_in_the_directory_delay_nobody_else, .timeout = 60)
{
	/* The query counts for a while before it knows alice. */
	const char *client = text("[client]\nuser = token\ndirectory = sqlite:%s\n"
				  "directory_query = WITH RECURSIVE c(x) AS (SELECT 1 "
				  "UNION ALL SELECT x+1 FROM c "
				  "WHERE x < 2000000) SELECT 'alice', 'paid' FROM c WHERE "
				  "x = 2000000 AND ?1 IS "
				  "NOT NULL\n",
		test_path("weir.db"));
	const char *endpoints = "[endpoint a]\nmatch = GET /a\nbackend = plain\n"
				"@RateLimit = type=user count=100 window=1h\n";
	struct weir *before = weir_configure(&(struct weir_spec){
		.sections = text("%s%s[backend plain]\nfastcgi = unix:/none.sock\n",
			IN_MEMORY, client),
		.endpoints = endpoints });
	struct fcgi_request rq = { .uri = "/a",
		.params = (const char *const[]){ "HTTP_AUTHORIZATION=Bearer slow", NULL } };
	struct buf bytes = { 0 };
	struct fcgi_answer slow;
	struct weir *w;
	int fd;

	weirctl("-c %s db init", before->ini);
	w = deciding(text("%s%s", IN_MEMORY, client), endpoints);
	fcgi_compose(&bytes, &rq);
	fcgi_answer_init(&slow);
	fd = dial(w->addr);
	cr_assert(fcgi_send(fd, buf_view(&bytes), 1000));
	cr_assert(weir_counts(w, "requests", 1, 2000));
	for (int i = 0; i < 20; i++)
		cr_assert_eq(ASK(w, "/a", "A=1"), 200);
	/* All of them were answered while it was still looking. */
	cr_assert(weir_counts(w, "exchanges_open", 1, 5000));
	cr_assert(
		fcgi_exchange(fd, (struct view){ NULL, 0 }, &slow, FCGI_UNTIL_END, 20000));
	cr_assert_eq(answer_status(&slow), 200);
	fcgi_answer_release(&slow);
	buf_release(&bytes);
	close(fd);
}
