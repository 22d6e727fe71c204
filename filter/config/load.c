/*
 * config/load.c - from files to a snapshot.
 *
 * weir.ini is read whole, then the files it names, so that an endpoint finds every
 * backend. A mistake ends nothing: what can still be read is read, and what would only
 * follow from a mistake is not told.
 */
#include "config/load.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "config/pattern.h"

/* For what weir.ini leaves out. False when memory is out. */
static bool set_defaults(struct load *l)
{
	const char *section = "";

	for (size_t i = 0; i < options_n; i++) {
		if (options[i].flags & OPT_NAMED ||
			strcmp(options[i].section, section) == 0)
			continue;
		section = options[i].section;
		if (!options_default(view_str(section), &l->places, l->config->lines))
			return false;
	}
	return true;
}

int load_slurp(struct load *l, const char *name, struct stat *st, struct buf *text)
{
	const char *main_file = l->config->file, *slash = strrchr(main_file, '/');
	struct buf full = { 0 };
	int err = 0;

	if (name[0] != '/' && slash)
		buf_add(&full, view_of(main_file, (size_t)(slash - main_file) + 1));
	buf_add_str(&full, name);
	if (!buf_str(&full))
		err = ENOMEM;
	else if (stat(full.p, st) < 0)
		err = errno;
	else
		err = S_ISREG(st->st_mode) ? ini_slurp(full.p, text) : EISDIR;
	buf_release(&full);
	l->m->no_memory |= err == ENOMEM;
	return err;
}

static bool is_read_already(const struct load *l, const char *file)
{
	for (size_t i = 0; i < l->config->n_files; i++) {
		if (strcmp(l->config->files[i], file) == 0)
			return true;
	}
	return false;
}

static bool is_main_file(const struct load *l, const char *file)
{
	struct stat a, b;

	return stat(file, &a) == 0 && stat(l->config->file, &b) == 0 &&
		a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int by_name(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Messages and logs name files as they are. */
static bool is_plain_name(const char *file)
{
	for (const char *p = file; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	return true;
}

static void load_found(struct load *l, struct place at, const char *pattern, glob_t *found)
{
	/* Not glob()'s own order, which is that of the locale. */
	qsort(found->gl_pathv, found->gl_pathc, sizeof(*found->gl_pathv), by_name);
	for (size_t i = 0; i < found->gl_pathc; i++) {
		const char *file = found->gl_pathv[i];

		if (is_main_file(l, file))
			mistake_value(l->m, at, "server.endpoints", view_str(pattern),
				"is also the main file; keep endpoints in a directory of "
				"their "
				"own");
		else if (!is_plain_name(file))
			mistake_value(l->m, at, "server.endpoints", view_str(file),
				"has a control byte in its name; rename the file");
		else if (!is_read_already(l, file))
			load_file(l, file, false);
	}
}

/* Remembers what the pattern found: a reload must not lose all of it in silence. */
static bool keep_pattern(struct load *l, const char *pattern, size_t files)
{
	struct config *c = l->config;
	struct endpoint_pattern *list = realloc(
		c->endpoint_patterns, (c->n_endpoint_patterns + 1) * sizeof(*list));

	if (!list)
		return false;
	c->endpoint_patterns = list;
	list[c->n_endpoint_patterns].text = strdup(pattern);
	if (!list[c->n_endpoint_patterns].text)
		return false;
	list[c->n_endpoint_patterns++].files = files;
	return true;
}

static void cannot_be_searched(struct load *l, struct place at, const char *pattern,
	const struct buf *where, int err)
{
	struct buf quoted = { 0 };

	mistake_quote(&quoted, buf_view(where));
	if (buf_str(&quoted))
		mistake_value(l->m, at, "server.endpoints", view_str(pattern),
			"cannot be searched: %s (%s); let weir read and enter the "
			"directories, or write a pattern that leaves it out",
			quoted.p, strerror(err));
	else
		l->m->no_memory = true;
	buf_release(&quoted);
}

static void found_nothing(struct load *l, struct place at, const char *pattern)
{
	/* A directory may be empty; a file that is named has to be there. */
	if (!strpbrk(pattern, "*?["))
		mistake_value(l->m, at, "server.endpoints", view_str(pattern),
			"does not exist; write the name of a file, relative to this one");
	else if (at.line)
		mistake_notice(l->m, at,
			"server.endpoints: \"%s\" is the name of no file now", pattern);
}

static void load_endpoints(struct load *l, const char *pattern)
{
	struct place at = load_place(l, "server", "endpoints");
	struct buf where = { 0 };
	glob_t found;
	int err = load_search(l->config->file, pattern, &found, &where);

	if (err == ENOMEM || where.failed || !keep_pattern(l, pattern, found.gl_pathc))
		l->m->no_memory = true;
	else if (err)
		cannot_be_searched(l, at, pattern, &where, err);
	else if (found.gl_pathc)
		load_found(l, at, pattern, &found);
	else
		found_nothing(l, at, pattern);
	globfree(&found);
	buf_release(&where);
}

static void load_all(struct load *l)
{
	if (!load_file(l, l->config->file, true))
		return;
	if (!set_defaults(l)) {
		l->m->no_memory = true;
		return;
	}
	if (l->draft.backend)
		l->config->server.backend = load_find_backend(l,
			load_place(l, "server", "backend"), "server.backend",
			l->draft.backend);
	load_reply_template(l);
	load_password_file(l);
	for (size_t i = 0; i < l->draft.n_endpoints; i++)
		load_endpoints(l, l->draft.endpoints[i]);
	load_check(l);
}

static struct config *config_new(const char *file)
{
	struct config *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	atomic_init(&c->refs, 1);
	c->file = strdup(file);
	c->patterns = pattern_index_new();
	c->lines = calloc(OPTIONS_MAX, sizeof(*c->lines));
	if (!c->file || !c->patterns || !c->lines) {
		config_unref(c);
		return NULL;
	}
	return c;
}

bool config_load(const char *file, struct config **out, struct buf *messages)
{
	struct mistakes mistakes = { 0 };
	struct load load = { .config = config_new(file), .m = &mistakes };
	bool ok = false;

	if (load.config)
		load_all(&load);
	if (!load.config || mistakes.no_memory) {
		buf_addf(messages, "%s: memory is out\n", file);
		goto out;
	}
	mistakes_write(&mistakes, load.config->files, load.config->n_files, messages);
	ok = mistakes.errors == 0;
out:
	if (ok)
		*out = load.config;
	else
		config_unref(load.config);
	options_release(IN_DRAFT, &load.draft);
	mistakes_release(&mistakes);
	return ok;
}
