/*
 * servers.c - the real servers that tests put around weir, each on its own free
 * addresses in the test's directory.
 */
#include "support.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_MS 15000 /* longest wait for a server, on a busy machine */

static void expect_answer(struct process *p, const char *addr)
{
	if (!WAIT_UNTIL(START_MS, !process_running(p) || addr_answers(addr)) ||
		!process_running(p))
		fail("%s does not answer on %s:\n%s", p->name, addr, process_log(p));
}

struct redis *redis_start(void)
{
	static struct redis servers[8];
	static unsigned n;
	struct redis *r = &servers[n++];
	const char *const argv[] = { "redis-server", "--port", "0", "--unixsocket",
		test_path(text("redis%u.sock", n)), "--save", "", "--appendonly", "no",
		"--dir", test_dir(), NULL };

	r->socket = argv[4];
	r->url = text("unix://%s", r->socket);
	r->process = process_start(&(struct process_spec){ .name = "redis", .argv = argv });
	expect_answer(r->process, text("unix:%s", r->socket));
	return r;
}

const char *redis_run(const struct redis *r, const char *fmt, ...)
{
	redisContext *c = redisConnectUnix(r->socket);
	redisReply *reply = NULL;
	const char *answer = "";
	va_list ap;

	if (c && !c->err) {
		va_start(ap, fmt);
		reply = redisvCommand(c, fmt, ap);
		va_end(ap);
	}
	if (!reply)
		fail("redis: %s: %s", fmt, c ? c->errstr : "no memory");
	if (reply->type == REDIS_REPLY_INTEGER)
		answer = text("%lld", reply->integer);
	else if (reply->str)
		answer = text("%.*s", (int)reply->len, reply->str);
	freeReplyObject(reply);
	redisFree(c);
	return answer;
}

static void copy_program(const char *dir, const char *from, const char *name)
{
	const char *const argv[] = { "cp", from, text("%s/%s", dir, name), NULL };
	struct process *p = process_start(
		&(struct process_spec){ .name = "cp", .argv = argv });

	if (process_exit(p, 5000) != 0)
		fail("cannot copy %s: %s", from, process_log(p));
}

const char *programs_dir(void)
{
	static const char *dir;
	const char *handlers;

	if (dir)
		return dir;
	dir = test_path("programs");
	handlers = test_env("WEIR_HANDLERS");
	if (mkdir(dir, 0755) < 0)
		fail("%s: %s", dir, strerror(errno));
	copy_program(dir, text("%s/hello.sh", handlers), "hello.sh");
	copy_program(dir, text("%s/hello.pl", handlers), "hello.pl");
	copy_program(dir, text("%s/hello.php", handlers), "hello.php");
	copy_program(dir, test_env("WEIR_ECHO"), "echo");
	return dir;
}

/* contrib's file with the socket it names replaced; everything else as shipped. */
static const char *shipped(const char *name, const char *backend)
{
	const char *path = text("%s/%s", test_env("WEIR_CONTRIB"), name);
	const char *content = file_read(path), *socket = "/run/weir/weir.sock", *at;
	const char *copy = test_path(
		text("shipped-%s", strchr(name, '/') ? "weir.conf" : name));

	if (strncmp(backend, "unix:", 5) != 0)
		fail("%s is not a unix socket", backend);
	at = content ? strstr(content, socket) : NULL;
	if (!at)
		fail("%s does not name %s", path, socket);
	file_write(copy,
		text("%.*s%s%s", (int)(at - content), content, backend + 5,
			at + strlen(socket)));
	return copy;
}

static struct web *web_new(void)
{
	static struct web servers[8];
	static unsigned n;
	struct web *w = &servers[n++];

	w->port = free_port();
	w->url = text("http://127.0.0.1:%u", w->port);
	w->root = programs_dir();
	return w;
}

static struct web *lighttpd_run(struct web *w, const char *rest)
{
	const char *conf = test_path(text("lighttpd-%u.conf", w->port));
	const char *const argv[] = { "lighttpd", "-D", "-f", conf, NULL };

	file_write(conf,
		text("server.document-root = \"%s\"\n"
		     "server.bind = \"127.0.0.1\"\n"
		     "server.port = %u\n"
		     "server.upload-dirs = ( \"%s\" )\n"
		     "%s",
			w->root, w->port, test_dir(), rest));
	w->process = process_start(
		&(struct process_spec){ .name = "lighttpd", .argv = argv });
	expect_answer(w->process, text("tcp:127.0.0.1:%u", w->port));
	return w;
}

struct web *lighttpd_start(const char *backend)
{
	return lighttpd_run(web_new(),
		text("include \"%s\"\n", shipped("lighttpd/weir.conf", backend)));
}

struct web *lighttpd_spawn_start(const char *command)
{
	struct web *w = web_new();

	return lighttpd_run(w,
		text("server.modules += ( \"mod_fastcgi\" )\n"
		     "fastcgi.server = ( \"\" => ( \"weir\" => (\n"
		     "\"socket\" => \"%s/spawn-%u.sock\", \"bin-path\" => \"%s\",\n"
		     "\"max-procs\" => 1, \"check-local\" => \"disable\" ) ) )\n",
			test_dir(), w->port, command));
}

static struct web *nginx_run(struct web *w, const char *outside, const char *inside)
{
	const char *conf = test_path(text("nginx-%u.conf", w->port)), *dir = test_dir();
	const char *const argv[] = { "nginx", "-p", dir, "-e", "stderr", "-c", conf, NULL };

	file_write(conf,
		text("daemon off;\nmaster_process off;\nerror_log stderr notice;\n"
		     "pid %s/nginx-%u.pid;\n"
		     "events { worker_connections 4096; }\n"
		     "http {\n"
		     "access_log off;\n"
		     "client_body_temp_path %s/body;\nproxy_temp_path %s/proxy;\n"
		     "fastcgi_temp_path %s/fastcgi;\nuwsgi_temp_path %s/uwsgi;\n"
		     "scgi_temp_path %s/scgi;\n"
		     "%s"
		     "server {\nlisten 127.0.0.1:%u;\nroot %s;\n%s}\n}\n",
			dir, w->port, dir, dir, dir, dir, dir, outside, w->port, w->root,
			inside));
	w->process = process_start(&(struct process_spec){ .name = "nginx", .argv = argv });
	expect_answer(w->process, text("tcp:127.0.0.1:%u", w->port));
	return w;
}

struct web *nginx_start(const char *backend)
{
	return nginx_run(
		web_new(), "", text("include %s;\n", shipped("nginx/weir.conf", backend)));
}

struct web *nginx_keepalive_start(const char *backend)
{
	const char *server = strncmp(backend, "tcp:", 4) == 0 ? backend + 4 : backend;

	return nginx_run(web_new(),
		text("upstream weir { server %s; keepalive 16; }\n", server),
		"location / {\ninclude /etc/nginx/fastcgi.conf;\nfastcgi_pass weir;\n"
		"fastcgi_keep_conn on;\nfastcgi_buffering off;\nclient_max_body_size "
		"64m;\n}\n");
}

const char *php_fpm_start(unsigned children)
{
	static unsigned n;
	const char *addr = addr_unix(text("php%u.sock", ++n));
	const char *conf = test_path(text("php-fpm-%u.conf", n));
	bool root = geteuid() == 0;
	const char *const argv[] = { "php-fpm8.2", "-F", "-y", conf, root ? "-R" : NULL,
		NULL };
	struct process *p;

	file_write(conf,
		text("[global]\ndaemonize = no\nerror_log = /dev/stderr\n"
		     "log_level = warning\n"
		     "[tests]\nlisten = %s\nlisten.backlog = 511\n%s"
		     "pm = static\npm.max_children = %u\n"
		     "php_admin_value[post_max_size] = 1G\n"
		     "php_admin_value[memory_limit] = 256M\n"
		     "catch_workers_output = yes\n",
			addr + 5, root ? "user = root\ngroup = root\n" : "", children));
	p = process_start(&(struct process_spec){ .name = "php-fpm", .argv = argv });
	expect_answer(p, addr);
	return addr;
}

const char *echo_start(unsigned processes)
{
	static unsigned n;
	const char *addr = addr_unix(text("echo%u.sock", ++n));
	const char *const argv[] = { test_env("WEIR_ECHO"), NULL };
	int fd = listen_on(addr, 4096);

	while (processes--)
		process_start(&(struct process_spec){
			.name = "echo", .argv = argv, .input = fd });
	close(fd);
	return addr;
}
