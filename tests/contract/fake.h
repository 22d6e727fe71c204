/*
 * fake.h - a fake Redis for an asker, and what its store makes of it.
 */
#ifndef WEIR_TESTS_FAKE_H
#define WEIR_TESTS_FAKE_H

#include "asker.h"
#include "fake_redis.h"

/* take.lua's reply for one tier that admits, with so much remaining. */
#define COUNTED(remaining) "*6\r\n:1\r\n:1\r\n:" remaining "\r\n:0\r\n:60000000\r\n:0\r\n"

/* At test_path(name), with seven remaining; ends the test when it cannot listen. */
struct fake_redis *start_fake(const char *name, const struct fake_rule *rules);
bool state_has(struct asker *a, const char *words);
/* How often in the store's log. */
unsigned occurrences(const char *words);

#endif
