/*
 * exchange.c - the stations of a request, in order.
 *
 * Each station runs until it is done or has to wait; a wait returns STEP_PARK and the
 * event that ends it calls exchange_run() again. A station that answers goes straight to
 * AT_REPLY. Whatever happens, an exchange ends in exchange_finish() or, when its client left,
 * in gone(): both log, count and free.
 *
 * The decision needs the head alone, so it comes before the body: a refused upload is
 * never read. A body that passes is read to its end before the backend is called.
 *
 * What is one too many (server.max_requests) is refused before anybody is asked anything.
 * It is an exchange too, for the few moments that takes, and not one of those counted.
 */
#include "exchange_state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/shortage.h"
#include "limit/path.h"

/* -- beginning and end ------------------------------------------------------------- */

/* Being served in the process, but for those that are only told there are too many. */
static atomic_uint_fast64_t being_served;

static bool count_in(uint64_t most)
{
	if (atomic_fetch_add(&being_served, 1) < most)
		return true;
	atomic_fetch_sub(&being_served, 1);
	return false;
}

static struct exchange *exchange_new(
	struct exchanges *set, struct front *f, struct request *rq)
{
	struct exchange *x = calloc(1, sizeof(*x));
	const struct config *c = set->config;

	if (!x) {
		shortage_seen(ENOMEM, "a request");
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
	x->counted = count_in(c->server.max_requests);
	spool_init(&x->body, c->server.body_limit, c->server.spool_memory,
		c->server.spool_dir);
	x->body.most_filed = c->server.spool_limit;
	count_one(COUNT_exchanges_open);
	return x;
}

static void free_hold(uv_handle_t *timer)
{
	free(timer->data);
}

static void end_hold(struct exchange *x)
{
	if (!x->hold)
		return;
	uv_close((uv_handle_t *)&x->hold->timer, free_hold);
	x->hold = NULL;
}

static void exchange_free(struct exchange *x)
{
	if (x->counted)
		atomic_fetch_sub(&being_served, 1);
	*x->link = x->next;
	if (x->next)
		x->next->link = x->link;
	x->set->n--;
	client_cancel(&x->client);
	end_hold(x);
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

void exchange_finish(struct exchange *x)
{
	answer_log(x, "request");
	exchange_free(x);
}

/* -- the stations ------------------------------------------------------------------ */

static enum step crowded_out(struct exchange *x)
{
	static struct log_gate gate;
	uint64_t missed;

	count_one(COUNT_requests_crowded_out);
	if (log_gate_open(&gate, clock_mono_us(), &missed))
		log_warn("server.max_requests are being served; others get 503",
			LOG_INT("max_requests", x->config->server.max_requests),
			LOG_INT("suppressed", missed));
	return answer_busy(x, "requests", "Too many requests are being served");
}

static enum step check_head(struct exchange *x)
{
	uint64_t length = 0;
	bool given;

	if (!x->counted)
		return crowded_out(x);
	if (x->problem == 431) {
		count_one(COUNT_requests_oversized);
		return answer_error(x, 431, "The request's header fields are too large");
	}
	if (!request_content_length(&x->rq, &length, &given)) {
		count_one(COUNT_requests_bad);
		return answer_error(x, 400, "CONTENT_LENGTH is not a number");
	}
	x->target = request_target(&x->rq, &x->scratch);
	path_canonical(x->target.path, &x->path);
	if (!buf_ok(&x->scratch) || !buf_ok(&x->path))
		return answer_busy(x, "memory", "Out of memory");
	return STEP_NEXT;
}

static void client_known(struct client *c)
{
	struct exchange *x = CONTAINER_OF(c, struct exchange, client);

	x->identified = true;
	if (!x->running)
		exchange_run(x);
}

static enum step identify(struct exchange *x)
{
	if (!x->client.done) {
		x->client.done = client_known;
		client_identify(
			&x->client, x->set->loop, x->set->directory, x->config, &x->rq);
	}
	if (!x->identified)
		return STEP_PARK;
	if (x->client.unknown)
		return answer_busy(x, "directory", "Clients cannot be told apart for now");
	if (x->client.exempt)
		count_one(COUNT_requests_exempt);
	return STEP_NEXT;
}

static enum step match(struct exchange *x)
{
	struct limit_subject *about = &x->subject;

	about->client = &x->client;
	about->request = &x->rq;
	about->path = path_strip(buf_view(&x->path), x->config->server.strip_prefix,
		x->config->server.n_strip_prefix);
	about->query = x->target.query;
	about->endpoint = limit_match(
		x->config, &x->rq, about->path, about->query, &about->captures);
	x->backend = about->endpoint ? about->endpoint->backend : x->config->server.backend;
	return STEP_NEXT;
}

static void decision_done(struct decision *d)
{
	struct exchange *x = CONTAINER_OF(d, struct exchange, decision);

	x->decided = true;
	if (!x->running)
		exchange_run(x);
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
bool exchange_is_authorizer(const struct exchange *x)
{
	return x->rq.role == FCGI_AUTHORIZER ||
		view_eq(request_param(&x->rq, "WEIR_ROLE"), VIEW("authorizer"));
}

/* What an authorizer has decided and charged, the responder behind the same web server
 * is told by a parameter that only the web server can set: a client's come as HTTP_... */
static bool is_decided(const struct exchange *x)
{
	return view_eq(request_param(&x->rq, "WEIR_DECIDED"), VIEW("1"));
}

static enum step decide(struct exchange *x)
{
	const struct verdict *v = &x->decision.verdict;

	if (is_decided(x) && !exchange_is_authorizer(x))
		return STEP_NEXT;
	if (!x->decision.done) {
		x->decision.done = decision_done;
		limit_decide(&x->decision, x->set->store, x->config, &x->subject);
	}
	if (!x->decided)
		return STEP_PARK;
	if (v->outcome != OUTCOME_PASS)
		return answer_refusal(x);
	count_shadow(v);
	return STEP_NEXT;
}

static void turn_comes(uv_timer_t *timer)
{
	struct hold *hold = timer->data;
	struct exchange *x = hold->exchange;

	end_hold(x);
	x->at = AT_HOLD + 1;
	exchange_run(x);
}

/* A leaky bucket has charged it already; now it waits until what was ahead of it has
 * drained. Rounded up: nobody goes before its turn. */
static enum step hold(struct exchange *x)
{
	int64_t hold_us = x->decision.verdict.hold_us;
	struct hold *h;

	if (hold_us <= 0)
		return STEP_NEXT;
	h = calloc(1, sizeof(*h));
	if (!h)
		return answer_busy(x, "memory", "Out of memory");
	h->exchange = x;
	uv_update_time(x->set->loop); /* else it starts when this turn of the loop began */
	uv_timer_init(x->set->loop, &h->timer);
	h->timer.data = h;
	uv_timer_start(&h->timer, turn_comes, (uint64_t)((hold_us + 999) / 1000), 0);
	x->hold = h;
	count_one(COUNT_requests_held);
	return STEP_PARK;
}

/* The next request, or one with a small body, is served as ever. */
static enum step body_is_not_stored(struct exchange *x)
{
	static struct log_gate full_gate, failed_gate;
	uint64_t missed;

	if (x->stored == SPOOL_TOO_LARGE) {
		count_one(COUNT_requests_oversized);
		return answer_error(x, 413, "The request's body is too large");
	}
	if (x->stored == SPOOL_FULL) {
		count_one(COUNT_spool_full);
		if (log_gate_open(&full_gate, clock_mono_us(), &missed))
			log_warn("bodies do not fit in server.spool_limit",
				LOG_STR("id", x->rq.id),
				LOG_INT("spool_limit", x->config->server.spool_limit),
				LOG_INT("suppressed", missed));
	} else {
		count_one(COUNT_spool_failures);
		shortage_seen(x->body.error, "a request's body");
		if (log_gate_open(&failed_gate, clock_mono_us(), &missed))
			log_error("a request's body cannot be stored",
				LOG_STR("id", x->rq.id),
				LOG_STR("spool_dir", x->config->server.spool_dir),
				LOG_STR("error", strerror(x->body.error)),
				LOG_INT("suppressed", missed));
	}
	return answer_busy(x, "spool", "There is no room for the request's body");
}

/* The body of a request that passed; what came during the decision is spooled already. */
static enum step read_body(struct exchange *x)
{
	uint64_t length = 0;
	bool given;

	if (exchange_is_authorizer(x))
		return answer_allowed(x);
	request_content_length(&x->rq, &length, &given);
	if (!x->backend) {
		count_one(COUNT_requests_unmatched);
		return answer_error(x, 404, "No endpoint has this path");
	}
	if (length > x->config->server.body_limit)
		x->stored = SPOOL_TOO_LARGE;
	else if (x->stored == SPOOL_OK && !x->body_ended &&
		!spool_has_room(&x->body, length))
		x->stored = SPOOL_FULL;
	if (x->stored != SPOOL_OK)
		return body_is_not_stored(x);
	/* Also after its end: then the peer is only watched. */
	x->body_stopped = false;
	front_body_resume(x->front);
	if (!x->body_ended)
		return STEP_PARK;
	if (given && length != x->body.n) {
		count_one(COUNT_requests_bad);
		return answer_error(
			x, 400, "The body is not as long as CONTENT_LENGTH says");
	}
	return STEP_NEXT;
}

static enum step (*const stations[])(struct exchange *) = {
	[AT_HEAD] = check_head,
	[AT_CLIENT] = identify,
	[AT_MATCH] = match,
	[AT_DECIDE] = decide,
	[AT_HOLD] = hold,
	[AT_BODY] = read_body,
	[AT_BACKEND] = answer_from_backend,
	[AT_REPLY] = answer_send,
};

/* Goes on from where it stands. False when the exchange is over, and so freed. */
bool exchange_run(struct exchange *x)
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
	exchange_finish(x);
	return false;
}

/* -- what the front tells ---------------------------------------------------------- */

static void *front_head(void *owner, struct front *f, struct request *rq, int problem)
{
	struct exchange *x = exchange_new(owner, f, rq);

	if (!x)
		return NULL;
	x->problem = problem;
	return exchange_run(x) ? x : NULL;
}

static void front_body(void *user, struct view bytes)
{
	struct exchange *x = user;

	if (x->stored != SPOOL_OK)
		return;
	x->stored = spool_add(&x->body, bytes);
	/* Until the decision nobody knows whether the body is wanted: no file for it. */
	if (x->at < AT_BODY && x->body.n + 65536 > x->body.memory && !x->body_stopped) {
		x->body_stopped = true;
		front_body_stop(x->front);
	}
	if (x->stored != SPOOL_OK && x->at == AT_BODY)
		exchange_run(x);
}

static void front_body_end(void *user)
{
	struct exchange *x = user;

	x->body_ended = true;
	/* Nothing more can come that would have to be stored: the peer is watched again,
	 * however long the decision or the hold takes. */
	if (x->body_stopped) {
		x->body_stopped = false;
		front_body_resume(x->front);
	}
	if (x->at == AT_BODY)
		exchange_run(x);
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

	/* What there is to say of the connection the front has counted and logged. */
	count_one(
		why == FRONT_PEER_LEFT ? COUNT_requests_abandoned : COUNT_requests_cut_off);
	answer_log(x, why == FRONT_PEER_LEFT ? "abandoned" : "cut off");
	exchange_free(x);
}

const struct front_events exchange_events = {
	.head = front_head,
	.body = front_body,
	.body_end = front_body_end,
	.writable = front_writable,
	.gone = front_gone,
};
