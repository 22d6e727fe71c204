/*
 * client/reader.h - one read-only SQLite connection that looks users and tokens up.
 *
 * Used by one thread at a time; every look-up is a transaction of its own and leaves no
 * lock behind. No clock: whoever asks compares expires_s with the time.
 */
#ifndef WEIR_CLIENT_READER_H
#define WEIR_CLIENT_READER_H

#include "client/directory.h"

struct reader;

/* A row as it is in the database, and as the cache keeps it. */
struct found {
	struct directory_entry entry;
	int64_t expires_s; /* since 1970; INT64_MAX: never */
};

/* Why there is no reader. */
enum reader_fault {
	READER_UNFIT,    /* there is no such file, or not one that can be asked */
	READER_HINDERED, /* no right to read it, a lock, a disk: it may be fit all the same */
};

/* Opens and checks path; query "" is for our schema. NULL with a sentence in why, and in
 * *fault, unless that is NULL, whose it is. busy_ms is how long a look-up waits for a
 * writer that locks readers out. */
struct reader *reader_open(const char *path, const char *query, int busy_ms,
	enum reader_fault *fault, struct buf *why);
void reader_free(struct reader *r);

/* Of our schema: appends the names of the plans, each with a newline behind it. False when
 * they cannot be read. */
bool reader_plans(struct reader *r, struct buf *out);

/* Whether path still is the file that was opened. */
bool reader_is_current(const struct reader *r);

/* key as directory_know() has it. After FAILED reader_error() says why. */
enum directory_result reader_look(
	struct reader *r, enum directory_by by, struct view key, struct found *out);
const char *reader_error(const struct reader *r);

#endif
