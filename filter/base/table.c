#include "base/table.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

static unsigned char hash_key[crypto_shorthash_KEYBYTES];
static pthread_once_t hash_once = PTHREAD_ONCE_INIT;

static void draw_key(void)
{
	if (sodium_init() < 0)
		abort(); /* no source of random numbers: nothing here would be safe */
	randombytes_buf(hash_key, sizeof(hash_key));
}

uint64_t table_hash(struct view key)
{
	unsigned char out[crypto_shorthash_BYTES];
	uint64_t hash;

	pthread_once(&hash_once, draw_key);
	crypto_shorthash(out, (const unsigned char *)(key.p ? key.p : ""), key.n, hash_key);
	memcpy(&hash, out, sizeof(hash));
	return hash;
}

void table_release(struct table *t)
{
	free(t->slots);
	*t = (struct table){ 0 };
}

struct table_node *table_find(const struct table *t, struct view key, uint64_t hash)
{
	struct table_node *node;

	if (!t->slots)
		return NULL;
	node = t->slots[hash & (t->n_slots - 1)];
	while (node && (node->hash != hash || !view_eq(node->key, key)))
		node = node->next;
	return node;
}

static bool grow(struct table *t, size_t n_slots)
{
	struct table_node **slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < t->n_slots; i++) {
		struct table_node *node = t->slots[i], *next;

		for (; node; node = next) {
			struct table_node **slot = &slots[node->hash & (n_slots - 1)];

			next = node->next;
			node->next = *slot;
			*slot = node;
		}
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n_slots;
	return true;
}

bool table_insert(struct table *t, struct table_node *node)
{
	struct table_node **slot;

	if (!t->slots) {
		if (!grow(t, 16))
			return false;
	} else if (t->used >= t->n_slots) {
		grow(t, t->n_slots * 2);
	}
	slot = &t->slots[node->hash & (t->n_slots - 1)];
	node->next = *slot;
	*slot = node;
	t->used++;
	return true;
}

void table_remove(struct table *t, struct table_node *node)
{
	struct table_node **at = &t->slots[node->hash & (t->n_slots - 1)];

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	t->used--;
}
