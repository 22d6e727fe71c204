#include "config/words.h"

bool word_is_name(struct view text)
{
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
			!(c >= '0' && c <= '9') && c != '_' && c != '.' && c != '-')
			return false;
	}
	return text.n > 0;
}

bool word_is_header(struct view text)
{
	return word_is_name(text) && !memchr(text.p, '.', text.n);
}

void word_put_parameter(struct view header, struct buf *out)
{
	if (!view_eq_nocase(header, VIEW("Content-Type")) &&
		!view_eq_nocase(header, VIEW("Content-Length")))
		buf_add_str(out, "HTTP_");
	for (size_t i = 0; i < header.n; i++) {
		char c = header.p[i];

		if (c == '-')
			c = '_';
		else if (c >= 'a' && c <= 'z')
			c = (char)(c & ~0x20);
		buf_add_byte(out, c);
	}
}

bool word_is_query_name(struct view text)
{
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];

		if (c <= ' ' || c >= 0x7f || strchr("&#?;%+=", c))
			return false;
	}
	return text.n > 0;
}

#define NEAR_MAX 40

size_t word_distance(struct view a, struct view b)
{
	size_t row[NEAR_MAX + 1], diagonal, above;

	if (a.n > NEAR_MAX || b.n > NEAR_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= b.n; j++)
		row[j] = j;
	for (size_t i = 1; i <= a.n; i++) {
		diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			size_t best = diagonal +
				((a.p[i - 1] | 0x20) != (b.p[j - 1] | 0x20));

			above = row[j];
			best = above + 1 < best ? above + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
			diagonal = above;
			row[j] = best;
		}
	}
	return row[b.n];
}
