#include "config/reload.h"

#include <errno.h>
#include <stdarg.h>

#include "config/mistakes.h"
#include "config/options.h"
#include "config/reload_parts.h"

/* -- what needs a restart ---------------------------------------------------------- */

void config_restart_needed(const struct config *a, const struct config *b, struct buf *out)
{
	for (size_t i = 0; i < options_n; i++) {
		const struct option *o = &options[i];

		if (o->in != IN_CONFIG || (o->flags & OPT_RELOAD) || option_same(o, a, b))
			continue;
		buf_addf(out, "%s%s.%s", out->n ? ", " : "", o->section, o->name);
	}
}

/* -- whether it may be taken at all ------------------------------------------------ */

/* A program that writes these files may spoil all of them at once. */
#define REASONS_SHOWN 20

struct reasons {
	struct buf *out;
	size_t n;
};

__attribute__((format(printf, 2, 3))) static void add_reason(
	struct reasons *why, const char *fmt, ...)
{
	va_list ap;

	if (++why->n > REASONS_SHOWN)
		return;
	va_start(ap, fmt);
	buf_addv(why->out, fmt, ap);
	va_end(ap);
	buf_add_byte(why->out, '\n');
}

static enum file_look look_of(const struct config *c, const char *file)
{
	for (size_t i = 0; i < c->n_files; i++)
		if (strcmp(c->files[i], file) == 0)
			return c->looks[i];
	return FILE_BLANK;
}

static const struct endpoint *endpoint_in(const struct config *c, const char *file)
{
	for (size_t i = 0; i < c->n_endpoints; i++)
		if (strcmp(c->endpoints[i].file, file) == 0)
			return &c->endpoints[i];
	return NULL;
}

/* A file that is empty, or cut where a line is not at its end. */
static bool looks_spoilt(const struct config *now, const char *file, enum file_look look,
	struct reasons *why)
{
	const struct endpoint *e = endpoint_in(now, file);
	size_t before = why->n;

	if (look == FILE_BLANK && e)
		add_reason(why,
			"%s: there is nothing in it, and [endpoint %s] was; write it "
			"whole, or take the file away",
			file, e->name);
	else if (look == FILE_BLANK && look_of(now, file) != FILE_BLANK)
		add_reason(why,
			"%s: there is nothing in it any more; write it whole, or restart "
			"weir if that is meant",
			file);
	else if (look == FILE_CUT && look_of(now, file) == FILE_WHOLE)
		add_reason(why,
			"%s: the last line has no end, as if the file were half written; "
			"end it with a newline",
			file);
	return why->n > before;
}

/* Cut between two lines a file has no mistake in it; but what limits a section had are
 * gone from it to the last. Whoever means that can say so. */
static void check_section(const struct config *now, const struct tiers *before,
	const struct tiers *after, const char *where, const char *section,
	struct reasons *why)
{
	struct buf had = { 0 };

	if (after->n || !tiers_enforced(now, before))
		return;
	for (size_t i = 0; i < before->n; i++)
		if (tier_enforced(now, &before->list[i]))
			buf_addf(&had, "%s%s", had.n ? ", " : "", before->list[i].label);
	if (buf_str(&had))
		add_reason(why,
			"%s: [%s] has no @RateLimit any more, and had %s; put back what "
			"is missing, or write @RateLimit = count=unlimited there to say "
			"that it is meant, or restart weir",
			where, section, had.p);
	else
		why->out->failed = true;
	buf_release(&had);
}

/* One of another name in the same file is it too, unless that has moved. */
static void check_endpoint(const struct config *now, const struct config *fresh,
	const struct endpoint *e, struct reasons *why)
{
	const struct endpoint *was = endpoint_named(now, e->name);
	struct buf where = { 0 }, section = { 0 };

	if (!was) {
		was = endpoint_in(now, e->file);
		if (!was || endpoint_named(fresh, was->name))
			return;
	}
	buf_addf(&where, "%s:%u", e->file, e->line);
	buf_addf(&section, "endpoint %s", e->name);
	if (buf_str(&where) && buf_str(&section))
		check_section(now, &was->tiers, &e->tiers, where.p, section.p, why);
	else
		why->out->failed = true;
	buf_release(&where);
	buf_release(&section);
}

static void check_file(
	const struct config *now, const struct config *fresh, size_t i, struct reasons *why)
{
	const char *file = fresh->files[i];
	const struct endpoint *was = endpoint_in(now, file);
	const struct endpoint *is = endpoint_in(fresh, file);

	if (looks_spoilt(now, file, fresh->looks[i], why))
		return;
	if (i == 0) /* weir.ini */
		check_section(now, &now->site, &fresh->site, file, "site", why);
	else if (is)
		check_endpoint(now, fresh, is, why);
	else if (was && tiers_enforced(now, &was->tiers) &&
		!endpoint_named(fresh, was->name))
		add_reason(why,
			"%s: [endpoint %s] is not in it any more, and had limits; write "
			"it whole, or take the file away",
			file, was->name);
}

static const struct endpoint_pattern *pattern_like(const struct config *c, const char *text)
{
	for (size_t i = 0; i < c->n_endpoint_patterns; i++)
		if (strcmp(c->endpoint_patterns[i].text, text) == 0)
			return &c->endpoint_patterns[i];
	return NULL;
}

/* A pattern that found files before, and is not in fresh. */
static const struct endpoint_pattern *pattern_lost(
	const struct config *now, const struct config *fresh)
{
	for (size_t i = 0; i < now->n_endpoint_patterns; i++) {
		const struct endpoint_pattern *p = &now->endpoint_patterns[i];

		if (p->files && !pattern_like(fresh, p->text))
			return p;
	}
	return NULL;
}

/* Nothing is mounted where files were, or a pattern was misspelt. */
static void check_pattern(const struct config *now, const struct config *fresh,
	const struct endpoint_pattern *p, struct reasons *why)
{
	const struct endpoint_pattern *was = pattern_like(now, p->text);
	const struct endpoint_pattern *lost = was ? NULL : pattern_lost(now, fresh);

	if (p->files)
		return;
	if (was && was->files)
		add_reason(why,
			"%s: server.endpoints: \"%s\" is the name of no file, and was of "
			"%zu; put them back, or take the pattern out, or restart weir if "
			"that is meant",
			fresh->file, p->text, was->files);
	else if (lost)
		add_reason(why,
			"%s: server.endpoints: \"%s\" is the name of no file, and \"%s\", "
			"which is not there any more, was of %zu; write it as it was, or "
			"take this one out, or restart weir if that is meant",
			fresh->file, p->text, lost->text, lost->files);
}

/* Another directory for bodies that is not there was misspelt, most likely, and would have
 * all large ones refused. The one that was may come back. */
static void check_spool_dir(
	const struct config *now, const struct config *fresh, struct reasons *why)
{
	struct buf where = { 0 };
	int err;

	if (strcmp(now->server.spool_dir, fresh->server.spool_dir) == 0)
		return;
	err = config_spool_fault(fresh);
	if (err != ENOENT && err != ENOTDIR)
		return;
	buf_addf(&where, "%s:%u: server.spool_dir: ", fresh->files[0],
		config_line(fresh, "server", "spool_dir"));
	mistake_quote(&where, view_str(fresh->server.spool_dir));
	if (buf_str(&where))
		add_reason(why,
			"%s cannot hold large bodies (%s), and %s could; write a directory "
			"that is there, or make this one first",
			where.p, strerror(err), now->server.spool_dir);
	else
		why->out->failed = true;
	buf_release(&where);
}

static size_t count_tiers(const struct config *c)
{
	size_t n = c->site.n;

	for (size_t i = 0; i < c->n_endpoints; i++)
		n += c->endpoints[i].tiers.n;
	return n;
}

bool config_may_replace(
	const struct config *now, const struct config *fresh, struct buf *out)
{
	struct reasons why = { out, 0 };
	size_t enforced = limits_enforced(now);

	for (size_t i = 0; i < fresh->n_files; i++)
		check_file(now, fresh, i, &why);
	if (now->n_endpoints && !fresh->n_endpoints)
		add_reason(&why,
			"%s: no endpoint is left, and there were %zu; put back the files "
			"that server.endpoints names, or restart weir if that is meant",
			fresh->file, now->n_endpoints);
	else
		for (size_t i = 0; i < fresh->n_endpoint_patterns; i++)
			check_pattern(now, fresh, &fresh->endpoint_patterns[i], &why);
	check_spool_dir(now, fresh, &why);
	if (!why.n && enforced && !count_tiers(fresh))
		add_reason(&why,
			"%s: no @RateLimit is left, and there were %zu; put them back, or "
			"restart weir if that is meant",
			fresh->file, enforced);
	if (why.n > REASONS_SHOWN)
		buf_addf(out, "... and %zu more\n", why.n - REASONS_SHOWN);
	return why.n == 0 && !out->failed;
}
