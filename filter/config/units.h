/*
 * config/units.h - durations, sizes and the like as people write them.
 *
 *	50ms 10s 5m 1h 7d (a bare number is seconds)     64K 8M 1G (powers of 1024)
 *
 * Readers take the whole view or fail, leaving *out alone. Writers give back a
 * text that reads to the same value.
 */
#ifndef WEIR_CONFIG_UNITS_H
#define WEIR_CONFIG_UNITS_H

#include "base/buf.h"

/* 2^53: up to here Lua's numbers count every integer, so it bounds whatever
 * Redis is to count. */
#define EXACT_MAX (UINT64_C(1) << 53)

bool unit_duration(struct view text, int64_t *out_ms);
bool unit_size(struct view text, uint64_t *out_bytes);
bool unit_mode(struct view text, unsigned *out); /* octal, at most 07777 */
bool unit_bool(struct view text, bool *out);     /* yes no on off true false */

void unit_put_duration(struct buf *b, int64_t ms);
void unit_put_size(struct buf *b, uint64_t bytes);

#endif
