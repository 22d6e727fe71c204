#include "base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool parse_unix(struct view path, struct net_addr *out, struct buf *why)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&out->ss;

	if (path.n == 0 || path.p[0] != '/') {
		buf_add_str(why,
			"a unix socket needs an absolute path; write unix:/run/name.sock");
		return false;
	}
	if (path.n >= sizeof(un->sun_path)) {
		buf_addf(why, "the path of a unix socket has at most %zu bytes",
			sizeof(un->sun_path) - 1);
		return false;
	}
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path.p, path.n);
	out->len = sizeof(*un);
	return true;
}

/* Splits "host:port" at the last colon; brackets hold an IPv6 address. */
static bool parse_tcp(struct view rest, struct net_addr *out, struct buf *why)
{
	const char *colon = rest.n ? memrchr(rest.p, ':', rest.n) : NULL;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	struct view host, port;
	char host_text[128], port_text[8];
	uint64_t number;
	int err;

	if (!colon) {
		buf_add_str(why, "no port; write tcp:host:port");
		return false;
	}
	host = view_of(rest.p, (size_t)(colon - rest.p));
	port = view_skip(rest, host.n + 1);
	if (!view_number(port, 65535, &number)) {
		buf_add_str(why,
			"the port is not a number from 0 to 65535; write tcp:host:port");
		return false;
	}
	if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = view_of(host.p + 1, host.n - 2);
	else if (host.n && memchr(host.p, ':', host.n)) {
		buf_add_str(why, "an IPv6 address needs brackets; write tcp:[::1]:9000");
		return false;
	}
	if (host.n == 0 || host.n >= sizeof(host_text)) {
		buf_add_str(why,
			"no host; write tcp:127.0.0.1:9000, or tcp:0.0.0.0:9000 for all "
			"addresses");
		return false;
	}
	snprintf(host_text, sizeof(host_text), "%.*s", VIEW_ARG(host));
	snprintf(port_text, sizeof(port_text), "%u", (unsigned)number);
	err = getaddrinfo(host_text, port_text, &hints, &found);
	if (err) {
		buf_addf(why,
			"no address for host \"%s\" (%s); write a numeric address or a "
			"name that resolves",
			host_text, gai_strerror(err));
		return false;
	}
	memcpy(&out->ss, found->ai_addr, found->ai_addrlen);
	out->len = found->ai_addrlen;
	freeaddrinfo(found);
	return true;
}

/* Two addresses in one line, or an address and more: else the whole would be the path of
 * one unix socket. */
static bool names_two(struct view text)
{
	for (size_t i = 1; i < text.n; i++) {
		struct view rest = view_skip(text, i);
		char before = text.p[i - 1];

		if (before == ',' && (rest.p[0] == ' ' || rest.p[0] == '\t'))
			return true;
		if (strchr(" \t,;", before) &&
			(view_starts(rest, VIEW("unix:")) ||
				view_starts(rest, VIEW("tcp:"))))
			return true;
	}
	return false;
}

bool net_addr_parse(struct view text, struct net_addr *out, struct buf *why)
{
	struct net_addr a = { 0 };
	bool ok;

	if (text.n >= sizeof(a.text)) {
		buf_addf(why, "an address has at most %zu bytes", sizeof(a.text) - 1);
		return false;
	}
	/* What follows works on C strings and would silently use the part before it. */
	if (text.n && memchr(text.p, '\0', text.n)) {
		buf_add_str(why, "an address cannot hold a NUL byte");
		return false;
	}
	if (names_two(text)) {
		buf_add_str(why, "more than one address; write one");
		return false;
	}
	if (view_starts(text, VIEW("unix:"))) {
		ok = parse_unix(view_skip(text, 5), &a, why);
	} else if (view_starts(text, VIEW("tcp:"))) {
		ok = parse_tcp(view_skip(text, 4), &a, why);
	} else {
		buf_add_str(why, "not an address; write unix:/path or tcp:host:port");
		return false;
	}
	if (!ok)
		return false;
	memcpy(a.text, text.p, text.n);
	*out = a;
	return true;
}

bool net_addr_same(const struct net_addr *a, const struct net_addr *b)
{
	return a->len == b->len && memcmp(&a->ss, &b->ss, a->len) == 0;
}

unsigned net_addr_port(const struct net_addr *a)
{
	switch (a->ss.ss_family) {
	case AF_INET: return ntohs(((const struct sockaddr_in *)&a->ss)->sin_port);
	case AF_INET6: return ntohs(((const struct sockaddr_in6 *)&a->ss)->sin6_port);
	default: return 0;
	}
}

bool net_find_owner(
	const char *user, const char *group, struct net_listen *how, struct buf *why)
{
	struct passwd *pw;
	struct group *gr;

	how->uid = (uid_t)-1;
	how->gid = (gid_t)-1;
	if (*user) {
		pw = getpwnam(user);
		if (!pw) {
			buf_addf(why, "there is no user %s", user);
			return false;
		}
		how->uid = pw->pw_uid;
	}
	if (*group) {
		gr = getgrnam(group);
		if (!gr) {
			buf_addf(why, "there is no group %s", group);
			return false;
		}
		how->gid = gr->gr_gid;
	}
	return true;
}

/* Clears the way for a bind to a unix path: true when nothing is there now. */
static bool remove_stale(const struct net_addr *a, struct buf *why)
{
	const char *path = ((const struct sockaddr_un *)&a->ss)->sun_path;
	struct stat st;
	int fd, err;

	if (lstat(path, &st) < 0) {
		if (errno == ENOENT)
			return true;
		buf_addf(why, "%s: %s", a->text, strerror(errno));
		return false;
	}
	if (!S_ISSOCK(st.st_mode)) {
		buf_addf(why,
			"%s exists and is not a socket; remove it or choose another path",
			path);
		return false;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		buf_addf(why, "%s: %s", a->text, strerror(errno));
		return false;
	}
	err = connect(fd, (const struct sockaddr *)&a->ss, a->len) < 0 ? errno : 0;
	close(fd);
	if (err == 0 || err == EAGAIN) { /* EAGAIN: alive, with a full backlog */
		buf_addf(why,
			"somebody listens on %s already; stop it or choose another path",
			path);
		return false;
	}
	if (err != ECONNREFUSED) {
		buf_addf(why, "%s exists, and whether it is in use cannot be told: %s",
			path, strerror(err));
		return false;
	}
	if (unlink(path) < 0 && errno != ENOENT) {
		buf_addf(why, "%s: %s", a->text, strerror(errno));
		return false;
	}
	return true;
}

/* Which of the two it was the system does not say. */
static void put_owner(
	const struct net_addr *a, const struct net_listen *how, int err, struct buf *why)
{
	const struct passwd *pw = how->uid == (uid_t)-1 ? NULL : getpwuid(how->uid);
	const struct group *gr = how->gid == (gid_t)-1 ? NULL : getgrgid(how->gid);

	buf_addf(why, "cannot listen on %s: it cannot be given to", a->text);
	if (pw)
		buf_addf(why, " user %s", pw->pw_name);
	if (gr)
		buf_addf(why, "%s group %s", pw ? " and" : "", gr->gr_name);
	buf_addf(why, " (%s)", strerror(err));
	if (err == EPERM && pw)
		buf_add_str(why, "; only root may give files to another user");
	else if (err == EPERM && gr)
		buf_addf(why,
			"; the user weir runs as has to be in that group (adduser USER %s, "
			"or under systemd SupplementaryGroups=)",
			gr->gr_name);
}

/* The socket file has its mode from its first instant, and its owner before
 * anybody can connect (before listen). umask is the process's (net.h). */
static bool bind_unix(
	int fd, const struct net_addr *a, const struct net_listen *how, struct buf *why)
{
	const char *path = ((const struct sockaddr_un *)&a->ss)->sun_path;
	mode_t old = umask(~how->mode & 0777);
	int rc = bind(fd, (const struct sockaddr *)&a->ss, a->len);
	int err = rc < 0 ? errno : 0;

	umask(old);
	if (rc < 0) {
		buf_addf(why, "cannot listen on %s: %s", a->text, strerror(err));
		if (err == ENOENT)
			buf_addf(why,
				"; there is no folder %.*s: make it (under systemd "
				"RuntimeDirectory= does, as in weir.service)",
				(int)(strrchr(path, '/') - path), path);
		return false;
	}
	if ((how->uid != (uid_t)-1 || how->gid != (gid_t)-1) &&
		lchown(path, how->uid, how->gid) < 0) {
		put_owner(a, how, errno, why);
		unlink(path);
		return false;
	}
	return true;
}

int net_listen(const struct net_addr *a, const struct net_listen *how, struct buf *why)
{
	int one = 1, fd;

	if (a->ss.ss_family == AF_UNIX && !remove_stale(a, why))
		return -1;
	fd = socket(a->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		buf_addf(why, "%s: %s", a->text, strerror(errno));
		return -1;
	}
	if (a->ss.ss_family == AF_UNIX) {
		if (!bind_unix(fd, a, how, why))
			goto fail;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (bind(fd, (const struct sockaddr *)&a->ss, a->len) < 0) {
			buf_addf(why, "cannot listen on %s: %s", a->text, strerror(errno));
			goto fail;
		}
	}
	if (listen(fd, how->backlog) == 0)
		return fd;
	buf_addf(why, "cannot listen on %s: %s", a->text, strerror(errno));
	net_unlink(a);
fail:
	close(fd);
	return -1;
}

void net_unlink(const struct net_addr *a)
{
	if (a->len && a->ss.ss_family == AF_UNIX)
		unlink(((const struct sockaddr_un *)&a->ss)->sun_path);
}

void net_occupy(int fd)
{
	int null = open("/dev/null", O_RDWR);

	if (null != fd) {
		dup2(null, fd);
		close(null);
	}
}
