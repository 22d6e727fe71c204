/*
 * config/key_template.c - key={header:X-Tenant}:{ip}, the identity of a custom rule.
 *
 * Read into pieces once, so that a request only has to look them up. What is misspelt
 * here would be empty for every request and count everybody as one, so nothing is let
 * through that is not known.
 */
#include <stdlib.h>

#include "config/rule_parts.h"
#include "config/words.h"

#define TEMPLATE_BYTES_MAX 200

static const struct placeholder {
	const char *name;
	enum piece_kind kind;
	bool named;
} placeholders[] = {
	{ "header", PIECE_HEADER, true },
	{ "cookie", PIECE_COOKIE, true },
	{ "query", PIECE_QUERY, true },
	{ "path", PIECE_PATH, true },
	{ "param", PIECE_PARAM, true },
	{ "ip", PIECE_IP, false },
	{ "user", PIECE_USER, false },
	{ "plan", PIECE_PLAN, false },
};

/* Session cookies, passwords, keys and tokens let their bearer in, and whoever can read
 * the store could use them. Which ones do is known by their names alone; hashing one more
 * than needed costs nothing. */
static bool is_secret(enum piece_kind kind, const char *name)
{
	static const char *const words[] = { "auth", "cookie", "token", "apikey", "api_key",
		"api-key", "api.key" };
	bool found = kind == PIECE_COOKIE;

	if (kind == PIECE_TEXT || !name)
		return false;
	for (size_t i = 0; !found && i < COUNT_OF(words); i++)
		found = strcasestr(name, words[i]) != NULL;
	return found;
}

static bool add_piece(
	struct rule *r, enum piece_kind kind, struct view text, struct buf *why)
{
	struct key_piece *grown;
	struct buf name = { 0 };

	if (r->n_pieces == PIECES_MAX) {
		buf_addf(why, "has too many pieces; write at most %d", PIECES_MAX);
		return false;
	}
	grown = realloc(r->pieces, (r->n_pieces + 1) * sizeof(*grown));
	if (!grown)
		goto no_memory;
	r->pieces = grown;
	grown[r->n_pieces] = (struct key_piece){ .kind = kind };
	if (kind == PIECE_HEADER)
		word_put_parameter(text, &name);
	else
		buf_add(&name, text);
	if (text.n) {
		grown[r->n_pieces].text = buf_steal(&name);
		if (!grown[r->n_pieces].text)
			goto no_memory;
	}
	grown[r->n_pieces].secret = is_secret(kind, grown[r->n_pieces].text);
	r->n_pieces++;
	return true;

no_memory:
	buf_release(&name);
	why->failed = true;
	return false;
}

static void unknown_placeholder(struct view inside, struct buf *why)
{
	buf_addf(why, "has {%.*s}, which is no placeholder; write ", VIEW_ARG(inside));
	for (size_t i = 0; i < COUNT_OF(placeholders); i++) {
		const struct placeholder *p = &placeholders[i];
		bool last = i + 1 == COUNT_OF(placeholders);

		buf_addf(why, "%s{%s%s}",
			i == 0         ? ""
				: last ? " or "
				       : " ",
			p->name, p->named ? ":NAME" : "");
	}
}

static bool is_good_name(enum piece_kind kind, struct view name)
{
	switch (kind) {
	case PIECE_HEADER: return word_is_header(name);
	/* A form's field may be called anything; what ends a name in a query does not
	 * belong to it. */
	case PIECE_QUERY: return word_is_query_name(name);
	default: return word_is_name(name);
	}
}

static bool read_placeholder(struct view inside, struct rule *r, struct buf *why)
{
	struct view name = inside, kind = view_cut(&name, ':');
	const struct placeholder *p = NULL;

	for (size_t i = 0; i < COUNT_OF(placeholders); i++) {
		if (view_eq(kind, view_str(placeholders[i].name)))
			p = &placeholders[i];
	}
	if (!p) {
		unknown_placeholder(inside, why);
		return false;
	}
	if (!p->named && name.p) {
		buf_addf(why, "has {%.*s}, which takes no name; write {%s}",
			VIEW_ARG(inside), p->name);
		return false;
	}
	if (p->named && name.n == 0) {
		buf_addf(why, "has {%.*s}, which needs a name; write {%s:NAME}",
			VIEW_ARG(inside), p->name);
		return false;
	}
	if (p->named && !is_good_name(p->kind, name)) {
		buf_addf(why, "has {%.*s}, whose name no request can have; write %s",
			VIEW_ARG(inside),
			p->kind == PIECE_HEADER          ? "letters, digits, - and _"
				: p->kind == PIECE_QUERY ? "the name of one parameter"
							 : "letters, digits and _ . -");
		return false;
	}
	return add_piece(r, p->kind, p->named ? name : VIEW(""), why);
}

static bool read_pieces(struct view text, struct rule *r, struct buf *why)
{
	bool any = false;

	while (text.n) {
		size_t n = 0;
		struct view inside;

		while (n < text.n && text.p[n] != '{' && text.p[n] != '}')
			n++;
		if (n && !add_piece(r, PIECE_TEXT, view_of(text.p, n), why))
			return false;
		text = view_skip(text, n);
		if (text.n == 0)
			break;
		if (text.p[0] == '}') {
			buf_add_str(why,
				"has a '}' without its '{'; write {header:NAME} or "
				"the like");
			return false;
		}
		text = view_skip(text, 1);
		inside = view_cut(&text, '}');
		if (!text.p || memchr(inside.p, '{', inside.n)) {
			buf_add_str(why,
				"has a '{' without its '}'; write {header:NAME} or "
				"the like");
			return false;
		}
		if (!read_placeholder(inside, r, why))
			return false;
		any = true;
	}
	if (!any)
		buf_add_str(why,
			"has no placeholder, so everybody would be counted as one; "
			"write for example {header:X-Tenant}");
	return any;
}

bool key_template_read(struct view text, struct rule *r, struct buf *why)
{
	bool ok = false;

	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (c > ' ' && c < 0x7f)
			continue;
		buf_add_str(why,
			c == ' ' || c == '\t'
				? "has a blank in it; write its pieces without one"
				: "has bytes that are not ASCII; write letters, digits and "
				  "punctuation between placeholders");
		return false;
	}
	if (text.n > TEMPLATE_BYTES_MAX)
		buf_addf(
			why, "has %zu bytes; write at most %d", text.n, TEMPLATE_BYTES_MAX);
	else
		ok = read_pieces(text, r, why);
	if (!ok)
		key_template_release(r);
	return ok;
}

void key_template_release(struct rule *r)
{
	for (size_t i = 0; i < r->n_pieces; i++)
		free(r->pieces[i].text);
	free(r->pieces);
	r->pieces = NULL;
	r->n_pieces = 0;
}
