/*
 * valgrind_openat2.c - openat2(2) for programs under valgrind, which does not know it and
 * answers ENOSYS: weir would find no CGI program there. valgrind.sh preloads this.
 *
 * The call is done as openat(2), without what openat2 promises about symbolic links and
 * dots: no test of those can pass under valgrind.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

long syscall(long number, ...)
{
	static long (*libc)(long, ...);
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_openat2) {
		const struct open_how *how = (const struct open_how *)a[2];

		return openat((int)a[0], (const char *)a[1], (int)how->flags, how->mode);
	}
	if (!libc)
		libc = __extension__(long (*)(long, ...)) dlsym(RTLD_NEXT, "syscall");
	return libc(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
