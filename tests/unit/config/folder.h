/*
 * folder.h - a folder with a configuration in it: one for each test, which is a process
 * of its own.
 *
 *	TestSuite(NAME, .init = enter_folder, .fini = leave_folder);
 */
#ifndef WEIR_TESTS_UNIT_CONFIG_FOLDER_H
#define WEIR_TESTS_UNIT_CONFIG_FOLDER_H

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

#define MAIN "weir.ini"

static char folder[] = "/tmp/weir-reload-XXXXXX";

static inline void enter_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
	cr_assert_eq(mkdir("endpoints.d", 0755), 0);
}

static inline int remove_one(
	const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void leave_folder(void)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A NULL text removes the file. */
static inline void put(const char *file, const char *text)
{
	FILE *f;

	if (!text) {
		unlink(file);
		return;
	}
	f = fopen(file, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	cr_assert_eq(fclose(f), 0);
}

#define MANY "sites/*/weir.ini"

/* Writes a MAIN that finds its endpoints by these; second may be NULL. */
static inline void put_patterns(const char *first, const char *second)
{
	struct buf text = { 0 };

	buf_addf(&text, "[server]\nendpoints = %s\n", first);
	if (second)
		buf_addf(&text, "endpoints = %s\n", second);
	put(MAIN, buf_str(&text));
	buf_release(&text);
}

/* What MANY finds: endpoints b and c, each in a directory of its own. */
static inline void put_sites(void)
{
	mkdir("sites", 0755);
	mkdir("sites/b", 0755);
	mkdir("sites/c", 0755);
	put("sites/b/weir.ini", "[endpoint b]\nmatch = GET /b\n@RateLimit = type=ip\n");
	put("sites/c/weir.ini", "[endpoint c]\nmatch = GET /c\n@RateLimit = type=ip\n");
}

/* Reads MAIN, which has no mistake in it. */
static inline struct config *load(void)
{
	struct buf told = { 0 };
	struct config *c = NULL;

	cr_assert(config_load(MAIN, &c, &told), "%s", buf_str(&told));
	buf_release(&told);
	return c;
}

#endif
