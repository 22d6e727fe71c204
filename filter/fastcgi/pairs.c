#include "fastcgi/pairs.h"

static bool read_length(struct view *in, size_t *out)
{
	const unsigned char *p = (const unsigned char *)in->p;

	if (in->n == 0)
		return false;
	if (p[0] < 0x80) {
		*out = p[0];
		*in = view_skip(*in, 1);
		return true;
	}
	if (in->n < 4)
		return false;
	*out = (size_t)(p[0] & 0x7f) << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	*in = view_skip(*in, 4);
	return true;
}

enum pairs_result pairs_next(struct view *in, struct pair *out)
{
	size_t name_n, value_n;

	if (in->n == 0)
		return PAIRS_END;
	if (!read_length(in, &name_n) || !read_length(in, &value_n))
		return PAIRS_BAD;
	/* Each is compared on its own, so their sum cannot wrap. */
	if (name_n > in->n || value_n > in->n - name_n)
		return PAIRS_BAD;
	out->name = view_of(in->p, name_n);
	out->value = view_of(in->p + name_n, value_n);
	*in = view_skip(*in, name_n + value_n);
	return PAIRS_PAIR;
}

static void put_length(struct buf *b, size_t n)
{
	const char four[4] = { (char)(n >> 24 | 0x80), (char)(n >> 16), (char)(n >> 8),
		(char)n };

	if (n < 0x80)
		buf_add_byte(b, (char)n);
	else
		buf_add(b, view_of(four, sizeof(four)));
}

void pairs_put(struct buf *b, struct view name, struct view value)
{
	put_length(b, name.n);
	put_length(b, value.n);
	buf_add(b, name);
	buf_add(b, value);
}

bool pairs_put_params(struct buf *b, uint16_t id, struct view pairs)
{
	struct view left = pairs;
	const char *start = pairs.p, *end = pairs.p;
	struct pair pair;

	for (;;) {
		enum pairs_result got = pairs_next(&left, &pair);
		const char *next = got == PAIRS_PAIR ? pair.value.p + pair.value.n : end;

		if (got == PAIRS_BAD)
			return false;
		if (got == PAIRS_END || next - start > RECORD_CONTENT_MAX) {
			record_put_stream(
				b, FCGI_PARAMS, id, view_of(start, (size_t)(end - start)));
			start = end;
		}
		if (got == PAIRS_END)
			break;
		if (next - start > RECORD_CONTENT_MAX)
			return false;
		end = next;
	}
	record_end_stream(b, FCGI_PARAMS, id);
	return true;
}
