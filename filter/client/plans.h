/*
 * client/plans.h - what the directory says to the configuration, before weir needs it.
 *
 * The plans of users stand in the directory and what they allow stands in the rules. A
 * plan that is misspelt in a rule is no mistake anybody meets: the rule is never met.
 */
#ifndef WEIR_CLIENT_PLANS_H
#define WEIR_CLIENT_PLANS_H

#include "config/config.h"
#include "config/mistakes.h"

enum plans_look {
	PLANS_FIT,
	PLANS_UNFIT,    /* directory_open() fails, whoever calls it */
	PLANS_HINDERED, /* it fails for this user, or now */
	PLANS_LEFT,     /* it was not tried: see guest */
};

/* Opens the directory that c names as directory_open() would, and notes each rule whose
 * plan is not in it. With directory_query the plans are not known, and without a directory
 * there are none: PLANS_FIT. Else why says what is wrong and what would do. Blocks.
 *
 * A file in WAL mode is read through two others beside it, and who opens it first makes
 * and owns them. guest says that whoever asks may be another user than weir, who would
 * lock weir out so: then it is left alone, unless they are there, or the file is his, or
 * he is root, in whose name SQLite gives them to the owner of the file
 * (robustFchown() in its os_unix.c). */
enum plans_look plans_check(
	const struct config *c, bool guest, struct mistakes *m, struct buf *why);

#endif
