#include "client/token.h"

static bool is_token(struct view v)
{
	if (v.n == 0 || v.n > TOKEN_MAX)
		return false;
	for (size_t i = 0; i < v.n; i++)
		if (v.p[i] <= ' ' || v.p[i] > '~')
			return false;
	return true;
}

/* What an Authorization field says where its scheme is Bearer, in any case (RFC 9110,
 * section 11.1); else nothing. */
static struct view after_bearer(struct view value)
{
	struct view scheme;

	value = view_trim(value);
	scheme = view_cut(&value, ' ');
	return view_eq_nocase(scheme, VIEW("Bearer")) ? view_trim(value) : VIEW("");
}

/* Without the quotes around it that RFC 6265, section 4.1.1, allows. */
static struct view unquote(struct view v)
{
	if (v.n >= 2 && v.p[0] == '"' && v.p[v.n - 1] == '"')
		return view_of(v.p + 1, v.n - 2);
	return v;
}

/* The cookies of that name in one header field; the last of them in *value. */
static size_t find_cookie(struct view field, struct view name, struct view *value)
{
	size_t n = 0;

	while (field.n) {
		struct view rest = view_cut(&field, ';');
		struct view found = view_trim(view_cut(&rest, '='));

		if (!view_eq(found, name))
			continue;
		*value = unquote(view_trim(rest));
		n++;
	}
	return n;
}

/* A web server may hand on several Cookie fields: all of them are looked through. */
static size_t find_cookies(const struct request *rq, struct view name, struct view *value)
{
	size_t n = 0;

	for (size_t i = 0; i < rq->n_params; i++)
		if (view_eq(rq->params[i].name, VIEW("HTTP_COOKIE")))
			n += find_cookie(rq->params[i].value, name, value);
	return n;
}

struct view token_find(const struct config *c, const struct request *rq)
{
	const char *header = c->client.token_header, *cookie = c->client.token_cookie;
	struct view token = VIEW("");
	size_t given = 0;

	if (header && *header) {
		given = request_param_count(rq, header);
		token = view_trim(request_param(rq, header));
		if (strcmp(header, "HTTP_AUTHORIZATION") == 0)
			token = after_bearer(token);
	}
	if (token.n == 0 && given <= 1 && cookie && *cookie)
		given = find_cookies(rq, view_str(cookie), &token);
	return given == 1 && is_token(token) ? token : VIEW("");
}
