/*
 * test_plans.c - whether the directory can be served with, as a user who may not read it.
 */
#include "directory_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "client/plans.h"

static enum plans_look look(struct directory_file *f, struct buf *why)
{
	static char ours[] = "";
	struct config c = { .client = { .directory = f->path, .directory_query = ours } };
	struct mistakes m = { 0 };
	enum plans_look found = plans_check(&c, &m, why);

	cr_assert_eq(m.n, 0);
	mistakes_release(&m);
	return found;
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
