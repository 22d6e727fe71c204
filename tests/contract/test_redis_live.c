/*
 * test_redis_live.c - questions to a real redis-server, and what happens to them when
 * that one is killed, stopped, filled up or locked.
 */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "asker.h"
#include "base/clock.h"
#include "base/counters.h"
#include "store/denied.h"
#include "store/script.h"
#include "support.h"

/* Within a second, says the manual; how fast this machine is, is not the question. */
#define SOON_MS 10000

static struct redis *start_asking(struct asker *a)
{
	struct redis *r = redis_start();

	asker_init(a, r->socket);
	asker_start(a);
	return r;
}

static bool down_because(struct asker *a, const char *words)
{
	const char *state = store_state(a->store);

	return strstr(state, "redis (down: ") && strstr(state, words);
}

static void expect_down(struct asker *a, const char *words)
{
	cr_assert_eq(
		ask_one(a, "rate:test:probe", 1000000), DECIDED_BY_FALLBACK, "%s", words);
	cr_assert(down_because(a, words), "%s: %s", words, store_state(a->store));
}

Test(redis_live, exactly_the_limit_passes_and_each_decision_is_one_command)
{
	enum {
		N = 40,
		LIMIT = 5
	};
	struct question q[N];
	struct redis *r;
	struct asker a;

	r = start_asking(&a);
	for (unsigned i = 0; i < N; i++) {
		question_init(&q[i], &a, "rate:test:a", LIMIT);
		ask(&q[i]);
	}
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, a.answered == N));
	for (unsigned i = 0; i < N; i++) {
		const struct rate_view *v = &q[i].take.views[0];

		cr_assert_eq(q[i].take.by, DECIDED_BY_REDIS);
		cr_assert_eq(q[i].take.admitted, i < LIMIT);
		cr_assert_eq(v->admitted, i < LIMIT);
		cr_assert_eq(v->remaining, i < LIMIT ? LIMIT - 1 - i : 0);
		cr_assert(i < LIMIT ? v->wait_us == 0 : v->wait_us > 0);
	}
	cr_assert(strstr(redis_run(r, "INFO commandstats"), "cmdstat_evalsha:calls=40,"));
	/* The greeting's. */
	cr_assert(strstr(redis_run(r, "INFO commandstats"), "cmdstat_eval:calls=1,"));
	asker_stop(&a);
}

struct flusher {
	const char *socket;
	atomic_bool stop;
	unsigned flushes;
};

static void *flush_and_flush(void *arg)
{
	struct flusher *f = arg;
	redisContext *c = redisConnectUnix(f->socket);

	while (c && !c->err && !atomic_load(&f->stop)) {
		freeReplyObject(redisCommand(c, "SCRIPT FLUSH SYNC"));
		f->flushes++;
		wait_a_little();
	}
	redisFree(c);
	return NULL;
}

Test(redis_live, flushing_the_script_cache_all_the_time_loses_and_doubles_nothing)
{
	enum {
		ROUNDS = 100,
		N = 50,
		LIMIT = 100000
	};
	struct question *q = calloc(N, sizeof(*q)), last;
	struct flusher f = { 0 };
	struct redis *r;
	pthread_t thread;
	struct asker a;

	r = start_asking(&a);
	f.socket = r->socket;
	cr_assert(pthread_create(&thread, NULL, flush_and_flush, &f) == 0);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < N; i++) {
			question_init(&q[i], &a, "rate:test:a", LIMIT);
			ask(&q[i]);
		}
		cr_assert(RUN_UNTIL(&a, PATIENCE_MS, a.answered == (round + 1) * N));
		for (unsigned i = 0; i < N; i++)
			cr_assert_eq(q[i].take.by, DECIDED_BY_REDIS);
	}
	atomic_store(&f.stop, true);
	pthread_join(thread, NULL);
	cr_assert_gt(f.flushes, 1);
	cr_assert(!strstr(redis_run(r, "INFO commandstats"), "cmdstat_eval:calls=1,"),
		"no flush came between two questions");
	question_init(&last, &a, "rate:test:a", LIMIT);
	ask(&last);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, last.answers));
	cr_assert_eq(last.take.views[0].remaining, LIMIT - ROUNDS * N - 1);
	cr_assert_eq(counter_sum(COUNT_store_failures), 0);
	asker_stop(&a);
	free(q);
}

Test(redis_live, when_it_is_killed_policy_decides_and_when_it_is_back_it_does)
{
	struct question q[3];
	struct redis *r;
	struct asker a;

	r = start_asking(&a);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	/* Stopped, it cannot answer; killed, it never will. */
	process_signal(r->process, SIGSTOP);
	for (unsigned i = 0; i < COUNT_OF(q); i++) {
		question_init(&q[i], &a, "rate:test:a", 10);
		ask(&q[i]);
	}
	asker_run_a_little(&a);
	process_signal(r->process, SIGKILL);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, a.answered == 1 + COUNT_OF(q)));
	for (unsigned i = 0; i < COUNT_OF(q); i++)
		cr_assert_eq(q[i].take.by, DECIDED_BY_FALLBACK);
	cr_assert(process_ends(r->process, PATIENCE_MS));
	expect_down(&a, "");
	r->process = process_start(&(struct process_spec){
		.name = "redis-again",
		.argv = (const char *const[]){ "redis-server", "--port", "0",
			"--unixsocket", r->socket, "--save", "", "--appendonly", "no",
			NULL },
	});
	cr_assert(WAIT_UNTIL(PATIENCE_MS, addr_answers(text("unix:%s", r->socket))));
	cr_assert(decided_by_redis_within(&a, SOON_MS));
	cr_assert_eq(counter_sum(COUNT_store_connects), 2);
	asker_stop(&a);
}

Test(redis_live, when_it_hangs_questions_wait_for_the_timeout_once)
{
	struct question q;
	struct redis *r;
	struct asker a;

	r = redis_start();
	asker_init(&a, r->socket);
	a.config->store.timeout_ms = 100;
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	process_signal(r->process, SIGSTOP);
	question_init(&q, &a, "rate:test:a", 10);
	ask(&q);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers));
	cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
	cr_assert_lt(q.answered_us - q.asked_us, 5000 * US_PER_MS);
	ask(&q);
	cr_assert_eq(q.answers, 2, "nobody waits for one that hangs");
	process_signal(r->process, SIGCONT);
	cr_assert(decided_by_redis_within(&a, SOON_MS));
	asker_stop(&a);
}

/* What an operator may do to it, what we then say, and how it is undone. */
static const struct {
	const char *trouble, *reason, *remedy;
} troubles[] = {
	{ "CONFIG SET maxmemory 1", "OOM", "CONFIG SET maxmemory 0" },
	{ "REPLICAOF 127.0.0.1 1", "READONLY", "REPLICAOF NO ONE" },
};

Test(redis_live, what_it_refuses_is_decided_by_policy_until_it_is_mended)
{
	struct redis *r;
	struct asker a;

	r = start_asking(&a);
	for (size_t i = 0; i < COUNT_OF(troubles); i++) {
		cr_assert(decided_by_redis_within(&a, SOON_MS), "%s", troubles[i].trouble);
		redis_run(r, "DEL rate:test:probe");
		redis_run(r, troubles[i].trouble);
		expect_down(&a, troubles[i].reason);
		redis_run(r, troubles[i].remedy);
	}
	cr_assert(decided_by_redis_within(&a, SOON_MS));
	asker_stop(&a);
}

/* What somebody may have left at a key. */
static const char *const damages[] = {
	"RPUSH rate:test:a x",
	"SET rate:test:a mine",
	"HSET rate:test:a x y",
};

Test(redis_live, a_key_that_holds_something_else_is_its_own_trouble_and_nobody_elses)
{
	struct redis *r;
	struct asker a;

	r = start_asking(&a);
	a.config->store.breaker_failures = 1;
	for (size_t i = 0; i < COUNT_OF(damages); i++) {
		redis_run(r, "DEL rate:test:a");
		redis_run(r, damages[i]);
		for (unsigned n = 0; n < 10; n++) {
			cr_assert_eq(ask_one(&a, "rate:test:a", 1000), DECIDED_BY_FALLBACK,
				"%s", damages[i]);
			cr_assert_eq(
				ask_one(&a, "rate:test:other", 1000), DECIDED_BY_REDIS);
		}
	}
	cr_assert_eq(counter_sum(COUNT_store_damaged), 10 * COUNT_OF(damages));
	cr_assert_eq(counter_sum(COUNT_store_failures), 0);
	cr_assert_eq(counter_sum(COUNT_store_connects), 1);
	cr_assert(strstr(file_read(test_path("store.log")), "rate:test:a holds") ||
			strstr(file_read(test_path("store.log")), "rate:test:a cannot be"),
		"the log names the key");
	redis_run(r, "DEL rate:test:a");
	cr_assert_eq(ask_one(&a, "rate:test:a", 1000), DECIDED_BY_REDIS);
	asker_stop(&a);
}

static void with_password(
	struct asker *a, const struct redis *r, char *user, char *password)
{
	asker_init(a, r->socket);
	a->servers[0].username = user;
	a->servers[0].password = password;
	asker_start(a);
}

Test(redis_live, it_is_asked_with_user_and_password)
{
	struct redis *r = redis_start();
	char user[] = "weir", right[] = "sesame", wrong[] = "open";
	struct asker a;

	redis_run(r, "ACL SETUSER weir on >sesame ~rate:* +@all");
	with_password(&a, r, user, wrong);
	expect_down(&a, "AUTH: WRONGPASS");
	asker_stop(&a);
	with_password(&a, r, user, right);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	asker_stop(&a);
	redis_run(r, "CONFIG SET requirepass sesame");
	with_password(&a, r, NULL, NULL);
	expect_down(&a, "NOAUTH");
	asker_stop(&a);
	with_password(&a, r, NULL, right);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	asker_stop(&a);
}

Test(redis_live, it_counts_in_the_database_that_was_chosen)
{
	struct redis *r = redis_start();
	struct asker a;

	asker_init(&a, r->socket);
	a.servers[0].db = 3;
	asker_start(&a);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	cr_assert(strstr(redis_run(r, "INFO keyspace"), "db3:keys="));
	cr_assert(!strstr(redis_run(r, "INFO keyspace"), "db0:keys="));
	asker_stop(&a);
}

Test(redis_live, a_cluster_node_is_refused_with_the_reason)
{
	const char *socket = test_path("cluster.sock");
	struct asker a;

	process_start(&(struct process_spec){
		.name = "cluster",
		.argv = (const char *const[]){ "redis-server", "--port",
			text("%u", free_port()), "--cluster-port", text("%u", free_port()),
			"--bind", "127.0.0.1", "--cluster-enabled", "yes", "--unixsocket",
			socket, "--save", "", NULL },
	});
	cr_assert(WAIT_UNTIL(PATIENCE_MS, addr_answers(text("unix:%s", socket))));
	asker_init(&a, socket);
	asker_start(&a);
	expect_down(&a, "cluster node");
	asker_stop(&a);
}

static void ask_by_name(struct asker *a, char *host, unsigned port)
{
	asker_init(a, NULL);
	a->servers[0].host = host;
	a->servers[0].port = port;
	asker_start(a);
}

Test(redis_live, it_is_found_by_its_name)
{
	char localhost[] = "localhost", nowhere[] = "nowhere.invalid";
	unsigned port = free_port();
	struct asker a;

	/* On 127.0.0.1 only: a name that is also ::1 must lead there all the same. */
	process_start(&(struct process_spec){
		.name = "redis-tcp",
		.argv = (const char *const[]){ "redis-server", "--port", text("%u", port),
			"--bind", "127.0.0.1", "--save", "", NULL },
	});
	cr_assert(WAIT_UNTIL(PATIENCE_MS, addr_answers(text("tcp:127.0.0.1:%u", port))));
	ask_by_name(&a, localhost, port);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	cr_assert_eq(counter_sum(COUNT_store_failures), 0);
	asker_stop(&a);
	ask_by_name(&a, nowhere, port);
	expect_down(&a, "no address for \"nowhere.invalid\"");
	asker_stop(&a);
	/* Closed while the look-up is under way. */
	ask_by_name(&a, localhost, port);
	asker_stop(&a);
}

Test(redis_live, a_refused_tcp_connection_is_noticed_at_once)
{
	char localhost[] = "127.0.0.1";
	struct question q;
	struct asker a;

	ask_by_name(&a, localhost, free_port());
	question_init(&q, &a, "rate:test:a", 10);
	ask(&q);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers));
	cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
	cr_assert(down_because(&a, "refused"), "%s", store_state(a.store));
	asker_stop(&a);
}

/*
 * What has been refused is not asked again
 */

static long long decisions_there(const struct redis *r)
{
	const char *at = strstr(
		redis_run(r, "INFO commandstats"), "cmdstat_evalsha:calls=");

	return at ? atoll(at + strlen("cmdstat_evalsha:calls=")) : 0;
}

Test(redis_live, a_flood_of_refusals_costs_redis_two_commands_a_second)
{
	enum {
		AT_ONCE = 64,
		FLOOD = 100000,
		LIMIT = 5
	};
	struct question *q = calloc(AT_ONCE, sizeof(*q));
	unsigned asked[AT_ONCE] = { 0 }, passed = 0;
	int64_t began_us, took_us;
	struct redis *r;
	struct asker a;
	long long cost;

	r = start_asking(&a);
	cr_assert(q);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	for (unsigned i = 0; i < AT_ONCE; i++)
		question_init(&q[i], &a, "rate:test:a", LIMIT);
	cost = decisions_there(r);
	began_us = clock_mono_us();
	for (unsigned i = 0; i < FLOOD; i++) {
		struct question *one = &q[i % AT_ONCE];

		cr_assert(RUN_UNTIL(&a, PATIENCE_MS, one->answers == asked[i % AT_ONCE]));
		passed += one->answers && one->take.admitted;
		ask(one);
		asked[i % AT_ONCE]++;
		/* Some seconds of it, so that refusals have to be renewed. */
		if (i % 1000 == 0)
			asker_run_a_little(&a), wait_a_little();
		if (i % (FLOOD / 4) == 0)
			RUN_UNTIL(&a, 700, false);
	}
	took_us = clock_mono_us() - began_us;
	cost = decisions_there(r) - cost;
	cr_assert_eq(passed, LIMIT);
	cr_assert_leq(cost, AT_ONCE + 2 * (took_us / US_PER_S + 1), "%lld in %ld us", cost,
		took_us);
	cr_assert_geq(cost, LIMIT + took_us / US_PER_S / 2, "%lld: it is never asked again",
		cost);
	cr_assert_geq(counter_sum(COUNT_decisions_denied), FLOOD - 10 * AT_ONCE);
	cr_assert_eq(q[0].take.by, DECIDED_BY_REDIS);
	cr_assert(!q[0].take.views[0].admitted && !q[0].take.views[0].unknown);
	cr_assert_gt(q[0].take.views[0].wait_us, 10 * US_PER_S);
	RUN_UNTIL(&a, 200, false);
	asker_stop(&a);
	free(q);
}

Test(redis_live, who_hammers_a_limit_gets_all_of_it)
{
	const int64_t window_us = 300 * US_PER_MS;
	struct question q;
	int64_t began_us, took_us;
	unsigned passed = 0;
	struct asker a;

	start_asking(&a);
	question_init(&q, &a, "rate:test:a", 2);
	q.rate.window_us = window_us;
	began_us = clock_mono_us();
	do {
		const unsigned before = q.answers;

		ask(&q);
		cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers > before));
		passed += q.take.admitted;
		took_us = clock_mono_us() - began_us;
	} while (took_us < 10 * window_us);
	cr_assert_leq(passed, 2 * (took_us / window_us + 1));
	/* Each window may begin late by what this machine takes for an answer. */
	cr_assert_geq(passed, 16, "%u in %ld us", passed, took_us);
	cr_assert_gt(counter_sum(COUNT_decisions_denied), 100);
	asker_stop(&a);
}

static void expect_by_redis(struct question *q, bool admitted)
{
	int64_t denied = counter_sum(COUNT_decisions_denied);
	unsigned before = q->answers;

	ask(q);
	cr_assert(RUN_UNTIL(q->asker, PATIENCE_MS, q->answers > before));
	cr_assert_eq(counter_sum(COUNT_decisions_denied), denied, "Redis was not asked");
	cr_assert_eq(q->take.by, DECIDED_BY_REDIS);
	cr_assert_eq(q->take.admitted, admitted);
}

static void expect_denied(struct question *q)
{
	int64_t denied = counter_sum(COUNT_decisions_denied);

	ask(q);
	cr_assert_eq(counter_sum(COUNT_decisions_denied), denied + 1);
	cr_assert_eq(q->take.by, DECIDED_BY_REDIS);
	cr_assert(!q->take.admitted && !q->take.failed && !q->take.closed);
}

Test(redis_live, a_changed_limit_a_reset_and_another_cost_are_asked_about_at_once)
{
	struct question q;
	struct redis *r;
	struct asker a;

	r = start_asking(&a);
	question_init(&q, &a, "rate:test:a", 3);
	q.tier.cost = 2;
	expect_by_redis(&q, true);
	expect_by_redis(&q, false);
	expect_denied(&q);
	cr_assert_eq(q.take.views[0].remaining, 1);
	/* Of a larger cost Redis alone knows how long it has to wait. */
	q.tier.cost = 3;
	expect_by_redis(&q, false);
	expect_denied(&q);
	q.tier.cost = 1;
	expect_by_redis(&q, true);
	expect_by_redis(&q, false);
	expect_denied(&q);
	/* Raised, lowered, and what it was. */
	q.rate.count = q.rate.burst = 4;
	expect_by_redis(&q, true);
	q.rate.count = q.rate.burst = 2;
	expect_by_redis(&q, false);
	q.rate.count = q.rate.burst = 3;
	expect_denied(&q);
	/* A shadow refuses nobody. */
	q.tier.shadow = true;
	expect_by_redis(&q, true);
	q.tier.shadow = false;
	redis_run(r, "DEL rate:test:a");
	store_forget_denied(a.shared);
	expect_by_redis(&q, true);
	asker_stop(&a);
}

Test(redis_live, only_the_tier_that_refused_is_named)
{
	struct rate wide;
	struct take_tier tiers[2];
	struct question q;
	struct asker a;

	start_asking(&a);
	question_init(&q, &a, "rate:test:a", 1);
	wide = q.rate;
	wide.count = wide.burst = 10;
	tiers[0] = (struct take_tier){
		.key = VIEW("rate:test:b"), .rate = &wide, .cost = 1
	};
	tiers[1] = q.tier;
	q.take.tiers = tiers;
	q.take.n_tiers = 2;
	expect_by_redis(&q, true);
	expect_by_redis(&q, false);
	cr_assert(q.take.views[0].admitted && !q.take.views[0].unknown);
	cr_assert_eq(q.take.views[0].remaining, 9);
	expect_denied(&q);
	cr_assert(q.take.views[0].admitted && q.take.views[0].unknown);
	cr_assert(!q.take.views[1].admitted && !q.take.views[1].unknown);
	cr_assert_gt(q.take.views[1].wait_us, 0);
	asker_stop(&a);
}

/* What Redis itself says at this moment. */
static int64_t wait_there(const struct redis *r, const struct take_tier *tier)
{
	redisContext *c = redisConnectUnix(r->socket);
	struct buf b = { 0 };
	struct rate_view view;
	void *reply = NULL;
	bool admitted = true;

	cr_assert(c && !c->err);
	script_put_take(&b, SCRIPT_WHOLE, tier, 1, SCRIPT_REDIS_TIME);
	redisAppendFormattedCommand(c, b.p, b.n);
	cr_assert_eq(redisGetReply(c, &reply), REDIS_OK);
	cr_assert(script_parse(reply, 1, &admitted, &view));
	cr_assert(!admitted);
	freeReplyObject(reply);
	buf_release(&b);
	redisFree(c);
	return view.wait_us;
}

/* Said first and asked there afterwards: waiting for as long as was said is enough. */
static void expect_a_wait_that_is_enough(
	struct question *q, const struct redis *r, bool remembered)
{
	const int64_t denied = counter_sum(COUNT_decisions_denied);
	const unsigned before = q->answers;
	int64_t there_us;

	ask(q);
	cr_assert(RUN_UNTIL(q->asker, PATIENCE_MS, q->answers > before));
	there_us = wait_there(r, &q->tier);
	cr_assert_eq(counter_sum(COUNT_decisions_denied), denied + remembered);
	cr_assert_eq(q->take.by, DECIDED_BY_REDIS);
	cr_assert_not(q->take.admitted);
	cr_assert_geq(q->take.views[0].wait_us, there_us, "cost %lu", q->tier.cost);
	/* Nor much longer than what has passed since. */
	cr_assert_leq(q->take.views[0].wait_us,
		there_us + clock_mono_us() - q->asked_us + US_PER_S);
}

Test(redis_live, each_cost_is_told_its_own_wait_whoever_gives_the_answer)
{
	struct question q;
	struct redis *r;
	struct asker a;

	r = start_asking(&a);
	question_init(&q, &a, "rate:test:a", 5);
	q.tier.cost = 2;
	expect_by_redis(&q, true);
	RUN_UNTIL(&a, 400, false);
	q.tier.cost = 3;
	expect_by_redis(&q, true);
	/* The larger ones have to wait for what came later. */
	for (uint64_t cost = 1; cost <= 5; cost++) {
		q.tier.cost = cost;
		expect_a_wait_that_is_enough(&q, r, false);
		expect_a_wait_that_is_enough(&q, r, true);
	}
	for (uint64_t cost = 5; cost >= 1; cost--) {
		q.tier.cost = cost;
		expect_a_wait_that_is_enough(&q, r, true);
	}
	asker_stop(&a);
}

Test(redis_live, of_two_that_refuse_the_longer_wait_is_told_even_if_it_is_to_be_asked_again)
{
	struct take_tier tiers[2];
	struct question q[2], both;
	struct asker a;

	start_asking(&a);
	question_init(&q[0], &a, "rate:test:long", 1);
	question_init(&q[1], &a, "rate:test:short", 1);
	q[1].rate.window_us = 30 * US_PER_S;
	expect_by_redis(&q[0], true);
	expect_by_redis(&q[0], false);
	RUN_UNTIL(&a, DENIED_US / US_PER_MS + 50, false);
	expect_by_redis(&q[1], true);
	expect_by_redis(&q[1], false);
	question_init(&both, &a, "", 1);
	tiers[0] = q[0].tier;
	tiers[1] = q[1].tier;
	both.take.tiers = tiers;
	both.take.n_tiers = 2;
	expect_denied(&both);
	for (size_t i = 0; i < 2; i++)
		cr_assert(!both.take.views[i].admitted && !both.take.views[i].unknown);
	cr_assert_gt(both.take.views[0].wait_us, both.take.views[1].wait_us);
	asker_stop(&a);
}

static const struct {
	enum on_error on_error;
	bool admitted, closed;
} policies[] = {
	{ ON_ERROR_OPEN, true, false },
	{ ON_ERROR_CLOSED, false, true },
	{ ON_ERROR_LOCAL, true, false },
	/* Used up here as well. */
	{ ON_ERROR_LOCAL, false, false },
};

Test(redis_live, what_it_has_refused_is_decided_by_policy_once_it_is_down)
{
	struct question q;
	struct redis *r;
	struct asker a;

	r = start_asking(&a);
	question_init(&q, &a, "rate:test:a", 1);
	expect_by_redis(&q, true);
	expect_by_redis(&q, false);
	expect_denied(&q);
	process_signal(r->process, SIGKILL);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, down_because(&a, "")));
	for (size_t i = 0; i < COUNT_OF(policies); i++) {
		q.tier.on_error = policies[i].on_error;
		ask(&q);
		cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK, "row %zu", i);
		cr_assert_eq(q.take.admitted, policies[i].admitted, "row %zu", i);
		cr_assert_eq(q.take.closed, policies[i].closed, "row %zu", i);
	}
	asker_stop(&a);
}

/* Another worker's question, which the first asks about for both. */
Test(redis_live, when_who_asks_again_gets_no_answer_the_others_ask_for_themselves)
{
	struct question q, other;
	struct store *second;
	struct redis *r;
	struct asker a;

	r = redis_start();
	asker_init(&a, r->socket);
	a.config->store.timeout_ms = 300;
	asker_start(&a);
	second = store_new(&a.loop, a.config, a.shared);
	cr_assert(second);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	question_init(&q, &a, "rate:test:a", 1);
	question_init(&other, &a, "rate:test:a", 1);
	expect_by_redis(&q, true);
	expect_by_redis(&q, false);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, strcmp(store_state(second), "redis") == 0));
	RUN_UNTIL(&a, DENIED_US / US_PER_MS + 50, false);
	process_signal(r->process, SIGSTOP);
	ask(&q);
	cr_assert_eq(q.answers, 2, "it asks again");
	store_take(second, &other.take);
	cr_assert_eq(other.answers, 1, "refused meanwhile");
	cr_assert_eq(other.take.by, DECIDED_BY_REDIS);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, q.answers == 3));
	cr_assert_eq(q.take.by, DECIDED_BY_FALLBACK);
	store_take(second, &other.take);
	cr_assert_eq(other.answers, 1, "refused by what nobody could confirm");
	process_signal(r->process, SIGCONT);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS, other.answers == 2));
	store_close(second);
	asker_stop(&a);
}
