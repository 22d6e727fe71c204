#include "asker.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"
#include "support.h"

/* What the log says goes to a file, which the runner shows when the test fails. */
static void log_to_file(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open(test_path("store.log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			0600);
	cr_assert(fd >= 0);
	log_open(fd, LOG_LEVEL_DEBUG);
}

static void on_alarm(uv_timer_t *timer)
{
	(void)timer;
}

static void set_socket(struct redis_server *server, const char *socket)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&server->addr.ss;

	un->sun_family = AF_UNIX;
	cr_assert(strlen(socket) < sizeof(un->sun_path));
	memcpy(un->sun_path, socket, strlen(socket));
	server->addr.len = sizeof(*un);
}

void asker_add(struct asker *a, const char *socket)
{
	cr_assert(a->config->store.n_servers < ASKER_SERVERS);
	set_socket(&a->servers[a->config->store.n_servers++], socket);
}

void asker_init(struct asker *a, const char *socket)
{
	*a = (struct asker){ 0 };
	signal(SIGPIPE, SIG_IGN);
	log_to_file();
	cr_assert(uv_loop_init(&a->loop) == 0);
	/* Ends each turn of the loop, so that conditions are looked at. */
	uv_timer_init(&a->loop, &a->alarm);
	uv_timer_start(&a->alarm, on_alarm, 5, 5);
	a->config = calloc(1, sizeof(*a->config));
	cr_assert(a->config);
	a->config->refs = 1;
	a->config->store.type = STORE_REDIS;
	a->config->store.timeout_ms = PATIENCE_MS;
	a->config->store.memory = 1 << 22;
	a->config->fallback.instances = 1;
	a->config->fallback.rate = (struct rate){
		.algorithm = RATE_TOKEN_BUCKET,
		.count = 100000,
		.window_us = US_PER_S,
		.burst = 100000,
	};
	a->config->store.servers = a->servers;
	a->config->store.n_servers = 1;
	if (socket)
		set_socket(&a->servers[0], socket);
}

void asker_start(struct asker *a)
{
	a->shared = store_shared_new(a->config);
	cr_assert(a->shared);
	a->store = store_new(&a->loop, a->config, a->shared);
	cr_assert(a->store);
}

void asker_stop(struct asker *a)
{
	store_close(a->store);
	a->store = NULL;
	uv_close((uv_handle_t *)&a->alarm, NULL);
	uv_run(&a->loop, UV_RUN_DEFAULT);
	cr_assert(uv_loop_close(&a->loop) == 0, "something is left in the loop");
	store_shared_free(a->shared);
	/* The only reference left is the test's own: the store has given up its. */
	cr_assert(a->config->refs == 1);
	free(a->config);
}

static void on_done(struct take *t)
{
	struct question *q = CONTAINER_OF(t, struct question, take);

	q->answers++;
	q->place = ++q->asker->answered;
	q->answered_us = clock_mono_us();
	if (q->then)
		q->then(q);
}

void question_init(struct question *q, struct asker *a, const char *key, uint64_t count)
{
	*q = (struct question){ .asker = a };
	q->rate = (struct rate){
		.algorithm = RATE_SLIDING_WINDOW,
		.count = count,
		.window_us = 60 * US_PER_S,
		.burst = count,
	};
	q->tier = (struct take_tier){ .key = view_str(key), .rate = &q->rate, .cost = 1 };
	q->take.tiers = &q->tier;
	q->take.n_tiers = 1;
	q->take.done = on_done;
}

void ask(struct question *q)
{
	q->asked_us = clock_mono_us();
	store_take(q->asker->store, &q->take);
}

void asker_run_a_little(struct asker *a)
{
	uv_run(&a->loop, UV_RUN_ONCE);
}

enum decided_by ask_one(struct asker *a, const char *key, uint64_t count)
{
	struct question q;

	question_init(&q, a, key, count);
	ask(&q);
	cr_assert(RUN_UNTIL(a, PATIENCE_MS, q.answers), "no answer");
	a->remaining = q.take.views[0].remaining;
	return q.take.by;
}

bool decided_by_redis_within(struct asker *a, int64_t ms)
{
	return RUN_UNTIL(a, ms, ask_one(a, "rate:test:probe", 1000000) == DECIDED_BY_REDIS);
}
