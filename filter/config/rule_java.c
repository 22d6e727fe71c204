/*
 * config/rule_java.c - the annotation this was modelled on, shown in our form.
 *
 * Who knows @RateLimit from Java writes it that way first. It is not read, since half of
 * it could not be meant here; the message shows what to write.
 */
#include "config/rule_read.h"

/* One attribute of an annotation, as it is written here: @RateLimit(limitType = "IP")
 * has blanks, quotes and constants of a class. */
static void put_java_attribute(struct view part, struct buf *out)
{
	struct view value = part, name = view_trim(view_cut(&value, '='));
	bool is_name = view_eq(name, VIEW("key")) || view_eq(name, VIEW("plan")) ||
		view_eq(name, VIEW("name"));

	value = view_trim(value);
	if (value.n >= 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
		value = view_of(value.p + 1, value.n - 2);
	for (size_t i = value.n; i-- > 0 && !is_name;) {
		if (value.p[i] == '.') {
			value = view_skip(value, i + 1);
			break;
		}
	}
	if (name.n == 0)
		return;
	buf_add_byte(out, ' ');
	buf_add(out, name);
	buf_add_byte(out, '=');
	/* Constants are in capitals there, and small here; names are as they are. */
	for (size_t i = 0; i < value.n; i++) {
		char c = value.p[i];

		buf_add_byte(out, !is_name && c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c);
	}
}

/* "@RateLimit =" and what is inside the parentheses. */
static void put_ini_form(struct view inside, struct buf *out)
{
	struct view close = view_skip(inside, 1), list = view_cut(&close, ')');

	while (list.n)
		put_java_attribute(view_cut(&list, ','), out);
}

bool rule_odd_line(struct view line, struct place at, struct mistakes *m)
{
	static const struct view word = VIEW("@RateLimit");
	struct buf form = { 0 }, quoted = { 0 };
	const char *why = "has no '=' behind @RateLimit";
	struct view rest;

	if (line.n < word.n || !view_eq_nocase(view_of(line.p, word.n), word))
		return false;
	rest = view_trim(view_skip(line, word.n));
	if (rest.n && rest.p[0] == '(') {
		why = "is the form of a Java annotation";
		put_ini_form(rest, &form);
	} else if (rest.n) {
		buf_add_byte(&form, ' ');
		buf_add(&form, rest);
	}
	mistake_quote(&quoted, line);
	if (buf_str(&form) && buf_str(&quoted))
		mistake_add(m, at, "%s %s; write @RateLimit =%s", quoted.p, why, form.p);
	else
		m->no_memory = true;
	buf_release(&form);
	buf_release(&quoted);
	return true;
}
