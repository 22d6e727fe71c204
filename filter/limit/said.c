#include "limit/said.h"

#include "base/clock.h"
#include "base/log.h"
#include "limit/keys.h"
#include "limit/query.h"

enum found {
	FOUND_NONE,
	FOUND_ONE,
	FOUND_MANY
};

static enum found one_more(enum found before)
{
	return before == FOUND_NONE ? FOUND_ONE : FOUND_MANY;
}

static enum found find_param(
	const struct limit_subject *about, const char *name, struct view *out)
{
	enum found found = FOUND_NONE;
	const struct request *rq = about->request;

	for (size_t i = 0; rq && i < rq->n_params; i++) {
		if (!view_eq(rq->params[i].name, view_str(name)))
			continue;
		found = one_more(found);
		*out = view_trim(rq->params[i].value);
	}
	return found;
}

/* The value stays encoded. */
static enum found find_query(
	const struct limit_subject *about, const char *wanted, struct view *out)
{
	struct view query = about->query, name, value;
	enum found found = FOUND_NONE;

	while (query_next(&query, &name, &value)) {
		if (!query_name_is(name, wanted))
			continue;
		found = one_more(found);
		*out = value;
	}
	return found;
}

/* Names and values are read as PHP does, which undoes percent-encoding: elsewhere such a
 * spelling is another value, but nobody uses it except to be somebody else. And of several
 * Cookie fields an application may see one: whatever is in them, that is unclear. */
static enum found find_cookie(
	const struct limit_subject *about, const char *wanted, struct view *out)
{
	struct cookies all = { .rq = about->request };
	struct view ignored, name, value;
	enum found found = find_param(about, "HTTP_COOKIE", &ignored);

	if (found != FOUND_ONE)
		return found;
	found = FOUND_NONE;
	while (cookies_next(&all, &name, &value)) {
		if (!query_name_is(name, wanted))
			continue;
		found = one_more(found);
		*out = value;
	}
	return found;
}

static struct view find_capture(const struct limit_subject *about, const char *name)
{
	for (size_t i = 0; i < about->captures.n; i++) {
		if (strcmp(about->captures.list[i].name, name) == 0)
			return about->captures.list[i].value;
	}
	return VIEW("");
}

static struct view decoded(enum found found, struct view encoded, struct buf *scratch)
{
	buf_reset(scratch);
	if (found == FOUND_ONE)
		query_decode(encoded, scratch);
	return buf_view(scratch);
}

struct view said_piece(const struct limit_subject *about, const struct key_piece *piece,
	struct buf *scratch)
{
	struct view value = { 0 };
	enum found found;

	switch (piece->kind) {
	case PIECE_TEXT: return view_str(piece->text);
	case PIECE_HEADER:
	case PIECE_PARAM:
		found = find_param(about, piece->text, &value);
		return found == FOUND_ONE ? value : VIEW("");
	case PIECE_COOKIE:
		found = find_cookie(about, piece->text, &value);
		return decoded(found, value, scratch);
	case PIECE_QUERY:
		found = find_query(about, piece->text, &value);
		return decoded(found, value, scratch);
	case PIECE_PATH: return find_capture(about, piece->text);
	case PIECE_IP: return view_str(about->client->network);
	case PIECE_USER: return view_str(about->client->user);
	case PIECE_PLAN: return view_str(about->client->plan);
	}
	return value;
}

void said_identity(
	const struct limit_subject *about, const struct rule *rule, struct buf *out)
{
	struct buf scratch = { 0 };

	for (size_t i = 0; i < rule->n_pieces; i++) {
		const struct key_piece *piece = &rule->pieces[i];
		struct view text = said_piece(about, piece, &scratch);
		bool last = i + 1 == rule->n_pieces;

		if (piece->kind != PIECE_TEXT) {
			if (piece->secret)
				key_put_secret(out, text);
			else
				key_put_part(out, text);
			if (!last)
				buf_add_byte(out, ':');
			out->failed |= !buf_ok(&scratch);
			continue;
		}
		if (i > 0 && text.p[0] == ':')
			text = view_skip(text, 1);
		key_put_text(out, text);
	}
	buf_release(&scratch);
}

static void note_capped(const struct rule *rule, struct view said)
{
	static struct log_gate gate;
	uint64_t missed;

	if (log_gate_open(&gate, clock_mono_us(), &missed))
		log_notice(
			"request says a cost above cost_max, which is what it is charged",
			LOG_STR("file", rule->file), LOG_INT("line", rule->line),
			LOG_VIEW("cost", said), LOG_INT("cost_max", rule->cost.max),
			LOG_INT("suppressed", missed));
}

static bool is_digits(struct view v)
{
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] < '0' || v.p[i] > '9')
			return false;
	return v.n > 0;
}

uint64_t said_cost(const struct limit_subject *about, const struct rule *rule)
{
	const struct cost *c = &rule->cost;
	struct buf scratch = { 0 };
	struct view text = { 0 };
	enum found found;
	uint64_t cost = c->max;
	bool never = false;

	if (c->source == COST_FIXED)
		return c->fixed;
	if (c->source == COST_HEADER) {
		found = find_param(about, c->name, &text);
	} else {
		found = find_query(about, c->name, &text);
		text = view_trim(decoded(found, text, &scratch));
	}
	if (found == FOUND_NONE || (found == FOUND_ONE && text.n == 0 && buf_ok(&scratch)))
		cost = c->fixed;
	else if (found == FOUND_ONE && is_digits(text)) {
		/* More than the tier ever holds stays so: that is refused for good. */
		never = !view_number(text, rule->rate.burst, &cost);
		if (!never && cost > c->max)
			note_capped(rule, text);
	}
	buf_release(&scratch);
	if (never)
		return rule->rate.burst + 1;
	if (cost < c->min)
		return c->min;
	return cost < c->max ? cost : c->max;
}
