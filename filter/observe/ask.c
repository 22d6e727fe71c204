/*
 * observe/ask.c - one question to a running weir, and what to do when it does not answer.
 *
 * Whoever runs weirctl sees it fail for one of a few reasons, most of them on the first
 * day. Each has its own sentence here, with the path and the group in it.
 */
#include "observe/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/net.h"

/* Until when, for the whole conversation. */
struct talk {
	int fd;
	const struct net_addr *addr;
	int64_t timeout_ms, until_us;
	struct buf *why;
};

static void add_owner(struct buf *why, const struct stat *st, bool group_too)
{
	const struct passwd *user = getpwuid(st->st_uid);
	const struct group *group = getgrgid(st->st_gid);

	if (user)
		buf_addf(why, "user %s", user->pw_name);
	else
		buf_addf(why, "user number %u", (unsigned)st->st_uid);
	if (!group_too)
		return;
	if (group)
		buf_addf(why, " and group %s", group->gr_name);
	else
		buf_addf(why, " and group number %u", (unsigned)st->st_gid);
}

/* Names the directory or the socket that stopped us, and who may pass. */
static void explain_permission(const char *path, struct buf *why)
{
	char part[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 1];
	struct stat st = { 0 };
	bool group_too, directory = false;
	size_t n = strlen(path);

	memcpy(part, path, n + 1);
	for (size_t i = 1; i < n && !directory; i++) {
		if (path[i] != '/')
			continue;
		part[i] = '\0';
		directory = faccessat(AT_FDCWD, part, X_OK, AT_EACCESS) < 0;
		if (!directory)
			part[i] = '/';
	}
	if (stat(part, &st) < 0) {
		buf_addf(why, "no permission to use %s; run this as the user weir runs as",
			path);
		return;
	}
	group_too = st.st_mode & (directory ? S_IXGRP : S_IWGRP);
	buf_addf(why, "no permission to %s %s, which is open to ",
		directory ? "enter" : "use", part);
	add_owner(why, &st, group_too);
	buf_add_str(why,
		group_too ? "; run this as a member of that group"
			  : "; run this as that user, or name a group in control_group "
			    "([server] in weir.ini)");
}

static void explain_connect(const struct net_addr *addr, int err, struct buf *why)
{
	const char *path = ((const struct sockaddr_un *)&addr->ss)->sun_path;
	struct stat st;

	if (err == ENOENT || err == ENOTDIR) {
		buf_addf(why,
			"there is no %s: weir is not running, or its control socket has "
			"another path (control in [server] of weir.ini)",
			path);
	} else if (err == EACCES || err == EPERM) {
		explain_permission(path, why);
	} else if (err == ECONNREFUSED && stat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
		buf_addf(why,
			"%s is not a socket; write the path that control has in [server] "
			"of weir.ini",
			path);
	} else if (err == ECONNREFUSED) {
		buf_addf(why, "nobody listens on %s: weir is not running", addr->text);
	} else if (err == EAGAIN || err == EINPROGRESS || err == ETIMEDOUT) {
		buf_addf(why,
			"nobody accepted a connection on %s in time: weir is stopped or "
			"overloaded",
			addr->text);
	} else {
		buf_addf(why, "cannot connect to %s: %s", addr->text, strerror(err));
	}
}

static int64_t left_ms(const struct talk *t)
{
	int64_t left_us = t->until_us - clock_mono_us();

	return left_us > 0 ? (left_us + US_PER_MS - 1) / US_PER_MS : 0;
}

static bool talk_connect(struct talk *t)
{
	int64_t ms = left_ms(t);
	struct timeval limit = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 + 1 };

	t->fd = socket(t->addr->ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* The send time-out bounds connect() too; with a full backlog a unix socket has
	 * nothing that poll() could wait for. */
	if (t->fd < 0 ||
		setsockopt(t->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
		connect(t->fd, (const struct sockaddr *)&t->addr->ss, t->addr->len) < 0) {
		explain_connect(t->addr, errno, t->why);
		return false;
	}
	fcntl(t->fd, F_SETFL, fcntl(t->fd, F_GETFL) | O_NONBLOCK);
	return true;
}

/* Waits for events; false with a sentence when the time is over. */
static bool talk_wait(struct talk *t, short events)
{
	struct pollfd p = { .fd = t->fd, .events = events };
	int n;

	do {
		n = poll(&p, 1, (int)left_ms(t));
	} while (n < 0 && errno == EINTR);
	if (n > 0)
		return true;
	buf_addf(t->why,
		"weir did not answer on %s within %" PRId64
		" ms: it is stopped or overloaded",
		t->addr->text, t->timeout_ms);
	return false;
}

static bool talk_send(struct talk *t, struct view line)
{
	while (line.n) {
		ssize_t n = send(t->fd, line.p, line.n, MSG_NOSIGNAL);

		if (n > 0)
			line = view_skip(line, (size_t)n);
		else if (n < 0 && errno == EAGAIN && !talk_wait(t, POLLOUT))
			return false;
		else if (n < 0 && errno != EAGAIN && errno != EINTR)
			break; /* closed on us: it may have said why */
	}
	return true;
}

/* Reads up to the first newline. */
static bool talk_receive(struct talk *t, struct buf *line)
{
	char chunk[16384];

	for (;;) {
		ssize_t n = recv(t->fd, chunk, sizeof(chunk), 0);
		const char *end = n > 0 ? memchr(chunk, '\n', (size_t)n) : NULL;

		if (n > 0)
			buf_add(line,
				view_of(chunk, end ? (size_t)(end - chunk) : (size_t)n));
		if (end)
			return true;
		if (n > 0 && line->n <= ASK_REPLY_MAX)
			continue;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (talk_wait(t, POLLIN))
				continue;
			return false;
		}
		buf_addf(t->why, "%s %s", t->addr->text,
			n > 0 ? "sent more than an answer can be: it is not weir's control "
				"socket"
			      : "closed the connection without an answer: weir is "
				"stopping, or that is not its control socket");
		return false;
	}
}

/* Makes an object of line, unless it says what went wrong. */
static bool read_reply(struct talk *t, const struct buf *line, json_t **reply)
{
	json_t *o = buf_ok(line) ? json_loadb(line->p, line->n, 0, NULL) : NULL;
	const char *error = json_string_value(json_object_get(o, "error"));

	if (json_is_object(o) && !error) {
		*reply = o;
		return true;
	}
	if (error)
		buf_add_str(t->why, error);
	else
		buf_addf(t->why,
			"what listens on %s does not speak as weir does; is it the "
			"control address?",
			t->addr->text);
	json_decref(o);
	return false;
}

static bool read_address(const char *address, struct net_addr *addr, struct buf *why)
{
	if (!view_starts(view_str(address), VIEW("unix:"))) {
		buf_addf(why,
			"\"%s\" is no control address; write unix:/run/weir/control.sock",
			address);
		return false;
	}
	return net_addr_parse(view_str(address), addr, why);
}

bool control_ask(const char *address, const json_t *request, int64_t timeout_ms,
	json_t **reply, struct buf *why)
{
	struct net_addr addr;
	struct talk t = { .fd = -1, .addr = &addr, .timeout_ms = timeout_ms, .why = why };
	struct buf line = { 0 };
	bool ok = false;

	t.until_us = clock_mono_us() + timeout_ms * US_PER_MS;
	if (!read_address(address, &addr, why))
		goto out;
	json_put(&line, request, JSON_COMPACT);
	buf_add_byte(&line, '\n');
	if (!buf_ok(&line)) {
		buf_add_str(why, "the request cannot be written as JSON");
		goto out;
	}
	if (!talk_connect(&t) || !talk_send(&t, buf_view(&line)))
		goto out;
	buf_reset(&line);
	ok = talk_receive(&t, &line) && read_reply(&t, &line, reply);
out:
	if (t.fd >= 0)
		close(t.fd);
	buf_release(&line);
	return ok;
}

bool control_ask_for(const char *address, const char *command, int64_t timeout_ms,
	json_t **reply, struct buf *why)
{
	json_t *request = json_pack("{s:s}", "command", command);
	bool ok = control_ask(address, request, timeout_ms, reply, why);

	json_decref(request);
	return ok;
}
