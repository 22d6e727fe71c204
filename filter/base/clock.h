/*
 * base/clock.h - what time it is, in microseconds.
 *
 * Limits and deadlines use the monotonic clock; the wall clock is for log lines
 * and identifiers only.
 */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdint.h>

#define US_PER_S  INT64_C(1000000)
#define US_PER_MS INT64_C(1000)

/* Since some moment before the process started; never goes back. */
int64_t clock_mono_us(void);
/* Since 1970-01-01 UTC. */
int64_t clock_wall_us(void);

#endif
