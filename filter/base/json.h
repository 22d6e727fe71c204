/*
 * base/json.h - JSON as text.
 */
#ifndef WEIR_BASE_JSON_H
#define WEIR_BASE_JSON_H

#include <jansson.h>

#include "base/buf.h"

/* Appends value, written with jansson's flags. NULL, or no memory on the way, fails the
 * buffer: json_dumps() would leave out a key that found none. */
void json_put(struct buf *out, const json_t *value, size_t flags);

#endif
