/*
 * A body that came in one piece with its head was still waiting for Redis's decision
 * when it ended. Reading had been stopped for that wait and was not begun again, so for
 * the rest of the request nobody saw the peer leave and its backend was held for nothing.
 */
#include "support.h"

#include <unistd.h>

Test(regress, a_post_decided_by_redis_is_watched_while_its_backend_works, .timeout = 50)
{
	static const struct backend_script silent = { .silent = true };
	const char *addr = addr_unix("silent.sock");
	struct backend *b = backend_start(addr, &silent);
	struct weir *w = weir_start(&(struct weir_spec){ .server = "backend = silent\n",
		.sections = text("[store]\ntype = redis\nurl = %s\ntimeout = 5s\n"
				 "[site]\n@RateLimit = type=ip count=100 window=1h\n"
				 "[backend silent]\nfastcgi = %s\n",
			redis_start()->url, addr) });
	struct fcgi_request rq = { .uri = "/x", .body = VIEW("hello") };
	struct buf bytes = { 0 };
	int fd = dial(w->addr);

	fcgi_compose(&bytes, &rq);
	cr_assert(fcgi_send(fd, buf_view(&bytes), 1000));
	cr_assert(WAIT_UNTIL(5000, backend_count(b).requests == 1));
	close(fd);
	cr_assert(WAIT_UNTIL(1000, backend_count(b).left_by_peer == 1),
		"the backend's connection is still open");
	cr_assert(weir_counts(w, "requests_abandoned", 1, 5000));
	buf_release(&bytes);
}
