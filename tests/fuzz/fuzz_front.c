/*
 * fuzz_front.c - a connection from a web server, which may say anything at any time.
 *
 * The front is driven from both ends: bytes, records that are nearly right, closing and
 * resetting from the web server; answers, pauses and breaking off from the owner; and
 * time between them. The owner sees head, body, end of the body and gone in an order that
 * makes sense. The peer gets records, whose content is what the owner wrote. However the
 * bytes are cut, all of it is the same; but for what follows an answer that is given
 * before the end of a body: whether the connection is kept depends on whether the rest has
 * come by then.
 *
 * Input: what the owner does with a head, where to cut (from 128 on: not at all), and then
 * steps (enum step) with what they need.
 */
#include "front/connection.h"
#include "fuzz.h"
#include "sim.h"

#define GIVEN_MAX 512
#define CYCLE     251 /* bytes after which what is answered begins again */

enum step {
	STEP_RECORD, /* type, id, length of the content, padding; the content */
	STEP_BYTES,  /* how many; the bytes */
	STEP_WRITE,  /* how many bytes; 255: more than the queue should hold, if the peer
		      * does not read, and once: it takes its time */
	STEP_END,    /* 0 finish, 1 and 2 abort */
	STEP_PAUSE,  /* 0 stop, 1 resume */
	STEP_ROOM,   /* how much more the peer reads, in pieces of 64 bytes; 255: all */
	STEP_TIME,   /* in tenths of a second */
	STEP_LEAVE,  /* 0 close, 1 reset, 2 weir ends, 3 it wants room for others */
	STEPS
};

enum plan {
	PLAN_WORK,   /* the owner goes on by itself */
	PLAN_FINISH, /* it answers at once */
	PLAN_CLOSE,  /* it wants none of this */
	PLANS
};

/* One run over an input. */
struct run {
	struct connections set;
	struct sim_socket *socket;
	unsigned plan;
	struct front *front; /* while the owner has a request */
	struct buf seen;     /* events and body, as the owner saw them */
	size_t sure;         /* of it, what no cut changes, once early */
	bool bodiless, early;
	size_t wrote; /* bytes it answered, of those in said */
	bool body_ended, aborted, full;
	unsigned closed;
	struct view pieces[GIVEN_MAX];
	size_t n_pieces;
};

static struct config config = {
	.refs = 1,
	.server = {
		.head_limit = 512,
		.head_timeout_ms = 1000,
		.body_limit = 4096,
		.body_timeout_ms = 1000,
		.send_timeout_ms = 1000,
		.drain_timeout_ms = 1000,
	},
};

/* What is answered: at any position, and in any length that is written at once. */
static char said[132000 + CYCLE];

void fuzz_begin(void)
{
	for (size_t i = 0; i < sizeof(said); i++)
		said[i] = (char)(i % CYCLE);
}

/* -- the owner --------------------------------------------------------------------- */

static void answer(struct run *r, struct front *f, uint8_t how)
{
	bool much = how == 255 && r->socket->room < 1000 && r->wrote < 65536;
	size_t n = much ? sizeof(said) - CYCLE : how;

	r->full = !front_write(f, view_of(said + r->wrote % CYCLE, n));
	r->wrote += n;
}

static void finish(struct run *r, struct front *f)
{
	if (!r->early && !r->body_ended && !r->bodiless) {
		r->early = true;
		r->sure = r->seen.n;
	}
	front_finish(f);
}

static void *on_head(void *owner, struct front *f, struct request *rq, int problem)
{
	struct run *r = owner;
	uint64_t length = 0;
	bool given;

	MUST(!r->front);
	MUST(problem == 0 || problem == 431);
	MUST(rq->role == FCGI_RESPONDER || rq->role == FCGI_AUTHORIZER);
	MUST(rq->head.n <= config.server.head_limit);
	MUST(!problem || (!rq->head.n && !rq->n_params));
	buf_addf(&r->seen, "\n[head %d %u %zu]\n", problem, rq->role, rq->n_params);
	for (size_t i = 0; i < rq->n_params; i++)
		pairs_put(&r->seen, rq->params[i].name, rq->params[i].value);
	r->bodiless = !problem && request_content_length(rq, &length, &given) && !length;
	request_release(rq);
	r->body_ended = rq->role == FCGI_AUTHORIZER;
	r->full = false;
	switch (r->plan % PLANS) {
	case PLAN_FINISH:
		answer(r, f, 10);
		finish(r, f);
		return NULL;
	case PLAN_CLOSE: return NULL;
	default: r->front = f; return r;
	}
}

static void on_body(void *user, struct view bytes)
{
	struct run *r = user;

	MUST(r->front && bytes.n && !r->body_ended);
	buf_add(&r->seen, bytes);
}

static void on_body_end(void *user)
{
	struct run *r = user;

	MUST(r->front && !r->body_ended);
	r->body_ended = true;
	buf_add_str(&r->seen, "\n[end]\n");
}

static void on_writable(void *user)
{
	struct run *r = user;

	MUST(r->front && r->full);
	r->full = false;
	buf_add_str(&r->seen, "\n[writable]\n");
}

static void on_gone(void *user, enum front_gone why)
{
	struct run *r = user;

	MUST(r->front);
	r->front = NULL;
	buf_addf(&r->seen, "\n[gone %d]\n", why);
}

static const struct front_events events = { on_head, on_body, on_body_end, on_writable,
	on_gone };

static void on_closed(void *owner)
{
	struct run *r = owner;

	r->closed++;
}

/* -- the steps --------------------------------------------------------------------- */

/* Gives bytes in pieces of at most cut. */
static void give(struct run *r, struct view bytes, size_t cut)
{
	struct view copy = fuzz_copy(bytes), left = copy;

	if (r->n_pieces == GIVEN_MAX) {
		fuzz_drop(copy);
		return;
	}
	r->pieces[r->n_pieces++] = copy;
	while (left.n)
		sim_give(r->socket, fuzz_take(&left, cut));
}

static void give_record(struct run *r, struct view *in, size_t cut)
{
	struct buf b = { 0 };

	fuzz_record(in, &b);
	give(r, buf_view(&b), cut);
	buf_release(&b);
}

static void end_answer(struct run *r, uint8_t how)
{
	struct front *f = r->front;

	if (!f)
		return;
	r->front = NULL;
	if (how % 3 == 0) {
		finish(r, f);
		return;
	}
	r->aborted = true;
	front_abort(f, how % 3 == 1);
}

static void leave(struct run *r, uint8_t how)
{
	switch (how % 4) {
	case 0: sim_eof(r->socket); break;
	case 1: sim_reset(r->socket); break;
	case 2: connections_stop(&r->set); break;
	default: connections_make_room(&r->set);
	}
}

static void step(struct run *r, struct view *in, size_t cut)
{
	uint8_t what = fuzz_byte(in) % STEPS, n = 0;

	if (what != STEP_RECORD)
		n = fuzz_byte(in);
	switch ((enum step)what) {
	case STEP_RECORD: give_record(r, in, cut); break;
	case STEP_BYTES: give(r, fuzz_take(in, n), cut); break;
	case STEP_WRITE:
		if (r->front)
			answer(r, r->front, n);
		break;
	case STEP_END: end_answer(r, n); break;
	case STEP_PAUSE:
		if (r->front && n % 2)
			front_body_resume(r->front);
		else if (r->front)
			front_body_stop(r->front);
		break;
	case STEP_ROOM:
		if (n == 255)
			r->socket->room = SIM_ROOM;
		else if (r->socket->room == SIM_ROOM)
			r->socket->room = n * 64u;
		else
			r->socket->room += n * 64u;
		break;
	case STEP_TIME: sim_pass(n * 100); break;
	case STEP_LEAVE: leave(r, n); break;
	case STEPS: break;
	}
	sim_settle();
}

/* -- what has to hold -------------------------------------------------------------- */

/* What the peer got is records that this side may send, in whole or up to where it
 * stopped reading; together their content is what was answered. */
static void check_sent(const struct run *r)
{
	struct record_reader reader = { 0 };
	struct view in = buf_view(&r->socket->out), piece;
	enum record_event event;
	size_t got = 0;

	while ((event = record_next(&reader, &in, &piece)) != RECORD_MORE) {
		if (event == RECORD_BAD) {
			MUST(r->aborted && in.n == 0);
			return;
		}
		if (event == RECORD_BEGINS) {
			MUST(reader.type == FCGI_STDOUT ||
				reader.type == FCGI_END_REQUEST ||
				reader.type == FCGI_GET_VALUES_RESULT ||
				reader.type == FCGI_UNKNOWN_TYPE);
			MUST((reader.id == 0) == (reader.type >= FCGI_GET_VALUES_RESULT));
			MUST(reader.padding_left == 0 || r->aborted);
		}
		if (event == RECORD_CONTENT && reader.type == FCGI_STDOUT) {
			MUST(piece.n <= r->wrote - got);
			MUST(memcmp(piece.p, said + got % CYCLE, piece.n) == 0);
			got += piece.n;
		}
	}
}

static void run(struct run *r, struct view in, size_t cut)
{
	int fd = sim_socket_new();

	r->plan = fuzz_byte(&in);
	r->socket = sim_socket(fd);
	MUST(connections_init(&r->set, &sim_loop, &events, r, on_closed) == 0);
	connections_configure(&r->set, &config);
	MUST(connections_add(&r->set, fd));
	fuzz_byte(&in);
	while (in.n && !r->closed)
		step(r, &in, cut);
	check_sent(r);
	connections_stop(&r->set);
	sim_settle();
	connections_break(&r->set);
	sim_settle();
	MUST(!r->front && r->closed == 1 && r->set.n == 0 && !r->set.all);
	connections_release(&r->set);
	sim_settle();
	for (size_t i = 0; i < r->n_pieces; i++)
		fuzz_drop(r->pieces[i]);
}

/* What goes on the wire before a peer that breaks the protocol is let go depends on when
 * it is read. */
static void check_same(const struct view *a, const struct view *b)
{
	struct view shorter = a->n < b->n ? *a : *b, longer = a->n < b->n ? *b : *a;

	MUST(view_starts(longer, shorter));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run whole, cut;
	static struct buf sent;
	struct view in = view_of((const char *)data, size), first, second;
	struct buf other = sent;

	if (size < 2)
		return 0;
	whole = (struct run){ 0 };
	run(&whole, in, SIZE_MAX);
	sent = whole.socket->out;
	whole.socket->out = other;
	sim_end();
	if (data[1] < 128) {
		cut = (struct run){ 0 };
		run(&cut, in, 1 + data[1] % 32);
		first = buf_view(&sent);
		second = buf_view(&cut.socket->out);
		MUST(whole.early == cut.early && whole.sure == cut.sure);
		if (whole.early)
			whole.seen.n = cut.seen.n = whole.sure;
		MUST(view_eq(buf_view(&whole.seen), buf_view(&cut.seen)));
		check_same(&first, &second);
		buf_release(&cut.seen);
		sim_end();
	}
	buf_release(&whole.seen);
	return 0;
}
