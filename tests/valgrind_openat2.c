/*
 * valgrind_openat2.c - openat2(2) for programs under valgrind, which does not know it and
 * answers ENOSYS: weir would find no CGI program there. valgrind.sh preloads this.
 *
 * The call is done as openat(2), and what lies outside of the directory is given back then:
 * that is enough for tests, not for an attacker. pidfd_open(2), which it does not know
 * either, is refused before it complains.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool name_of(int fd, char out[PATH_MAX])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	if (n >= 0)
		out[n] = '\0';
	return n >= 0;
}

static long open_beneath(int dir, const char *path, const struct open_how *how)
{
	char root[PATH_MAX], at[PATH_MAX];
	int fd = path[0] == '/' ? -1 : openat(dir, path, (int)how->flags, how->mode);
	size_t n;

	if (path[0] == '/')
		errno = EXDEV;
	if (fd < 0 || !(how->resolve & RESOLVE_BENEATH))
		return fd;
	if (name_of(dir, root) && name_of(fd, at)) {
		n = strlen(root);
		if (strncmp(at, root, n) == 0 && (at[n] == '/' || !at[n]))
			return fd;
	}
	close(fd);
	errno = EXDEV;
	return -1;
}

int pidfd_open(pid_t pid, unsigned int flags)
{
	(void)pid;
	(void)flags;
	errno = ENOSYS;
	return -1;
}

long syscall(long number, ...)
{
	static long (*libc)(long, ...);
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2)
		return open_beneath(
			(int)a[0], (const char *)a[1], (const struct open_how *)a[2]);
	if (!libc)
		libc = __extension__(long (*)(long, ...)) dlsym(RTLD_NEXT, "syscall");
	return libc(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
