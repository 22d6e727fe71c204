/*
 * config/sections.c - the sections of one file, as they come.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "config/load.h"
#include "config/rule_read.h"
#include "config/words.h"

static bool in_section(const struct load *l, const char *kind)
{
	return strcmp(l->kind, kind) == 0;
}

/* ---- backends ---- */

/* The line of an option of the current section, or 0. */
static unsigned option_line(const struct load *l, const char *name)
{
	const struct option *o = option_find(view_str(l->kind), view_str(name));

	return o ? l->section_lines[o - options] : 0;
}

static void check_addresses(struct load *l)
{
	struct backend *b = &l->backend;

	if (b->n_addrs > BACKEND_ADDRS_MAX)
		mistake_add(l->m, load_here(l, option_line(l, "fastcgi")),
			"backend.fastcgi: %zu addresses; write at most %d", b->n_addrs,
			BACKEND_ADDRS_MAX);
	if (b->keep && b->retry == RETRY_NEVER)
		mistake_add(l->m, load_here(l, option_line(l, "keep")),
			"backend.keep: a connection that was kept may turn out to be "
			"closed, and "
			"with retry = never the request would fail; write keep = 0, or "
			"retry = "
			"safe");
}

static void check_backend(struct load *l)
{
	struct backend *b = &l->backend;
	struct stat st;
	bool fastcgi = option_line(l, "fastcgi"), cgi = option_line(l, "cgi");

	if (!fastcgi && !cgi) {
		mistake_add(l->m, load_here(l, l->section_line),
			"[backend %s] has no address; write fastcgi = unix:/path, or cgi = "
			"/directory",
			b->name);
		return;
	}
	if (fastcgi && cgi) {
		mistake_add(l->m, load_here(l, l->section_line),
			"[backend %s] has fastcgi and cgi; write two backends", b->name);
		return;
	}
	b->kind = cgi ? BACKEND_CGI : BACKEND_FASTCGI;
	/* No mistake: it may be mounted later. */
	if (b->root && (stat(b->root, &st) < 0 || !S_ISDIR(st.st_mode)))
		mistake_notice(l->m, load_here(l, option_line(l, "cgi")),
			"backend.cgi: \"%s\" is not a directory now", b->root);
	check_addresses(l);
	for (size_t i = 0; i < options_n; i++) {
		if (!l->section_lines[i])
			continue;
		if (fastcgi && options[i].flags & OPT_FOR_CGI)
			mistake_add(l->m, load_here(l, l->section_lines[i]),
				"backend.%s: says nothing to FastCGI; take it away, or "
				"write cgi = "
				"/directory in place of fastcgi",
				options[i].name);
		if (cgi && options[i].flags & OPT_FOR_FASTCGI)
			mistake_add(l->m, load_here(l, l->section_lines[i]),
				"backend.%s: says nothing to CGI programs; take it away, "
				"or write fastcgi = unix:/path in place of cgi",
				options[i].name);
	}
}

/* One with a mistake is kept too: what names it is not wrong. */
static void finish_backend(struct load *l)
{
	struct config *c = l->config;
	struct backend *list;

	if (!options_default(view_str("backend"), &l->places, l->section_lines))
		l->m->no_memory = true;
	check_backend(l);
	list = realloc(c->backends, (c->n_backends + 1) * sizeof(*list));
	if (list) {
		c->backends = list;
		list[c->n_backends++] = l->backend;
	} else {
		l->m->no_memory = true;
		options_release(IN_BACKEND, &l->backend);
		free(l->backend.name);
	}
	l->backend = (struct backend){ 0 };
}

/* ---- headers ---- */

static void end_section(struct load *l)
{
	if (l->backend.name && in_section(l, "backend"))
		finish_backend(l);
	l->kind[0] = '\0';
}

static void wrong_section(
	struct load *l, struct view kind, struct view name, unsigned line, const char *why)
{
	mistake_add(l->m, load_here(l, line), "[%.*s%s%.*s] %s", VIEW_ARG(kind),
		name.n ? " " : "", VIEW_ARG(name), why);
}

/* Whether a section of that kind may stand here, with or without a name. */
static bool check_header(struct load *l, struct view kind, struct view name, unsigned line)
{
	bool named, endpoint = view_eq(kind, VIEW("endpoint"));
	const char *why = NULL;

	if (!option_section(kind, &named))
		why = "is not a section; write one of [server] [store] [fallback] [client] "
		      "[allow] [reply] [log] [site] [backend NAME] [endpoint NAME]";
	else if (named && name.n == 0)
		why = endpoint ? "has no name; write [endpoint NAME]"
			       : "has no name; write [backend NAME]";
	else if (!named && name.n)
		why = "has a name behind it; only [backend NAME] and [endpoint NAME] have "
		      "one";
	else if (named && (!word_is_name(name)))
		why = "has a bad name; write letters, digits and _ . -";
	else if (l->is_main && endpoint)
		why = "stands in the main file; write each endpoint into a file of its "
		      "own, "
		      "which server.endpoints names";
	else if (!l->is_main && !endpoint)
		why = "stands in an endpoint's file; write it into the main file";
	else if (endpoint && l->endpoint_name)
		why = "is a second endpoint in this file; write it into a file of its own";
	if (why)
		wrong_section(l, kind, name, line, why);
	return !why;
}

static bool on_section(void *user, struct view kind, struct view name, unsigned line)
{
	struct load *l = user;
	char *kept = NULL;

	end_section(l);
	l->any_section = true;
	if (!check_header(l, kind, name, line))
		return false;
	if (name.n) {
		kept = strndup(name.p, name.n);
		if (!kept) {
			l->m->no_memory = true;
			return false;
		}
	}
	snprintf(l->kind, sizeof(l->kind), "%.*s", VIEW_ARG(kind));
	l->section_line = line;
	memset(l->section_lines, 0, sizeof(l->section_lines));
	if (in_section(l, "backend"))
		l->backend.name = kept;
	if (in_section(l, "endpoint"))
		l->endpoint_name = kept;
	if (in_section(l, "endpoint") || in_section(l, "site"))
		l->rules_line = line;
	return true;
}

/* ---- values ---- */

/* What is wrong with a value whatever its option, or NULL. */
static const char *looks_wrong(struct view v)
{
	if (v.n >= 2 && v.p[0] == '"' && v.p[v.n - 1] == '"')
		return "is in quotes, which would belong to it; write it without";
	if (memmem(v.p, v.n, " #", 2) || memmem(v.p, v.n, "\t#", 2))
		return "has a '#' in it; a comment behind a value begins with ';' and "
		       "blanks "
		       "around it";
	return NULL;
}

static void read_rule(struct load *l, const struct ini_value *v)
{
	struct rule *grown;

	if (!in_section(l, "site") && !in_section(l, "endpoint")) {
		mistake_add(l->m, load_here(l, v->line),
			"%s.@RateLimit: rules do not stand here; write them under "
			"[endpoint "
			"NAME] or [site]",
			l->kind);
		return;
	}
	grown = realloc(l->rules.list, (l->rules.n + 1) * sizeof(*grown));
	if (!grown) {
		l->m->no_memory = true;
		return;
	}
	l->rules.list = grown;
	if (rule_read(v->value, load_here(l, v->line), &grown[l->rules.n], l->m))
		l->rules.n++;
	else
		l->rules.bad = true;
}

static void unknown_option(struct load *l, const char *subject, const struct ini_value *v)
{
	struct buf hint = { 0 };

	if (view_eq_nocase(v->name, VIEW("@RateLimit")))
		buf_add_str(&hint, "write @RateLimit");
	else
		option_suggest(view_str(l->kind), v->name, &hint);
	if (buf_str(&hint))
		mistake_add(l->m, load_here(l, v->line), "%s: there is no such option; %s",
			subject, hint.p);
	else
		l->m->no_memory = true;
	buf_release(&hint);
}

static void read_option(struct load *l, const struct option *o, const char *subject,
	const struct ini_value *v)
{
	struct buf why = { 0 }, shown = { 0 };

	if (option_is_sentence(o) && v->whole.n > v->value.n)
		buf_add_str(&why,
			"would be cut at its ';'; put a comment on a line of its own, "
			"or take away the blank before the ';'");
	else if (option_read_as(o, &l->places, v->name, v->value, &why))
		goto out;
	if (v->value.n && memchr(v->value.p, ';', v->value.n) && !option_is_sentence(o))
		buf_add_str(&why, " (a comment needs a blank before its ';')");
	option_shown(o, option_is_sentence(o) ? v->whole : v->value, &shown);
	if (buf_str(&why) && buf_ok(&shown))
		mistake_value(l->m, load_here(l, v->line), subject, buf_view(&shown), "%s",
			why.p);
	else
		l->m->no_memory = true;
out:
	buf_release(&why);
	buf_release(&shown);
}

/* Tells what is wrong with a value before anybody has read it; o may be NULL. */
static void wrong_value(struct load *l, const struct option *o, const char *subject,
	const struct ini_value *v, const char *why)
{
	struct buf shown = { 0 };

	if (o)
		option_shown(o, v->value, &shown);
	else
		buf_add(&shown, v->value);
	if (buf_ok(&shown))
		mistake_value(
			l->m, load_here(l, v->line), subject, buf_view(&shown), "%s", why);
	else
		l->m->no_memory = true;
	buf_release(&shown);
}

static void on_value(void *user, const struct ini_value *v)
{
	struct load *l = user;
	const struct option *o = option_find(view_str(l->kind), v->name);
	const char *why = looks_wrong(v->value);
	char subject[128];
	unsigned *line;

	snprintf(subject, sizeof(subject), "%s.%.*s", l->kind,
		(int)(v->name.n < 60 ? v->name.n : 60), v->name.p);
	if (why) {
		wrong_value(l, o, subject, v, why);
		return;
	}
	if (view_eq(v->name, VIEW("@RateLimit"))) {
		read_rule(l, v);
		return;
	}
	if (!o) {
		unknown_option(l, subject, v);
		return;
	}
	line = o->flags & OPT_NAMED ? &l->section_lines[o - options]
				    : &l->config->lines[o - options];
	if (*line && !(o->flags & OPT_REPEATS)) {
		mistake_add(l->m, load_here(l, v->line),
			"%s: given before, in line %u; write it once", subject, *line);
		return;
	}
	if (!*line)
		*line = v->line;
	read_option(l, o, subject, v);
}

static bool on_odd(void *user, struct view text, unsigned line)
{
	struct load *l = user;

	if (!rule_odd_line(text, load_here(l, line), l->m))
		return false;
	l->rules.bad = true;
	return true;
}

/* ---- the file ---- */

static void release_file(struct load *l)
{
	for (size_t i = 0; i < l->rules.n; i++)
		rule_release(&l->rules.list[i]);
	free(l->rules.list);
	l->rules = (struct rule_list){ 0 };
	l->rules_line = 0;
	options_release(IN_ENDPOINT, &l->endpoint);
	options_release(IN_BACKEND, &l->backend);
	free(l->backend.name);
	l->backend.name = NULL;
	free(l->endpoint_name);
	l->endpoint_name = NULL;
}

/* Keeps the name; places of mistakes and endpoints point at it. */
static bool keep_file(struct load *l, const char *file)
{
	struct config *c = l->config;
	char **files = realloc(c->files, (c->n_files + 1) * sizeof(*files));
	enum file_look *looks;

	if (!files)
		goto no_memory;
	c->files = files;
	looks = realloc(c->looks, (c->n_files + 1) * sizeof(*looks));
	if (!looks)
		goto no_memory;
	c->looks = looks;
	looks[c->n_files] = FILE_WHOLE;
	files[c->n_files] = strdup(file);
	if (!files[c->n_files])
		goto no_memory;
	l->file = files[c->n_files++];
	return true;

no_memory:
	l->m->no_memory = true;
	return false;
}

static enum file_look look_at(struct view text)
{
	bool cut = text.n && text.p[text.n - 1] != '\n';

	while (text.n && memchr(" \t\r\n", text.p[0], 4))
		text = view_skip(text, 1);
	if (text.n == 0)
		return FILE_BLANK;
	return cut ? FILE_CUT : FILE_WHOLE;
}

static void unreadable(struct load *l, int err)
{
	const char *what = "let weir read it, or take it away";

	/* Which of the two is looked at depends on how weir is started (main.c). */
	if (l->is_main)
		what = err == EACCES || err == EPERM
			? "let whoever runs this read it"
			: "name the configuration with -c FILE, or in the environment of a "
			  "CGI program with WEIR_CONFIG";
	if (err == ENOMEM)
		l->m->no_memory = true;
	else if (err == EFBIG)
		mistake_add(l->m, load_here(l, 0),
			"the file is too large; a configuration has at most %d bytes",
			INI_FILE_MAX);
	else if (err == EBUSY)
		mistake_add(l->m, load_here(l, 0),
			"the file was written to while it was read; try again, and write "
			"it under another name first, then rename it");
	else
		mistake_add(l->m, load_here(l, 0), "the file cannot be read (%s); %s",
			strerror(err), what);
}

bool load_file(struct load *l, const char *file, bool is_main)
{
	static const struct ini_events events = { on_section, on_value, on_odd };
	struct buf text = { 0 };
	enum file_look look;
	int err;

	if (!keep_file(l, file))
		return false;
	l->is_main = is_main;
	l->any_section = false;
	l->places = (struct option_places){ .in = {
						    [IN_CONFIG] = l->config,
						    [IN_DRAFT] = &l->draft,
						    [IN_BACKEND] = &l->backend,
						    [IN_ENDPOINT] = &l->endpoint,
					    } };
	err = ini_slurp(file, &text);
	if (err) {
		unreadable(l, err);
		goto out;
	}
	look = look_at(buf_view(&text));
	l->config->looks[l->config->n_files - 1] = look;
	if (look == FILE_CUT)
		mistake_notice(l->m, load_here(l, 0),
			"the last line has no end; where it had one, a reload takes the "
			"file for half written and refuses it");
	ini_parse_view(buf_view(&text), l->file, &events, l, l->m);
	end_section(l);
	if (is_main && l->rules_line)
		load_finish_site(l);
	if (!is_main && l->endpoint_name)
		load_finish_endpoint(l);
	if (!is_main && !l->any_section)
		mistake_notice(
			l->m, load_here(l, 0), "the file has no [endpoint NAME] in it");
out:
	buf_release(&text);
	release_file(l);
	return err == 0;
}
