/*
 * limit/decide.c - which tiers a request meets, and what their answers come to.
 *
 * The tiers of the site come first, then the endpoint's, each with the one rule that
 * the client's plan chooses. They go to the store as one question. Counting is the
 * caller's affair, and so is logging, except for what only this file knows.
 */
#include "limit/limit.h"

#include <assert.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/table.h"
#include "client/address.h"
#include "limit/keys.h"
#include "limit/said.h"

static enum on_error stricter_policy(enum on_error a, enum on_error b)
{
	if (a == ON_ERROR_CLOSED || b == ON_ERROR_CLOSED)
		return ON_ERROR_CLOSED;
	return a == ON_ERROR_LOCAL ? a : b;
}

static bool in_shadow(const struct config *c, const struct rule *rule)
{
	return c->server.mode == MODE_SHADOW || rule->mode == MODE_SHADOW;
}

/* Puts the tiers of one section that say anything about this client into the verdict. */
static void gather(struct decision *d, const struct tiers *tiers, const char *plan)
{
	struct verdict *v = &d->verdict;

	for (size_t i = 0; i < tiers->n; i++) {
		const struct rule *rule = tier_rule(&tiers->list[i], plan);

		if (!rule || rule->mode == MODE_OFF || rule->counting == COUNT_UNLIMITED)
			continue;
		assert(v->n_tiers < TIERS_MAX); /* config counts them */
		v->tiers[v->n_tiers++] = (struct tier_verdict){
			.tier = &tiers->list[i], .rule = rule, .rate = &rule->rate
		};
	}
}

/* The refusing tier that matters most; of equal ones the first. */
static void blame(struct verdict *v, const struct tier_verdict *tv)
{
	if (v->worst && tv->wait_us <= v->worst->wait_us)
		return;
	v->worst = tv;
	v->wait_us = tv->wait_us;
}

static void conclude(struct decision *d, enum outcome outcome)
{
	d->verdict.outcome = outcome;
	d->done(d);
}

/* A rule that admits nobody needs no counting: the verdict keeps those rules alone. */
static bool forbid(struct decision *d)
{
	struct verdict *v = &d->verdict;
	struct tier_verdict none[TIERS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < v->n_tiers; i++)
		if (v->tiers[i].rule->counting == COUNT_NONE &&
			!in_shadow(d->config, v->tiers[i].rule))
			none[n++] = v->tiers[i];
	if (n == 0)
		return false;
	memcpy(v->tiers, none, n * sizeof(none[0]));
	v->n_tiers = n;
	blame(v, &v->tiers[0]);
	return true;
}

/* Of the tiers that may refuse, whether there are any, and the strictest of what they say
 * about a silent Redis: closed, local, open. Where all are in shadow nothing refuses, the
 * store's silence and the total of the fallback included. Before tiers are merged, since
 * each has its word. */
static void note_policy(struct decision *d)
{
	const struct verdict *v = &d->verdict;

	d->enforces = false;
	d->policy = ON_ERROR_OPEN;
	for (size_t i = 0; i < v->n_tiers; i++) {
		if (in_shadow(d->config, v->tiers[i].rule))
			continue;
		d->enforces = true;
		d->policy = stricter_policy(d->policy, v->tiers[i].rule->on_error);
	}
}

/* Nobody counted: what the rules say about a silent store holds, except that local cannot
 * be had. */
static void decide_uncounted(struct decision *d, bool closed)
{
	bool refuse = closed && d->enforces;

	d->verdict.n_tiers = 0;
	d->verdict.by = DECIDED_BY_FALLBACK;
	conclude(d, refuse ? OUTCOME_UNAVAILABLE : OUTCOME_PASS);
}

/* While Redis is silent the rules say what that comes to; where this memory is the store
 * there is nothing to wait for, and a client that fills it would be free of limits. */
static void out_of_memory(struct decision *d)
{
	static struct log_gate gate;
	uint64_t missed;

	if (log_gate_open(&gate, clock_mono_us(), &missed))
		log_error("no memory to count a request", LOG_INT("suppressed", missed));
	decide_uncounted(d, d->in_memory || d->policy == ON_ERROR_CLOSED);
}

static void read_view(struct tier_verdict *tv, const struct rate_view *view)
{
	tv->admitted = view->admitted;
	tv->remaining = view->remaining;
	tv->wait_us = view->wait_us;
	tv->reset_us = view->reset_us;
}

/* Answers into the verdict. A tier that nobody looked at has nothing to tell. */
static void read_views(struct decision *d)
{
	struct verdict *v = &d->verdict;
	size_t asked = 0, kept = 0;

	for (size_t i = 0; i < v->n_tiers; i++) {
		struct tier_verdict tv = v->tiers[i];
		const struct rate_view *view;

		if (tv.rule->counting == COUNT_LIMITED) {
			view = &d->take.views[asked++];
			if (view->unknown)
				continue;
			read_view(&tv, view);
			if (view->admitted && !in_shadow(d->config, tv.rule) &&
				view->hold_us > v->hold_us)
				v->hold_us = view->hold_us;
		}
		v->tiers[kept++] = tv;
	}
	v->n_tiers = kept;
}

/* Who refuses, and for how long. */
static void blame_all(struct decision *d)
{
	struct verdict *v = &d->verdict;
	const struct take *t = &d->take;

	for (size_t i = 0; i < v->n_tiers; i++)
		if (!v->tiers[i].admitted && !in_shadow(d->config, v->tiers[i].rule))
			blame(v, &v->tiers[i]);
	if (t->over_total) {
		struct tier_verdict *total = &v->tiers[v->n_tiers++];

		*total = (struct tier_verdict){ .rate = t->total_rate };
		read_view(total, &t->total);
		total->admitted = false;
		blame(v, total);
	}
}

static void answered(struct take *t)
{
	struct decision *d = CONTAINER_OF(t, struct decision, take);
	bool pass = t->admitted || !d->enforces;

	d->pending = false;
	if (t->failed) {
		out_of_memory(d);
		return;
	}
	/* With open the store was to let pass without looking. */
	if (t->closed ||
		(t->by == DECIDED_BY_FALLBACK && d->enforces &&
			d->policy == ON_ERROR_OPEN)) {
		decide_uncounted(d, t->closed);
		return;
	}
	d->verdict.by = t->by;
	read_views(d);
	if (!pass) {
		d->verdict.hold_us = 0;
		blame_all(d);
	}
	conclude(d, pass ? OUTCOME_PASS : OUTCOME_REFUSED);
}

/* What key= puts in the endpoint's place, the endpoint, or NULL for all of them. */
static const char *place_of(
	const struct tier *tier, const struct rule *rule, const struct endpoint *endpoint)
{
	if (rule->type != RULE_CUSTOM && rule->key && rule->key[0])
		return rule->key;
	return tier->site ? NULL : endpoint->name;
}

/* The address as the rule counts it. prefix= may be longer than client.ipv6_prefix, so
 * it is cut from the whole address. */
static struct view address_of(const struct rule *rule, const struct client *client,
	char scratch[ADDRESS_TEXT_MAX])
{
	struct address a;

	if (!rule->prefix || !address_parse(view_str(client->address), &a))
		return view_str(client->network);
	address_network_text(&a, rule->prefix, scratch);
	return view_str(scratch);
}

/* Appends the store key of one tier. */
static struct view put_key(struct decision *d, const struct tier_verdict *tv,
	const struct limit_subject *about)
{
	struct buf identity = { 0 };
	char address[ADDRESS_TEXT_MAX];
	struct key_parts parts = {
		.type = tv->rule->type,
		.user = view_str(about->client->user),
		.address = address_of(tv->rule, about->client, address),
		.place = place_of(tv->tier, tv->rule, about->endpoint),
		.rule = tv->tier->id,
		.way = tv->tier->way,
	};
	size_t before = d->keys.n;

	if (tv->rule->type == RULE_CUSTOM)
		said_identity(about, tv->rule, &identity);
	parts.custom = buf_view(&identity);
	key_put(&d->keys, d->config->store.prefix, &parts);
	d->keys.failed |= !buf_ok(&identity);
	buf_release(&identity);
	/* The address of the buffer is known when it has stopped growing. */
	return view_of(NULL, d->keys.n - before);
}

/* An earlier ask with the key that stands last in keys, or the n behind them all. */
static size_t find_key(const struct decision *d, struct view key)
{
	const char *last = d->keys.p + d->keys.n - key.n, *at = d->keys.p;
	size_t i;

	for (i = 0; i < d->take.n_tiers; i++) {
		if (view_eq(view_of(at, d->asks[i].key.n), view_of(last, key.n)))
			break;
		at += d->asks[i].key.n;
	}
	return i;
}

static bool is_stricter(const struct take_tier *a, const struct take_tier *b)
{
	if (a->shadow != b->shadow)
		return b->shadow;
	if (a->rate->count != b->rate->count)
		return a->rate->count < b->rate->count;
	if (a->rate->burst != b->rate->burst)
		return a->rate->burst < b->rate->burst;
	return a->rate->max_delay_us < b->rate->max_delay_us;
}

/* Two tiers that come to one key (key= can name an endpoint) are one count, charged once:
 * the least that either allows, for the larger cost as far as that fits. One in shadow
 * has no part in what another enforces. rate is kept's own. Whether other is the one that
 * a reply should tell of. */
static bool merge(struct take_tier *kept, struct rate *rate, const struct take_tier *other)
{
	const struct rate *more = other->rate;
	bool replace = is_stricter(other, kept);

	if (kept->shadow != other->shadow) {
		if (replace) {
			*rate = *more;
			*kept = *other;
			kept->rate = rate;
		}
		return replace;
	}
	/* The algorithm is one, and the window (config/checks.c). */
	if (more->count < rate->count)
		rate->count = more->count;
	if (more->burst < rate->burst)
		rate->burst = more->burst;
	if (more->max_delay_us < rate->max_delay_us)
		rate->max_delay_us = more->max_delay_us;
	if (other->cost > kept->cost)
		kept->cost = other->cost;
	if (kept->cost > rate->burst)
		kept->cost = rate->burst;
	kept->on_error = stricter_policy(kept->on_error, other->on_error);
	return replace;
}

/* One ask for each tier that is counted; keys lie behind one another in one buffer. */
static bool prepare(struct decision *d, const struct limit_subject *about,
	const uint64_t costs[TIERS_MAX])
{
	struct verdict *v = &d->verdict;
	size_t kept = 0, at = 0;
	size_t tier_of[TIERS_MAX];

	buf_reset(&d->keys);
	for (size_t i = 0; i < v->n_tiers; i++) {
		const struct tier_verdict tv = v->tiers[i];
		struct take_tier ask = { .rate = &tv.rule->rate,
			.cost = costs[i],
			.on_error = tv.rule->on_error,
			.shadow = in_shadow(d->config, tv.rule) };
		size_t same;

		if (tv.rule->counting != COUNT_LIMITED) {
			v->tiers[kept++] = tv;
			continue;
		}
		ask.key = put_key(d, &tv, about);
		if (!buf_ok(&d->keys))
			return false;
		same = find_key(d, ask.key);
		if (same == d->take.n_tiers) {
			d->rates[same] = *ask.rate;
			ask.rate = &d->rates[same];
			d->asks[d->take.n_tiers++] = ask;
			tier_of[same] = kept;
			v->tiers[kept++] = tv;
			continue;
		}
		d->keys.n -= ask.key.n;
		if (merge(&d->asks[same], &d->rates[same], &ask))
			v->tiers[tier_of[same]] = tv;
	}
	v->n_tiers = kept;
	for (size_t i = 0; i < d->take.n_tiers; i++) {
		d->asks[i].key.p = d->keys.p + at;
		at += d->asks[i].key.n;
	}
	return true;
}

/* What the request takes from each tier. A cost above what a tier ever holds is refused
 * for good, since waiting would not help, and then the verdict keeps those tiers alone.
 * Only a request that says so itself can cost that much. */
static bool never_fits(
	struct decision *d, const struct limit_subject *about, uint64_t costs[TIERS_MAX])
{
	struct verdict *v = &d->verdict;
	struct tier_verdict never[TIERS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < v->n_tiers; i++) {
		const struct rule *rule = v->tiers[i].rule;

		if (rule->counting != COUNT_LIMITED)
			continue;
		costs[i] = said_cost(about, rule);
		if (costs[i] > rule->rate.burst && !in_shadow(d->config, rule))
			never[n++] = v->tiers[i];
	}
	if (n == 0)
		return false;
	memcpy(v->tiers, never, n * sizeof(never[0]));
	v->n_tiers = n;
	blame(v, &v->tiers[0]);
	return true;
}

void limit_decide(struct decision *d, struct store *s, const struct config *c,
	const struct limit_subject *about)
{
	const struct client *client = about->client;
	uint64_t costs[TIERS_MAX] = { 0 };

	assert(!d->pending);
	d->config = c;
	d->in_memory = store_is_memory(s);
	d->verdict = (struct verdict){ 0 };
	d->take = (struct take){ .tiers = d->asks, .done = answered };
	if (!client->exempt && c->server.mode != MODE_OFF) {
		gather(d, &c->site, client->plan);
		if (about->endpoint)
			gather(d, &about->endpoint->tiers, client->plan);
	}
	if (forbid(d)) {
		conclude(d, OUTCOME_FORBIDDEN);
		return;
	}
	note_policy(d);
	if (never_fits(d, about, costs)) {
		conclude(d, OUTCOME_NEVER);
		return;
	}
	if (!prepare(d, about, costs)) {
		out_of_memory(d);
		return;
	}
	if (d->take.n_tiers == 0) {
		conclude(d, OUTCOME_PASS);
		return;
	}
	d->pending = true;
	store_take(s, &d->take);
}

void limit_cancel(struct decision *d)
{
	if (!d->pending)
		return;
	d->pending = false;
	store_cancel(&d->take);
}

void limit_release(struct decision *d)
{
	limit_cancel(d);
	buf_release(&d->keys);
}
