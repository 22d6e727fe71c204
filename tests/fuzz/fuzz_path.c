/*
 * fuzz_path.c - the canonical form of paths.
 *
 * It is one: canonical already, it stays as it is, however it is spelt. Every segment of
 * it says something, and what stands before it in a buffer does not matter.
 */
#include "fuzz.h"
#include "limit/path.h"

/* Every segment of a canonical path says something. */
static void check_segments(struct view path)
{
	MUST(path.n >= 1 && path.p[0] == '/');
	if (path.n == 1)
		return;
	path = view_skip(path, 1);
	while (path.p) {
		struct view segment = view_cut(&path, '/');

		MUST(segment.n > 0);
		MUST(!view_eq(segment, VIEW(".")) && !view_eq(segment, VIEW("..")));
	}
}

/* With every byte encoded it is the same path. */
static void check_spelling(struct view path)
{
	struct buf encoded = { 0 }, again = { 0 };

	for (size_t i = 0; i < path.n; i++) {
		const char *digits = i % 2 ? "0123456789abcdef" : "0123456789ABCDEF";
		unsigned char c = (unsigned char)path.p[i];

		buf_add(&encoded,
			view_of((const char[]){ '%', digits[c >> 4], digits[c & 15] }, 3));
	}
	path_canonical(buf_view(&encoded), &again);
	MUST(buf_ok(&encoded) && view_eq(path, buf_view(&again)));
	buf_release(&encoded);
	buf_release(&again);
}

/* What is left is the end of the path, from a slash on. */
static void check_strip(struct view path)
{
	static char first[] = "/index.php", second[] = "/a/b", third[] = "/a";
	char *const prefixes[] = { first, second, third };
	struct view left = path_strip(path, prefixes, COUNT_OF(prefixes));

	MUST(left.n >= 1 && left.p[0] == '/' && left.n <= path.n);
	MUST(left.n == 1 || left.p + left.n == path.p + path.n);
	MUST(left.n > 1 || left.p >= path.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view raw = fuzz_copy(view_of((const char *)data, size));
	struct buf once = { 0 }, twice = { 0 }, behind = { 0 };
	struct view path;

	path_canonical(raw, &once);
	MUST(buf_ok(&once));
	path = buf_view(&once);
	MUST(path.n <= raw.n + 1);
	check_segments(path);
	check_spelling(path);
	check_strip(path);

	/* What has nothing left to decode and no fragment to lose stays as it is. */
	if (!memchr(path.p, '%', path.n) && !memchr(path.p, '#', path.n)) {
		path_canonical(path, &twice);
		MUST(view_eq(path, buf_view(&twice)));
	}

	/* Behind other bytes it comes out the same. */
	buf_add_str(&behind, "/../");
	path_canonical(raw, &behind);
	MUST(view_eq(view_skip(buf_view(&behind), 4), path));

	buf_release(&once);
	buf_release(&twice);
	buf_release(&behind);
	fuzz_drop(raw);
	return 0;
}
