/*
 * test_redis_servers.c - several addresses of Redis: which one is used, and what is said
 * when none is. And which parts of them a reload changes.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "fake.h"
#include "support.h"

/* What the first is like; the second can count. */
static const struct {
	const char *name;
	bool there;
	struct fake_rule rule;
} firsts[] = {
	{ "not there", false, { 0 } },
	{ "silent", true, { "INFO", 1, 0 } },
	{ "closing", true, { "INFO", 1, 0, .close = true } },
	{ "a replica", true,
		{ "PROBE", 1, 0,
			.bytes = "-READONLY You can't write against a read only replica."
				 "\r\n" } },
	{ "full", true,
		{ "PROBE", 1, 0,
			.bytes = "-OOM command not allowed when used memory > 'maxmemory'."
				 "\r\n" } },
	{ "without a disk", true,
		{ "PROBE", 1, 0, .bytes = "-MISCONF Errors writing to the AOF file\r\n" } },
	{ "loading", true, { "SCRIPT", 1, 0, .bytes = "-LOADING Redis is loading\r\n" } },
	{ "busy", true, { "SCRIPT", 1, 0, .bytes = "-BUSY Redis is busy\r\n" } },
	{ "an old one", true,
		{ "INFO", 1, 0,
			.bytes = "$45\r\nredis_version:3.2.12\r\nredis_mode:standalone\r\n"
				 "\r\n" } },
};

Test(servers, the_first_that_can_count_is_used)
{
	for (size_t i = 0; i < COUNT_OF(firsts); i++) {
		const struct fake_rule rules[] = { firsts[i].rule, { 0 } };
		struct fake_redis *first = NULL, *second = start_fake("second", NULL);
		struct asker a;

		if (firsts[i].there)
			first = start_fake("first", rules);
		asker_init(&a, test_path("first"));
		asker_add(&a, test_path("second"));
		/* How long the silent one is waited for. */
		a.config->store.timeout_ms = firsts[i].rule.command ? 300 : PATIENCE_MS;
		asker_start(&a);
		cr_expect(decided_by_redis_within(&a, PATIENCE_MS), "%s: %s",
			firsts[i].name, store_state(a.store));
		cr_expect_geq(
			fake_redis_count(second, "EVALSHA"), 1u, "%s", firsts[i].name);
		cr_expect(!first || fake_redis_count(first, "EVALSHA") == 0, "%s",
			firsts[i].name);
		asker_stop(&a);
		if (first)
			fake_redis_stop(first);
		fake_redis_stop(second);
	}
}

Test(servers, when_none_will_do_each_has_its_reason)
{
	const struct fake_rule rules[] = {
		{ "PROBE", 1, 0, .bytes = "-READONLY You can't write\r\n" }, { 0 }
	};
	struct fake_redis *second = start_fake("second", rules);
	struct asker a;
	const char *state;

	asker_init(&a, test_path("first"));
	asker_add(&a, test_path("second"));
	asker_add(&a, test_path("third"));
	asker_start(&a);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_FALLBACK);
	state = store_state(a.store);
	cr_assert(strstr(state, text("%s: ", test_path("first"))), "%s", state);
	cr_assert(
		strstr(state, text("; %s: it cannot count: READONLY", test_path("second"))),
		"%s", state);
	cr_assert(strstr(state, text("; %s: ", test_path("third"))), "%s", state);
	cr_assert_eq(counter_sum(COUNT_store_failures), 1, "one attempt");
	asker_stop(&a);
	fake_redis_stop(second);
}

Test(servers, when_the_one_in_use_is_lost_they_are_tried_from_the_first_again)
{
	struct fake_redis *first, *second = start_fake("second", NULL);
	struct asker a;

	asker_init(&a, test_path("first"));
	asker_add(&a, test_path("second"));
	asker_start(&a);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	first = start_fake("first", NULL);
	cr_assert_eq(ask_one(&a, "rate:test:a", 10), DECIDED_BY_REDIS);
	cr_assert_eq(fake_redis_count(first, ""), 0, "it stays where it is");
	fake_redis_stop(second);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	cr_assert_geq(fake_redis_count(first, "EVALSHA"), 1u);
	asker_stop(&a);
	fake_redis_stop(first);
}

Test(servers, a_reload_brings_a_new_password_and_no_new_server)
{
	/* The first greeting is refused, whatever the password; then all are good. */
	const struct fake_rule rules[] = {
		{ "AUTH", 1, 1, .bytes = "-WRONGPASS invalid username-password pair\r\n" },
		{ 0 },
	};
	struct fake_redis *first = start_fake("first", rules);
	struct fake_redis *second = start_fake("second", NULL);
	struct config *fresh = calloc(1, sizeof(*fresh));
	struct redis_server other;
	struct asker a, b;

	cr_assert(fresh);
	asker_init(&b, test_path("second"));
	other = b.servers[0];
	asker_init(&a, test_path("first"));
	a.config->store.password = (char[]){ "old" };
	asker_start(&a);
	cr_assert(RUN_UNTIL(&a, PATIENCE_MS,
		strstr(store_state(a.store), "AUTH: WRONGPASS; check user and password")));
	memcpy(fresh, a.config, sizeof(*fresh));
	fresh->refs = 1;
	fresh->store.servers = &other;
	fresh->store.password = (char[]){ "new" };
	store_reload(a.store, fresh);
	cr_assert(decided_by_redis_within(&a, PATIENCE_MS));
	cr_assert_eq(fake_redis_count(first, "AUTH"), 2);
	cr_assert_eq(fake_redis_count(second, ""), 0);
	asker_stop(&a);
	cr_assert_eq(fresh->refs, 1);
	free(fresh);
	uv_close((uv_handle_t *)&b.alarm, NULL);
	uv_run(&b.loop, UV_RUN_DEFAULT);
	uv_loop_close(&b.loop);
	free(b.config);
	fake_redis_stop(first);
	fake_redis_stop(second);
}
