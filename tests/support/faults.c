#include "faults.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

static struct fault_cell *cells;

const char *const *faults_env(void)
{
	static const char *env[4];
	const size_t size = FAULTS_N * sizeof(*cells);
	const char *path = test_path("faults");
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		fail("%s: %s", path, strerror(errno));
	cells = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (cells == MAP_FAILED)
		fail("%s: %s", path, strerror(errno));
	close(fd);
	env[0] = text("LD_PRELOAD=%s", test_env("WEIR_FAULTS_LIBRARY"));
	env[1] = text("WEIR_FAULTS=%s", path);
	/* A sanitizer wants to be the first library, and works without. */
	env[2] = "ASAN_OPTIONS=verify_asan_link_order=0";
	return env;
}

void faults_set(enum fault which, int err, int times)
{
	atomic_store(&cells[which].left, 0);
	atomic_store(&cells[which].err, err);
	atomic_store(&cells[which].left, times);
}

int faults_met(enum fault which)
{
	return atomic_load(&cells[which].met);
}
