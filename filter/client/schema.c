#include "client/schema.h"

#include <stdio.h>

struct migration {
	const char *name, *sql;
};

#include "schema.sql.h" /* migrations, made from sql/directory by sql/embed.sh */

int schema_newest(void)
{
	return (int)COUNT_OF(migrations);
}

/* The first column of the first row as a number. */
static bool read_number(sqlite3 *db, const char *sql, int *out)
{
	sqlite3_stmt *s = NULL;
	bool ok = sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK &&
		sqlite3_step(s) == SQLITE_ROW;

	if (ok)
		*out = sqlite3_column_int(s, 0);
	sqlite3_finalize(s);
	return ok;
}

enum schema_state schema_look(sqlite3 *db, int *version)
{
	int id = 0, tables = 0, found = 0;

	*version = 0;
	if (!read_number(db, "PRAGMA application_id", &id) ||
		!read_number(db, "PRAGMA user_version", &found) ||
		!read_number(db, "SELECT count(*) FROM sqlite_schema", &tables))
		return SCHEMA_BROKEN;
	if (tables == 0 && (id == 0 || id == SCHEMA_APPLICATION_ID))
		return SCHEMA_EMPTY;
	if (id != SCHEMA_APPLICATION_ID)
		return SCHEMA_FOREIGN;
	*version = found;
	if (found == schema_newest())
		return SCHEMA_CURRENT;
	return found < schema_newest() ? SCHEMA_OLD : SCHEMA_NEW;
}

static bool run(sqlite3 *db, const char *sql)
{
	return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* Another weirctl may have been faster: the version is read again under the lock. */
static bool run_next(sqlite3 *db, int *version, struct buf *why)
{
	enum schema_state state;
	char pragmas[96];

	if (!run(db, "BEGIN IMMEDIATE")) {
		buf_addf(why, "it cannot be locked for writing: %s", sqlite3_errmsg(db));
		return false;
	}
	state = schema_look(db, version);
	if (state != SCHEMA_OLD && state != SCHEMA_EMPTY)
		return run(db, "ROLLBACK");
	snprintf(pragmas, sizeof(pragmas),
		"PRAGMA application_id = %d; PRAGMA user_version = %d",
		SCHEMA_APPLICATION_ID, *version + 1);
	if (run(db, migrations[*version].sql) && run(db, pragmas) && run(db, "COMMIT"))
		return true;
	buf_addf(why, "migration %s failed: %s", migrations[*version].name,
		sqlite3_errmsg(db));
	run(db, "ROLLBACK");
	return false;
}

/* Not possible inside a transaction, and kept by the file. */
static bool switch_to_wal(sqlite3 *db, struct buf *why)
{
	if (run(db, "PRAGMA journal_mode = WAL"))
		return true;
	buf_addf(why, "it cannot be written: %s", sqlite3_errmsg(db));
	return false;
}

bool schema_migrate(sqlite3 *db, struct buf *why)
{
	for (;;) {
		int version;

		switch (schema_look(db, &version)) {
		case SCHEMA_EMPTY:
			if (!switch_to_wal(db, why) || !run_next(db, &version, why))
				return false;
			break;
		case SCHEMA_OLD:
			if (!run_next(db, &version, why))
				return false;
			break;
		case SCHEMA_CURRENT: return true;
		case SCHEMA_NEW:
			buf_addf(why,
				"it has version %d and this program knows version %d: a "
				"newer weirctl made it",
				version, schema_newest());
			return false;
		case SCHEMA_FOREIGN:
			buf_add_str(why,
				"it holds tables that are not weir's; choose another file, "
				"or let weir read these with directory_query");
			return false;
		case SCHEMA_BROKEN:
			buf_addf(why, "it cannot be read: %s", sqlite3_errmsg(db));
			return false;
		}
	}
}
