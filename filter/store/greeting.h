/*
 * store/greeting.h - what is said to Redis before the first question.
 *
 * AUTH (with a password), SELECT (but for database 0), INFO (to refuse what weir cannot
 * count in: cluster nodes, Sentinels, old versions), SCRIPT LOAD, and a try: a count in the
 * key PREFIX:probe, which stands for nobody and lives for two seconds. One that is
 * read-only, full, still loading or out of disk refuses that, before a question has been
 * put to it. Pure: requests into a buffer, replies into a sentence.
 */
#ifndef WEIR_STORE_GREETING_H
#define WEIR_STORE_GREETING_H

#include <hiredis/hiredis.h>

#include "config/config.h"

enum greeting_step {
	GREETING_AUTH,
	GREETING_SELECT,
	GREETING_INFO,
	GREETING_LOAD,
	GREETING_TRY,
	GREETING_STEPS
};

/* Appends the request of that step to that server; nothing when it does not ask for it. */
void greeting_put(struct buf *b, const struct config *c, const struct redis_server *server,
	enum greeting_step step);

/* Whether the reply is the one hoped for; if not, says what is wrong in why. Never
 * shows the password, also when the server repeats it. */
bool greeting_check(
	enum greeting_step step, const redisReply *reply, char *why, size_t why_cap);

#endif
