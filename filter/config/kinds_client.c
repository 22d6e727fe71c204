/*
 * config/kinds_client.c - options that say who is asking.
 */
#include <stdlib.h>

#include "config/kinds.h"
#include "config/words.h"

static const struct option_word sources[] = { { "token", USER_TOKEN },
	{ "remote_user", USER_REMOTE_USER }, { 0 } };

static const struct option_word *find_source(struct view word)
{
	const struct option_word *w = sources;

	while (w->name && !view_eq_nocase(word, view_str(w->name)))
		w++;
	return w->name ? w : NULL;
}

/* Words with blanks or commas between them, in the order in which they are asked. */
static bool read_users(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	enum user_source list[USER_SOURCES_MAX];
	size_t count = 0;

	(void)o;
	if (view_eq_nocase(value, VIEW("none"))) {
		*n = 0;
		return true;
	}
	for (size_t end, at = 0; at < value.n; at = end + 1) {
		const struct option_word *w;
		struct view word;

		for (end = at; end < value.n && !strchr(" \t,", value.p[end]);)
			end++;
		word = view_of(value.p + at, end - at);
		if (word.n == 0)
			continue;
		w = find_source(word);
		if (!w) {
			buf_addf(why,
				"names \"%.*s\", which is no source of users; write token, "
				"remote_user, both in order, or none alone",
				VIEW_ARG(word));
			return false;
		}
		for (size_t i = 0; i < count; i++) {
			if (list[i] == w->value) {
				buf_addf(why, "names %s twice; write it once", w->name);
				return false;
			}
		}
		list[count++] = (enum user_source)w->value;
	}
	if (count == 0) {
		buf_add_str(why,
			"names no source of users; write token, remote_user, both in "
			"order, or none");
		return false;
	}
	memcpy(field, list, count * sizeof(list[0]));
	*n = count;
	return true;
}

/* The list lies in the configuration itself. */
static void release_users(void *field, size_t *n)
{
	(void)field;
	*n = 0;
}
const struct option_kind kind_users = { "[token] [remote_user]|none", read_users,
	release_users, NULL };

/* A header field, kept as the parameter in which it comes. */
static bool read_header(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct buf parameter = { 0 };
	bool ok;

	(void)n;
	if (value.n == 0)
		return kind_keep_text(field, VIEW(""), why);
	if (value.n > o->max || !word_is_header(value)) {
		buf_addf(why,
			"is not the name of a header field; write letters, digits, - and "
			"_, "
			"such as %s, or nothing for none",
			o->def);
		return false;
	}
	word_put_parameter(value, &parameter);
	ok = buf_ok(&parameter) && kind_keep_text(field, buf_view(&parameter), why);
	why->failed |= !ok;
	buf_release(&parameter);
	return ok;
}
const struct option_kind kind_header = { "FIELD", read_header, kind_release_text, NULL };

/* sqlite:/path; only the path is kept. */
static bool read_directory(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct view path = value, scheme = view_cut(&path, ':');

	(void)o;
	(void)n;
	if (value.n == 0)
		return kind_keep_text(field, value, why);
	if (!view_eq(scheme, VIEW("sqlite")) || path.n < 2 || path.p[0] != '/') {
		buf_add_str(why,
			view_eq(scheme, VIEW("sqlite"))
				? "has no absolute path; write sqlite:/var/lib/weir/weir.db"
				: "is not a directory that can be read; write "
				  "sqlite:/var/lib/weir/weir.db, or nothing for none");
		return false;
	}
	/* sqlite:///path is how URLs write it. */
	while (view_starts(path, VIEW("//")))
		path = view_skip(path, 1);
	return kind_keep_text(field, path, why);
}
const struct option_kind kind_directory = { "sqlite:/PATH", read_directory,
	kind_release_text, NULL, kind_same_text };
