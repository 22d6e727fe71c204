#include "front/request.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

#define ID_BYTES (REQUEST_ID_LEN / 2)

/* The next random bytes for an id. The kernel is asked once for many requests. */
static const unsigned char *random_id(void)
{
	static _Thread_local unsigned char pool[128 * ID_BYTES];
	static _Thread_local size_t used = sizeof(pool);

	if (used == sizeof(pool)) {
		randombytes_buf(pool, sizeof(pool));
		used = 0;
	}
	used += ID_BYTES;
	return pool + used - ID_BYTES;
}

void request_init(struct request *rq, uint16_t role)
{
	*rq = (struct request){ .role = role };
	sodium_bin2hex(rq->id, sizeof(rq->id), random_id(), ID_BYTES);
}

void request_release(struct request *rq)
{
	buf_release(&rq->head);
	free(rq->params);
	rq->params = NULL;
	rq->n_params = 0;
}

bool request_index(struct request *rq)
{
	struct view in = buf_view(&rq->head);
	struct pair pair;
	enum pairs_result got;
	size_t n = 0;

	errno = ENOMEM; /* of the head's bytes too some may have found no room */
	if (!buf_ok(&rq->head))
		return false;
	while ((got = pairs_next(&in, &pair)) == PAIRS_PAIR)
		n++;
	if (got == PAIRS_BAD) {
		errno = EBADMSG;
		return false;
	}
	if (n == 0)
		return true;
	rq->params = calloc(n, sizeof(*rq->params));
	if (!rq->params)
		return false;
	in = buf_view(&rq->head);
	while (rq->n_params < n)
		pairs_next(&in, &rq->params[rq->n_params++]);
	return true;
}

struct view request_param(const struct request *rq, const char *name)
{
	struct view wanted = view_str(name);

	for (size_t i = rq->n_params; i-- > 0;)
		if (view_eq(rq->params[i].name, wanted))
			return rq->params[i].value;
	return (struct view){ NULL, 0 };
}

/* A server's own parameters stand together. Looking no farther bounds what a peer can make
 * of it with thousands of names. */
#define REPLACED_WITHIN 512

bool request_is_replaced(const struct request *rq, size_t i)
{
	struct view name = rq->params[i].name;
	size_t end = rq->n_params - i > REPLACED_WITHIN ? i + REPLACED_WITHIN
							: rq->n_params;

	if (view_starts(name, VIEW("HTTP_")))
		return false;
	while (++i < end)
		if (view_eq(rq->params[i].name, name))
			return true;
	return false;
}

size_t request_param_count(const struct request *rq, const char *name)
{
	struct view wanted = view_str(name);
	size_t n = 0;

	for (size_t i = 0; i < rq->n_params; i++)
		n += view_eq(rq->params[i].name, wanted);
	return n;
}

bool cookies_next(struct cookies *c, struct view *name, struct view *value)
{
	while (c->rest.n == 0) {
		const struct pair *p;

		if (c->at == c->rq->n_params)
			return false;
		p = &c->rq->params[c->at++];
		if (view_eq(p->name, VIEW("HTTP_COOKIE")))
			c->rest = p->value;
	}
	*value = view_cut(&c->rest, ';');
	*name = view_trim(view_cut(value, '='));
	*value = view_trim(*value);
	/* Quotes are no part of it (RFC 6265, section 4.1.1). */
	if (value->n >= 2 && value->p[0] == '"' && value->p[value->n - 1] == '"')
		*value = view_of(value->p + 1, value->n - 2);
	return true;
}

bool request_content_length(const struct request *rq, uint64_t *out, bool *given)
{
	struct view text = view_trim(request_param(rq, "CONTENT_LENGTH"));

	*given = text.n > 0;
	return !*given || view_number(text, INT64_MAX, out);
}

/* An absolute URI ("http://host/path") without scheme and authority. */
static struct view without_authority(struct view uri)
{
	struct view rest = uri, scheme = view_cut(&rest, ':');

	if (uri.n == 0 || uri.p[0] == '/' || !view_starts(rest, VIEW("//")) ||
		memchr(scheme.p, '?', scheme.n))
		return uri;
	rest = view_skip(rest, 2);
	while (rest.n && rest.p[0] != '/' && rest.p[0] != '?')
		rest = view_skip(rest, 1);
	return rest;
}

/* Decoded by the web server; what a URI would have as %25 or %23 is put back, so that
 * it is not decoded again. */
static void add_decoded(struct buf *out, struct view path)
{
	for (size_t i = 0; i < path.n; i++) {
		if (path.p[i] == '%')
			buf_add_str(out, "%25");
		else if (path.p[i] == '#')
			buf_add_str(out, "%23");
		else
			buf_add_byte(out, path.p[i]);
	}
}

struct request_target request_target(const struct request *rq, struct buf *scratch)
{
	struct view uri = without_authority(request_param(rq, "REQUEST_URI"));
	struct request_target target;

	if (uri.n) {
		target.path = view_cut(&uri, '?');
		target.query = uri;
		return target;
	}
	add_decoded(scratch, request_param(rq, "SCRIPT_NAME"));
	add_decoded(scratch, request_param(rq, "PATH_INFO"));
	target.path = buf_view(scratch);
	target.query = request_param(rq, "QUERY_STRING");
	return target;
}
