/*
 * test_reload.c - what of a new configuration a running process takes, and what it says.
 */
#include "folder.h"

#include "config/reload.h"

TestSuite(reload, .init = enter_folder, .fini = leave_folder);

#define A "endpoints.d/a.ini"
#define B "endpoints.d/b.ini"

static const char main_text[] = "[site]\n@RateLimit = type=ip count=9 window=1s\n";
static const char a_text[] = "[endpoint a]\nmatch = GET /a\n@RateLimit = type=ip count=1\n"
			     "@RateLimit = type=user count=2\n";
static const char b_text[] = "[endpoint b]\nmatch = GET /b\n@RateLimit = type=ip count=3\n";

static struct config *load_whole(void)
{
	put(MAIN, main_text);
	put(A, a_text);
	put(B, b_text);
	return load();
}

/* What the files say now may take the place of now, whose reference is given up. */
static void expect_taken(struct config *now)
{
	struct config *fresh = load();
	struct buf why = { 0 };

	cr_expect(config_may_replace(now, fresh, &why), "%s", buf_str(&why));
	config_unref(fresh);
	config_unref(now);
	buf_release(&why);
}

/* ---- Accidents ---- */

#define TO_DO                                                                         \
	"; put back what is missing, or write @RateLimit = count=unlimited there to " \
	"say that it is meant, or restart weir\n"

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
			"weir.ini: [site] has no @RateLimit any more, and had "
			"site/ip/sw1s" TO_DO
			"endpoints.d/a.ini:1: [endpoint a] has no @RateLimit any more, and "
			"had ip/sw60s, user/sw60s" TO_DO },
		{ "no rule and no file that had one", "# none\n",
			"[endpoint c]\nmatch = "
			"GET /c\n",
			NULL,
			"weir.ini: [site] has no @RateLimit any more, and had "
			"site/ip/sw1s" TO_DO
			"endpoints.d/a.ini:1: [endpoint c] has no @RateLimit any more, and "
			"had ip/sw60s, user/sw60s" TO_DO },
		{ "a main file cut before [site]", "[log]\nlevel = notice\n", a_text,
			b_text,
			"weir.ini: [site] has no @RateLimit any more, and had "
			"site/ip/sw1s" TO_DO },
		{ "one cut behind [site]", "[log]\nlevel = notice\n[site]\n", a_text,
			b_text,
			"weir.ini: [site] has no @RateLimit any more, and had "
			"site/ip/sw1s" TO_DO },
		{ "an endpoint's file cut before its first rule", main_text,
			"; Expensive.\n[endpoint a]\nmatch = GET /a\n", b_text,
			"endpoints.d/a.ini:2: [endpoint a] has no @RateLimit any more, and "
			"had ip/sw60s, user/sw60s" TO_DO },
		{ "one cut behind the comment it begins with", main_text, "; Expensive.\n",
			b_text,
			"endpoints.d/a.ini: [endpoint a] is not in it any more, and had "
			"limits; write it whole, or take the file away\n" },
		{ "a directory for bodies that was misspelt",
			"[server]\nspool_dir = /nope\n[site]\n@RateLimit = type=ip "
			"count=9 window=1s\n",
			a_text, b_text,
			"weir.ini:2: server.spool_dir: \"/nope\" cannot hold large bodies "
			"(No such file or directory), and /var/tmp could; write a "
			"directory "
			"that is there, or make this one first\n" },
		{ "a file for it",
			"[server]\nspool_dir = /dev/null\n[site]\n@RateLimit = type=ip "
			"count=9 window=1s\n",
			a_text, b_text,
			"weir.ini:2: server.spool_dir: \"/dev/null\" cannot hold large "
			"bodies (Not a directory), and /var/tmp could; write a directory "
			"that is there, or make this one first\n" },
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

/* A file that ends behind a rule cannot be told from one that is whole; but what it no
 * longer limits is named. */
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
	/* Behind the first rule. */
	cr_expect_eq(taken, 1);
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
		{ "an endpoint moved to another file", main_text, "# see b.ini\n", a_text,
			"b ip/sw60s" },
		{ "an endpoint moved, and one without limits in its file", main_text,
			"[endpoint assets]\nmatch = GET /assets\n", a_text, "b ip/sw60s" },
		{ "a rule taken away", main_text,
			"[endpoint a]\nmatch = GET /a\n@RateLimit = type=ip\n", b_text,
			"a user/sw60s" },
		{ "an endpoint and its file taken away, and the site's rules exchanged",
			"[site]\n@RateLimit = type=ip count=9 window=1h\n", NULL, b_text,
			"site/ip/sw1s, a ip/sw60s, a user/sw60s" },
		{ "the rules of the site said to be none",
			"[site]\n@RateLimit = count=unlimited\n", a_text, b_text,
			"site/ip/sw1s" },
		{ "a limit lifted",
			"[site]\n@RateLimit = type=ip count=unlimited window=1s\n", a_text,
			b_text, "site/ip/sw1s (count=unlimited)" },
		{ "one switched off",
			"[site]\n@RateLimit = type=ip count=9 window=1s mode=off\n", a_text,
			b_text, "site/ip/sw1s (mode=off)" },
		{ "one only watched",
			"[site]\n@RateLimit = type=ip count=9 window=1s mode=shadow\n",
			a_text, b_text, "site/ip/sw1s (mode=shadow)" },
		{ "one that refuses everybody",
			"[site]\n@RateLimit = type=ip count=0 window=1s\n", a_text, b_text,
			"" },
		{ "all only watched",
			"[server]\nmode = shadow\n[site]\n@RateLimit = type=ip count=9 "
			"window=1s\n",
			a_text, b_text,
			"site/ip/sw1s (server.mode=shadow), a ip/sw60s "
			"(server.mode=shadow), a user/sw60s (server.mode=shadow), b "
			"ip/sw60s (server.mode=shadow)" },
		{ "all switched off",
			"[server]\nmode = off\n[site]\n@RateLimit = type=ip count=9 "
			"window=1s\n",
			a_text, NULL,
			"site/ip/sw1s (server.mode=off), a ip/sw60s (server.mode=off), a "
			"user/sw60s (server.mode=off), b ip/sw60s" },
		{ "everybody allowed",
			"[allow]\nnetworks = 0.0.0.0/1 128.0.0.0/1\n[site]\n@RateLimit = "
			"type=ip count=9 window=1s\n",
			a_text, b_text, "all of IPv4 clients (allow.networks)" },
		{ "a network allowed",
			"[allow]\nnetworks = 10.0.0.0/8\n[site]\n@RateLimit = type=ip "
			"count=9 window=1s\n",
			a_text, b_text, "" },
		{ "another directory for bodies",
			"[server]\nspool_dir = /tmp\n[site]\n@RateLimit = type=ip count=9 "
			"window=1s\n",
			a_text, b_text, "" },
		{ "one that no body goes to",
			"[server]\nspool_dir = /nope\nspool_memory = 64K\nbody_limit = "
			"64K\n[site]\n@RateLimit = type=ip count=9 window=1s\n",
			a_text, b_text, "" },
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

/* ---- Plans ---- */

/* What of endpoint a is named when its rules are changed. */
static void expect_gone(
	const char *main_ini, const char *before, const char *after, const char *wanted)
{
	static const char head[] = "[endpoint a]\nmatch = GET /a\n";
	struct buf text = { 0 }, why = { 0 }, gone = { 0 };
	struct config *now, *fresh;

	put(MAIN, main_ini);
	buf_addf(&text, "%s%s", head, before);
	put(A, buf_str(&text));
	now = load();
	buf_reset(&text);
	buf_addf(&text, "%s%s", head, after);
	put(A, buf_str(&text));
	fresh = load();
	cr_expect(config_may_replace(now, fresh, &why), "%s: %s", after, buf_str(&why));
	config_limits_gone(now, fresh, &gone);
	cr_expect(view_eq(buf_view(&gone), view_str(wanted)), "%s: %.*s", after,
		VIEW_ARG(buf_view(&gone)));
	config_unref(fresh);
	config_unref(now);
	buf_release(&text);
	buf_release(&why);
	buf_release(&gone);
}

#define R "@RateLimit = type=ip "

Test(reload, a_limit_that_is_gone_for_some_plans_is_named_with_them)
{
	static const char nobody[] = "# no users\n";
	static const char users[] = "[client]\nuser = remote_user\n";
	static const char directory[] =
		"[client]\nuser = remote_user\ndirectory = sqlite:/x.db\n";
	static const struct {
		const char *main_ini, *before, *after, *gone;
	} rows[] = {
		{ nobody, R "\n", R "plan=anonymous\n", "" },
		{ nobody, R "\n", R "plan=default\n", "a ip/sw60s" },
		{ nobody, R "\n", R "\n" R "plan=default mode=off\n", "" },
		{ nobody, R "plan=default\n", R "window=1h\n", "" },
		{ users, R "\n", R "plan=anonymous\n" R "plan=default\n", "" },
		{ users, R "\n", R "plan=anonymous\n", "a ip/sw60s (plan default)" },
		{ users, R "\n", R "\n" R "plan=default count=unlimited\n",
			"a ip/sw60s (plan default: count=unlimited)" },
		{ directory, R "\n", R "plan=paid\n",
			"a ip/sw60s (plans anonymous, default, any other)" },
		{ directory, R "\n" R "plan=paid\n", R "\n" R "plan=paid mode=shadow\n",
			"a ip/sw60s (plan paid: mode=shadow)" },
		{ directory, R "\n" R "plan=paid\n", R "\n", "" },
		{ directory, R "plan=paid\n", R "plan=payd\n", "a ip/sw60s" },
		{ directory, R "plan=paid\n", R "\n", "" },
		{ directory, R "\n", R "\n" R "plan=paid mode=off\n",
			"a ip/sw60s (plan paid: mode=off)" },
		{ directory, R "plan=paid mode=off\n", R "plan=paid mode=shadow\n", "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect_gone(rows[i].main_ini, rows[i].before, rows[i].after, rows[i].gone);
}

/* ---- Patterns ---- */

/* Endpoint a in the folder of endpoints, b and c in one each of their own. */
static struct config *load_sites(void)
{
	put_patterns("endpoints.d/*.ini", MANY);
	put(A, a_text);
	put_sites();
	return load();
}

Test(reload, a_pattern_that_finds_nothing_any_more_is_not_taken)
{
	static const struct {
		const char *what, *first, *second;
		bool unmounted;
		const char *why; /* NULL: it is taken */
	} rows[] = {
		{ "nothing", "endpoints.d/*.ini", MANY, false, NULL },
		{ "the files are gone", "endpoints.d/*.ini", MANY, true,
			"weir.ini: server.endpoints: \"" MANY
			"\" is the name of no file, and was of 2; put them back, or take "
			"the pattern out, or restart weir if that is meant\n" },
		{ "a misspelt one", "endpoints.d/*.ini", "sitse/*/weir.ini", false,
			"weir.ini: server.endpoints: \"sitse/*/weir.ini\" is the name of "
			"no file, and \"" MANY
			"\", which is not there any more, was of 2; write it as it was, "
			"or take this one out, or restart weir if that is meant\n" },
		{ "it is taken out", "endpoints.d/*.ini", NULL, false, NULL },
		{ "it is taken out, and nothing is there", "endpoints.d/*.ini", NULL, true,
			NULL },
		{ "another way to write it", "endpoints.d/*.ini", "sites/?/weir.ini", false,
			NULL },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct config *now = load_sites(), *fresh;
		struct buf why = { 0 };
		bool taken;

		put_patterns(rows[i].first, rows[i].second);
		if (rows[i].unmounted)
			cr_assert_eq(rename("sites", "aside"), 0);
		fresh = load();
		taken = config_may_replace(now, fresh, &why);
		cr_expect_eq(taken, rows[i].why == NULL, "%s", rows[i].what);
		if (rows[i].why)
			cr_expect_str_eq(buf_str(&why), rows[i].why, "%s:\n%s",
				rows[i].what, buf_str(&why));
		if (rows[i].unmounted)
			cr_assert_eq(rename("aside", "sites"), 0);
		config_unref(fresh);
		config_unref(now);
		buf_release(&why);
	}
}

Test(reload, one_that_found_nothing_before_may_find_nothing)
{
	struct config *now;

	put_patterns("endpoints.d/*.ini", "later/*.ini");
	put(A, a_text);
	now = load();
	expect_taken(now);
}

/* ---- Odd ones ---- */

/* The disk is gone, and a limit is to be tightened. */
Test(reload, a_directory_for_bodies_that_is_lost_keeps_no_limit_waiting)
{
	struct buf text = { 0 };
	struct config *now;

	buf_addf(&text, "[server]\nspool_dir = %s/bodies\n%s", folder, main_text);
	cr_assert_eq(mkdir("bodies", 0700), 0);
	put(MAIN, buf_str(&text));
	now = load();
	cr_assert_eq(rmdir("bodies"), 0);
	expect_taken(now);
	buf_release(&text);
}

Test(reload, who_never_ends_the_last_line_is_not_asked_to)
{
	struct config *now;

	put(MAIN, "[site]\n@RateLimit = type=ip count=9 window=1s");
	put(A, "[endpoint a]\nmatch = GET /a");
	put(B, NULL);
	now = load();
	put(MAIN, "[site]\n@RateLimit = type=ip count=9 window=2s");
	put(B, "[endpoint b]\nmatch = GET /b");
	expect_taken(now);
}

Test(reload, a_site_without_endpoints_or_rules_stays_one)
{
	struct config *now;

	put(MAIN, "[log]\nlevel = info\n");
	now = load();
	put(MAIN, "[log]\nlevel = notice\n");
	expect_taken(now);
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
