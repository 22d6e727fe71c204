/*
 * fuzz_redis.c - the connection to Redis, with something at its other end that is like
 * Redis, or like nothing.
 *
 * Questions are asked, cancelled, answered, refused, lost; connections are made, refused,
 * slow, closed and reset; and time passes. Each question ends once, unless it was cancelled,
 * and never inside the call that asks it. While only true replies come, each question gets
 * its own: no late one ever reaches another. Numbers of any verdict are within bounds.
 *
 * Input: the configuration, where to cut (from 128 on: not at all), and then steps (enum
 * step) with what they need.
 */
#include <errno.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "sim.h"
#include "store/redis.h"
#include "store/script.h"

#define GIVEN_MAX 512
#define TAKES_MAX 24
#define ARGS_MAX  64

enum step {
	STEP_SERVE,  /* how the oldest command is answered: see serve() */
	STEP_BYTES,  /* how many; the bytes */
	STEP_ASK,    /* for how many tiers, less one */
	STEP_CANCEL, /* which */
	STEP_CONNECT, /* low bits: what connect() says from now on; 16: it is made; 17: not */
	STEP_ROOM,    /* how much more it reads, in pieces of 64 bytes; 255: all */
	STEP_TIME,    /* in hundredths of a second */
	STEP_LEAVE,   /* 0 close, 1 reset */
	STEPS
};

enum {
	WITH_PASSWORD = 1,
	WITH_DB = 2,
	CONNECT_SLOW = 4,
	TWO_SERVERS = 8,
};

static const int says[] = { 0, EINPROGRESS, ECONNREFUSED, EAGAIN };

struct question {
	struct take take;
	struct take_tier tiers[3];
	char keys[3][16];
	bool pending, true_so_far;
};

struct run {
	struct redis *redis;
	struct health *health;
	struct question list[TAKES_MAX];
	size_t n;
	struct buf seen;
	bool asking, lies; /* bytes that are no replies have been sent */
	bool first;        /* ... before it was asked anything */
	unsigned closed;
	struct sim_socket *server; /* whose commands were served up to: */
	size_t served;
	struct view pieces[GIVEN_MAX];
	size_t n_pieces;
};

static char password[] = "hunter2", prefix[] = "rate";
static struct redis_server servers[] = {
	{ .addr = { .ss.ss_family = AF_UNIX, .len = 3 } },
	{ .addr = { .ss.ss_family = AF_UNIX, .len = 3 } },
};
static struct config config = {
	.refs = 1,
	.store = {
		.type = STORE_REDIS,
		.servers = servers,
		.timeout_ms = 50,
		.breaker_failures = 3,
		.breaker_slow_ms = 20,
		.breaker_pause_ms = 500,
		.prefix = prefix,
	},
};
static const struct rate rate = {
	.algorithm = RATE_FIXED_WINDOW, .count = 5, .window_us = 1000000, .burst = 5
};

/* -- the owner --------------------------------------------------------------------- */

static void on_answered(void *owner, struct take *t, bool counted)
{
	struct run *r = owner;
	struct question *q = CONTAINER_OF(t, struct question, take);

	MUST(!r->asking && q->pending && !t->link);
	q->pending = false;
	buf_addf(&r->seen, "[%zu %d", (size_t)(q - r->list), counted);
	for (size_t i = 0; counted && i < t->n_tiers; i++) {
		const struct rate_view *v = &t->views[i];

		MUST(v->remaining <= UINT64_C(1) << 53 && v->wait_us >= 0);
		MUST(v->admitted == (v->wait_us == 0) && v->reset_us >= 0);
		MUST(!v->hold_us || v->admitted);
		/* The server puts the number of the question into its verdict. */
		MUST(r->lies || v->remaining == 1000 + (uint64_t)(q - r->list));
		buf_addf(&r->seen, " %d %llu %lld", v->admitted,
			(unsigned long long)v->remaining, (long long)v->wait_us);
	}
	buf_add_byte(&r->seen, ']');
}

static void on_closed(void *owner)
{
	struct run *r = owner;

	r->closed++;
}

static const struct redis_events events = { on_answered, on_closed };

static void ask(struct run *r, size_t tiers)
{
	struct question *q;
	bool taken;

	if (r->n == TAKES_MAX)
		return;
	q = &r->list[r->n++];
	*q = (struct question){ .take = { .tiers = q->tiers, .n_tiers = tiers } };
	for (size_t i = 0; i < tiers; i++) {
		snprintf(q->keys[i], sizeof(q->keys[i]), "k%zu/%zu", r->n - 1, i);
		q->tiers[i] = (struct take_tier){
			.key = view_str(q->keys[i]), .rate = &rate, .cost = 1
		};
	}
	q->pending = true;
	r->asking = true;
	taken = redis_take(r->redis, &q->take);
	r->asking = false;
	if (!taken)
		q->pending = false;
	buf_addf(&r->seen, "[asked %zu %d]", r->n - 1, taken);
}

static void cancel(struct run *r, size_t i)
{
	struct question *q = &r->list[i % TAKES_MAX];

	if (i >= r->n || !q->pending)
		return;
	store_cancel(&q->take);
	MUST(!q->take.link);
	q->pending = false;
}

/* -- the server -------------------------------------------------------------------- */

static void give(struct run *r, struct view bytes, size_t cut)
{
	struct sim_socket *s = sim_last();
	struct view copy, left;

	if (!s || !s->open || r->n_pieces == GIVEN_MAX)
		return;
	copy = left = fuzz_copy(bytes);
	r->pieces[r->n_pieces++] = copy;
	while (left.n)
		sim_give(s, fuzz_take(&left, cut));
}

static bool take_length(struct view *in, char mark, uint64_t *out)
{
	struct view line, all = *in;

	if (!in->n || !memchr(in->p, '\n', in->n))
		return false;
	line = view_cut(&all, '\n');
	MUST(line.n >= 3 && line.p[0] == mark && line.p[line.n - 1] == '\r');
	MUST(view_number(view_of(line.p + 1, line.n - 2), 1 << 20, out));
	*in = view_skip(*in, line.n + 1);
	return true;
}

/* The next whole command on the wire, or 0. What is sent is always commands. */
static size_t next_command(struct run *r, struct view argv[ARGS_MAX])
{
	struct view left, all;
	uint64_t argc, n;

	if (r->server != sim_last()) {
		r->server = sim_last();
		r->served = 0;
	}
	if (!r->server)
		return 0;
	all = left = view_skip(buf_view(&r->server->out), r->served);
	if (!take_length(&left, '*', &argc))
		return 0;
	MUST(argc >= 1 && argc <= ARGS_MAX);
	for (size_t i = 0; i < argc; i++) {
		if (!take_length(&left, '$', &n) || left.n < n + 2)
			return 0;
		argv[i] = view_of(left.p, n);
		left = view_skip(left, n + 2);
	}
	r->served += all.n - left.n;
	return argc;
}

static void put_verdict(struct buf *b, const struct view *argv, uint8_t how)
{
	struct view key = view_skip(argv[3], 1);
	uint64_t question = 0, n;

	MUST(view_number(argv[2], 3, &n));
	if (!view_eq(argv[3], VIEW("rate:probe")))
		MUST(view_number(view_cut(&key, '/'), TAKES_MAX, &question));
	buf_addf(b, "*%llu\r\n:%d\r\n", (unsigned long long)(1 + 5 * n), how & 1);
	for (uint64_t i = 0; i < n; i++)
		buf_addf(b, ":%d\r\n:%llu\r\n:%d\r\n:60\r\n:0\r\n", how & 1,
			1000 + (unsigned long long)question, how & 1 ? 0 : 30);
}

/* Answers the oldest command as Redis would, or with an error. */
static void serve(struct run *r, uint8_t how, size_t cut)
{
	static const char *const errors[] = { "-NOSCRIPT No matching script.",
		"-LOADING Redis is loading", "-OOM command not allowed",
		"-READONLY You can't write", "-NOAUTH Authentication required.",
		"-BADSTATE key k holds", "-MOVED 1 127.0.0.1:1", "-ERR other" };
	struct view argv[ARGS_MAX];
	struct buf b = { 0 };
	size_t argc = next_command(r, argv);

	if (argc == 0)
		return;
	/* One that is too old repeats what it does not know. */
	if (how == 255 && view_eq(argv[0], VIEW("AUTH")))
		buf_addf(&b, "-ERR unknown command `AUTH`, with args: `%s`\r\n", password);
	else if (how >= 128)
		buf_addf(&b, "%s\r\n", errors[how % COUNT_OF(errors)]);
	else if (view_eq(argv[0], VIEW("AUTH")) || view_eq(argv[0], VIEW("SELECT")))
		buf_add_str(&b, "+OK\r\n");
	else if (view_eq(argv[0], VIEW("INFO")))
		buf_add_str(&b, "$42\r\nredis_version:7.0.1\r\nredis_mode:standalone\r\n");
	else if (view_eq(argv[0], VIEW("SCRIPT")))
		buf_addf(&b, "$40\r\n%s\r\n", script_sha());
	else if (argc >= 4)
		put_verdict(&b, argv, how);
	give(r, buf_view(&b), cut);
	buf_release(&b);
}

/* -- the steps --------------------------------------------------------------------- */

static void connect_step(struct sim_socket *s, uint8_t n)
{
	if (n < 16)
		sim_connect_says = says[n % COUNT_OF(says)];
	else if (s && s->connecting)
		sim_connected(s, n % 2 ? ECONNREFUSED : 0);
}

static void step(struct run *r, struct view *in, size_t cut)
{
	uint8_t what = fuzz_byte(in) % STEPS, n = fuzz_byte(in);
	struct sim_socket *s = sim_last();

	switch ((enum step)what) {
	case STEP_SERVE: serve(r, n, cut); break;
	case STEP_BYTES:
		r->lies = true;
		r->first = r->first || (s && s->out.n == 0);
		give(r, fuzz_take(in, n), cut);
		break;
	case STEP_ASK: ask(r, 1 + n % 3); break;
	case STEP_CANCEL: cancel(r, n); break;
	case STEP_CONNECT: connect_step(s, n); break;
	case STEP_ROOM:
		if (s && n == 255)
			s->room = SIM_ROOM;
		else if (s)
			s->room = (s->room == SIM_ROOM ? 0 : s->room) + n * 64u;
		break;
	case STEP_TIME: sim_pass(n * 10); break;
	case STEP_LEAVE:
		if (s && s->open && n % 2)
			sim_reset(s);
		else if (s && s->open)
			sim_eof(s);
		break;
	case STEPS: break;
	}
	sim_settle();
}

static struct buf run(struct view in, size_t cut)
{
	static struct run state, *const r = &state;
	uint8_t flags = fuzz_byte(&in);

	*r = (struct run){ 0 };
	config.store.password = flags & WITH_PASSWORD ? password : NULL;
	config.store.n_servers = flags & TWO_SERVERS ? 2 : 1;
	servers[0].db = flags & WITH_DB ? 3 : 0;
	sim_connect_says = flags & CONNECT_SLOW ? EINPROGRESS : 0;
	fuzz_byte(&in);
	r->health = health_new();
	MUST(r->health);
	r->redis = redis_new(&sim_loop, &config, r->health, &events, r);
	MUST(r->redis);
	sim_settle();
	while (in.n)
		step(r, &in, cut);
	/* Time answers what nobody does. */
	sim_pass(1000);
	sim_settle();
	for (size_t i = 0; i < r->n; i++)
		MUST(!r->list[i].pending);
	MUST(!strstr(redis_state(r->redis), "hunter2") || r->lies);
	ask(r, 1);
	redis_close(r->redis);
	sim_settle();
	MUST(r->closed == 1);
	for (size_t i = 0; i < r->n; i++)
		MUST(!r->list[i].take.link);
	health_free(r->health);
	sim_end();
	for (size_t i = 0; i < r->n_pieces; i++)
		fuzz_drop(r->pieces[i]);
	/* What the first word of a server is taken for depends on whether it came whole before
	 * the first question was sent, so here the cut matters. */
	if (r->first)
		buf_reset(&r->seen);
	return r->seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return sim_in_any_cut(data, size, run);
}
