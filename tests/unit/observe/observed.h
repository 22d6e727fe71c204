/*
 * observed.h - a weir to look at: facts made up, and a control socket that serves
 * them from a loop on a thread of its own, in a directory that is gone afterwards.
 */
#ifndef WEIR_TESTS_OBSERVED_H
#define WEIR_TESTS_OBSERVED_H

#include "observe/control.h"

/* Two workers, the second one's store down. user counts the calls when not NULL. */
extern const struct control_ops observed_ops;

struct observed {
	char dir[64];
	char address[128]; /* unix:DIR/control.sock */
	const char *path;  /* the part behind "unix:" */
	uv_loop_t loop;
	uv_async_t stop;
	uv_thread_t thread;
	struct control *control;
	_Atomic int calls;
};

/* Serves until observed_stop(); patience_ms as in control_ops. */
void observed_start(struct observed *o, int64_t patience_ms);
void observed_stop(struct observed *o);

/* A connected, blocking socket whose reads give up after five seconds. */
int observed_connect(const struct observed *o);
/* Reads a line (without its newline) into out; false at the end or after five seconds. */
bool observed_line(int fd, char *out, size_t cap);

#endif
