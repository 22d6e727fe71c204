/*
 * config/reload.h - what of a new configuration a running process cannot take.
 */
#ifndef WEIR_CONFIG_RELOAD_H
#define WEIR_CONFIG_RELOAD_H

#include "config/config.h"

/* Appends the options that differ in a and b and that only a restart takes (their row in
 * the table says so): "server.listen, store.url". */
void config_restart_needed(const struct config *a, const struct config *b, struct buf *out);

#endif
