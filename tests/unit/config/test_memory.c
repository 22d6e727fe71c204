/*
 * Allocations made to fail, one after the other: a load that runs out of memory says so
 * and leaves nothing behind.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "config/config.h"

/* How many allocations still succeed; below zero: all. */
static long left = -1;

static bool fails(void)
{
	if (left < 0)
		return false;
	if (left == 0)
		return true;
	left--;
	return false;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails() ? NULL : __real_strndup(s, n);
}

/* The first load that got through, by the number of allocations it had; every one
 * before it failed in order. */
static long load_with_less_and_less_trouble(const char *file, bool good)
{
	for (long n = 0; n < 5000; n++) {
		struct config *c = NULL;
		struct buf told = { 0 };
		bool ok;

		left = n;
		ok = config_load(file, &c, &told);
		if (left > 0) {
			left = -1;
			cr_expect_eq(ok, good);
			config_unref(c);
			buf_release(&told);
			return n;
		}
		left = -1;
		/* The last may find its memory elsewhere, or need none. */
		if (ok)
			config_unref(c);
		else
			cr_expect_null(c);
		buf_release(&told);
	}
	return -1;
}

Test(memory, a_load_survives_the_failure_of_any_allocation)
{
	cr_assert_eq(chdir(CONFIG_DATA "/good"), 0);
	cr_expect_gt(load_with_less_and_less_trouble("full.ini", true), 100);
}

Test(memory, so_does_one_with_mistakes)
{
	static const char *const files[] = { "several-files.ini", "rule-java.ini",
		"rule-names.ini", "endpoint-tie.ini", "endpoint-match.ini", "networks.ini",
		"redis-port.ini", "option-unknown.ini", "rule-key.ini", "rule-cost.ini",
		"rule-together.ini", "reply.ini", "reply-template.ini", "users.ini" };

	cr_assert_eq(chdir(CONFIG_DATA "/bad"), 0);
	for (size_t i = 0; i < COUNT_OF(files); i++)
		cr_expect_gt(load_with_less_and_less_trouble(files[i], false), 10, "%s",
			files[i]);
}
