/*
 * limit/query.h - parameters of a query as applications read them.
 *
 * Pairs are separated by '&' or ';' and encoded as forms do (WHATWG URL, section 5.1). A
 * fragment is none of the server's business; some web servers pass it on, so it is cut
 * off here.
 */
#ifndef WEIR_LIMIT_QUERY_H
#define WEIR_LIMIT_QUERY_H

#include "base/buf.h"

/* Takes the next pair from *query, still encoded. False when there is none. */
bool query_next(struct view *query, struct view *name, struct view *value);

/* Whether a name, still encoded, is what an application would find under wanted. */
bool query_name_is(struct view encoded, const char *wanted);
bool query_value_is(struct view encoded, const char *wanted);

/* Appends encoded without its encoding. */
void query_decode(struct view encoded, struct buf *out);

#endif
