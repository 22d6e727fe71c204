#include "ending.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

static void note(uv_handle_t *handle, void *found)
{
	(void)handle;
	*(bool *)found = true;
}

static bool has_handles(uv_loop_t *loop)
{
	bool found = false;

	uv_walk(loop, note, &found);
	return found;
}

bool loop_end(uv_loop_t *loop)
{
	while (has_handles(loop) && uv_run(loop, UV_RUN_ONCE))
		;
	assert(!has_handles(loop));
	uv_run(loop, UV_RUN_NOWAIT); /* what was cancelled or is done tells so */
	return uv_loop_close(loop) == 0;
}

/* Not exit(), nor a return from main(): libuv has a destructor that waits for each thread
 * of its pool (1.44: uv_library_shutdown() in src/uv-common.c calls
 * uv__threadpool_cleanup()), and with it for what they do. */
void leave(int status)
{
	fflush(stdout);
	_exit(status);
}
