#include "base/utf8.h"

/* Unicode, table 3-7. */
size_t utf8_len(struct view v)
{
	const unsigned char *p = (const unsigned char *)v.p;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (v.n == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	if (p[0] == 0xed)
		high = 0x9f;
	if (p[0] == 0xf0)
		low = 0x90;
	if (p[0] == 0xf4)
		high = 0x8f;
	if (v.n < n || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return n;
}

bool utf8_valid(struct view v)
{
	while (v.n) {
		size_t n = utf8_len(v);

		if (n == 0)
			return false;
		v = view_skip(v, n);
	}
	return true;
}
