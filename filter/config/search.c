/*
 * config/search.c - the files that a pattern finds.
 *
 * A directory that cannot be looked into may hold limits, so it must not pass for an
 * empty one. glob() tells only what it cannot open: where a name without wildcards lies
 * in a directory that weir may not enter, and where reading a directory breaks off, it
 * goes on as if nothing were there. So it looks through functions that keep the error.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <sys/stat.h>

#include "config/load.h"

/* glob() has no place for a pointer of ours. */
static _Thread_local struct {
	int err;
	struct buf *where; /* what is looked at, or what err was met at */
} search;

static void look_at(const char *path)
{
	if (search.err)
		return;
	buf_reset(search.where);
	buf_add_str(search.where, path);
}

/* What is not there has no files in it. */
static bool is_absence(int err)
{
	return err == ENOENT || err == ENOTDIR;
}

static void keep_error(int err)
{
	if (!search.err && !is_absence(err))
		search.err = err;
}

static int on_error(const char *path, int err)
{
	(void)path; /* open_directory() has seen it */
	keep_error(err);
	return !is_absence(err);
}

static void *open_directory(const char *path)
{
	look_at(path);
	return opendir(path);
}

static struct dirent *read_directory(void *dir)
{
	struct dirent *entry;

	errno = 0;
	entry = readdir(dir);
	if (!entry)
		keep_error(errno);
	return entry;
}

static void close_directory(void *dir)
{
	closedir(dir);
}

static int noted(int rc)
{
	if (rc < 0)
		keep_error(errno);
	return rc;
}

static int look_at_link(const char *restrict path, struct stat *restrict st)
{
	look_at(path);
	return noted(lstat(path, st));
}

/* Of a link, whether it leads to a directory. */
static int look_behind_link(const char *restrict path, struct stat *restrict st)
{
	look_at(path);
	return noted(stat(path, st));
}

/* The pattern as glob() is to see it: relative to the directory of weir.ini, in which
 * no byte is special. */
static bool full_pattern(const char *main_file, const char *pattern, struct buf *out)
{
	const char *slash = strrchr(main_file, '/');

	if (pattern[0] != '/') {
		for (const char *p = main_file; slash && p <= slash; p++) {
			if (strchr("*?[\\", *p))
				buf_add_byte(out, '\\');
			buf_add_byte(out, *p);
		}
	}
	buf_add_str(out, pattern);
	return buf_str(out) != NULL;
}

int load_search(
	const char *main_file, const char *pattern, glob_t *found, struct buf *where)
{
	struct buf full = { 0 };
	int err = 0;

	*found = (glob_t){ .gl_opendir = open_directory,
		.gl_readdir = read_directory,
		.gl_closedir = close_directory,
		.gl_lstat = look_at_link,
		.gl_stat = look_behind_link };
	search.err = 0;
	search.where = where;
	if (!full_pattern(main_file, pattern, &full) ||
		glob(full.p, GLOB_NOSORT | GLOB_ALTDIRFUNC, on_error, found) ==
			GLOB_NOSPACE)
		err = ENOMEM;
	else
		err = search.err;
	search.where = NULL;
	buf_release(&full);
	return err;
}
