/*
 * client/directory.h - users, plans and tokens, in a SQLite file (schema: sql/).
 *
 * One directory a process, shared by the workers. Look-ups go through a cache of what
 * was found and what was not, each with a time to live; what is not in it is asked of
 * SQLite on libuv's thread pool, so a slow disk delays that request and no other. A
 * token is never stored or logged, only its SHA-256.
 */
#ifndef WEIR_CLIENT_DIRECTORY_H
#define WEIR_CLIENT_DIRECTORY_H

#include <uv.h>

#include "base/buf.h"

struct directory;

struct directory_options {
	const char *path;
	const char *query; /* "" for our schema's */
	int64_t ttl_ms, miss_ttl_ms;
	size_t cache_entries; /* most kept */
};

/* Opens read-only and checks that the schema (or the query) can be used. NULL, with what
 * is wrong and what would do in why. Blocks. */
struct directory *directory_open(const struct directory_options *o, struct buf *why);
void directory_close(struct directory *d);

enum directory_result {
	DIRECTORY_FOUND,
	DIRECTORY_UNKNOWN, /* no such token or user, or it is expired or revoked */
	DIRECTORY_FAILED,  /* the database cannot be read */
};

struct directory_entry {
	char user[256];
	char plan[256];
	bool admin;
};

#endif
