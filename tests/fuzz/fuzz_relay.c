/*
 * fuzz_relay.c - a request at a FastCGI application, which may say anything at any time.
 *
 * The relay is driven from both ends: connections that are refused, slow or made, records
 * that are nearly right, closing and resetting from the application; pausing and leaving
 * from the owner; and time between them. The owner sees head, body and end in an order
 * that makes sense, and what it sees is what proxy/answer makes of the content of STDOUT.
 * The application gets whole records. However its bytes are cut, all of it is the same.
 *
 * Input: the request, where to cut (from 128 on: not at all), and then steps (enum step)
 * with what they need.
 */
#include <errno.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "proxy/addresses.h"
#include "proxy/relay_kind.h"
#include "sim.h"

#define GIVEN_MAX    512
#define REQUESTS_MAX 6

enum step {
	STEP_RECORD,    /* type, id, length of the content, padding; the content */
	STEP_BYTES,     /* how many; the bytes */
	STEP_CONNECT,   /* what connect() says from now on: see says */
	STEP_CONNECTED, /* 0 it is, 1 it is refused */
	STEP_ROOM,      /* how much more it reads, in pieces of 64 bytes; 255: all */
	STEP_TIME,      /* in tenths of a second */
	STEP_LEAVE,     /* 0 close, 1 reset */
	STEP_OWNER,     /* 0 pause, 1 resume, 2 cancel, 3 another request */
	STEPS
};

enum {
	METHOD_HEAD = 1,
	METHOD_POST = 2,
	KEEP = 4,
	CONNECT_SLOW = 8,
};

static const int says[] = { 0, EINPROGRESS, ECONNREFUSED, EAGAIN };

struct run {
	uint8_t flags;
	struct relay *relay; /* while it is under way */
	struct request rq;
	struct relay_job job;
	struct buf seen; /* events, heads and bodies, as the owner saw them */
	struct buf head, body;
	bool starting, headed;
	unsigned requests;
	bool plain; /* what was seen can be told from what was given */
	struct buf said;
	struct view pieces[GIVEN_MAX];
	size_t n_pieces;
};

static char backend_name[] = "app";
static struct net_addr addrs[] = {
	{ .ss.ss_family = AF_UNIX, .len = 3, .text = "unix:/a" },
	{ .ss.ss_family = AF_UNIX, .len = 3, .text = "unix:/b" },
};
static struct backend backend = {
	.name = backend_name,
	.kind = BACKEND_FASTCGI,
	.addrs = addrs,
	.n_addrs = COUNT_OF(addrs),
	.connect_timeout_ms = 1000,
	.first_byte_timeout_ms = 1000,
	.idle_timeout_ms = 1000,
	.timeout_ms = 5000,
	.retry = RETRY_SAFE,
	.keep_idle_ms = 2000,
};
static struct spool body;

/* -- the owner --------------------------------------------------------------------- */

static void on_head(void *user, const struct answer *a)
{
	struct run *r = user;

	MUST(r->relay && !r->starting && !r->headed);
	MUST(a->status >= 200 && a->status <= 599);
	r->headed = true;
	buf_add_str(&r->seen, "\n[head]\n");
	buf_add(&r->seen, buf_view(&a->head));
	buf_add(&r->head, buf_view(&a->head));
}

static void on_body(void *user, struct view piece)
{
	struct run *r = user;

	MUST(r->relay && !r->starting && r->headed && piece.n);
	buf_add(&r->seen, piece);
	buf_add(&r->body, piece);
}

static void on_end(void *user, enum relay_end how, const char *why)
{
	struct run *r = user;

	MUST(r->relay && !r->starting);
	MUST(r->headed == (how <= RELAY_TRUNCATED));
	MUST(how == RELAY_WHOLE || (why && *why));
	r->relay = NULL;
	buf_addf(&r->seen, "\n[end %d %s]\n", how, why ? why : "");
}

static const struct relay_events events = { on_head, on_body, on_end };

static void ask(struct run *r)
{
	if (r->relay || r->requests == REQUESTS_MAX)
		return;
	r->requests++;
	r->headed = false;
	r->starting = true;
	r->relay = relay_start(&sim_loop, &r->job, &events, r);
	MUST(r->relay);
	r->starting = false;
}

static void do_owner(struct run *r, uint8_t what)
{
	switch (what % 4) {
	case 0:
		if (r->relay)
			relay_pause(r->relay);
		break;
	case 1:
		if (r->relay)
			relay_resume(r->relay);
		break;
	case 2:
		r->plain = false;
		if (r->relay)
			relay_cancel(r->relay);
		r->relay = NULL;
		break;
	default: r->plain = false; ask(r);
	}
}

/* -- the steps --------------------------------------------------------------------- */

/* Gives bytes to the connection in use, in pieces of at most cut. */
static void give(struct run *r, struct view bytes, size_t cut)
{
	struct sim_socket *s = sim_last();
	struct view copy, left;

	if (!s || !s->open || s->eof || s->error || r->n_pieces == GIVEN_MAX)
		return;
	copy = left = fuzz_copy(bytes);
	r->pieces[r->n_pieces++] = copy;
	buf_add(&r->said, bytes);
	while (left.n)
		sim_give(s, fuzz_take(&left, cut));
}

static void give_record(struct run *r, struct view *in, size_t cut)
{
	struct buf b = { 0 };

	fuzz_record(in, &b);
	give(r, buf_view(&b), cut);
	buf_release(&b);
}

static void step(struct run *r, struct view *in, size_t cut)
{
	uint8_t what = fuzz_byte(in) % STEPS, n = 0;
	struct sim_socket *s = sim_last();

	if (what != STEP_RECORD)
		n = fuzz_byte(in);
	switch ((enum step)what) {
	case STEP_RECORD: give_record(r, in, cut); break;
	case STEP_BYTES: give(r, fuzz_take(in, n), cut); break;
	case STEP_CONNECT: sim_connect_says = says[n % COUNT_OF(says)]; break;
	case STEP_CONNECTED:
		if (s && s->connecting)
			sim_connected(s, n % 2 ? ECONNREFUSED : 0);
		break;
	case STEP_ROOM:
		if (s && n == 255)
			s->room = SIM_ROOM;
		else if (s)
			s->room = (s->room == SIM_ROOM ? 0 : s->room) + n * 64u;
		break;
	case STEP_TIME:
		r->plain = false;
		sim_pass(n * 100);
		break;
	case STEP_LEAVE:
		r->plain = r->plain && n % 2 == 0;
		if (s && s->open && n % 2)
			sim_reset(s);
		else if (s && s->open)
			sim_eof(s);
		break;
	case STEP_OWNER: do_owner(r, n); break;
	case STEPS: break;
	}
	sim_settle();
}

/* -- what has to hold -------------------------------------------------------------- */

/* What an application got is a request, in whole records or up to where it stopped. */
static void check_sent(const struct sim_socket *s)
{
	struct record_reader reader = { 0 };
	struct view in = buf_view(&s->out), piece;
	enum record_event event;
	uint8_t before = 0;

	while ((event = record_next(&reader, &in, &piece)) != RECORD_MORE) {
		MUST(event != RECORD_BAD && reader.id == 1);
		if (event != RECORD_BEGINS)
			continue;
		switch (reader.type) {
		case FCGI_BEGIN_REQUEST: MUST(before == 0 || before == FCGI_STDIN); break;
		case FCGI_PARAMS:
			MUST(before == FCGI_BEGIN_REQUEST || before == FCGI_PARAMS);
			break;
		case FCGI_STDIN: MUST(before == FCGI_PARAMS || before == FCGI_STDIN); break;
		default: MUST(!"a record that no web server sends");
		}
		before = reader.type;
	}
}

/* STDOUT, as far as it can be believed. */
static void read_stdout(struct view said, struct buf *out)
{
	struct record_reader reader = { 0 };
	struct view piece;
	enum record_event event;
	bool over = false;

	while ((event = record_next(&reader, &said, &piece)) != RECORD_MORE) {
		if (event == RECORD_BAD || reader.id != 1 ||
			(reader.type != FCGI_STDOUT && reader.type != FCGI_STDERR &&
				reader.type != FCGI_END_REQUEST))
			return;
		if (event == RECORD_CONTENT && reader.type == FCGI_STDOUT && !over)
			buf_add(out, piece);
		if (event != RECORD_ENDS)
			continue;
		if (reader.type == FCGI_END_REQUEST)
			return;
		over = over || (reader.type == FCGI_STDOUT && reader.content_n == 0);
	}
}

/* The same by itself: the content of STDOUT, and what an answer is. */
static void check_seen(const struct run *r)
{
	struct buf out = { 0 }, head = { 0 }, content = { 0 };
	struct view left, piece;
	struct answer a;

	read_stdout(buf_view(&r->said), &out);
	left = buf_view(&out);
	answer_init(&a, r->flags & METHOD_HEAD);
	for (bool more = true; more;) {
		switch (answer_next(&a, &left, &piece)) {
		case ANSWER_HEAD: buf_add(&head, buf_view(&a.head)); break;
		case ANSWER_BODY: buf_add(&content, piece); break;
		default: more = false;
		}
	}
	MUST(view_eq(buf_view(&head), buf_view(&r->head)));
	MUST(view_eq(buf_view(&content), buf_view(&r->body)));
	answer_release(&a);
	buf_release(&out);
	buf_release(&head);
	buf_release(&content);
}

static void prepare(struct run *r, uint8_t flags)
{
	*r = (struct run){ .flags = flags, .plain = true };
	request_init(&r->rq, FCGI_RESPONDER);
	pairs_put(&r->rq.head, VIEW("REQUEST_METHOD"),
		flags & METHOD_POST           ? VIEW("POST")
			: flags & METHOD_HEAD ? VIEW("HEAD")
					      : VIEW("GET"));
	pairs_put(&r->rq.head, VIEW("REQUEST_URI"), VIEW("/x?y"));
	MUST(request_index(&r->rq));
	if (flags & METHOD_POST)
		r->flags &= (uint8_t)~METHOD_HEAD;
	spool_init(&body, 1000, 1000, "/nonexistent");
	if (flags & METHOD_POST)
		MUST(spool_add(&body, VIEW("a body of some bytes")) == SPOOL_OK);
	backend.keep = flags & KEEP ? 2 : 0;
	backend.known = addresses_new(&backend);
	MUST(backend.known);
	sim_connect_says = flags & CONNECT_SLOW ? EINPROGRESS : 0;
	r->job = (struct relay_job){ .backend = &backend,
		.request = &r->rq,
		.body = &body,
		.path = VIEW("/x"),
		.query = VIEW("y") };
}

static struct buf run(struct view in, size_t cut)
{
	static struct run state, *const r = &state;
	struct sim_socket *s;

	prepare(r, fuzz_byte(&in));
	fuzz_byte(&in);
	ask(r);
	sim_settle();
	s = sim_last();
	while (in.n)
		step(r, &in, cut);
	/* One connection, read to its end. */
	if (r->plain && s && s == sim_last() && !s->connecting)
		do_owner(r, 1);
	sim_settle();
	if (r->plain && s && s == sim_last() && !s->connecting)
		check_seen(r);
	if (r->relay)
		relay_cancel(r->relay);
	if (sim_last())
		check_sent(sim_last());
	relays_end();
	sim_settle();
	sim_end();
	addresses_unref(backend.known);
	for (size_t i = 0; i < r->n_pieces; i++)
		fuzz_drop(r->pieces[i]);
	request_release(&r->rq);
	spool_release(&body);
	buf_release(&r->head);
	buf_release(&r->body);
	buf_release(&r->said);
	return r->seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return sim_in_any_cut(data, size, run);
}
