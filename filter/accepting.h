/*
 * accepting.h - the sockets weir serves on, and who gets their connections. Main thread.
 */
#ifndef WEIR_ACCEPTING_H
#define WEIR_ACCEPTING_H

#include <uv.h>

#include "config/config.h"
#include "worker.h"

/* Opens what c says, or takes descriptor 0. False, logged, when there is nowhere to
 * serve. Before there are workers (net_listen()). */
bool accepting_open(const struct config *c, bool on_descriptor_0);
/* Closes them and removes their files again: for what fails before accepting_start(). */
void accepting_close(void);
/* The most connections open at once, from now on. Before accepting_start(), and again when
 * it has changed. */
void accepting_limit(uint64_t connections);
/* Begins to hand connections to workers, which are borrowed until accepting_stop(). */
void accepting_start(uv_loop_t *loop, struct worker **workers, size_t n_workers);
/* Hands over who has connected by now, closes the sockets and removes their files. */
void accepting_stop(void);

#endif
