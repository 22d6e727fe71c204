#include "front/cgi.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"

/* Longest reading of a body that nobody wants. */
#define DRAIN_US (30 * US_PER_S)

extern char **environ;

static struct cgi_front *of_front(struct front *f)
{
	return CONTAINER_OF(f, struct cgi_front, front);
}

static void end(struct cgi_front *cf)
{
	cf->user = NULL;
	uv_close((uv_handle_t *)&cf->pump, NULL);
}

static void lose(struct cgi_front *cf)
{
	void *user = cf->user;

	end(cf);
	cf->events->gone(user, FRONT_PEER_LEFT);
}

/* One piece of the body; its end once CONTENT_LENGTH bytes came (section 4.2). */
static void pump(uv_idle_t *idle)
{
	static char chunk[65536];
	struct cgi_front *cf = idle->data;
	size_t want = cf->body_left < sizeof(chunk) ? (size_t)cf->body_left : sizeof(chunk);
	ssize_t n;

	if (cf->output_broken) {
		lose(cf);
		return;
	}
	if (want == 0) {
		cf->body_ended = true;
		uv_idle_stop(idle);
		cf->events->body_end(cf->user);
		return;
	}
	do
		n = read(STDIN_FILENO, chunk, want);
	while (n < 0 && errno == EINTR);
	if (n <= 0) { /* the web server gave up */
		lose(cf);
		return;
	}
	cf->body_left -= (uint64_t)n;
	cf->events->body(cf->user, view_of(chunk, (size_t)n));
}

static void cgi_body_stop(struct front *f)
{
	uv_idle_stop(&of_front(f)->pump);
}

static void cgi_body_resume(struct front *f)
{
	struct cgi_front *cf = of_front(f);

	if (!cf->body_ended)
		uv_idle_start(&cf->pump, pump);
}

static bool cgi_write(struct front *f, struct view bytes)
{
	struct cgi_front *cf = of_front(f);

	while (bytes.n && !cf->output_broken) {
		ssize_t n = write(STDOUT_FILENO, bytes.p, bytes.n);

		if (n > 0) {
			bytes = view_skip(bytes, (size_t)n);
		} else if (errno != EINTR) {
			cf->output_broken = true;
			uv_idle_start(&cf->pump, pump);
		}
	}
	return true;
}

/* The answer is complete, whatever is still read. */
static void end_output(void)
{
	int null;

	if (shutdown(STDOUT_FILENO, SHUT_WR) == 0)
		return;
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDOUT_FILENO);
		close(null);
	}
}

/* What came of the body behind an answer given early. Apache's mod_cgid writes the whole
 * body before it reads, and to a socket: closed with input unread, it takes the answer
 * with it. */
static void drain(uint64_t left)
{
	static char chunk[65536];
	int64_t end_us = clock_mono_us() + DRAIN_US, now_us;

	end_output();
	while (left && (now_us = clock_mono_us()) < end_us) {
		struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
		size_t want = left < sizeof(chunk) ? (size_t)left : sizeof(chunk);
		ssize_t n = 0;

		if (poll(&in, 1, (int)((end_us - now_us) / US_PER_MS) + 1) > 0)
			n = read(STDIN_FILENO, chunk, want);
		else if (errno == EINTR)
			continue;
		if (n <= 0)
			return;
		left -= (uint64_t)n;
	}
}

static void cgi_finish(struct front *f)
{
	struct cgi_front *cf = of_front(f);

	if (cf->body_left && !cf->output_broken)
		drain(cf->body_left);
	end(cf);
}

/* The end of the output is all there is to show. */
static void cgi_abort(struct front *f, bool too_short)
{
	(void)too_short;
	cgi_finish(f);
}

static const struct front_kind cgi_kind = {
	.body_stop = cgi_body_stop,
	.body_resume = cgi_body_resume,
	.write = cgi_write,
	.finish = cgi_finish,
	.abort = cgi_abort,
};

void cgi_front_start(struct cgi_front *cf, uv_loop_t *loop,
	const struct front_events *events, void *owner)
{
	struct request rq;
	void *user;
	bool given;

	*cf = (struct cgi_front){ .front.kind = &cgi_kind, .events = events };
	uv_idle_init(loop, &cf->pump);
	cf->pump.data = cf;
	request_init(&rq, FCGI_RESPONDER);
	for (char **e = environ; *e; e++) {
		struct view value = view_str(*e), name = view_cut(&value, '=');

		pairs_put(&rq.head, name, value);
	}
	if (!request_index(&rq)) {
		request_release(&rq);
		cgi_write(&cf->front, VIEW(FRONT_NO_MEMORY));
		uv_close((uv_handle_t *)&cf->pump, NULL);
		return;
	}
	if (!request_content_length(&rq, &cf->body_left, &given) || !given)
		cf->body_left = 0; /* the owner answers 400 to what is no number */
	count_one(COUNT_requests);
	/* The body is not read before the owner asks for it: reading blocks, and meanwhile
	 * no answer of Redis would be heard. */
	cf->user = &cf->front; /* until the owner says: not over yet */
	user = events->head(owner, &cf->front, &rq, 0);
	if (cf->user && !user) {
		cgi_write(&cf->front, VIEW(FRONT_NO_MEMORY));
		cgi_finish(&cf->front);
	} else if (cf->user) {
		cf->user = user;
	}
}
