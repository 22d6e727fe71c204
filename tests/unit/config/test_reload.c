/*
 * test_reload.c - what of a new configuration a running process takes, and what it says.
 */
#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/options.h"
#include "config/reload.h"

/* ---- A folder with a configuration in it ---- */

static char folder[] = "/tmp/weir-reload-XXXXXX";

static void enter_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
	cr_assert_eq(mkdir("endpoints.d", 0755), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void leave_folder(void)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(reload, .init = enter_folder, .fini = leave_folder);

/* A NULL text removes the file. */
static void put(const char *file, const char *text)
{
	FILE *f;

	if (!text) {
		unlink(file);
		return;
	}
	f = fopen(file, "w");
	cr_assert_not_null(f);
	fputs(text, f);
	cr_assert_eq(fclose(f), 0);
}

#define MAIN "weir.ini"
#define A    "endpoints.d/a.ini"
#define B    "endpoints.d/b.ini"

static const char main_text[] = "[site]\n@RateLimit = type=ip count=9 window=1s\n";
static const char a_text[] = "[endpoint a]\nmatch = GET /a\n@RateLimit = type=ip count=1\n"
			     "@RateLimit = type=user count=2\n";
static const char b_text[] = "[endpoint b]\nmatch = GET /b\n@RateLimit = type=ip count=3\n";

static struct config *load(void)
{
	struct buf told = { 0 };
	struct config *c = NULL;

	cr_assert(config_load(MAIN, &c, &told), "%s", buf_str(&told));
	buf_release(&told);
	return c;
}

static struct config *load_whole(void)
{
	put(MAIN, main_text);
	put(A, a_text);
	put(B, b_text);
	return load();
}

/* ---- Accidents ---- */

Test(reload, what_looks_like_an_accident_is_not_taken)
{
	static const struct {
		const char *what;
		const char *main_ini, *a, *b;
		const char *why;
	} rows[] = {
		{ "a main file that was truncated", "", a_text, b_text,
			"weir.ini: there is nothing in it any more; write it whole, or "
			"restart weir if that is meant\n" },
		{ "one with nothing but blanks", " \n\t\n\r\n", a_text, b_text,
			"weir.ini: there is nothing in it any more; write it whole, or "
			"restart weir if that is meant\n" },
		{ "one that is half written", "[site]\n@RateLimit = type=ip count=9",
			a_text, b_text,
			"weir.ini: the last line has no end, as if the file were half "
			"written; end it with a newline\n" },
		{ "an endpoint's file that was truncated", main_text, "", b_text,
			"endpoints.d/a.ini: there is nothing in it, and [endpoint a] was; "
			"write it whole, or take the file away\n" },
		{ "a window of 60s that was cut to 6", main_text, a_text,
			"[endpoint b]\nmatch = GET /b\n@RateLimit = type=ip count=3 "
			"window=6",
			"endpoints.d/b.ini: the last line has no end, as if the file were "
			"half written; end it with a newline\n" },
		{ "all endpoints gone", main_text, NULL, NULL,
			"weir.ini: no endpoint is left, and there were 2; put back the "
			"files that server.endpoints names, or restart weir if that is "
			"meant\n" },
		{ "no rule left", "[log]\nlevel = notice\n",
			"[endpoint a]\nmatch = GET /a\n", NULL,
			"weir.ini: no @RateLimit is left, and there were 4; put them back, "
			"or restart weir if that is meant\n" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct config *now = load_whole(), *fresh;
		struct buf why = { 0 };

		put(MAIN, rows[i].main_ini);
		put(A, rows[i].a);
		put(B, rows[i].b);
		fresh = load();
		cr_expect_not(config_may_replace(now, fresh, &why), "%s", rows[i].what);
		cr_expect_str_eq(
			buf_str(&why), rows[i].why, "%s:\n%s", rows[i].what, buf_str(&why));
		config_unref(fresh);
		config_unref(now);
		buf_release(&why);
	}
}

/* A file that ends where a line does cannot be told from one that is whole; but what it
 * no longer limits is named. */
Test(reload, wherever_a_file_is_cut_no_limit_is_lost_in_silence)
{
	struct config *now = load_whole();
	unsigned taken = 0;

	for (size_t n = 0; n < strlen(a_text); n++) {
		struct buf told = { 0 }, gone = { 0 };
		struct config *fresh = NULL;
		char text[256];

		snprintf(text, sizeof(text), "%.*s", (int)n, a_text);
		put(A, text);
		if (config_load(MAIN, &fresh, &told) &&
			config_may_replace(now, fresh, &told)) {
			config_limits_gone(now, fresh, &gone);
			cr_expect_eq(text[n - 1], '\n', "%s", text);
			cr_expect_gt(gone.n, 0, "%s", text);
			taken++;
		}
		config_unref(fresh);
		buf_release(&told);
		buf_release(&gone);
	}
	/* Behind the line with match, and behind the first rule. */
	cr_expect_eq(taken, 2);
	config_unref(now);
}

Test(reload, what_an_operator_does_is_taken)
{
	static const struct {
		const char *what;
		const char *main_ini, *a, *b;
		const char *gone;
	} rows[] = {
		{ "nothing", main_text, a_text, b_text, "" },
		{ "another count", "[site]\n@RateLimit = type=ip count=8 window=1s\n",
			a_text, b_text, "" },
		{ "an endpoint's file taken away", main_text, NULL, b_text,
			"a ip/sw60s, a user/sw60s" },
		{ "all in it made a comment", main_text, "# not for now\n", b_text,
			"a ip/sw60s, a user/sw60s" },
		{ "a rule taken away", main_text,
			"[endpoint a]\nmatch = GET /a\n@RateLimit = type=ip\n", b_text,
			"a user/sw60s" },
		{ "the rules of the site taken away", "# none\n", a_text, b_text,
			"site/ip/sw1s" },
		{ "one with another window in its place",
			"[site]\n@RateLimit = type=ip count=9 window=1m\n", a_text, b_text,
			"site/ip/sw1s" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct config *now = load_whole(), *fresh;
		struct buf why = { 0 }, gone = { 0 };

		put(MAIN, rows[i].main_ini);
		put(A, rows[i].a);
		put(B, rows[i].b);
		fresh = load();
		cr_expect(config_may_replace(now, fresh, &why), "%s: %s", rows[i].what,
			buf_str(&why));
		config_limits_gone(now, fresh, &gone);
		cr_expect(view_eq(buf_view(&gone), view_str(rows[i].gone)), "%s: %.*s",
			rows[i].what, VIEW_ARG(buf_view(&gone)));
		config_unref(fresh);
		config_unref(now);
		buf_release(&why);
		buf_release(&gone);
	}
}

Test(reload, who_never_ends_the_last_line_is_not_asked_to)
{
	struct buf why = { 0 };
	struct config *now, *fresh;

	put(MAIN, "[site]\n@RateLimit = type=ip count=9 window=1s");
	put(A, "[endpoint a]\nmatch = GET /a");
	put(B, NULL);
	now = load();
	put(MAIN, "[site]\n@RateLimit = type=ip count=9 window=2s");
	put(B, "[endpoint b]\nmatch = GET /b");
	fresh = load();
	cr_expect(config_may_replace(now, fresh, &why), "%s", buf_str(&why));
	config_unref(fresh);
	config_unref(now);
	buf_release(&why);
}

Test(reload, a_site_without_endpoints_or_rules_stays_one)
{
	struct buf why = { 0 };
	struct config *now, *fresh;

	put(MAIN, "[log]\nlevel = info\n");
	now = load();
	put(MAIN, "[log]\nlevel = notice\n");
	fresh = load();
	cr_expect(config_may_replace(now, fresh, &why), "%s", buf_str(&why));
	config_unref(fresh);
	config_unref(now);
	buf_release(&why);
}

Test(reload, many_limits_that_are_gone_fill_no_log)
{
	struct buf text = { 0 }, gone = { 0 };
	struct config *now, *fresh;

	put(MAIN, main_text);
	for (int i = 0; i < 30; i++) {
		char file[32];

		snprintf(file, sizeof(file), "endpoints.d/e%02d.ini", i);
		buf_reset(&text);
		buf_addf(&text, "[endpoint e%02d]\nmatch = GET /%d\n@RateLimit =\n", i, i);
		put(file, buf_str(&text));
	}
	now = load();
	for (int i = 1; i < 30; i++) {
		char file[32];

		snprintf(file, sizeof(file), "endpoints.d/e%02d.ini", i);
		put(file, NULL);
	}
	fresh = load();
	config_limits_gone(now, fresh, &gone);
	cr_expect(strstr(buf_str(&gone), "e01 user/sw60s, e02"), "%s", gone.p);
	cr_expect(strstr(gone.p, "e20 user/sw60s and 9 more"), "%s", gone.p);
	config_unref(fresh);
	config_unref(now);
	buf_release(&text);
	buf_release(&gone);
}

/* ---- What needs a restart ---- */

Test(reload, every_option_that_needs_a_restart_is_named)
{
	static const struct {
		const char *name, *text;
	} rows[] = {
		{ "server.listen", "[server]\nlisten = tcp:127.0.0.1:9000\n" },
		{ "server.socket_mode", "[server]\nsocket_mode = 0600\n" },
		{ "server.socket_user", "[server]\nsocket_user = www\n" },
		{ "server.socket_group", "[server]\nsocket_group = www\n" },
		{ "server.backlog", "[server]\nbacklog = 7\n" },
		{ "server.workers", "[server]\nworkers = 7\n" },
		{ "server.control", "[server]\ncontrol =\n" },
		{ "server.control_group", "[server]\ncontrol_group = adm\n" },
		{ "store.type", "[store]\ntype = memory\n" },
		{ "store.url", "[store]\nurl = redis://127.0.0.1:6380/0\n" },
		{ "store.url", "[store]\nurl = redis://127.0.0.1:6379/1\n" },
		{ "store.url", "[store]\nurl = redis://:secret@127.0.0.1:6379/0\n" },
		{ "store.url", "[store]\nurl = unix:///run/redis.sock\n" },
		{ "store.memory", "[store]\nmemory = 8M\n" },
		{ "fallback.rate", "[fallback]\nrate = 7/s\n" },
		{ "client.directory", "[client]\ndirectory = sqlite:/x.db\n" },
		{ "client.directory_ttl", "[client]\ndirectory_ttl = 7s\n" },
		{ "client.directory_miss_ttl", "[client]\ndirectory_miss_ttl = 7s\n" },
		{ "client.directory_cache", "[client]\ndirectory_cache = 7\n" },
	};
	struct config *now, *fresh;

	put(MAIN, "[log]\nlevel = notice\n");
	now = load();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf named = { 0 };

		put(MAIN, rows[i].text);
		fresh = load();
		config_restart_needed(now, fresh, &named);
		cr_expect_str_eq(buf_str(&named), rows[i].name, "%s", rows[i].text);
		config_unref(fresh);
		buf_release(&named);
	}
	config_unref(now);
	/* No such option is missing above. */
	for (size_t i = 0; i < options_n; i++) {
		struct buf name = { 0 };
		bool found = (options[i].flags & OPT_RELOAD) ||
			strcmp(options[i].name, "directory_query") == 0;

		buf_addf(&name, "%s.%s", options[i].section, options[i].name);
		for (size_t j = 0; j < COUNT_OF(rows); j++)
			found = found || strcmp(rows[j].name, buf_str(&name)) == 0;
		cr_expect(found, "%s", buf_str(&name));
		buf_release(&name);
	}
}

Test(reload, all_that_needs_a_restart_is_named_at_once)
{
	struct buf named = { 0 };
	struct config *now, *fresh;

	put(MAIN, "[client]\ndirectory = sqlite:/x.db\n");
	now = load();
	put(MAIN,
		"[server]\nbacklog = 7\n[log]\nlevel = error\n[client]\n"
		"directory = sqlite:/x.db\ndirectory_query = SELECT a, b FROM c WHERE d = "
		"?\n");
	fresh = load();
	config_restart_needed(now, fresh, &named);
	cr_expect_str_eq(buf_str(&named), "server.backlog, client.directory_query");
	config_unref(fresh);
	config_unref(now);
	buf_release(&named);
}
