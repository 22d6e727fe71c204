/*
 * config/pattern.h - what an endpoint matches, and the index over all endpoints.
 *
 *	match = METHOD[,METHOD...]|* PATH     host = name     query = name=value
 *
 * PATH is canonical (see limit/path.h): segments that are literal, {name} (one
 * segment), hold * (any part of one segment), or ** (the rest, zero or more
 * segments; last only). The index is a trie by segment, so a look-up costs the
 * path's length and not the number of endpoints. Immutable once built.
 */
#ifndef WEIR_CONFIG_PATTERN_H
#define WEIR_CONFIG_PATTERN_H

#include "base/buf.h"
#include "base/table.h"

/* One endpoint's conditions beside the path, at the node where its path ends. */
struct pattern_leaf {
	struct pattern_leaf *next; /* most specific first: method given, then query given */
	size_t endpoint;           /* index in config.endpoints */
	char **methods;            /* NULL: any. GET stands for HEAD too */
	size_t n_methods;
	char *query_name, *query_value; /* NULL: any query */
	char **param_names;             /* names of {name} segments, in order of the path */
	size_t n_params;
};

/* A segment with * in it, matched within one segment. */
struct pattern_glob {
	struct pattern_glob *next; /* the one with more literal bytes first */
	char *text;
	struct pattern_node *child;
};

struct pattern_node {
	struct table_node link;     /* in the parent's literals, keyed by the segment */
	char *text;                 /* that segment; NULL when not a literal */
	struct table literals;      /* of pattern_node by link */
	struct pattern_node *named; /* {name} */
	struct pattern_glob *globs;
	struct pattern_leaf *rest; /* ** here */
	struct pattern_leaf *here; /* paths that end here */
};

struct pattern_index {
	struct table hosts; /* of struct pattern_host by link: endpoints with host given */
	struct pattern_node *any_host;
};

struct pattern_host {
	struct table_node link; /* keyed by the lower-case host name */
	char *name;
	struct pattern_node *root;
};

/* What [endpoint] says about where it matches; NULL where not given. */
struct pattern_text {
	const char *match, *host, *query;
};

/* Most segments of a path: what walks the trie may go down as deep. */
#define PATTERN_SEGMENTS_MAX 64
/* Most {name} segments among them. */
#define PATTERN_PARAMS_MAX 8

/* True when path is canonical. Else says why and what would be. */
bool pattern_path_check(struct view path, struct buf *why);

struct pattern_index *pattern_index_new(void);
void pattern_index_free(struct pattern_index *ix);

/* Adds endpoint number endpoint. On a mistake, or when an earlier endpoint ties
 * with it, returns false with a sentence in why; *tie is then that endpoint's
 * number, or SIZE_MAX. */
bool pattern_add(struct pattern_index *ix, size_t endpoint, const struct pattern_text *text,
	struct buf *why, size_t *tie);

#endif
