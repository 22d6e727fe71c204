/*
 * client/forwarded.c - X-Forwarded-For and Forwarded, read from the right.
 *
 * Quoted strings of Forwarded are read from the right as well: an opening quote that a
 * client leaves without its partner cannot swallow what proxies add behind it.
 *
 * Left out: lighttpd (seen with 1.4.69) hands X_Forwarded_For on under the name of
 * X-Forwarded-For. Behind a proxy that lets such a header pass, a client can add the
 * rightmost entry; let the proxy drop header names with underscores, as nginx does.
 */
#include "client/forwarded.h"

/* A header's entries from the last to the first, over all parameters of that name: a
 * web server may repeat a header, and the lines form one list in their order
 * (RFC 9110, section 5.3). */
struct walk {
	const struct request *rq;
	struct view name;
	bool quotes;      /* entries may hold quoted strings */
	size_t params;    /* parameters not yet looked at: the first so many */
	struct view rest; /* of the present one, entries not yet taken */
};

/* Whether the quote at p[at] is one character of a quoted string (RFC 9110, 5.6.4). */
static bool is_escaped(const char *p, size_t at)
{
	size_t slashes = 0;

	while (slashes < at && p[at - 1 - slashes] == '\\')
		slashes++;
	return slashes % 2 == 1;
}

/* Cuts the last entry off *list. */
static struct view take_last(struct view *list, bool quotes)
{
	bool inside = false;
	size_t at = list->n;
	struct view entry;

	for (; at > 0; at--) {
		char c = list->p[at - 1];

		if (c == ',' && !inside)
			break;
		if (c == '"' && quotes && !is_escaped(list->p, at - 1))
			inside = !inside;
	}
	entry = view_skip(*list, at);
	list->n = at ? at - 1 : 0;
	return entry;
}

/* The next entry to the left that is not empty; false when there is none. */
static bool walk_left(struct walk *w, struct view *entry)
{
	for (;;) {
		while (w->rest.n) {
			*entry = view_trim(take_last(&w->rest, w->quotes));
			if (entry->n)
				return true;
		}
		do {
			if (w->params == 0)
				return false;
			w->params--;
		} while (!view_eq(w->rq->params[w->params].name, w->name));
		w->rest = w->rq->params[w->params].value;
	}
}

/* Takes a quoted string from the front of *in and puts what it says into out. False
 * when it does not end; what does not fit is longer than any address, so it is cut. */
static bool take_quoted(struct view *in, char *out, size_t cap, struct view *text)
{
	size_t n = 0;

	for (size_t i = 1; i < in->n; i++) {
		char c = in->p[i];

		if (c == '"') {
			*text = view_of(out, n);
			*in = view_skip(*in, i + 1);
			return true;
		}
		if (c == '\\' && ++i == in->n)
			return false;
		if (n < cap)
			out[n++] = in->p[i];
	}
	return false;
}

/* Takes "name=value" and the ';' behind it from the front of *in. */
static bool take_pair(
	struct view *in, char *out, size_t cap, struct view *name, struct view *value)
{
	struct view tail;

	if (!memchr(in->p, '=', in->n))
		return false;
	*name = view_cut(in, '=');
	if (memchr(name->p, '"', name->n))
		return false;
	if (in->n == 0 || in->p[0] != '"') {
		*value = view_trim(view_cut(in, ';'));
		return value->n == 0 || !memchr(value->p, '"', value->n);
	}
	if (!take_quoted(in, out, cap, value))
		return false;
	tail = view_cut(in, ';');
	return view_trim(tail).n == 0;
}

/* The address after "for=" in one entry of Forwarded. */
static bool parse_element(struct view entry, struct address *out)
{
	char unquoted[128];
	bool found = false;

	for (;;) {
		struct view name, value;

		entry = view_trim(entry);
		if (entry.n == 0)
			return found;
		if (entry.p[0] == ';') { /* an empty pair is allowed */
			entry = view_skip(entry, 1);
			continue;
		}
		if (!take_pair(&entry, unquoted, sizeof(unquoted), &name, &value))
			return false;
		if (!view_eq_nocase(name, VIEW("for")))
			continue;
		/* No parameter may occur twice (RFC 7239, section 4). */
		if (found || !address_parse(value, out))
			return false;
		found = true;
	}
}

static enum forwarded walk_header(struct walk w,
	bool (*parse)(struct view, struct address *), const struct networks *trusted,
	struct address *out)
{
	struct address at;
	struct view entry;
	int hops = 0;

	while (walk_left(&w, &entry)) {
		if (hops++ == FORWARDED_HOPS_MAX || !parse(entry, &at))
			return FORWARDED_MALFORMED;
		if (!address_in(&at, trusted))
			goto found;
	}
	if (hops == 0)
		return FORWARDED_NONE;
found:
	*out = at;
	return FORWARDED_FOUND;
}

enum forwarded forwarded_client(
	const struct request *rq, const struct networks *trusted, struct address *out)
{
	struct walk w = { .rq = rq, .params = rq->n_params };
	struct address by_list, by_element;
	enum forwarded list, element;

	w.name = VIEW("HTTP_X_FORWARDED_FOR");
	list = walk_header(w, address_parse, trusted, &by_list);
	w.name = VIEW("HTTP_FORWARDED");
	w.quotes = true;
	element = walk_header(w, parse_element, trusted, &by_element);

	if (list == FORWARDED_NONE) {
		if (element == FORWARDED_FOUND)
			*out = by_element;
		return element;
	}
	if (list == FORWARDED_FOUND && element == FORWARDED_FOUND &&
		!address_equal(&by_list, &by_element))
		return FORWARDED_CONTRADICTORY;
	if (list == FORWARDED_FOUND && element == FORWARDED_MALFORMED)
		return FORWARDED_CONTRADICTORY;
	if (list == FORWARDED_FOUND)
		*out = by_list;
	return list;
}
