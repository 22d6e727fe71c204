/*
 * base/log.h - log lines of key=value pairs, on one descriptor.
 *
 *	log_warn("backend is down", LOG_STR("backend", name), LOG_INT("error", err));
 *
 * gives
 *
 *	time=2026-01-31T12:00:00.000Z level=warning event="backend is down" backend=php error=111
 *
 * Each line is one write(2), so lines of threads and processes do not mix.
 * Values that hold a space, a quote or anything unprintable are quoted and
 * escaped, whatever a peer sent. Lines end at LOG_LINE_MAX bytes. Any thread.
 *
 * A line that would have to wait for a reader is dropped, and told as one of "log lines
 * dropped" behind the next that is written. Another process that writes to the same pipe can
 * still take the room between our looking and our writing; then that line waits, and its
 * thread. Other threads wait for it until LOG_PATIENCE_MS after it began and drop theirs.
 */
#ifndef WEIR_BASE_LOG_H
#define WEIR_BASE_LOG_H

#include <stdatomic.h>

#include "base/view.h"

#define LOG_LINE_MAX    2048
#define LOG_PATIENCE_MS 250

enum log_level {
	LOG_LEVEL_ERROR,   /* somebody has to act */
	LOG_LEVEL_WARNING, /* service goes on, less well than meant */
	LOG_LEVEL_NOTICE,  /* start, stop, state changes */
	LOG_LEVEL_INFO,    /* single requests */
	LOG_LEVEL_DEBUG,
};

struct log_field {
	const char *key; /* NULL ends the list */
	enum {
		LOG_KIND_TEXT,
		LOG_KIND_NUMBER
	} kind;
	struct view text;
	int64_t number;
};

#define LOG_VIEW(k, v) \
	((struct log_field){ .key = (k), .kind = LOG_KIND_TEXT, .text = (v) })
#define LOG_STR(k, s) LOG_VIEW(k, view_str(s))
#define LOG_INT(k, i) \
	((struct log_field){ .key = (k), .kind = LOG_KIND_NUMBER, .number = (int64_t)(i) })

/* Where lines go (2 until told) and the least urgent level written (NOTICE).
 * Any thread; lines being written meanwhile go where they began to. */
void log_open(int fd, enum log_level least);
bool log_wants(enum log_level level);

/* fields ends with a field whose key is NULL. */
void log_write(enum log_level level, const char *event, const struct log_field *fields);

/* The line log_write() would write, without time and level, for tests and for
 * messages on a terminal. Returns its length, at most cap. */
size_t log_format(char *out, size_t cap, const char *event, const struct log_field *fields);

#define LOG_AT(level, event, ...)                                                         \
	do {                                                                              \
		if (log_wants(level))                                                     \
			log_write(                                                        \
				level, event, (const struct log_field[]){ __VA_ARGS__ }); \
	} while (0)
#define log_error(...)  LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__, { 0 })
#define log_warn(...)   LOG_AT(LOG_LEVEL_WARNING, __VA_ARGS__, { 0 })
#define log_notice(...) LOG_AT(LOG_LEVEL_NOTICE, __VA_ARGS__, { 0 })
#define log_info(...)   LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__, { 0 })
#define log_debug(...)  LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__, { 0 })

/* Lets one line through a minute, for what a peer can provoke at will:
 *
 *	if (log_gate_open(&gate, clock_mono_us(), &missed))
 *		log_warn("malformed request", LOG_INT("suppressed", missed));
 *
 * *missed is how many were held back since the last one. Zeroed is ready. */
struct log_gate {
	_Atomic int64_t next_us;
	_Atomic uint64_t missed;
};
bool log_gate_open(struct log_gate *g, int64_t now_us, uint64_t *missed);

#endif
