/*
 * config/pattern_read.h - what [endpoint] says about where it matches, read and not yet
 * in the index. Between pattern_read.c and pattern.c only.
 */
#ifndef WEIR_CONFIG_PATTERN_READ_H
#define WEIR_CONFIG_PATTERN_READ_H

#include "config/pattern.h"

/* Longest segment with a * in it. */
#define GLOB_MAX 200

enum segment_kind {
	SEGMENT_LITERAL,
	SEGMENT_NAMED, /* {name}; text is the name */
	SEGMENT_GLOB,
	SEGMENT_REST, /* ** */
};

struct segment {
	enum segment_kind kind;
	struct view text;
};

struct pattern {
	struct segment segments[PATTERN_SEGMENTS_MAX];
	size_t n_segments;
	char *host; /* lower case; "" for any */
	struct pattern_leaf *leaf;
};

/* Reads text, whose strings outlive *out. On a mistake returns false with a sentence
 * in why that begins with the option's name. Release in both cases. */
bool pattern_read(const struct pattern_text *text, struct pattern *out, struct buf *why);
void pattern_release(struct pattern *p);

/* Frees a leaf and those behind it. */
void pattern_leaves_free(struct pattern_leaf *leaf);
bool pattern_in_list(char *const *list, size_t n, struct view v);

#endif
