/*
 * config/kinds_variable.c - variables of the operator's own for what a backend runs:
 * env.NAME = value.
 *
 * What a variable of the request says comes from the web server, request by request, and
 * programs decide by it who is asking and for what: here it would be the same for
 * everybody, so it is refused. So is what makes a program load or begin with something
 * else than itself: who needs that writes a program of two lines, where it can be seen.
 */
#include <stdlib.h>

#include "config/kinds.h"

#define NAME_MAX_BYTES 64

/* A name that ends with '_' stands for all that begin with it. */
static const struct {
	const char *name, *why;
} refused[] = {
	{ "HTTP_", "has the name of a field that clients send; write one without HTTP_" },
	{ "WEIR_", "has a name that is weir's own; write one without WEIR_" },
	{ "FCGI_", "has a name that is FastCGI's own; write one without FCGI_" },
	{ "PATH",
		"is what the option path is for; write path = "
		"/usr/local/bin:/usr/bin:/bin" },
};

static const char *const of_loaders[] = { "LD_", "BASH_ENV", "BASHOPTS", "ENV",
	"GCONV_PATH", "GLIBC_TUNABLES", "IFS", "PS4", "SHELLOPTS" };

/* RFC 3875, section 4.1, and what web servers send beside that. */
static const char *const of_requests[] = { "AUTH_TYPE", "CONTENT_LENGTH", "CONTENT_TYPE",
	"DOCUMENT_ROOT", "DOCUMENT_URI", "GATEWAY_INTERFACE", "HTTPS", "PATH_INFO",
	"PATH_TRANSLATED", "QUERY_STRING", "REMOTE_ADDR", "REMOTE_HOST", "REMOTE_IDENT",
	"REMOTE_PORT", "REMOTE_USER", "REQUEST_METHOD", "REQUEST_SCHEME", "REQUEST_URI",
	"SCRIPT_FILENAME", "SCRIPT_NAME", "SERVER_ADDR", "SERVER_NAME", "SERVER_PORT",
	"SERVER_PROTOCOL", "SERVER_SOFTWARE" };

static bool stands_for(const char *known, struct view name)
{
	struct view k = view_str(known);

	return k.p[k.n - 1] == '_' ? view_starts(name, k) : view_eq(name, k);
}

static bool is_variable(struct view name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool letter = ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';

		if (!letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return name.n > 0 && name.n <= NAME_MAX_BYTES;
}

/* Why the name is refused, or NULL. */
static const char *wrong_name(struct view name)
{
	if (!is_variable(name))
		return "has a name that no variable can have; write up to 64 letters, "
		       "digits "
		       "and _, the first no digit, as in env.GIT_PROJECT_ROOT = /srv/git";
	for (size_t i = 0; i < COUNT_OF(refused); i++)
		if (stands_for(refused[i].name, name))
			return refused[i].why;
	for (size_t i = 0; i < COUNT_OF(of_loaders); i++)
		if (stands_for(of_loaders[i], name))
			return "would make programs begin with something else; write a "
			       "program "
			       "that sets it and starts the one that needs it";
	for (size_t i = 0; i < COUNT_OF(of_requests); i++)
		if (stands_for(of_requests[i], name))
			return "would be the same for every request, which the web server "
			       "describes; set it there, or write another name";
	return NULL;
}

static bool read_variable(const struct option *o, void *field, size_t *n,
	struct view suffix, struct view value, struct buf *why)
{
	struct variable *list = *(struct variable **)field, *slot;
	const char *wrong = wrong_name(suffix);

	(void)o;
	if (wrong) {
		buf_add_str(why, wrong);
		return false;
	}
	for (size_t i = 0; i < *n; i++) {
		if (!view_eq(suffix, view_str(list[i].name)))
			continue;
		buf_addf(why, "is a second value for %s; write one", list[i].name);
		return false;
	}
	slot = kind_list_room(field, *n, sizeof(*slot), why);
	if (!slot || !kind_keep_text(&slot->name, suffix, why))
		return false;
	if (!kind_keep_text(&slot->value, value, why)) {
		free(slot->name);
		return false;
	}
	++*n;
	return true;
}

static void release_variables(void *field, size_t *n)
{
	struct variable *list = *(struct variable **)field;

	for (size_t i = 0; i < *n; i++) {
		free(list[i].name);
		free(list[i].value);
	}
	kind_release_list(field, n);
}
const struct option_kind kind_variables = { "TEXT", NULL, release_variables,
	read_variable };
