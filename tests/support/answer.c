/*
 * answer.c - looking into answers: fields, lines, JSON.
 */
#include "support.h"

#include <stdlib.h>

bool pieces_add(struct http_piece **list, size_t *n, int64_t ms, size_t bytes)
{
	if ((*n & (*n - 1)) == 0) { /* a power of two, or none: the list is full */
		struct http_piece *grown = realloc(
			*list, (*n ? *n * 2 : 1) * sizeof(*grown));

		if (!grown)
			return false;
		*list = grown;
	}
	(*list)[(*n)++] = (struct http_piece){ ms, bytes };
	return true;
}

/* How many fields of that name stand in lines ended by LF or CRLF; *first is the first
 * one's value. */
static size_t find_fields(struct view head, const char *name, struct view *first)
{
	size_t n = 0;

	while (head.n) {
		struct view line = view_cut(&head, '\n');
		struct view key = view_cut(&line, ':');

		if (!view_eq_nocase(view_trim(key), view_str(name)))
			continue;
		if (n++ == 0)
			*first = view_trim(line);
	}
	return n;
}

size_t fields_of(struct view head, const char *name)
{
	struct view first;

	return find_fields(head, name, &first);
}

const char *field_of(struct view head, const char *name)
{
	struct view first;

	return find_fields(head, name, &first) ? text("%.*s", VIEW_ARG(first)) : NULL;
}

/* Cuts a CGI answer at its blank line; false when there is none. */
static bool split(const struct fcgi_answer *a, struct view *head, struct view *body)
{
	struct view all = buf_view(&a->out);

	for (size_t i = 0; i < all.n; i++) {
		size_t blank = 0;

		if (all.p[i] != '\n')
			continue;
		if (i + 1 < all.n && all.p[i + 1] == '\n')
			blank = 1;
		else if (i + 2 < all.n && all.p[i + 1] == '\r' && all.p[i + 2] == '\n')
			blank = 2;
		if (!blank)
			continue;
		*head = view_of(all.p, i + 1);
		*body = view_skip(all, i + 1 + blank);
		return true;
	}
	return false;
}

int answer_status(const struct fcgi_answer *a)
{
	struct view head, body, status;
	uint64_t n;

	if (!split(a, &head, &body))
		return 0;
	if (!find_fields(head, "Status", &status))
		return 200;
	return view_number(view_cut(&status, ' '), 999, &n) ? (int)n : -1;
}

size_t answer_fields(const struct fcgi_answer *a, const char *name)
{
	struct view head, body;

	return split(a, &head, &body) ? fields_of(head, name) : 0;
}

const char *answer_field(const struct fcgi_answer *a, const char *name)
{
	struct view head, body;

	return split(a, &head, &body) ? field_of(head, name) : NULL;
}

struct view answer_body(const struct fcgi_answer *a)
{
	struct view head, body;

	return split(a, &head, &body) ? body : view_of(NULL, 0);
}

const char *line_of(struct view body, const char *name)
{
	while (body.n) {
		struct view line = view_cut(&body, '\n');
		struct view value = line, key = view_cut(&value, '=');

		if (key.n < line.n && view_eq(key, view_str(name)))
			return text("%.*s", VIEW_ARG(view_trim(value)));
	}
	return NULL;
}

json_t *json_of(struct view body)
{
	json_error_t why;
	json_t *json = json_loadb(body.p ? body.p : "", body.n, 0, &why);

	if (!json)
		fail("not JSON (%s): %.*s", why.text, VIEW_ARG(body));
	return json;
}
