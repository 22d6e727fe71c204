/*
 * test_gate.c - an operator's wrong edit opens no gate.
 *
 * Each case takes two of the three requests a limit allows, does what it should not, and
 * reloads: the third passes and the fourth is refused, so the limit is the one that was
 * and the count is what it was. Clients are new for each case.
 */
#include "site.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct backend_script plain;

#define RULES                                                                   \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n"                       \
	"@RateLimit = type=ip count=3 window=1h\n"                              \
	"[endpoint b]\nmatch = GET /b\nbackend = plain\n"                       \
	"@RateLimit = type=user plan=anonymous algorithm=token_bucket count=3 " \
	"window=24h\n"

#define IN_MEMORY "[store]\ntype = memory\n"

/* weir with limits, and its files as they were. */
struct gate {
	struct weir *weir;
	const char *ini, *a;      /* good content of weir.ini and of endpoint a */
	const char *a_file, *dir; /* of endpoint a, of the endpoints */
};

static struct gate gate_start(const char *store)
{
	const char *addr = addr_unix("plain.sock");
	struct gate g;

	backend_start(addr, &plain);
	g.weir = weir_start(&(struct weir_spec){ .server = "workers = 2\n",
		.sections = text("%s[backend plain]\nfastcgi = %s\n[site]\n"
				 "@RateLimit = type=global count=100000 window=1s\n",
			store, addr),
		.endpoints = RULES });
	g.ini = file_read(g.weir->ini);
	g.a_file = endpoint_file(g.weir, "a");
	g.dir = endpoints_dir(g.weir);
	g.a = file_read(g.a_file);
	return g;
}

static const char *in_redis(void)
{
	return text("[store]\ntype = redis\nurl = %s\ntimeout = 10s\n", redis_start()->url);
}

static const char *new_client(void)
{
	static unsigned n;

	n++;
	return text("10.%u.%u.1", n / 250, n % 250);
}

static int status_of(const struct gate *g, const char *client, const char *uri)
{
	struct fcgi_request rq = { .uri = uri, .address = client };
	struct fcgi_answer a;
	int status = fcgi_call(g->weir->addr, &rq, &a, 20000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

static void expect(const struct gate *g, const char *client, const char *uri, int wanted,
	const char *when)
{
	int status = status_of(g, client, uri);

	if (status != wanted)
		fail("%s: %d for %s, where %d was right\n%s", when, status, uri, wanted,
			process_log(g->weir->process));
}

static const char *const limited[] = { "/a", "/b" };

/* Two of three are taken. */
static void begin(const struct gate *g, const char *client, const char *what)
{
	for (size_t i = 0; i < COUNT_OF(limited); i++)
		for (int n = 0; n < 2; n++)
			expect(g, client, limited[i], 200, text("before %s", what));
}

/* The third, and no fourth. */
static void end(const struct gate *g, const char *client, const char *what)
{
	for (size_t i = 0; i < COUNT_OF(limited); i++) {
		expect(g, client, limited[i], 200, text("after %s", what));
		expect(g, client, limited[i], 429, text("after %s", what));
	}
}

static bool says_reload_failed(const struct gate *g)
{
	json_t *status = weir_status(g->weir);
	json_t *process = json_object_get(status, "process");
	bool failed = json_is_true(json_object_get(process, "reload_failed"));

	cr_assert_not_null(process);
	json_decref(status);
	return failed;
}

/* The good files are back: they hold, and so do the counts. */
static void mend(const struct gate *g, const char *client, const char *what)
{
	reload(g->weir, RELOADED);
	cr_assert(!says_reload_failed(g), "%s", what);
	for (size_t i = 0; i < COUNT_OF(limited); i++)
		expect(g, client, limited[i], 429, text("after mending %s", what));
}

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
	const char *file = strrchr(path, '/') + 1, *client = new_client();
	const char *name = text("%.*s", (int)strlen(file) - 4, file);
	const char *fresh = test_path("fresh"), *own = test_path(file);
	struct buf said = { 0 }, wanted = { 0 };

	begin(g, client, name);
	/* Under its own name too: one of them finds itself by that. */
	file_copy(path, own);
	cr_assert_eq(link(own, fresh), 0);
	cr_assert_eq(rename(fresh, g->weir->ini), 0);
	messages_in(reload(g->weir, RELOAD_FAILS), &said);
	put_expected(g, name, &wanted);
	expect_same_lines(said.p, wanted.p, name);
	cr_assert(says_reload_failed(g), "%s", name);
	end(g, client, name);
	cr_assert_eq(unlink(own), 0);
	file_replace(g->weir->ini, g->ini);
	mend(g, client, name);
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
		(int64_t)(found.gl_pathc * COUNT_OF(limited) * 3));
	globfree(&found);
}

Test(gate, stays_shut_whatever_mistake_is_made_in_memory, .timeout = 120)
{
	try_fixtures(IN_MEMORY);
}

Test(gate, stays_shut_whatever_mistake_is_made_in_redis, .timeout = 120)
{
	try_fixtures(in_redis());
}

/* ---- Accidents ---- */

/* Bytes of a file until it is cut. */
static void cut(const char *file, const char *content, const char *behind)
{
	const char *at = strstr(content, behind);

	cr_assert_not_null(at);
	file_write(file, text("%.*s", (int)(at + strlen(behind) - content), content));
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
}

static const struct {
	const char *what;
	void (*happens)(const struct gate *g);
	const char *log;
} accidents[] = {
	{ "losing weir.ini", lose_main, "cannot be read (No such file or directory)" },
	{ "emptying weir.ini", empty_main, "there is nothing in it any more" },
	{ "cutting a number in weir.ini", cut_main, "the last line has no end" },
	{ "cutting a section in weir.ini", cut_main_to_a_section, "has no ']'" },
	{ "a directory for weir.ini", main_is_a_directory, "(Is a directory)" },
	{ "a broken link for weir.ini", main_leads_nowhere, "No such file or directory" },
	{ "a bad disk under weir.ini", main_cannot_be_read, "(Input/output error)" },
	{ "a pipe for weir.ini", main_is_a_pipe, "there is nothing in it any more" },
	{ "an endless weir.ini", main_is_endless, "the file is too large" },
	{ "another weir.ini", main_is_another, "no endpoint is left, and there were 2" },
	{ "emptying an endpoint", empty_a, "there is nothing in it, and [endpoint a] was" },
	{ "cutting an endpoint", cut_a, "a.ini: the last line has no end" },
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

static void try_accidents(const char *store)
{
	struct gate g = gate_start(store);

	for (size_t i = 0; i < COUNT_OF(accidents); i++) {
		const char *client = new_client(), *said;

		begin(&g, client, accidents[i].what);
		accidents[i].happens(&g);
		said = reload(g.weir, RELOAD_FAILS);
		cr_assert(
			strstr(said, accidents[i].log), "%s: %s", accidents[i].what, said);
		cr_assert(says_reload_failed(&g), "%s", accidents[i].what);
		end(&g, client, accidents[i].what);
		restore(&g);
		mend(&g, client, accidents[i].what);
	}
}

Test(gate, stays_shut_whatever_happens_to_the_files_in_memory, .timeout = 120)
{
	try_accidents(IN_MEMORY);
}

Test(gate, stays_shut_whatever_happens_to_the_files_in_redis, .timeout = 120)
{
	try_accidents(in_redis());
}

/* ---- What is meant ---- */

Test(gate, takes_an_endpoint_away_on_purpose_and_names_its_limits, .timeout = 60)
{
	struct gate g = gate_start(IN_MEMORY);
	const char *client = new_client(), *said;

	begin(&g, client, "taking a away");
	lose_a(&g);
	said = reload(g.weir, RELOADED);
	cr_assert(WAIT_UNTIL(5000,
			  strstr(process_log(g.weir->process), "limits=\"a ip/sw1h\"")),
		"%s", said);
	/* No server.backend: nobody is asked for what no endpoint matches. */
	cr_assert(WAIT_UNTIL(5000, status_of(&g, client, "/a") == 404));
	expect(&g, client, "/b", 200, "without a");
	expect(&g, client, "/b", 429, "without a");
}

Test(gate, takes_no_notice_of_what_editors_leave_behind, .timeout = 60)
{
	static const char *const names[] = { ".a.ini.swp", "a.ini~", "#a.ini#", "a.ini.bak",
		"a.ini.dpkg-old", "sedX3f9aq", "4913", "README" };
	struct gate g = gate_start(IN_MEMORY);
	const char *client = new_client(), *said;

	begin(&g, client, "editing");
	for (size_t i = 0; i < COUNT_OF(names); i++)
		file_write(text("%s/%s", g.dir, names[i]), "half of [an endpoint");
	/* An editor's lock. */
	cr_assert_eq(symlink("me@host.1234", text("%s/.#a.ini", g.dir)), 0);
	said = reload(g.weir, RELOADED);
	cr_assert_null(strstr(said, "level=error"), "%s", said);
	end(&g, client, "editing");
}
