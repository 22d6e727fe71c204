#include "client/reader.h"

#include <errno.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/schema.h"

struct reader {
	sqlite3 *db;
	sqlite3_stmt *by_token;
	sqlite3_stmt *by_user; /* NULL with a query of the operator's */
	bool own_schema;
	char *path;
	dev_t device;
	ino_t inode;
};

/* The columns of by_token; the last two are in our schema's only. */
enum token_column {
	TOKEN_USER,
	TOKEN_PLAN,
	TOKEN_ADMIN,
	TOKEN_EXPIRES,
	TOKEN_HASH,
};

static const char token_sql[] =
	"SELECT t.user, u.plan, t.admin, t.expires, t.hash "
	"FROM tokens AS t JOIN users AS u ON u.name = t.user "
	"WHERE t.hash = ?1 AND t.revoked IS NULL AND u.disabled IS NULL";

static const char user_sql[] =
	"SELECT name, plan FROM users WHERE name = ?1 AND disabled IS NULL";

void reader_free(struct reader *r)
{
	if (!r)
		return;
	sqlite3_finalize(r->by_token);
	sqlite3_finalize(r->by_user);
	sqlite3_close(r->db);
	free(r->path);
	free(r);
}

static bool prepare(
	struct reader *r, const char *sql, sqlite3_stmt **out, const char **tail)
{
	return sqlite3_prepare_v3(r->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, tail) ==
		SQLITE_OK;
}

/* A file in WAL mode is read through two others, which whoever may not write the folder
 * cannot make. */
static void put_broken(struct reader *r, struct buf *why)
{
	int err = sqlite3_errcode(r->db);

	buf_addf(why, "cannot be read: %s", sqlite3_errmsg(r->db));
	if (err == SQLITE_READONLY || err == SQLITE_CANTOPEN)
		buf_addf(why,
			"; %s-wal and -shm are missing or closed to weir, and \"weirctl "
			"user "
			"list\" makes them",
			r->path);
}

static bool prepare_own(struct reader *r, struct buf *why)
{
	int version;

	switch (schema_look(r->db, &version)) {
	case SCHEMA_CURRENT: break;
	case SCHEMA_OLD:
		buf_addf(why,
			"has version %d of the schema, and %d is needed; run \"weirctl "
			"db migrate\"",
			version, schema_newest());
		return false;
	case SCHEMA_NEW:
		buf_addf(why,
			"has version %d of the schema, and this weir knows version %d; "
			"run the weir that belongs to it",
			version, schema_newest());
		return false;
	case SCHEMA_EMPTY:
		buf_add_str(why, "has no tables; remove it and run \"weirctl db init\"");
		return false;
	case SCHEMA_FOREIGN:
		buf_add_str(why,
			"does not hold weir's tables; run \"weirctl db init\" for another "
			"file, or say in directory_query how this one is read");
		return false;
	case SCHEMA_BROKEN: put_broken(r, why); return false;
	}
	if (prepare(r, token_sql, &r->by_token, NULL) &&
		prepare(r, user_sql, &r->by_user, NULL))
		return true;
	buf_addf(why, "has damaged tables: %s", sqlite3_errmsg(r->db));
	return false;
}

static bool prepare_query(struct reader *r, const char *query, struct buf *why)
{
	static const char form[] =
		"directory_query is one SELECT with one ? that returns user and plan, and "
		"perhaps admin";
	const char *tail = "";

	if (!prepare(r, query, &r->by_token, &tail)) {
		buf_addf(why, "does not take directory_query: %s", sqlite3_errmsg(r->db));
		return false;
	}
	tail += strspn(tail, " \t\r\n;");
	if (!r->by_token || *tail || !sqlite3_stmt_readonly(r->by_token))
		buf_addf(why, "is asked something else: %s", form);
	else if (sqlite3_bind_parameter_count(r->by_token) != 1)
		buf_addf(why, "is asked with %d parameters: %s",
			sqlite3_bind_parameter_count(r->by_token), form);
	else if (sqlite3_column_count(r->by_token) != TOKEN_PLAN + 1 &&
		sqlite3_column_count(r->by_token) != TOKEN_ADMIN + 1)
		buf_addf(why, "is asked for %d columns: %s",
			sqlite3_column_count(r->by_token), form);
	else
		return true;
	return false;
}

/* What SQLite says of a path is the same for most mistakes; the system says it better. */
static bool look_at_file(struct reader *r, enum reader_fault *fault, struct buf *why)
{
	struct stat st;

	if (stat(r->path, &st) < 0) {
		buf_addf(why, "cannot be read: %s%s", strerror(errno),
			errno == ENOENT && r->own_schema ? "; \"weirctl db init\" makes it"
							 : "");
		if (errno != ENOENT && errno != ENOTDIR)
			*fault = READER_HINDERED;
		return false;
	}
	if (!S_ISREG(st.st_mode)) {
		buf_add_str(why, "is no file");
		return false;
	}
	if (access(r->path, R_OK) < 0) {
		buf_addf(why, "cannot be read: %s", strerror(errno));
		*fault = READER_HINDERED;
		return false;
	}
	r->device = st.st_dev;
	r->inode = st.st_ino;
	return true;
}

/* Whether another user, or the same one in a while, could read what SQLite could not. */
static bool is_hindrance(int err)
{
	switch (err & 0xff) {
	case SQLITE_PERM:
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY: /* of -wal and -shm, which are missing */
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_PROTOCOL:
	case SQLITE_IOERR:
	case SQLITE_NOMEM: return true;
	default: return false;
	}
}

struct reader *reader_open(const char *path, const char *query, int busy_ms,
	enum reader_fault *fault, struct buf *why)
{
	struct reader *r = calloc(1, sizeof(*r));
	enum reader_fault ignored;
	struct buf what = { 0 };
	bool ok = false;

	if (!fault)
		fault = &ignored;
	*fault = READER_UNFIT;
	if (!r || !(r->path = strdup(path))) {
		buf_add_str(&what, "finds no memory");
		*fault = READER_HINDERED;
		goto out;
	}
	r->own_schema = !*query;
	if (!look_at_file(r, fault, &what))
		goto out;
	if (sqlite3_open_v2(path, &r->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX,
		    NULL) != SQLITE_OK) {
		buf_addf(&what, "cannot be opened: %s",
			r->db ? sqlite3_errmsg(r->db) : "out of memory");
		goto out;
	}
	sqlite3_busy_timeout(r->db, busy_ms);
	ok = r->own_schema ? prepare_own(r, &what) : prepare_query(r, query, &what);
out:
	if (!ok) {
		if (r && r->db && is_hindrance(sqlite3_errcode(r->db)))
			*fault = READER_HINDERED;
		buf_addf(why, "the directory %s %.*s", path, VIEW_ARG(buf_view(&what)));
		reader_free(r);
		r = NULL;
	}
	buf_release(&what);
	return r;
}

bool reader_is_current(const struct reader *r)
{
	struct stat st;

	return stat(r->path, &st) == 0 && st.st_dev == r->device && st.st_ino == r->inode;
}

static struct view column(sqlite3_stmt *s, int i)
{
	const char *text = (const char *)sqlite3_column_text(s, i);

	return view_of(text, text ? (size_t)sqlite3_column_bytes(s, i) : 0);
}

bool reader_plans(struct reader *r, struct buf *out)
{
	sqlite3_stmt *s = NULL;
	int step = SQLITE_ERROR;

	if (sqlite3_prepare_v2(r->db, "SELECT name FROM plans ORDER BY name", -1, &s,
		    NULL) == SQLITE_OK)
		while ((step = sqlite3_step(s)) == SQLITE_ROW) {
			buf_add(out, column(s, 0));
			buf_add_byte(out, '\n');
		}
	sqlite3_finalize(s);
	return step == SQLITE_DONE;
}

const char *reader_error(const struct reader *r)
{
	return sqlite3_errmsg(r->db);
}

static bool same_hash(sqlite3_stmt *s, struct view hash)
{
	const void *found = sqlite3_column_blob(s, TOKEN_HASH);

	return found && (size_t)sqlite3_column_bytes(s, TOKEN_HASH) == hash.n &&
		sodium_memcmp(found, hash.p, hash.n) == 0;
}

static bool take_row(struct reader *r, sqlite3_stmt *s, enum directory_by by,
	struct view key, struct found *out)
{
	struct view user = column(s, TOKEN_USER), plan = column(s, TOKEN_PLAN);

	if (user.n == 0)
		return false;
	name_put(out->entry.user, user);
	name_put(out->entry.plan, plan.n ? plan : VIEW("default"));
	out->entry.admin = false;
	out->expires_s = INT64_MAX;
	if (by == DIRECTORY_BY_USER)
		return true;
	if (sqlite3_column_count(s) > TOKEN_ADMIN)
		out->entry.admin = sqlite3_column_int(s, TOKEN_ADMIN) == 1;
	if (!r->own_schema)
		return true;
	if (sqlite3_column_type(s, TOKEN_EXPIRES) != SQLITE_NULL)
		out->expires_s = sqlite3_column_int64(s, TOKEN_EXPIRES);
	return same_hash(s, key);
}

enum directory_result reader_look(
	struct reader *r, enum directory_by by, struct view key, struct found *out)
{
	sqlite3_stmt *s = by == DIRECTORY_BY_TOKEN ? r->by_token : r->by_user;
	enum directory_result result = DIRECTORY_FAILED;
	int bound;

	if (!s)
		return DIRECTORY_UNKNOWN;
	if (by == DIRECTORY_BY_TOKEN)
		bound = sqlite3_bind_blob64(s, 1, key.p, key.n, SQLITE_STATIC);
	else
		bound = sqlite3_bind_text64(s, 1, key.p, key.n, SQLITE_STATIC, SQLITE_UTF8);
	if (bound != SQLITE_OK)
		goto out;
	switch (sqlite3_step(s)) {
	case SQLITE_ROW:
		result = take_row(r, s, by, key, out) ? DIRECTORY_FOUND : DIRECTORY_UNKNOWN;
		/* A column that found no memory reads like one that is empty. */
		if (sqlite3_errcode(r->db) == SQLITE_NOMEM)
			result = DIRECTORY_FAILED;
		break;
	case SQLITE_DONE: result = DIRECTORY_UNKNOWN; break;
	default: break;
	}
out:
	sqlite3_reset(s);
	sqlite3_clear_bindings(s);
	return result;
}
