/*
 * servers.c - the real servers that tests put behind weir, each on its own free
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

void process_expect(struct process *p, const char *addr)
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
		test_path(text("redis%u.sock", n)), "--unixsocketperm", "777", "--save", "",
		"--appendonly", "no", "--dir", test_dir(), NULL };

	r->socket = argv[4];
	r->url = text("unix://%s", r->socket);
	r->process = process_start(&(struct process_spec){ .name = "redis", .argv = argv });
	process_expect(r->process, text("unix:%s", r->socket));
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

const char *programs_dir(void)
{
	static const char *const names[] = { "hello.sh", "hello.pl", "hello.php" };
	static const char *dir;
	const char *handlers;

	if (dir)
		return dir;
	dir = test_path("programs");
	handlers = test_env("WEIR_HANDLERS");
	if (mkdir(dir, 0755) < 0)
		fail("%s: %s", dir, strerror(errno));
	for (size_t i = 0; i < COUNT_OF(names); i++)
		file_copy(text("%s/%s", handlers, names[i]), text("%s/%s", dir, names[i]));
	file_copy(test_env("WEIR_ECHO"), text("%s/echo", dir));
	return dir;
}

const char *php_fpm_start(unsigned children)
{
	return php_fpm_pool(children, "");
}

const char *php_fpm_pool(unsigned children, const char *lines)
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
		     "catch_workers_output = yes\n%s",
			addr + 5, root ? "user = root\ngroup = root\n" : "", children,
			lines));
	p = process_start(&(struct process_spec){ .name = "php-fpm", .argv = argv });
	process_expect(p, addr);
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
