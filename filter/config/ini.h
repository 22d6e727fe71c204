/*
 * config/ini.h - reading one INI file so that nothing in it is lost in silence.
 *
 * inih cuts lines into names and values. What it would swallow is found before it
 * sees the line: continuation lines, names that are too long, sections without
 * anything in them, control bytes, missing '='. The grammar that is left:
 *
 *	[section] or [section name]
 *	name = value        from the first column, on one line
 *	; comment           a whole line, also with #, also indented
 *	name = value ; why  a blank on both sides of the ';'
 *
 * A ';' with no blank before it belongs to the value (tcp:a;b). With a blank before
 * but none behind it, or inside double quotes, nobody can say what was meant: an
 * error. There is no quoting.
 */
#ifndef WEIR_CONFIG_INI_H
#define WEIR_CONFIG_INI_H

#include "config/mistakes.h"

/* Longest line, without its end: inih's buffer less three bytes. */
#define INI_LINE_MAX 8189
/* Longest name between [ and ]: inih would cut it here. */
#define INI_SECTION_MAX 49
#define INI_FILE_MAX    (4 << 20)
#define INI_PATIENCE_MS 5000 /* for the next bytes of a pipe */

/* Views are borrowed: valid during the call. */
struct ini_value {
	struct view name, value; /* value without the comment behind it */
	struct view whole;       /* value with it */
	unsigned line;
};

struct ini_events {
	/* A section begins. False when its values are not wanted (it was a mistake). */
	bool (*section)(void *user, struct view kind, struct view name, unsigned line);
	void (*value)(void *user, const struct ini_value *v);
	/* A line that has no name in front of its '='. True when it was told. */
	bool (*odd)(void *user, struct view text, unsigned line);
};

/* Reads text; file is its name in messages and lives as long as m. */
void ini_parse_view(struct view text, const char *file, const struct ini_events *events,
	void *user, struct mistakes *m);

/* Reads the file into out, which the caller releases. Returns 0 or an errno; EFBIG
 * above INI_FILE_MAX, EBUSY when it changed meanwhile. */
int ini_slurp(const char *file, struct buf *out);

#endif
