/*
 * proxy/spool.c - where a request's body waits.
 *
 * Most bodies fit in memory and never meet a file. The others move to one that has
 * no name from the start, so neither a crash nor a kill leaves anything to clean up.
 * Its pages go to disk when the kernel likes: nothing here is meant to survive.
 * Writing to a slow disk stops the loop for as long as the kernel's cache is full; a
 * site with huge uploads points spool_dir at a fast disk.
 */
#include "proxy/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/counters.h"

static atomic_uint_fast64_t filed_in_all;

/* Bytes in one file, and how many look after them. */
struct spool_share {
	uint64_t n;
	unsigned refs;
};

void spool_init(struct spool *s, uint64_t limit, size_t memory, const char *dir)
{
	*s = (struct spool){ .fd = -1, .limit = limit, .memory = memory, .dir = dir };
}

void spool_release(struct spool *s)
{
	buf_release(&s->mem);
	if (s->fd >= 0)
		close(s->fd);
	spool_share_release(s->share);
	s->share = NULL;
	s->fd = -1;
	s->n = 0;
}

struct spool_share *spool_share(const struct spool *s)
{
	if (s->share)
		s->share->refs++;
	return s->share;
}

void spool_share_release(struct spool_share *share)
{
	if (!share || --share->refs)
		return;
	atomic_fetch_sub(&filed_in_all, share->n);
	count_add(COUNT_spool_bytes, -(int64_t)share->n);
	free(share);
}

uint64_t spool_filed(void)
{
	return atomic_load(&filed_in_all);
}

bool spool_has_room(const struct spool *s, uint64_t length)
{
	uint64_t filed = spool_filed(), own = s->share ? s->share->n : 0;

	if (!s->most_filed || length <= s->memory || length <= own)
		return true;
	return filed <= s->most_filed && length - own <= s->most_filed - filed;
}

static enum spool_result failed(struct spool *s, int err)
{
	s->error = err;
	return SPOOL_FAILED;
}

/* Before the bytes are written; they stay counted until the file is closed, even if
 * writing fails. */
static enum spool_result set_aside(struct spool *s, uint64_t n)
{
	uint64_t before;

	if (!s->share) {
		s->share = calloc(1, sizeof(*s->share));
		if (!s->share)
			return failed(s, ENOMEM);
		s->share->refs = 1;
	}
	before = atomic_fetch_add(&filed_in_all, n);
	if (s->most_filed && (before > s->most_filed || n > s->most_filed - before)) {
		atomic_fetch_sub(&filed_in_all, n);
		return SPOOL_FULL;
	}
	s->share->n += n;
	count_add(COUNT_spool_bytes, (int64_t)n);
	return SPOOL_OK;
}

/* File systems that know no nameless files (some network and overlay ones) answer
 * O_TMPFILE with EOPNOTSUPP, EISDIR or EINVAL; any other error holds for the second
 * way too, and is better told there. */
static int make_file(const char *dir)
{
	struct buf path = { 0 };
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	buf_addf(&path, "%s/weir-body-XXXXXX", dir);
	if (!buf_str(&path)) {
		errno = ENOMEM;
		return -1;
	}
	fd = mkostemp(path.p, O_CLOEXEC);
	if (fd >= 0)
		unlink(path.p);
	buf_release(&path);
	return fd;
}

static bool write_all(int fd, struct view bytes, uint64_t at)
{
	while (bytes.n) {
		ssize_t n = pwrite(fd, bytes.p, bytes.n, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n < 0 ? errno : EIO;
			return false;
		}
		bytes = view_skip(bytes, (size_t)n);
		at += (uint64_t)n;
	}
	return true;
}

static bool move_to_file(struct spool *s)
{
	int fd = make_file(s->dir);

	if (fd < 0)
		return false;
	if (!write_all(fd, buf_view(&s->mem), 0)) {
		int err = errno;

		close(fd);
		errno = err;
		return false;
	}
	buf_release(&s->mem);
	s->fd = fd;
	return true;
}

enum spool_result spool_add(struct spool *s, struct view bytes)
{
	bool moves = s->fd < 0 && s->n + bytes.n > s->memory;
	enum spool_result result;

	if (bytes.n > s->limit - s->n)
		return SPOOL_TOO_LARGE;
	if (!moves && s->fd < 0) {
		buf_add(&s->mem, bytes);
		if (!buf_ok(&s->mem))
			return failed(s, ENOMEM);
	} else {
		result = set_aside(s, bytes.n + (moves ? s->n : 0));
		if (result != SPOOL_OK)
			return result;
		if ((moves && !move_to_file(s)) || !write_all(s->fd, bytes, s->n))
			return failed(s, errno);
	}
	s->n += bytes.n;
	return SPOOL_OK;
}

ssize_t spool_read(const struct spool *s, uint64_t at, char *out, size_t cap)
{
	ssize_t n;

	if (at >= s->n)
		return 0;
	if (cap > s->n - at)
		cap = (size_t)(s->n - at);
	if (s->fd < 0) {
		memcpy(out, s->mem.p + at, cap);
		return (ssize_t)cap;
	}
	do
		n = pread(s->fd, out, cap, (off_t)at);
	while (n < 0 && errno == EINTR);
	/* Never 0 before the end: a caller would take it for the end. */
	if (n == 0 && cap) {
		errno = EIO;
		return -1;
	}
	return n;
}

static int open_memory(struct view bytes)
{
	int fd = memfd_create("weir-body", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	/* Written by offset, so the position stays at the start. */
	if (!write_all(fd, bytes, 0)) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

int spool_open(const struct spool *s)
{
	char path[sizeof("/proc/self/fd/") + 3 * sizeof(int)];

	if (s->n == 0)
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (s->fd < 0)
		return open_memory(buf_view(&s->mem));
	/* dup() would share the position with every other reader of this body. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}
