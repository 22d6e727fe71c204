/*
 * ctl/directory.c - see directory.h.
 *
 * weirctl writes while weir reads: the file is in WAL mode, and its -wal and -shm stay
 * when the last writer is gone, since a weir that may only read could not make them.
 */
#include "ctl/directory.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "client/schema.h"
#include "config/config.h"

#define BUSY_MS 5000

/* -- what is said ------------------------------------------------------------------ */

int job_fail(const struct job *j, const char *fmt, ...)
{
	va_list ap;

	(void)j;
	fputs("weirctl: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return CTL_FAILED;
}

/* What would help, where SQLite does not say it. */
static const char *remedy(int err)
{
	switch (err & 0xff) {
	case SQLITE_FULL:
	case SQLITE_IOERR: /* its -wal or -shm could not grow, mostly */
		return "; nothing was changed: look for room on that disk";
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
		return "; the file, its folder, and -wal and -shm beside it must be "
		       "writable";
	case SQLITE_BUSY: return "; another program is writing: try again";
	default: return "";
	}
}

int job_fail_db(const struct job *j)
{
	return job_fail(j, "%s: %s%s", j->path, sqlite3_errmsg(j->db),
		remedy(sqlite3_extended_errcode(j->db)));
}

static int print_json(json_t *value)
{
	struct buf out = { 0 };

	json_put(&out, value, JSON_INDENT(2));
	json_decref(value);
	buf_add_byte(&out, '\n');
	return ctl_print(&out);
}

int job_print(struct job *j, json_t *object, const char *fmt, ...)
{
	char text[1024];
	struct buf out = { 0 };
	va_list ap;

	if (j->ctl->json)
		return print_json(object);
	json_decref(object);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_addf(&out, "%s\n", text);
	return ctl_print(&out);
}

void job_put_time(struct buf *out, int64_t seconds)
{
	time_t t = (time_t)seconds;
	struct tm tm;
	char text[64];

	if (gmtime_r(&t, &tm) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &tm))
		buf_add_str(out, text);
}

/* -- lists ------------------------------------------------------------------------- */

static json_t *read_cell(sqlite3_stmt *s, int i, enum column_kind kind)
{
	const char *text;

	if (kind == COLUMN_FLAG)
		return json_boolean(sqlite3_column_int(s, i));
	switch (sqlite3_column_type(s, i)) {
	case SQLITE_NULL: return json_null();
	case SQLITE_INTEGER: return json_integer(sqlite3_column_int64(s, i));
	default:
		text = (const char *)sqlite3_column_text(s, i);
		return json_string(text ? text : "");
	}
}

/* What a terminal would obey is a question mark. */
static void put_plain(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_add_byte(
			out, (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

static void put_cell(struct buf *out, const json_t *cell, enum column_kind kind)
{
	if (kind == COLUMN_FLAG)
		buf_add_str(out, json_is_true(cell) ? "yes" : "");
	else if (kind == COLUMN_TIME && json_is_integer(cell))
		job_put_time(out, json_integer_value(cell));
	else if (json_is_integer(cell))
		buf_addf(out, "%lld", (long long)json_integer_value(cell));
	else if (json_is_string(cell))
		put_plain(out, json_string_value(cell));
}

/* Characters, not bytes: what columns are made of, if nearly. */
static size_t width_of(struct view v)
{
	size_t n = 0;

	for (size_t i = 0; i < v.n; i++)
		n += ((unsigned char)v.p[i] & 0xc0) != 0x80;
	return n;
}

static void put_padded(struct buf *out, struct view v, size_t width)
{
	buf_add(out, v);
	for (size_t n = width_of(v); n < width; n++)
		buf_add_byte(out, ' ');
}

#define COLUMNS_MAX 12

static void put_row(struct buf *out, const json_t *row, const struct column *columns,
	size_t n, size_t *widths, bool measure)
{
	struct buf cell = { 0 };

	for (size_t i = 0; i < n; i++) {
		buf_reset(&cell);
		if (row)
			put_cell(&cell, json_object_get(row, columns[i].key),
				columns[i].kind);
		else
			buf_add_str(&cell, columns[i].key);
		if (measure && width_of(buf_view(&cell)) > widths[i])
			widths[i] = width_of(buf_view(&cell));
		if (!measure)
			put_padded(out, buf_view(&cell), i + 1 < n ? widths[i] + 2 : 0);
		out->failed = out->failed || !buf_ok(&cell);
	}
	while (!measure && out->n && out->p[out->n - 1] == ' ')
		out->n--;
	if (!measure)
		buf_add_byte(out, '\n');
	buf_release(&cell);
}

static int print_table(json_t *rows, const struct column *columns, size_t n)
{
	size_t widths[COLUMNS_MAX] = { 0 }, i;
	struct buf out = { 0 };
	const json_t *row;

	for (int pass = 0; pass < 2; pass++) {
		put_row(&out, NULL, columns, n, widths, pass == 0);
		json_array_foreach(rows, i, row)
			put_row(&out, row, columns, n, widths, pass == 0);
	}
	json_decref(rows);
	return ctl_print(&out);
}

int job_list(struct job *j, sqlite3_stmt *s, const struct column *columns, size_t n)
{
	json_t *rows = json_array();
	bool ok = rows != NULL;
	int step;

	if (!s)
		goto failed;
	while ((step = sqlite3_step(s)) == SQLITE_ROW) {
		json_t *row = json_object();

		for (size_t i = 0; i < n; i++)
			if (json_object_set_new(row, columns[i].key,
				    read_cell(s, (int)i, columns[i].kind)) < 0)
				ok = false;
		if (json_array_append_new(rows, row) < 0)
			ok = false;
	}
	sqlite3_finalize(s);
	if (step != SQLITE_DONE) {
		job_fail_db(j);
		goto failed;
	}
	if (!ok) {
		job_fail(j, "out of memory");
		goto failed;
	}
	return j->ctl->json ? print_json(rows) : print_table(rows, columns, n);
failed:
	json_decref(rows);
	return CTL_FAILED;
}

/* -- statements -------------------------------------------------------------------- */

static sqlite3_stmt *prepare(struct job *j, const char *sql, const char *types, va_list ap)
{
	sqlite3_stmt *s = NULL;
	int bound = SQLITE_OK;

	if (sqlite3_prepare_v2(j->db, sql, -1, &s, NULL) != SQLITE_OK) {
		job_fail_db(j);
		return NULL;
	}
	for (int i = 1; *types && bound == SQLITE_OK; types++, i++) {
		struct view v;

		switch (*types) {
		case 's':
			bound = sqlite3_bind_text(
				s, i, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
			break;
		case 'i': bound = sqlite3_bind_int64(s, i, va_arg(ap, int64_t)); break;
		case 'b':
			v = va_arg(ap, struct view);
			bound = sqlite3_bind_blob64(s, i, v.p, v.n, SQLITE_TRANSIENT);
			break;
		}
	}
	if (bound != SQLITE_OK) {
		job_fail_db(j);
		sqlite3_finalize(s);
		return NULL;
	}
	return s;
}

sqlite3_stmt *job_prepare(struct job *j, const char *sql, const char *types, ...)
{
	sqlite3_stmt *s;
	va_list ap;

	va_start(ap, types);
	s = prepare(j, sql, types, ap);
	va_end(ap);
	return s;
}

bool job_run(struct job *j, int *changes, const char *sql, const char *types, ...)
{
	sqlite3_stmt *s;
	va_list ap;
	bool ok;

	va_start(ap, types);
	s = prepare(j, sql, types, ap);
	va_end(ap);
	if (!s)
		return false;
	ok = sqlite3_step(s) == SQLITE_DONE;
	if (!ok)
		job_fail_db(j);
	sqlite3_finalize(s);
	if (ok && changes)
		*changes = sqlite3_changes(j->db);
	return ok;
}

int job_exists(struct job *j, const char *sql, const char *name)
{
	sqlite3_stmt *s = job_prepare(j, sql, "s", name);
	int step = s ? sqlite3_step(s) : SQLITE_ERROR;

	if (s && step != SQLITE_ROW && step != SQLITE_DONE)
		job_fail_db(j);
	sqlite3_finalize(s);
	return step == SQLITE_ROW ? 1 : step == SQLITE_DONE ? 0 : -1;
}

/* -- opening ----------------------------------------------------------------------- */

static void job_keep_path(struct job *j, const char *path)
{
	j->path = strdup(path);
	if (!j->path)
		job_fail(j, "out of memory");
}

bool job_find_path(struct job *j, const char *given)
{
	struct buf messages = { 0 };
	struct config *c = NULL;

	if (!given)
		given = j->ctl->db;
	if (given) {
		job_keep_path(j, given);
	} else if (!config_load(j->ctl->config, &c, &messages)) {
		job_fail(j,
			"where the directory is cannot be read from %s (weirctl check says "
			"why); name it with --db FILE",
			j->ctl->config);
	} else if (!*c->client.directory) {
		job_fail(j,
			"%s names no directory; add \"directory = "
			"sqlite:/var/lib/weir/weir.db\" "
			"to [client], or name it with --db FILE",
			j->ctl->config);
	} else {
		job_keep_path(j, c->client.directory);
	}
	config_unref(c);
	buf_release(&messages);
	return j->path != NULL;
}

/* SQLite has one sentence for most of what can be wrong with a path. */
static bool look_at_path(struct job *j)
{
	if (access(j->path, R_OK) == 0)
		return true;
	if (errno == ENOENT)
		job_fail(j, "there is no %s; \"weirctl db init\" makes it", j->path);
	else if (errno == EACCES || errno == EPERM)
		job_fail(j,
			"%s cannot be opened: %s; run weirctl as the user the file belongs "
			"to, as in \"sudo -u weir weirctl ...\"",
			j->path, strerror(errno));
	else
		job_fail(j, "%s cannot be opened: %s", j->path, strerror(errno));
	return false;
}

bool job_open(struct job *j, int flags)
{
	int on = 1;

	if (!look_at_path(j))
		return false;
	if (sqlite3_open_v2(j->path, &j->db, flags, NULL) != SQLITE_OK) {
		job_fail(j, "%s cannot be opened: %s", j->path,
			j->db ? sqlite3_errmsg(j->db) : "out of memory");
		return false;
	}
	sqlite3_busy_timeout(j->db, BUSY_MS);
	sqlite3_file_control(j->db, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
	if (sqlite3_exec(j->db, "PRAGMA foreign_keys = ON", NULL, NULL, NULL) == SQLITE_OK)
		return true;
	job_fail_db(j);
	return false;
}

static bool open_current(struct job *j)
{
	int version;

	if (!job_find_path(j, NULL) || !job_open(j, SQLITE_OPEN_READWRITE))
		return false;
	switch (schema_look(j->db, &version)) {
	case SCHEMA_CURRENT: return true;
	case SCHEMA_OLD:
		job_fail(j,
			"%s has version %d of the schema, and %d is needed; \"weirctl db "
			"migrate\" brings it there",
			j->path, version, schema_newest());
		return false;
	case SCHEMA_NEW:
		job_fail(j, "%s has version %d of the schema; a newer weirctl made it",
			j->path, version);
		return false;
	case SCHEMA_EMPTY:
		job_fail(j, "%s has no tables; \"weirctl db init\" makes them", j->path);
		return false;
	case SCHEMA_FOREIGN:
		job_fail(j,
			"%s does not hold weir's tables; its users are managed elsewhere",
			j->path);
		return false;
	case SCHEMA_BROKEN: break;
	}
	job_fail_db(j);
	return false;
}

/* -- the command line -------------------------------------------------------------- */

static void print_usage(const struct job *j, const struct verb *verbs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%s weirctl %s %s%s%s [--db FILE] [--json]\n",
			i ? "      " : "usage:", j->command, verbs[i].name,
			*verbs[i].operands ? " " : "", verbs[i].operands);
}

/* Keeps the value of an own option; false for a letter that is none. */
static bool take_option(struct job *j, int letter)
{
	switch (letter) {
	case 'l': j->label = optarg; return true;
	case 'e': j->expires = optarg; return true;
	case 'u': j->user = optarg; return true;
	case 'p': j->plan = optarg; return true;
	case 'd': j->description = optarg; return true;
	case 'a': j->admin = true; return true;
	default: return ctl_option(j->ctl, letter);
	}
}

static bool options_fit(const struct job *j)
{
	const struct {
		bool given;
		char letter;
		const char *name;
	} own[] = {
		{ j->label != NULL, 'l', "label" },
		{ j->expires != NULL, 'e', "expires" },
		{ j->user != NULL, 'u', "user" },
		{ j->plan != NULL, 'p', "plan" },
		{ j->description != NULL, 'd', "description" },
		{ j->admin, 'a', "admin" },
	};

	for (size_t i = 0; i < COUNT_OF(own); i++) {
		if (own[i].given && !strchr(j->verb->options, own[i].letter)) {
			job_fail(j, "%s %s takes no --%s", j->command, j->verb->name,
				own[i].name);
			return false;
		}
	}
	if (j->n_operands >= j->verb->min && j->n_operands <= j->verb->max)
		return true;
	if (j->n_operands > j->verb->max)
		job_fail(j, "%s %s makes nothing of \"%s\"", j->command, j->verb->name,
			j->operands[j->verb->max]);
	return false;
}

static const struct verb *find_verb(const struct verb *verbs, size_t n, const char *name)
{
	for (size_t i = 0; name && i < n; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

static bool read_options(struct job *j, int argc, char **argv)
{
	static const struct option options[] = {
		CTL_LONG,
		{ "label", required_argument, NULL, 'l' },
		{ "expires", required_argument, NULL, 'e' },
		{ "user", required_argument, NULL, 'u' },
		{ "plan", required_argument, NULL, 'p' },
		{ "description", required_argument, NULL, 'd' },
		{ "admin", no_argument, NULL, 'a' },
		{ 0 },
	};
	int letter;

	while ((letter = getopt_long(argc, argv, CTL_SHORT, options, NULL)) != -1)
		if (!take_option(j, letter))
			return false; /* getopt has said why */
	return true;
}

int directory_command(
	struct ctl *ctl, int argc, char **argv, const struct verb *verbs, size_t n)
{
	struct job j = { .ctl = ctl, .command = ctl->command, .now_s = time(NULL) };
	int status = CTL_FAILED;

	if (!read_options(&j, argc, argv))
		return CTL_USAGE;
	j.verb = find_verb(verbs, n, argv[optind]);
	if (!j.verb) {
		print_usage(&j, verbs, n);
		return CTL_USAGE;
	}
	j.operands = argv + optind + 1;
	j.n_operands = argc - optind - 1;
	if (!options_fit(&j)) {
		print_usage(&j, j.verb, 1);
		return CTL_USAGE;
	}
	if ((j.verb->flags & VERB_OPENS) || open_current(&j))
		status = j.verb->run(&j);
	sqlite3_close(j.db);
	free(j.path);
	return status;
}
