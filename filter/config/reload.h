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
 *	there were endpoints, or limits, and not one is left;
 *	[site], an endpoint that stays, or a file that stays had limits and has none;
 *	a pattern of server.endpoints found files and finds none, or has given way to one
 *	that finds none;
 *	server.spool_dir is another directory, and that is not there.
 *
 * Limits are those that were enforced. That they are not wanted any more can be said in
 * their place: a rule with count=unlimited, mode=off or mode=shadow is a rule. What else
 * an operator means all the same, a restart does. */
bool config_may_replace(
	const struct config *now, const struct config *fresh, struct buf *why);

/* Appends the limits that now enforces and fresh does not, by endpoint and tier, with
 * what was written in their place, and the plans if they are not all of the tier: "login
 * user/sw60s, login ip/sw60s (mode=off), site/user/sw1s (plan paid: count=unlimited)".
 * Long lists end in " and 12 more". reload_limits.c. */
void config_limits_gone(
	const struct config *now, const struct config *fresh, struct buf *out);

/* Appends the options that differ in a and b and that only a restart takes (their row in
 * the table says so): "server.listen, store.url". */
void config_restart_needed(const struct config *a, const struct config *b, struct buf *out);

#endif
