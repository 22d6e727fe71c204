/*
 * config/reload.h - what of a new configuration a running process takes.
 *
 * A process that serves has something to lose: the limits in force. So a reload asks more
 * of a configuration than a start does. One that looks as if an editor, a full disk or a
 * lost mount had made it is refused, though there is no mistake in it.
 */
#ifndef WEIR_CONFIG_RELOAD_H
#define WEIR_CONFIG_RELOAD_H

#include "config/config.h"

/* Whether fresh may take the place of now. If not, why gets a line for each reason, in
 * the form of config_load()'s:
 *
 *	a file is blank that had something in it;
 *	a file ends in the middle of a line, which it did not before;
 *	there were endpoints, or limits, and not one is left.
 *
 * What an operator means all the same, a restart does. */
bool config_may_replace(
	const struct config *now, const struct config *fresh, struct buf *why);

/* Appends the limits of now that fresh does not have, by endpoint and tier: "login
 * user/sw60s, login ip/sw60s, site/global/sw1s". Long lists end in "and 12 more". */
void config_limits_gone(
	const struct config *now, const struct config *fresh, struct buf *out);

/* Appends the options that differ in a and b and that only a restart takes (their row in
 * the table says so): "server.listen, store.url". */
void config_restart_needed(const struct config *a, const struct config *b, struct buf *out);

#endif
