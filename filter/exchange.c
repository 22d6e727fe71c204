/*
 * exchange.c - the stations of a request, in order.
 *
 * Each station runs until it is done or has to wait; a wait returns STEP_PARK and the
 * event that ends it calls run() again. A station that answers goes straight to
 * AT_REPLY. Whatever happens, an exchange ends in finish() or, when its client left,
 * in gone(): both log, count and free.
 *
 * The decision needs the head alone, so it comes before the body: a refused upload is
 * never read. A body that passes is read to its end before the backend is called.
 */
#include "exchange.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "client/client.h"
#include "limit/limit.h"
#include "limit/path.h"
#include "proxy/relay.h"
#include "proxy/reply.h"
#include "proxy/spool.h"

enum station {
	AT_HEAD,    /* is there a head, and does it make sense */
	AT_CLIENT,  /* who is asking */
	AT_MATCH,   /* which endpoint, which backend */
	AT_DECIDE,  /* until the store has answered */
	AT_BODY,    /* until the body is spooled */
	AT_BACKEND, /* until the backend has answered; its answer passes through */
	AT_REPLY,   /* our own answer goes out */
	AT_END,
};

enum step {
	STEP_NEXT, /* on to the next station, or to the one that was set */
	STEP_PARK, /* an event will call run() again */
};

struct exchange {
	struct exchanges *set;
	struct exchange *next, **link;
	struct config *config;
	struct front *front;

	enum station at;
	bool running; /* run() is on the stack: events only leave their mark */
	bool decided;
	bool body_ended;
	bool body_stopped;
	bool relay_full; /* the relay is paused until the front has room */
	int problem;     /* the front's, or the body's: status to answer with */

	struct request rq;
	struct buf scratch;           /* path where REQUEST_URI is missing */
	struct buf path;              /* canonical */
	struct request_target target; /* as sent */
	struct client client;
	const struct endpoint *endpoint; /* NULL: none matched */
	const struct backend *backend;   /* NULL: nobody to ask */
	struct decision decision;
	struct spool body;
	struct relay *relay;
	struct pair extra[4]; /* what handlers are told */
	struct reply reply;

	int64_t started_us;
	int status;        /* of the answer; 0 until one is chosen */
	uint64_t answer_n; /* bytes of it */
};

/* -- beginning and end ------------------------------------------------------------- */

static struct exchange *exchange_new(
	struct exchanges *set, struct front *f, struct request *rq)
{
	struct exchange *x = calloc(1, sizeof(*x));
	const struct config *c = set->config;

	if (!x) {
		request_release(rq);
		return NULL;
	}
	x->set = set;
	x->link = &set->all;
	x->next = set->all;
	if (x->next)
		x->next->link = &x->next;
	set->all = x;
	set->n++;
	x->config = config_ref(set->config);
	x->front = f;
	x->rq = *rq;
	x->started_us = clock_mono_us();
	spool_init(&x->body, c->server.body_limit, c->server.spool_memory,
		c->server.spool_dir);
	count_one(COUNT_exchanges_open);
	return x;
}

static void exchange_free(struct exchange *x)
{
	*x->link = x->next;
	if (x->next)
		x->next->link = x->link;
	x->set->n--;
	limit_cancel(&x->decision);
	limit_release(&x->decision);
	if (x->relay)
		relay_cancel(x->relay);
	reply_release(&x->reply);
	spool_release(&x->body);
	request_release(&x->rq);
	buf_release(&x->scratch);
	buf_release(&x->path);
	config_unref(x->config);
	count_add(COUNT_exchanges_open, -1);
	free(x);
}

static const char *rule_label(const struct verdict *v)
{
	if (!v->worst)
		return "";
	return v->worst->tier ? v->worst->tier->label : "fallback";
}

static void log_exchange(const struct exchange *x, const char *event)
{
	const struct verdict *v = &x->decision.verdict;
	enum log_requests wanted = x->config->log.requests;
	bool refused = x->decided && v->outcome != OUTCOME_PASS;

	if (wanted == LOG_REQUESTS_NONE || (wanted == LOG_REQUESTS_REFUSED && !refused))
		return;
	log_write(LOG_LEVEL_INFO, event,
		(const struct log_field[]){
			LOG_STR("id", x->rq.id),
			LOG_INT("status", x->status),
			LOG_STR("client", x->client.address),
			LOG_VIEW("user", x->client.user),
			LOG_VIEW("method", request_param(&x->rq, "REQUEST_METHOD")),
			LOG_VIEW("path", buf_view(&x->path)),
			LOG_STR("endpoint", x->endpoint ? x->endpoint->name : ""),
			LOG_STR("rule", rule_label(v)),
			LOG_INT("body_bytes", x->body.n),
			LOG_INT("answer_bytes", x->answer_n),
			LOG_INT("duration_us", clock_mono_us() - x->started_us),
			{ 0 },
		});
}

static void finish(struct exchange *x)
{
	log_exchange(x, "request");
	exchange_free(x);
}

/* -- what is said ------------------------------------------------------------------ */

static bool put(struct exchange *x, struct view bytes)
{
	x->answer_n += bytes.n;
	return front_write(x->front, bytes);
}

/* An answer of our own, in place of whatever station comes next. */
static enum step answer(
	struct exchange *x, int status, const char *message, int64_t retry_after)
{
	x->status = status;
	x->at = AT_REPLY;
	reply_release(&x->reply);
	reply_error(&x->reply, status, message, retry_after, x->rq.id);
	return STEP_NEXT;
}

static void count_refusal(enum outcome outcome)
{
	if (outcome == OUTCOME_REFUSED)
		count_one(COUNT_requests_refused);
	else if (outcome == OUTCOME_FORBIDDEN)
		count_one(COUNT_requests_forbidden);
}

static enum step refuse(struct exchange *x)
{
	static const int status_of[] = {
		[OUTCOME_REFUSED] = 429,
		[OUTCOME_FORBIDDEN] = 403,
		[OUTCOME_UNAVAILABLE] = 503,
	};
	const struct verdict *v = &x->decision.verdict;

	count_refusal(v->outcome);
	x->status = status_of[v->outcome];
	x->at = AT_REPLY;
	reply_refusal(&x->reply, x->config, v, x->endpoint, x->rq.id);
	return STEP_NEXT;
}

/* What the handler, or the web server in front of it, is told about the client. */
static size_t describe(struct exchange *x)
{
	size_t n = 0;

	x->extra[n++] = (struct pair){ VIEW("WEIR_REQUEST_ID"), view_str(x->rq.id) };
	x->extra[n++] = (struct pair){ VIEW("WEIR_CLIENT"), view_str(x->client.address) };
	x->extra[n++] = (struct pair){ VIEW("WEIR_USER"), x->client.user };
	x->extra[n++] = (struct pair){ VIEW("WEIR_PLAN"), view_str(x->client.plan) };
	return n;
}

/* A user's name may hold anything; a field's value may not. */
static void add_field_value(struct buf *head, struct view v)
{
	for (size_t i = 0; i < v.n; i++)
		buf_add_byte(
			head, (unsigned char)v.p[i] < ' ' || v.p[i] == 0x7f ? '?' : v.p[i]);
}

/* An authorizer's yes (FastCGI Specification 1.0, section 6.3). */
static enum step allow(struct exchange *x)
{
	struct buf *head = &x->reply.head;

	x->status = 200;
	x->at = AT_REPLY;
	buf_add_str(head, "Status: 200 OK\r\n");
	for (size_t i = 0, n = describe(x); i < n; i++) {
		buf_add_str(head, "Variable-");
		buf_add(head, x->extra[i].name);
		buf_add_str(head, ": ");
		add_field_value(head, x->extra[i].value);
		buf_add_str(head, "\r\n");
	}
	count_one(COUNT_requests_passed);
	return STEP_NEXT;
}

/* -- the stations ------------------------------------------------------------------ */

static enum step check_head(struct exchange *x)
{
	uint64_t length = 0;
	bool given;

	if (x->problem == 431) {
		count_one(COUNT_requests_oversized);
		return answer(x, 431, "The request's header fields are too large", 0);
	}
	if (!request_content_length(&x->rq, &length, &given)) {
		count_one(COUNT_requests_bad);
		return answer(x, 400, "CONTENT_LENGTH is not a number", 0);
	}
	x->target = request_target(&x->rq, &x->scratch);
	path_canonical(x->target.path, &x->path);
	if (!buf_ok(&x->scratch) || !buf_ok(&x->path))
		return answer(x, 503, "Out of memory", 1);
	return STEP_NEXT;
}

static enum step identify(struct exchange *x)
{
	client_identify(&x->client, x->config, &x->rq);
	if (x->client.exempt)
		count_one(COUNT_requests_exempt);
	return STEP_NEXT;
}

static enum step match(struct exchange *x)
{
	x->endpoint = limit_match(x->config, &x->rq, buf_view(&x->path), x->target.query);
	x->backend = x->endpoint && x->endpoint->backend ? x->endpoint->backend
							 : x->config->server.backend;
	return STEP_NEXT;
}

static bool run(struct exchange *x);

static void decision_done(struct decision *d)
{
	struct exchange *x = CONTAINER_OF(d, struct exchange, decision);

	x->decided = true;
	if (!x->running)
		run(x);
}

/* Requests that a rule in shadow mode would have refused. */
static void count_shadow(const struct verdict *v)
{
	bool over = false;

	for (size_t i = 0; i < v->n_tiers; i++)
		over = over || !v->tiers[i].admitted;
	if (over)
		count_one(COUNT_requests_over_shadow);
}

/* By its role, or because the web server says so: nginx asks its auth_request as a
 * responder. A client cannot say so, its fields come as HTTP_... */
static bool is_authorizer(const struct exchange *x)
{
	return x->rq.role == FCGI_AUTHORIZER ||
		view_eq(request_param(&x->rq, "WEIR_ROLE"), VIEW("authorizer"));
}

static enum step decide(struct exchange *x)
{
	const struct verdict *v = &x->decision.verdict;

	if (!x->decided && !x->decision.done) {
		x->decision.done = decision_done;
		limit_decide(
			&x->decision, x->set->store, x->config, x->endpoint, &x->client);
	}
	if (!x->decided)
		return STEP_PARK;
	if (v->outcome != OUTCOME_PASS)
		return refuse(x);
	count_shadow(v);
	return is_authorizer(x) ? allow(x) : STEP_NEXT;
}

/* The body of a request that passed; what came during the decision is spooled already. */
static enum step read_body(struct exchange *x)
{
	uint64_t length = 0;
	bool given;

	request_content_length(&x->rq, &length, &given);
	if (!x->backend) {
		count_one(COUNT_requests_unmatched);
		return answer(x, 404, "No endpoint has this path", 0);
	}
	if (x->problem == 413 || length > x->config->server.body_limit) {
		count_one(COUNT_requests_oversized);
		return answer(x, 413, "The request's body is too large", 0);
	}
	if (x->problem)
		return answer(x, x->problem, "The request's body cannot be stored", 1);
	/* Also after its end: then the peer is only watched. */
	x->body_stopped = false;
	front_body_resume(x->front);
	if (!x->body_ended)
		return STEP_PARK;
	if (given && length != x->body.n) {
		count_one(COUNT_requests_bad);
		return answer(x, 400, "The body is not as long as CONTENT_LENGTH says", 0);
	}
	return STEP_NEXT;
}

static const struct relay_events relay_events;

static enum step call_backend(struct exchange *x)
{
	if (x->relay)
		return STEP_PARK;
	x->relay = relay_start(x->set->loop,
		&(struct relay_job){
			.backend = x->backend,
			.request = &x->rq,
			.body = &x->body,
			.path = buf_view(&x->path),
			.extra = x->extra,
			.n_extra = describe(x),
		},
		&relay_events, x);
	if (!x->relay)
		return answer(x, 503, "Out of memory", 1);
	count_one(COUNT_requests_passed);
	return STEP_PARK;
}

static enum step send_reply(struct exchange *x)
{
	struct reply *r = &x->reply;

	buf_add_str(&r->head, "\r\n");
	if (!buf_ok(&r->head) || !buf_ok(&r->body)) {
		front_abort(x->front);
		return STEP_NEXT;
	}
	put(x, buf_view(&r->head));
	if (!view_eq(request_param(&x->rq, "REQUEST_METHOD"), VIEW("HEAD")))
		put(x, buf_view(&r->body));
	front_finish(x->front);
	return STEP_NEXT;
}

static enum step (*const stations[])(struct exchange *) = {
	[AT_HEAD] = check_head,
	[AT_CLIENT] = identify,
	[AT_MATCH] = match,
	[AT_DECIDE] = decide,
	[AT_BODY] = read_body,
	[AT_BACKEND] = call_backend,
	[AT_REPLY] = send_reply,
};

/* Goes on from where it stands. False when the exchange is over, and so freed. */
static bool run(struct exchange *x)
{
	x->running = true;
	while (x->at != AT_END) {
		enum station before = x->at;

		if (stations[x->at](x) == STEP_PARK) {
			x->running = false;
			return true;
		}
		if (x->at == before)
			x->at++;
	}
	finish(x);
	return false;
}

/* -- the answer passing through ---------------------------------------------------- */

static void relay_head(void *user, const struct answer *a)
{
	struct exchange *x = user;
	struct buf tail = { 0 };

	x->status = a->status;
	reply_rate_limit_fields(&tail, x->config, &x->decision.verdict);
	buf_add_str(&tail, "\r\n");
	put(x, buf_view(&a->head));
	put(x, buf_view(&tail));
	buf_release(&tail);
}

static void relay_body(void *user, struct view piece)
{
	struct exchange *x = user;

	if (!put(x, piece) && !x->relay_full) {
		x->relay_full = true;
		relay_pause(x->relay);
	}
}

static void relay_ended(void *user, enum relay_end how, const char *why)
{
	static const struct {
		int status;
		const char *message;
		int64_t retry_after;
	} replies[] = {
		[RELAY_REFUSED] = { 503, "The backend does not accept connections", 1 },
		[RELAY_OVERLOADED] = { 503, "The backend is overloaded", 1 },
		[RELAY_TIMEOUT] = { 504, "The backend did not answer in time", 0 },
		[RELAY_BAD] = { 502, "The backend gave no valid answer", 0 },
		[RELAY_NO_PROGRAM] = { 404, "There is no such program", 0 },
		[RELAY_FORBIDDEN] = { 403, "The program may not be run", 0 },
		[RELAY_TOO_LARGE] = { 431, "A header field is too large for the backend",
			0 },
		[RELAY_FAILED] = { 503, "The backend could not be called", 1 },
		[RELAY_BAD_REQUEST] = { 400, "The path holds bytes that no path may have",
			0 },
	};
	struct exchange *x = user;

	x->relay = NULL;
	if (how == RELAY_WHOLE) {
		count_one(COUNT_backend_answers);
		front_finish(x->front);
		finish(x);
		return;
	}
	log_warn("backend", LOG_STR("backend", x->backend->name), LOG_STR("id", x->rq.id),
		LOG_STR("why", why));
	if (how == RELAY_TRUNCATED) {
		count_one(COUNT_backend_truncated);
		front_abort(x->front);
		finish(x);
		return;
	}
	count_one(COUNT_backend_failures);
	answer(x, replies[how].status, replies[how].message, replies[how].retry_after);
	run(x);
}

static const struct relay_events relay_events = {
	.head = relay_head,
	.body = relay_body,
	.end = relay_ended,
};

/* -- what the front tells ---------------------------------------------------------- */

static void *front_head(void *owner, struct front *f, struct request *rq, int problem)
{
	struct exchange *x = exchange_new(owner, f, rq);

	if (!x)
		return NULL;
	x->problem = problem;
	return run(x) ? x : NULL;
}

static void front_body(void *user, struct view bytes)
{
	struct exchange *x = user;

	if (x->problem)
		return;
	switch (spool_add(&x->body, bytes)) {
	case SPOOL_OK: break;
	case SPOOL_TOO_LARGE: x->problem = 413; break;
	case SPOOL_FAILED: x->problem = 503; break;
	}
	/* Until the decision nobody knows whether the body is wanted: no file for it. */
	if (x->at < AT_BODY && x->body.n + 65536 > x->body.memory && !x->body_stopped) {
		x->body_stopped = true;
		front_body_stop(x->front);
	}
	if (x->problem && x->at == AT_BODY)
		run(x);
}

static void front_body_end(void *user)
{
	struct exchange *x = user;

	x->body_ended = true;
	if (x->at == AT_BODY)
		run(x);
}

static void front_writable(void *user)
{
	struct exchange *x = user;

	if (x->relay && x->relay_full) {
		x->relay_full = false;
		relay_resume(x->relay);
	}
}

static void front_gone(void *user, enum front_gone why)
{
	struct exchange *x = user;

	(void)why; /* the front has counted and logged what there is to say */
	count_one(COUNT_requests_abandoned);
	log_exchange(x, "abandoned");
	exchange_free(x);
}

const struct front_events exchange_events = {
	.head = front_head,
	.body = front_body,
	.body_end = front_body_end,
	.writable = front_writable,
	.gone = front_gone,
};
