/*
 * fields.c - a parser for structured fields, section by section of RFC 9651.
 *
 * Each function follows one algorithm of section 4.2, in its order and with its
 * failures, so that a reader can hold the two side by side. A failure sticks in the
 * parser: what comes after it reads nothing.
 */
#include "fields.h"

#include <stdlib.h>

struct parser {
	struct view left;
	struct view whole;
	const char *why;
	size_t at;
};

static bool failed(struct parser *p, const char *why)
{
	if (!p->why) {
		p->why = why;
		p->at = p->whole.n - p->left.n;
	}
	return false;
}

/* The next byte, or -1 at the end. */
static int peek(const struct parser *p)
{
	return p->left.n ? (unsigned char)p->left.p[0] : -1;
}

static int next(struct parser *p)
{
	int c = peek(p);

	if (c >= 0)
		p->left = view_skip(p->left, 1);
	return c;
}

static bool take(struct parser *p, int c)
{
	if (peek(p) != c)
		return false;
	next(p);
	return true;
}

static void skip_sp(struct parser *p)
{
	while (take(p, ' '))
		;
}

static void skip_ows(struct parser *p)
{
	while (peek(p) == ' ' || peek(p) == '\t')
		next(p);
}

static bool is_lower(int c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_alpha(int c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z');
}

static bool is_digit(int c)
{
	return c >= '0' && c <= '9';
}

static bool is_one_of(int c, const char *set)
{
	return c > 0 && strchr(set, c);
}

/* One more element of *list; NULL when memory is out. */
static void *grow(struct parser *p, void *list, size_t n, size_t size)
{
	void *more = realloc(list, (n + 1) * size);

	if (!more) {
		failed(p, "memory is out");
		return NULL;
	}
	memset((char *)more + n * size, 0, size);
	return more;
}

/* -- bare items -------------------------------------------------------------------- */

/* Section 4.2.4. */
static bool parse_number(struct parser *p, struct sf_member *out)
{
	int64_t sign = take(p, '-') ? -1 : 1, sum = 0;
	size_t digits = 0, fraction = 0;

	out->type = SF_INTEGER;
	if (!is_digit(peek(p)))
		return failed(p, "a number without digits");
	for (;;) {
		if (is_digit(peek(p))) {
			sum = sum * 10 + (next(p) - '0');
			digits++;
			fraction += out->type == SF_DECIMAL;
		} else if (out->type == SF_INTEGER && peek(p) == '.') {
			if (digits > 12)
				return failed(p,
					"a decimal with over 12 digits before the point");
			next(p);
			out->type = SF_DECIMAL;
		} else {
			break;
		}
		if (digits > 15)
			return failed(p, "a number with over 15 digits");
	}
	if (out->type == SF_DECIMAL && (fraction < 1 || fraction > 3))
		return failed(p, "a decimal without 1 to 3 digits behind the point");
	for (; out->type == SF_DECIMAL && fraction < 3; fraction++)
		sum *= 10;
	out->number = sign * sum;
	return true;
}

/* Section 4.2.5. */
static bool parse_string(struct parser *p, struct sf_member *out)
{
	out->type = SF_STRING;
	next(p);
	while (peek(p) >= 0) {
		int c = next(p);

		if (c == '"')
			return true;
		if (c < 0x20 || c > 0x7e)
			return failed(p, "a byte that a string cannot hold");
		if (c == '\\') {
			c = next(p);
			if (c != '"' && c != '\\')
				return failed(p, "a backslash before neither \" nor \\");
		}
		buf_add_byte(&out->text, (char)c);
	}
	return failed(p, "a string without end");
}

/* Section 4.2.6. */
static bool parse_token(struct parser *p, struct sf_member *out)
{
	out->type = SF_TOKEN;
	do
		buf_add_byte(&out->text, (char)next(p));
	while (is_alpha(peek(p)) || is_digit(peek(p)) ||
		is_one_of(peek(p), "!#$%&'*+-.^_`|~:/"));
	return true;
}

static int base64_value(int c)
{
	if (is_alpha(c))
		return is_lower(c) ? c - 'a' + 26 : c - 'A';
	if (is_digit(c))
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Section 4.2.7: padding may be missing, bits behind the last byte are not looked at. */
static bool parse_bytes(struct parser *p, struct sf_member *out)
{
	unsigned bits = 0, n_bits = 0, n = 0, padding = 0;

	out->type = SF_BYTES;
	next(p);
	for (; peek(p) >= 0 && peek(p) != ':'; n++) {
		int c = next(p);

		if (c == '=') {
			padding++;
			continue;
		}
		if (padding || base64_value(c) < 0)
			return failed(p, "a byte that base64 does not have there");
		bits = (bits << 6 | (unsigned)base64_value(c)) & 0xffff;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			buf_add_byte(&out->text, (char)(bits >> n_bits & 0xff));
		}
	}
	if (n_bits == 6 || padding > 2 || (padding && n % 4 != 0))
		return failed(p, "base64 of an impossible length");
	return take(p, ':') || failed(p, "a byte sequence without end");
}

/* Section 4.2.8. */
static bool parse_boolean(struct parser *p, struct sf_member *out)
{
	out->type = SF_BOOLEAN;
	next(p);
	out->number = peek(p) == '1';
	return take(p, '0') || take(p, '1') || failed(p, "a boolean but ?0 and ?1");
}

/* Section 4.2.9. */
static bool parse_date(struct parser *p, struct sf_member *out)
{
	next(p);
	if (!parse_number(p, out))
		return false;
	if (out->type != SF_INTEGER)
		return failed(p, "a date with a fraction");
	out->type = SF_DATE;
	return true;
}

static int hex_value(int c)
{
	return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Unicode, table 3-7. */
static bool is_utf8(struct view v)
{
	while (v.n) {
		const unsigned char *c = (const unsigned char *)v.p;
		size_t n = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;

		if (v.n < n || (c[0] >= 0x80 && c[0] < 0xc2) || c[0] > 0xf4 ||
			(c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
			(c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] > 0x8f))
			return false;
		for (size_t i = 1; i < n; i++)
			if (c[i] < 0x80 || c[i] > 0xbf)
				return false;
		v = view_skip(v, n);
	}
	return true;
}

/* Section 4.2.10. */
static bool parse_display(struct parser *p, struct sf_member *out)
{
	out->type = SF_DISPLAY;
	next(p);
	if (!take(p, '"'))
		return failed(p, "a display string without its quote");
	while (peek(p) >= 0) {
		int c = next(p);

		if (c == '"')
			return is_utf8(buf_view(&out->text)) ||
				failed(p, "a display string that is not UTF-8");
		if (c < 0x20 || c > 0x7e)
			return failed(p, "a byte that a display string cannot hold");
		if (c == '%') {
			int high = hex_value(next(p)), low = hex_value(next(p));

			if (high < 0 || low < 0)
				return failed(p, "a % without two lower-case digits");
			c = high << 4 | low;
		}
		buf_add_byte(&out->text, (char)c);
	}
	return failed(p, "a display string without end");
}

/* Section 4.2.3.1. */
static bool parse_bare_item(struct parser *p, struct sf_member *out)
{
	int c = peek(p);

	if (c == '-' || is_digit(c))
		return parse_number(p, out);
	if (c == '"')
		return parse_string(p, out);
	if (c == '*' || is_alpha(c))
		return parse_token(p, out);
	if (c == ':')
		return parse_bytes(p, out);
	if (c == '?')
		return parse_boolean(p, out);
	if (c == '@')
		return parse_date(p, out);
	if (c == '%')
		return parse_display(p, out);
	return failed(p, "a byte that begins no item");
}

/* -- parameters, items, inner lists ------------------------------------------------ */

static void release_member(struct sf_member *m)
{
	for (size_t i = 0; i < m->n_items; i++)
		release_member(&m->items[i]);
	for (size_t i = 0; i < m->params.n; i++) {
		buf_release(&m->params.list[i].key);
		release_member(&m->params.list[i].value);
	}
	free(m->items);
	free(m->params.list);
	buf_release(&m->key);
	buf_release(&m->text);
}

static void replace_member(struct sf_member *old, const struct sf_member *new)
{
	release_member(old);
	*old = *new;
}

/* Section 4.2.3.3. */
static bool parse_key(struct parser *p, struct buf *out)
{
	if (!is_lower(peek(p)) && peek(p) != '*')
		return failed(p, "a byte that begins no key");
	while (is_lower(peek(p)) || is_digit(peek(p)) || is_one_of(peek(p), "_-.*"))
		buf_add_byte(out, (char)next(p));
	return true;
}

/* The parameter of that key, new or not. Takes the key over. */
static struct sf_param *param_slot(
	struct parser *p, struct sf_params *params, struct buf *key)
{
	struct sf_param *list;

	for (size_t i = 0; i < params->n; i++)
		if (view_eq(buf_view(&params->list[i].key), buf_view(key))) {
			buf_release(key);
			return &params->list[i];
		}
	list = grow(p, params->list, params->n, sizeof(*list));
	if (!list) {
		buf_release(key);
		return NULL;
	}
	params->list = list;
	list[params->n].key = *key;
	return &list[params->n++];
}

/* Section 4.2.3.2. */
static bool parse_params(struct parser *p, struct sf_params *params)
{
	while (take(p, ';')) {
		struct sf_member value = { .type = SF_BOOLEAN, .number = 1 };
		struct sf_param *slot;
		struct buf key = { 0 };

		skip_sp(p);
		if (!parse_key(p, &key) || (take(p, '=') && !parse_bare_item(p, &value))) {
			buf_release(&key);
			release_member(&value);
			return false;
		}
		slot = param_slot(p, params, &key);
		if (!slot) {
			release_member(&value);
			return false;
		}
		replace_member(&slot->value, &value);
	}
	return true;
}

/* Section 4.2.3. */
static bool parse_item(struct parser *p, struct sf_member *out)
{
	return parse_bare_item(p, out) && parse_params(p, &out->params);
}

/* Section 4.2.1.2. */
static bool parse_inner_list(struct parser *p, struct sf_member *out)
{
	out->type = SF_INNER;
	next(p);
	while (peek(p) >= 0) {
		struct sf_member *items;

		skip_sp(p);
		if (take(p, ')'))
			return parse_params(p, &out->params);
		items = grow(p, out->items, out->n_items, sizeof(*items));
		if (!items)
			return false;
		out->items = items;
		if (!parse_item(p, &items[out->n_items++]))
			return false;
		if (peek(p) != ' ' && peek(p) != ')')
			return failed(p, "neither a space nor ) behind an item");
	}
	return failed(p, "an inner list without end");
}

/* Section 4.2.1.1. */
static bool parse_either(struct parser *p, struct sf_member *out)
{
	return peek(p) == '(' ? parse_inner_list(p, out) : parse_item(p, out);
}

/* -- fields ------------------------------------------------------------------------ */

static struct sf_member *new_member(struct parser *p, struct sf_field *f)
{
	struct sf_member *list = grow(p, f->members, f->n, sizeof(*list));

	if (!list)
		return NULL;
	f->members = list;
	return &list[f->n++];
}

static bool parse_dictionary_member(struct parser *p, struct sf_field *f)
{
	struct sf_member m = { .type = SF_BOOLEAN, .number = 1 }, *slot = NULL;

	if (!parse_key(p, &m.key) ||
		!(take(p, '=') ? parse_either(p, &m) : parse_params(p, &m.params)))
		goto fail;
	for (size_t i = 0; i < f->n && !slot; i++)
		if (view_eq(buf_view(&f->members[i].key), buf_view(&m.key)))
			slot = &f->members[i];
	if (!slot)
		slot = new_member(p, f);
	if (!slot)
		goto fail;
	replace_member(slot, &m);
	return true;
fail:
	release_member(&m);
	return false;
}

static bool parse_list_member(struct parser *p, struct sf_field *f)
{
	struct sf_member *m = new_member(p, f);

	return m && parse_either(p, m);
}

/* Sections 4.2.1 and 4.2.2: members between commas, none behind the last. */
static bool parse_members(struct parser *p, struct sf_field *f,
	bool (*parse_one)(struct parser *, struct sf_field *))
{
	while (peek(p) >= 0) {
		if (!parse_one(p, f))
			return false;
		skip_ows(p);
		if (peek(p) < 0)
			return true;
		if (!take(p, ','))
			return failed(p, "no comma behind a member");
		skip_ows(p);
		if (peek(p) < 0)
			return failed(p, "a comma behind the last member");
	}
	return true;
}

bool sf_parse(enum sf_kind kind, struct view value, struct sf_field *out)
{
	struct parser p = { .left = value, .whole = value };
	bool ok;

	*out = (struct sf_field){ 0 };
	skip_sp(&p);
	if (kind == SF_ITEM) {
		struct sf_member *m = new_member(&p, out);

		ok = m && parse_item(&p, m);
	} else {
		ok = parse_members(&p, out,
			kind == SF_LIST ? parse_list_member : parse_dictionary_member);
	}
	if (ok) {
		skip_sp(&p);
		ok = p.left.n == 0 || failed(&p, "something behind the end");
	}
	out->why = p.why;
	out->at = p.at;
	return ok;
}

void sf_release(struct sf_field *f)
{
	for (size_t i = 0; i < f->n; i++)
		release_member(&f->members[i]);
	free(f->members);
	*f = (struct sf_field){ 0 };
}
