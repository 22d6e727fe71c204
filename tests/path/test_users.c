/*
 * test_users.c - the directory of users under a running weir, and what becomes of limits
 * when it is gone.
 *
 * There are plans that allow more and less than the rule without a plan. Whatever happens
 * to the file, nobody who was known may be counted by another plan than his, nobody may
 * be exempt who was not, and what has been counted stays.
 */
#include "site.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct backend_script plain;

#define RULES                                                  \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n"      \
	"@RateLimit = type=user count=2 window=1h\n"           \
	"@RateLimit = type=user plan=paid count=4 window=1h\n" \
	"@RateLimit = type=user plan=strict count=1 window=1h\n"

struct users {
	struct weir *weir;
	const char *db;   /* path of the directory */
	const char *good; /* path of a copy of it */
	sqlite3 *lock;    /* of who locks it */
};

/* ---- Preparing ---- */

static void run(sqlite3 *db, const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
		fail("%s: %s", sql, why);
}

static sqlite3 *open_db(const char *path)
{
	sqlite3 *db;

	cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
	sqlite3_busy_timeout(db, 5000);
	return db;
}

/* A user whose token is the name, for each case from 0 to n - 1: "paid-0" and so on. */
static void add_users(sqlite3 *db, const char *kind, const char *plan, bool admin, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *name = text("%s-%zu", kind, i);

		run(db,
			text("INSERT INTO users (name, plan) VALUES ('%s', '%s')", name,
				plan));
		run(db,
			text("INSERT INTO tokens (user, hash, admin) VALUES ('%s', x'%s', "
			     "%d)",
				name, sha256_of(view_str(name)), admin));
	}
}

/* The directory is no longer in WAL mode, so that one file is all there is. */
static struct users users_start(const char *error, size_t cases)
{
	struct users u = { .db = test_path("weir.db"), .good = test_path("good.db") };
	const char *addr = addr_unix("plain.sock");
	const struct weir_spec spec = { .server = "workers = 2\n",
		.sections = text("[store]\ntype = memory\n[backend plain]\nfastcgi = %s\n"
				 "[client]\nuser = token remote_user\n"
				 "directory = sqlite:%s\ndirectory_ttl = 100ms\n"
				 "directory_miss_ttl = 100ms\ndirectory_error = %s\n",
			addr, u.db, error),
		.endpoints = RULES };
	const struct weir *before = weir_configure(&spec);
	sqlite3 *db;

	weirctl("-c %s db init", before->ini);
	db = open_db(u.db);
	run(db, "BEGIN; INSERT INTO plans (name) VALUES ('paid'), ('strict')");
	add_users(db, "paid", "paid", false, cases);
	add_users(db, "plain", "default", false, cases);
	add_users(db, "strict", "strict", false, cases);
	add_users(db, "server", "strict", false, cases);
	add_users(db, "fresh", "paid", false, cases);
	add_users(db, "admin", "default", true, cases);
	run(db, "COMMIT; PRAGMA journal_mode = DELETE");
	sqlite3_close(db);
	file_copy(u.db, u.good);
	backend_start(addr, &plain);
	u.weir = weir_start(&spec);
	return u;
}

/* ---- Asking ---- */

static int ask(const struct users *u, size_t n, const char *param)
{
	struct fcgi_request rq = { .uri = "/a",
		.address = text("10.0.%zu.1", n),
		.params = (const char *const[]){ param, NULL } };
	struct fcgi_answer a;
	int status = fcgi_call(u->weir->addr, &rq, &a, 20000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

static int ask_token(const struct users *u, size_t n, const char *kind)
{
	return ask(u, n, text("HTTP_AUTHORIZATION=Bearer %s-%zu", kind, n));
}

static int ask_server(const struct users *u, size_t n, const char *kind)
{
	return ask(u, n, text("REMOTE_USER=%s-%zu", kind, n));
}

static int64_t exempt(const struct users *u)
{
	return weir_counter(u->weir, "requests_exempt");
}

/* So many pass, and then none. */
#define ADMITS(n, asking, when)                                                      \
	do {                                                                         \
		for (int i_ = 0; i_ < (n); i_++)                                     \
			cr_assert_eq(asking, 200, "%s: %s, request %d of " #n, when, \
				#asking, i_ + 1);                                    \
		cr_assert_eq(asking, 429, "%s: %s, after " #n, when, #asking);       \
	} while (0)

/* ---- What happens to the file ---- */

static void is_renamed(struct users *u)
{
	cr_assert_eq(rename(u->db, text("%s.old", u->db)), 0);
}
static void is_removed(struct users *u)
{
	cr_assert_eq(unlink(u->db), 0);
}
static void is_empty(struct users *u)
{
	file_replace(u->db, "");
}
static void is_truncated(struct users *u)
{
	cr_assert_eq(truncate(u->db, 0), 0);
}
static void is_cut(struct users *u)
{
	cr_assert_eq(truncate(u->db, 5000), 0);
}
static void is_garbage(struct users *u)
{
	file_replace(u->db, "no database, although it is long enough to be looked at\n");
}
static void is_overwritten(struct users *u)
{
	FILE *f = fopen(u->db, "r+e");

	cr_assert_not_null(f);
	for (int i = 0; i < 20000; i++)
		fputc(0xa5, f);
	cr_assert_eq(fclose(f), 0);
}
static void loses_its_tables(struct users *u)
{
	sqlite3 *db = open_db(u->db);

	run(db,
		"PRAGMA foreign_keys = OFF; DROP TABLE tokens; DROP TABLE users; "
		"DROP TABLE plans");
	sqlite3_close(db);
}
static void loses_its_users(struct users *u)
{
	sqlite3 *db = open_db(u->db);

	run(db, "PRAGMA foreign_keys = OFF; DROP TABLE users");
	sqlite3_close(db);
}
static void is_somebody_elses(struct users *u)
{
	sqlite3 *db;

	is_removed(u);
	db = open_db(u->db);
	run(db, "CREATE TABLE users (name TEXT, plan TEXT)");
	sqlite3_close(db);
}
static void is_of_another_version(struct users *u)
{
	sqlite3 *db = open_db(text("%s.next", u->db));

	sqlite3_close(db);
	file_copy(u->good, text("%s.next", u->db));
	db = open_db(text("%s.next", u->db));
	run(db, "PRAGMA user_version = 99");
	sqlite3_close(db);
	cr_assert_eq(rename(text("%s.next", u->db), u->db), 0);
}
static void is_a_directory(struct users *u)
{
	is_removed(u);
	cr_assert_eq(mkdir(u->db, 0755), 0);
}
static void leads_nowhere(struct users *u)
{
	is_removed(u);
	cr_assert_eq(symlink("/nonexistent/weir.db", u->db), 0);
}
static void is_on_a_bad_disk(struct users *u)
{
	is_removed(u);
	cr_assert_eq(symlink("/proc/self/mem", u->db), 0);
}
static void is_locked(struct users *u)
{
	u->lock = open_db(u->db);
	run(u->lock, "BEGIN EXCLUSIVE");
}

/* The good file is there again, as a restored backup would be. */
static void restore(struct users *u)
{
	const char *fresh = text("%s.fresh", u->db);

	if (u->lock) {
		run(u->lock, "COMMIT");
		sqlite3_close(u->lock);
		u->lock = NULL;
		return;
	}
	rmdir(u->db);
	file_copy(u->good, fresh);
	cr_assert_eq(rename(fresh, u->db), 0);
}

static const struct {
	const char *when;
	void (*happens)(struct users *u);
} events[] = {
	{ "renamed", is_renamed },
	{ "removed", is_removed },
	{ "replaced by an empty file", is_empty },
	{ "truncated", is_truncated },
	{ "cut off", is_cut },
	{ "replaced by garbage", is_garbage },
	{ "overwritten", is_overwritten },
	{ "without tables", loses_its_tables },
	{ "without users", loses_its_users },
	{ "of somebody else", is_somebody_elses },
	{ "of another version", is_of_another_version },
	{ "a directory", is_a_directory },
	{ "a broken link", leads_nowhere },
	{ "on a bad disk", is_on_a_bad_disk },
	{ "locked", is_locked },
};

/* Some of what each may do, and all of what the strict may. */
static void begin(const struct users *u, size_t n, const char *when)
{
	for (int i = 0; i < 2; i++)
		cr_assert_eq(ask_token(u, n, "paid"), 200, "before %s", when);
	cr_assert_eq(ask_token(u, n, "plain"), 200, "before %s", when);
	ADMITS(1, ask_token(u, n, "strict"), when);
	ADMITS(1, ask_server(u, n, "server"), when);
	cr_assert_eq(ask_token(u, n, "admin"), 200, "before %s", when);
}

static void continue_without(const struct users *u, size_t n, const char *when)
{
	int64_t before = exempt(u);

	ADMITS(2, ask_token(u, n, "paid"), when);
	ADMITS(1, ask_token(u, n, "plain"), when);
	ADMITS(0, ask_token(u, n, "strict"), when);
	ADMITS(0, ask_server(u, n, "server"), when);
	cr_assert_eq(ask_token(u, n, "admin"), 200, "%s", when);
	cr_assert_eq(exempt(u), before + 1, "%s", when);
	/* Whom nobody has looked up yet is nobody, and counts by address; whom the server
	 * vouches for is on the default plan. */
	ADMITS(2, ask_token(u, n, "Admin"), when);
	ADMITS(0, ask_token(u, n, "fresh"), when);
	ADMITS(0, ask(u, n, "HTTP_X_ADMIN=1"), when);
	ADMITS(2, ask_server(u, n, "stranger"), when);
	cr_assert_eq(exempt(u), before + 1, "%s", when);
}

static void end(const struct users *u, size_t n, const char *when)
{
	const char *again = text("no longer %s", when);
	int64_t before = exempt(u);

	ADMITS(0, ask_token(u, n, "paid"), again);
	ADMITS(0, ask_token(u, n, "plain"), again);
	ADMITS(0, ask_token(u, n, "strict"), again);
	ADMITS(0, ask_server(u, n, "server"), again);
	ADMITS(4, ask_token(u, n, "fresh"), again);
	ADMITS(0, ask_token(u, n, "Admin"), again);
	cr_assert_eq(exempt(u), before, "%s", again);
	cr_assert_eq(ask_token(u, n, "admin"), 200, "%s", again);
	cr_assert_eq(exempt(u), before + 1, "%s", again);
}

/* Whether a look-up fails now. What is fresh in the cache is not looked up. */
static bool fails(const struct users *u, size_t n)
{
	int64_t before = weir_counter(u->weir, "directory_failures");

	cr_assert_eq(ask_token(u, n, "admin"), 200);
	return weir_counter(u->weir, "directory_failures") > before;
}

Test(users, keep_their_limits_whatever_happens_to_the_directory, .timeout = 120)
{
	struct users u = users_start("open", COUNT_OF(events));

	for (size_t n = 0; n < COUNT_OF(events); n++) {
		begin(&u, n, events[n].when);
		events[n].happens(&u);
		cr_assert(WAIT_UNTIL(20000, fails(&u, n)), "%s", events[n].when);
		continue_without(&u, n, events[n].when);
		restore(&u);
		cr_assert(WAIT_UNTIL(20000, !fails(&u, n)), "%s", events[n].when);
		end(&u, n, events[n].when);
	}
}

Test(users, are_refused_where_the_operator_wants_that, .timeout = 60)
{
	struct users u = users_start("closed", 1);
	int64_t before;

	cr_assert_eq(ask_token(&u, 0, "paid"), 200);
	cr_assert_eq(ask_token(&u, 0, "admin"), 200);
	is_renamed(&u);
	/* What is in the cache still holds for a moment. */
	cr_assert(WAIT_UNTIL(20000, ask_token(&u, 0, "paid") != 200));
	cr_assert(WAIT_UNTIL(20000, ask_token(&u, 0, "admin") != 200));
	before = exempt(&u);
	cr_assert_eq(ask_token(&u, 0, "paid"), 503);
	cr_assert_eq(ask_token(&u, 0, "admin"), 503);
	cr_assert_eq(ask_token(&u, 0, "Admin"), 503);
	cr_assert_eq(ask_server(&u, 0, "server"), 503);
	cr_assert_eq(exempt(&u), before);
	/* Who needs nothing of it meets his limit. */
	ADMITS(2, ask(&u, 0, "HTTP_X_ADMIN=1"), "closed");
	restore(&u);
	cr_assert(WAIT_UNTIL(20000, ask_token(&u, 0, "admin") == 200));
	cr_assert_eq(ask_token(&u, 0, "fresh"), 200);
}

Test(users, are_not_served_by_a_weir_that_cannot_read_them_at_the_start, .timeout = 60)
{
	struct users u = users_start("open", 1);

	process_stop(u.weir->process, 5000);
	for (size_t n = 0; n < COUNT_OF(events); n++) {
		const char *out = "";
		int status;

		if (events[n].happens == is_locked)
			continue;
		events[n].happens(&u);
		status = weir_run((const char *const[]){ "-c", u.weir->ini, NULL }, &out);
		cr_assert_eq(status, 1, "%s: %d, %s", events[n].when, status, out);
		cr_assert(strstr(out, "no directory of users"), "%s: %s", events[n].when,
			out);
		cr_assert(strstr(out, u.db), "%s: %s", events[n].when, out);
		restore(&u);
	}
}
