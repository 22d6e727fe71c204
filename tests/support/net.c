/*
 * net.c - addresses and sockets for tests.
 */
#include "support.h"

#include <errno.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/net.h"

static void parse(const char *addr, struct net_addr *out)
{
	struct buf why = { 0 };

	if (!net_addr_parse(view_str(addr), out, &why))
		fail("address %s: %s", addr, buf_str(&why));
	buf_release(&why);
}

const char *addr_unix(const char *name)
{
	return text("unix:%s/%s", test_dir(), name);
}

/* Free when asked; somebody else may take it before it is used, which the kernel makes
 * unlikely by handing ports out at random. */
unsigned free_port(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&in, n) < 0 ||
		getsockname(fd, (struct sockaddr *)&in, &n) < 0)
		fail("no free port: %s", strerror(errno));
	close(fd);
	return ntohs(in.sin_port);
}

const char *addr_tcp(void)
{
	return text("tcp:127.0.0.1:%u", free_port());
}

int dial(const char *addr)
{
	struct net_addr a;
	struct buf why = { 0 };
	int fd;

	if (!net_addr_parse(view_str(addr), &a, &why)) {
		buf_release(&why);
		errno = EINVAL;
		return -1;
	}
	fd = socket(a.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&a.ss, a.len) < 0) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

int listen_on(const char *addr, int backlog)
{
	struct net_addr a;
	int one = 1, fd;

	parse(addr, &a);
	fd = socket(a.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (a.ss.ss_family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&a.ss, a.len) < 0 ||
		listen(fd, backlog) < 0)
		fail("cannot listen on %s: %s", addr, strerror(errno));
	return fd;
}

bool addr_answers(const char *addr)
{
	int fd = dial(addr);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}
