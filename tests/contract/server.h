/*
 * contract/server.h - a redis-server of the test's own.
 *
 * It listens on a unix socket in a fresh directory, nowhere else, keeps nothing on
 * disk, and ends with the test even if that crashes.
 */
#ifndef WEIR_TESTS_CONTRACT_SERVER_H
#define WEIR_TESTS_CONTRACT_SERVER_H

#include <hiredis/hiredis.h>
#include <sys/types.h>

#include "base/buf.h"

struct server {
	char dir[64], socket[96];
	pid_t pid;
	redisContext *redis; /* connected, take.lua loaded */
};

/* False when it cannot be started: no redis-server in PATH, mostly. */
bool server_start(struct server *s);
void server_stop(struct server *s);

/* Sends what b holds (one RESP command), empties it, and returns the reply; the
 * caller frees it. */
redisReply *server_run(struct server *s, struct buf *b);

#endif
