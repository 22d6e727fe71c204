/*
 * base/table.h - a hash table of nodes that live inside their owners; from a node to
 * its owner leads CONTAINER_OF().
 *
 * Chained, keyed SipHash (libsodium's crypto_shorthash), so strangers who
 * choose the keys cannot choose the chains. Grows by doubling; holds no copy
 * of a key. Not locked: the owner says who may touch it.
 */
#ifndef WEIR_BASE_TABLE_H
#define WEIR_BASE_TABLE_H

#include "base/view.h"

struct table_node {
	struct table_node *next;
	uint64_t hash;
	struct view key; /* owned by the node's owner; fixed while in the table */
};

struct table {
	struct table_node **slots; /* NULL until the first insertion */
	size_t n_slots;            /* a power of two */
	size_t used;
};

/* Hash of key under a random key drawn once per process. Any thread. */
uint64_t table_hash(struct view key);

/* Frees the slots, not the nodes. */
void table_release(struct table *t);
/* The node with that key, or NULL. hash is table_hash(key). */
struct table_node *table_find(const struct table *t, struct view key, uint64_t hash);
/* Adds node, whose key and hash are set and not yet in the table. False when
 * there is no memory for the first slots; growing later may fail silently (the
 * chains get longer). */
bool table_insert(struct table *t, struct table_node *node);
/* Takes out a node that is in the table. */
void table_remove(struct table *t, struct table_node *node);

#endif
