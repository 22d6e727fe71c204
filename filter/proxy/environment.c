/*
 * proxy/environment.c - building the environment of a CGI program.
 *
 * Three tables say it all: what is passed on as it came, what has a default, what is
 * never passed. A request field that a web server repeats is joined into one
 * variable, since an environment has one value for each name; of any other variable
 * the last counts. An empty one is left out: RFC 3875, section 4.1, makes no difference,
 * but a program that only asks whether REMOTE_USER or HTTPS is there does. A value with a
 * NUL in it cannot be a variable's and is left out (cut off it would be another value).
 */
#include "proxy/environment.h"

#include <stdlib.h>

#include "base/table.h"

/* Passed on as they came. Those weir decides are not here: CONTENT_LENGTH,
 * GATEWAY_INTERFACE, PATH, PATH_INFO, PATH_TRANSLATED, SCRIPT_FILENAME, SCRIPT_NAME. */
static const struct {
	const char *name;
	const char *otherwise; /* RFC 3875 demands it; NULL: may be absent */
} passed[] = {
	{ "AUTH_TYPE", NULL },
	{ "CONTENT_TYPE", NULL },
	{ "DOCUMENT_ROOT", NULL },
	{ "DOCUMENT_URI", NULL },
	{ "HTTPS", NULL },
	{ "REDIRECT_STATUS", NULL }, /* php-cgi refuses to run without it */
	/* No client has this address, so no program can take it for a trusted one. */
	{ "REMOTE_ADDR", "0.0.0.0" },
	{ "REMOTE_HOST", NULL },
	{ "REMOTE_IDENT", NULL },
	{ "REMOTE_PORT", NULL },
	{ "REMOTE_USER", NULL },
	{ "REQUEST_METHOD", "GET" },
	{ "REQUEST_SCHEME", NULL },
	{ "REQUEST_URI", NULL },
	{ "SERVER_ADDR", NULL },
	{ "SERVER_NAME", "localhost" },
	{ "SERVER_PROTOCOL", "HTTP/1.0" },
	{ "SERVER_SOFTWARE", "weir/" WEIR_VERSION },
};

/* Request fields that do not become variables. */
static const char *const fields_kept_back[] = {
	"HTTP_PROXY",             /* https://httpoxy.org/ */
	"HTTP_CONTENT_LENGTH",    /* some servers send these beside the variables */
	"HTTP_CONTENT_TYPE",      /* without HTTP_, and programs see two values */
	"HTTP_TRANSFER_ENCODING", /* no longer true: the body comes with its length */
};

static void put(struct buf *text, struct view name, struct view value)
{
	if (value.n && memchr(value.p, '\0', value.n))
		return;
	buf_add(text, name);
	buf_add_byte(text, '=');
	buf_add(text, value);
	buf_add_byte(text, '\0');
}

static void put_str(struct buf *text, const char *name, struct view value)
{
	put(text, view_str(name), value);
}

/* A field's variable: "HTTP_" and what a header's name can turn into. Anything else
 * (an '=' or a NUL) would be read as another variable. */
static bool is_field(struct view name)
{
	if (!view_starts(name, VIEW("HTTP_")) || name.n == 5)
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		if (!(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') &&
			c != '_')
			return false;
	}
	for (size_t i = 0; i < COUNT_OF(fields_kept_back); i++)
		if (view_eq_nocase(name, view_str(fields_kept_back[i])))
			return false;
	return true;
}

/* One field and those of the same name behind it. */
struct field {
	struct table_node node;
	struct view value;
	struct field *same, *last;
};

static void put_field(struct buf *text, const struct field *f)
{
	struct view between = view_eq(f->node.key, VIEW("HTTP_COOKIE")) ? VIEW("; ")
									: VIEW(", ");
	struct buf value = { 0 };

	if (!f->same) {
		put(text, f->node.key, f->value);
		return;
	}
	for (const struct field *at = f; at; at = at->same) {
		buf_add(&value, at->value);
		if (at->same)
			buf_add(&value, between);
	}
	if (!buf_ok(&value))
		text->failed = true;
	put(text, f->node.key, buf_view(&value));
	buf_release(&value);
}

/* Found by hash, since how many fields there are, and their names, is up to the client. */
static void put_fields(struct buf *text, const struct request *rq)
{
	struct field *fields = calloc(rq->n_params + 1, sizeof(*fields));
	struct table seen = { 0 };
	size_t n = 0;

	if (!fields) {
		text->failed = true;
		return;
	}
	for (size_t i = 0; i < rq->n_params; i++) {
		struct field *f = &fields[n], *before;
		struct table_node *node;

		if (!is_field(rq->params[i].name))
			continue;
		n++;
		f->node.key = rq->params[i].name;
		f->node.hash = table_hash(f->node.key);
		f->value = rq->params[i].value;
		f->last = f;
		node = table_find(&seen, f->node.key, f->node.hash);
		if (!node) {
			if (!table_insert(&seen, &f->node))
				text->failed = true;
			continue;
		}
		before = CONTAINER_OF(node, struct field, node);
		before->last->same = f;
		before->last = f;
		f->last = NULL;
	}
	for (size_t i = 0; i < n; i++)
		if (fields[i].last)
			put_field(text, &fields[i]);
	table_release(&seen);
	free(fields);
}

/* Set by weir or the operator, whatever the web server says. */
static bool is_extra(const struct environment_input *in, struct view name)
{
	for (size_t i = 0; i < in->n_env; i++)
		if (view_eq(view_str(in->env[i].name), name))
			return true;
	for (size_t i = 0; i < in->n_extra; i++)
		if (view_eq(in->extra[i].name, name))
			return true;
	return false;
}

static bool is_https(const struct request *rq)
{
	struct view https = request_param(rq, "HTTPS");

	return (https.n && !view_eq_nocase(https, VIEW("off"))) ||
		view_eq_nocase(request_param(rq, "REQUEST_SCHEME"), VIEW("https"));
}

static void put_passed(struct buf *text, const struct environment_input *in)
{
	const struct request *rq = in->request;

	for (size_t i = 0; i < COUNT_OF(passed); i++) {
		const char *name = passed[i].name;
		struct view value = request_param(rq, name);

		if (is_extra(in, view_str(name)))
			continue;
		if (value.n == 0 && passed[i].otherwise)
			put_str(text, name, view_str(passed[i].otherwise));
		else if (value.n)
			put_str(text, name, value);
	}
}

static void put_query(struct buf *text, const struct request *rq)
{
	struct buf scratch = { 0 };
	struct view query = request_param(rq, "QUERY_STRING");

	if (!query.p)
		query = request_target(rq, &scratch).query;
	put_str(text, "QUERY_STRING", query);
	buf_release(&scratch);
}

static void put_own(struct buf *text, const struct environment_input *in)
{
	const struct environment_paths *paths = in->paths;
	struct view port = request_param(in->request, "SERVER_PORT");
	struct buf length = { 0 };

	put_str(text, "GATEWAY_INTERFACE", VIEW("CGI/1.1"));
	put_str(text, "PATH", view_str(in->path));
	put_str(text, "SCRIPT_FILENAME", paths->script_filename);
	put_str(text, "SCRIPT_NAME", paths->script_name);
	if (paths->path_info.n) {
		put_str(text, "PATH_INFO", paths->path_info);
		if (paths->path_translated.n)
			put_str(text, "PATH_TRANSLATED", paths->path_translated);
	}
	if (port.n == 0)
		port = is_https(in->request) ? VIEW("443") : VIEW("80");
	put_str(text, "SERVER_PORT", port);
	put_query(text, in->request);
	if (in->length_given) {
		buf_add_u64(&length, in->body_bytes);
		put_str(text, "CONTENT_LENGTH", buf_view(&length));
		if (!buf_ok(&length))
			text->failed = true;
		buf_release(&length);
	}
	for (size_t i = 0; i < in->n_env; i++)
		put_str(text, in->env[i].name, view_str(in->env[i].value));
	for (size_t i = 0; i < in->n_extra; i++)
		put(text, in->extra[i].name, in->extra[i].value);
}

bool environment_build(struct environment *out, const struct environment_input *in)
{
	struct buf text = { 0 };
	struct environment e = { 0 };
	char *at;

	put_own(&text, in);
	put_passed(&text, in);
	put_fields(&text, in->request);
	for (size_t i = 0; buf_ok(&text) && i < text.n; i++)
		e.n += text.p[i] == '\0';
	e.vars = buf_ok(&text) ? calloc(e.n + 1, sizeof(*e.vars)) : NULL;
	if (!e.vars) {
		buf_release(&text);
		return false;
	}
	e.text = at = text.p; /* ends with the NUL of the last variable */
	for (size_t i = 0; i < e.n; i++) {
		e.vars[i] = at;
		at += strlen(at) + 1;
	}
	*out = e;
	return true;
}

void environment_release(struct environment *e)
{
	free(e->vars);
	free(e->text);
	*e = (struct environment){ 0 };
}

const char *environment_get(const struct environment *e, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < e->n; i++)
		if (strncmp(e->vars[i], name, n) == 0 && e->vars[i][n] == '=')
			return e->vars[i] + n + 1;
	return NULL;
}
