/*
 * test_plans.c - whether the directory can be served with, as a user who may not read it.
 */
#include "directory_file.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/plans.h"

static enum plans_look look_as(bool guest, struct directory_file *f, struct buf *why)
{
	static char ours[] = "";
	struct config c = { .client = { .directory = f->path, .directory_query = ours } };
	struct mistakes m = { 0 };
	enum plans_look found = plans_check(&c, guest, &m, why);

	cr_assert_eq(m.n, 0);
	mistakes_release(&m);
	return found;
}

static enum plans_look look(struct directory_file *f, struct buf *why)
{
	return look_as(false, f, why);
}

static bool is_beside(const struct directory_file *f, const char *what)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%s", f->path, what);
	return access(path, F_OK) == 0;
}

Test(plans, a_directory_closed_to_whoever_asks_may_be_fit)
{
	struct directory_file f;
	struct buf why = { 0 };

	file_init(&f);
	cr_assert_eq(look(&f, &why), PLANS_FIT, "%s", buf_str(&why));
	if (geteuid() == 0)
		cr_assert_eq(seteuid(65534), 0);
	else
		cr_assert_eq(chmod(f.folder, 0), 0);
	cr_assert_eq(look(&f, &why), PLANS_HINDERED, "%s", buf_str(&why));
	cr_assert(strstr(buf_str(&why), "Permission denied"), "%s", buf_str(&why));
	if (getuid() == 0)
		cr_assert_eq(seteuid(0), 0);
	else
		cr_assert_eq(chmod(f.folder, 0700), 0);
	buf_release(&why);
	file_release(&f);
}

Test(plans, a_directory_that_is_locked_now_may_be_fit)
{
	struct directory_file f;
	struct buf why = { 0 };

	file_init(&f);
	file_run(&f,
		"PRAGMA journal_mode = DELETE; PRAGMA locking_mode = EXCLUSIVE; "
		"BEGIN EXCLUSIVE");
	cr_assert_eq(look(&f, &why), PLANS_HINDERED, "%s", buf_str(&why));
	file_run(&f, "COMMIT");
	buf_release(&why);
	file_release(&f);
}

Test(plans, one_that_is_not_there_is_not)
{
	struct directory_file f;
	struct buf why = { 0 };

	file_init_bare(&f);
	cr_assert_eq(look(&f, &why), PLANS_UNFIT, "%s", buf_str(&why));
	buf_release(&why);
	file_release(&f);
}

/* Who may write the folder would own what weir has to write. */
Test(plans, a_guest_makes_no_files_beside_a_directory_of_somebody_else)
{
	static const struct {
		const char *mode;
		bool open; /* by somebody */
		bool guest;
		uid_t owner;
		enum plans_look found;
		bool made;
	} rows[] = {
		{ "WAL", false, true, 65533, PLANS_LEFT, false },
		{ "WAL", true, true, 65533, PLANS_FIT, true },
		{ "WAL", false, true, 65534, PLANS_FIT, true },
		{ "WAL", false, false, 65533, PLANS_FIT, true },
		{ "DELETE", false, true, 65533, PLANS_FIT, false },
	};

	if (geteuid() != 0)
		cr_skip_test("root alone gives files away");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct directory_file f;
		struct buf why = { 0 };
		char set[64];

		file_init(&f);
		snprintf(set, sizeof(set), "PRAGMA journal_mode = %s", rows[i].mode);
		file_run(&f, set);
		if (!rows[i].open) {
			sqlite3_close(f.db);
			f.db = NULL;
		}
		cr_assert_eq(chmod(f.folder, 0777), 0);
		cr_assert_eq(chmod(f.path, 0644), 0);
		cr_assert_eq(chown(f.path, rows[i].owner, (gid_t)-1), 0);
		cr_assert_eq(seteuid(65534), 0);
		cr_expect_eq(look_as(rows[i].guest, &f, &why), rows[i].found, "row %zu: %s",
			i, buf_str(&why));
		cr_assert_eq(seteuid(0), 0);
		if (rows[i].found == PLANS_LEFT)
			cr_expect(strstr(buf_str(&why), "is not looked into"), "%s",
				buf_str(&why));
		cr_expect_eq(is_beside(&f, "-shm"), rows[i].made, "row %zu", i);
		buf_release(&why);
		file_release(&f);
	}
}
