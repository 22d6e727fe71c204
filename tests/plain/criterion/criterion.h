/*
 * criterion.h - what our tests use of Criterion, without its processes.
 *
 * Criterion starts each test in a process that maps an arena at a fixed address, which
 * ThreadSanitizer's own layout of memory does not leave room for. Builds under it take
 * this header and plain.c instead: a fork for each test, one after the other. Names and
 * meaning are Criterion's; parameterised tests, theories and the rest are left out.
 */
#ifndef WEIR_TESTS_PLAIN_CRITERION_H
#define WEIR_TESTS_PLAIN_CRITERION_H

#pragma GCC system_header /* compares what it is given, of whatever types */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct criterion_extra {
	void (*init)(void), (*fini)(void);
	double timeout; /* seconds; 0: none */
};

struct criterion_suite {
	const char *name;
	struct criterion_extra extra;
	struct criterion_suite *next;
};

struct criterion_test {
	const char *category, *name;
	void (*run)(void);
	struct criterion_extra extra;
	struct criterion_test *next;
};

enum criterion_status {
	CR_STATUS_PASSED,
	CR_STATUS_FAILED,
	CR_STATUS_SKIPPED
};

struct criterion_test_stats {
	struct criterion_test *test;
	enum criterion_status test_status;
};

extern const struct criterion_suite *criterion_current_suite;
extern const struct criterion_test *criterion_current_test;

void plain_add_test(struct criterion_test *t);
void plain_add_suite(struct criterion_suite *s);
/* Prints; a fatal one ends the test, when it comes from the test's own thread. */
void plain_failed(bool fatal, const char *file, int line, const char *what, const char *fmt,
	...) __attribute__((format(printf, 5, 6)));
void plain_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void plain_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Called in the runner after each test, where a program defines it. */
void plain_hook_POST_TEST(struct criterion_test_stats *stats) __attribute__((weak));
#define ReportHook(kind) void plain_hook_##kind

#define Test(suite_, name_, ...)                                              \
	static void test_##suite_##_##name_(void);                            \
	static struct criterion_test about_##suite_##_##name_ = {             \
		.category = #suite_,                                          \
		.name = #name_,                                               \
		.run = test_##suite_##_##name_,                               \
		.extra = { __VA_ARGS__ },                                     \
	};                                                                    \
	__attribute__((constructor)) static void add_##suite_##_##name_(void) \
	{                                                                     \
		plain_add_test(&about_##suite_##_##name_);                    \
	}                                                                     \
	static void test_##suite_##_##name_(void)

#define TestSuite(name_, ...)                                            \
	static struct criterion_suite suite_##name_ = {                  \
		.name = #name_,                                          \
		.extra = { __VA_ARGS__ },                                \
	};                                                               \
	__attribute__((constructor)) static void add_suite_##name_(void) \
	{                                                                \
		plain_add_suite(&suite_##name_);                         \
	}                                                                \
	struct criterion_suite

#define plain_check(fatal, cond, what, ...) \
	((cond) ? (void)0 : plain_failed(fatal, __FILE__, __LINE__, what, " " __VA_ARGS__))

#define cr_assert(c, ...)      plain_check(true, (c), #c, __VA_ARGS__)
#define cr_assert_not(c, ...)  plain_check(true, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_null(p, ...) plain_check(true, (p) == NULL, #p " == NULL", __VA_ARGS__)
#define cr_assert_not_null(p, ...) \
	plain_check(true, (p) != NULL, #p " != NULL", __VA_ARGS__)
#define cr_assert_eq(a, b, ...)  plain_check(true, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) plain_check(true, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)  plain_check(true, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) plain_check(true, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)  plain_check(true, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) plain_check(true, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) \
	plain_check(true, strcmp((a), (b)) == 0, #a " is " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) \
	plain_check(true, strcmp((a), (b)) != 0, #a " is not " #b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...) plain_check(true, !*(a), #a " is empty", __VA_ARGS__)
#define cr_assert_str_not_empty(a, ...) \
	plain_check(true, *(a), #a " is not empty", __VA_ARGS__)
#define cr_assert_fail(...) \
	plain_failed(true, __FILE__, __LINE__, "failed", " " __VA_ARGS__)

#define cr_expect(c, ...)      plain_check(false, (c), #c, __VA_ARGS__)
#define cr_expect_not(c, ...)  plain_check(false, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_null(p, ...) plain_check(false, (p) == NULL, #p " == NULL", __VA_ARGS__)
#define cr_expect_not_null(p, ...) \
	plain_check(false, (p) != NULL, #p " != NULL", __VA_ARGS__)
#define cr_expect_eq(a, b, ...)  plain_check(false, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) plain_check(false, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...)  plain_check(false, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) plain_check(false, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...)  plain_check(false, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) plain_check(false, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) \
	plain_check(false, strcmp((a), (b)) == 0, #a " is " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) \
	plain_check(false, strcmp((a), (b)) != 0, #a " is not " #b, __VA_ARGS__)
#define cr_expect_fail(...) \
	plain_failed(false, __FILE__, __LINE__, "failed", " " __VA_ARGS__)

#define cr_skip(...)      plain_skip(" " __VA_ARGS__)
#define cr_skip_test(...) plain_skip(" " __VA_ARGS__)
#define cr_log_info(...)  plain_log(" " __VA_ARGS__)
#define cr_log_warn(...)  plain_log(" " __VA_ARGS__)

#endif
