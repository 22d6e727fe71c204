/*
 * fields.h - structured field values (RFC 9651), read as strictly as the RFC does.
 *
 * Written from section 4.2 to hold what weir sends against; weir itself only writes
 * such fields. Needs no test framework.
 *
 *	struct sf_field f;
 *
 *	if (!sf_parse(SF_LIST, value, &f))
 *		... f.why says what is wrong ...
 *	sf_release(&f);
 */
#ifndef WEIR_TESTS_FIELDS_H
#define WEIR_TESTS_FIELDS_H

#include "base/buf.h"

enum sf_type {
	SF_INTEGER, /* number */
	SF_DECIMAL, /* number, in thousandths */
	SF_STRING,  /* text */
	SF_TOKEN,   /* text */
	SF_BYTES,   /* text: decoded, any byte */
	SF_BOOLEAN, /* number: 0 or 1 */
	SF_DATE,    /* number: seconds since 1970 */
	SF_DISPLAY, /* text: UTF-8 */
	SF_INNER,   /* an inner list: items */
};

struct sf_params {
	struct sf_param *list;
	size_t n;
};

/* An item, an inner list, or a dictionary's member of either sort. */
struct sf_member {
	struct buf key; /* of a dictionary; else empty */
	enum sf_type type;
	int64_t number;
	struct buf text;
	struct sf_member *items; /* SF_INNER */
	size_t n_items;
	struct sf_params params;
};

struct sf_param {
	struct buf key;
	struct sf_member value; /* without items and params */
};

enum sf_kind {
	SF_ITEM, /* exactly one member */
	SF_LIST,
	SF_DICTIONARY,
};

struct sf_field {
	struct sf_member *members; /* in order; keys of a dictionary are unique */
	size_t n;
	const char *why; /* not parsed: what is wrong, static */
	size_t at;       /* and at which byte */
};

/* Parses a field's value, all its lines joined with commas. out is overwritten, and to
 * be released whatever the result. Where memory is out texts may be cut short. */
bool sf_parse(enum sf_kind kind, struct view value, struct sf_field *out);
void sf_release(struct sf_field *f);

/* A parameter, NULL when there is none. Borrowed. */
static inline const struct sf_member *sf_param(const struct sf_member *m, const char *key)
{
	for (size_t i = 0; m && i < m->params.n; i++)
		if (view_eq(buf_view(&m->params.list[i].key), view_str(key)))
			return &m->params.list[i].value;
	return NULL;
}

/* A dictionary's member, NULL when there is none. Borrowed. */
static inline const struct sf_member *sf_find(const struct sf_field *f, const char *key)
{
	for (size_t i = 0; i < f->n; i++)
		if (view_eq(buf_view(&f->members[i].key), view_str(key)))
			return &f->members[i];
	return NULL;
}

/* Whether m is of that type with that text, or number. NULL is nothing. */
static inline bool sf_is_text(
	const struct sf_member *m, enum sf_type type, const char *text)
{
	return m && m->type == type && view_eq(buf_view(&m->text), view_str(text));
}

static inline bool sf_is_number(
	const struct sf_member *m, enum sf_type type, int64_t number)
{
	return m && m->type == type && m->number == number;
}

#endif
