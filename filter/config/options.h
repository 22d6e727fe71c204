/*
 * config/options.h - the table of options: one row each, and everything read from it.
 *
 * The reader of files, the defaults, `weirctl options` and the manual use the same
 * row. @RateLimit is not in it: see config/rule_read.h.
 */
#ifndef WEIR_CONFIG_OPTIONS_H
#define WEIR_CONFIG_OPTIONS_H

#include "config/config.h"
#include "config/mistakes.h"

/* What is read first and looked up when all of weir.ini is known. */
struct draft {
	char *backend;    /* server.backend */
	char **endpoints; /* server.endpoints, as written */
	size_t n_endpoints;
	char *reply_template; /* reply.template, "" for none */
	char *password_file;  /* store.password_file, "" for none */
};

/* What an endpoint's file says beside its rules; freed once it is understood. */
struct endpoint_text {
	char *match, *host, *query, *backend; /* NULL when not given */
};

/* The struct a row's field is in. */
enum option_in {
	IN_CONFIG,
	IN_DRAFT,
	IN_BACKEND,
	IN_ENDPOINT,
	IN_N
};

struct option_word {
	const char *name;
	unsigned value;
};

enum option_flag {
	OPT_RELOAD = 1,       /* a reload takes it; else it needs a restart */
	OPT_REPEATS = 2,      /* may be given more than once; each adds */
	OPT_FOR_CGI = 4,      /* of a backend: says nothing to FastCGI */
	OPT_NAMED = 8,        /* the section has a name */
	OPT_SUFFIX = 16,      /* the last word of the name is the operator's: message.zh */
	OPT_FOR_FASTCGI = 32, /* of a backend: says nothing to CGI */
};

struct option {
	const char *section, *name;
	enum option_in in;
	size_t at; /* offset of the field */
	const struct option_kind *kind;
	size_t n_at;                     /* of lists: offset of their length */
	const struct option_word *words; /* of enumerations; the last has no name */
	uint64_t min, max;               /* of numbers, in the field's unit */
	const char *def; /* default as text; NULL: none, the field stays zero */
	unsigned flags;
	const char *help;
};

extern const struct option options[];
extern const size_t options_n;

/* The longest the table may get: for what is kept per row. */
#define OPTIONS_MAX 96

/* Where the rows find their structs; those not needed may be NULL. */
struct option_places {
	void *in[IN_N];
};

/* The row, or NULL. Of those with OPT_SUFFIX the name is what stands before the dot and
 * any word behind it. */
const struct option *option_find(struct view section, struct view name);
/* True when the table has that section; *named says whether it needs a name. */
bool option_section(struct view section, bool *named);
/* Appends what would do instead of an unknown name: the nearest, or all. */
void option_suggest(struct view section, struct view name, struct buf *why);

/* Reads value into the row's field. A field that holds something must be a list. On
 * failure says why, beginning with a verb or ':', and leaves the field alone. */
bool option_read(const struct option *o, const struct option_places *places,
	struct view value, struct buf *why);
/* The same for what name, as written, says of the row's: of OPT_SUFFIX too. */
bool option_read_as(const struct option *o, const struct option_places *places,
	struct view name, struct view value, struct buf *why);
/* True when a comment behind the value cannot be told from the value. */
bool option_is_sentence(const struct option *o);
/* What may be shown of a value: passwords are left out. Appends to out. */
void option_shown(const struct option *o, struct view value, struct buf *out);

/* Gives the section's rows that have no line in lines (by row) their defaults.
 * False when memory is out. */
bool options_default(
	struct view section, const struct option_places *places, const unsigned *lines);

/* Whether the row's field holds the same in both structs. Only for rows that a reload does
 * not take. */
bool option_same(const struct option *o, const void *a, const void *b);

/* Frees what the rows put into base. */
void options_release(enum option_in in, void *base);

/* The reference, for `weirctl options` and the manual. */
void options_print(struct buf *out);
/* Sentences below an entry, wrapped at about 80 columns. */
void options_print_wrapped(const char *text, struct buf *out);

#endif
