/*
 * store/memory.h - limits counted in this process.
 *
 * A table of states by key in shards with a lock each (config_memory_shards()). The tiers of a
 * decision are locked together, in the order of the shards, so they are charged all
 * or none. Bounded in bytes: when a shard is full, entries that equal never seen go
 * first, then the one idle longest, which is counted (store_evictions) and logged by
 * memory_tell(): it can forgive a client, never punish one. Only what the tiers of one
 * decision need at the same moment may exceed a shard's part, until the next makes room.
 *
 * Any thread.
 */
#ifndef WEIR_STORE_MEMORY_H
#define WEIR_STORE_MEMORY_H

#include "store/rate.h"

struct memory;
struct take_tier; /* store/store.h */

/* A table of that many bytes (entries, keys, states); a shard in which the tiers of one
 * decision alone need more than its part holds what those need. NULL when memory is out. */
struct memory *memory_new(size_t bytes);
void memory_free(struct memory *m);

/* Decides over tiers[0..n), n at most TIERS_MAX, keys distinct, at now_us (any clock that
 * is the same for all callers): looks at all, then charges all or none, as store.h says
 * for take. views[0..n) is the state after the decision. False when nobody could count it
 * (no memory, a sliding window larger than a shard's part, or a key with the state of
 * another algorithm): nothing is then charged, and *admitted and views are untouched. */
bool memory_take(struct memory *m, const struct take_tier *tiers, size_t n, int64_t now_us,
	bool *admitted, struct rate_view *views);
/* Logs that counts were dropped, once a minute. To be called after memory_take(), by which
 * time the caller has given its own locks back too: a line may be slow. */
void memory_tell(struct memory *m);

/* Forgets everything. */
void memory_clear(struct memory *m);
/* Entries held, and the bytes they take. A reading, not a moment. */
size_t memory_count(struct memory *m);
size_t memory_bytes(struct memory *m);

#endif
