/*
 * place.c - a test's directory, its texts and files, and what the runner does once
 * the test is over.
 *
 * Test and runner are two processes. They agree on the directory's name without
 * talking: the runner's pid and a hash of suite and test, which also keeps it short
 * (a socket's path has 107 bytes).
 */
#include "support.h"

#include <criterion/hooks.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_TAIL 6000 /* bytes of each log that a failed test shows */

/* Texts stay reachable, so that a leak checker has nothing to say about them. */
struct kept {
	struct kept *next;
	char s[];
};
static struct kept *kept_texts;

static char *keep(size_t n)
{
	struct kept *k = malloc(sizeof(*k) + n + 1);

	if (!k)
		abort();
	k->next = kept_texts;
	k->s[n] = '\0';
	kept_texts = k;
	return k->s;
}

const char *text(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	s = keep((size_t)n);
	va_start(ap, fmt);
	vsnprintf(s, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return s;
}

void fail(const char *fmt, ...)
{
	char message[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	cr_assert_fail("%s", message);
	abort();
}

static void dir_name(char *out, size_t n, pid_t runner, const char *suite, const char *test)
{
	uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

	for (const char *part[] = { suite, test, NULL }, **p = part; *p; p++)
		for (const char *s = *p; *s; s++)
			hash = (hash ^ (unsigned char)*s) * UINT64_C(1099511628211);
	snprintf(out, n, "/tmp/weir-test.%ld.%08x", (long)runner,
		(unsigned)(hash ^ hash >> 32));
}

const char *test_dir(void)
{
	static char dir[64];

	if (!dir[0]) {
		dir_name(dir, sizeof(dir), getppid(), criterion_current_suite->name,
			criterion_current_test->name);
		if (mkdir(dir, 0755) < 0)
			fail("mkdir %s: %s", dir, strerror(errno));
	}
	return dir;
}

const char *test_path(const char *name)
{
	return text("%s/%s", test_dir(), name);
}

const char *test_env(const char *name)
{
	const char *value = getenv(name);

	if (!value)
		fail("%s is not in the environment; run the tests with meson test", name);
	return value;
}

void skip_test(const char *fmt, ...)
{
	va_list ap;

	/* A warning of Criterion's would make its runner exit with 1. */
	fprintf(stderr, "%s::%s is not run: ", criterion_current_suite->name,
		criterion_current_test->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(stderr);
	cr_skip("see above");
	abort();
}

bool under_valgrind(void)
{
	return getenv("WEIR_UNDER_VALGRIND");
}

void file_write(const char *path, const char *content)
{
	FILE *f = fopen(path, "we");

	if (!f || fputs(content, f) == EOF || fclose(f) == EOF)
		fail("%s: %s", path, strerror(errno));
}

void file_copy(const char *from, const char *to)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = -1;
	struct stat st;
	ssize_t n;

	if (in >= 0 && fstat(in, &st) == 0)
		out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, st.st_mode & 0777);
	if (out < 0)
		fail("%s or %s: %s", from, to, strerror(errno));
	while ((n = sendfile(out, in, NULL, 1 << 20)) > 0)
		;
	if (n < 0 || close(out) < 0)
		fail("%s: %s", to, strerror(errno));
	close(in);
}

const char *file_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct buf b = { 0 };
	const char *s = NULL;
	ssize_t n;

	if (fd < 0)
		return NULL;
	while (buf_reserve(&b, 65536) && (n = read(fd, b.p + b.n, 65536)) > 0)
		b.n += (size_t)n;
	close(fd);
	if (buf_ok(&b)) {
		char *copy = keep(b.n);

		if (b.n)
			memcpy(copy, b.p, b.n);
		s = copy;
	}
	buf_release(&b);
	return s;
}

int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void wait_a_little(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

void pattern_fill(char *p, uint64_t at, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t x = (at + i) * UINT64_C(0x9e3779b97f4a7c15);

		p[i] = (char)(x >> 56 ^ x >> 24);
	}
}

static const char *sha256_end(crypto_hash_sha256_state *sha)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(hash) + 1];

	crypto_hash_sha256_final(sha, hash);
	return text("%s", sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash)));
}

const char *sha256_of(struct view bytes)
{
	crypto_hash_sha256_state sha;

	crypto_hash_sha256_init(&sha);
	crypto_hash_sha256_update(&sha, (const unsigned char *)bytes.p, bytes.n);
	return sha256_end(&sha);
}

const char *sha256_of_pattern(uint64_t n)
{
	crypto_hash_sha256_state sha;
	char piece[16384];

	crypto_hash_sha256_init(&sha);
	for (uint64_t at = 0; at < n; at += sizeof(piece)) {
		size_t part = n - at < sizeof(piece) ? (size_t)(n - at) : sizeof(piece);

		pattern_fill(piece, at, part);
		crypto_hash_sha256_update(&sha, (const unsigned char *)piece, part);
	}
	return sha256_end(&sha);
}

const char *sha256_of_numbered(uint64_t n)
{
	crypto_hash_sha256_state sha;
	char line[32];

	crypto_hash_sha256_init(&sha);
	for (uint64_t at = 0; at < n; at += 16) {
		snprintf(line, sizeof(line), "%015llu\n", (unsigned long long)(at / 16));
		crypto_hash_sha256_update(
			&sha, (const unsigned char *)line, n - at < 16 ? n - at : 16);
	}
	return sha256_end(&sha);
}

void need_open_files(unsigned n)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur >= n)
		return;
	if (limit.rlim_max < n)
		limit.rlim_max = n; /* root may */
	limit.rlim_cur = n;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		skip_test("needs %u open files: raise the hard limit (ulimit -Hn)", n);
}

/* Asked by a leak checker, if there is one: Criterion does not free all it has, which
 * says nothing about us. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libcriterion\n";
}

/* In the runner, from here on. */

static void show_logs(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[512], tail[LOG_TAIL + 1];
		size_t n = strlen(e->d_name);
		FILE *f;

		if (n < 4 || strcmp(e->d_name + n - 4, ".log") != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fseek(f, -LOG_TAIL, SEEK_END) < 0)
			rewind(f);
		n = fread(tail, 1, LOG_TAIL, f);
		fclose(f);
		if (n)
			fprintf(stderr, "---- %s\n%.*s\n", path, (int)n, tail);
	}
	if (d)
		closedir(d);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

ReportHook(POST_TEST)(struct criterion_test_stats *stats)
{
	char dir[64];

	dir_name(dir, sizeof(dir), getpid(), stats->test->category, stats->test->name);
	if (access(dir, F_OK) < 0)
		return;
	if (stats->test_status == CR_STATUS_FAILED)
		show_logs(dir);
	if (!getenv("WEIR_TEST_KEEP"))
		nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
