/*
 * fuzz_match.c - endpoints' patterns, the index over them, and the request they meet.
 *
 * The index is held against the plainest thing that could be: every pattern is compared
 * with the path from its beginning, and of those that match the most specific is looked
 * for by comparing segment by segment. What is found does not depend on the order in
 * which the patterns were added, and neither does whether some of them tie.
 *
 * Input: patterns, one a line ("METHODS PATH", and behind tabs host and query), an empty
 * line, and behind it the lines method, host and target of the request.
 */
#include "config/pattern.h"
#include "fuzz.h"
#include "limit/limit.h"
#include "limit/path.h"
#include "limit/query.h"

#define PATTERNS_MAX 12

struct plain {
	char *text; /* the line; the views are pieces of it */
	struct pattern_text written;
	struct view methods, path, host, query_name, query_value;
};

struct question {
	struct view method, host, path, query;
	struct request rq;
	struct pair params[2];
};

/* -- the plain matcher ------------------------------------------------------------- */

enum rank {
	RANK_END, /* the path ends here */
	RANK_LITERAL,
	RANK_NAMED,
	RANK_GLOB,
	RANK_REST
};

static enum rank rank_of(struct view segment)
{
	if (!segment.p)
		return RANK_END;
	if (view_eq(segment, VIEW("**")))
		return RANK_REST;
	if (segment.n && segment.p[0] == '{')
		return RANK_NAMED;
	return segment.n && memchr(segment.p, '*', segment.n) ? RANK_GLOB : RANK_LITERAL;
}

/* The next segment of a canonical path; p NULL at its end. */
static struct view next_segment(struct view *path)
{
	struct view segment;

	if (path->n == 0)
		return view_of(NULL, 0);
	segment = view_cut(path, '/');
	return segment;
}

static bool covers(struct view glob, struct view text)
{
	bool ends[2][256] = { { false } }; /* ends[.][j]: glob so far covers j bytes */

	ends[0][0] = true;
	for (size_t i = 0; i < glob.n; i++) {
		bool *from = ends[i % 2], *to = ends[(i + 1) % 2];
		bool any = false;

		for (size_t j = 0; j <= text.n; j++) {
			any |= from[j];
			if (glob.p[i] == '*')
				to[j] = any;
			else
				to[j] = j > 0 && from[j - 1] && text.p[j - 1] == glob.p[i];
		}
	}
	return ends[glob.n % 2][text.n];
}

static bool path_fits(struct view pattern, struct view path, struct captures *out)
{
	out->n = 0;
	pattern = view_skip(pattern, 1);
	path = view_skip(path, 1);
	for (;;) {
		struct view want = next_segment(&pattern);
		struct view got;

		if (rank_of(want) == RANK_REST)
			return true;
		got = next_segment(&path);
		switch (rank_of(want)) {
		case RANK_END: return !got.p;
		case RANK_LITERAL:
			if (!got.p || !view_eq(want, got))
				return false;
			break;
		case RANK_NAMED:
			if (!got.p)
				return false;
			MUST(out->n < PATTERN_PARAMS_MAX);
			out->list[out->n++].value = got;
			break;
		case RANK_GLOB:
			if (!got.p || got.n > 255 || !covers(want, got))
				return false;
			break;
		case RANK_REST: break;
		}
	}
}

static bool method_fits(struct view methods, struct view method)
{
	if (view_eq(methods, VIEW("*")))
		return true;
	while (methods.p) {
		struct view one = view_cut(&methods, ',');

		if (view_eq(one, method) ||
			(view_eq(one, VIEW("GET")) && view_eq(method, VIEW("HEAD"))))
			return true;
	}
	return false;
}

static bool query_fits(const struct plain *p, struct view query)
{
	struct view name, value;
	char wanted[2][256];

	if (!p->query_name.p)
		return true;
	snprintf(wanted[0], sizeof(wanted[0]), "%.*s", VIEW_ARG(p->query_name));
	snprintf(wanted[1], sizeof(wanted[1]), "%.*s", VIEW_ARG(p->query_value));
	while (query_next(&query, &name, &value))
		if (query_name_is(name, wanted[0]) && query_value_is(value, wanted[1]))
			return true;
	return false;
}

static bool fits(const struct plain *p, const struct question *q, struct captures *out)
{
	return method_fits(p->methods, q->method) && query_fits(p, q->query) &&
		(p->host.n == 0 || view_eq_nocase(p->host, q->host)) &&
		path_fits(p->path, q->path, out);
}

static size_t letters(struct view glob)
{
	size_t n = 0;

	for (size_t i = 0; i < glob.n; i++)
		n += glob.p[i] != '*';
	return n;
}

static int by_bytes(struct view a, struct view b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int c = n ? memcmp(a.p, b.p, n) : 0;

	return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* Below zero when a is the more specific of two that met one request. */
static int compare(const struct plain *a, const struct plain *b)
{
	struct view pa = view_skip(a->path, 1), pb = view_skip(b->path, 1), sa, sb;
	int c;

	if (!a->host.n != !b->host.n)
		return a->host.n ? -1 : 1;
	do {
		sa = next_segment(&pa);
		sb = next_segment(&pb);
		if (rank_of(sa) != rank_of(sb))
			return (int)rank_of(sa) - (int)rank_of(sb);
		if (rank_of(sa) == RANK_GLOB) {
			if (letters(sa) != letters(sb))
				return letters(sa) > letters(sb) ? -1 : 1;
			c = by_bytes(sa, sb);
			if (c)
				return c;
		}
	} while (sa.p);
	if (view_eq(a->methods, VIEW("*")) != view_eq(b->methods, VIEW("*")))
		return view_eq(a->methods, VIEW("*")) ? 1 : -1;
	if (!a->query_name.p != !b->query_name.p)
		return a->query_name.p ? -1 : 1;
	return by_bytes(a->query_value, b->query_value);
}

/* -- both of them ------------------------------------------------------------------ */

/* Cuts the line into the words that pattern_add() is given, NUL-terminated. */
static void read_plain(struct view line, struct plain *p)
{
	char *tab;

	*p = (struct plain){ 0 };
	p->text = strndup(line.p ? line.p : "", line.n);
	MUST(p->text);
	p->written.match = p->text;
	tab = strchr(p->text, '\t');
	if (!tab)
		return;
	*tab++ = '\0';
	p->written.host = *tab && *tab != '\t' ? tab : NULL;
	tab = strchr(tab, '\t');
	if (!tab)
		return;
	*tab++ = '\0';
	p->written.query = *tab ? tab : NULL;
}

/* Of a pattern that was taken, so it is known to be one. */
static void read_parts(struct plain *p)
{
	struct view match = view_trim(view_str(p->written.match));

	p->methods = view_cut(&match, ' ');
	p->path = view_trim(match);
	p->host = view_trim(view_str(p->written.host));
	p->query_value = view_trim(view_str(p->written.query));
	if (p->written.query)
		p->query_name = view_cut(&p->query_value, '=');
}

static struct pattern_index *index_of(struct plain *list, size_t n, bool backwards)
{
	struct pattern_index *ix = pattern_index_new();

	MUST(ix);
	for (size_t i = 0; i < n; i++) {
		size_t at = backwards ? n - 1 - i : i, tie;
		struct buf why = { 0 };

		MUST(pattern_add(ix, at, &list[at].written, &why, &tie));
		MUST(why.n == 0);
		buf_release(&why);
	}
	return ix;
}

/* Leaves in list the patterns that can stand together; the others are let go. */
static size_t add_all(struct plain *list, size_t n)
{
	struct pattern_index *ix = pattern_index_new();
	size_t kept = 0;

	MUST(ix);
	for (size_t i = 0; i < n; i++) {
		struct buf why = { 0 };
		size_t tie = 0;

		if (pattern_add(ix, kept, &list[i].written, &why, &tie)) {
			MUST(why.n == 0);
			list[kept++] = list[i];
		} else {
			MUST(buf_ok(&why) && why.n > 0);
			MUST(tie == SIZE_MAX || tie < kept);
			free(list[i].text);
		}
		buf_release(&why);
	}
	pattern_index_free(ix);
	return kept;
}

static void check(const struct pattern_index *ix, const struct plain *list, size_t n,
	const struct question *q)
{
	struct endpoint endpoints[PATTERNS_MAX];
	struct config c = { .endpoints = endpoints, .n_endpoints = n };
	struct captures captures = { 0 }, wanted_captures = { 0 }, some = { 0 };
	const struct plain *wanted = NULL;
	const struct endpoint *got;

	memcpy(&c.patterns, &ix, sizeof(ix));
	for (size_t i = 0; i < n; i++) {
		if (!fits(&list[i], q, &some) || (wanted && compare(wanted, &list[i]) < 0))
			continue;
		wanted = &list[i];
		wanted_captures = some;
	}
	got = limit_match(&c, &q->rq, q->path, q->query, &captures);
	MUST(!got == !wanted);
	MUST(!got || got - endpoints == wanted - list);
	MUST(captures.n == wanted_captures.n);
	for (size_t i = 0; i < captures.n; i++) {
		MUST(captures.list[i].name);
		MUST(view_eq(captures.list[i].value, wanted_captures.list[i].value));
	}
}

/* Without port and final dot. */
static struct view bare_host(struct view host)
{
	const char *colon = host.n ? memrchr(host.p, ':', host.n) : NULL;

	if (colon && !memchr(colon, ']', (size_t)(host.p + host.n - colon)))
		host.n = (size_t)(colon - host.p);
	if (host.n && host.p[host.n - 1] == '.')
		host.n--;
	return host.n > 254 ? VIEW("") : host;
}

static void read_question(struct view lines, struct question *q, struct buf *canonical)
{
	struct view host;

	q->method = view_cut(&lines, '\n');
	host = view_cut(&lines, '\n');
	q->host = bare_host(view_trim(host));
	q->query = view_cut(&lines, '\n');
	path_canonical(view_cut(&q->query, '?'), canonical);
	MUST(buf_ok(canonical));
	q->path = buf_view(canonical);
	q->params[0] = (struct pair){ VIEW("REQUEST_METHOD"), q->method };
	q->params[1] = (struct pair){ VIEW("HTTP_HOST"), host };
	q->rq = (struct request){ .params = q->params, .n_params = 2 };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view copy = fuzz_copy(view_of((const char *)data, size)), rest = copy, line;
	struct plain list[PATTERNS_MAX];
	struct pattern_index *ix, *reverse;
	struct question q = { 0 };
	struct buf canonical = { 0 };
	size_t n = 0;

	while (rest.n && (line = view_cut(&rest, '\n')).n)
		if (n < PATTERNS_MAX)
			read_plain(line, &list[n++]);
	n = add_all(list, n);
	for (size_t i = 0; i < n; i++)
		read_parts(&list[i]);
	read_question(rest, &q, &canonical);
	ix = index_of(list, n, false);
	check(ix, list, n, &q);
	reverse = index_of(list, n, true);
	check(reverse, list, n, &q);

	pattern_index_free(ix);
	pattern_index_free(reverse);
	for (size_t i = 0; i < n; i++)
		free(list[i].text);
	buf_release(&canonical);
	fuzz_drop(copy);
	return 0;
}
