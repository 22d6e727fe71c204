#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static _Atomic int log_fd = 2;
static _Atomic enum log_level log_least = LOG_LEVEL_NOTICE;

static const char *const level_names[] = {
	[LOG_LEVEL_ERROR] = "error",
	[LOG_LEVEL_WARNING] = "warning",
	[LOG_LEVEL_NOTICE] = "notice",
	[LOG_LEVEL_INFO] = "info",
	[LOG_LEVEL_DEBUG] = "debug",
};

void log_open(int fd, enum log_level least)
{
	log_fd = fd;
	log_least = least;
}

bool log_wants(enum log_level level)
{
	return level <= log_least;
}

/* A line in a fixed buffer; what does not fit is left out. */
struct line {
	char *p;
	size_t n, cap;
};

static void line_byte(struct line *l, char c)
{
	if (l->n < l->cap)
		l->p[l->n++] = c;
}

static void line_str(struct line *l, const char *s)
{
	while (*s)
		line_byte(l, *s++);
}

static bool is_plain(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		unsigned char c = (unsigned char)v.p[i];

		if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\')
			return false;
	}
	return v.n > 0;
}

static void line_value(struct line *l, struct view v)
{
	static const char hex[] = "0123456789abcdef";

	if (is_plain(v)) {
		for (size_t i = 0; i < v.n; i++)
			line_byte(l, v.p[i]);
		return;
	}
	line_byte(l, '"');
	for (size_t i = 0; i < v.n; i++) {
		unsigned char c = (unsigned char)v.p[i];

		if (c == '"' || c == '\\') {
			line_byte(l, '\\');
			line_byte(l, (char)c);
		} else if (c < ' ' || c >= 0x7f) {
			line_str(l, "\\x");
			line_byte(l, hex[c >> 4]);
			line_byte(l, hex[c & 15]);
		} else {
			line_byte(l, (char)c);
		}
	}
	line_byte(l, '"');
}

static void line_fields(struct line *l, const char *event, const struct log_field *fields)
{
	char number[24];

	line_str(l, "event=");
	line_value(l, view_str(event));
	for (; fields->key; fields++) {
		line_byte(l, ' ');
		line_str(l, fields->key);
		line_byte(l, '=');
		if (fields->kind == LOG_KIND_TEXT) {
			line_value(l, fields->text);
			continue;
		}
		snprintf(number, sizeof(number), "%lld", (long long)fields->number);
		line_str(l, number);
	}
}

size_t log_format(char *out, size_t cap, const char *event, const struct log_field *fields)
{
	struct line l = { .p = out, .cap = cap };

	line_fields(&l, event, fields);
	return l.n;
}

/* Room that poll() has seen is there only until another thread writes: one at a time looks
 * and writes. The lock is held for neither, so that whoever waits for his turn can give up
 * when a write hangs. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_is_free = PTHREAD_COND_INITIALIZER;
static bool writing;             /* under the lock: it is somebody's turn */
static int64_t since_us;         /* and has been since then */
static _Atomic uint64_t dropped; /* lines that no note has told of */

/* False when the write of whoever's turn it is hangs. */
static bool take_turn(void)
{
	bool hangs = false;

	pthread_mutex_lock(&lock);
	while (writing && !hangs) {
		int64_t until_us = since_us + LOG_PATIENCE_MS * US_PER_MS;
		struct timespec until = { .tv_sec = until_us / US_PER_S,
			.tv_nsec = until_us % US_PER_S * 1000 };

		/* Not pthread_mutex_clocklock(), which ThreadSanitizer takes for no lock. */
		pthread_cond_clockwait(&turn_is_free, &lock, CLOCK_MONOTONIC, &until);
		hangs = writing &&
			clock_mono_us() >= since_us + LOG_PATIENCE_MS * US_PER_MS;
	}
	if (!hangs) {
		writing = true;
		since_us = clock_mono_us();
	}
	pthread_mutex_unlock(&lock);
	return !hangs;
}

static void end_turn(void)
{
	pthread_mutex_lock(&lock);
	writing = false;
	pthread_cond_signal(&turn_is_free);
	pthread_mutex_unlock(&lock);
}

static bool has_room(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLOUT };

	return poll(&ready, 1, 0) != 0;
}

static void note_dropped(int fd)
{
	char note[64];
	uint64_t n = dropped;

	snprintf(note, sizeof(note), "event=\"log lines dropped\" lines=%llu\n",
		(unsigned long long)n);
	if (write(fd, note, strlen(note)) >= 0)
		dropped -= n;
}

/* A log that nobody reads must not stop the service: where a line would have to wait it
 * is dropped, and counted in the next one that is written. */
static void write_line(const char *text, size_t n)
{
	int fd = log_fd;

	if (!take_turn()) {
		dropped++;
		return;
	}
	if (!has_room(fd))
		dropped++;
	else if (write(fd, text, n) < 0)
		dropped += errno == EAGAIN; /* somebody has made it non-blocking */
	else if (dropped && has_room(fd))
		note_dropped(fd);
	end_turn();
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
	char text[LOG_LINE_MAX], stamp[64], date[32];
	struct line l = { .p = text, .cap = sizeof(text) - 1 };
	int64_t now = clock_wall_us();
	time_t s = (time_t)(now / US_PER_S);
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(stamp, sizeof(stamp), "time=%s.%03dZ level=%s ", date,
		(int)(now % US_PER_S / US_PER_MS), level_names[level]);
	line_str(&l, stamp);
	line_fields(&l, event, fields);
	text[l.n++] = '\n';
	write_line(text, l.n);
}

bool log_gate_open(struct log_gate *g, int64_t now_us, uint64_t *missed)
{
	int64_t next = atomic_load_explicit(&g->next_us, memory_order_relaxed);

	if (now_us < next ||
		!atomic_compare_exchange_strong(
			&g->next_us, &next, now_us + 60 * US_PER_S)) {
		atomic_fetch_add_explicit(&g->missed, 1, memory_order_relaxed);
		return false;
	}
	*missed = atomic_exchange(&g->missed, 0);
	return true;
}
