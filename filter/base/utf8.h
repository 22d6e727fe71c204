/*
 * base/utf8.h - where bytes are UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing
 * above U+10FFFF.
 */
#ifndef WEIR_BASE_UTF8_H
#define WEIR_BASE_UTF8_H

#include "base/view.h"

/* Bytes of the character v begins with; 0 when it begins with none, or is empty. */
size_t utf8_len(struct view v);
/* All of it. */
bool utf8_valid(struct view v);

#endif
