/*
 * ending.h - how loops end, and the process, whatever the threads of libuv's pool do.
 *
 * Host names are looked up there, a configuration is read, what it names is looked at. What
 * has begun there cannot be cancelled, and a silent resolver or a disk that hangs keeps it
 * for as long as it likes. Once nobody wants its outcome the end does not wait for it. (Nor
 * for the threads of the directory, which loops know nothing of.)
 */
#ifndef WEIR_ENDING_H
#define WEIR_ENDING_H

#include <stdbool.h>
#include <uv.h>

/* Runs the loop until its last handle is closed, all of which its owner has seen to, and
 * closes it. False when work on the pool has not ended: loop, and whatever that work knows
 * of, must then stay in memory, and the process has to end by leave(). */
bool loop_end(uv_loop_t *loop);

/* Ends the process at once, with that status. What has been logged is out: the log has no
 * buffer. Nothing is freed, no leak is looked for. */
void leave(int status) __attribute__((noreturn));

#endif
