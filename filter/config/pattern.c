/*
 * config/pattern.c - the index over all endpoints' patterns, and what ties in it.
 *
 * Two patterns tie when some request meets both and neither is more specific. To find
 * one, a new pattern is followed through the trie along segments of its own kinds.
 */
#include "config/pattern.h"

#include <stdlib.h>

#include "config/mistakes.h"
#include "config/pattern_read.h"

/* Not more than PATTERN_SEGMENTS_MAX deep. */
static void node_free(struct pattern_node *node)
{
	if (!node)
		return;
	for (size_t i = 0; i < node->literals.n_slots; i++) {
		struct table_node *link = node->literals.slots[i];

		while (link) {
			struct table_node *next = link->next;

			node_free(CONTAINER_OF(link, struct pattern_node, link));
			link = next;
		}
	}
	table_release(&node->literals);
	node_free(node->named);
	while (node->globs) {
		struct pattern_glob *glob = node->globs;

		node->globs = glob->next;
		node_free(glob->child);
		free(glob->text);
		free(glob);
	}
	pattern_leaves_free(node->rest);
	pattern_leaves_free(node->here);
	free(node->text);
	free(node);
}

struct pattern_index *pattern_index_new(void)
{
	return calloc(1, sizeof(struct pattern_index));
}

static void host_free(struct pattern_host *host)
{
	node_free(host->root);
	free(host->name);
	free(host);
}

void pattern_index_free(struct pattern_index *ix)
{
	if (!ix)
		return;
	for (size_t i = 0; i < ix->hosts.n_slots; i++) {
		struct table_node *link = ix->hosts.slots[i];

		while (link) {
			struct table_node *next = link->next;

			host_free(CONTAINER_OF(link, struct pattern_host, link));
			link = next;
		}
	}
	table_release(&ix->hosts);
	node_free(ix->any_host);
	free(ix);
}

static size_t literal_bytes(struct view glob)
{
	size_t n = 0;

	for (size_t i = 0; i < glob.n; i++)
		n += glob.p[i] != '*';
	return n;
}

/* Where a glob belongs in the list: more literal bytes first, then by text, so that
 * the order does not depend on that of the files. */
static bool glob_before(struct view a, struct view b)
{
	size_t na = literal_bytes(a), nb = literal_bytes(b);
	size_t n = a.n < b.n ? a.n : b.n;
	int c;

	if (na != nb)
		return na > nb;
	c = memcmp(a.p, b.p, n);
	return c ? c < 0 : a.n < b.n;
}

static struct pattern_node *child_literal(struct pattern_node *node, struct view text)
{
	uint64_t hash = table_hash(text);
	struct table_node *link = table_find(&node->literals, text, hash);
	struct pattern_node *child;

	if (link)
		return CONTAINER_OF(link, struct pattern_node, link);
	child = calloc(1, sizeof(*child));
	if (!child)
		return NULL;
	child->text = strndup(text.p, text.n);
	child->link.key = view_of(child->text, text.n);
	child->link.hash = hash;
	if (!child->text || !table_insert(&node->literals, &child->link)) {
		node_free(child);
		return NULL;
	}
	return child;
}

static struct pattern_node *child_glob(struct pattern_node *node, struct view text)
{
	struct pattern_glob **at = &node->globs, *glob;

	while (*at && glob_before(view_str((*at)->text), text))
		at = &(*at)->next;
	if (*at && view_eq(view_str((*at)->text), text))
		return (*at)->child;
	glob = calloc(1, sizeof(*glob));
	if (!glob)
		return NULL;
	glob->text = strndup(text.p, text.n);
	glob->child = calloc(1, sizeof(*glob->child));
	if (!glob->text || !glob->child) {
		free(glob->text);
		free(glob->child);
		free(glob);
		return NULL;
	}
	glob->next = *at;
	*at = glob;
	return glob->child;
}

/* The trie of the host, made when there is none. */
static struct pattern_node **root_of(struct pattern_index *ix, const char *name)
{
	struct view key = view_str(name);
	uint64_t hash = table_hash(key);
	struct table_node *link;
	struct pattern_host *host;

	if (!key.n)
		return &ix->any_host;
	link = table_find(&ix->hosts, key, hash);
	if (link)
		return &CONTAINER_OF(link, struct pattern_host, link)->root;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	host->name = strdup(name);
	host->link.key = view_of(host->name, key.n);
	host->link.hash = hash;
	if (!host->name || !table_insert(&ix->hosts, &host->link)) {
		host_free(host);
		return NULL;
	}
	return &host->root;
}

/* Whether some text fits both globs: row i+1 and i of "do the ends of a and b, from i
 * and j on, meet", from the ends towards the fronts. */
static bool globs_meet(struct view a, struct view b)
{
	bool rows[2][GLOB_MAX + 1];

	for (size_t i = a.n + 1; i-- > 0;) {
		bool *row = rows[i % 2], *below = rows[(i + 1) % 2];

		for (size_t j = b.n + 1; j-- > 0;) {
			bool more_a = i < a.n, more_b = j < b.n;

			if (!more_a && !more_b)
				row[j] = true;
			else if (more_a && a.p[i] == '*')
				row[j] = below[j] || (more_b && row[j + 1]);
			else if (more_b && b.p[j] == '*')
				row[j] = row[j + 1] || (more_a && below[j]);
			else
				row[j] = more_a && more_b && a.p[i] == b.p[j] &&
					below[j + 1];
		}
	}
	return rows[0][0];
}

/* Whether a method is in both; GET stands for HEAD too. */
static bool methods_meet(const struct pattern_leaf *a, const struct pattern_leaf *b)
{
	if (!a->methods)
		return true;
	for (size_t i = 0; i < a->n_methods; i++) {
		struct view one = view_str(a->methods[i]);

		if (pattern_in_list(b->methods, b->n_methods, one))
			return true;
		if (view_eq(one, VIEW("GET")) &&
			pattern_in_list(b->methods, b->n_methods, VIEW("HEAD")))
			return true;
		if (view_eq(one, VIEW("HEAD")) &&
			pattern_in_list(b->methods, b->n_methods, VIEW("GET")))
			return true;
	}
	return false;
}

/* How much is given beside the path: the method counts for more. */
static int leaf_rank(const struct pattern_leaf *leaf)
{
	return (leaf->methods ? 2 : 0) + (leaf->query_name ? 1 : 0);
}

/* The order in which leaves are tried. Leaves of one rank do not tie, yet a query may
 * repeat a parameter and so meet two of them: by value, not by the order of files. */
static bool leaf_before(const struct pattern_leaf *a, const struct pattern_leaf *b)
{
	if (leaf_rank(a) != leaf_rank(b))
		return leaf_rank(a) > leaf_rank(b);
	return a->query_value && strcmp(a->query_value, b->query_value) <= 0;
}

/* Whether some request meets both while neither is more specific. Two conditions on
 * different parameters can hold at once; two values of one cannot. */
static bool leaves_tie(const struct pattern_leaf *a, const struct pattern_leaf *b)
{
	if (leaf_rank(a) != leaf_rank(b) || !methods_meet(a, b))
		return false;
	return !a->query_name || strcmp(a->query_name, b->query_name) != 0 ||
		strcmp(a->query_value, b->query_value) == 0;
}

static const struct pattern_leaf *tie_in(
	const struct pattern_leaf *list, const struct pattern_leaf *leaf)
{
	while (list && !leaves_tie(list, leaf))
		list = list->next;
	return list;
}

/* The first leaf below node that ties with the pattern from segment i on: same kinds
 * all the way, and globs that meet. */
static const struct pattern_leaf *find_tie(
	const struct pattern_node *node, const struct pattern *p, size_t i)
{
	const struct segment *s = &p->segments[i];
	const struct pattern_leaf *found = NULL;
	struct table_node *link;

	if (!node)
		return NULL;
	if (i == p->n_segments)
		return tie_in(node->here, p->leaf);
	switch (s->kind) {
	case SEGMENT_REST: return tie_in(node->rest, p->leaf);
	case SEGMENT_NAMED: return find_tie(node->named, p, i + 1);
	case SEGMENT_LITERAL:
		link = table_find(&node->literals, s->text, table_hash(s->text));
		if (link)
			found = find_tie(
				CONTAINER_OF(link, struct pattern_node, link), p, i + 1);
		break;
	case SEGMENT_GLOB:
		for (const struct pattern_glob *g = node->globs; g && !found; g = g->next) {
			struct view text = view_str(g->text);

			if (literal_bytes(text) == literal_bytes(s->text) &&
				globs_meet(text, s->text))
				found = find_tie(g->child, p, i + 1);
		}
		break;
	}
	return found;
}

/* Makes room for the pattern's path; where its leaf belongs, or NULL. */
static struct pattern_leaf **grow_path(struct pattern_index *ix, const struct pattern *p)
{
	struct pattern_node **root = root_of(ix, p->host), *node;

	if (!root)
		return NULL;
	if (!*root)
		*root = calloc(1, sizeof(**root));
	node = *root;
	for (size_t i = 0; node && i < p->n_segments; i++) {
		const struct segment *s = &p->segments[i];

		switch (s->kind) {
		case SEGMENT_REST: return &node->rest;
		case SEGMENT_LITERAL: node = child_literal(node, s->text); break;
		case SEGMENT_GLOB: node = child_glob(node, s->text); break;
		case SEGMENT_NAMED:
			if (!node->named)
				node->named = calloc(1, sizeof(*node->named));
			node = node->named;
			break;
		}
	}
	return node ? &node->here : NULL;
}

static bool insert(struct pattern_index *ix, struct pattern *p, struct buf *why)
{
	struct pattern_leaf **at = grow_path(ix, p);

	if (!at) {
		why->failed = true;
		return false;
	}
	while (*at && leaf_before(*at, p->leaf))
		at = &(*at)->next;
	p->leaf->next = *at;
	*at = p->leaf;
	p->leaf = NULL;
	return true;
}

static const struct pattern_node *find_root(
	const struct pattern_index *ix, const char *name)
{
	struct table_node *link;

	if (!*name)
		return ix->any_host;
	link = table_find(&ix->hosts, view_str(name), table_hash(view_str(name)));
	return link ? CONTAINER_OF(link, struct pattern_host, link)->root : NULL;
}

bool pattern_add(struct pattern_index *ix, size_t endpoint, const struct pattern_text *text,
	struct buf *why, size_t *tie)
{
	struct pattern p;
	const struct pattern_leaf *other;
	bool ok = false;

	*tie = SIZE_MAX;
	if (!pattern_read(text, &p, why))
		goto out;
	p.leaf->endpoint = endpoint;
	other = find_tie(find_root(ix, p.host), &p, 0);
	if (other) {
		*tie = other->endpoint;
		buf_add_str(why, "match: ");
		mistake_quote(why, view_str(text->match));
		buf_add_str(why, " ties with another endpoint");
		goto out;
	}
	ok = insert(ix, &p, why);
out:
	pattern_release(&p);
	return ok;
}
