/*
 * proxy/reply_fields.c - how much is left, in fields for programs.
 *
 * One list serves both families of fields: first the tiers that refuse, the longest
 * wait first, then those that admit, the least left first. A client that reads only
 * the first of them, or the X- fields, which have room for one, sees the limit it
 * meets next.
 */
#include "proxy/reply.h"
#include "proxy/reply_parts.h"

/* RateLimit-Policy and RateLimit together; the rest of a head of ours takes less than
 * 800 bytes. */
#define FIELDS_MAX 3072
/* Of structured fields: RFC 9651, section 3.3.1. */
#define SF_INTEGER_MAX INT64_C(999999999999999)

/* -- which tiers, in which order --------------------------------------------------- */

struct shown {
	const struct tier_verdict *tiers[TIERS_MAX + 1];
	size_t n;
};

/* The total of the fallback is nobody's quota: it is told only to whom it refuses. */
static bool is_shown(const struct config *c, const struct tier_verdict *tv)
{
	if (!tv->rule)
		return !tv->admitted;
	return enforces(c, tv) && tv->rule->counting == COUNT_LIMITED;
}

static bool comes_before(const struct tier_verdict *a, const struct tier_verdict *b)
{
	if (a->admitted != b->admitted)
		return !a->admitted;
	if (!a->admitted && a->wait_us != b->wait_us)
		return a->wait_us > b->wait_us;
	if (a->remaining != b->remaining)
		return a->remaining < b->remaining;
	return a->reset_us > b->reset_us;
}

static void collect(struct shown *s, const struct config *c, const struct verdict *v)
{
	for (size_t i = 0; i < v->n_tiers; i++) {
		size_t at = s->n;

		if (!is_shown(c, &v->tiers[i]))
			continue;
		for (; at > 0 && comes_before(&v->tiers[i], s->tiers[at - 1]); at--)
			s->tiers[at] = s->tiers[at - 1];
		s->tiers[at] = &v->tiers[i];
		s->n++;
	}
}

/* The draft's t is the time until more quota is available. Of a tier that refuses it is
 * the wait, so it agrees with Retry-After; of one that admits only the time is known
 * until all of its quota is back, which errs on the safe side. */
static uint64_t reset_s(const struct tier_verdict *tv)
{
	return (uint64_t)(tv->admitted ? ceil_s(tv->reset_us) : retry_s(tv->wait_us));
}

/* -- RateLimit-Policy, RateLimit --------------------------------------------------- */

void put_policy_name(struct buf *out, const char *label)
{
	for (; *label; label++)
		if (*label >= 0x20 && *label <= 0x7e)
			buf_add_byte(out, *label);
}

/* RFC 9651, section 4.1.6. */
static void put_name(struct buf *out, const struct tier_verdict *tv)
{
	struct buf name = { 0 };

	put_policy_name(&name, label_of(tv));
	buf_add_byte(out, '"');
	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] == '"' || name.p[i] == '\\')
			buf_add_byte(out, '\\');
		buf_add_byte(out, name.p[i]);
	}
	buf_add_byte(out, '"');
	out->failed |= !buf_ok(&name);
	buf_release(&name);
}

static void put_parameter(struct buf *out, const char *name, uint64_t value)
{
	buf_addf(out, ";%s=", name);
	buf_add_u64(out, value < SF_INTEGER_MAX ? value : SF_INTEGER_MAX);
}

static bool has_burst(const struct rate *rate)
{
	return (rate->algorithm == RATE_TOKEN_BUCKET ||
		       rate->algorithm == RATE_LEAKY_BUCKET) &&
		rate->burst != rate->count;
}

/* t later than latest_s is left out. False when both did not fit any more. */
static bool put_tier(struct buf *policy, struct buf *state, const struct tier_verdict *tv,
	uint64_t latest_s)
{
	const struct rate *rate = tv->rate;
	const char *comma = policy->n ? ", " : "";
	size_t policy_n = policy->n, state_n = state->n;

	buf_add_str(policy, comma);
	put_name(policy, tv);
	put_parameter(policy, "q", rate->count);
	put_parameter(policy, "w", (uint64_t)ceil_s(rate->window_us));
	if (has_burst(rate))
		put_parameter(policy, "weir-burst", rate->burst);
	buf_add_str(state, comma);
	put_name(state, tv);
	put_parameter(state, "r", tv->remaining);
	if (reset_s(tv) <= latest_s)
		put_parameter(state, "t", reset_s(tv));
	if (policy->n + state->n + strlen("RateLimit-Policy: \r\nRateLimit: \r\n") <=
		FIELDS_MAX)
		return true;
	policy->n = policy_n;
	state->n = state_n;
	return false;
}

static void put_rate_limit(struct buf *head, const struct shown *s, uint64_t latest_s)
{
	struct buf policy = { 0 }, state = { 0 };

	for (size_t i = 0; i < s->n; i++)
		if (!put_tier(&policy, &state, s->tiers[i], latest_s))
			break;
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

/* -- X-RateLimit-* ----------------------------------------------------------------- */

static void put_x_field(struct buf *head, const char *name, uint64_t value)
{
	buf_addf(head, "X-RateLimit-%s: ", name);
	buf_add_u64(head, value < SF_INTEGER_MAX ? value : SF_INTEGER_MAX);
	buf_add_str(head, "\r\n");
}

static void put_x_rate_limit(struct buf *head, const struct tier_verdict *tv)
{
	const struct rate *rate = tv->rate;

	put_x_field(head, "Limit", has_burst(rate) ? rate->burst : rate->count);
	put_x_field(head, "Remaining", tv->remaining);
	put_x_field(head, "Reset", reset_s(tv));
}

bool reply_tells_limits(const struct config *c, const struct verdict *v)
{
	for (size_t i = 0; i < v->n_tiers; i++)
		if (is_shown(c, &v->tiers[i]))
			return true;
	return false;
}

void reply_rate_limit_fields(
	struct buf *head, const struct config *c, const struct verdict *v)
{
	struct shown s = { .n = 0 };
	bool refused = v->outcome == OUTCOME_REFUSED;

	collect(&s, c, v);
	if (s.n == 0)
		return;
	if (c->reply.rate_limit_fields)
		put_rate_limit(
			head, &s, refused ? (uint64_t)retry_s(v->wait_us) : UINT64_MAX);
	if (c->reply.x_rate_limit_fields)
		put_x_rate_limit(head, s.tiers[0]);
}
