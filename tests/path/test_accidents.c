/*
 * test_accidents.c - what happens to files opens no gate: editors, full disks, lost
 * mounts, and a slip of the hand.
 */
#include "gate.h"

#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a file until it is cut. */
static void cut(const char *file, const char *content, const char *behind)
{
	const char *at = strstr(content, behind);

	cr_assert_not_null(at);
	file_write(file, text("%.*s", (int)(at + strlen(behind) - content), content));
}

static void cut_before(const char *file, const char *content, const char *before)
{
	const char *at = strstr(content, before);

	cr_assert_not_null(at);
	file_write(file, text("%.*s", (int)(at - content), content));
}

static void lose_main(const struct gate *g)
{
	cr_assert_eq(unlink(g->weir->ini), 0);
}
static void empty_main(const struct gate *g)
{
	file_write(g->weir->ini, "");
}
static void cut_main(const struct gate *g)
{
	cut(g->weir->ini, g->ini, "count=1000");
}
static void cut_main_to_a_section(const struct gate *g)
{
	cut(g->weir->ini, g->ini, "[ser");
}
static void cut_main_before_its_rules(const struct gate *g)
{
	cut_before(g->weir->ini, g->ini, "[site]");
}
static void main_has_nowhere_for_bodies(const struct gate *g)
{
	gate_edit(g->weir->ini, g->ini, "workers = 2\n",
		"workers = 2\nspool_dir = /nonexistent\n");
}
static void main_is_a_directory(const struct gate *g)
{
	lose_main(g);
	cr_assert_eq(mkdir(g->weir->ini, 0755), 0);
}
static void main_leads_nowhere(const struct gate *g)
{
	lose_main(g);
	cr_assert_eq(symlink("/nonexistent/weir.ini", g->weir->ini), 0);
}
/* It opens, and reading fails. */
static void main_cannot_be_read(const struct gate *g)
{
	lose_main(g);
	cr_assert_eq(symlink("/proc/self/mem", g->weir->ini), 0);
}
static void main_is_a_pipe(const struct gate *g)
{
	lose_main(g);
	cr_assert_eq(mkfifo(g->weir->ini, 0600), 0);
}
static void main_is_endless(const struct gate *g)
{
	lose_main(g);
	cr_assert_eq(symlink("/dev/zero", g->weir->ini), 0);
}
static void main_is_another(const struct gate *g)
{
	file_replace(g->weir->ini, "[server]\nlisten = unix:/run/other.sock\n");
}

static void lose_a(const struct gate *g)
{
	cr_assert_eq(unlink(g->a_file), 0);
}
static void empty_a(const struct gate *g)
{
	file_write(g->a_file, "");
}
static void cut_a(const struct gate *g)
{
	cut(g->a_file, g->a, "window=1");
}
static void cut_a_before_its_rules(const struct gate *g)
{
	cut_before(g->a_file, g->a, "@RateLimit");
}
static void a_is_a_comment(const struct gate *g)
{
	file_replace(g->a_file, "; What comes first in many files.\n");
}
static void a_is_for_a_plan_nobody_has(const struct gate *g)
{
	gate_edit(g->a_file, g->a, "type=ip", "type=ip plan=payd");
}
static void a_is_for_a_plan_in_other_letters(const struct gate *g)
{
	gate_edit(g->a_file, g->a, "type=ip", "type=ip plan=Anonymous");
}
static void a_is_a_directory(const struct gate *g)
{
	lose_a(g);
	cr_assert_eq(mkdir(g->a_file, 0755), 0);
}
static void a_leads_nowhere(const struct gate *g)
{
	lose_a(g);
	cr_assert_eq(symlink("/nonexistent/a.ini", g->a_file), 0);
}
static void a_cannot_be_read(const struct gate *g)
{
	lose_a(g);
	cr_assert_eq(symlink("/proc/self/mem", g->a_file), 0);
}

static const char *aside(const struct gate *g)
{
	return text("%s.aside", g->dir);
}
static void lose_folder(const struct gate *g)
{
	cr_assert_eq(rename(g->dir, aside(g)), 0);
}
/* As an editor's copy, or the place where nothing is mounted yet. */
static void folder_is_empty(const struct gate *g)
{
	lose_folder(g);
	cr_assert_eq(mkdir(g->dir, 0755), 0);
}
static void folder_is_a_file(const struct gate *g)
{
	lose_folder(g);
	file_write(g->dir, "not a folder\n");
}
static void folder_goes_in_circles(const struct gate *g)
{
	lose_folder(g);
	cr_assert_eq(symlink(g->dir, g->dir), 0);
}
static void folder_has_other_names(const struct gate *g)
{
	for (size_t i = 0; i < 2; i++) {
		const char *file = text("%s/%c.ini", g->dir, "ab"[i]);

		cr_assert_eq(rename(file, text("%s.bak", file)), 0);
	}
}

static void restore_sites(void)
{
	if (access(test_path("c.aside"), F_OK) == 0) {
		cr_assert_eq(unlink(test_path("sites/c")), 0);
		cr_assert_eq(rename(test_path("c.aside"), test_path("sites/c")), 0);
	}
	if (access(test_path("sites.aside"), F_OK) == 0) {
		remove(test_path("sites"));
		cr_assert_eq(rename(test_path("sites.aside"), test_path("sites")), 0);
	}
}

/* Puts back what was there, whatever is there now. */
static void restore(const struct gate *g)
{
	if (access(aside(g), F_OK) == 0) {
		remove(g->dir);
		cr_assert_eq(rename(aside(g), g->dir), 0);
	}
	remove(g->weir->ini);
	file_replace(g->weir->ini, g->ini);
	for (size_t i = 0; i < 2; i++) {
		const char *file = text("%s/%c.ini", g->dir, "ab"[i]);

		rename(text("%s.bak", file), file);
	}
	remove(g->a_file);
	file_replace(g->a_file, g->a);
	restore_sites();
}

static const struct accident {
	const char *what;
	void (*happens)(const struct gate *g);
	const char *log;
} accidents[] = {
	{ "losing weir.ini", lose_main, "cannot be read (No such file or directory)" },
	{ "emptying weir.ini", empty_main, "there is nothing in it any more" },
	{ "cutting a number in weir.ini", cut_main, "the last line has no end" },
	{ "cutting a section in weir.ini", cut_main_to_a_section, "has no ']'" },
	{ "cutting weir.ini before its rules", cut_main_before_its_rules,
		"[site] has no @RateLimit any more, and had site/global/sw1s;" },
	{ "a directory for bodies that is not there", main_has_nowhere_for_bodies,
		"cannot hold large bodies (No such file or directory)" },
	{ "a directory for weir.ini", main_is_a_directory, "(Is a directory)" },
	{ "a broken link for weir.ini", main_leads_nowhere, "No such file or directory" },
	{ "a bad disk under weir.ini", main_cannot_be_read, "(Input/output error)" },
	{ "a pipe for weir.ini", main_is_a_pipe, "there is nothing in it any more" },
	{ "an endless weir.ini", main_is_endless, "the file is too large" },
	{ "another weir.ini", main_is_another, "no endpoint is left, and there were 2" },
	{ "emptying an endpoint", empty_a, "there is nothing in it, and [endpoint a] was" },
	{ "cutting an endpoint", cut_a, "a.ini: the last line has no end" },
	{ "cutting an endpoint before its rules", cut_a_before_its_rules,
		"a.ini:1: [endpoint a] has no @RateLimit any more, and had ip/sw1h;" },
	{ "cutting an endpoint behind a comment", a_is_a_comment,
		"a.ini: [endpoint a] is not in it any more, and had limits;" },
	{ "a rule for a plan that nobody has", a_is_for_a_plan_nobody_has,
		"is a plan that nobody has without a directory; write anonymous or" },
	{ "a plan in other letters", a_is_for_a_plan_in_other_letters,
		"without a directory; did you mean anonymous?" },
	{ "a directory for an endpoint", a_is_a_directory,
		"a.ini: the file cannot be read" },
	{ "a broken link for an endpoint", a_leads_nowhere,
		"a.ini: the file cannot be read" },
	{ "a bad disk under an endpoint", a_cannot_be_read,
		"a.ini: the file cannot be read" },
	{ "losing the endpoints", lose_folder, "no endpoint is left, and there were 2" },
	{ "an empty folder of endpoints", folder_is_empty,
		"no endpoint is left, and there were 2" },
	{ "a file for the folder of endpoints", folder_is_a_file,
		"no endpoint is left, and there were 2" },
	{ "a folder of endpoints that is its own link", folder_goes_in_circles,
		"\" (Too many levels of symbolic links); let weir read" },
	{ "endpoints all renamed", folder_has_other_names,
		"no endpoint is left, and there were 2" },
};

static void try_accidents(const struct gate *g, const struct accident *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *client = gate_new_client(), *said;

		gate_begin(g, client, rows[i].what);
		rows[i].happens(g);
		said = reload(g->weir, RELOAD_FAILS);
		cr_assert(strstr(said, rows[i].log), "%s: %s", rows[i].what, said);
		cr_assert(gate_reload_failed(g), "%s", rows[i].what);
		gate_end(g, client, rows[i].what);
		restore(g);
		gate_mend(g, client, rows[i].what);
	}
}

Test(accidents, to_files_open_no_gate_in_memory, .timeout = 120)
{
	struct gate g = gate_start(IN_MEMORY);

	try_accidents(&g, accidents, COUNT_OF(accidents));
}

Test(accidents, to_files_open_no_gate_in_redis, .timeout = 120)
{
	struct gate g = gate_start(gate_in_redis());

	try_accidents(&g, accidents, COUNT_OF(accidents));
}

/* ---- Accidents to one of two patterns ---- */

static void lose_sites(const struct gate *g)
{
	(void)g;
	cr_assert_eq(rename(test_path("sites"), test_path("sites.aside")), 0);
}
/* As before it is mounted. */
static void sites_are_empty(const struct gate *g)
{
	lose_sites(g);
	cr_assert_eq(mkdir(test_path("sites"), 0755), 0);
}
static void misspell_sites(const struct gate *g)
{
	gate_edit(g->weir->ini, g->ini, "/sites/*/", "/sitse/*/");
}
/* An error for what lies in it. The file is named without a wildcard, so nobody would
 * open this directory to see. */
static void a_site_goes_in_circles(const struct gate *g)
{
	(void)g;
	cr_assert_eq(rename(test_path("sites/c"), test_path("c.aside")), 0);
	cr_assert_eq(symlink("c", test_path("sites/c")), 0);
}

Test(accidents, to_one_of_two_patterns_open_no_gate, .timeout = 120)
{
	static const struct accident rows[] = {
		{ "losing a folder of sites", lose_sites,
			"/weir.ini\\\" is the name of no file, and was of 1;" },
		{ "an empty folder of sites", sites_are_empty,
			"/weir.ini\\\" is the name of no file, and was of 1;" },
		{ "a pattern misspelt", misspell_sites,
			"which is not there any more, was of 1;" },
		{ "a site that is its own link", a_site_goes_in_circles,
			"/sites/c\\\" (Too many levels of symbolic links)" },
	};
	struct gate g = gate_start_wide();

	try_accidents(&g, rows, COUNT_OF(rows));
}
