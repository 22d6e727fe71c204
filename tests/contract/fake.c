#include "fake.h"

#include "store/script.h"
#include "support.h"

struct fake_redis *start_fake(const char *name, const struct fake_rule *rules)
{
	struct fake_redis *f = fake_redis_start(
		test_path(name), script_sha(), COUNTED("7"), rules);

	cr_assert(f);
	return f;
}

bool state_has(struct asker *a, const char *words)
{
	return strstr(store_state(a->store), words);
}

unsigned occurrences(const char *words)
{
	const char *at = file_read(test_path("store.log"));
	unsigned n = 0;

	cr_assert(at);
	while ((at = strstr(at, words))) {
		at += strlen(words);
		n++;
	}
	return n;
}
