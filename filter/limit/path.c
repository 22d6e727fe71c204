/*
 * limit/path.c - one name for each path.
 *
 * Web servers and applications see through /api//eval/%73ubmit; a rule that does not
 * would be passed over by it. Decoding comes first, so an encoded slash or dot is a
 * slash or dot, and it comes once, so %252F stays the three characters "%2F". What
 * applications differ about is left alone: backslashes, ";parameters", case, and a NUL
 * byte from %00.
 */
#include "limit/path.h"

char percent_decode(struct view *in)
{
	char c = in->p[0];
	int byte = c == '%' ? view_escape(*in) : -1; /* called for each byte of a path */

	*in = view_skip(*in, byte < 0 ? 1 : 3);
	return byte < 0 ? c : (char)byte;
}

/* Joins segment to the n bytes of canonical path at p, where "" is the root, and
 * returns the new length. segment lies behind them in the same memory. */
static size_t join(char *p, size_t n, struct view segment)
{
	if (segment.n == 0 || view_eq(segment, VIEW(".")))
		return n;
	if (view_eq(segment, VIEW(".."))) {
		while (n > 0 && p[--n] != '/')
			;
		return n;
	}
	p[n++] = '/';
	memmove(p + n, segment.p, segment.n);
	return n + segment.n;
}

void path_canonical(struct view raw, struct buf *out)
{
	struct view rest;
	size_t n = 0;
	char *p;

	/* One more than the decoded bytes: where raw lacks its slash, one is added. */
	if (!buf_reserve(out, raw.n + 1))
		return;
	raw = view_cut(&raw, '#');
	p = out->p + out->n;
	for (rest = raw; rest.n;)
		p[++n] = percent_decode(&rest);
	rest = view_of(p + 1, n);
	n = 0;
	while (rest.n)
		n = join(p, n, view_cut(&rest, '/'));
	if (n == 0)
		p[n++] = '/';
	out->n += n;
}

struct view path_strip(struct view path, char *const *prefixes, size_t n)
{
	size_t longest = 0;

	for (size_t i = 0; i < n; i++) {
		struct view prefix = view_str(prefixes[i]);

		if (prefix.n > longest && view_starts(path, prefix) &&
			(path.n == prefix.n || path.p[prefix.n] == '/'))
			longest = prefix.n;
	}
	/* Of the prefix alone its own first byte is the root. */
	return longest == path.n && path.n ? view_of(path.p, 1) : view_skip(path, longest);
}
