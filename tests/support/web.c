/*
 * web.c - the web servers that tests put before weir, with the configurations that are
 * shipped for them, as they are: only the places they name (sockets, files, ports) are
 * replaced by the test's own.
 */
#include "support.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a shipped file says, and what it is to say here; to NULL: nothing the test has. */
struct swap {
	const char *from, *to;
};

static const char *replaced(const char *content, const struct swap *swap)
{
	struct view left = view_str(content);
	size_t n = strlen(swap->from);
	struct buf out = { 0 };
	const char *at, *s;

	while ((at = memmem(left.p, left.n, swap->from, n))) {
		buf_add(&out, view_of(left.p, (size_t)(at - left.p)));
		buf_add_str(&out, swap->to);
		left = view_skip(left, (size_t)(at - left.p) + n);
	}
	buf_add(&out, left);
	s = text("%.*s", (int)out.n, out.p ? out.p : "");
	buf_release(&out);
	return s;
}

/* weir where whoever a server runs as can execute it, alone in a directory. */
static const char *weir_copied(void)
{
	const char *dir = test_path("bin"), *copy = text("%s/weir", dir);

	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		fail("%s: %s", dir, strerror(errno));
	if (access(copy, X_OK) < 0)
		file_copy(test_env("WEIR"), copy);
	return copy;
}

static const char *after(const char *s, const char *kind)
{
	size_t n = strlen(kind);

	return s && strncmp(s, kind, n) == 0 ? s + n : NULL;
}

static const char *shipped(const struct web_spec *spec, const struct web *w)
{
	const char *path = text("%s/%s", test_env("WEIR_CONTRIB"), spec->conf);
	const char *content = file_read(path), *before = content;
	const char *copy = test_path(text("shipped-%u.conf", w->port));
	const struct swap swaps[] = {
		{ "/run/weir/weir.sock", after(spec->backend, "unix:") },
		{ "127.0.0.1:9000", after(spec->tcp ? spec->tcp : spec->backend, "tcp:") },
		{ "/run/php/php8.2-fpm.sock", after(spec->php, "unix:") },
		{ "/etc/weir/weir.ini", spec->ini },
		{ "/etc/weir/weir-cgi.ini", spec->ini },
		{ "/usr/sbin", spec->ini ? test_path("bin") : NULL },
		{ "/run/lighttpd/weir.sock", test_path(text("spawn-%u.sock", w->port)) },
		{ "/run/lighttpd/weir-status.sock",
			test_path(text("status-%u.sock", w->port)) },
		{ "/usr/bin/weir-status", test_path("weir-status") },
		{ "/var/www/html", w->root },
		{ "listen 80;", text("listen 127.0.0.1:%u;", w->port) },
	};

	if (!content)
		fail("%s: %s", path, strerror(errno));
	if (spec->ini)
		weir_copied();
	for (size_t i = 0; i < COUNT_OF(swaps); i++)
		if (swaps[i].to)
			content = replaced(content, &swaps[i]);
	if (strcmp(content, before) == 0)
		fail("%s names nothing that the test has", path);
	file_write(copy, content);
	return copy;
}

/* -- lighttpd ---------------------------------------------------------------------- */

static void lighttpd_run(struct web *w, const char *include, const char *more)
{
	const char *conf = test_path(text("lighttpd-%u.conf", w->port));
	const char *const argv[] = { "lighttpd", "-D", "-f", conf, NULL };

	file_write(conf,
		text("server.document-root = \"%s\"\n"
		     "server.bind = \"127.0.0.1\"\n"
		     "server.port = %u\n"
		     "server.upload-dirs = ( \"%s\" )\n"
		     "include \"%s\"\n%s",
			w->root, w->port, test_dir(), include, more));
	w->process = process_start(
		&(struct process_spec){ .name = "lighttpd", .argv = argv });
}

/* -- nginx ------------------------------------------------------------------------- */

static void nginx_run(struct web *w, const char *include, const char *more)
{
	const char *conf = test_path(text("nginx-%u.conf", w->port)), *dir = test_dir();
	const char *const argv[] = { "nginx", "-p", dir, "-e", "stderr", "-c", conf, NULL };
	/* A file with a server of its own stands beside servers, others stand in one. */
	bool whole = strstr(file_read(include), "\nserver {") != NULL;

	file_write(conf,
		text("daemon off;\nmaster_process off;\nerror_log stderr notice;\n"
		     "pid %s/nginx-%u.pid;\n"
		     "events { worker_connections 4096; }\n"
		     "http {\n"
		     "access_log off;\n"
		     "client_body_temp_path %s/body;\nproxy_temp_path %s/proxy;\n"
		     "fastcgi_temp_path %s/fastcgi;\nuwsgi_temp_path %s/uwsgi;\n"
		     "scgi_temp_path %s/scgi;\n",
			dir, w->port, dir, dir, dir, dir, dir));
	if (whole)
		file_write(conf, text("%sinclude %s;\n}\n", file_read(conf), include));
	else
		file_write(conf,
			text("%sserver {\nlisten 127.0.0.1:%u;\nroot %s;\n"
			     "include %s;\n%s}\n}\n",
				file_read(conf), w->port, w->root, include, more));
	w->process = process_start(&(struct process_spec){ .name = "nginx", .argv = argv });
}

/* -- Apache ------------------------------------------------------------------------ */

void open_to_all(const char *addr)
{
	const char *path = after(addr, "unix:");

	if (path && chmod(path, 0777) < 0)
		fail("%s: %s", path, strerror(errno));
}

static void apache_run(struct web *w, const char *include, const char *more)
{
	static const char *const modules[] = { "mpm_event", "authn_core", "authz_core",
		"authz_user", "auth_basic", "authnz_fcgi", "alias", "dir", "env", "mime",
		"actions", "cgid", "proxy", "proxy_fcgi", "fcgid" };
	const char *conf = test_path(text("apache-%u.conf", w->port)), *dir = test_dir();
	const char *const argv[] = { "apache2", "-f", conf, "-D", "FOREGROUND", NULL };
	struct buf load = { 0 };

	for (size_t i = 0; i < COUNT_OF(modules); i++)
		buf_addf(&load, "LoadModule %s_module /usr/lib/apache2/modules/mod_%s.so\n",
			modules[i], modules[i]);
	file_write(conf,
		text("ServerRoot %s\nServerName 127.0.0.1\nListen 127.0.0.1:%u\n"
		     "DefaultRuntimeDir %s\nPidFile %s/apache-%u.pid\n"
		     "ErrorLog /dev/stderr\n%s"
		     "%s"
		     "Mutex posixsem\nScriptSock %s/cgid-%u.sock\nTypesConfig /dev/null\n"
		     "FcgidIPCDir %s/fcgid-%u\nFcgidProcessTableFile %s/fcgid-%u.shm\n"
		     "StartServers 1\nServerLimit 1\nThreadsPerChild 32\n"
		     "MinSpareThreads 1\nMaxSpareThreads 32\n"
		     "MaxRequestWorkers 32\n"
		     "DocumentRoot %s\n<Directory %s>\nRequire all granted\n"
		     "Options +ExecCGI\n</Directory>\n"
		     "Include %s\n%s",
			dir, w->port, dir, dir, w->port, buf_str(&load),
			geteuid() == 0 ? "User www-data\nGroup www-data\n" : "", dir,
			w->port, dir, w->port, dir, w->port, w->root, w->root, include,
			more));
	buf_release(&load);
	w->process = process_start(
		&(struct process_spec){ .name = "apache", .argv = argv });
}

/* -- any --------------------------------------------------------------------------- */

struct web *web_start(const struct web_spec *spec)
{
	static const struct {
		const char *dir;
		void (*run)(struct web *w, const char *include, const char *more);
	} kinds[] = { { "lighttpd/", lighttpd_run }, { "nginx/", nginx_run },
		{ "apache/", apache_run } };
	static struct web servers[16];
	static unsigned n;
	struct web *w = &servers[n++];
	const char *include;

	w->port = free_port();
	w->url = text("http://127.0.0.1:%u", w->port);
	w->root = spec->root ? spec->root : programs_dir();
	include = shipped(spec, w);
	/* As root Apache's children become www-data. */
	open_to_all(spec->backend);
	for (size_t i = 0; i < COUNT_OF(kinds); i++)
		if (after(spec->conf, kinds[i].dir))
			kinds[i].run(w, include, spec->more ? spec->more : "");
	if (!w->process)
		fail("%s: no such web server", spec->conf);
	process_expect(w->process, text("tcp:127.0.0.1:%u", w->port));
	return w;
}

struct web *lighttpd_start(const char *backend)
{
	return web_start(
		&(struct web_spec){ .conf = "lighttpd/weir.conf", .backend = backend });
}

struct web *nginx_start(const char *backend)
{
	return web_start(
		&(struct web_spec){ .conf = "nginx/weir.conf", .backend = backend });
}

struct web *nginx_keepalive_start(const char *backend)
{
	return web_start(&(struct web_spec){
		.conf = "nginx/weir-keepalive.conf", .backend = backend });
}

struct web *apache_start(const char *backend)
{
	return web_start(
		&(struct web_spec){ .conf = "apache/weir.conf", .backend = backend });
}

struct web *lighttpd_spawn_start(const char *ini)
{
	return web_start(
		&(struct web_spec){ .conf = "lighttpd/weir-spawn.conf", .ini = ini });
}
