#include "config/ini.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct section {
	char *text; /* "server", "backend php" */
	unsigned line;
};

struct reader {
	struct view rest; /* what is still to be read */
	const char *file;
	struct mistakes *m;
	const struct ini_events *events;
	void *user;

	unsigned line;
	bool told_byte; /* one line about control bytes is enough for a file */
	struct section *sections;
	size_t n_sections;

	/* The current section. */
	bool began;  /* one has begun, good or bad */
	bool wanted; /* its values are handed on */
	bool used;   /* it has something in it */
	char kind[INI_SECTION_MAX + 1];

	/* The current line, as inih is to see it. */
	struct buf line_text;
};

/* Debian's inih exports its settings as variables and reads them on every call. */
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static void set_settings(void)
{
	ini_allow_multiline = false;
	ini_allow_bom = true;
	ini_allow_inline_comments = true;
	ini_use_stack = false;
	ini_max_line = INI_LINE_MAX + 3;
	ini_initial_alloc = INI_LINE_MAX + 3;
	ini_allow_realloc = false;
	ini_stop_on_first_error = false;
	ini_allow_no_value = false;
}

static struct place here(const struct reader *r)
{
	return (struct place){ r->file, r->line };
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_comment(struct view trimmed)
{
	return trimmed.n == 0 || trimmed.p[0] == ';' || trimmed.p[0] == '#';
}

/* Tells about a line: "what was read" why. */
static void bad_line(struct reader *r, struct view line, const char *why)
{
	struct buf text = { 0 };
	const char *told;

	mistake_quote(&text, view_trim(line));
	buf_addf(&text, " %s", why);
	told = buf_str(&text);
	if (told)
		mistake_add(r->m, here(r), "%s", told);
	else
		r->m->no_memory = true;
	buf_release(&text);
}

static void end_section(struct reader *r)
{
	const struct section *s = r->n_sections ? &r->sections[r->n_sections - 1] : NULL;

	if (r->wanted && !r->used)
		mistake_notice(r->m, (struct place){ r->file, s->line },
			"[%s] has nothing in it", s->text);
}

/* Keeps the section's name. False when there was one of that name before. */
static bool remember_section(struct reader *r, const char *text)
{
	struct section *list;

	for (size_t i = 0; i < r->n_sections; i++) {
		if (strcmp(r->sections[i].text, text) != 0)
			continue;
		mistake_add(r->m, here(r),
			"[%s] was there before, in line %u; put everything into one of "
			"them",
			text, r->sections[i].line);
		return false;
	}
	list = realloc(r->sections, (r->n_sections + 1) * sizeof(*list));
	if (!list)
		goto no_memory;
	r->sections = list;
	list[r->n_sections].line = r->line;
	list[r->n_sections].text = strdup(text);
	if (!list[r->n_sections].text)
		goto no_memory;
	r->n_sections++;
	return true;

no_memory:
	r->m->no_memory = true;
	return false;
}

static void read_section(struct reader *r, struct view line)
{
	struct view tail = view_skip(line, 1), text, kind, name;
	char whole[2 * INI_SECTION_MAX + 2];

	end_section(r);
	r->began = true;
	r->wanted = r->used = false;
	if (!memchr(line.p, ']', line.n)) {
		bad_line(r, line, "has no ']'; write [section] on one line");
		return;
	}
	text = view_trim(view_cut(&tail, ']'));
	if (view_trim(tail).n && !(is_blank(tail.p[0]) && is_comment(view_trim(tail)))) {
		bad_line(r, line,
			"has something behind its ']'; put it on a line of its own");
		return;
	}
	name = text;
	kind = view_cut(&name, ' ');
	name = view_trim(name);
	if (text.n == 0) {
		bad_line(r, line, "names no section; write [server] or the like");
		return;
	}
	if (text.n > INI_SECTION_MAX) {
		bad_line(r, line,
			"is too long; what stands between [ and ] has at most 49 bytes");
		return;
	}
	snprintf(r->kind, sizeof(r->kind), "%.*s", VIEW_ARG(kind));
	snprintf(whole, sizeof(whole), "%s%s%.*s", r->kind, name.n ? " " : "",
		VIEW_ARG(name));
	if (!remember_section(r, whole))
		return;
	r->wanted = r->events->section(r->user, kind, name, r->line);
	if (r->wanted)
		buf_addf(&r->line_text, "[%s]", whole);
}

static bool is_key(struct view v)
{
	for (size_t i = 0; i < v.n; i++) {
		unsigned char c = (unsigned char)v.p[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
			!(c >= '0' && c <= '9') && !strchr("_.@-", c))
			return false;
	}
	return v.n > 0;
}

/* Where inih will cut the value: the first ';' behind a blank. SIZE_MAX: nowhere. */
static size_t find_cut(struct view value)
{
	for (size_t i = 1; i < value.n; i++) {
		if (value.p[i] == ';' && is_blank(value.p[i - 1]))
			return i;
	}
	return SIZE_MAX;
}

/* Whether what inih would cut off can only be a comment. */
static bool check_cut(struct reader *r, struct view name, struct view value, size_t cut)
{
	struct view behind = view_skip(value, cut + 1);
	const char *why = NULL;
	char subject[128];
	size_t quotes = 0;

	for (size_t i = 0; i < cut; i++)
		quotes += value.p[i] == '"';
	if (quotes % 2)
		why = "would be cut at its ';': quotes do not protect it; write the value "
		      "without quotes, and with no blank before the ';'";
	else if (behind.n && behind.p[0] != ';' && !is_blank(behind.p[0]))
		why = "would be cut at its ';'; put a blank behind it if a comment begins "
		      "there, or take away the one before it";
	if (!why)
		return true;
	snprintf(subject, sizeof(subject), "%s.%.*s", r->kind,
		(int)(name.n < 60 ? name.n : 60), name.p);
	mistake_value(r->m, here(r), subject, view_trim(value), "%s", why);
	return false;
}

static void read_assignment(struct reader *r, struct view line)
{
	struct view value = line, name = view_trim(view_cut(&value, '='));
	bool has_equals = memchr(line.p, '=', line.n);
	size_t cut;

	r->used = true;
	if (!r->began) {
		bad_line(r, line,
			"stands before the first section; write [server] or the "
			"like above it");
		return;
	}
	if (!has_equals || !is_key(name)) {
		if (r->events->odd(r->user, view_trim(line), r->line))
			return;
		if (!has_equals)
			bad_line(r, line, "has no '='; write name = value");
		else if (name.n == 0)
			bad_line(r, line, "has no name; write name = value");
		else
			bad_line(r, line,
				"is not name = value; a name has letters, digits and _ . - "
				"@");
		return;
	}
	cut = find_cut(value);
	if (cut != SIZE_MAX && !check_cut(r, name, value, cut))
		return;
	/* What stands under a bad section was not asked for. */
	if (r->wanted)
		buf_add(&r->line_text, line);
}

static void control_byte(struct reader *r, unsigned char c)
{
	if (r->told_byte)
		return;
	r->told_byte = true;
	mistake_add(r->m, here(r),
		"byte 0x%02x does not belong in a configuration; save the file as plain "
		"UTF-8 text",
		c);
}

/* Looks at one line before inih does and leaves in line_text what inih is to see:
 * the line, or nothing. */
static void examine(struct reader *r, struct view line)
{
	struct view trimmed = view_trim(line);

	for (size_t i = 0; i < line.n; i++) {
		unsigned char c = (unsigned char)line.p[i];

		if ((c < ' ' && c != '\t') || c == 0x7f) {
			control_byte(r, c);
			return;
		}
	}
	if (is_comment(trimmed))
		return;
	if (line.n > INI_LINE_MAX)
		mistake_add(r->m, here(r), "the line has %zu bytes; a line has at most %d",
			line.n, INI_LINE_MAX);
	else if (is_blank(line.p[0]))
		bad_line(r, line,
			"is indented; lines are not continued here, so begin it in the "
			"first column");
	else if (line.p[0] == '[')
		read_section(r, line);
	else
		read_assignment(r, line);
}

/* inih's reader: one line a call, like fgets(). A line it is not to see is empty,
 * so that its count of lines stays ours. */
static char *next_line(char *out, int n, void *stream)
{
	struct reader *r = stream;
	struct view line;

	if (r->rest.n == 0)
		return NULL;
	line = view_cut(&r->rest, '\n');
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	r->line++;
	buf_reset(&r->line_text);
	examine(r, line);
	if (!buf_ok(&r->line_text))
		r->m->no_memory = true;
	else if (r->line_text.n < (size_t)n) {
		if (r->line_text.n)
			memcpy(out, r->line_text.p, r->line_text.n);
		out[r->line_text.n] = '\0';
		return out;
	}
	out[0] = '\0';
	return out;
}

static int on_value(void *user, const char *section, const char *name, const char *value)
{
	struct reader *r = user;
	struct view whole = buf_view(&r->line_text);
	struct ini_value v = {
		.name = view_str(name),
		.value = view_str(value),
		.line = r->line,
	};

	(void)section; /* the reader announced it */
	view_cut(&whole, '=');
	v.whole = view_trim(whole);
	r->events->value(r->user, &v);
	return 1;
}

void ini_parse_view(struct view text, const char *file, const struct ini_events *events,
	void *user, struct mistakes *m)
{
	struct reader r = {
		.rest = text, .file = file, .m = m, .events = events, .user = user
	};
	int rc;

	pthread_once(&settings_once, set_settings);
	if (view_starts(r.rest, VIEW("\xef\xbb\xbf")))
		r.rest = view_skip(r.rest, 3);
	rc = ini_parse_stream(next_line, &r, on_value, &r);
	end_section(&r);
	if (rc == -2)
		m->no_memory = true;
	else if (rc > 0)
		mistake_add(m, (struct place){ file, (unsigned)rc },
			"is not understood; write name = value");
	for (size_t i = 0; i < r.n_sections; i++)
		free(r.sections[i].text);
	free(r.sections);
	buf_release(&r.line_text);
}

/* Waits for the writer of a pipe. 0, or ETIMEDOUT: a reload must come to an end. */
static int wait_for_more(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, INI_PATIENCE_MS) == 0 ? ETIMEDOUT : 0;
}

static int read_all(int fd, struct buf *out)
{
	for (;;) {
		ssize_t got;
		int err = 0;

		if (!buf_reserve(out, 16384))
			return ENOMEM;
		got = read(fd, out->p + out->n, 16384);
		if (got == 0)
			return 0;
		if (got > 0)
			out->n += (size_t)got;
		else if (errno == EAGAIN)
			err = wait_for_more(fd);
		else if (errno != EINTR)
			err = errno;
		if (out->n > INI_FILE_MAX)
			err = EFBIG;
		if (err)
			return err;
	}
}

static bool same_moment(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

int ini_slurp(const char *file, struct buf *out)
{
	/* Of a pipe that nobody writes to, opening would wait for ever. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	struct stat before, after;

	if (fd < 0)
		return errno;
	if (fstat(fd, &before) < 0)
		err = errno;
	else
		err = read_all(fd, out);
	/* Whoever writes in place was not done. */
	if (!err && S_ISREG(before.st_mode) && fstat(fd, &after) == 0 &&
		(before.st_size != after.st_size ||
			!same_moment(before.st_mtim, after.st_mtim)))
		err = EBUSY;
	close(fd);
	return err;
}
