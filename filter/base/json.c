#include "base/json.h"

static int append(const char *p, size_t n, void *out)
{
	buf_add(out, view_of(p, n));
	return 0;
}

void json_put(struct buf *out, const json_t *value, size_t flags)
{
	if (!value || json_dump_callback(value, append, out, flags) < 0)
		out->failed = true;
}
