/*
 * stingy.c - no memory in large blocks, in place of calloc(), for drivers of hiredis.
 *
 * A reply of "*1000000000" makes it ask for eight gigabytes. It copes when there are none;
 * to find them takes seconds.
 */
#include <errno.h>

#include "fuzz.h"

#define LARGEST (1 << 20)

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	if (size && n > LARGEST / size) {
		errno = ENOMEM;
		return NULL;
	}
	return __real_calloc(n, size);
}
