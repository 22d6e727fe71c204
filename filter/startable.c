#include "startable.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/plans.h"
#include "config/mistakes.h"

struct asked {
	const struct config *c;
	struct mistakes m;
	enum startable_for what;
};

static struct place place_of(const struct asked *a, const char *section, const char *name)
{
	return (struct place){ a->c->files[0], config_line(a->c, section, name) };
}

/* What a start fails at. */
static void fails(struct asked *a, struct place at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void fails(struct asked *a, struct place at, const char *fmt, ...)
{
	struct buf text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	buf_addv(&text, fmt, ap);
	va_end(ap);
	if (!buf_str(&text))
		a->m.no_memory = true;
	else if (a->what == STARTABLE_RUNS)
		mistake_notice(
			&a->m, at, "%s (weir runs on, and would not start again)", text.p);
	else
		mistake_add(&a->m, at, "%s", text.p);
	buf_release(&text);
}

/* -- users and groups -------------------------------------------------------------- */

static void check_owners(struct asked *a)
{
	const char *user = a->c->server.socket_user, *group = a->c->server.socket_group,
		   *control = a->c->server.control_group;

	if (*user && !getpwnam(user))
		fails(a, place_of(a, "server", "socket_user"),
			"server.socket_user: \"%s\" is no user of this system; write the "
			"name of one, or \"adduser --system %s\" makes it",
			user, user);
	if (*group && !getgrnam(group))
		fails(a, place_of(a, "server", "socket_group"),
			"server.socket_group: \"%s\" is no group of this system; write the "
			"name of one, or \"addgroup --system %s\" makes it",
			group, group);
	/* weir serves without a control socket. */
	if (*a->c->server.control && *control && !getgrnam(control))
		mistake_notice(&a->m, place_of(a, "server", "control_group"),
			"server.control_group: \"%s\" is no group of this system, so there "
			"will be no control socket; write the name of one, or \"addgroup "
			"--system %s\" makes it",
			control, control);
}

/* -- folders of sockets ------------------------------------------------------------ */

static bool is_below_run(const char *path)
{
	return strncmp(path, "/run/", 5) == 0 || strncmp(path, "/var/run/", 9) == 0;
}

/* Of a socket's path: what is wrong with its folder or with what stands there, and whether
 * everybody would find so. False when nothing is. */
static bool look_at_path(const char *path, struct buf *why, bool *sure)
{
	const char *slash = strrchr(path, '/');
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct stat st;

	snprintf(folder, sizeof(folder), "%.*s", slash == path ? 1 : (int)(slash - path),
		path);
	*sure = true;
	if (stat(folder, &st) < 0) {
		*sure = errno == ENOTDIR || (errno == ENOENT && !is_below_run(path));
		if (errno == ENOTDIR)
			buf_addf(why,
				"what %s is to lie in is no folder; write another path",
				folder);
		else if (errno != ENOENT)
			buf_addf(why, "the folder %s cannot be looked at by this user (%s)",
				folder, strerror(errno));
		else if (*sure)
			buf_addf(why, "there is no folder %s; make it", folder);
		else
			buf_addf(why,
				"there is no folder %s now; weir.service makes its own "
				"(RuntimeDirectory=), else make it before weir starts",
				folder);
		return true;
	}
	if (!S_ISDIR(st.st_mode)) {
		buf_addf(why, "%s is no folder; write another path", folder);
		return true;
	}
	if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode)) {
		buf_add_str(why,
			"something else than a socket is there; remove it or write another "
			"path");
		return true;
	}
	*sure = false;
	if (access(folder, W_OK | X_OK) == 0)
		return false;
	buf_addf(why,
		"this user may not make a socket in %s (%s); weir's has to be able to",
		folder, strerror(errno));
	return true;
}

static void check_socket(struct asked *a, const char *name, const struct net_addr *addr)
{
	const char *path = ((const struct sockaddr_un *)&addr->ss)->sun_path;
	struct place at = place_of(a, "server", name);
	bool control = strcmp(name, "control") == 0, sure;
	struct buf why = { 0 };

	if (addr->ss.ss_family != AF_UNIX || !look_at_path(path, &why, &sure))
		return;
	if (!buf_str(&why))
		a->m.no_memory = true;
	else if (sure && !control)
		fails(a, at, "server.%s: \"%s\": %s", name, addr->text, why.p);
	else
		mistake_notice(&a->m, at, "server.%s: \"%s\": %s%s", name, addr->text,
			why.p, sure ? ", or there will be no control socket" : "");
	buf_release(&why);
}

static void check_sockets(struct asked *a)
{
	const struct config *c = a->c;
	struct net_addr control;
	struct buf why = { 0 };

	for (size_t i = 0; i < c->server.n_listen; i++)
		check_socket(a, "listen", &c->server.listen[i]);
	if (*c->server.control &&
		net_addr_parse(view_str(c->server.control), &control, &why))
		check_socket(a, "control", &control);
	buf_release(&why);
}

/* -- where bodies go --------------------------------------------------------------- */

/* A body that finds no file is refused, and so would all large ones be until somebody
 * looks. What is not there is so for everybody; rights are those of whoever asks, who is
 * weir only when it starts or runs. */
static void check_spool_dir(struct asked *a)
{
	struct place at = place_of(a, "server", "spool_dir");
	const char *dir = a->c->server.spool_dir;
	int err = config_spool_fault(a->c);
	bool sure = a->what != STARTABLE_ASKED || err == ENOTDIR ||
		(err == ENOENT && !is_below_run(dir));

	if (err && sure)
		fails(a, at,
			"server.spool_dir: \"%s\" cannot hold large bodies (%s); write a "
			"directory that weir may write and enter",
			dir, strerror(err));
	else if (err)
		mistake_notice(&a->m, at,
			"server.spool_dir: \"%s\" cannot hold large bodies of this user's "
			"now (%s); weir's own has to be able to write and enter it, or "
			"weir does not start",
			dir, strerror(err));
}

/* -- the directory ----------------------------------------------------------------- */

static void check_directory(struct asked *a)
{
	struct place at = place_of(a, "client", "directory");
	struct buf why = { 0 };
	enum plans_look look = plans_check(a->c, a->what == STARTABLE_ASKED, &a->m, &why);

	if (look == PLANS_FIT || a->what == STARTABLE_BEGINS)
		;
	else if (!buf_str(&why))
		a->m.no_memory = true;
	else if (look == PLANS_UNFIT)
		fails(a, at, "client.directory: %s", why.p);
	else if (look == PLANS_LEFT)
		mistake_notice(&a->m, at, "client.directory: %s", why.p);
	else
		mistake_notice(&a->m, at,
			"client.directory: %s. That may be so for this user alone, or now "
			"alone: weir does not start when it finds the same",
			why.p);
	buf_release(&why);
}

bool startable(const struct config *c, enum startable_for what, struct buf *messages)
{
	struct asked a = { .c = c, .what = what };
	bool ok;

	if (what != STARTABLE_BEGINS) {
		check_owners(&a);
		check_sockets(&a);
	}
	check_spool_dir(&a);
	check_directory(&a);
	ok = a.m.errors == 0 && !a.m.no_memory;
	mistakes_write(&a.m, c->files, c->n_files, messages);
	if (a.m.no_memory)
		buf_addf(messages, "%s: memory is out\n", c->file);
	mistakes_release(&a.m);
	return ok;
}
