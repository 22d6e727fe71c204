/*
 * base/buf.h - text and bytes being built.
 *
 * A buffer grows as needed. The first allocation that fails sticks: later
 * additions do nothing, and buf_ok() says so once, at the end, where the
 * caller decides. A zeroed struct buf is an empty buffer.
 */
#ifndef WEIR_BASE_BUF_H
#define WEIR_BASE_BUF_H

#include <stdarg.h>

#include "base/view.h"

struct buf {
	char *p;
	size_t n;   /* bytes in use */
	size_t cap; /* bytes allocated */
	bool failed;
};

void buf_init(struct buf *b);
/* Frees the bytes; the buffer is empty and usable again afterwards. */
void buf_release(struct buf *b);
/* Empties it but keeps the memory; forgets an earlier failure. */
void buf_reset(struct buf *b);

/* Makes room for n more bytes; false when memory is out. */
bool buf_reserve(struct buf *b, size_t n);
void buf_add(struct buf *b, struct view v);
void buf_add_byte(struct buf *b, char c);
void buf_add_str(struct buf *b, const char *s);
void buf_add_u64(struct buf *b, uint64_t v);
void buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_addv(struct buf *b, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

/* Drops the first n bytes (n <= b->n); the rest moves to the front. */
void buf_drop(struct buf *b, size_t n);

/* False when any addition since buf_init() or buf_reset() found no memory. */
static inline bool buf_ok(const struct buf *b)
{
	return !b->failed;
}

/* Borrowed: valid until the buffer is next changed or released. */
static inline struct view buf_view(const struct buf *b)
{
	return (struct view){ b->p, b->n };
}

/* The contents as a C string, or NULL when memory ran out. Borrowed like
 * buf_view(). The NUL is not counted in n. */
const char *buf_str(struct buf *b);

/* Hands the bytes to the caller as a NUL-terminated string to be freed with
 * free(), and leaves the buffer empty. NULL when memory ran out. */
char *buf_steal(struct buf *b);

#endif
