/*
 * weir.c - the built program under test, as an operator starts it.
 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define START_MS 15000

/* One file per endpoint: what begins with "[endpoint NAME]" goes to NAME.ini. */
static void write_endpoints(const char *dir, const char *all)
{
	const char *mark = "[endpoint ";

	if (mkdir(dir, 0755) < 0)
		fail("%s: %s", dir, strerror(errno));
	for (const char *at = strstr(all, mark), *next; at; at = next) {
		const char *name = at + strlen(mark), *end = strchr(name, ']');

		if (!end)
			fail("no ] after %s", at);
		next = strstr(end, mark);
		file_write(text("%s/%.*s.ini", dir, (int)(end - name), name),
			text("%.*s", next ? (int)(next - at) : (int)strlen(at), at));
	}
}

struct weir *weir_configure(const struct weir_spec *spec)
{
	static struct weir all[16];
	static unsigned n;
	struct weir *w = &all[n++];
	const char *endpoints = "";

	if (spec->endpoints) {
		write_endpoints(test_path(text("endpoints%u.d", n)), spec->endpoints);
		endpoints = text("endpoints = %s/endpoints%u.d/*.ini\n", test_dir(), n);
	}
	w->addr = spec->listen ? spec->listen : addr_unix(text("weir%u.sock", n));
	w->control = addr_unix(text("control%u.sock", n));
	w->ini = test_path(text("weir%u.ini", n));
	file_write(w->ini,
		text("[server]\n%s%s%s"
		     "control = %s\n%s%s\n%s",
			spec->input ? "" : "listen = ", spec->input ? "" : w->addr,
			spec->input ? "" : "\n", w->control, endpoints,
			spec->server ? spec->server : "",
			spec->sections ? spec->sections : ""));
	return w;
}

/* One line each way; "" when there was no answer. */
static const char *ask_control(const struct weir *w, const char *line)
{
	int fd = dial(w->control);
	struct buf answer = { 0 };
	const char *s = "";
	ssize_t n;

	if (fd < 0)
		return s;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 5 },
		sizeof(struct timeval));
	if (fcgi_send(fd, view_str(line), 5000))
		while (buf_reserve(&answer, 65536) &&
			(n = read(fd, answer.p + answer.n, 65536)) > 0) {
			answer.n += (size_t)n;
			if (answer.p[answer.n - 1] != '\n')
				continue;
			s = text("%.*s", (int)answer.n, answer.p);
			break;
		}
	close(fd);
	buf_release(&answer);
	return s;
}

struct weir *weir_start(const struct weir_spec *spec)
{
	struct weir *w = weir_configure(spec);
	const char *const argv[] = { test_env("WEIR"), "-c", w->ini, NULL };

	w->process = process_start(&(struct process_spec){
		.name = "weir", .argv = argv, .env = spec->env, .input = spec->input });
	/* The control socket is answered last, when signals are heeded too. */
	if (!WAIT_UNTIL(START_MS,
		    !process_running(w->process) ||
			    (addr_answers(w->addr) &&
				    *ask_control(w, "{\"command\":\"status\"}\n"))) ||
		!process_running(w->process))
		fail("weir does not serve on %s:\n%s\n%s", w->addr, process_log(w->process),
			file_read(w->ini));
	return w;
}

int weir_run(const char *const *args, const char **out)
{
	const char *argv[16] = { test_env("WEIR") };
	struct process *p;
	int status;

	for (size_t i = 0; args[i] && i + 2 < COUNT_OF(argv); i++)
		argv[i + 1] = args[i];
	p = process_start(&(struct process_spec){ .name = "weir-run", .argv = argv });
	status = process_exit(p, START_MS);
	if (out)
		*out = process_log(p);
	return status;
}

__attribute__((format(printf, 1, 0))) static struct run run_weirctl(
	const char *fmt, va_list ap)
{
	static unsigned number;
	const char *argv[32] = { test_env("WEIRCTL") };
	const char *out = test_path(text("weirctl.out.%u", number++));
	char *words, *rest, *word;
	struct process *p;
	struct run r;
	size_t n = 1;
	int fd;

	if (vasprintf(&words, fmt, ap) < 0)
		fail("out of memory");
	rest = words;
	while ((word = strsep(&rest, " ")) != NULL && n + 1 < COUNT_OF(argv))
		argv[n++] = word;
	fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	p = process_start(
		&(struct process_spec){ .name = "weirctl", .argv = argv, .output = fd });
	r.status = process_exit(p, START_MS);
	r.out = file_read(out);
	r.err = process_log(p);
	if (fd < 0 || !r.out)
		fail("%s: %s", out, strerror(errno));
	close(fd);
	free(words);
	return r;
}

struct run weirctl_run(const char *fmt, ...)
{
	struct run r;
	va_list ap;

	va_start(ap, fmt);
	r = run_weirctl(fmt, ap);
	va_end(ap);
	return r;
}

const char *weirctl(const char *fmt, ...)
{
	struct run r;
	va_list ap;

	va_start(ap, fmt);
	r = run_weirctl(fmt, ap);
	va_end(ap);
	if (r.status != 0)
		fail("weirctl %s ends with %d: %s", fmt, r.status, r.err);
	return r.out;
}

const char *token_in(const char *output)
{
	const char *at = strstr(output, "weir_");

	if (!at)
		fail("no token in \"%s\"", output);
	return text("%.*s", (int)strcspn(at, " \t\r\n\""), at);
}

json_t *weir_status(const struct weir *w)
{
	return json_loads(ask_control(w, "{\"command\":\"status\"}\n"), 0, NULL);
}

int64_t weir_counter(const struct weir *w, const char *name)
{
	json_t *status = weir_status(w);
	json_t *n = json_object_get(json_object_get(status, "counters"), name);
	int64_t value = json_is_integer(n) ? json_integer_value(n) : -1;

	json_decref(status);
	return value;
}

bool weir_counts(const struct weir *w, const char *name, int64_t n, int64_t ms)
{
	return WAIT_UNTIL(ms, weir_counter(w, name) == n);
}
