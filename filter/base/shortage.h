/*
 * base/shortage.h - what the system had not enough of when weir wanted some.
 *
 * Descriptors, memory and processes run out in many places, and each of them goes on in
 * its own way: a connection waits, a request gets 503. What an operator has to do about
 * it is the same everywhere, so it is counted and said here.
 */
#ifndef WEIR_BASE_SHORTAGE_H
#define WEIR_BASE_SHORTAGE_H

#include <stdbool.h>

enum shortage {
	SHORTAGE_NONE, /* another kind of failure */
	SHORTAGE_DESCRIPTORS,
	SHORTAGE_MEMORY, /* or processes, or the kernel's buffers */
};

/* What err, an errno, says. EAGAIN counts as memory: ask only where it cannot mean "not
 * yet", as of fork. */
enum shortage shortage_of(int err);

/* Counts err if it is a shortage, and logs it once a minute with what it was wanted for, as
 * in "a connection". Any thread. Leaves errno alone. */
enum shortage shortage_seen(int err, const char *wanted);

#endif
