/*
 * base/view.h - bytes that somebody else owns.
 *
 * A view is a pointer and a length. It is never NUL-terminated, may hold any
 * byte, and is borrowed: whoever hands one out says until when it lives.
 */
#ifndef WEIR_BASE_VIEW_H
#define WEIR_BASE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct view {
	const char *p; /* may be NULL when n is 0 */
	size_t n;
};

/* A view of a string literal, without its NUL. */
#define VIEW(literal) ((struct view)VIEW_INIT(literal))
/* The same, for initialising what is static. */
#define VIEW_INIT(literal)                      \
	{                                       \
		"" literal, sizeof(literal) - 1 \
	}

/* For printf: "%.*s", VIEW_ARG(v). Only for bytes known to be printable. */
#define VIEW_ARG(v) (int)(v).n, (v).p ? (v).p : ""

/* How many elements an array has (an array, not a pointer). */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The struct of which *ptr is the member of that name. */
#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline struct view view_of(const char *p, size_t n)
{
	return (struct view){ p, n };
}

/* A view of a C string; NULL gives the empty view. */
static inline struct view view_str(const char *s)
{
	return (struct view){ s, s ? strlen(s) : 0 };
}

/* Whether two C strings are the same, or both NULL. */
static inline bool text_eq(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static inline bool view_eq(struct view a, struct view b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Equal but for the case of ASCII letters. */
static inline bool view_eq_nocase(struct view a, struct view b)
{
	return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

static inline bool view_starts(struct view v, struct view prefix)
{
	return v.n >= prefix.n && (prefix.n == 0 || memcmp(v.p, prefix.p, prefix.n) == 0);
}

/* v without its first n bytes; n must not exceed v.n. */
static inline struct view view_skip(struct view v, size_t n)
{
	return (struct view){ v.p ? v.p + n : NULL, v.n - n };
}

static inline bool view_ends(struct view v, struct view end)
{
	return v.n >= end.n && view_eq(view_skip(v, v.n - end.n), end);
}

/* The same but for the case of ASCII letters. */
static inline bool view_ends_nocase(struct view v, struct view end)
{
	return v.n >= end.n && view_eq_nocase(view_skip(v, v.n - end.n), end);
}

/* Cuts v at the first c: returns what stands before it and leaves in *v what
 * stands behind it. Without a c returns all of v and leaves it empty. */
struct view view_cut(struct view *v, char c);

/* v without spaces and tabs (and CR, LF) at both ends. */
struct view view_trim(struct view v);

/* Reads v as a decimal number, digits only, whole view; false when it is empty,
 * has another byte in it or exceeds max. *out is untouched on failure. */
bool view_number(struct view v, uint64_t max, uint64_t *out);

/* The value of a hexadecimal digit of either case, or -1. */
int hex_digit(char c);
/* The byte that v begins with as "%" and two such digits (RFC 3986, section 2.1), or -1
 * where it begins with anything else. */
int view_escape(struct view v);

#endif
