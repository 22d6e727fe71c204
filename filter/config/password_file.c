/*
 * config/password_file.c - the password of Redis, in a file of its own.
 *
 * So that weir.ini may be shown to people, and a secret come from where secrets are kept.
 * One line; its end is no part of it. That others may read it is a notice and no mistake:
 * container systems hand secrets over that way.
 */
#include <errno.h>

#include "config/load.h"

#define PASSWORD_MAX 512

static const char subject[] = "store.password_file";

/* What is wrong with the text, or NULL; *password is then the line. */
static const char *check_line(struct view text, struct view *password)
{
	while (text.n && (text.p[text.n - 1] == '\r' || text.p[text.n - 1] == '\n'))
		text.n--;
	*password = text;
	if (text.n == 0)
		return "is empty; write the password into it";
	if (text.n > PASSWORD_MAX)
		return "is too large; a password has at most 512 bytes";
	if (memchr(text.p, '\0', text.n) || memchr(text.p, '\n', text.n))
		return "has more than a line of text; write the password alone into it";
	return NULL;
}

static void read_password(struct load *l, struct buf *text)
{
	struct place at = load_place(l, "store", "password_file");
	struct view name = view_str(l->draft.password_file), line;
	const char *wrong;
	struct stat st;
	int err = load_slurp(l, l->draft.password_file, &st, text);

	if (err == ENOMEM)
		return;
	if (err == EISDIR) {
		mistake_value(l->m, at, subject, name,
			"is not a file; write the name of one, relative to this one");
		return;
	}
	if (err) {
		mistake_value(l->m, at, subject, name,
			"cannot be read (%s); let weir's user read it, or write the name "
			"of another",
			strerror(err));
		return;
	}
	wrong = check_line(buf_view(text), &line);
	if (wrong) {
		mistake_value(l->m, at, subject, name, "%s", wrong);
		return;
	}
	if (st.st_mode & S_IROTH)
		mistake_notice(l->m, at,
			"%s: everybody on this machine can read it; chmod 640 would keep "
			"it to weir's group",
			subject);
	l->config->store.password = strndup(line.p, line.n);
	l->m->no_memory |= !l->config->store.password;
}

void load_password_file(struct load *l)
{
	struct buf text = { 0 };

	if (!l->draft.password_file || !*l->draft.password_file)
		return;
	read_password(l, &text);
	buf_release(&text);
}
