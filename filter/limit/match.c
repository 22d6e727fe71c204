/*
 * limit/match.c - which endpoint a request means.
 *
 * A walk down the index of patterns, at each segment the more specific branch first:
 * literal, {name}, *, **. A branch that leads to no endpoint is left again. Every node
 * lies at one depth under one parent, so it is entered at most once a request: the cost
 * is bounded by the index whatever the client sends, and is a look-up a segment for
 * patterns that do not overlap.
 *
 * A condition on the query holds when any parameter of that name has the value. So
 * repeating the name does not lead around a rule; it can lead into one. Give the endpoint
 * with a query the tighter limits, and the one without it the wider.
 */
#include "limit/limit.h"

#include <assert.h>

#include "config/pattern.h"
#include "limit/query.h"

/* Longest host name (RFC 1035, section 2.3.4), and the dot some write behind it. */
#define HOST_MAX 254

/* What a leaf is asked about, and what {name} was on the way to it. */
struct question {
	struct view method, query;
	struct view named[PATTERN_PARAMS_MAX];
	size_t n_named;
};

static bool query_has(struct view query, const char *name, const char *value)
{
	struct view found_name, found_value;

	while (query_next(&query, &found_name, &found_value)) {
		if (query_name_is(found_name, name) && query_value_is(found_value, value))
			return true;
	}
	return false;
}

/* Methods are case-sensitive (RFC 9110, section 9.1). */
static bool takes_method(const struct pattern_leaf *leaf, struct view method)
{
	for (size_t i = 0; i < leaf->n_methods; i++) {
		struct view taken = view_str(leaf->methods[i]);

		if (view_eq(taken, method) ||
			(view_eq(taken, VIEW("GET")) && view_eq(method, VIEW("HEAD"))))
			return true;
	}
	return leaf->methods == NULL;
}

static const struct pattern_leaf *pick(
	const struct pattern_leaf *leaf, const struct question *q)
{
	for (; leaf; leaf = leaf->next)
		if (takes_method(leaf, q->method) &&
			(!leaf->query_name ||
				query_has(q->query, leaf->query_name, leaf->query_value)))
			return leaf;
	return NULL;
}

/* Whether text, in which each * stands for any bytes, covers all of segment. The last *
 * alone ever has to take one byte more: what an earlier one could gain it gains too. */
static bool glob_covers(const char *text, struct view segment)
{
	const char *star = NULL;
	size_t at = 0, resume = 0;

	while (at < segment.n) {
		if (*text == '*') {
			star = text++;
			resume = at;
		} else if (*text != '\0' && *text == segment.p[at]) {
			text++;
			at++;
		} else if (star) {
			text = star + 1;
			at = ++resume;
		} else {
			return false;
		}
	}
	while (*text == '*')
		text++;
	return *text == '\0';
}

/* rest is what follows the slash behind this node's segment; n 0 at the path's end. */
static const struct pattern_leaf *walk(
	const struct pattern_node *node, struct view rest, struct question *q)
{
	const struct pattern_leaf *found = NULL;
	struct view below = rest, segment;
	struct table_node *literal;

	if (rest.n == 0) {
		found = pick(node->here, q);
		return found ? found : pick(node->rest, q);
	}
	segment = view_cut(&below, '/');
	literal = table_find(&node->literals, segment, table_hash(segment));
	if (literal)
		found = walk(CONTAINER_OF(literal, struct pattern_node, link), below, q);
	if (!found && node->named) {
		/* No pattern has more of them, so no way down meets more. */
		assert(q->n_named < PATTERN_PARAMS_MAX);
		q->named[q->n_named++] = segment;
		found = walk(node->named, below, q);
		if (!found)
			q->n_named--;
	}
	for (const struct pattern_glob *glob = node->globs; !found && glob;
		glob = glob->next)
		if (glob_covers(glob->text, segment))
			found = walk(glob->child, below, q);
	return found ? found : pick(node->rest, q);
}

/* Port and final dot off, lower case: names are compared without case (RFC 4343). */
static struct view host_name(const struct request *rq, char out[HOST_MAX])
{
	struct view host = view_trim(request_param(rq, "HTTP_HOST"));
	const char *colon;

	if (host.n == 0)
		host = view_trim(request_param(rq, "SERVER_NAME"));
	colon = host.n ? memrchr(host.p, ':', host.n) : NULL;
	/* The colons of an IPv6 address stand in brackets, a port's behind them. */
	if (colon && !memchr(colon, ']', host.n - (size_t)(colon - host.p)))
		host.n = (size_t)(colon - host.p);
	if (host.n && host.p[host.n - 1] == '.')
		host.n--;
	if (host.n > HOST_MAX)
		return view_of(NULL, 0);
	for (size_t i = 0; i < host.n; i++)
		out[i] = host.p[i] >= 'A' && host.p[i] <= 'Z' ? (char)(host.p[i] | 0x20)
							      : host.p[i];
	return view_of(out, host.n);
}

/* The names are in the order of the path, as the segments are. */
static void capture(
	const struct pattern_leaf *leaf, const struct question *q, struct captures *out)
{
	out->n = 0;
	if (!leaf)
		return;
	assert(leaf->n_params == q->n_named);
	for (; out->n < q->n_named; out->n++) {
		out->list[out->n].name = leaf->param_names[out->n];
		out->list[out->n].value = q->named[out->n];
	}
}

const struct endpoint *limit_match(const struct config *c, const struct request *rq,
	struct view path, struct view query, struct captures *captures)
{
	struct question q = { .method = request_param(rq, "REQUEST_METHOD"),
		.query = query };
	const struct pattern_index *ix = c->patterns;
	const struct pattern_leaf *leaf = NULL;
	struct table_node *node;
	char host_bytes[HOST_MAX];
	struct view host;

	if (captures)
		captures->n = 0;
	if (!ix)
		return NULL;
	if (path.n && path.p[0] == '/')
		path = view_skip(path, 1);
	host = host_name(rq, host_bytes);
	node = table_find(&ix->hosts, host, table_hash(host));
	if (node)
		leaf = walk(CONTAINER_OF(node, struct pattern_host, link)->root, path, &q);
	if (!leaf && ix->any_host)
		leaf = walk(ix->any_host, path, &q);
	if (captures)
		capture(leaf, &q, captures);
	return leaf ? &c->endpoints[leaf->endpoint] : NULL;
}
