/*
 * faults_library.c - see faults.h: what is put in front of libc.
 */
#undef _FILE_OFFSET_BITS /* else open is another name for open64, and both are wanted */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "faults.h"

static struct fault_cell *cells;

static void __attribute__((constructor)) find_cells(void)
{
	const char *path = getenv("WEIR_FAULTS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at = MAP_FAILED;

	if (fd >= 0) {
		at = mmap(NULL, FAULTS_N * sizeof(*cells), PROT_READ | PROT_WRITE,
			MAP_SHARED, fd, 0);
		close(fd);
	}
	if (at != MAP_FAILED)
		cells = at;
}

static bool fails(enum fault which)
{
	struct fault_cell *c = cells ? &cells[which] : NULL;
	int left;

	if (!c)
		return false;
	left = atomic_load(&c->left);
	do
		if (left == 0)
			return false;
	while (left > 0 && !atomic_compare_exchange_weak(&c->left, &left, left - 1));
	atomic_fetch_add(&c->met, 1);
	errno = atomic_load(&c->err);
	return true;
}

/* libc's function of the same name as the one it stands in. */
#define LIBC(type)                                                                \
	__extension__({                                                           \
		static type *libc_;                                               \
		if (!libc_)                                                       \
			libc_ = __extension__(type *) dlsym(RTLD_NEXT, __func__); \
		libc_;                                                            \
	})

int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	typedef int f(int, struct sockaddr *, socklen_t *, int);

	return fails(FAULT_ACCEPT) ? -1 : LIBC(f)(fd, addr, len, flags);
}

/* A true vfork returns twice from its caller's frame, which no C function can do for it. */
pid_t vfork(void)
{
	return fails(FAULT_FORK) ? -1 : fork();
}

int memfd_create(const char *name, unsigned flags)
{
	typedef int f(const char *, unsigned);

	return fails(FAULT_MEMFD) ? -1 : LIBC(f)(name, flags);
}

int pidfd_open(pid_t pid, unsigned flags);
int pidfd_open(pid_t pid, unsigned flags)
{
	typedef int f(pid_t, unsigned);

	return fails(FAULT_PIDFD) ? -1 : LIBC(f)(pid, flags);
}

int pipe2(int ends[2], int flags)
{
	typedef int f(int[2], int);

	return fails(FAULT_PIPE) ? -1 : LIBC(f)(ends, flags);
}

int socket(int domain, int type, int protocol)
{
	typedef int f(int, int, int);

	return fails(FAULT_SOCKET) ? -1 : LIBC(f)(domain, type, protocol);
}

/* As when another process gets the processor just then. */
int shutdown(int fd, int how)
{
	typedef int f(int, int);

	if (fails(FAULT_SHUT))
		usleep(3000);
	return LIBC(f)(fd, how);
}

/* As with a name server that does not answer. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
	struct addrinfo **found)
{
	typedef int f(
		const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (!fails(FAULT_LOOKUP))
		return LIBC(f)(host, service, hints, found);
	while (atomic_load(&cells[FAULT_LOOKUP].left))
		usleep(1000);
	return EAI_AGAIN;
}

static bool is_database(const char *path)
{
	size_t n = strlen(path);

	return n > 3 && strcmp(path + n - 3, ".db") == 0;
}

/* Both names of what depends on the size of a file's offsets. */
#define STAT(name)                                            \
	int name(const char *path, struct name *out);         \
	int name(const char *path, struct name *out)          \
	{                                                     \
		typedef int f(const char *, struct name *);   \
                                                              \
		if (!is_database(path) || !fails(FAULT_DISK)) \
			return LIBC(f)(path, out);            \
		while (atomic_load(&cells[FAULT_DISK].left))  \
			usleep(1000);                         \
		errno = atomic_load(&cells[FAULT_DISK].err);  \
		return -1;                                    \
	}
STAT(stat)
STAT(stat64)

#define OPEN(name)                                                         \
	int name(const char *path, int flags, ...);                        \
	int name(const char *path, int flags, ...)                         \
	{                                                                  \
		typedef int f(const char *, int, ...);                     \
		mode_t mode = 0;                                           \
		va_list ap;                                                \
                                                                           \
		va_start(ap, flags);                                       \
		if (flags & (O_CREAT | O_TMPFILE))                         \
			mode = va_arg(ap, mode_t);                         \
		va_end(ap);                                                \
		if ((flags & O_TMPFILE) == O_TMPFILE && fails(FAULT_FILE)) \
			return -1;                                         \
		return LIBC(f)(path, flags, mode);                         \
	}
OPEN(open)
OPEN(open64)

#define MKOSTEMP(name)                                                \
	int name(char *path, int flags);                              \
	int name(char *path, int flags)                               \
	{                                                             \
		typedef int f(char *, int);                           \
                                                                      \
		return fails(FAULT_FILE) ? -1 : LIBC(f)(path, flags); \
	}
MKOSTEMP(mkostemp)
MKOSTEMP(mkostemp64)

#define PWRITE(name)                                                    \
	ssize_t name(int fd, const void *p, size_t n, off_t at);        \
	ssize_t name(int fd, const void *p, size_t n, off_t at)         \
	{                                                               \
		typedef ssize_t f(int, const void *, size_t, off_t);    \
                                                                        \
		return fails(FAULT_WRITE) ? -1 : LIBC(f)(fd, p, n, at); \
	}
PWRITE(pwrite)
PWRITE(pwrite64)

#define PREAD(name)                                                    \
	ssize_t name(int fd, void *p, size_t n, off_t at);             \
	ssize_t name(int fd, void *p, size_t n, off_t at)              \
	{                                                              \
		typedef ssize_t f(int, void *, size_t, off_t);         \
                                                                       \
		return fails(FAULT_READ) ? -1 : LIBC(f)(fd, p, n, at); \
	}
PREAD(pread)
PREAD(pread64)
