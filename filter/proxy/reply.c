/*
 * proxy/reply.c - what a client is told when weir answers itself.
 *
 * A refusal names the rule and the time, in the body for people, in fields for
 * programs. What is said (status, wait, message) is found out first, then the form it
 * takes (plain JSON, problem details, the operator's template), then it is written.
 */
#include "proxy/reply.h"

#include "base/json.h"
#include "proxy/reason.h"
#include "proxy/reply_accept.h"
#include "proxy/reply_parts.h"

#define DEFAULT_MESSAGE  "Too many requests, retry in {retry_after} seconds"
#define SINGULAR_MESSAGE "Too many requests, retry in {retry_after} second"

#define TYPE_JSON    "application/json"
#define TYPE_PROBLEM "application/problem+json"
#define TYPE_PLAIN   "text/plain; charset=utf-8"

/* draft-ietf-httpapi-ratelimit-headers, section 5.1; the title is that of the
 * registration it asks for. */
#define QUOTA_EXCEEDED       "https://iana.org/assignments/http-problem-types#quota-exceeded"
#define QUOTA_EXCEEDED_TITLE "Quota Exceeded"

void reply_release(struct reply *r)
{
	buf_release(&r->head);
	buf_release(&r->body);
}

int reply_status(enum outcome outcome)
{
	static const int status_of[] = {
		[OUTCOME_PASS] = 200,
		[OUTCOME_REFUSED] = 429,
		[OUTCOME_FORBIDDEN] = 403,
		[OUTCOME_NEVER] = 413,
		[OUTCOME_UNAVAILABLE] = 503,
	};

	return status_of[outcome];
}

/* -- heads ------------------------------------------------------------------------- */

struct head {
	int status;
	const char *type;
	int64_t retry_after;  /* 0: none */
	const char *language; /* of the body; NULL: not said */
	const char *vary;     /* NULL: none */
};

/* A field of what the configuration says, which may hold no control characters. */
static void put_field(struct buf *out, const char *name, const char *value)
{
	buf_addf(out, "%s: ", name);
	for (; *value; value++)
		if ((unsigned char)*value >= 0x20 && *value != 0x7f)
			buf_add_byte(out, *value);
	buf_add_str(out, "\r\n");
}

static void put_head(struct reply *r, const struct head *h)
{
	buf_addf(&r->head, "Status: %d %s\r\n", h->status, reason_phrase(h->status));
	put_field(&r->head, "Content-Type", h->type);
	buf_addf(&r->head, "Content-Length: %zu\r\n", r->body.n);
	buf_add_str(&r->head, "Cache-Control: no-store\r\n");
	if (h->language)
		put_field(&r->head, "Content-Language", h->language);
	if (h->vary)
		put_field(&r->head, "Vary", h->vary);
	if (h->retry_after)
		buf_addf(&r->head, "Retry-After: %lld\r\n", (long long)h->retry_after);
}

/* Says how it went, in the head too. */
static bool finish(struct reply *r, bool ok)
{
	ok = ok && buf_ok(&r->body) && buf_ok(&r->head);
	r->head.failed = !ok;
	return ok;
}

/* -- JSON -------------------------------------------------------------------------- */

/* NULL only when memory is out. */
static json_t *text(struct view v)
{
	struct buf clean = { 0 };
	json_t *string = NULL;

	put_utf8(&clean, v);
	if (buf_str(&clean))
		string = json_stringn_nocheck(clean.p, clean.n);
	buf_release(&clean);
	return string;
}

/* json_object_set_new() and its like take NULL for a failure, so a value that found
 * no memory shows there. */
static bool set(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new_nocheck(object, key, value) == 0;
}

static bool set_text(json_t *object, const char *key, const char *value)
{
	return !value || set(object, key, text(view_str(value)));
}

/* What every body starts with. */
static bool set_front(json_t *object, int status, struct view message, int64_t retry_after)
{
	return set(object, "code", json_integer(status * 100)) &&
		set(object, "message", text(message)) &&
		(retry_after == 0 || set(object, "retry_after", json_integer(retry_after)));
}

/* Writes the body once object is complete, and frees it. */
static bool dump(struct buf *body, json_t *object, bool ok)
{
	if (ok)
		json_put(body, object, JSON_COMPACT);
	json_decref(object);
	return ok && buf_ok(body);
}

/* -- what a refusal says ----------------------------------------------------------- */

struct refusal {
	const struct config *config;
	const struct verdict *verdict;
	const char *endpoint, *rule, *request_id; /* NULL: does not apply */
	struct buf message;
	struct head head;
};

static struct view preference(const struct request *rq, const char *name)
{
	return rq ? request_param(rq, name) : (struct view){ NULL, 0 };
}

/* The built-in message is English; what language the operator's own is in nobody
 * knows. */
static void say_wait(struct refusal *f, struct view accept)
{
	const struct config *c = f->config;
	const char *plain = c->reply.message ? c->reply.message : DEFAULT_MESSAGE;
	bool built_in = strcmp(plain, DEFAULT_MESSAGE) == 0;
	const char *language = built_in ? "en" : NULL;
	const struct localized *found = accept_language(
		c->reply.messages, c->reply.n_messages, language, accept);

	if (built_in && f->head.retry_after == 1)
		plain = SINGULAR_MESSAGE;
	put_message(&f->message, found ? found->text : plain, f->head.retry_after);
	f->head.language = found ? found->language : language;
}

static void say(struct refusal *f, const struct request *rq)
{
	int64_t wait_s = retry_s(f->verdict->wait_us);

	f->head.status = reply_status(f->verdict->outcome);
	f->head.language = "en";
	switch (f->verdict->outcome) {
	case OUTCOME_FORBIDDEN:
		buf_add_str(&f->message, "Requests of this kind are not allowed");
		break;
	case OUTCOME_NEVER:
		buf_add_str(&f->message,
			"This request costs more than its limit ever allows; waiting does "
			"not help");
		break;
	case OUTCOME_UNAVAILABLE:
		f->head.retry_after = wait_s;
		buf_addf(&f->message,
			"The limit cannot be checked now, retry in %lld second%s",
			(long long)wait_s, wait_s == 1 ? "" : "s");
		break;
	default:
		f->head.retry_after = wait_s;
		say_wait(f, preference(rq, "HTTP_ACCEPT_LANGUAGE"));
		if (f->config->reply.n_messages)
			f->head.vary = "Accept-Language";
	}
	if (f->config->reply.n_messages == 0)
		f->head.language = NULL;
}

/* Whether the tier is one that refuses. */
static bool refuses(const struct refusal *f, const struct tier_verdict *tv)
{
	return !tv->admitted && enforces(f->config, tv);
}

static const char *worst_rule(const struct refusal *f)
{
	const struct verdict *v = f->verdict;

	if (v->worst)
		return label_of(v->worst);
	for (size_t i = 0; i < v->n_tiers; i++)
		if (refuses(f, &v->tiers[i]))
			return label_of(&v->tiers[i]);
	return NULL;
}

/* -- its forms --------------------------------------------------------------------- */

enum form {
	FORM_JSON,
	FORM_PROBLEM,
	FORM_TEMPLATE,
};

/* A client that asks for problem details is a program that knows them; a template is
 * for everybody else, unless it is of that very type. */
static enum form choose_form(struct refusal *f, const struct request *rq)
{
	const struct config *c = f->config;
	struct view rest = view_str(c->reply.template_type);
	struct view type = view_trim(view_cut(&rest, ';'));
	bool own = c->reply.template_text && view_eq_nocase(type, VIEW(TYPE_PROBLEM));

	if (!own && accept_problem_json(preference(rq, "HTTP_ACCEPT"))) {
		f->head.vary = f->head.vary ? "Accept-Language, Accept" : "Accept";
		return FORM_PROBLEM;
	}
	if (c->reply.template_text)
		return FORM_TEMPLATE;
	return c->reply.problem_json ? FORM_PROBLEM : FORM_JSON;
}

/* RFC 9457, section 3.1. Without a type of its own the title is the status's. */
static bool set_problem(json_t *object, const struct refusal *f)
{
	bool quota = f->verdict->outcome == OUTCOME_REFUSED;
	const char *title = quota ? QUOTA_EXCEEDED_TITLE : reason_phrase(f->head.status);

	return set_text(object, "type", quota ? QUOTA_EXCEEDED : "about:blank") &&
		set_text(object, "title", title) &&
		set(object, "status", json_integer(f->head.status)) &&
		set(object, "detail", text(buf_view(&f->message)));
}

static json_t *rule_name(const struct tier_verdict *tv)
{
	return text(view_str(label_of(tv)));
}

static json_t *policy_name(const struct tier_verdict *tv)
{
	struct buf name = { 0 };
	json_t *string = NULL;

	put_policy_name(&name, label_of(tv));
	if (buf_ok(&name))
		string = text(buf_view(&name));
	buf_release(&name);
	return string;
}

/* The tiers that refuse, by names that name_of makes; no key when there is none. */
static bool set_names(json_t *object, const char *key, const struct refusal *f,
	json_t *(*name_of)(const struct tier_verdict *))
{
	json_t *names = json_array();
	bool ok = names != NULL;

	for (size_t i = 0; i < f->verdict->n_tiers && ok; i++)
		if (refuses(f, &f->verdict->tiers[i]))
			ok = json_array_append_new(names, name_of(&f->verdict->tiers[i])) ==
				0;
	if (json_array_size(names) && ok)
		ok = set(object, key, json_incref(names));
	json_decref(names);
	return ok;
}

static bool put_json_body(struct buf *body, const struct refusal *f, bool problem)
{
	bool policies = problem && f->verdict->outcome == OUTCOME_REFUSED;
	json_t *object = json_object();
	bool ok;

	ok = (!problem || set_problem(object, f)) &&
		set_front(object, f->head.status, buf_view(&f->message),
			f->head.retry_after) &&
		set_text(object, "endpoint", f->endpoint) &&
		set_text(object, "rule", f->rule) &&
		set_names(object, "rules", f, rule_name) &&
		(!policies || set_names(object, "violated-policies", f, policy_name)) &&
		set_text(object, "request_id", f->request_id);
	return dump(body, object, ok);
}

static bool put_body(struct buf *body, struct refusal *f, enum form form)
{
	const char *type = f->config->reply.template_type;

	f->head.type = form == FORM_PROBLEM ? TYPE_PROBLEM : TYPE_JSON;
	if (form != FORM_TEMPLATE)
		return put_json_body(body, f, form == FORM_PROBLEM);
	f->head.type = type && *type ? type : TYPE_PLAIN;
	put_template(body, f->config->reply.template_text, f->head.type,
		&(struct reply_values){
			.status = f->head.status,
			.retry_after = f->head.retry_after,
			.message = buf_view(&f->message),
			.endpoint = f->endpoint,
			.rule = f->rule,
			.request_id = f->request_id,
		});
	return true;
}

bool reply_refusal(struct reply *r, const struct config *c, const struct verdict *v,
	const struct endpoint *endpoint, const struct request *rq)
{
	struct refusal f = { .config = c,
		.verdict = v,
		.endpoint = endpoint ? endpoint->name : NULL,
		.request_id = rq ? rq->id : NULL };
	bool ok;

	reply_release(r);
	f.rule = worst_rule(&f);
	say(&f, rq);
	ok = buf_ok(&f.message) && put_body(&r->body, &f, choose_form(&f, rq));
	if (ok)
		put_head(r, &f.head);
	if (ok && v->outcome == OUTCOME_REFUSED)
		reply_rate_limit_fields(&r->head, c, v);
	buf_release(&f.message);
	return finish(r, ok);
}

bool reply_error(struct reply *r, int status, const char *message, const char *reason,
	int64_t retry_after, const char *request_id)
{
	struct head head = { .status = status,
		.type = TYPE_JSON,
		.retry_after = retry_after > 0 ? retry_after : 0 };
	json_t *object = json_object();
	bool ok;

	reply_release(r);
	ok = set_front(object, status, view_str(message ? message : reason_phrase(status)),
		     head.retry_after) &&
		set_text(object, "reason", reason) &&
		set_text(object, "request_id", request_id);
	ok = dump(&r->body, object, ok);
	put_head(r, &head);
	return finish(r, ok);
}
