/*
 * fuzz_config.c - a whole configuration, from files in memory.
 *
 * It is taken or refused, and refused with a reason that names file and line and can be
 * printed. Comments, empty lines and line ends of another system change nothing. What is
 * taken can be described, freed and read again to the same.
 *
 * Input: weir.ini, and behind lines "%% NAME" other files, found as endpoints.d/NAME.
 */
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <netdb.h>
#include <sys/stat.h>

#include "config/config.h"
#include "config/ini.h"
#include "fuzz.h"

#define FILES_MAX 6
#define DIR       "/etc/weir/"

struct file {
	char name[64]; /* whole */
	struct view text;
};

static struct file files[FILES_MAX];
static size_t n_files;
static bool crlf; /* lines end so, and comments stand between them */

/* -- the system, as far as config_load() asks it ----------------------------------- */

/* The linker puts these in the places of the system's (meson.build). */
int __wrap_ini_slurp(const char *name, struct buf *out);
int __wrap_glob64(
	const char *pattern, int flags, int (*error)(const char *, int), glob_t *out);
void __wrap_globfree64(glob_t *g);
int __wrap_stat64(const char *name, struct stat *out);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **out);
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **out);

static const struct file *find(const char *name)
{
	for (size_t i = 0; i < n_files; i++)
		if (strcmp(files[i].name, name) == 0)
			return &files[i];
	return NULL;
}

int __wrap_ini_slurp(const char *name, struct buf *out)
{
	const struct file *f = find(name);
	struct view rest;

	if (!f)
		return ENOENT;
	rest = f->text;
	if (!crlf) {
		buf_add(out, rest);
		return 0;
	}
	while (rest.n) {
		buf_add(out, view_cut(&rest, '\n'));
		buf_add(out, VIEW("\r\n"));
	}
	buf_add(out, VIEW("; the end\r\n\r\n"));
	return 0;
}

int __wrap_glob64(
	const char *pattern, int flags, int (*error)(const char *, int), glob_t *out)
{
	(void)flags;
	(void)error;
	*out = (glob_t){ 0 };
	out->gl_pathv = calloc(FILES_MAX + 1, sizeof(*out->gl_pathv));
	MUST(out->gl_pathv);
	for (size_t i = 0; i < n_files; i++)
		if (fnmatch(pattern, files[i].name, FNM_PATHNAME | FNM_PERIOD) == 0)
			out->gl_pathv[out->gl_pathc++] = files[i].name;
	return out->gl_pathc ? 0 : GLOB_NOMATCH;
}

void __wrap_globfree64(glob_t *g)
{
	free(g->gl_pathv);
}

int __wrap_stat64(const char *name, struct stat *out)
{
	const struct file *f = find(name);

	*out = (struct stat){ .st_mode = S_IFDIR };
	if (!f) {
		errno = ENOENT;
		return strstr(name, "dir") ? 0 : -1;
	}
	out->st_mode = S_IFREG;
	out->st_ino = (ino_t)(f - files) + 1;
	return 0;
}

/* Nobody is asked for names. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **out)
{
	struct addrinfo numeric = { .ai_socktype = SOCK_STREAM };

	(void)hints;
	numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	return __real_getaddrinfo(host, port, &numeric, out);
}

/* -- what has to hold -------------------------------------------------------------- */

static void check_messages(struct view text)
{
	while (text.n) {
		struct view line = view_cut(&text, '\n');
		bool named = view_starts(line, VIEW("... and "));

		for (size_t i = 0; i < n_files && !named; i++)
			named = view_starts(line, view_str(files[i].name));
		MUST(named && text.p);
		for (size_t i = 0; i < line.n; i++)
			MUST((unsigned char)line.p[i] >= ' ' || line.p[i] == '\t');
	}
}

static void check_tiers(const struct tiers *t)
{
	for (size_t i = 0; i < t->n; i++) {
		MUST(t->list[i].n_rules > 0 && t->list[i].id && t->list[i].label);
		for (size_t j = 0; j < t->list[i].n_rules; j++) {
			const struct rule *r = &t->list[i].rules[j];

			MUST(r->counting != COUNT_LIMITED ||
				(r->rate.count >= 1 && r->rate.window_us >= 1));
			MUST(r->file && r->line >= 1);
		}
	}
}

static void check_config(const struct config *c, struct buf *summary)
{
	MUST(c->n_files >= 1 && c->n_files <= n_files);
	check_tiers(&c->site);
	for (size_t i = 0; i < c->n_endpoints; i++) {
		const struct endpoint *e = &c->endpoints[i];

		check_tiers(&e->tiers);
		MUST(c->site.n + e->tiers.n <= TIERS_MAX && e->name && e->name[0]);
	}
	for (size_t i = 0; i < c->n_backends; i++) {
		const struct backend *b = &c->backends[i];

		MUST(b->name[0]);
		MUST(b->kind == BACKEND_CGI
				? b->root && b->root[0] == '/'
				: b->n_addrs >= 1 && b->n_addrs <= BACKEND_ADDRS_MAX);
	}
	MUST(c->server.spool_dir && c->server.head_limit && c->store.timeout_ms > 0);
	MUST(c->client.ipv6_prefix <= 128 && c->client.n_user <= USER_SOURCES_MAX);
	config_summary(c, summary);
	MUST(buf_ok(summary) && summary->n);
}

static bool load(bool other_system, struct buf *messages, struct buf *summary)
{
	struct config *c = NULL;
	bool ok;

	crlf = other_system;
	ok = config_load(files[0].name, &c, messages);
	MUST(ok == !!c && buf_ok(messages));
	MUST(ok || messages->n);
	check_messages(buf_view(messages));
	if (ok)
		check_config(c, summary);
	config_unref(c);
	return ok;
}

static void read_files(struct view rest)
{
	struct file *f = files;
	const char *start = rest.p;

	n_files = 1;
	*f = (struct file){ .name = DIR "weir.ini", .text = { start, 0 } };
	while (rest.n) {
		struct view line = view_cut(&rest, '\n');

		if (!view_starts(line, VIEW("%% ")) || n_files == FILES_MAX) {
			f->text.n = (size_t)(line.p + line.n - f->text.p);
			f->text.n += rest.p != NULL;
			continue;
		}
		f = &files[n_files++];
		*f = (struct file){ .text = { rest.p ? rest.p : "", 0 } };
		snprintf(f->name, sizeof(f->name), DIR "endpoints.d/%.*s",
			(int)(line.n < 40 ? line.n : 40) - 3, line.p + 3);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view copy = fuzz_copy(view_of((const char *)data, size));
	struct buf said[2] = { 0 }, summary[2] = { 0 };
	bool ok;

	read_files(copy);
	ok = load(false, &said[0], &summary[0]);
	/* A line that ends in CR already would have two, and a last
	 * one without an end is told of. Half of all inputs: it takes as
	 * long as the first time. */
	if (size % 2 && data[size - 1] == '\n' && !memchr(data, '\r', size)) {
		MUST(load(true, &said[1], &summary[1]) == ok);
		MUST(view_eq(buf_view(&said[0]), buf_view(&said[1])));
		MUST(view_eq(buf_view(&summary[0]), buf_view(&summary[1])));
	}
	for (size_t i = 0; i < 2; i++) {
		buf_release(&said[i]);
		buf_release(&summary[i]);
	}
	fuzz_drop(copy);
	return 0;
}
