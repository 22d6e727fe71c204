#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/ini.h"

/* What the reader said, one event a line. */
struct heard {
	struct buf text;
	bool refuse; /* sections are not wanted */
};

static bool on_section(void *user, struct view kind, struct view name, unsigned line)
{
	struct heard *h = user;

	buf_addf(&h->text, "%u [%.*s|%.*s]\n", line, VIEW_ARG(kind), VIEW_ARG(name));
	return !h->refuse;
}

static void on_value(void *user, const struct ini_value *v)
{
	struct heard *h = user;

	buf_addf(&h->text, "%u %.*s=%.*s%s\n", v->line, VIEW_ARG(v->name),
		VIEW_ARG(v->value), v->whole.n > v->value.n ? " (commented)" : "");
}

static bool on_odd(void *user, struct view text, unsigned line)
{
	struct heard *h = user;

	buf_addf(&h->text, "%u odd %.*s\n", line, VIEW_ARG(text));
	return false;
}

static const struct ini_events events = { on_section, on_value, on_odd };

/* Reads text and returns the events and, behind them, the mistakes. */
static const char *hear(struct heard *h, struct view text)
{
	struct mistakes m = { 0 };

	buf_reset(&h->text);
	ini_parse_view(text, "x.ini", &events, h, &m);
	mistakes_write(&m, NULL, 0, &h->text);
	mistakes_release(&m);
	return buf_str(&h->text);
}

Test(ini, names_and_values_come_with_their_lines)
{
	static const struct {
		const char *text, *heard;
	} rows[] = {
		{ "[a]\nx = 1\n\ny=2 \n", "1 [a|]\n2 x=1\n4 y=2\n" },
		{ "[backend  php]\nx = 1", "1 [backend|php]\n2 x=1\n" },
		{ "[ a ] ; why\nx = 1\n", "1 [a|]\n2 x=1\n" },
		{ "# one\n; two\n  ; three\n[a]\nx =\n", "4 [a|]\n5 x=\n" },
		{ "\xef\xbb\xbf[a]\r\nx = 1\r\n", "1 [a|]\n2 x=1\n" },
		{ "[a]\n@RateLimit = type=ip count=5\n",
			"1 [a|]\n2 @RateLimit=type=ip count=5\n" },
		{ "[a]\nx = a = b : c\n", "1 [a|]\n2 x=a = b : c\n" },
		{ "", "" },
		{ "\n\n", "" },
	};
	struct heard h = { 0 };

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_str_eq(hear(&h, view_str(rows[i].text)), rows[i].heard);
	buf_release(&h.text);
}

Test(ini, a_comment_behind_a_value_has_blanks_around_its_semicolon)
{
	static const struct {
		const char *line, *heard;
	} rows[] = {
		{ "x = 1 ; why", "1 [a|]\n2 x=1 (commented)\n" },
		{ "x = 1\t;\twhy", "1 [a|]\n2 x=1 (commented)\n" },
		{ "x = 1 ;", "1 [a|]\n2 x=1 (commented)\n" },
		{ "x = 1 ;; why", "1 [a|]\n2 x=1 (commented)\n" },
		{ "x = ; why", "1 [a|]\n2 x= (commented)\n" },
		{ "x = 1; why", "1 [a|]\n2 x=1; why\n" },
		{ "x = a;b", "1 [a|]\n2 x=a;b\n" },
		{ "x = 1 ;why",
			"1 [a|]\nx.ini:2: a.x: \"1 ;why\" would be cut at its ';'; put a "
			"blank "
			"behind it if a comment begins there, or take away the one before "
			"it\n" },
		{ "x = \"a ; b\"",
			"1 [a|]\nx.ini:2: a.x: \"\"a ; b\"\" would be cut at its ';': "
			"quotes do not "
			"protect it; write the value without quotes, and with no blank "
			"before "
			"the ';'\n" },
	};
	struct heard h = { 0 };

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf text = { 0 };

		buf_addf(&text, "[a]\n%s\n", rows[i].line);
		cr_expect_str_eq(hear(&h, buf_view(&text)), rows[i].heard);
		buf_release(&text);
	}
	buf_release(&h.text);
}

Test(ini, lines_under_a_section_nobody_wants_are_not_handed_on)
{
	struct heard h = { .refuse = true };

	cr_expect_str_eq(
		hear(&h, VIEW("[a]\nx = 1\n[b ; c]\ny = 2\n")), "1 [a|]\n3 [b|; c]\n");
	buf_release(&h.text);
}

Test(ini, an_empty_section_is_noticed_and_an_empty_name_is_not_one)
{
	struct heard h = { 0 };

	cr_expect_str_eq(hear(&h, VIEW("[a]\n[b]\nx = 1\n[c]\n; only this\n")),
		"1 [a|]\n2 [b|]\n3 x=1\n4 [c|]\n"
		"x.ini:1: notice: [a] has nothing in it\n"
		"x.ini:4: notice: [c] has nothing in it\n");
	cr_expect_str_eq(hear(&h, VIEW("[ ]\n")),
		"x.ini:1: \"[ ]\" names no section; write [server] or the like\n");
	buf_release(&h.text);
}

Test(ini, the_longest_line_and_section_that_are_read_are_read_whole)
{
	struct heard h = { 0 };
	struct buf text = { 0 }, wanted = { 0 };

	buf_add_str(&text, "[a]\nx = ");
	buf_add_str(&wanted, "1 [a|]\n2 x=");
	for (int i = 0; i < INI_LINE_MAX - 4; i++) {
		buf_add_byte(&text, 'y');
		buf_add_byte(&wanted, 'y');
	}
	buf_add_str(&text, "\r\nz = 1\n[endpoint ");
	buf_add_str(&wanted, "\n3 z=1\n4 [endpoint|");
	for (int i = 0; i < INI_SECTION_MAX - 9; i++) {
		buf_add_byte(&text, 'e');
		buf_add_byte(&wanted, 'e');
	}
	buf_add_str(&text, "]\nz = 2\n");
	buf_add_str(&wanted, "]\n5 z=2\n");
	cr_expect_str_eq(hear(&h, buf_view(&text)), buf_str(&wanted));
	buf_release(&h.text);
	buf_release(&text);
	buf_release(&wanted);
}

Test(ini, any_byte_can_stand_anywhere_and_is_told_once_a_file)
{
	struct heard h = { 0 };

	for (unsigned c = 0; c < 256; c++) {
		char line[] = "[a]\nx = 1?2\nx?y = 1\n?\n";

		for (char *p = line; *p; p++)
			*p = *p == '?' ? (char)c : *p;
		hear(&h, view_of(line, sizeof(line) - 1));
		if ((c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
			char wanted[128];

			snprintf(wanted, sizeof(wanted),
				"1 [a|]\nx.ini:2: byte 0x%02x does not belong in a "
				"configuration; save the file as plain UTF-8 text\n",
				c);
			cr_expect_str_eq(h.text.p, wanted);
		}
	}
	buf_release(&h.text);
}

Test(ini, a_file_is_read_whole_or_not_at_all)
{
	struct buf text = { 0 };

	cr_expect_eq(ini_slurp("/nonexistent/weir.ini", &text), ENOENT);
	cr_expect_eq(ini_slurp("/", &text), EISDIR);
	cr_expect_eq(ini_slurp("/dev/zero", &text), EFBIG);
	buf_release(&text);
	cr_expect_eq(ini_slurp("/dev/null", &text), 0);
	cr_expect_eq(text.n, 0);
	/* A file that opens, and then cannot be read. */
	cr_expect_eq(ini_slurp("/proc/self/mem", &text), EIO);
	buf_release(&text);
}

Test(ini, a_pipe_nobody_writes_to_holds_nobody_up, .timeout = 20)
{
	char folder[] = "/tmp/weir-ini-XXXXXX", path[64];
	struct buf text = { 0 };

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/pipe", folder);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(ini_slurp(path, &text), 0);
	cr_expect_eq(text.n, 0);
	buf_release(&text);
	unlink(path);
	rmdir(folder);
}

static atomic_bool seen;

static void *keep_writing(void *path)
{
	while (!atomic_load(&seen)) {
		int fd = open(path, O_WRONLY | O_TRUNC);

		for (int i = 0; i < 1000 && !atomic_load(&seen); i++)
			cr_assert_eq(write(fd, "# a line\n", 9), 9);
		close(fd);
	}
	return NULL;
}

Test(ini, a_file_that_is_being_written_is_not_taken_for_one, .timeout = 60)
{
	char path[] = "/tmp/weir-ini-XXXXXX";
	pthread_t thread;
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(pthread_create(&thread, NULL, keep_writing, path), 0);
	while (!atomic_load(&seen)) {
		struct buf text = { 0 };
		int err = ini_slurp(path, &text);

		cr_assert(err == 0 || err == EBUSY, "%s", strerror(err));
		atomic_store(&seen, err == EBUSY);
		buf_release(&text);
	}
	pthread_join(thread, NULL);
	close(fd);
	unlink(path);
}
