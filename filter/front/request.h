/*
 * front/request.h - the head of a request: its parameters, as they came.
 *
 * Parameters are CGI meta-variables (RFC 3875, section 4.1) and whatever else the
 * web server added. They are kept in the order and encoding they arrived in, so a
 * FastCGI backend gets them unchanged.
 */
#ifndef WEIR_FRONT_REQUEST_H
#define WEIR_FRONT_REQUEST_H

#include "fastcgi/pairs.h"

#define REQUEST_ID_LEN 16

struct request {
	struct buf head;     /* the name-value pairs, encoded as in PARAMS */
	struct pair *params; /* views into head; set by request_index() */
	size_t n_params;
	uint16_t role;               /* FCGI_RESPONDER or FCGI_AUTHORIZER */
	char id[REQUEST_ID_LEN + 1]; /* drawn at random, hexadecimal */
};

void request_init(struct request *rq, uint16_t role);
void request_release(struct request *rq);

/* Reads the pairs once head is whole. False, with errno, when they are malformed (EBADMSG)
 * or memory is out (ENOMEM). */
bool request_index(struct request *rq);

/* A parameter by its exact name, or the empty view (p is NULL when there is none). Of
 * several the last counts: nginx sends what "fastcgi_param" says behind an "include" beside
 * what it is to replace, and php-fpm takes the last. Borrowed: as long as the request. */
struct view request_param(const struct request *rq, const char *name);
/* Whether a later one takes the place of the parameter at i. Never of a header's: all of
 * those were sent by the client. */
bool request_is_replaced(const struct request *rq, size_t i);
/* How many parameters have that name. A web server may repeat a header's. */
size_t request_param_count(const struct request *rq, const char *name);

/* The cookies of all Cookie fields, in their order. From { .rq = rq }. */
struct cookies {
	const struct request *rq;
	size_t at; /* the next parameter */
	struct view rest;
};
/* The next of them, its value without quotes; nothing is decoded. False at the end.
 * Borrowed: as long as the request. */
bool cookies_next(struct cookies *c, struct view *name, struct view *value);

/* CONTENT_LENGTH. False when it is there but is no number; absent and empty both
 * give *given = false. */
bool request_content_length(const struct request *rq, uint64_t *out, bool *given);

/* The path and the query as the client sent them, undecoded: REQUEST_URI cut at its
 * '?', else SCRIPT_NAME + PATH_INFO (appended to scratch, with '%' and '#' encoded, for
 * these two are decoded already) and QUERY_STRING. An absolute URI loses its scheme and
 * authority. Borrowed: as long as request and scratch. */
struct request_target {
	struct view path, query;
};
struct request_target request_target(const struct request *rq, struct buf *scratch);

#endif
