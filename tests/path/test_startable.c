/*
 * test_startable.c - "weirctl check && systemctl restart weir" must not take a site down: what
 * weir would not start with is found before.
 */
#include "faults.h"
#include "site.h"

#include <errno.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct backend_script plain;

#define RULES                                             \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n" \
	"@RateLimit = type=user count=2 window=1h\n"

/* A configuration of which server and sections are the further lines. */
static const char *ini_with(const char *server, const char *sections, const char *rules)
{
	return weir_configure(&(struct weir_spec){ .server = server,
				      .sections = text("[store]\ntype = memory\n[backend "
						       "plain]\nfastcgi = %s\n%s",
					      addr_unix("plain.sock"), sections),
				      .endpoints = text(RULES "%s", rules) })
		->ini;
}

static const char *client_with(const char *directory, const char *more)
{
	return text(
		"[client]\nuser = remote_user\ndirectory = sqlite:%s\n%s", directory, more);
}

/* Both ways to ask find it and say says; and weir, where it is started, does not serve. */
static void expect_refused(const char *ini, const char *says, bool start)
{
	struct run r = weirctl_run("-c %s check", ini);
	const char *out;

	cr_assert_eq(r.status, 1, "%s: %d, %s", says, r.status, r.err);
	cr_assert(strstr(r.err, says), "no \"%s\" in %s", says, r.err);
	cr_assert_str_eq(r.out, "", "%s", says);
	cr_assert_eq(weir_run((const char *const[]){ "-t", "-c", ini, NULL }, &out), 1,
		"%s: %s", says, out);
	cr_assert(strstr(out, says), "no \"%s\" in %s", says, out);
	if (start)
		cr_assert_eq(weir_run((const char *const[]){ "-c", ini, NULL }, &out), 1,
			"%s: it starts: %s", says, out);
}

/* What works, or cannot be judged. */
static void expect_noticed(const char *ini, const char *says)
{
	struct run r = weirctl_run("-c %s check", ini);

	cr_assert_eq(r.status, 0, "%s: %d, %s", says, r.status, r.err);
	cr_assert(strstr(r.err, "notice: "), "%s", r.err);
	cr_assert(strstr(r.err, says), "no \"%s\" in %s", says, r.err);
	cr_assert(strstr(r.out, "endpoint a"), "%s", r.out);
}

Test(startable, finds_a_directory_that_weir_cannot_serve_with, .timeout = 180)
{
	const char *none = test_path("none.db"), *empty = test_path("empty.db"),
		   *foreign = test_path("foreign.db"), *folder = test_path("folder.db"),
		   *junk = test_path("junk.db"), *ini;
	const struct {
		const char *path, *more, *says;
	} rows[] = {
		{ none, "", "No such file or directory; \"weirctl db init\" makes it" },
		{ none, "directory_query = SELECT name, plan FROM t WHERE hash = ?\n",
			"No such file or directory\n" },
		{ empty, "", "has no tables" },
		{ folder, "", "is no file" },
		{ junk, "", "cannot be read: file is not a database" },
		{ foreign, "", "does not hold weir's tables" },
		{ foreign, "directory_query = SELECT name FROM no_such_table\n",
			"does not take directory_query" },
	};
	sqlite3 *db;

	file_write(empty, "");
	file_write(junk, "This is a text of more than sixteen bytes, and no database.\n");
	cr_assert_eq(mkdir(folder, 0755), 0);
	cr_assert_eq(sqlite3_open(foreign, &db), SQLITE_OK);
	cr_assert_eq(
		sqlite3_exec(db, "CREATE TABLE t (name, plan, hash)", NULL, NULL, NULL),
		SQLITE_OK);
	sqlite3_close(db);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		ini = ini_with("", client_with(rows[i].path, rows[i].more), "");
		expect_refused(ini, rows[i].says, true);
		expect_refused(ini, ": client.directory: the directory ", false);
	}
}

Test(startable, finds_users_groups_and_folders_that_are_not_there, .timeout = 60)
{
	const char *far = test_path("no-such-folder/weir.sock"), *file = test_path("file");
	const struct {
		const char *server, *says;
	} rows[] = {
		{ "socket_user = no-such-user\n",
			":5: server.socket_user: \"no-such-user\" is no user of this" },
		{ "socket_group = no-such-group\n",
			":5: server.socket_group: \"no-such-group\" is no group of this" },
		{ text("listen = unix:%s\n", far), "there is no folder " },
		{ text("listen = unix:%s\n", file), "something else than a socket" },
		{ text("listen = unix:%s/weir.sock\n", file),
			"is no folder; write another path" },
		{ text("listen = unix:%s/below/weir.sock\n", file),
			"/file/below is to lie in is no folder; write another path" },
		{ "spool_dir = /nope\n",
			":5: server.spool_dir: \"/nope\" cannot hold large bodies (No such "
			"file or directory); write a directory that weir may write and "
			"enter\n" },
		{ "spool_dir = /dev/null\n",
			":5: server.spool_dir: \"/dev/null\" cannot hold large bodies (Not "
			"a "
			"directory); write a directory" },
	};
	const char *ini;

	file_write(file, "");
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect_refused(ini_with(rows[i].server, "", ""), rows[i].says, true);
	/* Without a control socket weir serves. */
	ini = ini_with("control_group = no-such-group\n", "", "");
	expect_noticed(ini, "so there will be no control socket");
}

Test(startable, leaves_to_weir_what_another_user_cannot_judge)
{
	/* Folders below /run are made when the service starts. */
	expect_noticed(ini_with("listen = unix:/run/no-such-folder/weir.sock\n", "", ""),
		"there is no folder /run/no-such-folder now");
	expect_noticed(ini_with("spool_dir = /run/no-such-folder\n", "", ""),
		"server.spool_dir: \"/run/no-such-folder\" cannot hold large bodies of "
		"this user's now (No such file or directory)");
}

Test(startable, names_the_plan_that_a_rule_may_mean, .timeout = 60)
{
	const char *db = test_path("weir.db"), *ini, *out;
	struct weir *w;

	weirctl("db init %s", db);
	weirctl("plan add paid --db %s", db);
	ini = ini_with("", client_with(db, ""),
		"@RateLimit = type=user plan=piad count=5 window=1h\n");
	expect_noticed(ini,
		text("@RateLimit plan: \"piad\" is no plan in %s, so nobody meets this "
		     "rule; did you mean paid?",
			db));
	ini = ini_with("", client_with(db, ""),
		"@RateLimit = type=user plan=student count=5 window=1h\n");
	expect_noticed(ini, "there is default, paid; \"weirctl plan add student\" makes");
	/* At the start and on a reload too; and once it is there, nobody says a word. */
	backend_start(addr_unix("plain.sock"), &plain);
	w = weir_start(
		&(struct weir_spec){ .sections = text("[store]\ntype = memory\n"
						      "[backend plain]\nfastcgi = "
						      "%s\n%s",
					     addr_unix("plain.sock"), client_with(db, "")),
			.endpoints = RULES "@RateLimit = type=user plan=piad count=5 "
					   "window=1h\n" });
	cr_assert(strstr(process_log(w->process), "did you mean paid?"), "%s",
		process_log(w->process));
	reload(w, "did you mean paid?");
	weirctl("plan add piad --db %s", db);
	out = weirctl_run("-c %s check", w->ini).err;
	cr_assert(!strstr(out, "is no plan"), "%s", out);
}

static struct weir *with_directory(const char *db, const char *const *env)
{
	weirctl("db init %s", db);
	backend_start(addr_unix("plain.sock"), &plain);
	return weir_start(&(struct weir_spec){
		.server = text("spool_dir = %s\n", test_path("bodies")),
		.sections = text("[store]\ntype = memory\n[backend plain]\n"
				 "fastcgi = %s\n%s",
			addr_unix("plain.sock"), client_with(db, "")),
		.endpoints = RULES,
		.env = env });
}

Test(startable, a_reload_goes_on_and_tells_what_a_start_would_fail_at, .timeout = 60)
{
	const char *db = test_path("weir.db"), *said;
	struct weir *w;

	cr_assert_eq(mkdir(test_path("bodies"), 0700), 0);
	w = with_directory(db, NULL);
	cr_assert_eq(unlink(db), 0);
	cr_assert_eq(rmdir(test_path("bodies")), 0);
	said = reload(w, "client.directory: the directory ");
	cr_assert(strstr(said,
			  "/bodies\\\" cannot hold large bodies (No such file or "
			  "directory); write a directory that weir may write and "
			  "enter (weir runs on, and would not start again)"),
		"%s", said);
	/* Only once it has been taken. */
	cr_assert(
		strstr(said, RELOADED) < strstr(said, "would not start again"), "%s", said);
	cr_assert_null(strstr(said, RELOAD_FAILS));
}

static int get_in_order(const struct weir *w)
{
	const struct fcgi_request rq = { .uri = "/a" };
	struct fcgi_answer a;
	int status = fcgi_call(w->addr, &rq, &a, 20000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

/* What a start would meet is looked at on a disk that may hang. */
Test(startable, a_directory_that_hangs_keeps_no_limit_waiting, .timeout = 60)
{
	struct weir *w;

	cr_assert_eq(mkdir(test_path("bodies"), 0700), 0);
	w = with_directory(test_path("weir.db"), faults_env());
	faults_set(FAULT_DISK, EIO, -1);
	for (int count = 5; count > 2; count--) {
		file_replace(endpoint_file(w, "a"),
			text("[endpoint a]\nmatch = GET /a\nbackend = plain\n"
			     "@RateLimit = type=ip count=%d window=1h\n",
				count));
		reload(w, RELOADED);
	}
	cr_assert(WAIT_UNTIL(10000, faults_met(FAULT_DISK) == 1));
	file_replace(endpoint_file(w, "a"),
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=ip count=0 window=1h\n");
	reload(w, RELOADED);
	cr_assert(WAIT_UNTIL(10000, get_in_order(w) == 403));
	/* It answers: what was found is told, and looked for again. */
	faults_set(FAULT_DISK, EIO, 0);
	cr_assert(process_logs(w->process, "cannot be read: Input/output error", 10000),
		"%s", process_log(w->process));
	process_signal(w->process, SIGTERM);
	cr_assert_eq(process_exit(w->process, 20000), 0, "%s", process_log(w->process));
}

Test(startable, a_directory_that_hangs_holds_up_no_end, .timeout = 60)
{
	struct weir *w;

	cr_assert_eq(mkdir(test_path("bodies"), 0700), 0);
	w = with_directory(test_path("weir.db"), faults_env());
	faults_set(FAULT_DISK, EIO, -1);
	reload(w, RELOADED);
	cr_assert(WAIT_UNTIL(10000, faults_met(FAULT_DISK) == 1));
	process_signal(w->process, SIGTERM);
	cr_assert_eq(process_exit(w->process, 20000), 0, "%s", process_log(w->process));
}
