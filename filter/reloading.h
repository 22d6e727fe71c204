/*
 * reloading.h - the configuration read anew while weir serves.
 *
 * Reading may block (host names, disks), and comparing takes its time where there are
 * thousands of endpoints: libuv's pool does both, for the main thread accepts connections.
 * That takes what was read, if it may replace what is in force (config/reload.h), as one.
 * What the next start would meet (startable.h) is looked at afterwards, and told.
 *
 * Main thread.
 */
#ifndef WEIR_RELOADING_H
#define WEIR_RELOADING_H

#include <stdbool.h>
#include <uv.h>

struct config;

/* c is what the process was started with and is in force. take puts another in force and
 * gets the reference to it; nothing in it may fail. The one in force before must stay until
 * then. */
void reloading_init(uv_loop_t *loop, struct config *c, void (*take)(struct config *fresh));
/* Reads it; where that is under way, once more behind it. */
void reloading_start(void);
/* Whether the last one was not taken. */
bool reloading_failed(void);
/* Nothing is taken any more. What is under way ends by itself or is left (ending.h). */
void reloading_stop(void);
/* Once the loop has ended, and nothing was left. */
void reloading_release(void);

#endif
