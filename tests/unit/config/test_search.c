/*
 * test_search.c - what is asked of the machine when a configuration is read: directories
 * that can be looked into.
 */
#include "folder.h"

TestSuite(search, .init = enter_folder, .fini = leave_folder);

static struct config *load_sites(void)
{
	put_sites();
	put_patterns(MANY, NULL);
	return load();
}

/* What a directory hides may be limits, wherever in the pattern it is. */
Test(search, a_directory_that_cannot_be_looked_into_is_told)
{
	static const struct {
		const char *pattern, *dir, *where;
		mode_t mode;
	} rows[] = {
		{ "sites/*.ini", "sites", "sites", 0 },
		{ "sites/*/*.ini", "sites/b", "sites/b", 0 },
		{ MANY, "sites/b", "sites/b/weir.ini", 0 },
		{ MANY, "sites/b", "sites/b/weir.ini", 0644 },
		{ "*/b/weir.ini", "sites", "sites/b", 0 },
		{ "*/*/weir.ini", "sites", "sites", 0 },
		{ "sites/b/weir.ini", "sites/b", "sites/b/weir.ini", 0 },
	};

	config_unref(load_sites());
	cr_assert_eq(chmod(".", 0755), 0);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf told = { 0 }, wanted = { 0 };
		struct config *c = NULL;

		put_patterns(rows[i].pattern, NULL);
		cr_assert_eq(chmod(rows[i].dir, rows[i].mode), 0);
		/* Nothing is hidden from root. */
		if (geteuid() == 0)
			cr_assert_eq(seteuid(65534), 0);
		cr_expect_not(config_load(MAIN, &c, &told), "%s", rows[i].pattern);
		cr_assert_eq(seteuid(getuid()), 0);
		cr_assert_eq(chmod(rows[i].dir, 0755), 0);
		buf_addf(&wanted,
			"weir.ini:2: server.endpoints: \"%s\" cannot be searched: \"%s\" "
			"(Permission denied); let weir read and enter the directories, or "
			"write a pattern that leaves it out\n",
			rows[i].pattern, rows[i].where);
		cr_expect_str_eq(buf_str(&told), buf_str(&wanted));
		buf_release(&told);
		buf_release(&wanted);
	}
}

Test(search, what_is_not_there_is_not_told)
{
	struct config *c;

	config_unref(load_sites());
	cr_assert_eq(mkdir("sites/empty", 0755), 0);
	cr_assert_eq(symlink("/nonexistent", "sites/dangling"), 0);
	put("sites/file", "");
	c = load();
	cr_expect_eq(c->n_endpoints, 2);
	config_unref(c);
}
