/*
 * fuzz.c - what is the same for every driver before its first input: what is logged is
 * written but not kept, and chance is none, so that an input always does the same.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <sodium.h>

#include "base/counters.h"
#include "base/log.h"

static uint32_t next_number(void)
{
	static uint32_t n;

	return n = n * 1664525 + 1013904223;
}

static void fill(void *const out, const size_t n)
{
	memset(out, 0x5a, n);
}

static const char *name(void)
{
	return "none";
}

static randombytes_implementation none = {
	.implementation_name = name,
	.random = next_number,
	.buf = fill,
};

__attribute__((weak)) void fuzz_begin(void)
{
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	randombytes_set_implementation(&none);
	log_open(open("/dev/null", O_WRONLY | O_CLOEXEC), LOG_LEVEL_NOTICE);
	counters_join();
	fuzz_begin();
	return 0;
}
