/* What the system has not enough of is told apart, counted, and said once a minute. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/shortage.h"

Test(shortage, errors_are_told_apart)
{
	static const struct {
		int err;
		enum shortage want;
	} rows[] = {
		{ EMFILE, SHORTAGE_DESCRIPTORS },
		{ ENFILE, SHORTAGE_DESCRIPTORS },
		{ ENOMEM, SHORTAGE_MEMORY },
		{ ENOBUFS, SHORTAGE_MEMORY },
		{ EAGAIN, SHORTAGE_MEMORY },
		{ ECONNREFUSED, SHORTAGE_NONE },
		{ ENOSPC, SHORTAGE_NONE },
		{ 0, SHORTAGE_NONE },
	};
	int64_t descriptors = 0, memory = 0;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		errno = ERANGE;
		cr_expect_eq(shortage_seen(rows[i].err, "x"), rows[i].want, "%s",
			strerror(rows[i].err));
		cr_expect_eq(errno, ERANGE, "errno is left alone");
		descriptors += rows[i].want == SHORTAGE_DESCRIPTORS;
		memory += rows[i].want == SHORTAGE_MEMORY;
	}
	cr_expect_eq(counter_sum(COUNT_short_of_descriptors), descriptors);
	cr_expect_eq(counter_sum(COUNT_short_of_memory), memory);
}

Test(shortage, the_log_says_what_was_wanted_and_what_would_do_and_no_more_for_a_minute)
{
	static char all[8192];
	int fd = memfd_create("log", 0);

	log_open(fd, LOG_LEVEL_NOTICE);
	for (int i = 0; i < 100; i++)
		shortage_seen(EMFILE, "a connection");
	cr_assert_gt(pread(fd, all, sizeof(all) - 1, 0), 0);
	cr_expect_not_null(strstr(all, "for=\"a connection\""), "%s", all);
	cr_expect_not_null(strstr(all, "LimitNOFILE"), "%s", all);
	cr_expect_eq(strchr(all, '\n') + 1, all + strlen(all), "more than a line: %s", all);
	close(fd);
}
