/*
 * config/pattern_read.c - match, host and query, as they are written.
 *
 * Strict, since what is misspelt here is a limit that never holds: paths have to be in
 * the form in which requests are compared, methods have to exist.
 */
#include "config/pattern_read.h"

#include <stdlib.h>

#include "config/mistakes.h"
#include "config/words.h"

/* Appends raw without its percent-encoding. Control bytes stay encoded: no path that
 * can be asked for holds one. */
static void put_decoded(struct view raw, struct buf *out)
{
	while (raw.n) {
		int byte = view_escape(raw);
		bool escape = byte >= ' ' && byte != 0x7f;

		buf_add_byte(out, escape ? (char)byte : raw.p[0]);
		raw = view_skip(raw, escape ? 3 : 1);
	}
}

/* Appends path without empty and dot segments. */
static void put_canonical(struct view path, struct buf *out)
{
	while (path.n) {
		struct view segment = view_cut(&path, '/');

		if (segment.n == 0 || view_eq(segment, VIEW(".")))
			continue;
		if (view_eq(segment, VIEW(".."))) {
			while (out->n && out->p[--out->n] != '/')
				;
			continue;
		}
		buf_add_byte(out, '/');
		buf_add(out, segment);
	}
	if (out->n == 0)
		buf_add_byte(out, '/');
}

bool pattern_path_check(struct view path, struct buf *why)
{
	struct buf decoded = { 0 }, canonical = { 0 };
	struct view query = path, bare = view_cut(&query, '?');
	bool ok = false;

	put_decoded(bare, &decoded);
	put_canonical(buf_view(&decoded), &canonical);
	if (!buf_ok(&decoded) || !buf_ok(&canonical)) {
		why->failed = true;
		goto out;
	}
	ok = view_eq(path, buf_view(&canonical));
	if (ok)
		goto out;
	buf_add_str(
		why, query.p ? "holds a query; write " : "is not a canonical path; write ");
	buf_add(why, buf_view(&canonical));
	if (query.p) {
		buf_add_str(why, " and query = ");
		buf_add(why, query.n ? query : VIEW("name=value"));
	}
out:
	buf_release(&decoded);
	buf_release(&canonical);
	return ok;
}

static char *copy(struct view v, struct buf *why)
{
	char *s = strndup(v.p ? v.p : "", v.n);

	if (!s)
		why->failed = true;
	return s;
}

/* Adds a copy of v to the list at *list, which has *n. */
static bool append(char ***list, size_t *n, struct view v, struct buf *why)
{
	char **grown = realloc(*list, (*n + 1) * sizeof(*grown));

	if (!grown) {
		why->failed = true;
		return false;
	}
	*list = grown;
	grown[*n] = copy(v, why);
	return grown[*n] && ++*n;
}

bool pattern_in_list(char *const *list, size_t n, struct view v)
{
	for (size_t i = 0; i < n; i++) {
		if (view_eq(view_str(list[i]), v))
			return true;
	}
	return false;
}

/* The methods registered with IANA, and PURGE. A list, since a method misspelt would
 * be a limit that never holds. */
static bool is_method(struct view v)
{
	static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "DELETE",
		"PATCH", "OPTIONS", "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN",
		"CHECKOUT", "CONNECT", "COPY", "LABEL", "LINK", "LOCK", "MERGE",
		"MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE",
		"ORDERPATCH", "PRI", "PROPFIND", "PROPPATCH", "PURGE", "QUERY", "REBIND",
		"REPORT", "SEARCH", "TRACE", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK",
		"UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL" };

	for (size_t i = 0; i < COUNT_OF(methods); i++) {
		if (view_eq(v, view_str(methods[i])))
			return true;
	}
	return false;
}

static bool read_methods(struct view text, struct pattern_leaf *leaf, struct buf *why)
{
	if (view_eq(text, VIEW("*")))
		return true;
	while (text.p) {
		struct view one = view_cut(&text, ',');

		if (!is_method(one)) {
			buf_addf(why,
				"names the method \"%.*s\", which is none; write GET, POST "
				"or "
				"the like in capitals, several with ',' and no blank, or * "
				"for "
				"any",
				VIEW_ARG(one));
			return false;
		}
		if (pattern_in_list(leaf->methods, leaf->n_methods, one)) {
			buf_addf(why, "names %.*s twice; write it once", VIEW_ARG(one));
			return false;
		}
		if (!append(&leaf->methods, &leaf->n_methods, one, why))
			return false;
	}
	return true;
}

static bool read_segment(struct view text, bool last, struct segment *out,
	struct pattern_leaf *leaf, struct buf *why)
{
	struct view name;

	out->text = text;
	if (view_eq(text, VIEW("**"))) {
		out->kind = SEGMENT_REST;
		if (!last)
			buf_add_str(why,
				"has something behind **; write ** last, and * for one "
				"segment");
		return last;
	}
	if (memmem(text.p, text.n, "**", 2)) {
		buf_add_str(why,
			"has ** beside something else; write ** as a segment of its "
			"own, or *");
		return false;
	}
	if (text.p[0] == '{' && text.p[text.n - 1] == '}') {
		name = view_of(text.p + 1, text.n - 2);
		out->kind = SEGMENT_NAMED;
		out->text = name;
		if (!word_is_name(name)) {
			buf_addf(why,
				"has the placeholder \"%.*s\"; write a name of letters, "
				"digits "
				"and _ . - in it",
				VIEW_ARG(text));
			return false;
		}
		if (pattern_in_list(leaf->param_names, leaf->n_params, name)) {
			buf_addf(why, "has {%.*s} twice; write another name",
				VIEW_ARG(name));
			return false;
		}
		if (leaf->n_params == PATTERN_PARAMS_MAX) {
			buf_addf(why, "has too many placeholders; write at most %d",
				PATTERN_PARAMS_MAX);
			return false;
		}
		return append(&leaf->param_names, &leaf->n_params, name, why);
	}
	if (memchr(text.p, '{', text.n) || memchr(text.p, '}', text.n)) {
		buf_addf(why,
			"has a brace in \"%.*s\"; a placeholder is a whole segment: write "
			"{name} or *",
			VIEW_ARG(text));
		return false;
	}
	out->kind = memchr(text.p, '*', text.n) ? SEGMENT_GLOB : SEGMENT_LITERAL;
	if (out->kind == SEGMENT_GLOB && text.n > GLOB_MAX) {
		buf_addf(why, "has a segment with * of %zu bytes; write at most %d", text.n,
			GLOB_MAX);
		return false;
	}
	return true;
}

static bool read_path(struct view path, struct pattern *out, struct buf *why)
{
	struct view rest = view_skip(path, 1);

	while (rest.n) {
		struct view one = view_cut(&rest, '/');

		if (out->n_segments == PATTERN_SEGMENTS_MAX) {
			buf_addf(why, "has too many segments; write at most %d",
				PATTERN_SEGMENTS_MAX);
			return false;
		}
		if (!read_segment(one, rest.n == 0, &out->segments[out->n_segments],
			    out->leaf, why))
			return false;
		out->n_segments++;
	}
	return true;
}

static bool read_match(struct view text, struct pattern *out, struct buf *why)
{
	struct view path, methods;
	size_t n = 0;

	while (n < text.n && text.p[n] != ' ' && text.p[n] != '\t')
		n++;
	methods = view_of(text.p, n);
	path = view_trim(view_skip(text, n));
	if (path.n == 0) {
		if (methods.n && methods.p[0] == '/')
			buf_addf(why, "has no method; write * %.*s for any",
				VIEW_ARG(methods));
		else
			buf_add_str(why,
				"has no path; write METHOD PATH, such as POST "
				"/api/login");
		return false;
	}
	if (memchr(path.p, ' ', path.n) || memchr(path.p, '\t', path.n)) {
		buf_add_str(why,
			"has a blank in its path; write one path, with * for a blank in "
			"it");
		return false;
	}
	if (!read_methods(methods, out->leaf, why))
		return false;
	return pattern_path_check(path, why) && read_path(path, out, why);
}

static bool read_host(struct view text, struct pattern *out, struct buf *why)
{
	bool v6 = text.n > 2 && text.p[0] == '[' && text.p[text.n - 1] == ']';
	struct view bare = v6 ? view_of(text.p + 1, text.n - 2) : text;

	for (size_t i = 0; i < bare.n; i++) {
		struct view c = view_of(bare.p + i, 1);

		if (word_is_name(c) || (v6 && c.p[0] == ':'))
			continue;
		buf_add_str(why,
			"is not a host; write its name alone, such as "
			"www.example.org, without port, scheme and *");
		return false;
	}
	if (bare.n == 0 || bare.p[bare.n - 1] == '.') {
		buf_add_str(why,
			bare.n ? "ends in a dot; write it without"
			       : "is empty; write a host, or take the line away for any");
		return false;
	}
	out->host = copy(text, why);
	for (char *p = out->host; p && *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? *p | 0x20 : *p;
	return out->host != NULL;
}

static bool read_query(struct view text, struct pattern_leaf *leaf, struct buf *why)
{
	struct view value = text, name = view_cut(&value, '=');

	if (name.n == 0 || !value.p) {
		buf_add_str(why, "is not name=value; write for example action=submit");
		return false;
	}
	for (size_t i = 0; i < text.n; i++) {
		if (!strchr("&#?;%+ \t", text.p[i]))
			continue;
		buf_add_str(why,
			"is more than one name=value, or encoded; write one, with its "
			"bytes as they are");
		return false;
	}
	leaf->query_name = copy(name, why);
	leaf->query_value = copy(value, why);
	return leaf->query_name && leaf->query_value;
}

void pattern_leaves_free(struct pattern_leaf *leaf)
{
	while (leaf) {
		struct pattern_leaf *next = leaf->next;

		for (size_t i = 0; i < leaf->n_methods; i++)
			free(leaf->methods[i]);
		for (size_t i = 0; i < leaf->n_params; i++)
			free(leaf->param_names[i]);
		free(leaf->methods);
		free(leaf->param_names);
		free(leaf->query_name);
		free(leaf->query_value);
		free(leaf);
		leaf = next;
	}
}

/* Reads one option; why begins with its name and value. */
static bool read_part(const char *option, const char *value, struct buf *why,
	bool (*read)(struct view, struct pattern *, struct buf *), struct pattern *p)
{
	struct buf tail = { 0 };
	bool ok = read(view_trim(view_str(value)), p, &tail);

	if (!ok) {
		buf_addf(why, "%s: ", option);
		mistake_quote(why, view_str(value));
		buf_add_byte(why, ' ');
		buf_add(why, buf_view(&tail));
		why->failed |= !buf_ok(&tail);
	}
	buf_release(&tail);
	return ok;
}

static bool read_query_part(struct view text, struct pattern *p, struct buf *why)
{
	return read_query(text, p->leaf, why);
}

bool pattern_read(const struct pattern_text *text, struct pattern *out, struct buf *why)
{
	*out = (struct pattern){ .leaf = calloc(1, sizeof(*out->leaf)) };
	if (!out->leaf) {
		why->failed = true;
		return false;
	}
	if (!read_part("match", text->match, why, read_match, out))
		return false;
	if (text->host && !read_part("host", text->host, why, read_host, out))
		return false;
	if (text->query && !read_part("query", text->query, why, read_query_part, out))
		return false;
	if (!out->host)
		out->host = copy(VIEW(""), why);
	return out->host != NULL;
}

void pattern_release(struct pattern *p)
{
	pattern_leaves_free(p->leaf);
	free(p->host);
	*p = (struct pattern){ 0 };
}
