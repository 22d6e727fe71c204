/*
 * The canonical form of paths, under any bytes.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined -std=gnu11 -D_GNU_SOURCE -Ifilter \
 *		tests/fuzz/fuzz_path.c filter/limit/path.c filter/base/buf.c \
 *		filter/base/view.c -o fuzz_path
 *	./fuzz_path -max_len=4096
 */
#include <stdlib.h>

#include "limit/path.h"

/* abort() rather than assert(): the driver must not lose its checks to NDEBUG. */
static void check(bool holds)
{
	if (!holds)
		abort();
}

/* Every segment of a canonical path says something. */
static void check_segments(struct view path)
{
	check(path.n >= 1 && path.p[0] == '/');
	if (path.n == 1)
		return;
	path = view_skip(path, 1);
	while (path.p) {
		struct view segment = view_cut(&path, '/');

		check(segment.n > 0);
		check(!view_eq(segment, VIEW(".")) && !view_eq(segment, VIEW("..")));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view raw = view_of((const char *)data, size);
	struct buf once = { 0 }, twice = { 0 }, behind = { 0 };
	struct view path;

	path_canonical(raw, &once);
	check(buf_ok(&once));
	path = buf_view(&once);
	check(path.n <= raw.n + 1);
	check_segments(path);

	/* What has nothing left to decode and no fragment to lose stays as it is. */
	if (!memchr(path.p, '%', path.n) && !memchr(path.p, '#', path.n)) {
		path_canonical(path, &twice);
		check(view_eq(path, buf_view(&twice)));
	}

	/* Behind other bytes it comes out the same. */
	buf_add_str(&behind, "/../");
	path_canonical(raw, &behind);
	check(view_eq(view_skip(buf_view(&behind), 4), path));

	buf_release(&once);
	buf_release(&twice);
	buf_release(&behind);
	return 0;
}
