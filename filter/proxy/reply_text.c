/*
 * proxy/reply_text.c - names, messages and templates as the text of a body.
 *
 * Names come from configuration files in whatever encoding they were written, so what
 * is not UTF-8 is replaced before anybody sees it: an answer must not fail over a name.
 * What a template is filled with is escaped for the template's type, so that neither a
 * name nor a message can end a string or open a tag. The template itself goes out as
 * it was written.
 */
#include "base/utf8.h"
#include "proxy/reply_parts.h"

/* The character v starts with, or U+FFFD for a byte that starts none; v goes on
 * behind it. v is not empty. */
static struct view next_char(struct view *v)
{
	size_t n = utf8_len(*v);
	struct view found = n ? view_of(v->p, n) : VIEW("\xef\xbf\xbd");

	*v = view_skip(*v, n ? n : 1);
	return found;
}

void put_utf8(struct buf *out, struct view v)
{
	while (v.n)
		buf_add(out, next_char(&v));
}

void put_message(struct buf *out, const char *text, int64_t retry_after)
{
	static const char hole[] = "{retry_after}";
	const char *at;

	while ((at = strstr(text, hole))) {
		buf_add(out, view_of(text, (size_t)(at - text)));
		buf_add_u64(out, (uint64_t)retry_after);
		text = at + strlen(hole);
	}
	buf_add_str(out, text);
}

/* -- escaping ---------------------------------------------------------------------- */

/* C0, DEL and C1: a terminal that shows the answer could take any of them as orders. */
static bool is_control(struct view c)
{
	unsigned char first = (unsigned char)c.p[0];

	return first < 0x20 || first == 0x7f ||
		(first == 0xc2 && (unsigned char)c.p[1] < 0xa0);
}

static void put_plain(struct buf *out, struct view c)
{
	if (!is_control(c))
		buf_add(out, c);
}

/* Inside a string: RFC 8259, section 7. */
static void put_json(struct buf *out, struct view c)
{
	if (c.p[0] == '"' || c.p[0] == '\\')
		buf_add_byte(out, '\\');
	if (is_control(c) && c.n == 1)
		buf_addf(out, "\\u%04x", (unsigned)c.p[0]);
	else
		buf_add(out, c);
}

/* Text and quoted attribute values, of HTML and of XML. */
static void put_markup(struct buf *out, struct view c)
{
	switch (c.p[0]) {
	case '&': buf_add_str(out, "&amp;"); break;
	case '<': buf_add_str(out, "&lt;"); break;
	case '>': buf_add_str(out, "&gt;"); break;
	case '"': buf_add_str(out, "&quot;"); break;
	case '\'': buf_add_str(out, "&#39;"); break;
	default: put_plain(out, c);
	}
}

typedef void put_char(struct buf *out, struct view c);

/* How characters are put into a body of that type. */
static put_char *escaping(const char *type)
{
	struct view subtype = view_str(type), essence = view_cut(&subtype, ';');

	essence = view_trim(essence);
	subtype = essence;
	view_cut(&subtype, '/');
	if (view_eq_nocase(subtype, VIEW("json")) ||
		view_ends_nocase(subtype, VIEW("+json")))
		return put_json;
	if (view_eq_nocase(essence, VIEW("text/html")) ||
		view_eq_nocase(subtype, VIEW("xml")) ||
		view_ends_nocase(subtype, VIEW("+xml")))
		return put_markup;
	return put_plain;
}

/* -- templates --------------------------------------------------------------------- */

static void put_escaped(struct buf *out, put_char *put, struct view v)
{
	while (v.n)
		put(out, next_char(&v));
}

/* Fills the placeholder that at starts with; returns its length, 0 when it is none. */
static size_t put_placeholder(
	struct buf *out, put_char *put, const char *at, const struct reply_values *values)
{
	const struct {
		struct view name, text;
		int64_t number;
	} rows[] = {
		{ VIEW("{code}"), { NULL, 0 }, values->status * INT64_C(100) },
		{ VIEW("{retry_after}"), { NULL, 0 }, values->retry_after },
		{ VIEW("{message}"), values->message, -1 },
		{ VIEW("{endpoint}"), view_str(values->endpoint), -1 },
		{ VIEW("{rule}"), view_str(values->rule), -1 },
		{ VIEW("{request_id}"), view_str(values->request_id), -1 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		if (strncmp(at, rows[i].name.p, rows[i].name.n) != 0)
			continue;
		if (rows[i].number >= 0)
			buf_add_u64(out, (uint64_t)rows[i].number);
		else
			put_escaped(out, put, rows[i].text);
		return rows[i].name.n;
	}
	return 0;
}

void put_template(struct buf *out, const char *template, const char *type,
	const struct reply_values *values)
{
	put_char *put = escaping(type);
	const char *at;

	while ((at = strchr(template, '{'))) {
		size_t n;

		buf_add(out, view_of(template, (size_t)(at - template)));
		n = put_placeholder(out, put, at, values);
		if (n == 0)
			buf_add_byte(out, '{');
		template = at + (n ? n : 1);
	}
	buf_add_str(out, template);
}
