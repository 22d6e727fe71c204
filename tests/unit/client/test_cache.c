#include <criterion/criterion.h>
#include <stdio.h>

#include "base/counters.h"
#include "client/cache.h"

#define S INT64_C(1000000)

static struct view key_of(unsigned number)
{
	static char text[2][16];
	static unsigned turn;
	char *out = text[turn++ % 2];

	return view_of(out, (size_t)snprintf(out, sizeof(text[0]), "k%u", number));
}

static void put_hit(struct cache *c, unsigned number, int64_t now_us)
{
	struct found f = { .expires_s = INT64_MAX };

	snprintf(f.entry.user, sizeof(f.entry.user), "user%u", number);
	snprintf(f.entry.plan, sizeof(f.entry.plan), "plan%u", number);
	f.entry.admin = number % 2;
	cache_put(c, key_of(number), &f, now_us);
}

/* "user3/plan3", "unknown" or "?". */
static const char *get(struct cache *c, unsigned number, int64_t now_us)
{
	static char said[2 * CLIENT_NAME_MAX];
	enum directory_result result;
	struct found f;

	if (!cache_get(c, key_of(number), now_us, &result, &f))
		return "?";
	if (result == DIRECTORY_UNKNOWN)
		return "unknown";
	cr_expect_eq(f.entry.admin, number % 2);
	snprintf(said, sizeof(said), "%s/%s", f.entry.user, f.entry.plan);
	return said;
}

Test(cache, keeps_what_was_found_and_what_was_not)
{
	struct cache *c = cache_new(8, 10 * S, 2 * S);

	cr_assert(c);
	cr_expect_str_eq(get(c, 1, 0), "?");
	put_hit(c, 1, 0);
	cache_put(c, key_of(2), NULL, 0);
	cr_expect_str_eq(get(c, 1, 0), "user1/plan1");
	cr_expect_str_eq(get(c, 2, 2 * S - 1), "unknown");
	cr_expect_str_eq(get(c, 2, 2 * S), "?");
	cr_expect_str_eq(get(c, 1, 10 * S - 1), "user1/plan1");
	cr_expect_str_eq(get(c, 1, 10 * S), "?");
	/* What is known anew takes the place of what was. */
	put_hit(c, 2, 10 * S);
	cr_expect_str_eq(get(c, 2, 10 * S), "user2/plan2");
	cache_put(c, key_of(2), NULL, 10 * S);
	cr_expect_str_eq(get(c, 2, 10 * S), "unknown");
	cr_expect_eq(cache_used(c), 2);
	cache_free(c);
}

Test(cache, never_grows_and_drops_the_one_asked_for_longest_ago)
{
	struct cache *c = cache_new(8, 10 * S, 10 * S);

	cr_assert(c);
	for (unsigned i = 0; i < 6; i++)
		put_hit(c, i, 0);
	cr_expect_str_eq(get(c, 0, 1), "user0/plan0", "0 is used again");
	cr_expect_eq(counter_sum(COUNT_directory_evictions), 0);
	put_hit(c, 6, 1);
	cr_expect_str_eq(get(c, 1, 1), "?", "1 had to go");
	cr_expect_eq(counter_sum(COUNT_directory_evictions), 1);
	cr_expect_str_eq(get(c, 0, 1), "user0/plan0");
	for (unsigned i = 2; i <= 6; i++)
		cr_expect_str_neq(get(c, i, 1), "?", "%u", i);
	for (unsigned i = 100; i < 10000; i++) {
		put_hit(c, i, 1);
		cache_put(c, key_of(1000000 + i), NULL, 1);
		cr_expect_leq(cache_used(c), 8);
	}
	cr_expect_eq(cache_used(c), 8);
	cache_free(c);
}

Test(cache, invented_tokens_push_out_no_user)
{
	struct cache *c = cache_new(100, 10 * S, 10 * S);

	cr_assert(c);
	for (unsigned i = 0; i < 75; i++)
		put_hit(c, i, 0);
	for (unsigned i = 1000; i < 3000; i++)
		cache_put(c, key_of(i), NULL, 0);
	for (unsigned i = 0; i < 75; i++)
		cr_expect_str_neq(get(c, i, 0), "?", "%u", i);
	cr_expect_str_eq(get(c, 2999, 0), "unknown");
	cr_expect_str_eq(get(c, 2974, 0), "?");
	cache_free(c);
}

Test(cache, can_be_so_small_that_it_keeps_nothing)
{
	static const struct {
		size_t entries;
		int64_t ttl_us, miss_ttl_us;
		const char *hit, *miss;
	} rows[] = {
		{ 0, S, S, "?", "?" },
		{ 1, S, S, "user1/plan1", "?" },
		{ 4, S, S, "user1/plan1", "unknown" },
		{ 8, 0, S, "?", "unknown" },
		{ 8, S, 0, "user1/plan1", "?" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct cache *c = cache_new(
			rows[i].entries, rows[i].ttl_us, rows[i].miss_ttl_us);

		cr_assert(c);
		put_hit(c, 1, 5);
		cache_put(c, key_of(2), NULL, 5);
		cr_expect_str_eq(get(c, 1, 5), rows[i].hit, "row %zu", i);
		cr_expect_str_eq(get(c, 2, 5), rows[i].miss, "row %zu", i);
		cache_free(c);
	}
}
