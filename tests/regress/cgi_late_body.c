/*
 * As a CGI program weir read its body from the start, and blocked in that while Redis's
 * answer lay in the socket. Whoever sent the body late was decided by the local table,
 * which is empty in each new process, and so passed every limit.
 */
#include "support.h"

#include <fcntl.h>
#include <unistd.h>

/* Runs weir as CGI; the body comes after weir has had time to decide. */
static int status_with_late_body(const struct weir *w)
{
	static unsigned n;
	const char *to = test_path(text("out-%u", ++n));
	const char *const env[] = { text("WEIR_CONFIG=%s", w->ini),
		"GATEWAY_INTERFACE=CGI/1.1", "REQUEST_METHOD=POST", "REQUEST_URI=/a",
		"CONTENT_LENGTH=5", "REMOTE_ADDR=192.0.2.1", NULL };
	const char *const argv[] = { test_env("WEIR"), NULL };
	int64_t late = now_ms() + 700;
	int in[2], out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	struct fcgi_answer a;
	struct process *p;
	int status;

	cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
	p = process_start(&(struct process_spec){ .name = "weir-cgi",
		.argv = argv,
		.env = env,
		.bare_env = true,
		.input = in[0],
		.output = out });
	close(in[0]);
	/* Refused, it answers and ends without the body. */
	WAIT_UNTIL(5000, now_ms() > late || !process_running(p));
	signal(SIGPIPE, SIG_IGN);
	if (write(in[1], "hello", 5) < 0)
		cr_log_info("weir did not wait for the body");
	close(in[1]);
	cr_assert_eq(process_exit(p, 10000), 0, "%s", process_log(p));
	close(out);
	fcgi_answer_init(&a);
	buf_add_str(&a.out, file_read(to));
	status = answer_status(&a);
	fcgi_answer_release(&a);
	return status;
}

Test(regress, a_body_that_comes_late_does_not_pass_a_limit, .timeout = 50)
{
	/* A time-out shorter than the delay, and long enough for a busy machine. */
	struct weir *w = weir_configure(&(struct weir_spec){
		.sections = text("[store]\ntype = redis\nurl = %s\ntimeout = 500ms\n"
				 "[backend echo]\nfastcgi = %s\n",
			redis_start()->url, echo_start(1)),
		.endpoints = "[endpoint a]\nmatch = POST /a\nbackend = echo\n"
			     "@RateLimit = type=ip count=2 window=1h\n" });

	cr_assert_eq(status_with_late_body(w), 200);
	cr_assert_eq(status_with_late_body(w), 200);
	cr_assert_eq(status_with_late_body(w), 429);
}
