#include "config/mistakes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

#define QUOTED_MAX 100

void mistakes_release(struct mistakes *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->list[i].text);
	free(m->list);
	*m = (struct mistakes){ 0 };
}

static struct mistake *room_for_one(struct mistakes *m)
{
	size_t cap = m->cap ? m->cap * 2 : 16;
	struct mistake *list;

	if (m->n < m->cap)
		return &m->list[m->n];
	list = realloc(m->list, cap * sizeof(*list));
	if (!list)
		return NULL;
	m->list = list;
	m->cap = cap;
	return &m->list[m->n];
}

__attribute__((format(printf, 4, 0))) static void add(
	struct mistakes *m, struct place at, bool notice, const char *fmt, va_list ap)
{
	size_t *count = notice ? &m->notices : &m->errors;
	struct mistake *slot;

	if ((*count)++ >= MISTAKES_MAX)
		return;
	slot = room_for_one(m);
	if (!slot) {
		m->no_memory = true;
		return;
	}
	*slot = (struct mistake){ .at = at, .serial = m->n, .notice = notice };
	if (vasprintf(&slot->text, fmt, ap) < 0) {
		m->no_memory = true;
		return;
	}
	m->n++;
}

void mistake_add(struct mistakes *m, struct place at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(m, at, false, fmt, ap);
	va_end(ap);
}

void mistake_notice(struct mistakes *m, struct place at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(m, at, true, fmt, ap);
	va_end(ap);
}

/* Whether what stands behind the scheme may be shown without an '@' in it: a host, with
 * nothing behind its ':' but a port. Else the '@' was forgotten, or cut off. */
static bool is_host_alone(struct view v)
{
	struct view host = v, port;
	uint64_t n;

	for (size_t i = 0; i < host.n; i++) {
		if (memchr("/? \t", host.p[i], 4))
			host.n = i;
	}
	port = host;
	host = view_cut(&port, ':');
	return !port.p || view_starts(host, VIEW("[")) ||
		(host.n && view_number(port, 99999, &n));
}

void mistake_hide_password(struct view v, struct buf *out)
{
	const char *at = v.p ? memrchr(v.p, '@', v.n) : NULL;
	const char *mark = v.p ? memmem(v.p, v.n, "//", 2) : NULL;
	struct view secret;

	if (!mark) {
		buf_add(out, v);
		return;
	}
	secret = view_skip(v, (size_t)(mark - v.p) + 2);
	if (at && at >= secret.p)
		secret.n = (size_t)(at - secret.p);
	else if (mark == v.p || mark[-1] != ':' || is_host_alone(secret))
		secret.n = 0;
	buf_add(out, view_of(v.p, (size_t)(secret.p - v.p)));
	if (secret.n)
		buf_add_str(out, "***");
	buf_add(out, view_skip(v, (size_t)(secret.p - v.p) + secret.n));
}

/* v in quotes, as it is. */
static void quote(struct buf *b, struct view v)
{
	size_t shown = v.n;
	bool utf8;

	/* A long value is cut, and not in the middle of a UTF-8 character. */
	if (shown > QUOTED_MAX) {
		shown = QUOTED_MAX;
		while (shown && ((unsigned char)v.p[shown] & 0xc0) == 0x80)
			shown--;
	}
	utf8 = utf8_valid(view_of(v.p, shown));
	buf_add_byte(b, '"');
	for (size_t i = 0; i < shown; i++) {
		unsigned char c = (unsigned char)v.p[i];

		if (c < ' ' || c == 0x7f || (c >= 0x80 && !utf8))
			buf_addf(b, "\\x%02x", c);
		else
			buf_add_byte(b, (char)c);
	}
	buf_add_str(b, shown < v.n ? "...\"" : "\"");
}

void mistake_quote(struct buf *b, struct view v)
{
	struct buf shown = { 0 };

	mistake_hide_password(v, &shown);
	if (buf_ok(&shown))
		quote(b, buf_view(&shown));
	else
		b->failed = true;
	buf_release(&shown);
}

void mistake_vvalue(struct mistakes *m, struct place at, const char *subject,
	struct view value, const char *why, va_list ap)
{
	struct buf text = { 0 }, tail = { 0 };

	buf_addv(&tail, why, ap);
	buf_addf(&text, "%s: ", subject);
	mistake_quote(&text, value);
	if (!view_starts(buf_view(&tail), VIEW(":")))
		buf_add_byte(&text, ' ');
	buf_add(&text, buf_view(&tail));
	if (buf_ok(&tail) && buf_str(&text))
		mistake_add(m, at, "%s", text.p);
	else
		m->no_memory = true;
	buf_release(&tail);
	buf_release(&text);
}

void mistake_value(struct mistakes *m, struct place at, const char *subject,
	struct view value, const char *why, ...)
{
	va_list ap;

	va_start(ap, why);
	mistake_vvalue(m, at, subject, value, why, ap);
	va_end(ap);
}

struct order {
	char *const *files;
	size_t n;
};

static size_t file_number(const struct order *o, const char *file)
{
	size_t i = 0;

	while (i < o->n && o->files[i] != file)
		i++;
	return i;
}

static int by_place(const void *left, const void *right, void *order)
{
	const struct mistake *a = left, *b = right;
	size_t fa = file_number(order, a->at.file), fb = file_number(order, b->at.file);

	if (fa != fb)
		return fa < fb ? -1 : 1;
	if (a->at.line != b->at.line)
		return a->at.line < b->at.line ? -1 : 1;
	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

void mistakes_write(struct mistakes *m, char *const *files, size_t n_files, struct buf *out)
{
	struct order order = { files, n_files };
	bool notices = m->errors == 0;
	size_t all = notices ? m->notices : m->errors;

	if (m->n)
		qsort_r(m->list, m->n, sizeof(*m->list), by_place, &order);
	for (size_t i = 0; i < m->n; i++) {
		const struct mistake *one = &m->list[i];

		if (one->notice != notices)
			continue;
		buf_add_str(out, one->at.file);
		if (one->at.line)
			buf_addf(out, ":%u", one->at.line);
		buf_addf(out, ": %s%s\n", notices ? "notice: " : "", one->text);
	}
	if (all > MISTAKES_MAX)
		buf_addf(out, "... and %zu more\n", all - MISTAKES_MAX);
}
