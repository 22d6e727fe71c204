/*
 * config/reply_template.c - the file that reply.template names.
 *
 * Read with the configuration, so that a refusal touches no disk and a file with a
 * mistake in it never goes out. {word} is a placeholder and has to be a known one; other
 * braces, as JSON and style sheets are full of, stand for themselves.
 */
#include <errno.h>
#include <stdarg.h>

#include "config/load.h"

#define TEMPLATE_MAX (64 << 10)

static const char *const known[] = { "code", "message", "retry_after", "endpoint", "rule",
	"request_id" };

static void wrong(struct load *l, const char *why, ...)
	__attribute__((format(printf, 2, 3)));
static void wrong(struct load *l, const char *why, ...)
{
	va_list ap;

	va_start(ap, why);
	mistake_vvalue(l->m, load_place(l, "reply", "template"), "reply.template",
		view_str(l->draft.reply_template), why, ap);
	va_end(ap);
}

/* Length of the word in braces that text, behind a '{', begins with; 0: it is none. */
static size_t word_in_braces(struct view text)
{
	size_t n = 0;

	while (n < text.n && ((text.p[n] >= 'a' && text.p[n] <= 'z') || text.p[n] == '_'))
		n++;
	return n < text.n && text.p[n] == '}' ? n : 0;
}

static bool is_known(struct view word)
{
	for (size_t i = 0; i < COUNT_OF(known); i++) {
		if (view_eq(word, view_str(known[i])))
			return true;
	}
	return false;
}

static void unknown_word(struct load *l, struct view word, unsigned line)
{
	struct buf all = { 0 };

	for (size_t i = 0; i < COUNT_OF(known); i++)
		buf_addf(&all, "{%s} ", known[i]);
	if (buf_str(&all))
		wrong(l,
			"has {%.*s} in line %u, which is no placeholder; write one of %sor "
			"a "
			"blank behind the brace",
			(int)(word.n < 60 ? word.n : 60), word.p, line, all.p);
	else
		l->m->no_memory = true;
	buf_release(&all);
}

static bool check_words(struct load *l, struct view text)
{
	unsigned line = 1;
	bool ok = true;

	for (; text.n; text = view_skip(text, 1)) {
		struct view behind = view_skip(text, 1), word;

		line += text.p[0] == '\n';
		if (text.p[0] != '{')
			continue;
		word = view_of(behind.p, word_in_braces(behind));
		if (word.n == 0 || is_known(word))
			continue;
		unknown_word(l, word, line);
		ok = false;
	}
	return ok;
}

static void read_template(struct load *l, struct buf *text)
{
	struct stat st;
	int err = load_slurp(l, l->draft.reply_template, &st, text);

	if (err == ENOMEM)
		return;
	if (err == EISDIR)
		wrong(l, "is not a file; write the name of one, relative to this one");
	else if (err == EFBIG || (!err && text->n > TEMPLATE_MAX))
		wrong(l, "is too large; a template has at most %d bytes", TEMPLATE_MAX);
	else if (err)
		wrong(l,
			"cannot be read (%s); write the name of a file, relative to this "
			"one",
			strerror(err));
	else if (text->n && memchr(text->p, '\0', text->n))
		wrong(l, "has a zero byte in it; write a text file");
	else if (check_words(l, buf_view(text))) {
		l->config->reply.template_text = buf_steal(text);
		l->m->no_memory |= !l->config->reply.template_text;
	}
}

void load_reply_template(struct load *l)
{
	struct buf text = { 0 };

	if (!l->draft.reply_template || !*l->draft.reply_template)
		return;
	read_template(l, &text);
	buf_release(&text);
}
