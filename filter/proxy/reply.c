/*
 * proxy/reply.c - what a client is told when weir answers itself.
 *
 * A refusal names the rule and the time, in the body for people, in fields for
 * programs. Names come from configuration files in whatever encoding they were
 * written, so what is not UTF-8 is replaced before JSON sees it: an answer must not
 * fail over a name.
 */
#include "proxy/reply.h"

#include <jansson.h>

#include "base/clock.h"
#include "proxy/reason.h"

/* Both fields together; the rest of a head of ours takes less than 300 bytes. */
#define FIELDS_MAX 3072
/* Of structured fields: RFC 9651, section 3.3.1. */
#define SF_INTEGER_MAX INT64_C(999999999999999)

#define DEFAULT_MESSAGE  "Too many requests, retry in {retry_after} seconds"
#define SINGULAR_MESSAGE "Too many requests, retry in {retry_after} second"

void reply_release(struct reply *r)
{
	buf_release(&r->head);
	buf_release(&r->body);
}

static int64_t ceil_s(int64_t us)
{
	return us <= 0 ? 0 : us / US_PER_S + (us % US_PER_S != 0);
}

static int64_t retry_s(int64_t wait_us)
{
	int64_t s = ceil_s(wait_us);

	return s ? s : 1;
}

static bool enforces(const struct config *c, const struct tier_verdict *tv)
{
	if (!tv->rule)
		return true;
	return tv->rule->mode == MODE_ENFORCE && c->server.mode == MODE_ENFORCE;
}

static const char *label_of(const struct tier_verdict *tv)
{
	return tv->tier ? tv->tier->label : "fallback";
}

/* -- JSON -------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character v starts with, 0 when it starts with none (Unicode,
 * table 3-7: no overlong forms, no surrogates). */
static size_t utf8_len(struct view v)
{
	const unsigned char *p = (const unsigned char *)v.p;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	if (p[0] == 0xed)
		high = 0x9f;
	if (p[0] == 0xf0)
		low = 0x90;
	if (p[0] == 0xf4)
		high = 0x8f;
	if (v.n < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return n;
}

/* NULL only when memory is out. */
static json_t *text(struct view v)
{
	struct buf clean = { 0 };
	json_t *string = NULL;

	while (v.n) {
		size_t n = utf8_len(v);

		if (n)
			buf_add(&clean, view_of(v.p, n));
		else
			buf_add(&clean, VIEW("\xef\xbf\xbd"));
		v = view_skip(v, n ? n : 1);
	}
	if (buf_str(&clean))
		string = json_stringn_nocheck(clean.p, clean.n);
	buf_release(&clean);
	return string;
}

static int append(const char *p, size_t n, void *user)
{
	buf_add(user, view_of(p, n));
	return 0;
}

/* json_object_set_new() and its like take NULL for a failure, so a value that found
 * no memory shows there. */
static bool set(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new_nocheck(object, key, value) == 0;
}

/* What every body starts with. */
static bool set_front(json_t *object, int status, struct view message, int64_t retry_after)
{
	return set(object, "code", json_integer(status * 100)) &&
		set(object, "message", text(message)) &&
		(retry_after == 0 || set(object, "retry_after", json_integer(retry_after)));
}

static bool set_back(json_t *object, const char *request_id)
{
	return !request_id || set(object, "request_id", text(view_str(request_id)));
}

/* Writes body and head once object is complete. ok false, or no memory here: both are
 * marked as failed. */
static bool finish(
	struct reply *r, json_t *object, bool ok, int status, int64_t retry_after)
{
	ok = ok && json_dump_callback(object, append, &r->body, JSON_COMPACT) == 0;
	buf_addf(&r->head, "Status: %d %s\r\n", status, reason_phrase(status));
	buf_add_str(&r->head, "Content-Type: application/json\r\n");
	buf_addf(&r->head, "Content-Length: %zu\r\n", r->body.n);
	buf_add_str(&r->head, "Cache-Control: no-store\r\n");
	if (retry_after)
		buf_addf(&r->head, "Retry-After: %lld\r\n", (long long)retry_after);
	ok = ok && buf_ok(&r->body) && buf_ok(&r->head);
	r->head.failed = !ok;
	json_decref(object);
	return ok;
}

/* -- refusals ---------------------------------------------------------------------- */

static void put_message(struct buf *out, const char *template, int64_t retry_after)
{
	static const char hole[] = "{retry_after}";
	const char *at;

	if (!template)
		template = DEFAULT_MESSAGE;
	if (retry_after == 1 && strcmp(template, DEFAULT_MESSAGE) == 0)
		template = SINGULAR_MESSAGE;
	while ((at = strstr(template, hole))) {
		buf_add(out, view_of(template, (size_t)(at - template)));
		buf_add_u64(out, (uint64_t)retry_after);
		template = at + strlen(hole);
	}
	buf_add_str(out, template);
}

static bool set_rules(json_t *object, const struct config *c, const struct verdict *v)
{
	json_t *rules;
	const struct tier_verdict *worst = v->worst;
	bool ok = true;

	rules = json_array();
	for (size_t i = 0; i < v->n_tiers && ok; i++) {
		const struct tier_verdict *tv = &v->tiers[i];

		if (tv->admitted || !enforces(c, tv))
			continue;
		if (!worst)
			worst = tv;
		ok = json_array_append_new(rules, text(view_str(label_of(tv)))) == 0;
	}
	if (worst && ok)
		ok = set(object, "rule", text(view_str(label_of(worst))));
	if (json_array_size(rules) && ok)
		ok = set(object, "rules", json_incref(rules));
	json_decref(rules);
	return ok;
}

bool reply_refusal(struct reply *r, const struct config *c, const struct verdict *v,
	const struct endpoint *endpoint, const char *request_id)
{
	json_t *object = json_object();
	struct buf message = { 0 };
	int64_t retry_after = retry_s(v->wait_us);
	int status = 429;
	bool ok;

	reply_release(r);
	switch (v->outcome) {
	case OUTCOME_FORBIDDEN:
		status = 403;
		retry_after = 0;
		buf_add_str(&message, "Requests of this kind are not allowed");
		break;
	case OUTCOME_UNAVAILABLE:
		status = 503;
		buf_addf(&message,
			"The limit cannot be checked now, retry in %lld second%s",
			(long long)retry_after, retry_after == 1 ? "" : "s");
		break;
	default: put_message(&message, c->reply.message, retry_after);
	}
	ok = buf_ok(&message) &&
		set_front(object, status, buf_view(&message), retry_after) &&
		(!endpoint || set(object, "endpoint", text(view_str(endpoint->name)))) &&
		set_rules(object, c, v) && set_back(object, request_id);
	buf_release(&message);
	ok = finish(r, object, ok, status, retry_after);
	if (ok && status == 429)
		reply_rate_limit_fields(&r->head, c, v);
	return ok && buf_ok(&r->head);
}

bool reply_error(struct reply *r, int status, const char *message, int64_t retry_after,
	const char *request_id)
{
	json_t *object = json_object();
	bool ok;

	reply_release(r);
	if (retry_after < 0)
		retry_after = 0;
	if (!message)
		message = reason_phrase(status);
	ok = set_front(object, status, view_str(message), retry_after) &&
		set_back(object, request_id);
	return finish(r, object, ok, status, retry_after);
}

/* -- RateLimit fields -------------------------------------------------------------- */

/* RFC 9651, section 4.1.6; a byte no string can hold is left out. */
static void put_sf_string(struct buf *b, const char *s)
{
	buf_add_byte(b, '"');
	for (; *s; s++) {
		if (*s < 0x20 || *s > 0x7e)
			continue;
		if (*s == '"' || *s == '\\')
			buf_add_byte(b, '\\');
		buf_add_byte(b, *s);
	}
	buf_add_byte(b, '"');
}

static void put_sf_parameter(struct buf *b, const char *name, uint64_t value)
{
	buf_addf(b, ";%s=", name);
	buf_add_u64(b, value < SF_INTEGER_MAX ? value : SF_INTEGER_MAX);
}

/*
 * The draft's t is the time until more quota is available. Of a tier that refuses it is
 * the wait, so it agrees with Retry-After; of one that admits only the time is known
 * until all of its quota is back, which errs on the safe side.
 */
static void put_tier(struct buf *policy, struct buf *state, const struct config *c,
	const struct tier_verdict *tv)
{
	const struct rate *rate = tv->rule ? &tv->rule->rate : &c->fallback.rate;
	int64_t t_s = tv->admitted ? ceil_s(tv->reset_us) : retry_s(tv->wait_us);
	const char *comma = policy->n ? ", " : "";
	size_t policy_n = policy->n, state_n = state->n;

	buf_add_str(policy, comma);
	put_sf_string(policy, label_of(tv));
	put_sf_parameter(policy, "q", rate->count);
	put_sf_parameter(policy, "w", (uint64_t)ceil_s(rate->window_us));
	if (rate->algorithm == RATE_TOKEN_BUCKET && rate->burst != rate->count)
		put_sf_parameter(policy, "weir-burst", rate->burst);
	buf_add_str(state, comma);
	put_sf_string(state, label_of(tv));
	put_sf_parameter(state, "r", tv->remaining);
	put_sf_parameter(state, "t", (uint64_t)t_s);
	if (policy->n + state->n + strlen("RateLimit-Policy: \r\nRateLimit: \r\n") >
		FIELDS_MAX) {
		policy->n = policy_n;
		state->n = state_n;
	}
}

/* Those that refuse or those that admit. The total of the fallback is nobody's quota:
 * it is told only to whom it refuses. */
static void put_tiers(struct buf *policy, struct buf *state, const struct config *c,
	const struct verdict *v, bool admitted)
{
	for (size_t i = 0; i < v->n_tiers; i++) {
		const struct tier_verdict *tv = &v->tiers[i];

		if (tv->admitted != admitted || !enforces(c, tv) ||
			(!tv->rule && tv->admitted) ||
			(tv->rule && tv->rule->counting != COUNT_LIMITED))
			continue;
		put_tier(policy, state, c, tv);
	}
}

void reply_rate_limit_fields(
	struct buf *head, const struct config *c, const struct verdict *v)
{
	struct buf policy = { 0 }, state = { 0 };

	if (!c->reply.rate_limit_fields)
		return;
	put_tiers(&policy, &state, c, v, false);
	put_tiers(&policy, &state, c, v, true);
	/* Without memory for them the answer goes out without them. */
	if (policy.n && buf_ok(&policy) && buf_ok(&state)) {
		buf_add_str(head, "RateLimit-Policy: ");
		buf_add(head, buf_view(&policy));
		buf_add_str(head, "\r\nRateLimit: ");
		buf_add(head, buf_view(&state));
		buf_add_str(head, "\r\n");
	}
	buf_release(&policy);
	buf_release(&state);
}
