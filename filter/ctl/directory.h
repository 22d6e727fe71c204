/*
 * ctl/directory.h - what db, plan, token and user have in common.
 *
 * Each of these commands is a table of verbs. A verb runs with the directory open for
 * writing, or opens it itself, and prints either a line for people or JSON.
 */
#ifndef WEIR_CTL_DIRECTORY_H
#define WEIR_CTL_DIRECTORY_H

#include <jansson.h>
#include <sqlite3.h>

#include "ctl/ctl.h"

/* A verb that is run. Everything is borrowed from the command line. */
struct job {
	struct ctl *ctl;
	const char *command;
	const struct verb *verb;
	char **operands;
	int n_operands;
	/* Own options; NULL when not given. */
	const char *label, *expires, *user, *plan, *description;
	bool admin;

	char *path; /* of the directory */
	sqlite3 *db;
	int64_t now_s;
};

enum verb_flag {
	VERB_OPENS = 1, /* it opens the directory itself */
};

struct verb {
	const char *name;
	const char *operands; /* "USER [--label TEXT]", for the usage */
	int min, max;         /* how many operands */
	const char *options;  /* letters of own options: l e u p d a */
	int (*run)(struct job *j);
	unsigned flags;
};

/* Reads the command line and runs the verb in it. */
int directory_command(
	struct ctl *ctl, int argc, char **argv, const struct verb *verbs, size_t n);

/* "weirctl: ..." on standard error; gives CTL_FAILED. */
int job_fail(const struct job *j, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The same for what SQLite says. */
int job_fail_db(const struct job *j);

/* Sets j->path: the argument, else --db, else what the configuration says. */
bool job_find_path(struct job *j, const char *given);
/* Opens j->path, with SQLITE_OPEN_... flags. */
bool job_open(struct job *j, int flags);

/* A statement with its parameters bound: s a C string or NULL, i an int64_t, b a view
 * (as a blob). NULL after job_fail_db(). Finalize it. */
sqlite3_stmt *job_prepare(struct job *j, const char *sql, const char *types, ...);
/* Runs one that returns nothing. False after job_fail_db(). *changes may be NULL. */
bool job_run(struct job *j, int *changes, const char *sql, const char *types, ...);
/* Whether there is a row. -1 after job_fail_db(). */
int job_exists(struct job *j, const char *sql, const char *name);

/* Both take the reference, and NULL for lack of memory. Prints text and a newline, or the
 * object where --json is given. */
int job_print(struct job *j, json_t *object, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

enum column_kind {
	COLUMN_TEXT, /* or a number */
	COLUMN_TIME, /* seconds since 1970, or null */
	COLUMN_FLAG,
};
struct column {
	const char *key; /* in the object, and the column's title */
	enum column_kind kind;
};
/* The rows of a query as objects, one a row, whose members are the columns. Prints them as
 * a table or as an array. */
int job_list(struct job *j, sqlite3_stmt *s, const struct column *columns, size_t n);

/* "2026-01-31 12:00 UTC"; "" when it is no time. */
void job_put_time(struct buf *out, int64_t seconds);

#endif
