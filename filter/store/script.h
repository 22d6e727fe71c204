/*
 * store/script.h - take.lua from outside: the command that runs it and what it says.
 *
 * One call is one decision over all tiers (see the contract on top of take.lua).
 * The script is compiled in and named by its SHA-1: load it once a connection with
 * script_put_load(), run it with SCRIPT_BY_SHA, and on NOSCRIPT load it again and
 * replay. Commands are whole RESP requests, for redisAsyncFormattedCommand(). Pure:
 * no I/O.
 */
#ifndef WEIR_STORE_SCRIPT_H
#define WEIR_STORE_SCRIPT_H

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "store/rate.h"

struct take_tier; /* store/store.h */

#define SCRIPT_REDIS_TIME (-1) /* now_us: Redis is to use its own clock */

enum script_form {
	SCRIPT_BY_SHA, /* EVALSHA */
	SCRIPT_WHOLE,  /* EVAL with the text; for tests and tools */
};

/* The text as Redis gets it, and its SHA-1 in 40 lower-case hexadecimal digits, which
 * is also what SCRIPT LOAD answers. Static. */
struct view script_text(void);
const char *script_sha(void);

/* Appends SCRIPT LOAD. */
void script_put_load(struct buf *b);

/* Appends the command that decides over tiers[0..n), whose keys must be distinct. */
void script_put_take(struct buf *b, enum script_form form, const struct take_tier *tiers,
	size_t n, int64_t now_us);

/* Reads the script's reply for n tiers into *admitted and views[0..n). False, with both
 * untouched, when it is anything else than the contract says: an error, another type or
 * length, a number out of range. Any such reply is a failure of the store. */
bool script_parse(
	const redisReply *reply, size_t n, bool *admitted, struct rate_view *views);

#endif
