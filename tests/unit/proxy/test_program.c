#include "with_params.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/program.h"

/*
 * below a directory of the test:
 *	outside.cgi
 *	cgi/a.cgi  cgi/plain.txt (0644)  cgi/secret.cgi (0111)  cgi/in.cgi -> sub/b.cgi
 *	cgi/out.cgi -> ../outside.cgi  cgi/abs.cgi -> /bin/sh  cgi/up -> ..
 *	cgi/sub/b.cgi  cgi/sub/back.cgi -> ../a.cgi  cgi/fifo
 *	cgi/hé llo.cgi  cgi/a%41.cgi  cgi/a%2Fb.cgi  cgi/q?m.cgi
 */
static char base[] = "/tmp/test-program-XXXXXX";
static char root[64];

static void make_file(const char *name, mode_t mode)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", base, name);
	fd = open(path, O_WRONLY | O_CREAT, mode);
	cr_assert_geq(fd, 0);
	fchmod(fd, mode);
	close(fd);
}

static void make_link(const char *name, const char *to)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	cr_assert_eq(symlink(to, path), 0);
}

static void make_dir(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	cr_assert_eq(mkdir(path, 0755), 0);
}

/* What URLs have to escape. */
static const char *const odd[] = { "cgi/hé llo.cgi", "cgi/a%41.cgi", "cgi/a%2Fb.cgi",
	"cgi/q?m.cgi" };

static void make_tree(void)
{
	char path[128];

	cr_assert(mkdtemp(base));
	snprintf(root, sizeof(root), "%s/cgi", base);
	make_dir("cgi");
	make_dir("cgi/sub");
	make_file("outside.cgi", 0755);
	make_file("cgi/a.cgi", 0755);
	make_file("cgi/plain.txt", 0644);
	make_file("cgi/secret.cgi", 0111);
	make_file("cgi/sub/b.cgi", 0755);
	for (size_t i = 0; i < COUNT_OF(odd); i++)
		make_file(odd[i], 0755);
	make_link("cgi/in.cgi", "sub/b.cgi");
	make_link("cgi/sub/back.cgi", "../a.cgi");
	make_link("cgi/out.cgi", "../outside.cgi");
	make_link("cgi/abs.cgi", "/bin/sh");
	make_link("cgi/up", "..");
	make_link("cgi/loop", "loop");
	snprintf(path, sizeof(path), "%s/cgi/fifo", base);
	cr_assert_eq(mkfifo(path, 0755), 0);
}

static void drop_tree(void)
{
	static const char *const files[] = { "outside.cgi", "cgi/a.cgi", "cgi/plain.txt",
		"cgi/secret.cgi", "cgi/sub/b.cgi", "cgi/in.cgi", "cgi/sub/back.cgi",
		"cgi/out.cgi", "cgi/abs.cgi", "cgi/up", "cgi/loop", "cgi/fifo" };
	static const char *const dirs[] = { "cgi/sub", "cgi", "" };
	char path[128];

	for (size_t i = 0; i < COUNT_OF(files); i++) {
		snprintf(path, sizeof(path), "%s/%s", base, files[i]);
		cr_assert_eq(unlink(path), 0);
	}
	for (size_t i = 0; i < COUNT_OF(odd); i++) {
		snprintf(path, sizeof(path), "%s/%s", base, odd[i]);
		cr_assert_eq(unlink(path), 0);
	}
	for (size_t i = 0; i < COUNT_OF(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", base, dirs[i]);
		cr_assert_eq(rmdir(path), 0);
	}
}

TestSuite(program, .init = make_tree, .fini = drop_tree);

/* In the rows below a leading "ROOT" of a text stands for the root. */
static void expand(const char *text, char *out, size_t cap)
{
	if (strncmp(text, "ROOT", 4) == 0)
		snprintf(out, cap, "%s%s", root, text + 4);
	else
		snprintf(out, cap, "%s", text);
}

static enum program_found find(const char *prefix, const char *params, struct view path,
	struct program_place *place)
{
	struct backend b = { .kind = BACKEND_CGI, .root = root };
	struct request rq = with_params(params);
	const char *why = "";
	enum program_found found;
	char text[64];

	snprintf(text, sizeof(text), "%s", prefix);
	b.prefix = text;
	found = program_find(&b, &rq, path, place, &why);
	if (found != PROGRAM_FOUND)
		cr_assert_gt(strlen(why), 0);
	request_release(&rq);
	return found;
}

/* Finds and compares; SCRIPT_FILENAME, when file is not NULL, is put in front. */
static void check_found(const char *prefix, const char *file, const char *params,
	const char *path, const char *want_file, const char *want_name,
	const char *want_info)
{
	struct program_place place = PROGRAM_PLACE_NONE;
	char all[512], full[256], wanted[256], here[256];
	struct stat by_fd, by_name;

	expand(file ? file : "", full, sizeof(full));
	snprintf(all, sizeof(all), "%s%s%s%s", file ? "SCRIPT_FILENAME=" : "", full,
		file ? "\n" : "", params);
	cr_assert_eq(find(prefix, all, view_str(path), &place), PROGRAM_FOUND,
		"%s with %s was not found", path, all);
	expand(want_file, wanted, sizeof(wanted));
	cr_assert_str_eq(place.file, wanted);
	cr_assert_str_eq(place.script_name, want_name, "%s with %s: SCRIPT_NAME %s", path,
		all, place.script_name);
	cr_assert_str_eq(place.path_info, want_info, "%s with %s: PATH_INFO %s", path, all,
		place.path_info);
	/* It will run in the directory it is in. */
	snprintf(here, sizeof(here), "%s", wanted);
	*strrchr(here, '/') = '\0';
	cr_assert_eq(fstat(place.dir, &by_fd), 0);
	cr_assert_eq(stat(here, &by_name), 0);
	cr_assert_eq(by_fd.st_ino, by_name.st_ino);
	program_place_release(&place);
}

Test(program, is_found_by_path_and_the_rest_is_path_info)
{
	static const struct {
		const char *prefix, *path, *file, *name, *info;
	} rows[] = {
		{ "", "/a.cgi", "ROOT/a.cgi", "/a.cgi", "" },
		{ "", "/a.cgi/x/y", "ROOT/a.cgi", "/a.cgi", "/x/y" },
		{ "", "/sub/b.cgi", "ROOT/sub/b.cgi", "/sub/b.cgi", "" },
		{ "", "/sub/b.cgi/a.cgi", "ROOT/sub/b.cgi", "/sub/b.cgi", "/a.cgi" },
		{ "", "/in.cgi/x", "ROOT/in.cgi", "/in.cgi", "/x" },
		{ "", "/sub/back.cgi", "ROOT/sub/back.cgi", "/sub/back.cgi", "" },
		{ "", "/secret.cgi", "ROOT/secret.cgi", "/secret.cgi", "" },
		{ "/cgi-bin", "/cgi-bin/a.cgi", "ROOT/a.cgi", "/cgi-bin/a.cgi", "" },
		{ "/cgi-bin", "/cgi-bin/a.cgi/x", "ROOT/a.cgi", "/cgi-bin/a.cgi", "/x" },
		{ "/cgi-bin/", "/cgi-bin/sub/b.cgi/x", "ROOT/sub/b.cgi",
			"/cgi-bin/sub/b.cgi", "/x" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		check_found(rows[i].prefix, NULL, "", rows[i].path, rows[i].file,
			rows[i].name, rows[i].info);
}

Test(program, is_found_by_script_filename_however_the_server_writes_it)
{
	static const struct {
		const char *file, *params, *name, *info;
	} rows[] = {
		/* lighttpd: the file alone, the URL cut */
		{ "ROOT/a.cgi", "SCRIPT_NAME=/cgi/a.cgi\nPATH_INFO=/x/y", "/cgi/a.cgi",
			"/x/y" },
		{ "ROOT/a.cgi", "SCRIPT_NAME=/a.cgi", "/a.cgi", "" },
		/* lighttpd with a handler at "/": all in PATH_INFO */
		{ "ROOT/a.cgi", "SCRIPT_NAME=\nPATH_INFO=/a.cgi", "/a.cgi", "" },
		{ "ROOT/a.cgi/x", "SCRIPT_NAME=\nPATH_INFO=/a.cgi/x", "/a.cgi", "/x" },
		/* nginx: nothing is cut */
		{ "ROOT/a.cgi/x/y", "SCRIPT_NAME=/a.cgi/x/y", "/a.cgi", "/x/y" },
		/* Apache: a proxy's name in front, the query behind */
		{ "proxy:fcgi://weir/ROOT/a.cgi/x/y?q", "SCRIPT_NAME=/a.cgi/x/y", "/a.cgi",
			"/x/y" },
		{ "proxy:fcgi://weir:9000ROOT/a.cgi/x/y?q",
			"SCRIPT_NAME=/a.cgi\nPATH_INFO=/x/y", "/a.cgi", "/x/y" },
		{ "proxy:balancer://pool//ROOT/a.cgi", "SCRIPT_NAME=/a.cgi", "/a.cgi", "" },
		{ "ROOT/a.cgi/x?a=b", "SCRIPT_NAME=/a.cgi/x\nQUERY_STRING=a=b", "/a.cgi",
			"/x" },
		/* Without a query a '?' is a byte like any other. */
		{ "ROOT/a.cgi/x?y", "SCRIPT_NAME=/a.cgi/x?y", "/a.cgi", "/x?y" },
		/* No URL but the one weir read */
		{ "ROOT/a.cgi", "", "/from/path", "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		char file[256];
		const char *at = strstr(rows[i].file, "ROOT");

		snprintf(file, sizeof(file), "%.*s%s%s", (int)(at - rows[i].file),
			rows[i].file, root, at + 4);
		check_found("", file, rows[i].params, "/from/path", "ROOT/a.cgi",
			rows[i].name, rows[i].info);
	}
}

/* Behind a proxy's name and the root, as Apache 2.4.71 was seen to send
 * them for the URL in the first column. */
static const struct {
	const char *url, *file, *name, *path_info; /* what Apache sends */
	const char *program, *script_name, *info;  /* what the program gets */
} escaped[] = {
	/* ProxyPass: the file escaped, all of the URL's path in SCRIPT_NAME */
	{ "/h%C3%A9%20llo.cgi", "/h%C3%A9%20llo.cgi", "/hé llo.cgi", "", "hé llo.cgi",
		"/hé llo.cgi", "" },
	{ "/h%C3%A9%20llo.cgi/i%20n", "/h%C3%A9%20llo.cgi/i%20n", "/hé llo.cgi/i n", "",
		"hé llo.cgi", "/hé llo.cgi", "/i n" },
	{ "/a%2541.cgi", "/a%2541.cgi", "/a%41.cgi", "", "a%41.cgi", "/a%41.cgi", "" },
	{ "/q%3Fm.cgi/x", "/q%3Fm.cgi/x", "/q?m.cgi/x", "", "q?m.cgi", "/q?m.cgi", "/x" },
	{ "/a.cgi/x%2Fy%20z", "/a.cgi/x%2Fy%20z", "/a.cgi/x%2Fy z", "", "a.cgi", "/a.cgi",
		"/x%2Fy z" },
	{ "/a.cgi/%2541", "/a.cgi/%2541", "/a.cgi/%41", "", "a.cgi", "/a.cgi", "/%41" },
	{ "/cgi/h%C3%A9%20llo.cgi", "/h%C3%A9%20llo.cgi", "/cgi/hé llo.cgi", "",
		"hé llo.cgi", "/cgi/hé llo.cgi", "" },
	/* SetHandler: the file as it is, PATH_INFO cut off */
	{ "/h%C3%A9%20llo.cgi/i%20n", "/hé llo.cgi", "/hé llo.cgi", "/i n", "hé llo.cgi",
		"/hé llo.cgi", "/i n" },
	{ "/a%2541.cgi", "/a%41.cgi", "/a%41.cgi", "", "a%41.cgi", "/a%41.cgi", "" },
	{ "/a%252Fb.cgi", "/a%2Fb.cgi", "/a%2Fb.cgi", "", "a%2Fb.cgi", "/a%2Fb.cgi", "" },
	{ "/cgi/a%2541.cgi", "/a%41.cgi", "/cgi/a%41.cgi", "", "a%41.cgi", "/cgi/a%41.cgi",
		"" },
};

Test(program, is_found_when_apache_has_escaped_its_name)
{
	for (size_t i = 0; i < COUNT_OF(escaped); i++) {
		char file[256], params[256], wanted[128];

		snprintf(
			file, sizeof(file), "proxy:fcgi://weir%s%s", root, escaped[i].file);
		snprintf(params, sizeof(params), "SCRIPT_NAME=%s\nPATH_INFO=%s",
			escaped[i].name, escaped[i].path_info);
		snprintf(wanted, sizeof(wanted), "ROOT/%s", escaped[i].program);
		check_found("", file, params, escaped[i].url, wanted,
			escaped[i].script_name, escaped[i].info);
	}
}

/* Where the escapes are in the root alone, SCRIPT_NAME says nothing of them. */
Test(program, is_found_below_a_root_that_apache_has_escaped)
{
	char file[256] = "SCRIPT_NAME=/b.cgi\nSCRIPT_FILENAME=proxy:fcgi://weir";
	struct program_place place = PROGRAM_PLACE_NONE;
	size_t n = strlen(root);

	snprintf(file + strlen(file), sizeof(file) - strlen(file), "%.*s%%%02X/sub/b.cgi",
		(int)(n - 1), root, root[n - 1]);
	cr_assert_eq(find("", file, VIEW("/none"), &place), PROGRAM_FOUND);
	cr_assert_str_eq(place.script_name, "/b.cgi");
	program_place_release(&place);
}

Test(program, no_escape_leads_out_of_the_root)
{
	static const struct {
		const char *file, *name;
		enum program_found found;
	} rows[] = {
		{ "/%2e%2e/outside.cgi", "/../outside.cgi", PROGRAM_FORBIDDEN },
		{ "/sub/%2E./%2e./outside.cgi", "/sub/../../outside.cgi",
			PROGRAM_FORBIDDEN },
		{ "/a.cgi/%2e%2e", "/a.cgi/..", PROGRAM_FORBIDDEN },
		{ "/out%2Ecgi", "/out.cgi", PROGRAM_FORBIDDEN },
		{ "/%75p/outside.cgi", "/up/outside.cgi", PROGRAM_FORBIDDEN },
		{ "/a.cgi%00.tx%74", "/a.cgi.txt", PROGRAM_FORBIDDEN },
		{ "/a.cgi/%0ax%79", "/a.cgi/xy", PROGRAM_FORBIDDEN },
		{ "/a.cgi/%0Dx%79", "/a.cgi/xy", PROGRAM_FORBIDDEN },
		{ "/a.cgi%00.txt", "/a.cgi", PROGRAM_MISSING },
		/* An escaped slash separates nothing, and nothing is unescaped twice. */
		{ "/..%2Foutside.cgi", "/..%2Foutside.cgi", PROGRAM_MISSING },
		{ "/..%2foutside.cgi%20", "/../outside.cgi ", PROGRAM_MISSING },
		{ "/%252e%252e/outside.cgi", "/%2e%2e/outside.cgi", PROGRAM_MISSING },
		{ "/sub%2Fb.cgi", "/sub/b.cgi", PROGRAM_MISSING },
		{ "/%61%2541.cgi", "/a%41.cgi", PROGRAM_FOUND },
		/* No escapes, though they look like some. */
		{ "/%", "/%", PROGRAM_MISSING },
		{ "/%4", "/%4", PROGRAM_MISSING },
		{ "/%zz%-1", "/%zz%-1", PROGRAM_MISSING },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct program_place place = PROGRAM_PLACE_NONE;
		char params[400];

		snprintf(params, sizeof(params),
			"SCRIPT_NAME=%s\nSCRIPT_FILENAME=proxy:fcgi://weir%s%s",
			rows[i].name, root, rows[i].file);
		cr_expect_eq(find("", params, VIEW("/a.cgi"), &place), rows[i].found,
			"row %zu: %s", i, rows[i].file);
		program_place_release(&place);
	}
}

/* Only Apache escapes, and only behind a proxy's name. */
Test(program, no_other_servers_file_is_unescaped)
{
	struct program_place place = PROGRAM_PLACE_NONE;
	char params[256];

	snprintf(params, sizeof(params), "SCRIPT_NAME=/a.cgi\nSCRIPT_FILENAME=%s/%%61.cgi",
		root);
	cr_assert_eq(find("", params, VIEW("/a.cgi"), &place), PROGRAM_MISSING);
}

Test(program, script_filename_outside_the_root_leaves_it_to_the_path)
{
	static const char *const files[] = { "/bin/sh", "/srv/www/a.cgi", "relative.cgi",
		"ROOT", "ROOT/", "ROOT-other/a.cgi", "" };

	for (size_t i = 0; i < COUNT_OF(files); i++)
		check_found("", files[i], "SCRIPT_NAME=/s/a.cgi", "/a.cgi/x", "ROOT/a.cgi",
			"/a.cgi", "/x");
}

Test(program, slash_at_the_end_is_not_lost)
{
	check_found("", NULL, "REQUEST_URI=/a.cgi/x/?q", "/a.cgi/x", "ROOT/a.cgi", "/a.cgi",
		"/x/");
	check_found("", NULL, "REQUEST_URI=/a.cgi/", "/a.cgi", "ROOT/a.cgi", "/a.cgi", "/");
	check_found("", NULL, "REQUEST_URI=/a.cgi", "/a.cgi", "ROOT/a.cgi", "/a.cgi", "");
}

Test(program, path_translated_is_path_info_below_the_document_root)
{
	struct program_place place = PROGRAM_PLACE_NONE;
	char wanted[128];

	cr_assert_eq(find("", "DOCUMENT_ROOT=/srv/www/", VIEW("/a.cgi/x"), &place),
		PROGRAM_FOUND);
	cr_assert_str_eq(place.path_translated, "/srv/www/x");
	program_place_release(&place);
	cr_assert_eq(find("", "", VIEW("/a.cgi/x"), &place), PROGRAM_FOUND);
	snprintf(wanted, sizeof(wanted), "%s/x", root);
	cr_assert_str_eq(place.path_translated, wanted);
	program_place_release(&place);
	cr_assert_eq(find("", "", VIEW("/a.cgi"), &place), PROGRAM_FOUND);
	cr_assert_str_eq(place.path_translated, "");
	program_place_release(&place);
}

Test(program, what_may_not_run_does_not)
{
	static const struct {
		const char *prefix, *file, *path;
		enum program_found found;
	} rows[] = {
		{ "", NULL, "/none.cgi", PROGRAM_MISSING },
		{ "", NULL, "/sub/none.cgi/x", PROGRAM_MISSING },
		{ "", "ROOT/none.cgi", "/a.cgi", PROGRAM_MISSING },
		{ "", NULL, "/", PROGRAM_FORBIDDEN },
		{ "", NULL, "/sub", PROGRAM_FORBIDDEN },
		{ "", "ROOT/sub", "/a.cgi", PROGRAM_FORBIDDEN },
		{ "", NULL, "/plain.txt", PROGRAM_FORBIDDEN },
		{ "", NULL, "/fifo", PROGRAM_FORBIDDEN },
		{ "", NULL, "/loop", PROGRAM_FORBIDDEN },
		/* Ways out of the root */
		{ "", NULL, "/out.cgi", PROGRAM_FORBIDDEN },
		{ "", NULL, "/abs.cgi", PROGRAM_FORBIDDEN },
		{ "", NULL, "/up/outside.cgi", PROGRAM_FORBIDDEN },
		{ "", NULL, "/../outside.cgi", PROGRAM_FORBIDDEN },
		{ "", NULL, "/sub/../a.cgi", PROGRAM_FORBIDDEN },
		{ "", "ROOT/out.cgi", "/a.cgi", PROGRAM_FORBIDDEN },
		{ "", "ROOT/../outside.cgi", "/a.cgi", PROGRAM_FORBIDDEN },
		{ "", "ROOT/../../../../bin/sh", "/a.cgi", PROGRAM_FORBIDDEN },
		{ "", "ROOT/a.cgi/..", "/a.cgi", PROGRAM_FORBIDDEN },
		/* Paths that the prefix does not cover */
		{ "/cgi-bin", NULL, "/a.cgi", PROGRAM_MISSING },
		{ "/cgi-bin", NULL, "/cgi-binary/a.cgi", PROGRAM_MISSING },
		{ "/cgi-bin", NULL, "/cgi-bin", PROGRAM_FORBIDDEN },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct program_place place = PROGRAM_PLACE_NONE;
		char file[256] = "", params[300] = "";

		if (rows[i].file) {
			expand(rows[i].file, file, sizeof(file));
			snprintf(params, sizeof(params), "SCRIPT_FILENAME=%s", file);
		}
		cr_assert_eq(find(rows[i].prefix, params, view_str(rows[i].path), &place),
			rows[i].found, "row %zu: %s %s", i, rows[i].path, file);
		cr_assert_eq(place.dir, -1);
	}
}

Test(program, nul_in_a_path_is_refused)
{
	struct backend b = {
		.kind = BACKEND_CGI, .root = root, .prefix = root + strlen(root)
	};
	struct program_place place = PROGRAM_PLACE_NONE;
	struct request rq;
	const char *why;
	char file[128];
	int n;

	request_init(&rq, FCGI_RESPONDER);
	cr_assert_eq(program_find(&b, &rq, VIEW("/a.cgi\0.txt"), &place, &why),
		PROGRAM_FORBIDDEN);
	n = snprintf(file, sizeof(file), "%s/a.cgi%c.txt", root, '\0');
	add_param(&rq, VIEW("SCRIPT_FILENAME"), view_of(file, (size_t)n));
	cr_assert(request_index(&rq));
	cr_assert_eq(
		program_find(&b, &rq, VIEW("/a.cgi"), &place, &why), PROGRAM_FORBIDDEN);
	request_release(&rq);
}

Test(program, root_that_is_gone_is_our_failure)
{
	char gone[] = "/nonexistent/cgi";
	struct backend b = {
		.kind = BACKEND_CGI, .root = gone, .prefix = gone + strlen(gone)
	};
	struct program_place place = PROGRAM_PLACE_NONE;
	struct request rq = with_params("");
	const char *why;

	cr_assert_eq(program_find(&b, &rq, VIEW("/a.cgi"), &place, &why), PROGRAM_FAILED);
	request_release(&rq);
}

Test(program, finding_leaves_no_descriptor_open)
{
	struct program_place place = PROGRAM_PLACE_NONE;
	static const char *const paths[] = { "/a.cgi/x", "/sub/b.cgi", "/none", "/sub",
		"/out.cgi", "/plain.txt", "/up/x" };
	int before = dup(0), after;

	close(before);
	for (size_t i = 0; i < COUNT_OF(paths); i++)
		if (find("", "", view_str(paths[i]), &place) == PROGRAM_FOUND)
			program_place_release(&place);
	after = dup(0);
	close(after);
	cr_assert_eq(after, before);
}
