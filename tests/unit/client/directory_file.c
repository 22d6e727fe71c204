#include "directory_file.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/schema.h"

int64_t test_mono_us = 1000 * S, test_wall_us = TEST_NOW_S * S;

static int64_t mono_us(void)
{
	return test_mono_us;
}

static int64_t wall_us(void)
{
	return test_wall_us;
}

void file_init_bare(struct directory_file *f)
{
	*f = (struct directory_file){ 0 };
	snprintf(f->folder, sizeof(f->folder), "/tmp/weir-directory-XXXXXX");
	cr_assert(mkdtemp(f->folder));
	snprintf(f->path, sizeof(f->path), "%s/weir.db", f->folder);
}

void file_init(struct directory_file *f)
{
	struct buf why = { 0 };

	file_init_bare(f);
	cr_assert_eq(sqlite3_open(f->path, &f->db), SQLITE_OK);
	cr_assert(schema_migrate(f->db, &why), "%s", buf_str(&why));
	buf_release(&why);
}

void file_release(struct directory_file *f)
{
	static const char *const behind[] = { "", "-wal", "-shm", "-journal", ".new" };
	char path[128];

	sqlite3_close(f->db);
	for (size_t i = 0; i < COUNT_OF(behind); i++) {
		snprintf(path, sizeof(path), "%s%s", f->path, behind[i]);
		unlink(path);
	}
	cr_expect_eq(rmdir(f->folder), 0, "%s is not empty", f->folder);
}

void file_run(struct directory_file *f, const char *sql)
{
	char *why = NULL;

	cr_assert_eq(
		sqlite3_exec(f->db, sql, NULL, NULL, &why), SQLITE_OK, "%s: %s", sql, why);
}

void file_add(struct directory_file *f, const char *user, const char *plan,
	const char *token, const char *more)
{
	struct view hash = hash_of(token);
	char hex[2 * DIRECTORY_HASH_BYTES + 1];
	struct buf sql = { 0 };

	sodium_bin2hex(hex, sizeof(hex), (const unsigned char *)hash.p, hash.n);
	buf_addf(&sql,
		"INSERT OR IGNORE INTO plans (name) VALUES ('%s');"
		"INSERT OR IGNORE INTO users (name, plan) VALUES ('%s', '%s');"
		"INSERT INTO tokens (user, hash) VALUES ('%s', x'%s');",
		plan, user, plan, user, hex);
	if (*more)
		buf_addf(&sql, "UPDATE tokens SET %s WHERE hash = x'%s'", more, hex);
	file_run(f, buf_str(&sql));
	buf_release(&sql);
}

void file_write(const char *path, const char *bytes)
{
	FILE *to = fopen(path, "w");

	cr_assert(to);
	fputs(bytes, to);
	cr_assert_eq(fclose(to), 0);
}

struct directory_options file_options(const struct directory_file *f)
{
	return (struct directory_options){
		.path = f->path,
		.query = "",
		.ttl_ms = 60000,
		.miss_ttl_ms = 10000,
		.cache_entries = 100,
		.mono_us = mono_us,
		.wall_us = wall_us,
	};
}

struct directory *file_open(const struct directory_file *f)
{
	struct directory_options o = file_options(f);
	struct buf why = { 0 };
	struct directory *d = directory_open(&o, &why);

	cr_assert(d, "%s", buf_str(&why));
	cr_assert_eq(why.n, 0);
	buf_release(&why);
	return d;
}

struct view hash_of(const char *token)
{
	static unsigned char hashes[2][DIRECTORY_HASH_BYTES];
	static unsigned turn;
	unsigned char *hash = hashes[turn++ % 2];

	crypto_hash_sha256(hash, (const unsigned char *)token, strlen(token));
	return view_of((const char *)hash, DIRECTORY_HASH_BYTES);
}

static char said[2 * CLIENT_NAME_MAX + 32];

static void say(void *user, enum directory_result result, const struct directory_entry *e)
{
	(void)user;
	if (result == DIRECTORY_FOUND || result == DIRECTORY_STALE)
		snprintf(said, sizeof(said), "%s/%s%s%s", e->user, e->plan,
			e->admin ? "/admin" : "",
			result == DIRECTORY_STALE ? ", as it was" : "");
	else
		snprintf(said, sizeof(said), "%s",
			result == DIRECTORY_UNKNOWN ? "unknown" : "failed");
}

static const char *know(struct directory *d, enum directory_by by, struct view key)
{
	struct directory_entry e;
	enum directory_result result;

	snprintf(said, sizeof(said), "?");
	if (directory_know(d, by, key, &result, &e))
		say(NULL, result, &e);
	return said;
}

static const char *look(struct directory *d, enum directory_by by, struct view key)
{
	uv_loop_t loop;

	if (*know(d, by, key) != '?')
		return said;
	cr_assert_eq(uv_loop_init(&loop), 0);
	cr_assert(directory_ask(d, &loop, by, key, say, NULL));
	cr_assert_str_eq(said, "?", "told before it returned");
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0);
	return said;
}

const char *look_token(struct directory *d, const char *token)
{
	return look(d, DIRECTORY_BY_TOKEN, hash_of(token));
}

const char *look_user(struct directory *d, const char *user)
{
	return look(d, DIRECTORY_BY_USER, view_str(user));
}

const char *know_token(struct directory *d, const char *token)
{
	return know(d, DIRECTORY_BY_TOKEN, hash_of(token));
}
