#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proxy/spool.h"

static char dir[] = "/tmp/test-spool-XXXXXX";

static void make_dir(void)
{
	cr_assert(mkdtemp(dir));
}

/* Fails when anything was left in it. */
static void drop_dir(void)
{
	cr_assert_eq(rmdir(dir), 0, "%s is not empty", dir);
}

TestSuite(spool, .init = make_dir, .fini = drop_dir);

/* Byte i of every body here. */
static char byte_at(size_t i)
{
	return (char)(i * 7 + i / 251);
}

/* Adds n bytes in pieces of step. */
static enum spool_result fill(struct spool *s, size_t n, size_t step)
{
	enum spool_result r = SPOOL_OK;
	char *piece = malloc(step);

	for (size_t at = 0; at < n && r == SPOOL_OK; at += step) {
		size_t take = n - at < step ? n - at : step;

		for (size_t i = 0; i < take; i++)
			piece[i] = byte_at(at + i);
		r = spool_add(s, view_of(piece, take));
	}
	free(piece);
	return r;
}

static void check_spool_read(const struct spool *s, size_t n, size_t step)
{
	char *out = malloc(step);
	size_t at = 0;
	ssize_t got;

	while ((got = spool_read(s, at, out, step)) > 0) {
		for (ssize_t i = 0; i < got; i++)
			cr_assert_eq(out[i], byte_at(at + (size_t)i));
		at += (size_t)got;
	}
	cr_assert_eq(got, 0);
	cr_assert_eq(at, n);
	free(out);
}

static void check_fd(int fd, size_t n)
{
	char c;
	size_t at = 0;

	cr_assert_geq(fd, 0);
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	while (read(fd, &c, 1) == 1)
		cr_assert_eq(c, byte_at(at++));
	cr_assert_eq(at, n);
}

Test(spool, the_body_reads_back_as_it_came_from_memory_and_from_a_file)
{
	static const struct {
		size_t n, memory, step;
		bool file;
	} rows[] = {
		{ 0, 100, 1, false },
		{ 0, 0, 1, false },
		{ 1, 100, 1, false },
		{ 100, 100, 7, false },
		{ 101, 100, 7, true },
		{ 101, 100, 200, true },
		{ 1, 0, 1, true },
		{ 5000, 64, 1000, true },
		{ 300000, 65536, 4465, true },
		{ 300000, 1000000, 65535, false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spool s;
		int one, two;

		spool_init(&s, 1000000, rows[i].memory, dir);
		cr_assert_eq(fill(&s, rows[i].n, rows[i].step), SPOOL_OK);
		cr_assert_eq(s.n, rows[i].n);
		cr_assert_eq(s.fd >= 0, rows[i].file, "row %zu", i);
		check_spool_read(&s, rows[i].n, 4096);
		check_spool_read(&s, rows[i].n, 33);
		one = spool_open(&s);
		two = spool_open(&s);
		check_fd(one, rows[i].n);
		check_fd(two, rows[i].n);
		close(one);
		close(two);
		spool_release(&s);
	}
}

Test(spool, reading_starts_anywhere_and_ends_at_the_end)
{
	static const size_t memories[] = { 1000, 10 };

	for (size_t i = 0; i < COUNT_OF(memories); i++) {
		struct spool s;
		char out[8];

		spool_init(&s, 1000, memories[i], dir);
		fill(&s, 100, 9);
		cr_assert_eq(spool_read(&s, 96, out, sizeof(out)), 4);
		cr_assert_eq(out[3], byte_at(99));
		cr_assert_eq(spool_read(&s, 99, out, 1), 1);
		cr_assert_eq(spool_read(&s, 100, out, sizeof(out)), 0);
		cr_assert_eq(spool_read(&s, UINT64_MAX, out, sizeof(out)), 0);
		spool_release(&s);
	}
}

Test(spool, the_limit_is_exact)
{
	static const struct {
		size_t limit, n, step;
		enum spool_result want;
	} rows[] = {
		{ 100, 100, 10, SPOOL_OK },
		{ 100, 101, 10, SPOOL_TOO_LARGE },
		{ 100, 101, 101, SPOOL_TOO_LARGE },
		{ 0, 0, 1, SPOOL_OK },
		{ 0, 1, 1, SPOOL_TOO_LARGE },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct spool s;

		spool_init(&s, rows[i].limit, 50, dir);
		cr_assert_eq(fill(&s, rows[i].n, rows[i].step), rows[i].want, "row %zu", i);
		cr_assert_leq(s.n, rows[i].limit);
		spool_release(&s);
	}
}

Test(spool, memory_is_given_back_when_the_file_takes_over)
{
	struct spool s;

	spool_init(&s, 1000, 100, dir);
	fill(&s, 100, 10);
	cr_assert_not_null(s.mem.p);
	spool_add(&s, VIEW("x"));
	cr_assert_null(s.mem.p);
	spool_release(&s);
}

Test(spool, what_a_reader_does_with_its_descriptor_stays_with_it)
{
	struct spool s;
	int one, two;
	char c;

	spool_init(&s, 1000, 10, dir);
	fill(&s, 100, 10);
	one = spool_open(&s);
	two = spool_open(&s);
	lseek(one, 50, SEEK_SET);
	cr_assert_eq(read(two, &c, 1), 1);
	cr_assert_eq(c, byte_at(0));
	cr_assert_lt(write(one, "x", 1), 0, "a program can write into the body");
	spool_add(&s, VIEW("more"));
	cr_assert_eq(spool_read(&s, 0, &c, 1), 1);
	cr_assert_eq(c, byte_at(0));
	close(one);
	close(two);
	spool_release(&s);
}

Test(spool, a_directory_that_takes_no_file_is_reported)
{
	struct spool s;

	spool_init(&s, 1000, 10, "/nonexistent/weir");
	cr_assert_eq(fill(&s, 10, 10), SPOOL_OK);
	errno = 0;
	cr_assert_eq(spool_add(&s, VIEW("x")), SPOOL_FAILED);
	cr_assert_eq(errno, ENOENT);
	spool_release(&s);
}

Test(spool, a_full_disk_is_reported)
{
	struct rlimit small = { 4096, 4096 };
	struct spool s;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	spool_init(&s, 1000000, 10, dir);
	errno = 0;
	cr_assert_eq(fill(&s, 100000, 1000), SPOOL_FAILED);
	cr_assert_eq(errno, EFBIG);
	spool_release(&s);
}

Test(spool, what_all_files_hold_together_is_bounded)
{
	struct spool a, b, c;

	spool_init(&a, 10000, 10, dir);
	spool_init(&b, 10000, 10, dir);
	spool_init(&c, 10000, 5000, dir);
	a.most_filed = b.most_filed = c.most_filed = 1000;
	cr_assert_eq(fill(&a, 600, 7), SPOOL_OK);
	cr_assert_eq(spool_filed(), 600);
	cr_assert(spool_has_room(&a, 1000), "its own bytes are in it already");
	cr_assert_not(spool_has_room(&a, 1001));
	cr_assert(spool_has_room(&b, 400));
	cr_assert_not(spool_has_room(&b, 401));
	cr_assert(spool_has_room(&b, 10), "no file for it");
	cr_assert_eq(fill(&b, 400, 100), SPOOL_OK, "to the last byte");
	cr_assert_eq(spool_add(&b, VIEW("x")), SPOOL_FULL);
	cr_assert_eq(spool_add(&a, VIEW("x")), SPOOL_FULL);
	cr_assert_eq(fill(&c, 5000, 1000), SPOOL_OK, "in memory");
	cr_assert_eq(spool_add(&c, VIEW("x")), SPOOL_FULL);
	cr_assert_eq(spool_filed(), 1000, "a refused piece counts for nothing");
	spool_release(&b);
	cr_assert_eq(spool_filed(), 600);
	cr_assert_eq(spool_add(&a, VIEW("x")), SPOOL_OK);
	spool_release(&a);
	spool_release(&a);
	spool_release(&c);
	cr_assert_eq(spool_filed(), 0);
}

Test(spool, what_failed_gives_its_room_back)
{
	struct rlimit small = { 4096, 4096 };
	struct spool s;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	spool_init(&s, 100000, 10, dir);
	s.most_filed = 50000;
	cr_assert_eq(fill(&s, 40000, 1000), SPOOL_FAILED);
	cr_assert_eq(s.error, EFBIG);
	cr_assert_gt(spool_filed(), 4000);
	spool_release(&s);
	cr_assert_eq(spool_filed(), 0);
}

/* A program may still read a body when its request is long over. */
Test(spool, what_is_shared_stays_counted_until_both_are_gone)
{
	struct spool s;
	struct spool_share *share;

	spool_init(&s, 10000, 10, dir);
	cr_assert_eq(fill(&s, 10, 10), SPOOL_OK);
	cr_assert_null(spool_share(&s), "nothing on disk");
	spool_share_release(NULL);
	cr_assert_eq(fill(&s, 600, 100), SPOOL_OK);
	share = spool_share(&s);
	spool_release(&s);
	cr_assert_eq(spool_filed(), 610);
	spool_share_release(share);
	cr_assert_eq(spool_filed(), 0);

	cr_assert_eq(fill(&s, 600, 100), SPOOL_OK);
	spool_share_release(spool_share(&s));
	cr_assert_eq(spool_filed(), 600);
	spool_release(&s);
	cr_assert_eq(spool_filed(), 0);
}

Test(spool, release_can_be_called_twice)
{
	struct spool s;

	spool_init(&s, 1000, 10, dir);
	fill(&s, 100, 10);
	spool_release(&s);
	spool_release(&s);
	cr_assert_eq(s.n, 0);
}
