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

/* The cookies of that name; the last of them in *value. */
static size_t find_cookies(const struct request *rq, struct view name, struct view *value)
{
	struct cookies all = { .rq = rq };
	struct view found, its;
	size_t n = 0;

	while (cookies_next(&all, &found, &its)) {
		if (!view_eq(found, name))
			continue;
		*value = its;
		n++;
	}
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
