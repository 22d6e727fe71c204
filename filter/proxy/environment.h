/*
 * proxy/environment.h - the environment of a CGI program (RFC 3875, section 4.1).
 *
 * It is built from an allow-list: what a web server sends beside that (its own PATH,
 * an LD_PRELOAD set by whoever can reach the socket) never gets to a program. What
 * the RFC demands and the web server did not send has a default; what the operator wants
 * to be there (backend.env) is added. Pure: no I/O, and nothing of weir's own environment
 * is in it.
 */
#ifndef WEIR_PROXY_ENVIRONMENT_H
#define WEIR_PROXY_ENVIRONMENT_H

#include "config/config.h"
#include "front/request.h"

/* Where the program was found; takes the place of the web server's idea of it. */
struct environment_paths {
	struct view script_filename, script_name;
	struct view path_info, path_translated; /* empty: left out */
};

struct environment_input {
	const struct request *request;
	const struct environment_paths *paths;
	const char *path;           /* PATH */
	const struct variable *env; /* the operator's (backend.env) */
	size_t n_env;
	const struct pair *extra; /* variables weir adds */
	size_t n_extra;
	uint64_t body_bytes;
	bool length_given; /* CONTENT_LENGTH is to be there, even if it is 0 */
};

struct environment {
	char **vars; /* "NAME=value", the last NULL: as execve() wants it */
	size_t n;
	char *text; /* what vars point into */
};

/* False when memory is out; *out is then empty. */
bool environment_build(struct environment *out, const struct environment_input *in);
void environment_release(struct environment *e);
/* A variable's value, NULL when it is not there. Borrowed. */
const char *environment_get(const struct environment *e, const char *name);

#endif
