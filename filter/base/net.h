/*
 * base/net.h - socket addresses as the configuration writes them.
 *
 *	unix:/run/weir/weir.sock     tcp:127.0.0.1:9000     tcp:[::1]:9000     tcp:php:9000
 */
#ifndef WEIR_BASE_NET_H
#define WEIR_BASE_NET_H

#include <sys/socket.h>

#include "base/buf.h"

struct net_addr {
	struct sockaddr_storage ss;
	socklen_t len;  /* of ss in use */
	char text[128]; /* as written, for messages and logs */
};

/* Reads text as one of the forms above. A host name is looked up here and now,
 * which may block: for reading the configuration only. On failure returns false
 * with a sentence in why ("... ; write unix:/path or tcp:host:port"). */
bool net_addr_parse(struct view text, struct net_addr *out, struct buf *why);

/* Whether both are one address, however they were written. */
bool net_addr_same(const struct net_addr *a, const struct net_addr *b);

/* The port in ss as a number, 0 for a unix socket. */
unsigned net_addr_port(const struct net_addr *a);

/* A bound, listening, close-on-exec, non-blocking socket, or -1 with a sentence
 * in why. For a unix socket mode is its permission bits from its first instant
 * and uid/gid its owner ((uid_t)-1: leave it). What is found at the path is
 * replaced only if it is a socket on which nobody listens. Changes the process's umask
 * for a moment: before other threads make files. */
struct net_listen {
	int backlog;
	unsigned mode;
	uid_t uid;
	gid_t gid;
};
int net_listen(const struct net_addr *a, const struct net_listen *how, struct buf *why);
/* Removes the socket file, where there is one. */
void net_unlink(const struct net_addr *a);

/* Puts the numbers behind names of user and group into how; "" leaves -1. False, with a
 * sentence in why, for unknown ones. */
bool net_find_owner(
	const char *user, const char *group, struct net_listen *how, struct buf *why);

/* Puts /dev/null at a standard descriptor. Were one of them free, the next socket would
 * get its number, and what is written to standard error would go to a client. */
void net_occupy(int fd);

#endif
