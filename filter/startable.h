/*
 * startable.h - whether weir could start here with a configuration.
 *
 * Files without a mistake may still name a group that does not exist, a folder nobody has
 * made or a directory that cannot be read. "weir -t" and weirctl check ask before an
 * operator restarts weir in good faith.
 *
 * Whoever asks may be another user than the one weir runs as, or ask before the service
 * manager has made its folder: what cannot be judged so is a notice that says it, and no
 * error. Addresses in use are not looked at: mostly it is weir itself that uses them.
 *
 * A reload refuses nothing of what is found here: users, groups, sockets and the directory
 * are taken at a start only, and a directory that is lost while weir runs is a matter of
 * client.directory_error. A disk for large bodies that is not there keeps no new limit
 * waiting either; another server.spool_dir, which a reload does take, has to be there
 * (config/reload.h). It tells what the next start would meet, once it has been taken: what
 * is looked at may be a disk that hangs. A CGI program serves one request and looks at
 * nothing.
 */
#ifndef WEIR_STARTABLE_H
#define WEIR_STARTABLE_H

#include "config/config.h"

enum startable_for {
	STARTABLE_ASKED,  /* by somebody who wants to know: everything */
	STARTABLE_BEGINS, /* weir does, and tells what fails itself: only what is not seen
			   * so, rules for plans that do not exist, and a server.spool_dir
			   * that cannot be written */
	STARTABLE_RUNS,   /* weir does: what would fail is a notice */
};

/* Appends lines of the form of config_load()'s. False if a start would fail. Blocks on
 * look-ups and files. */
bool startable(const struct config *c, enum startable_for what, struct buf *messages);

#endif
