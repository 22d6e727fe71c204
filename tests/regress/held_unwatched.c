/*
 * A request with a body that waited for its turn in a leaky bucket was not watched: reading
 * had been stopped for the wait, so nobody saw its client leave. It stayed among those
 * being served, and when its turn came its backend was called for nobody.
 */
#include "support.h"

#include <unistd.h>

Test(regress, a_post_that_is_held_is_let_go_when_its_client_leaves, .timeout = 100)
{
	static const struct backend_script plain;
	static const struct {
		const char *what;
		uint64_t body_bytes;
		size_t unsent; /* of the whole request, at its end */
	} rows[] = {
		{ "a whole body", 3, 0 },
		{ "a body whose last record is missing", 3, 8 },
		{ "half a body", 20000, 10000 },
		{ "a body of which not all is read", 120000, 20000 },
	};
	const char *addr = addr_unix("plain.sock"),
		   *const listen[] = { addr_unix("w.sock"), addr_tcp() };
	struct backend *b = backend_start(addr, &plain);

	for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
		size_t row = i / 2;
		/* The next is held for a minute, and each further one longer. */
		struct weir *w = weir_start(&(struct weir_spec){
			.server = "backend = plain\n",
			.listen = listen[i % 2],
			.sections = text("[store]\ntype = memory\n"
					 "[site]\n@RateLimit = type=global count=1 "
					 "window=60s algorithm=leaky_bucket burst=10 "
					 "max_delay=1h\n"
					 "[backend plain]\nfastcgi = %s\n",
				addr) });
		struct fcgi_request rq = {
			.method = "POST", .uri = "/x", .pattern_bytes = rows[row].body_bytes
		};
		struct buf bytes = { 0 };
		struct fcgi_answer a;
		int fd;

		cr_assert(fcgi_call(w->addr, &(struct fcgi_request){ 0 }, &a, 5000));
		cr_assert_eq(answer_status(&a), 200);
		fcgi_answer_release(&a);
		fcgi_compose(&bytes, &rq);
		fd = dial(w->addr);
		cr_assert(
			fcgi_send(fd, view_of(bytes.p, bytes.n - rows[row].unsent), 5000));
		cr_assert(weir_counts(w, "requests_held", 1, 5000), "%s", rows[row].what);
		cr_assert_eq(weir_counter(w, "exchanges_open"), 1);
		close(fd);
		cr_assert(weir_counts(w, "requests_abandoned", 1, 10000), "%s to %s",
			rows[row].what, w->addr);
		cr_assert(weir_counts(w, "exchanges_open", 0, 5000));
		cr_assert_eq(backend_count(b).requests, i + 1, "the backend was called");
		process_stop(w->process, 5000);
		buf_release(&bytes);
	}
}
