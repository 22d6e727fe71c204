/*
 * A request without CONTENT_LENGTH was taken for one without a body. Refused on a kept
 * connection, its STDIN was waited for a second and then the connection closed with the
 * rest of the upload unread: the peer's next write failed and it never saw the answer.
 */
#include "support.h"

#include <unistd.h>

Test(regress, an_upload_of_undeclared_length_sees_its_refusal, .timeout = 50)
{
	struct weir *w = weir_start(&(struct weir_spec){ .server = "workers = 1\n",
		.sections = "[store]\ntype = memory\n[site]\n@RateLimit = count=0\n" });
	const char *const params[] = { "REQUEST_METHOD=POST", "REQUEST_URI=/x",
		"REMOTE_ADDR=192.0.2.1", NULL };
	static char piece[8192];
	struct buf head = { 0 }, pairs = { 0 };
	struct fcgi_answer a;
	int64_t until;
	int fd = dial(w->addr);

	fcgi_answer_init(&a);
	fcgi_begin(&head, 1, 1, 1);
	for (size_t i = 0; params[i]; i++) {
		struct view value = view_str(params[i]), name = view_cut(&value, '=');

		fcgi_pair(&pairs, name, value);
	}
	fcgi_record(&head, 4, 1, buf_view(&pairs), 0);
	fcgi_record(&head, 4, 1, (struct view){ NULL, 0 }, 0);
	cr_assert(fcgi_send(fd, buf_view(&head), 1000));
	/* It writes for longer than weir waits for the end of an empty STDIN. */
	for (until = now_ms() + 2000; now_ms() < until; wait_a_little()) {
		buf_reset(&head);
		fcgi_record(&head, 5, 1, view_of(piece, sizeof(piece)), 0);
		cr_assert(fcgi_send(fd, buf_view(&head), 1000), "the upload was cut off");
	}
	buf_reset(&head);
	fcgi_record(&head, 5, 1, (struct view){ NULL, 0 }, 0);
	cr_assert(fcgi_exchange(fd, buf_view(&head), &a, FCGI_UNTIL_END, 3000));
	cr_assert_eq(answer_status(&a), 403);
	fcgi_answer_release(&a);
	close(fd);
	buf_release(&head);
	buf_release(&pairs);
}
