#include "store/resp.h"

#include <inttypes.h>
#include <stdio.h>

void resp_put_array(struct buf *b, uint64_t n)
{
	buf_add_byte(b, '*');
	buf_add_u64(b, n);
	buf_add(b, VIEW("\r\n"));
}

void resp_put(struct buf *b, struct view word)
{
	buf_add_byte(b, '$');
	buf_add_u64(b, word.n);
	buf_add(b, VIEW("\r\n"));
	buf_add(b, word);
	buf_add(b, VIEW("\r\n"));
}

void resp_put_number(struct buf *b, uint64_t n)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, n);
	resp_put(b, view_str(digits));
}

void resp_put_request(struct buf *b, size_t n, const struct view *words)
{
	resp_put_array(b, n);
	for (size_t i = 0; i < n; i++)
		resp_put(b, words[i]);
}
