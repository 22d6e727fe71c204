/*
 * client/schema.h - the directory's tables and how a file gets them.
 *
 * The migrations are the files in sql/directory, compiled in. A file's version is its
 * user_version, the number of the last migration that was run on it; its application_id
 * says that it is a directory of ours. For weirctl, which writes, and for tests; weir
 * itself only looks at the version.
 */
#ifndef WEIR_CLIENT_SCHEMA_H
#define WEIR_CLIENT_SCHEMA_H

#include <sqlite3.h>

#include "base/buf.h"

/* "weir" */
#define SCHEMA_APPLICATION_ID 0x77656972

/* Longest user and plan, in bytes. */
#define SCHEMA_USER_MAX 255
#define SCHEMA_PLAN_MAX 64

/* The version this program knows. */
int schema_newest(void);

enum schema_state {
	SCHEMA_CURRENT,
	SCHEMA_OLD,     /* a migration is to be run */
	SCHEMA_NEW,     /* made by a newer program */
	SCHEMA_EMPTY,   /* no tables at all */
	SCHEMA_FOREIGN, /* somebody else's tables */
	SCHEMA_BROKEN,  /* cannot be read; sqlite3_errmsg(db) says why */
};

/* What the file is; its version goes to *version (0 unless it is a directory). */
enum schema_state schema_look(sqlite3 *db, int *version);

/* Runs what is missing on an empty or old file, each migration whole or not at all, and
 * switches to WAL, so that weir reads while weirctl writes. False with a sentence in
 * why. */
bool schema_migrate(sqlite3 *db, struct buf *why);

#endif
