/*
 * client/cache.h - what the directory said lately.
 *
 * What was not found has a share of its own: whoever invents tokens pushes out inventions,
 * never the users. In both the one asked for longest ago makes room. Any thread.
 */
#ifndef WEIR_CLIENT_CACHE_H
#define WEIR_CLIENT_CACHE_H

#include "client/reader.h"

struct cache;

#define CACHE_ANY_AGE INT64_MIN

/* Keeps at most entries, a quarter of them misses. 0 keeps none. */
struct cache *cache_new(size_t entries, int64_t ttl_us, int64_t miss_ttl_us);
void cache_free(struct cache *c);

/* What is kept under key and not too old at now_us (CACHE_ANY_AGE: however old): true
 * with *result FOUND or UNKNOWN, and *out when FOUND. */
bool cache_get(struct cache *c, struct view key, int64_t now_us,
	enum directory_result *result, struct found *out);

/* Keeps what was found, or with NULL that nothing was. asked_us is when the question was
 * put, so that time spent on the way does not lengthen the life of an answer. When memory
 * is out it is not kept, but what was kept before is dropped all the same. */
void cache_put(
	struct cache *c, struct view key, const struct found *found, int64_t asked_us);

/* Entries kept now. */
size_t cache_used(struct cache *c);

#endif
