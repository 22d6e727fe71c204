/*
 * test_gate.c - an operator's mistake opens no gate, and what he means does.
 */
#include "gate.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Every mistake there is a fixture for ---- */

/* What the log says of the configuration, one message a line, as it was before it was
 * written as a field, and with files named from the test's directory. */
static void messages_in(const char *log, struct buf *out)
{
	static const char mark[] = "event=configuration message=\"";
	const char *dir = text("%s/", test_dir());

	while ((log = strstr(log, mark)) != NULL) {
		for (log += strlen(mark); *log && *log != '"'; log++) {
			char hex[3] = { 0 };

			if (strncmp(log, dir, strlen(dir)) == 0)
				log += strlen(dir);
			if (*log != '\\') {
				buf_add_byte(out, *log);
			} else if (*++log == 'x') {
				memcpy(hex, log + 1, 2);
				buf_add_byte(out, (char)strtoul(hex, NULL, 16));
				log += 2;
			} else {
				buf_add_byte(out, *log);
			}
		}
		buf_add_byte(out, '\n');
	}
	cr_assert(buf_str(out));
}

/* What is expected of NAME.ini, which is weir.ini here. */
static void put_expected(const struct gate *g, const char *name, struct buf *out)
{
	const char *dir = test_env("WEIR_CONFIG_DATA"), *end;
	const char *line = file_read(text("%s/bad/%s.expected", dir, name));
	const char *main_file = text("%s.ini:", name);

	cr_assert_not_null(line, "%s", name);
	for (; *line; line = end + 1) {
		end = line + strcspn(line, "\n");
		if (strncmp(line, main_file, strlen(main_file)) == 0) {
			buf_addf(out, "%s:", strrchr(g->weir->ini, '/') + 1);
			line += strlen(main_file);
		}
		buf_addf(out, "%.*s\n", (int)(end - line), line);
	}
	cr_assert(buf_str(out));
}

/* Lines as long as the log has room for. */
static void expect_same_lines(const char *said, const char *wanted, const char *name)
{
	while (*wanted) {
		size_t n = strcspn(wanted, "\n"), m = strcspn(said, "\n");

		cr_assert(m == n || (m < n && m > 300), "%s: \"%.*s\", not \"%.*s\"", name,
			(int)m, said, (int)n, wanted);
		cr_assert_eq(memcmp(said, wanted, m), 0, "%s: \"%.*s\", not \"%.*s\"", name,
			(int)m, said, (int)n, wanted);
		wanted += n + 1;
		said += m + 1;
	}
	cr_assert_str_eq(said, "", "%s", name);
}

/* What the fixtures name lies beside weir.ini. */
static void link_fixtures(void)
{
	glob_t found;

	cr_assert_eq(
		glob(text("%s/bad/*", test_env("WEIR_CONFIG_DATA")), 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *name = strrchr(found.gl_pathv[i], '/') + 1;

		if (!strstr(name, ".ini") && !strstr(name, ".expected"))
			cr_assert_eq(symlink(found.gl_pathv[i], test_path(name)), 0);
	}
	globfree(&found);
}

static void try_fixture(const struct gate *g, const char *path)
{
	const char *file = strrchr(path, '/') + 1, *client = gate_new_client();
	const char *name = text("%.*s", (int)strlen(file) - 4, file);
	const char *fresh = test_path("fresh"), *own = test_path(file);
	struct buf said = { 0 }, wanted = { 0 };

	gate_begin(g, client, name);
	/* Under its own name too: one of them finds itself by that. */
	file_copy(path, own);
	cr_assert_eq(link(own, fresh), 0);
	cr_assert_eq(rename(fresh, g->weir->ini), 0);
	messages_in(reload(g->weir, RELOAD_FAILS), &said);
	put_expected(g, name, &wanted);
	expect_same_lines(said.p, wanted.p, name);
	cr_assert(gate_reload_failed(g), "%s", name);
	gate_end(g, client, name);
	cr_assert_eq(unlink(own), 0);
	file_replace(g->weir->ini, g->ini);
	gate_mend(g, client, name);
	buf_release(&said);
	buf_release(&wanted);
}

static void try_fixtures(const char *store)
{
	struct gate g = gate_start(store);
	glob_t found;

	link_fixtures();
	cr_assert_eq(
		glob(text("%s/bad/*.ini", test_env("WEIR_CONFIG_DATA")), 0, NULL, &found),
		0);
	cr_assert_geq(found.gl_pathc, 70);
	for (size_t i = 0; i < found.gl_pathc; i++)
		try_fixture(&g, found.gl_pathv[i]);
	/* None of it has cost a request. */
	cr_assert_eq(weir_counter(g.weir, "requests_passed"),
		(int64_t)(found.gl_pathc * g.n_limited * 3));
	globfree(&found);
}

Test(gate, stays_shut_whatever_mistake_is_made_in_memory, .timeout = 120)
{
	try_fixtures(IN_MEMORY);
}

Test(gate, stays_shut_whatever_mistake_is_made_in_redis, .timeout = 120)
{
	try_fixtures(gate_in_redis());
}

/* ---- What is meant ---- */

Test(gate, takes_an_endpoint_away_on_purpose_and_names_its_limits, .timeout = 60)
{
	struct gate g = gate_start(IN_MEMORY);
	const char *client = gate_new_client(), *said;

	gate_begin(&g, client, "taking a away");
	cr_assert_eq(unlink(g.a_file), 0);
	said = reload(g.weir, RELOADED);
	cr_assert(WAIT_UNTIL(5000,
			  strstr(process_log(g.weir->process), "limits=\"a ip/sw1h\"")),
		"%s", said);
	/* No server.backend: nobody is asked for what no endpoint matches. */
	cr_assert(WAIT_UNTIL(5000, gate_status(&g, client, "/a") == 404));
	gate_expect(&g, client, "/b", 200, "without a");
	gate_expect(&g, client, "/b", 429, "without a");
}

Test(gate, takes_no_notice_of_what_editors_leave_behind, .timeout = 60)
{
	static const char *const names[] = { ".a.ini.swp", "a.ini~", "#a.ini#", "a.ini.bak",
		"a.ini.dpkg-old", "sedX3f9aq", "4913", "README" };
	struct gate g = gate_start(IN_MEMORY);
	const char *client = gate_new_client(), *said;

	gate_begin(&g, client, "editing");
	for (size_t i = 0; i < COUNT_OF(names); i++)
		file_write(text("%s/%s", g.dir, names[i]), "half of [an endpoint");
	/* An editor's lock. */
	cr_assert_eq(symlink("me@host.1234", text("%s/.#a.ini", g.dir)), 0);
	said = reload(g.weir, RELOADED);
	cr_assert_null(strstr(said, "level=error"), "%s", said);
	gate_end(&g, client, "editing");
}

/* Who takes limits away in so many words is heard, and the log says what that was. */
Test(gate, opens_where_that_is_written_and_names_the_limits, .timeout = 120)
{
	static const struct {
		const char *from, *to; /* in endpoint a, or weir.ini */
		const char *names, *notice;
	} rows[] = {
		{ "type=ip", "type=ip mode=off", "limits=\"a ip/sw1h (mode=off)\"", "" },
		{ "type=ip", "type=ip mode=shadow", "limits=\"a ip/sw1h (mode=shadow)\"",
			"" },
		{ "count=3", "count=unlimited", "limits=\"a ip/sw1h (count=unlimited)\"",
			"" },
		{ "workers = 2", "mode = off",
			"a ip/sw1h (server.mode=off), b user/tb24h (server.mode=off)\"",
			"nobody meets a limit" },
		{ "workers = 2", "mode = shadow",
			"a ip/sw1h (server.mode=shadow), b user/tb24h (server.mode=shadow)",
			"all rules count and report, and nobody is refused" },
		{ "[backend", "[allow]\nnetworks = 0.0.0.0/1 128.0.0.0/1\n[backend",
			"limits=\"all of IPv4 clients (allow.networks)\"",
			"these are all IPv4 addresses: nobody with one meets a limit" },
	};
	struct gate g = gate_start(IN_MEMORY);

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const char *client = gate_new_client(), *said;
		bool in_a = strstr(g.a, rows[i].from) != NULL;

		gate_begin(&g, client, rows[i].to);
		gate_end(&g, client, rows[i].to);
		gate_edit(in_a ? g.a_file : g.weir->ini, in_a ? g.a : g.ini, rows[i].from,
			rows[i].to);
		said = reload(g.weir, "event=\"these limits are no longer enforced\"");
		cr_assert(strstr(said, rows[i].names), "%s: %s", rows[i].to, said);
		cr_assert(strstr(process_log(g.weir->process), rows[i].notice), "%s",
			rows[i].to);
		cr_assert(WAIT_UNTIL(10000, gate_status(&g, client, "/a") == 200), "%s",
			rows[i].to);
		file_replace(g.a_file, g.a);
		file_replace(g.weir->ini, g.ini);
		reload(g.weir, RELOADED);
		cr_assert(WAIT_UNTIL(10000, gate_status(&g, client, "/a") == 429), "%s",
			rows[i].to);
	}
}
