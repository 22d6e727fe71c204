#include "base/view.h"

struct view view_cut(struct view *v, char c)
{
	struct view head = *v;
	const char *at = v->n ? memchr(v->p, c, v->n) : NULL;

	if (!at) {
		*v = (struct view){ NULL, 0 };
		return head;
	}
	head.n = (size_t)(at - v->p);
	*v = view_skip(*v, head.n + 1);
	return head;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct view view_trim(struct view v)
{
	while (v.n && is_blank(v.p[0]))
		v = view_skip(v, 1);
	while (v.n && is_blank(v.p[v.n - 1]))
		v.n--;
	return v;
}

bool view_number(struct view v, uint64_t max, uint64_t *out)
{
	uint64_t sum = 0;

	if (v.n == 0)
		return false;
	for (size_t i = 0; i < v.n; i++) {
		unsigned digit = (unsigned char)v.p[i] - '0';

		if (digit > 9 || sum > (max - digit) / 10 || (max < digit))
			return false;
		sum = sum * 10 + digit;
	}
	*out = sum;
	return true;
}

int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int view_escape(struct view v)
{
	int high, low;

	if (v.n < 3 || v.p[0] != '%')
		return -1;
	high = hex_digit(v.p[1]);
	low = hex_digit(v.p[2]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}
