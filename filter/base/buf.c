#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void buf_init(struct buf *b)
{
	*b = (struct buf){ 0 };
}

void buf_release(struct buf *b)
{
	free(b->p);
	buf_init(b);
}

void buf_reset(struct buf *b)
{
	b->n = 0;
	b->failed = false;
}

bool buf_reserve(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 64;
	char *p;

	if (b->failed)
		return false;
	if (n <= b->cap - b->n)
		return true;
	if (n > SIZE_MAX / 4 || b->n > SIZE_MAX / 4) {
		b->failed = true;
		return false;
	}
	while (cap < b->n + n)
		cap *= 2;
	p = realloc(b->p, cap);
	if (!p) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

void buf_add(struct buf *b, struct view v)
{
	if (v.n == 0 || !buf_reserve(b, v.n))
		return;
	memcpy(b->p + b->n, v.p, v.n);
	b->n += v.n;
}

void buf_add_byte(struct buf *b, char c)
{
	buf_add(b, view_of(&c, 1));
}

void buf_add_str(struct buf *b, const char *s)
{
	buf_add(b, view_str(s));
}

void buf_add_u64(struct buf *b, uint64_t v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	buf_add(b, view_of(digits + at, sizeof(digits) - at));
}

void buf_addv(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n >= 0 && buf_reserve(b, (size_t)n + 1)) {
		vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
		b->n += (size_t)n;
	}
	va_end(again);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	buf_addv(b, fmt, ap);
	va_end(ap);
}

void buf_drop(struct buf *b, size_t n)
{
	if (n < b->n)
		memmove(b->p, b->p + n, b->n - n);
	b->n -= n;
}

const char *buf_str(struct buf *b)
{
	if (!buf_reserve(b, 1))
		return NULL;
	b->p[b->n] = '\0';
	return b->p;
}

char *buf_steal(struct buf *b)
{
	char *s = NULL;

	if (buf_str(b)) {
		s = b->p;
		b->p = NULL;
	}
	buf_release(b);
	return s;
}
