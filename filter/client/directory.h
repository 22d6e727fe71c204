/*
 * client/directory.h - users, plans and tokens, in a SQLite file (schema: sql/).
 *
 * One directory a process, shared by the workers. Look-ups go through a cache of what
 * was found and what was not, each with a time to live; what is not in it is asked of
 * SQLite on threads of the directory's own. A slow disk delays that request and no other; a
 * dead one holds up look-ups, and not the resolver nor a reload, which are on libuv's pool.
 * A token is never stored or logged, only its SHA-256.
 *
 * What is revoked or changed in the file holds here once the time to live is over, at the
 * latest; the moment a token expires holds at once. A file that is replaced by another
 * (rename) is noticed at the next look-up.
 *
 * While the file cannot be read, what it said last is told for as long as the cache has
 * it, marked as such: nobody's limits change because a disk is gone. It is asked again
 * once a second meanwhile, and by one request only, so a file that is locked holds up
 * one request a second and not all of them.
 *
 * Any thread may call, for a loop of its own.
 */
#ifndef WEIR_CLIENT_DIRECTORY_H
#define WEIR_CLIENT_DIRECTORY_H

#include <uv.h>

#include "base/buf.h"
#include "client/name.h"

#define DIRECTORY_HASH_BYTES 32 /* SHA-256 of a token */

struct directory;

struct directory_options {
	const char *path;
	/* "" for our schema's. Else one SELECT with one parameter, the SHA-256 of the
	 * token as a blob of 32 bytes, that returns user, plan and perhaps admin (1: meets
	 * no limit). For a column of lower-case hexadecimal: "... = lower(hex(?))". There
	 * is no look-up by user then. */
	const char *query;
	int64_t ttl_ms, miss_ttl_ms;
	size_t cache_entries; /* most kept, a quarter of them misses; 0 keeps none */
	int64_t wait_ms;      /* longest a look-up may take; 0: 2000 */

	/* For tests; NULL takes base/clock.h. */
	int64_t (*mono_us)(void);
	int64_t (*wall_us)(void);
};

/* Opens read-only and checks that the schema (or the query) can be used. NULL, with what
 * is wrong and what would do in why. The options are copied. Starts a thread. Blocks. */
struct directory *directory_open(const struct directory_options *o, struct buf *why);
/* Look-ups under way go on and are told; the last of them frees what they need. Waits for
 * nobody. NULL is fine. */
void directory_close(struct directory *d);

enum directory_result {
	DIRECTORY_FOUND,
	DIRECTORY_UNKNOWN, /* no such token or user, or it is expired, revoked, disabled */
	DIRECTORY_FAILED,  /* the database cannot be read; logged here */
	DIRECTORY_STALE,   /* nor that, but this is what it said last: found */
};

struct directory_entry {
	char user[CLIENT_NAME_MAX];
	char plan[CLIENT_NAME_MAX];
	bool admin;
};

enum directory_by {
	DIRECTORY_BY_TOKEN, /* key: the hash, DIRECTORY_HASH_BYTES long */
	DIRECTORY_BY_USER,  /* key: the name */
};

/* What is known without asking, or cannot be asked now: true with *result, and *out when
 * it is FOUND or STALE. Blocks on nothing but the cache's lock. */
bool directory_know(struct directory *d, enum directory_by by, struct view key,
	enum directory_result *result, struct directory_entry *out);

struct directory_ask;

/* e is valid during the call, NULL unless FOUND or STALE. */
typedef void directory_done(
	void *user, enum directory_result result, const struct directory_entry *e);

/* Asks the database; done is called once from loop, never before this returns. key is
 * copied. NULL, and no call, when memory is out. */
struct directory_ask *directory_ask(struct directory *d, uv_loop_t *loop,
	enum directory_by by, struct view key, directory_done *done, void *user);
/* done will not be called; what a thread has begun to look up goes to the cache all the
 * same. On the asking loop's thread, before done. loop may end before the look-up does. */
void directory_ask_cancel(struct directory_ask *a);

#endif
