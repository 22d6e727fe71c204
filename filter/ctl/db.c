/*
 * ctl/db.c - weirctl db: the file of the directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/schema.h"
#include "ctl/directory.h"

/* A file that root makes for weir belongs to whom the folder belongs to: weir has to read
 * it, and SQLite gives what it puts beside it the same owner. */
static void give_to_owner_of_folder(const char *path, int fd)
{
	char *copy = strdup(path);
	struct stat st;

	if (copy && geteuid() == 0 && stat(dirname(copy), &st) == 0 &&
		fchown(fd, st.st_uid, st.st_gid) < 0)
		perror("weirctl: chown");
	free(copy);
}

/* Makes the file where there is none; *made says so. */
static bool make_file(struct job *j, bool *made)
{
	int fd = open(j->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);

	*made = fd >= 0;
	if (fd < 0 && errno == EEXIST)
		return true;
	if (fd < 0) {
		job_fail(j, "%s cannot be made: %s%s", j->path, strerror(errno),
			errno == ENOENT ? "; make its folder, and give it to the user weir "
					  "runs as"
					: "");
		return false;
	}
	give_to_owner_of_folder(j->path, fd);
	close(fd);
	return true;
}

static int print_version(struct job *j, const char *what)
{
	return job_print(j,
		json_pack("{s:s, s:i}", "path", j->path, "version", schema_newest()),
		"%s %s, version %d of the schema", j->path, what, schema_newest());
}

static int migrate(struct job *j, const char *what)
{
	struct buf why = { 0 };
	bool ok = schema_migrate(j->db, &why);

	if (!ok)
		job_fail(j, "%s: %.*s", j->path, VIEW_ARG(buf_view(&why)));
	buf_release(&why);
	return ok ? print_version(j, what) : CTL_FAILED;
}

static int db_init(struct job *j)
{
	int status = CTL_FAILED, version;
	enum schema_state state;
	bool made = false;

	if (!job_find_path(j, j->n_operands ? j->operands[0] : NULL) ||
		!make_file(j, &made) || !job_open(j, SQLITE_OPEN_READWRITE))
		goto out;
	state = schema_look(j->db, &version);
	if (state == SCHEMA_CURRENT || state == SCHEMA_OLD || state == SCHEMA_NEW)
		job_fail(j,
			"%s is a directory already, with version %d of the schema; "
			"\"weirctl db migrate\" brings an old one up to date",
			j->path, version);
	else
		status = migrate(j, "is ready");
out:
	if (made && status != CTL_OK)
		unlink(j->path);
	return status;
}

static int db_migrate(struct job *j)
{
	int version;

	if (!job_find_path(j, j->n_operands ? j->operands[0] : NULL) ||
		!job_open(j, SQLITE_OPEN_READWRITE))
		return CTL_FAILED;
	switch (schema_look(j->db, &version)) {
	case SCHEMA_CURRENT: return print_version(j, "was up to date");
	case SCHEMA_EMPTY:
		return job_fail(
			j, "%s has no tables; \"weirctl db init\" makes them", j->path);
	default: return migrate(j, "is up to date");
	}
}

static const struct verb verbs[] = {
	{ "init", "[FILE]", 0, 1, "", db_init, VERB_OPENS },
	{ "migrate", "[FILE]", 0, 1, "", db_migrate, VERB_OPENS },
};

int command_db(struct ctl *ctl, int argc, char **argv)
{
	return directory_command(ctl, argc, argv, verbs, COUNT_OF(verbs));
}
