/*
 * At SIGTERM the listening sockets were closed with connections waiting in them, and
 * connections just accepted were closed as idle, although their request was in the
 * socket: every restart lost some requests.
 */
#include "support.h"

#include <unistd.h>

#define WAITING 8

Test(regress, requests_that_wait_when_weir_is_told_to_stop_are_answered, .timeout = 50)
{
	static const struct backend_script plain;
	const char *addr = addr_unix("plain.sock");
	struct weir *w;
	struct fcgi_request rq = { .uri = "/x" };
	struct fcgi_answer a[WAITING];
	struct buf bytes = { 0 };
	int fds[WAITING];

	backend_start(addr, &plain);
	w = weir_start(&(struct weir_spec){ .server = "backend = plain\n",
		.sections = text(
			"[store]\ntype = memory\n[backend plain]\nfastcgi = %s\n", addr) });
	fcgi_compose(&bytes, &rq);
	/* While it is stopped they can only wait. */
	process_signal(w->process, SIGSTOP);
	for (int i = 0; i < WAITING; i++) {
		fcgi_answer_init(&a[i]);
		fds[i] = dial(w->addr);
		cr_assert(fcgi_send(fds[i], buf_view(&bytes), 1000));
	}
	process_signal(w->process, SIGTERM);
	process_signal(w->process, SIGCONT);
	for (int i = 0; i < WAITING; i++) {
		cr_assert(fcgi_exchange(fds[i], (struct view){ NULL, 0 }, &a[i],
				  FCGI_UNTIL_END, 5000),
			"request %d got no answer", i);
		cr_assert_eq(answer_status(&a[i]), 200, "request %d: %d", i,
			answer_status(&a[i]));
		fcgi_answer_release(&a[i]);
		close(fds[i]);
	}
	cr_assert_eq(process_exit(w->process, 3000), 0);
	buf_release(&bytes);
}
