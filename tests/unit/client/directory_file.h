/*
 * directory_file.h - a directory in a folder of its own, to look things up in.
 *
 * Time stands still until a test moves it: test_mono_us and test_wall_us are what the
 * directory believes.
 */
#ifndef WEIR_TESTS_DIRECTORY_FILE_H
#define WEIR_TESTS_DIRECTORY_FILE_H

#include <criterion/criterion.h>
#include <sqlite3.h>

#include "client/directory.h"

#define S          INT64_C(1000000)
#define TEST_NOW_S INT64_C(1900000000)

extern int64_t test_mono_us, test_wall_us;

struct directory_file {
	char folder[64];
	char path[96];
	sqlite3 *db; /* for writing; NULL unless opened */
};

/* A folder with an empty directory in it, whose db is open; _bare has no file yet. */
void file_init(struct directory_file *f);
void file_init_bare(struct directory_file *f);
void file_release(struct directory_file *f);

void file_run(struct directory_file *f, const char *sql);
/* Adds the token TEXT of user, which is made when it is not there, on plan. more is SQL
 * for further columns: "admin = 1, expires = 5", or "". */
void file_add(struct directory_file *f, const char *user, const char *plan,
	const char *token, const char *more);
/* Writes bytes to path, whatever was there. */
void file_write(const char *path, const char *bytes);

/* The options most tests use: TTL 60 s, misses 10 s, the clocks above. */
struct directory_options file_options(const struct directory_file *f);
/* Opens with them. */
struct directory *file_open(const struct directory_file *f);

/* The SHA-256 of a token, in a buffer that the second next call reuses. */
struct view hash_of(const char *token);

/* What directory_know() says and, when it says nothing, what directory_ask() does:
 * "alice/default", "alice/gold/admin", "unknown", "failed"; "alice/default, as it was" when
 * it fails and said so last. */
const char *look_token(struct directory *d, const char *token);
const char *look_user(struct directory *d, const char *user);
/* Only what is known without asking; "?" when that is nothing. */
const char *know_token(struct directory *d, const char *token);

#endif
