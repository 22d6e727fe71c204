/*
 * answering.c - what goes back: an answer of our own, or the backend's passing through,
 * and the line that is logged of it.
 */
#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "exchange_state.h"
#include "proxy/reason.h"

/* -- the log ----------------------------------------------------------------------- */

static const char *rule_label(const struct verdict *v)
{
	if (!v->worst)
		return "";
	return v->worst->tier ? v->worst->tier->label : "fallback";
}

/* A refusal of Redis that is repeated without asking it again is Redis's too. */
static const char *decider(const struct verdict *v)
{
	static const char *const names[] = {
		[DECIDED_BY_NONE] = "",
		[DECIDED_BY_REDIS] = "redis",
		[DECIDED_BY_MEMORY] = "memory",
		[DECIDED_BY_FALLBACK] = "fallback",
	};

	return names[v->by];
}

/* Refusals a second that are logged when only they are: whoever floods a site must not
 * fill its disk. */
#define REFUSALS_LOGGED 20

/* Whether one more line about a refusal fits in this second. */
static bool refusal_fits(int64_t now_us, uint64_t *missed)
{
	static _Atomic int64_t second;
	static _Atomic uint64_t lines, held_back;
	int64_t now = now_us / US_PER_S, then = atomic_load(&second);

	if (now != then && atomic_compare_exchange_strong(&second, &then, now))
		atomic_store(&lines, 0);
	if (atomic_fetch_add(&lines, 1) >= REFUSALS_LOGGED) {
		atomic_fetch_add(&held_back, 1);
		return false;
	}
	*missed = atomic_exchange(&held_back, 0);
	return true;
}

void answer_log(const struct exchange *x, const char *event)
{
	const struct verdict *v = &x->decision.verdict;
	const enum log_requests wanted = x->config->log.requests;
	const int64_t now_us = clock_mono_us();
	uint64_t missed = 0;

	if (wanted == LOG_REQUESTS_NONE)
		return;
	if (wanted == LOG_REQUESTS_REFUSED &&
		(!x->decided || v->outcome == OUTCOME_PASS ||
			!refusal_fits(now_us, &missed)))
		return;
	log_write(LOG_LEVEL_INFO, event,
		(const struct log_field[]){
			LOG_STR("id", x->rq.id),
			LOG_INT("status", x->status),
			LOG_STR("client", x->client.address),
			LOG_STR("user", x->client.user),
			LOG_VIEW("method", request_param(&x->rq, "REQUEST_METHOD")),
			LOG_VIEW("path", buf_view(&x->path)),
			LOG_STR("endpoint",
				x->subject.endpoint ? x->subject.endpoint->name : ""),
			LOG_STR("rule", rule_label(v)),
			LOG_STR("decided", decider(v)),
			LOG_INT("body_bytes", x->body.n),
			LOG_INT("answer_bytes", x->answer_n),
			LOG_INT("duration_us", now_us - x->started_us),
			LOG_INT("suppressed", missed),
			{ 0 },
		});
}

/* -- what is said ------------------------------------------------------------------ */

static bool put(struct exchange *x, struct view bytes)
{
	x->answer_n += bytes.n;
	return front_write(x->front, bytes);
}

/* An answer of our own, in place of whatever station comes next. */
static enum step answer(struct exchange *x, int status, const char *message,
	const char *reason, int64_t retry_after)
{
	x->status = status;
	x->at = AT_REPLY;
	reply_release(&x->reply);
	reply_error(&x->reply, status, message, reason, retry_after, x->rq.id);
	return STEP_NEXT;
}

enum step answer_error(struct exchange *x, int status, const char *message)
{
	return answer(x, status, message, NULL, 0);
}

enum step answer_busy(struct exchange *x, const char *reason, const char *message)
{
	return answer(x, 503, message, reason, 1);
}

static void count_refusal(enum outcome outcome)
{
	switch (outcome) {
	case OUTCOME_REFUSED: count_one(COUNT_requests_refused); break;
	case OUTCOME_FORBIDDEN: count_one(COUNT_requests_forbidden); break;
	case OUTCOME_NEVER: count_one(COUNT_requests_unfit); break;
	case OUTCOME_UNAVAILABLE: count_one(COUNT_requests_uncounted); break;
	case OUTCOME_PASS: break;
	}
}

enum step answer_refusal(struct exchange *x)
{
	const struct verdict *v = &x->decision.verdict;

	count_refusal(v->outcome);
	x->status = reply_status(v->outcome);
	x->at = AT_REPLY;
	reply_refusal(&x->reply, x->config, v, x->subject.endpoint, &x->rq);
	return STEP_NEXT;
}

/* What the handler, or the web server in front of it, is told about the client. */
static size_t describe(struct exchange *x)
{
	size_t n = 0;

	x->extra[n++] = (struct pair){ VIEW("WEIR_REQUEST_ID"), view_str(x->rq.id) };
	x->extra[n++] = (struct pair){ VIEW("WEIR_CLIENT"), view_str(x->client.address) };
	x->extra[n++] = (struct pair){ VIEW("WEIR_USER"), view_str(x->client.user) };
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
enum step answer_allowed(struct exchange *x)
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
	/* A responder behind the same web server that sees it charges nothing. */
	buf_add_str(head, "Variable-WEIR_DECIDED: 1\r\n");
	count_one(COUNT_requests_passed);
	return STEP_NEXT;
}

/* Whether v can be a field's value. */
static bool is_one_line(struct view v)
{
	for (size_t i = 0; i < v.n; i++)
		if ((unsigned char)v.p[i] < ' ' || v.p[i] == 0x7f)
			return false;
	return v.n > 0;
}

#define WEIR_BODY_MAX 4096 /* what a web server still takes in a field */

/* For a web server that does not pass on an authorizer's status or body: the status it
 * understands in their place, and both in fields, from which it can make them again. */
static void replace_status(struct exchange *x, int status)
{
	struct buf head = { 0 };
	struct view rest = buf_view(&x->reply.head);

	view_cut(&rest, '\n');
	buf_addf(&head, "Status: %d %s\r\n", status, reason_phrase(status));
	buf_add(&head, rest);
	buf_addf(&head, "Weir-Status: %d\r\n", x->status);
	if (x->reply.body.n <= WEIR_BODY_MAX && is_one_line(buf_view(&x->reply.body))) {
		buf_add_str(&head, "Weir-Body: ");
		buf_add(&head, buf_view(&x->reply.body));
		buf_add_str(&head, "\r\n");
	}
	head.failed = head.failed || x->reply.head.failed;
	buf_release(&x->reply.head);
	x->reply.head = head;
}

enum step answer_send(struct exchange *x)
{
	struct reply *r = &x->reply;
	int authorizer_status = (int)x->config->reply.authorizer_status;

	if (x->status != 200 && authorizer_status != 429 && exchange_is_authorizer(x))
		replace_status(x, authorizer_status);
	buf_add_str(&r->head, "\r\n");
	/* In one record: of a refusal in two Apache's mod_authnz_fcgi loses the body. */
	if (!view_eq(request_param(&x->rq, "REQUEST_METHOD"), VIEW("HEAD")))
		buf_add(&r->head, buf_view(&r->body));
	if (buf_ok(&r->head) && buf_ok(&r->body)) {
		put(x, buf_view(&r->head));
	} else {
		x->status = 503;
		put(x, VIEW(FRONT_NO_MEMORY));
	}
	front_finish(x->front);
	return STEP_NEXT;
}

/* -- the answer passing through ---------------------------------------------------- */

static void relay_head(void *user, const struct answer *a)
{
	struct exchange *x = user;
	struct buf fields = { 0 };

	x->status = a->status;
	x->has_length = a->has_length;
	reply_rate_limit_fields(&fields, x->config, &x->decision.verdict);
	put(x, buf_view(&a->head));
	if (buf_ok(&fields))
		put(x, buf_view(&fields));
	put(x, VIEW("\r\n"));
	buf_release(&fields);
}

static void relay_body(void *user, struct view piece)
{
	struct exchange *x = user;

	if (!put(x, piece) && !x->relay_full) {
		x->relay_full = true;
		relay_pause(x->relay);
	}
}

/* Backends that are told apart; of more some share a line. */
#define BACKENDS_APART 64

/* A backend that is down would fill the log: each kind of failure of each backend once a
 * minute. Backends are known by their place in the file: where a reload moves them one
 * line more or less is written. */
static void log_failure(const struct exchange *x, enum relay_end how, const char *why)
{
	static struct log_gate gates[BACKENDS_APART][RELAY_FAILED + 1];
	size_t n = (size_t)(x->backend - x->config->backends);
	struct log_gate *gate = &gates[n % BACKENDS_APART][how];
	uint64_t missed;

	if (log_gate_open(gate, clock_mono_us(), &missed))
		log_warn("a backend failed", LOG_STR("backend", x->backend->name),
			LOG_STR("id", x->rq.id), LOG_STR("why", why),
			LOG_INT("suppressed", missed));
}

static void relay_ended(void *user, enum relay_end how, const char *why)
{
	static const struct {
		int status;
		const char *message, *reason; /* with one it is worth trying again */
	} replies[] = {
		[RELAY_REFUSED] = { 503, "The backend does not accept connections",
			"backend" },
		[RELAY_OVERLOADED] = { 503, "The backend is overloaded", "backend" },
		[RELAY_CROWDED] = { 503, "Too many programs are running", "programs" },
		[RELAY_TIMEOUT] = { 504, "The backend did not answer in time", NULL },
		[RELAY_BAD] = { 502, "The backend gave no valid answer", NULL },
		[RELAY_NO_PROGRAM] = { 404, "There is no such program", NULL },
		[RELAY_FORBIDDEN] = { 403, "The program may not be run", NULL },
		[RELAY_TOO_LARGE] = { 431, "A header field is too large for the backend",
			NULL },
		[RELAY_FAILED] = { 503, "The backend could not be called", "resources" },
		[RELAY_BAD_REQUEST] = { 400, "The path holds bytes that no path may have",
			NULL },
	};
	struct exchange *x = user;

	x->relay = NULL;
	if (how == RELAY_WHOLE) {
		count_one(COUNT_backend_answers);
		front_finish(x->front);
		exchange_finish(x);
		return;
	}
	log_failure(x, how, why);
	if (how == RELAY_TRUNCATED) {
		count_one(COUNT_backend_truncated);
		front_abort(x->front, x->has_length);
		exchange_finish(x);
		return;
	}
	count_one(COUNT_backend_failures);
	answer(x, replies[how].status, replies[how].message, replies[how].reason,
		replies[how].reason ? 1 : 0);
	exchange_run(x);
}

static const struct relay_events relay_events = {
	.head = relay_head,
	.body = relay_body,
	.end = relay_ended,
};

/* What is passed on. Where weir says how much is left, a backend does not. */
static struct relay_job make_job(struct exchange *x)
{
	struct relay_job job = {
		.backend = x->backend,
		.request = &x->rq,
		.body = &x->body,
		.path = buf_view(&x->path),
		.query = x->target.query,
		.extra = x->extra,
		.n_extra = describe(x),
	};

	if (reply_tells_limits(x->config, &x->decision.verdict)) {
		job.own_rate_limit = x->config->reply.rate_limit_fields;
		job.own_x_rate_limit = x->config->reply.x_rate_limit_fields;
	}
	return job;
}

enum step answer_from_backend(struct exchange *x)
{
	struct relay_job job;

	if (x->relay)
		return STEP_PARK;
	job = make_job(x);
	x->relay = relay_start(x->set->loop, &job, &relay_events, x);
	if (!x->relay)
		return answer_busy(x, "memory", "Out of memory");
	count_one(COUNT_requests_passed);
	return STEP_PARK;
}
