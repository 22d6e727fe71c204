#include "site.h"

#include <criterion/logging.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

struct site *site_start(const struct site_spec *spec)
{
	static struct site s;
	const char *more = spec->backend ? spec->backend : "";
	struct weir_spec weir = { .server = text("workers = 2\nbackend = echo\n%s",
					  spec->server ? spec->server : ""),
		.env = spec->env };

	s.programs = programs_dir();
	s.echo = echo_start(spec->echo ? spec->echo : 2);
	s.php = spec->no_php ? NULL : php_fpm_start(3);
	weir.sections = text("[store]\ntype = memory\n"
			     "[backend echo]\nfastcgi = %s\n%s"
			     "[backend php]\nfastcgi = %s\n%s"
			     "[backend cgi]\ncgi = %s\n%s%s%s",
		s.echo, more, s.php ? s.php : s.echo, more, s.programs, more,
		spec->cgi ? spec->cgi : "", spec->sections ? spec->sections : "");
	weir.endpoints = text("[endpoint php]\nmatch = * /hello.php\nbackend = php\n"
			      "[endpoint shell]\nmatch = * /hello.sh\nbackend = cgi\n"
			      "[endpoint perl]\nmatch = * /hello.pl\nbackend = cgi\n"
			      "[endpoint cgi-echo]\nmatch = * /echo\nbackend = cgi\n"
			      "%s",
		spec->endpoints ? spec->endpoints : "");
	s.weir = weir_start(&weir);
	s.addr = s.weir->addr;
	return &s;
}

int site_get(const struct site *s, const char *uri)
{
	struct fcgi_request rq = { .uri = uri };
	struct fcgi_answer a;
	int status = fcgi_call(s->addr, &rq, &a, 10000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

const char *endpoints_dir(const struct weir *w)
{
	const char *ini = file_read(w->ini), *at = strstr(ini, "endpoints = ");

	if (!at)
		fail("no endpoints in\n%s", ini);
	at += strlen("endpoints = ");
	return text("%.*s", (int)(strcspn(at, "*") - 1), at);
}

const char *endpoint_file(const struct weir *w, const char *name)
{
	return text("%s/%s.ini", endpoints_dir(w), name);
}

/* The log from there on. */
static const char *log_from(const struct weir *w, off_t at)
{
	static char said[256 * 1024];
	int fd = open(w->process->log, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : pread(fd, said, sizeof(said) - 1, at);

	said[n > 0 ? n : 0] = '\0';
	close(fd);
	return said;
}

const char *reload(const struct weir *w, const char *words)
{
	struct stat before;

	if (stat(w->process->log, &before) < 0)
		fail("%s: %s", w->process->log, strerror(errno));
	process_signal(w->process, SIGHUP);
	if (!WAIT_UNTIL(20000, strstr(log_from(w, before.st_size), words)))
		fail("not a word of \"%s\" in\n%s", words, log_from(w, before.st_size));
	return log_from(w, before.st_size);
}

void file_replace(const char *path, const char *content)
{
	const char *fresh = text("%s.new", path);

	file_write(fresh, content);
	if (rename(fresh, path) < 0)
		fail("%s: %s", path, strerror(errno));
}

const char *small_disk(const char *name)
{
	const char *dir = test_path(name);

	if (mkdir(dir, 0755) < 0)
		fail("%s: %s", dir, strerror(errno));
	if (unshare(CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("weir", dir, "tmpfs", 0, "size=1m") < 0)
		skip_test("a file system of one megabyte cannot be mounted here: %s",
			strerror(errno));
	return dir;
}

void expect_clean_end(const struct weir *w)
{
	process_signal(w->process, SIGTERM);
	cr_assert_eq(process_exit(w->process, 30000), 0, "%s", process_log(w->process));
}

void expect_busy(const struct fcgi_answer *a, const char *reason, const char *case_name)
{
	json_t *body;

	cr_assert_eq(answer_status(a), 503, "%s: %d\n%.*s", case_name, answer_status(a),
		(int)a->out.n, a->out.p);
	cr_assert_str_eq(answer_field(a, "Retry-After"), "1", "%s", case_name);
	cr_assert_str_eq(answer_field(a, "Content-Type"), "application/json");
	body = json_of(answer_body(a));
	cr_assert_eq(json_integer_value(json_object_get(body, "code")), 50300);
	cr_assert_str_eq(json_string_value(json_object_get(body, "reason")), reason, "%s",
		case_name);
	cr_assert_str_not_empty(json_string_value(json_object_get(body, "message")));
	json_decref(body);
}
