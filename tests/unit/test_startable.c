/*
 * test_startable.c - what a start would meet, asked by users who may not see it.
 */
#include "config/folder.h"

#include "startable.h"

TestSuite(startable, .init = enter_folder, .fini = leave_folder);

#define ROOM "cannot hold large bodies (Permission denied); write a directory that weir may"
#define ASKS "cannot hold large bodies of this user's now (Permission denied)"

static void put_spool_dir(const char *more)
{
	struct buf text = { 0 };

	buf_addf(&text, "[server]\nspool_dir = %s/bodies\n%s", folder, more);
	put(MAIN, buf_str(&text));
	buf_release(&text);
}

/* Read as by weirctl user list, and by a CGI program: nobody asks the machine. */
static struct config *load_as_nobody(void)
{
	if (geteuid() == 0)
		cr_assert_eq(seteuid(65534), 0);
	return load();
}

Test(startable, a_directory_for_bodies_is_judged_by_who_has_to_write_it)
{
	static const mode_t modes[] = { 0555, 0666 };
	static const struct {
		enum startable_for what;
		bool starts;
		const char *says;
	} rows[] = {
		{ STARTABLE_ASKED, true, "weir.ini:2: notice: server.spool_dir: " },
		{ STARTABLE_ASKED, true, ASKS },
		{ STARTABLE_BEGINS, false, "weir.ini:2: server.spool_dir: " },
		{ STARTABLE_BEGINS, false, ROOM },
		{ STARTABLE_RUNS, true, "weir.ini:2: notice: server.spool_dir: " },
		{ STARTABLE_RUNS, true, ROOM },
	};

	cr_assert_eq(chmod(".", 0755), 0);
	cr_assert_eq(mkdir("bodies", 0777), 0);
	put_spool_dir("");
	for (size_t i = 0; i < COUNT_OF(rows) * COUNT_OF(modes); i++) {
		size_t row = i / COUNT_OF(modes);
		struct buf told = { 0 };
		struct config *c;

		cr_assert_eq(chmod("bodies", modes[i % COUNT_OF(modes)]), 0);
		c = load_as_nobody();
		cr_expect_eq(startable(c, rows[row].what, &told), rows[row].starts,
			"row %zu", row);
		cr_expect(
			strstr(buf_str(&told), rows[row].says), "row %zu: %s", row, told.p);
		cr_assert_eq(seteuid(getuid()), 0);
		config_unref(c);
		buf_release(&told);
	}
}

Test(startable, a_directory_that_no_body_goes_to_is_not_looked_at)
{
	struct buf told = { 0 };
	struct config *c;

	put_spool_dir("spool_memory = 64K\nbody_limit = 64K\n");
	c = load();
	cr_expect(startable(c, STARTABLE_BEGINS, &told));
	cr_expect(!told.n || !strstr(buf_str(&told), "spool_dir"), "%s", buf_str(&told));
	config_unref(c);
	buf_release(&told);
}
