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
 * encoded ("%zz") stays as it is; a fragment ("#top") names no resource and goes, since
 * web servers drop it (RFC 3986, section 3.5). Always begins with '/'. Linear in raw.n;
 * when memory is out buf_ok(out) says so and nothing is appended. */
void path_canonical(struct view raw, struct buf *out);

/* What is left of a canonical path without the longest of the n prefixes that it is or
 * that a '/' follows in it, once: /index.php/api is /api, /index.phpx stays. The prefixes
 * are canonical and not "/". Borrowed from path; always begins with '/'. */
struct view path_strip(struct view path, char *const *prefixes, size_t n);

/* Takes one character from the front of *in, which is not empty, with its
 * percent-encoding undone. */
char percent_decode(struct view *in);

#endif
