/*
 * The directory as a worker asks it, with a file of its own for each test.
 */
#include "directory_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

static int log_fd;

static void log_to_memory(void)
{
	log_fd = memfd_create("log", 0);
	log_open(log_fd, LOG_LEVEL_NOTICE);
}

/* How many lines of the log hold that text. */
static unsigned logged(const char *text)
{
	static char all[65536];
	ssize_t n = pread(log_fd, all, sizeof(all) - 1, 0);
	unsigned lines = 0;

	cr_assert_geq(n, 0);
	all[n] = '\0';
	for (char *at = all; (at = strstr(at, text)) != NULL; at++)
		lines++;
	return lines;
}

TestSuite(directory, .init = log_to_memory, .timeout = 60);

/* ---- Opening ---- */

static void expect_refusal(const struct directory_options *o, const char *sentence)
{
	struct buf why = { 0 };

	cr_expect_null(directory_open(o, &why), "%s", sentence);
	cr_expect(strstr(buf_str(&why), sentence), "\"%s\" does not say \"%s\"",
		buf_str(&why), sentence);
	cr_expect(strstr(buf_str(&why), o->path), "\"%s\" does not name the file",
		buf_str(&why));
	buf_release(&why);
}

Test(directory, what_cannot_be_used_is_told_before_anything_is_served)
{
	static const struct {
		const char *sql, *sentence;
	} rows[] = {
		{ "", "has no tables; remove it and run \"weirctl db init\"" },
		{ "CREATE TABLE users (name TEXT)", "does not hold weir's tables" },
		{ "CREATE TABLE users (name TEXT); PRAGMA application_id = 0x77656972",
			"has version 0 of the schema, and 1 is needed; run \"weirctl db "
			"migrate\"" },
		{ "CREATE TABLE users (name TEXT); PRAGMA application_id = 0x77656972;"
		  "PRAGMA user_version = 99",
			"has version 99 of the schema, and this weir knows version 1" },
		{ "CREATE TABLE users (name TEXT); PRAGMA application_id = 0x77656972;"
		  "PRAGMA user_version = 1",
			"has damaged tables: no such table: tokens" },
	};
	struct directory_file f;
	struct directory_options o;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		file_init_bare(&f);
		cr_assert_eq(sqlite3_open(f.path, &f.db), SQLITE_OK);
		file_run(&f, "PRAGMA user_version = 0"); /* so that there is a file */
		file_write(f.path, "");
		file_run(&f, rows[i].sql);
		o = file_options(&f);
		expect_refusal(&o, rows[i].sentence);
		file_release(&f);
	}
	file_init_bare(&f);
	o = file_options(&f);
	expect_refusal(
		&o, "cannot be read: No such file or directory; \"weirctl db init\"");
	file_write(
		f.path, "This is not a database, although it is long enough to be one.\n");
	expect_refusal(&o, "cannot be read: file is not a database");
	o.path = f.folder;
	expect_refusal(&o, "is no file");
	file_release(&f);
}

Test(directory, a_query_must_have_the_form_that_is_asked_for)
{
	static const struct {
		const char *query, *sentence;
	} rows[] = {
		{ "SELECT nobody",
			"does not take directory_query: no such column: nobody" },
		{ "SELECT user, plan FROM keys WHERE hash = ?",
			"does not take directory_query: no such table: keys" },
		{ "SELECT name, plan FROM users", "is asked with 0 parameters" },
		{ "SELECT name, plan FROM users WHERE name = ? OR name = ?",
			"is asked with 2 parameters" },
		{ "SELECT name FROM users WHERE name = ?", "is asked for 1 columns" },
		{ "SELECT name, plan, 0, 0 FROM users WHERE name = ?",
			"is asked for 4 columns" },
		{ "DELETE FROM users WHERE name = ? RETURNING name, plan",
			"is asked something else" },
		{ "SELECT name, plan FROM users WHERE name = ?; DELETE FROM users",
			"is asked something else" },
		{ "-- nothing", "is asked something else" },
	};
	struct directory_file f;
	struct directory_options o;

	file_init(&f);
	o = file_options(&f);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		o.query = rows[i].query;
		expect_refusal(&o, rows[i].sentence);
	}
	file_release(&f);
}

/* ---- Looking up ---- */

/* A directory in which alice has the token "a". */
static struct directory *with_alice(struct directory_file *f)
{
	file_init(f);
	file_add(f, "alice", "default", "a", "");
	return file_open(f);
}

Test(directory, tokens_name_their_users)
{
	struct directory_file f;
	struct directory *d;
	char later[32];

	file_init(&f);
	snprintf(later, sizeof(later), "expires = %lld", (long long)TEST_NOW_S + 1);
	file_add(&f, "alice", "default", "a", "");
	file_add(&f, "bob", "gold", "b", "");
	file_add(&f, "root", "default", "r", "admin = 1");
	file_add(&f, "bob", "gold", "later", later);
	file_add(&f, "bob", "gold", "past", "expires = 1");
	file_add(&f, "bob", "gold", "revoked", "revoked = 1, admin = 1");
	file_add(&f, "gone", "gold", "disabled", "admin = 1");
	file_run(&f, "UPDATE users SET disabled = 1 WHERE name = 'gone'");
	d = file_open(&f);
	/* Twice: from the file and from the cache. */
	for (int i = 0; i < 2; i++) {
		cr_expect_str_eq(look_token(d, "a"), "alice/default");
		cr_expect_str_eq(look_token(d, "b"), "bob/gold");
		cr_expect_str_eq(look_token(d, "r"), "root/default/admin");
		cr_expect_str_eq(look_token(d, "later"), "bob/gold");
		cr_expect_str_eq(look_token(d, "past"), "unknown");
		cr_expect_str_eq(look_token(d, "revoked"), "unknown");
		cr_expect_str_eq(look_token(d, "disabled"), "unknown");
		cr_expect_str_eq(look_token(d, "A"), "unknown");
		cr_expect_str_eq(look_token(d, ""), "unknown");
		cr_expect_str_eq(look_user(d, "alice"), "alice/default");
		cr_expect_str_eq(look_user(d, "bob"), "bob/gold");
		cr_expect_str_eq(look_user(d, "Bob"), "unknown");
		cr_expect_str_eq(look_user(d, "gone"), "unknown");
		cr_expect_str_eq(look_user(d, "bob' OR 1 = 1 --"), "unknown");
		cr_expect_str_eq(look_user(d, ""), "unknown");
	}
	directory_close(d);
	file_release(&f);
}

Test(directory, a_token_expires_on_the_second_even_where_it_is_kept)
{
	struct directory_file f;
	struct directory *d;
	char later[32];

	file_init(&f);
	snprintf(later, sizeof(later), "expires = %lld", (long long)TEST_NOW_S + 5);
	file_add(&f, "alice", "default", "a", later);
	d = file_open(&f);
	cr_expect_str_eq(look_token(d, "a"), "alice/default");
	test_wall_us = (TEST_NOW_S + 5) * S - 1;
	cr_expect_str_eq(know_token(d, "a"), "alice/default");
	test_wall_us++;
	cr_expect_str_eq(know_token(d, "a"), "unknown");
	directory_close(d);
	d = file_open(&f);
	cr_expect_str_eq(look_token(d, "a"), "unknown", "nor does the file give it back");
	directory_close(d);
	file_release(&f);
}

Test(directory, a_revoked_token_is_unknown_when_the_time_to_live_is_over)
{
	struct directory_file f;
	struct directory *d;

	d = with_alice(&f);
	cr_expect_str_eq(look_token(d, "a"), "alice/default");
	file_run(&f, "UPDATE tokens SET revoked = 1");
	test_mono_us += 60 * S - 1;
	cr_expect_str_eq(know_token(d, "a"), "alice/default");
	test_mono_us++;
	cr_expect_str_eq(know_token(d, "a"), "?");
	cr_expect_str_eq(look_token(d, "a"), "unknown");
	directory_close(d);
	file_release(&f);
}

Test(directory, use_does_not_lengthen_the_time_to_live)
{
	struct directory_file f;
	struct directory *d;

	d = with_alice(&f);
	look_token(d, "a");
	for (int i = 0; i < 59; i++) {
		test_mono_us += S;
		cr_expect_str_eq(know_token(d, "a"), "alice/default");
	}
	test_mono_us += S;
	cr_expect_str_eq(know_token(d, "a"), "?");
	directory_close(d);
	file_release(&f);
}

Test(directory, a_new_token_is_known_when_its_absence_is_forgotten)
{
	struct directory_file f;
	struct directory *d;

	file_init(&f);
	d = file_open(&f);
	cr_expect_str_eq(look_token(d, "a"), "unknown");
	file_add(&f, "alice", "default", "a", "");
	test_mono_us += 10 * S - 1;
	cr_expect_str_eq(look_token(d, "a"), "unknown");
	test_mono_us++;
	cr_expect_str_eq(look_token(d, "a"), "alice/default");
	directory_close(d);
	file_release(&f);
}

Test(directory, a_changed_plan_holds_after_the_time_to_live)
{
	struct directory_file f;
	struct directory *d;

	d = with_alice(&f);
	look_user(d, "alice");
	look_token(d, "a");
	file_run(&f,
		"INSERT INTO plans VALUES ('gold', ''); UPDATE users SET plan = 'gold'");
	cr_expect_str_eq(look_user(d, "alice"), "alice/default");
	test_mono_us += 60 * S;
	cr_expect_str_eq(look_user(d, "alice"), "alice/gold");
	cr_expect_str_eq(look_token(d, "a"), "alice/gold");
	directory_close(d);
	file_release(&f);
}

Test(directory, a_table_that_is_there_already_serves_through_a_query)
{
	static const struct {
		const char *query, *a, *r;
	} rows[] = {
		{ "SELECT owner, tier FROM keys WHERE digest = ?", "7/gold",
			"root/default" },
		{ "SELECT owner, tier, super FROM keys WHERE digest = ?1 ;\n", "7/gold",
			"root/default/admin" },
		{ "SELECT owner, tier, super FROM keys WHERE hex_digest = lower(hex(?))",
			"7/gold", "root/default/admin" },
		{ "SELECT owner, 'all' FROM keys WHERE digest = :hash", "7/all",
			"root/all" },
		{ "SELECT NULL, tier FROM keys WHERE digest = ?", "unknown", "unknown" },
		{ "SELECT '', tier FROM keys WHERE digest = ?", "unknown", "unknown" },
	};
	struct directory_file f;

	file_init_bare(&f);
	cr_assert_eq(sqlite3_open(f.path, &f.db), SQLITE_OK);
	file_run(&f,
		"CREATE TABLE keys (owner, tier, super INTEGER, digest BLOB, hex_digest "
		"TEXT);"
		"INSERT INTO keys (owner, tier, super, hex_digest) VALUES"
		/* SHA-256 of "a" and "r" */
		"(7, 'gold', 0, "
		"'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb'),"
		"('root', NULL, 1, "
		"'454349e422f05297191ead13e21d3db520e5abef52055e4964b82fb213f593a1')");
	/* SQLite 3.40 has no unhex(). */
	file_run(&f,
		"UPDATE keys SET digest = "
		"x'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb' "
		"WHERE owner = 7;"
		"UPDATE keys SET digest = "
		"x'454349e422f05297191ead13e21d3db520e5abef52055e4964b82fb213f593a1' "
		"WHERE owner = 'root'");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct directory_options o = file_options(&f);
		struct buf why = { 0 };
		struct directory *d;

		o.query = rows[i].query;
		d = directory_open(&o, &why);
		cr_assert(d, "%s: %s", rows[i].query, buf_str(&why));
		cr_expect_str_eq(look_token(d, "a"), rows[i].a, "%s", rows[i].query);
		cr_expect_str_eq(look_token(d, "r"), rows[i].r, "%s", rows[i].query);
		cr_expect_str_eq(look_token(d, "x"), "unknown");
		cr_expect_str_eq(
			look_user(d, "root"), "unknown", "there is no such look-up");
		directory_close(d);
	}
	file_release(&f);
}

Test(directory, names_of_any_length_stay_apart)
{
	static const char *const endings[] = { "x", "y" };
	char name[600], heard[2][600];
	struct directory_file f;
	struct directory *d;

	file_init_bare(&f);
	cr_assert_eq(sqlite3_open(f.path, &f.db), SQLITE_OK);
	file_run(&f, "CREATE TABLE keys (owner TEXT, tier TEXT, digest BLOB)");
	for (size_t i = 0; i < 2; i++) {
		sqlite3_stmt *s;
		struct view hash = hash_of(endings[i]);

		snprintf(name, sizeof(name), "%0500d%s", 0, endings[i]);
		sqlite3_prepare_v2(
			f.db, "INSERT INTO keys VALUES (?, 'gold', ?)", -1, &s, NULL);
		sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
		sqlite3_bind_blob64(s, 2, hash.p, hash.n, SQLITE_STATIC);
		cr_assert_eq(sqlite3_step(s), SQLITE_DONE);
		sqlite3_finalize(s);
	}
	struct directory_options o = file_options(&f);
	struct buf why = { 0 };

	o.query = "SELECT owner, tier FROM keys WHERE digest = ?";
	d = directory_open(&o, &why);
	cr_assert(d, "%s", buf_str(&why));
	for (size_t i = 0; i < 2; i++)
		snprintf(heard[i], sizeof(heard[i]), "%s", look_token(d, endings[i]));
	cr_expect_str_neq(heard[0], heard[1]);
	cr_expect_eq(strncmp(heard[0], "sha256/", 7), 0, "%s", heard[0]);
	directory_close(d);
	file_release(&f);
}

/* ---- When it fails ---- */

Test(directory, a_file_that_breaks_fails_look_ups_and_is_told_once_a_minute)
{
	struct directory_file f;
	struct directory *d;
	char away[128];

	file_init(&f);
	file_add(&f, "alice", "default", "a", "");
	file_add(&f, "bob", "default", "b", "");
	file_run(&f, "PRAGMA wal_checkpoint(TRUNCATE)");
	d = file_open(&f);
	cr_expect_str_eq(look_token(d, "a"), "alice/default");
	snprintf(away, sizeof(away), "%s.new", f.path);
	cr_assert_eq(rename(f.path, away), 0);
	cr_expect_str_eq(look_token(d, "b"), "failed");
	cr_expect_str_eq(look_token(d, "c"), "failed");
	cr_expect_str_eq(look_token(d, "a"), "alice/default", "what is known is known");
	file_write(
		f.path, "nonsense in its place, and enough of it to be looked at twice\n");
	cr_expect_str_eq(look_token(d, "b"), "failed");
	test_mono_us += S;
	cr_expect_str_eq(look_token(d, "b"), "failed");
	cr_expect_eq(logged("the directory cannot be read"), 1);
	cr_expect_eq(logged("can be read again"), 0);
	cr_assert_eq(rename(away, f.path), 0);
	test_mono_us += S;
	cr_expect_str_eq(look_token(d, "b"), "bob/default", "nothing of it was kept");
	cr_expect_str_eq(look_token(d, "c"), "unknown");
	cr_expect_eq(logged("can be read again"), 1);
	directory_close(d);
	file_release(&f);
}

/* Takes the file away, or puts it back. */
static void swap(struct directory_file *f, bool away)
{
	char aside[128];

	snprintf(aside, sizeof(aside), "%s.aside", f->path);
	cr_assert_eq(away ? rename(f->path, aside) : rename(aside, f->path), 0);
}

Test(directory, what_it_said_last_holds_while_it_cannot_be_read)
{
	struct directory_file f;
	struct directory *d;
	char later[32];

	file_init(&f);
	snprintf(later, sizeof(later), "expires = %lld", (long long)TEST_NOW_S + 5);
	file_add(&f, "alice", "default", "a", "");
	file_add(&f, "root", "gold", "r", "admin = 1");
	file_add(&f, "bob", "gold", "later", later);
	file_add(&f, "bob", "gold", "never seen", "admin = 1");
	file_add(&f, "bob", "gold", "revoked", "admin = 1");
	file_run(&f, "PRAGMA wal_checkpoint(TRUNCATE)");
	d = file_open(&f);
	look_token(d, "a");
	look_token(d, "r");
	look_token(d, "later");
	look_token(d, "revoked");
	look_token(d, "nobody's");
	look_user(d, "bob");
	/* It is revoked, and that was seen, before the file is gone. */
	file_run(&f,
		"UPDATE tokens SET revoked = 1 WHERE user = 'bob' AND admin = 1; "
		"PRAGMA wal_checkpoint(TRUNCATE)");
	test_mono_us += 60 * S;
	cr_expect_str_eq(look_token(d, "revoked"), "unknown");
	swap(&f, true);
	test_mono_us += 3600 * S;
	/* Asked, and then not asked. */
	for (int i = 0; i < 2; i++) {
		cr_expect_str_eq(look_token(d, "a"), "alice/default, as it was");
		cr_expect_str_eq(look_token(d, "r"), "root/gold/admin, as it was");
		cr_expect_str_eq(look_token(d, "later"), "bob/gold, as it was");
		cr_expect_str_eq(look_user(d, "bob"), "bob/gold, as it was");
		cr_expect_str_eq(look_token(d, "nobody's"), "failed");
		cr_expect_str_eq(look_token(d, "never seen"), "failed");
		cr_expect_str_eq(look_token(d, "revoked"), "failed");
	}
	test_wall_us = (TEST_NOW_S + 5) * S;
	cr_expect_str_eq(look_token(d, "later"), "unknown", "it has expired");
	swap(&f, false);
	test_mono_us += S;
	cr_expect_str_eq(look_token(d, "a"), "alice/default");
	cr_expect_str_eq(look_token(d, "never seen"), "unknown", "revoked");
	directory_close(d);
	file_release(&f);
}

Test(directory, what_was_revoked_does_not_come_back_where_misses_are_not_kept)
{
	struct directory_file f;
	struct directory_options o;
	struct buf why = { 0 };
	struct directory *d;

	file_init(&f);
	file_add(&f, "alice", "default", "a", "admin = 1");
	o = file_options(&f);
	o.miss_ttl_ms = 0;
	d = directory_open(&o, &why);
	cr_assert(d, "%s", buf_str(&why));
	cr_expect_str_eq(look_token(d, "a"), "alice/default/admin");
	file_run(&f, "UPDATE tokens SET revoked = 1; PRAGMA wal_checkpoint(TRUNCATE)");
	test_mono_us += 60 * S;
	cr_expect_str_eq(look_token(d, "a"), "unknown");
	swap(&f, true);
	cr_expect_str_eq(look_token(d, "a"), "failed");
	directory_close(d);
	swap(&f, false);
	file_release(&f);
}

Test(directory, while_it_fails_it_is_asked_by_one_once_a_second)
{
	struct directory_file f;
	struct directory *d;

	d = with_alice(&f);
	cr_expect_str_eq(know_token(d, "a"), "?");
	cr_expect_str_eq(look_token(d, "a"), "alice/default");
	swap(&f, true);
	test_mono_us += 60 * S;
	cr_expect_str_eq(look_token(d, "a"), "alice/default, as it was");
	for (int i = 0; i < 3; i++) {
		test_mono_us += S - 1;
		cr_expect_str_eq(know_token(d, "a"), "alice/default, as it was");
		test_mono_us++;
		cr_expect_str_eq(know_token(d, "a"), "?", "one is to ask");
		cr_expect_str_eq(know_token(d, "a"), "alice/default, as it was");
		cr_expect_str_eq(know_token(d, "b"), "failed");
	}
	directory_close(d);
	swap(&f, false);
	file_release(&f);
}

Test(directory, damage_under_an_open_file_is_a_failure_and_no_crash)
{
	struct directory_file f;
	struct directory *d;
	char junk[4096];
	FILE *to;

	file_init(&f);
	file_add(&f, "alice", "default", "a", "");
	file_run(&f, "PRAGMA wal_checkpoint(TRUNCATE)");
	sqlite3_close(f.db);
	f.db = NULL;
	d = file_open(&f);
	memset(junk, 0xa5, sizeof(junk));
	to = fopen(f.path, "r+");
	cr_assert(to);
	for (int i = 0; i < 16; i++)
		fwrite(junk, 1, sizeof(junk), to);
	fclose(to);
	cr_expect_str_eq(look_token(d, "a"), "failed");
	cr_expect_str_eq(look_user(d, "alice"), "failed");
	directory_close(d);
	file_release(&f);
}

Test(directory, another_file_in_its_place_is_noticed)
{
	struct directory_file f, other;
	struct directory *d;

	file_init(&f);
	file_init(&other);
	file_add(&f, "alice", "default", "a", "");
	file_add(&other, "alice", "gold", "a", "");
	file_run(&other, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
	sqlite3_close(f.db);
	f.db = NULL;
	d = file_open(&f);
	cr_expect_str_eq(look_token(d, "a"), "alice/default");
	cr_assert_eq(rename(other.path, f.path), 0);
	test_mono_us += 60 * S;
	cr_expect_str_eq(look_token(d, "a"), "alice/gold");
	directory_close(d);
	file_release(&f);
	file_release(&other);
}

Test(directory, a_look_up_that_is_locked_out_ends_in_time)
{
	struct directory_file f;
	struct directory_options o;
	struct buf why = { 0 };
	struct directory *d;

	file_init(&f);
	file_add(&f, "alice", "default", "a", "");
	file_run(&f, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
	o = file_options(&f);
	o.wait_ms = 500;
	d = directory_open(&o, &why);
	cr_assert(d, "%s", buf_str(&why));
	file_run(&f, "BEGIN EXCLUSIVE");
	cr_expect_str_eq(look_token(d, "a"), "failed");
	file_run(&f, "COMMIT");
	test_mono_us += S;
	cr_expect_str_eq(look_token(d, "a"), "alice/default");
	directory_close(d);
	file_release(&f);
}

/* ---- Many at once ---- */

static void count_call(
	void *user, enum directory_result result, const struct directory_entry *e)
{
	unsigned *calls = user;

	cr_expect_eq(result, DIRECTORY_FOUND);
	cr_expect_str_eq(e->user, "alice");
	++*calls;
}

static void never(void *user, enum directory_result result, const struct directory_entry *e)
{
	(void)user;
	(void)result;
	(void)e;
	cr_assert_fail("a cancelled look-up was told");
}

Test(directory, a_cancelled_look_up_is_told_nobody)
{
	struct directory_ask *asks[20];
	unsigned told = 0;
	struct directory_file f;
	struct directory *d;
	uv_loop_t loop;

	d = with_alice(&f);
	cr_assert_eq(uv_loop_init(&loop), 0);
	for (size_t i = 0; i < COUNT_OF(asks); i++)
		asks[i] = directory_ask(d, &loop, DIRECTORY_BY_TOKEN, hash_of("a"),
			i % 2 ? never : count_call, &told);
	for (size_t i = 1; i < COUNT_OF(asks); i += 2)
		directory_ask_cancel(asks[i]);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_expect_eq(told, COUNT_OF(asks) / 2);
	cr_assert_eq(uv_loop_close(&loop), 0);
	directory_close(d);
	file_release(&f);
}

Test(directory, closing_waits_for_nobody_and_loses_nobody)
{
	unsigned told = 0;
	struct directory_file f;
	struct directory *d;
	uv_loop_t loop;

	d = with_alice(&f);
	cr_assert_eq(uv_loop_init(&loop), 0);
	for (int i = 0; i < 10; i++)
		cr_assert(directory_ask(
			d, &loop, DIRECTORY_BY_TOKEN, hash_of("a"), count_call, &told));
	directory_close(d);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_expect_eq(told, 10);
	cr_assert_eq(uv_loop_close(&loop), 0);
	file_release(&f);
}

#define MANY 5000

/* One loop that looks all tokens up, from its own start on, with 50 asks under way. */
struct worker {
	pthread_t thread;
	struct directory *d;
	uv_loop_t loop;
	unsigned from, next, found, unknown, wrong;
};

struct asked {
	struct worker *w;
	unsigned number;
};

static void ask_more(struct worker *w);

static void heard(struct worker *w, unsigned number, enum directory_result result,
	const struct directory_entry *e)
{
	char name[32];

	snprintf(name, sizeof(name), "u%u", number);
	if (result == DIRECTORY_UNKNOWN && number >= MANY)
		w->unknown++;
	else if (result == DIRECTORY_FOUND && number < MANY && strcmp(e->user, name) == 0)
		w->found++;
	else
		w->wrong++;
}

static void answered(
	void *user, enum directory_result result, const struct directory_entry *e)
{
	struct asked *a = user;
	struct worker *w = a->w;

	heard(w, a->number, result, e);
	free(a);
	ask_more(w);
}

/* A tenth of the numbers belongs to nobody. */
static void ask_more(struct worker *w)
{
	while (w->next < MANY + MANY / 10) {
		struct asked *a = malloc(sizeof(*a));
		enum directory_result result;
		struct directory_entry e;
		unsigned char hash[DIRECTORY_HASH_BYTES] = { 0 };
		unsigned number = (w->from + w->next++) % (MANY + MANY / 10);
		struct view key = view_of((const char *)hash, sizeof(hash));

		memcpy(hash, &number, sizeof(number));
		*a = (struct asked){ w, number };
		if (!directory_know(w->d, DIRECTORY_BY_TOKEN, key, &result, &e)) {
			cr_assert(directory_ask(
				w->d, &w->loop, DIRECTORY_BY_TOKEN, key, answered, a));
			return;
		}
		heard(w, number, result, &e);
		free(a);
	}
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < 50; i++)
		ask_more(w);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	return NULL;
}

Test(directory, many_workers_find_each_of_many_tokens)
{
	struct worker workers[3];
	struct directory_file f;
	struct directory_options o;
	struct buf why = { 0 };
	sqlite3_stmt *s;

	file_init(&f);
	file_run(&f,
		"BEGIN; WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n "
		"WHERE i < 4999) INSERT INTO users (name) SELECT 'u' || i FROM n");
	cr_assert_eq(sqlite3_prepare_v2(f.db,
			     "INSERT INTO tokens (user, hash) VALUES "
			     "('u' || ?1, ?2)",
			     -1, &s, NULL),
		SQLITE_OK);
	for (unsigned i = 0; i < MANY; i++) {
		unsigned char hash[DIRECTORY_HASH_BYTES] = { 0 };

		memcpy(hash, &i, sizeof(i));
		sqlite3_bind_int64(s, 1, i);
		sqlite3_bind_blob(s, 2, hash, sizeof(hash), SQLITE_STATIC);
		cr_assert_eq(sqlite3_step(s), SQLITE_DONE);
		sqlite3_reset(s);
	}
	sqlite3_finalize(s);
	file_run(&f, "COMMIT");
	o = file_options(&f);
	o.cache_entries = MANY / 2; /* room is made all the time */
	o.wait_ms = 30000;
	for (size_t i = 0; i < COUNT_OF(workers); i++) {
		workers[i] = (struct worker){ .from = (unsigned)i * 1777 };
		workers[i].d = i ? workers[0].d : directory_open(&o, &why);
		cr_assert(workers[i].d, "%s", buf_str(&why));
		cr_assert_eq(uv_loop_init(&workers[i].loop), 0);
	}
	for (size_t i = 0; i < COUNT_OF(workers); i++)
		pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]);
	for (size_t i = 0; i < COUNT_OF(workers); i++) {
		pthread_join(workers[i].thread, NULL);
		cr_expect_eq(workers[i].found, MANY);
		cr_expect_eq(workers[i].unknown, MANY / 10);
		cr_expect_eq(workers[i].wrong, 0);
		cr_assert_eq(uv_loop_close(&workers[i].loop), 0);
	}
	directory_close(workers[0].d);
	file_release(&f);
}
