/*
 * config/load.h - the state of a load, between load.c and what it calls.
 */
#ifndef WEIR_CONFIG_LOAD_H
#define WEIR_CONFIG_LOAD_H

#include <glob.h>
#include <sys/stat.h>

#include "config/config.h"
#include "config/ini.h"
#include "config/options.h"

struct rule_list {
	struct rule *list;
	size_t n;
	bool bad; /* one of them was a mistake */
};

struct load {
	struct config *config;
	struct draft draft;
	struct mistakes *m;

	/* The file that is read now. */
	const char *file; /* in config.files */
	bool is_main;
	bool any_section;
	struct rule_list rules; /* of its [site] or [endpoint] */
	unsigned rules_line;    /* where that section begins, or 0 */

	/* The section that is read now. */
	struct option_places places;
	char kind[INI_SECTION_MAX + 1];      /* "" before the first */
	unsigned section_lines[OPTIONS_MAX]; /* of one with a name */
	unsigned section_line;
	struct backend backend;

	/* The endpoint of this file. */
	char *endpoint_name; /* NULL: none */
	struct endpoint_text endpoint;
};

/* sections.c: reads one file into l. False when it cannot be read at all. */
bool load_file(struct load *l, const char *file, bool is_main);

/* endpoints.c: from the rules and options of the file that was read. */
void load_finish_endpoint(struct load *l);
void load_finish_site(struct load *l);

/* load.c: reads the file that an option names, relative to the directory of weir.ini. 0,
 * or an errno: EISDIR for what is no regular file (a pipe would block), ENOMEM, which is
 * noted already. */
int load_slurp(struct load *l, const char *name, struct stat *st, struct buf *text);

/* search.c: the files that a pattern beside main_file finds, in no order; globfree()
 * them in any case. 0 or an errno, which is also that of a directory somewhere in the
 * pattern that cannot be read or entered: where is the path it was met at. */
int load_search(
	const char *main_file, const char *pattern, glob_t *found, struct buf *where);

/* reply_template.c: reads the file that reply.template names. */
void load_reply_template(struct load *l);

/* password_file.c: reads the file that store.password_file names. */
void load_password_file(struct load *l);

/* A line of the file that is read now. */
static inline struct place load_here(const struct load *l, unsigned line)
{
	return (struct place){ l->file, line };
}

/* checks.c: what the options and files have to say to each other. */
void load_check(struct load *l);
/* rules_together.c: the part of it that is about rules. */
void load_check_rules(struct load *l);
/* Where an option of weir.ini stood; line 0 when it was not given. */
struct place load_place(const struct load *l, const char *section, const char *name);
/* The backend of that name. Tells when there is none. */
const struct backend *load_find_backend(
	struct load *l, struct place at, const char *subject, const char *name);

#endif
