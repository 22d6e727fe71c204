/*
 * limit/path.h - the canonical form of a path, in which rules are matched.
 *
 * Percent-encoding is undone once, dot segments, double slashes and trailing
 * slashes are removed (RFC 3986, section 5.2.4, after decoding), case is kept. So
 * /api//eval/%73ubmit/ and /api/eval/x/../submit both are /api/eval/submit.
 */
#ifndef WEIR_LIMIT_PATH_H
#define WEIR_LIMIT_PATH_H

#include "base/buf.h"

/* Appends the canonical form of raw (no query in it) to out. What is wrongly
 * encoded ("%zz") stays as it is. Always begins with '/'. */
void path_canonical(struct view raw, struct buf *out);

#endif
