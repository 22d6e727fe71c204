/*
 * failing.c - allocations that fail when they are told to.
 *
 * Linked into builds of weir and weirctl in which the linker has put __wrap_malloc in the
 * place of malloc, and so on (meson.build), for what is compiled here; and given to the
 * libraries that take an allocator. Nothing else of the program is changed.
 *
 * A file that the test maps too says which call fails, and tells how many there were: so
 * a test can count what a request allocates, and then repeat it with each of those
 * calls failing, in one process. NOMEM_CONTROL names it; without it nothing fails.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <netdb.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

/* Whose calls count. */
enum who {
	WEIR = 1,
	JANSSON = 2,
	SQLITE = 4,
	LIBUV = 8,
};

#define TRACE_MAX 12

/* As run.py reads and writes it; a page is mapped. */
struct control {
	_Atomic uint64_t who;     /* whose calls count: enum who, together */
	_Atomic uint64_t calls;   /* so many until now */
	_Atomic uint64_t fail_at; /* the number of the first that fails, from 1; 0: none */
	_Atomic uint64_t fail_n;  /* so many from there on fail */
	_Atomic uint64_t failed;  /* so many have failed */
	uint64_t trace_n;
	uint64_t trace[TRACE_MAX]; /* where the last one was, as offsets in the program */
};

extern const char __executable_start[]; /* by the linker */

static struct control *control;

static void note_place(void)
{
	void *frames[TRACE_MAX + 2];
	int n = backtrace(frames, TRACE_MAX + 2);

	control->trace_n = 0;
	for (int i = 2; i < n; i++)
		control->trace[control->trace_n++] = (uint64_t)((const char *)frames[i] -
			__executable_start);
}

static bool fails(enum who who)
{
	uint64_t call, at;

	if (!control || !(control->who & who))
		return false;
	call = atomic_fetch_add(&control->calls, 1) + 1;
	at = control->fail_at;
	if (!at || call < at || call - at >= control->fail_n)
		return false;
	note_place();
	atomic_fetch_add(&control->failed, 1);
	errno = ENOMEM;
	return true;
}

#define FAILING(type, name, params, args, failure)                 \
	type __real_##name params;                                 \
	type __wrap_##name params;                                 \
	type __wrap_##name params                                  \
	{                                                          \
		return fails(WEIR) ? failure : __real_##name args; \
	}

FAILING(void *, malloc, (size_t n), (n), NULL)
FAILING(void *, calloc, (size_t n, size_t size), (n, size), NULL)
FAILING(void *, realloc, (void *p, size_t n), (p, n), NULL)
FAILING(void *, aligned_alloc, (size_t by, size_t n), (by, n), NULL)
FAILING(char *, strdup, (const char *s), (s), NULL)
FAILING(char *, strndup, (const char *s, size_t n), (s, n), NULL)
FAILING(int, glob, (const char *s, int flags, int (*e)(const char *, int), glob_t *g),
	(s, flags, e, g), GLOB_NOSPACE)
FAILING(int, getaddrinfo,
	(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **out),
	(node, service, hints, out), EAI_MEMORY)
FAILING(int, vasprintf, (char **out, const char *fmt, va_list ap), (out, fmt, ap), -1)

static void *json_alloc(size_t n)
{
	return fails(JANSSON) ? NULL : __real_malloc(n);
}

static void *uv_alloc(size_t n)
{
	return fails(LIBUV) ? NULL : __real_malloc(n);
}

static void *uv_calloc(size_t n, size_t size)
{
	return fails(LIBUV) ? NULL : __real_calloc(n, size);
}

static void *uv_realloc(void *p, size_t n)
{
	return fails(LIBUV) ? NULL : __real_realloc(p, n);
}

static sqlite3_mem_methods plain;

static void *sqlite_alloc(int n)
{
	return fails(SQLITE) ? NULL : plain.xMalloc(n);
}

static void *sqlite_realloc(void *p, int n)
{
	return fails(SQLITE) ? NULL : plain.xRealloc(p, n);
}

static void give_to_libraries(void)
{
	sqlite3_mem_methods failing;

	json_set_alloc_funcs(json_alloc, free);
	uv_replace_allocator(uv_alloc, uv_realloc, uv_calloc, free);
	sqlite3_config(SQLITE_CONFIG_GETMALLOC, &plain);
	failing = plain;
	failing.xMalloc = sqlite_alloc;
	failing.xRealloc = sqlite_realloc;
	sqlite3_config(SQLITE_CONFIG_MALLOC, &failing);
}

__attribute__((constructor)) static void nomem_start(void)
{
	const char *path = getenv("NOMEM_CONTROL");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *page, *frame;

	if (fd < 0)
		return;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		abort();
	backtrace(&frame, 1); /* loads what it needs, before anything fails */
	give_to_libraries();
	control = page;
}
