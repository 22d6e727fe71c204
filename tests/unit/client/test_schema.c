#include "directory_file.h"

#include "client/schema.h"

Test(schema, is_made_once_and_then_left_alone)
{
	struct directory_file f;
	struct buf why = { 0 };
	int version;

	file_init(&f);
	cr_expect_eq(schema_look(f.db, &version), SCHEMA_CURRENT);
	cr_expect_eq(version, schema_newest());
	file_add(&f, "alice", "default", "a", "");
	cr_expect(schema_migrate(f.db, &why));
	cr_expect_eq(why.n, 0);
	file_add(&f, "alice", "default", "b", "");
	file_release(&f);
}

Test(schema, does_not_touch_what_is_not_its_own)
{
	static const struct {
		const char *sql;
		enum schema_state state;
		const char *sentence;
	} rows[] = {
		{ "CREATE TABLE users (x)", SCHEMA_FOREIGN, "tables that are not weir's" },
		{ "CREATE TABLE x (x); PRAGMA application_id = 7", SCHEMA_FOREIGN,
			"tables that are not weir's" },
		{ "PRAGMA application_id = 7", SCHEMA_FOREIGN,
			"tables that are not weir's" },
		{ "CREATE TABLE x (x); PRAGMA application_id = 0x77656972; "
		  "PRAGMA user_version = 99",
			SCHEMA_NEW, "a newer weirctl made it" },
		/* An old file whose migration does not fit: nothing of it stays. */
		{ "CREATE TABLE tokens (x); PRAGMA application_id = 0x77656972", SCHEMA_OLD,
			"migration 001_users_and_tokens.sql failed" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct directory_file f;
		struct buf why = { 0 };
		int version;

		file_init_bare(&f);
		cr_assert_eq(sqlite3_open(f.path, &f.db), SQLITE_OK);
		file_run(&f, rows[i].sql);
		cr_expect_eq(schema_look(f.db, &version), rows[i].state, "row %zu", i);
		cr_expect(!schema_migrate(f.db, &why));
		cr_expect(strstr(buf_str(&why), rows[i].sentence), "row %zu: %s", i,
			buf_str(&why));
		cr_expect_eq(schema_look(f.db, &version), rows[i].state, "row %zu", i);
		cr_expect_neq(sqlite3_exec(f.db, "SELECT * FROM plans", NULL, NULL, NULL),
			SQLITE_OK);
		buf_release(&why);
		file_release(&f);
	}
}

Test(schema, takes_no_rows_that_make_no_sense)
{
	static const char *const rows[] = {
		"INSERT INTO tokens (user, hash) VALUES ('alice', 'plain text')",
		"INSERT INTO tokens (user, hash) VALUES ('alice', zeroblob(31))",
		"INSERT INTO tokens (user, hash) VALUES ('nobody', zeroblob(32))",
		"INSERT INTO tokens (user, hash, admin) VALUES ('alice', zeroblob(32), 2)",
		"UPDATE tokens SET expires = 'tomorrow'",
		"INSERT INTO users (name) VALUES ('alice')",
		"INSERT INTO users (name) VALUES ('')",
		"INSERT INTO users (name, plan) VALUES ('bob', 'nowhere')",
		"DELETE FROM plans WHERE name = 'default'",
	};
	struct directory_file f;

	file_init(&f);
	file_run(&f, "PRAGMA foreign_keys = ON");
	file_add(&f, "alice", "default", "a", "");
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_neq(sqlite3_exec(f.db, rows[i], NULL, NULL, NULL), SQLITE_OK,
			"%s", rows[i]);
	file_run(&f, "INSERT INTO tokens (user, hash) VALUES ('alice', zeroblob(32))");
	file_run(&f, "DELETE FROM users WHERE name = 'alice'");
	cr_expect_neq(sqlite3_exec(f.db,
			      "INSERT INTO tokens (user, hash) VALUES ('alice', "
			      "zeroblob(32))",
			      NULL, NULL, NULL),
		SQLITE_OK, "tokens go with their user");
	file_release(&f);
}
