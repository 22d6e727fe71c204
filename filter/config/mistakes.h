/*
 * config/mistakes.h - what is wrong with a configuration, collected before it is told.
 *
 * An operator mends a file once, not once per mistake; so readers add here and go
 * on. A notice is something that works but may not be meant. Messages are put in
 * the order of files and lines when they are written, whoever found them first.
 */
#ifndef WEIR_CONFIG_MISTAKES_H
#define WEIR_CONFIG_MISTAKES_H

#include "base/buf.h"

/* Most that are written; behind them comes one line that says how many more. */
#define MISTAKES_MAX 100

/* Where something stands. The name is borrowed from the snapshot; line 0 is the
 * file as a whole. */
struct place {
	const char *file;
	unsigned line;
};

struct mistake {
	struct place at;
	size_t serial; /* in the order of adding */
	bool notice;
	char *text; /* owned */
};

/* Zeroed is empty. */
struct mistakes {
	struct mistake *list; /* up to MISTAKES_MAX of each sort */
	size_t n, cap;
	size_t errors, notices; /* added in all */
	bool no_memory;         /* something could not be kept: the load fails */
};

void mistakes_release(struct mistakes *m);

void mistake_add(struct mistakes *m, struct place at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void mistake_notice(struct mistakes *m, struct place at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* SUBJECT: "value" why, where why begins with a verb, or with ':'. */
void mistake_value(struct mistakes *m, struct place at, const char *subject,
	struct view value, const char *why, ...) __attribute__((format(printf, 5, 6)));
void mistake_vvalue(struct mistakes *m, struct place at, const char *subject,
	struct view value, const char *why, va_list ap)
	__attribute__((format(printf, 5, 0)));

/* Appends v without what may be the user and password of a URL in it: what stands between
 * "//" and the last '@', and behind "://" all where there is no '@' and what stands there
 * is no host and port either. What is written into a configuration in the wrong form is
 * told with its text, on a terminal and in a log. */
void mistake_hide_password(struct view v, struct buf *out);
/* Appends v in double quotes, on one line and not too long, whatever is in it, and without
 * passwords as above. */
void mistake_quote(struct buf *b, struct view v);

/* Writes "FILE:LINE: text\n" for each mistake, or each notice when there is no
 * mistake. files gives the order. */
void mistakes_write(
	struct mistakes *m, char *const *files, size_t n_files, struct buf *out);

#endif
