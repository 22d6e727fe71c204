/* The hash table of nodes that live in their owners, and the counters. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>

#include "base/counters.h"
#include "base/table.h"

struct entry {
	char name[16];
	struct table_node node;
};

static void name_entry(struct entry *e, int number)
{
	snprintf(e->name, sizeof(e->name), "key-%d", number);
	e->node.key = view_str(e->name);
	e->node.hash = table_hash(e->node.key);
}

static struct entry *find(const struct table *t, struct view key)
{
	struct table_node *node = table_find(t, key, table_hash(key));

	return node ? CONTAINER_OF(node, struct entry, node) : NULL;
}

Test(table, an_empty_one_finds_nothing)
{
	struct table t = { 0 };

	cr_assert_null(find(&t, VIEW("key-0")));
	cr_assert_null(find(&t, VIEW("")));
	table_release(&t);
}

Test(table, what_was_put_in_is_found_while_it_grows)
{
	static struct entry entries[3000];
	struct table t = { 0 };

	for (int i = 0; i < 3000; i++) {
		name_entry(&entries[i], i);
		cr_assert(table_insert(&t, &entries[i].node));
	}
	cr_assert_eq(t.used, 3000);
	cr_assert_geq(t.n_slots, 1024, "chains stay short");
	cr_assert_eq(t.n_slots & (t.n_slots - 1), 0, "a power of two");
	for (int i = 0; i < 3000; i++)
		cr_assert_eq(find(&t, entries[i].node.key), &entries[i], "entry %d", i);
	cr_assert_null(find(&t, VIEW("key-3000")));
	cr_assert_null(find(&t, VIEW("key-1\0")));
	table_release(&t);
}

Test(table, what_was_taken_out_is_gone_and_the_rest_stays)
{
	static struct entry entries[100];
	struct table t = { 0 };

	for (int i = 0; i < 100; i++) {
		name_entry(&entries[i], i);
		table_insert(&t, &entries[i].node);
	}
	for (int i = 0; i < 100; i += 2)
		table_remove(&t, &entries[i].node);
	cr_assert_eq(t.used, 50);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(find(&t, entries[i].node.key), i % 2 ? &entries[i] : NULL,
			"entry %d", i);
	table_insert(&t, &entries[0].node);
	cr_assert_eq(find(&t, VIEW("key-0")), &entries[0]);
	table_release(&t);
}

Test(table, keys_in_one_chain_are_told_apart)
{
	struct entry a = { .name = "a" }, b = { .name = "b" };
	struct table t = { 0 };

	/* The same hash, as if a stranger had found a collision. */
	a.node = (struct table_node){ .key = VIEW("a"), .hash = 42 };
	b.node = (struct table_node){ .key = VIEW("b"), .hash = 42 };
	table_insert(&t, &a.node);
	table_insert(&t, &b.node);
	cr_assert_eq(table_find(&t, VIEW("a"), 42), &a.node);
	cr_assert_eq(table_find(&t, VIEW("b"), 42), &b.node);
	cr_assert_null(table_find(&t, VIEW("c"), 42));
	table_remove(&t, &a.node);
	cr_assert_null(table_find(&t, VIEW("a"), 42));
	cr_assert_eq(table_find(&t, VIEW("b"), 42), &b.node);
	table_release(&t);
}

Test(table, keys_are_bytes_and_may_hold_a_nul)
{
	struct table_node one = { .key = VIEW("a\0x") }, two = { .key = VIEW("a\0y") };
	struct table t = { 0 };

	one.hash = table_hash(one.key);
	two.hash = table_hash(two.key);
	table_insert(&t, &one);
	table_insert(&t, &two);
	cr_assert_eq(table_find(&t, VIEW("a\0x"), table_hash(VIEW("a\0x"))), &one);
	cr_assert_eq(table_find(&t, VIEW("a\0y"), table_hash(VIEW("a\0y"))), &two);
	cr_assert_null(table_find(&t, VIEW("a"), table_hash(VIEW("a"))));
	table_release(&t);
}

static void *count_in_a_thread(void *slot)
{
	*(unsigned *)slot = counters_join();
	for (int i = 0; i < 1000; i++)
		count_one(COUNT_requests);
	count_add(COUNT_connections_open, 5);
	count_add(COUNT_connections_open, -3);
	return NULL;
}

Test(counters, each_thread_has_a_slot_and_the_sum_is_of_all)
{
	pthread_t threads[4];
	unsigned slots[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, count_in_a_thread, &slots[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(counter_of(slots[i], COUNT_requests), 1000);
		cr_assert_eq(counter_of(slots[i], COUNT_connections_open), 2);
		for (int j = 0; j < i; j++)
			cr_assert_neq(slots[i], slots[j]);
	}
	cr_assert_eq(counter_sum(COUNT_requests), 4000);
	cr_assert_eq(counter_sum(COUNT_connections_open), 8);
	cr_assert_eq(counter_sum(COUNT_connections), 0);
}

Test(counters, joining_again_gives_the_same_slot)
{
	unsigned slot = counters_join();

	cr_assert_eq(counters_join(), slot);
}

static void *join_in_a_thread(void *slot)
{
	*(unsigned *)slot = counters_join();
	count_one(COUNT_requests);
	return NULL;
}

Test(counters, threads_beyond_the_slots_share_the_last_and_lose_nothing)
{
	unsigned slot = 0;

	for (int i = 0; i < COUNTER_SLOTS_MAX + 20; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, join_in_a_thread, &slot);
		pthread_join(thread, NULL);
		cr_assert_lt(slot, COUNTER_SLOTS_MAX);
	}
	cr_assert_eq(slot, COUNTER_SLOTS_MAX - 1);
	cr_assert_eq(counter_sum(COUNT_requests), COUNTER_SLOTS_MAX + 20);
}

Test(counters, every_one_has_a_name_and_a_sentence)
{
	for (size_t i = 0; i < COUNTERS_N; i++) {
		const struct counter_info *info = &counter_infos[i];
		size_t n = strlen(info->help);

		cr_assert(info->name[0], "number %zu", i);
		cr_assert_eq(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_"),
			strlen(info->name), "%s", info->name);
		cr_assert(n > 10 && info->help[n - 1] == '.', "%s: %s", info->name,
			info->help);
	}
}
