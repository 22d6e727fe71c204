/*
 * config/words.h - which words are names, of what, and how far one is from another.
 */
#ifndef WEIR_CONFIG_WORDS_H
#define WEIR_CONFIG_WORDS_H

#include "base/buf.h"

/* Letters, digits and _ . - */
bool word_is_name(struct view text);

/* A header field's name that web servers pass on: letters, digits, - and _ */
bool word_is_header(struct view text);
/* Appends the parameter in which they do (RFC 3875, section 4.1.18): HTTP_X_TENANT for
 * X-Tenant; CONTENT_TYPE and CONTENT_LENGTH have none of the prefix. */
void word_put_parameter(struct view header, struct buf *out);
/* The name of one query parameter: printable ASCII that needs no encoding. */
bool word_is_query_name(struct view text);

/* How many letters one has to change, add or take away to get from a to b, whatever their
 * case. SIZE_MAX for names too long to be mistyped ones of each other. */
size_t word_distance(struct view a, struct view b);
/* So many of them are a slip: the other word was meant. */
#define WORD_SLIP 2

#endif
