/*
 * fuzz.h - what every driver uses.
 *
 * A driver gets bytes nobody meant well with, hands them to one parser of filter/, and
 * holds the parser to promises that can be checked. libFuzzer (run.sh) chooses the
 * bytes; the sanitizers see what goes beyond its bounds.
 */
#ifndef WEIR_TESTS_FUZZ_H
#define WEIR_TESTS_FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv); /* in fuzz.c */
/* A driver may have one: called once, before the first input. */
void fuzz_begin(void);

/* A promise. assert() would be gone in a build without it. */
#define MUST(condition)                                                                    \
	do {                                                                               \
		if (!(condition)) {                                                        \
			fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, \
				#condition);                                               \
			abort();                                                           \
		}                                                                          \
	} while (0)

/* Bytes of their own, so that one read beyond their end is seen; for fuzz_drop(). */
static inline struct view fuzz_copy(struct view v)
{
	char *p = malloc(v.n);

	MUST(p || v.n == 0);
	if (v.n)
		memcpy(p, v.p, v.n);
	return view_of(p, v.n);
}

static inline void fuzz_drop(struct view v)
{
	free((void *)(uintptr_t)v.p);
}

/* The first byte of *in, taken off it; 0 when there is none. */
static inline uint8_t fuzz_byte(struct view *in)
{
	uint8_t byte = in->n ? (uint8_t)in->p[0] : 0;

	*in = view_skip(*in, in->n ? 1 : 0);
	return byte;
}

/* At most n bytes, taken off the front of *in. */
static inline struct view fuzz_take(struct view *in, size_t n)
{
	struct view taken = view_of(in->p, n < in->n ? n : in->n);

	*in = view_skip(*in, taken.n);
	return taken;
}

/* A FastCGI record as the input has it, type, id, length, padding and content, which is
 * taken off *in. */
static inline void fuzz_record(struct view *in, struct buf *b)
{
	uint8_t type = fuzz_byte(in), id = fuzz_byte(in), n = fuzz_byte(in);
	uint8_t padding = fuzz_byte(in) & 7;
	struct view content = fuzz_take(in, n);
	const char header[8] = { 1, (char)type, 0, (char)id, 0, (char)content.n,
		(char)padding, 0 };

	buf_add(b, view_of(header, sizeof(header)));
	buf_add(b, content);
	buf_add(b, view_of("\xff\xff\xff\xff\xff\xff\xff", padding));
	MUST(buf_ok(b));
}

#endif
