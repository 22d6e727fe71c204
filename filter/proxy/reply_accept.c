/*
 * proxy/reply_accept.c - reading a client's preferences.
 *
 * Both fields are lists of a value, parameters, and a weight from 0 to 1. The weight is
 * kept in thousandths; 0 says "not this". Work is linear in the length of the field,
 * and a member's language range is at most RANGE_MAX bytes, so a field of the size of
 * a whole head costs no more than reading it.
 */
#include "proxy/reply_accept.h"

/* Longer than any language tag in use (RFC 5646, section 4.4.1, finds 35 enough). */
#define RANGE_MAX 64

struct preference {
	struct view value;
	unsigned weight; /* thousandths */
};

/* view_cut() that does not see a c inside a quoted string (RFC 9110, section 5.6.4). */
static struct view cut_unquoted(struct view *v, char c)
{
	struct view head = *v;
	bool quoted = false;

	for (size_t i = 0; i < v->n; i++) {
		if (v->p[i] == '"')
			quoted = !quoted;
		else if (quoted && v->p[i] == '\\')
			i++;
		else if (!quoted && v->p[i] == c) {
			head.n = i;
			*v = view_skip(*v, i + 1);
			return head;
		}
	}
	*v = (struct view){ NULL, 0 };
	return head;
}

/* RFC 9110, section 12.4.2: 0 to 1 with at most three digits behind the point. */
static bool read_weight(struct view v, unsigned *out)
{
	unsigned sum = 0;

	if (v.n == 0 || v.n > 5 || (v.p[0] != '0' && v.p[0] != '1') ||
		(v.n > 1 && v.p[1] != '.'))
		return false;
	for (size_t i = 0, digits = 0; digits < 4; i++) {
		char c = i < v.n ? v.p[i] : '0';

		if (i == 1)
			continue;
		if (c < '0' || c > '9')
			return false;
		sum = sum * 10 + (unsigned)(c - '0');
		digits++;
	}
	if (sum > 1000)
		return false;
	*out = sum;
	return true;
}

/* The next well-formed member of *list. False at its end, or when *left, the number of
 * members that may still be read, is used up. */
static bool next_preference(struct view *list, unsigned *left, struct preference *out)
{
	while (list->n && *left) {
		struct view rest = cut_unquoted(list, ',');
		bool good = true;

		*left -= 1;
		out->value = view_trim(cut_unquoted(&rest, ';'));
		out->weight = 1000;
		while (rest.n) {
			struct view value = cut_unquoted(&rest, ';');
			struct view name = view_trim(view_cut(&value, '='));

			if (!view_eq_nocase(name, VIEW("q")))
				continue;
			good = read_weight(view_trim(value), &out->weight);
			break;
		}
		if (good && out->value.n)
			return true;
	}
	return false;
}

bool accept_problem_json(struct view accept)
{
	unsigned left = ACCEPT_MEMBERS_MAX, problem = 0, json = 0;
	struct preference p;

	while (next_preference(&accept, &left, &p)) {
		if (view_eq_nocase(p.value, VIEW("application/problem+json")))
			problem = p.weight;
		else if (view_eq_nocase(p.value, VIEW("application/json")))
			json = p.weight;
	}
	return problem > 0 && problem >= json;
}

/* -- languages --------------------------------------------------------------------- */

struct languages {
	const struct localized *list;
	size_t n;
	const char *other;
	struct preference wanted[ACCEPT_MEMBERS_MAX]; /* by weight, else as they came */
	size_t n_wanted;
};

static void read_wanted(struct languages *l, struct view accept)
{
	unsigned left = ACCEPT_MEMBERS_MAX;
	struct preference p;

	while (next_preference(&accept, &left, &p)) {
		size_t at = l->n_wanted;

		if (p.value.n > RANGE_MAX)
			continue;
		for (; at > 0 && l->wanted[at - 1].weight < p.weight; at--)
			l->wanted[at] = l->wanted[at - 1];
		l->wanted[at] = p;
		l->n_wanted++;
	}
}

static bool unwanted(const struct languages *l, struct view tag)
{
	for (size_t i = l->n_wanted; i > 0 && l->wanted[i - 1].weight == 0; i--)
		if (view_eq_nocase(l->wanted[i - 1].value, tag))
			return true;
	return false;
}

/* Whether a message has exactly that tag; *out as accept_language() returns it. */
static bool find_tag(
	const struct languages *l, struct view tag, const struct localized **out)
{
	for (size_t i = 0; i < l->n; i++)
		if (view_eq_nocase(view_str(l->list[i].language), tag)) {
			*out = &l->list[i];
			return true;
		}
	*out = NULL;
	return l->other && view_eq_nocase(view_str(l->other), tag);
}

/* Takes the last subtag off, and a single letter or digit before it, which says nothing
 * without it. */
static struct view shorten(struct view tag)
{
	bool single = true;

	while (single && tag.n) {
		size_t dash = tag.n;

		while (dash > 0 && tag.p[dash - 1] != '-')
			dash--;
		tag.n = dash ? dash - 1 : 0;
		single = tag.n == 1 || (tag.n > 1 && tag.p[tag.n - 2] == '-');
	}
	return tag;
}

/* A range "*" equals no tag and so is passed over, as RFC 4647 wants it. */
const struct localized *accept_language(
	const struct localized *list, size_t n, const char *other, struct view accept)
{
	struct languages l = { .list = list, .n = n, .other = other };
	const struct localized *found;

	read_wanted(&l, accept);
	for (size_t i = 0; i < l.n_wanted && l.wanted[i].weight > 0; i++)
		for (struct view tag = l.wanted[i].value; tag.n; tag = shorten(tag))
			if (find_tag(&l, tag, &found) && !unwanted(&l, tag))
				return found;
	return NULL;
}
