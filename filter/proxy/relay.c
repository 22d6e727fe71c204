/*
 * proxy/relay.c - what all relays have in common: states, time, answer, end.
 *
 * There is one place where a request ends (relay_finish), one where it changes state
 * (relay_enter), and one where its owner is called while the answer comes
 * (relay_feed). The owner may pause or cancel from inside each call; so after each
 * the state is looked at again, and a relay's memory stays until the loop has closed
 * its timer.
 *
 * Each piece of an answer moves the deadline, not the timer: the timer fires when
 * it was set for, sees that there is time left and sleeps on. So a fast answer costs
 * no timer operation per piece.
 */
#include "proxy/relay_kind.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shortage.h"

#define ERRORS_MAX     16384 /* bytes of one request's error stream that are logged */
#define ERROR_LINE_MAX 1024  /* a longer line is logged in pieces */

static const char *const state_names[] = {
	[RELAY_NEW] = "new",
	[RELAY_RETRY] = "retry",
	[RELAY_CONNECT] = "connect",
	[RELAY_SEND] = "send",
	[RELAY_WAIT] = "wait",
	[RELAY_HEAD] = "head",
	[RELAY_BODY] = "body",
	[RELAY_LEAVE] = "leave",
	[RELAY_ALONE] = "alone",
	[RELAY_DONE] = "done",
};

/* Which limit a state keeps; also what is said when it is over. */
static const char *const state_overdue[] = {
	[RELAY_CONNECT] = "connecting took too long",
	[RELAY_SEND] = "the backend takes no more of the request",
	[RELAY_WAIT] = "no answer in time",
	[RELAY_HEAD] = "the answer's head stopped half-way",
	[RELAY_BODY] = "the answer stopped half-way",
	[RELAY_LEAVE] = "the answer stopped half-way",
	[RELAY_ALONE] = "it did not end by itself",
};

static uint64_t state_timeout(const struct relay *r, enum relay_state s, uint64_t for_ms)
{
	const struct backend *b = r->job.backend; /* gone in ALONE */

	switch (s) {
	case RELAY_CONNECT: return (uint64_t)b->connect_timeout_ms;
	case RELAY_WAIT: return for_ms ? for_ms : (uint64_t)b->first_byte_timeout_ms;
	case RELAY_SEND:
	case RELAY_HEAD:
	case RELAY_BODY: return (uint64_t)b->idle_timeout_ms;
	case RELAY_RETRY:
	case RELAY_LEAVE:
	case RELAY_ALONE: return for_ms;
	case RELAY_NEW:
	case RELAY_DONE: break;
	}
	return 0;
}

/* Its time is over in all. */
static bool is_over(const struct relay *r, uint64_t now)
{
	return r->end_ms && now >= r->end_ms;
}

static void time_is_over(struct relay *r, bool in_all)
{
	if (r->state != RELAY_ALONE && relay_answer_is_whole(r))
		relay_finish(r, RELAY_WHOLE, NULL);
	else if (in_all)
		relay_finish(r, RELAY_TIMEOUT, "it took too long in all");
	else
		relay_finish(r, RELAY_TIMEOUT, state_overdue[r->state]);
}

static void on_timer(uv_timer_t *timer)
{
	struct relay *r = timer->data;
	uint64_t now = uv_now(r->loop);

	if (r->state == RELAY_NEW) {
		r->kind->start(r);
		return;
	}
	if (is_over(r, now)) {
		time_is_over(r, true);
		return;
	}
	if (now < r->deadline_ms) {
		uv_timer_start(timer, on_timer, r->deadline_ms - now, 0);
		return;
	}
	if (!r->kind->expired(r))
		time_is_over(r, false);
}

/* While it is paused only the limit of the whole counts. */
void relay_touch(struct relay *r)
{
	uint64_t now = uv_now(r->loop);
	uint64_t left = is_over(r, now) ? 0 : r->end_ms - now;
	uint64_t due = r->paused ? UINT64_MAX : r->timeout_ms;

	if (r->end_ms && left < due)
		due = left;
	if (due == UINT64_MAX) {
		uv_timer_stop(&r->timer);
		return;
	}
	r->deadline_ms = now + due;
	if (!uv_is_active((uv_handle_t *)&r->timer) || uv_timer_get_due_in(&r->timer) > due)
		uv_timer_start(&r->timer, on_timer, due, 0);
}

void relay_enter(struct relay *r, enum relay_state state, uint64_t for_ms)
{
	log_debug("relay", LOG_STR("request", r->id), LOG_STR("backend", r->backend),
		LOG_STR("state", state_names[state]));
	r->state = state;
	if (state == RELAY_DONE)
		return;
	r->timeout_ms = state_timeout(r, state, for_ms);
	relay_touch(r);
}

struct relay *relay_start(uv_loop_t *loop, const struct relay_job *job,
	const struct relay_events *events, void *user)
{
	const struct relay_kind *kind = job->backend->kind == BACKEND_CGI
		? &relay_cgi_kind
		: &relay_fastcgi_kind;
	struct relay *r = calloc(1, kind->size);

	if (!r)
		return NULL;
	r->loop = loop;
	r->kind = kind;
	r->job = *job;
	r->events = *events;
	r->user = user;
	snprintf(r->id, sizeof(r->id), "%s", job->request->id);
	snprintf(r->backend, sizeof(r->backend), "%s", job->backend->name);
	answer_init(&r->answer,
		view_eq(request_param(job->request, "REQUEST_METHOD"), VIEW("HEAD")));
	r->answer.keep_sendfile = job->backend->sendfile == SENDFILE_PASS;
	r->answer.own_rate_limit = job->own_rate_limit;
	r->answer.own_x_rate_limit = job->own_x_rate_limit;
	uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	if (job->backend->timeout_ms)
		r->end_ms = uv_now(loop) + (uint64_t)job->backend->timeout_ms;
	relay_enter(r, RELAY_NEW, 0);
	return r;
}

void relay_pause(struct relay *r)
{
	if (r->paused || r->state >= RELAY_ALONE)
		return;
	r->paused = true;
	uv_timer_stop(&r->timer);
	relay_touch(r);
	r->kind->flow(r);
}

void relay_resume(struct relay *r)
{
	if (!r->paused || r->state >= RELAY_ALONE)
		return;
	r->paused = false;
	relay_touch(r);
	r->kind->flow(r);
}

static void free_relay(uv_handle_t *timer)
{
	struct relay *r = timer->data;

	answer_release(&r->answer);
	buf_release(&r->errors.line);
	free(r);
}

static void flush_errors(struct relay *r);

/* After this the job may be gone. */
static void shut(struct relay *r, bool whole)
{
	assert(r->state != RELAY_DONE);
	r->kind->stop(r, whole);
	flush_errors(r);
	relay_enter(r, RELAY_DONE, 0);
	uv_close((uv_handle_t *)&r->timer, free_relay);
	relay_forget_alone(r); /* who is told then may end all that is left */
}

void relay_cancel(struct relay *r)
{
	if (r->state >= RELAY_ALONE)
		return;
	if (r->kind->outlives(r))
		relay_go_alone(r, false, (uint64_t)r->job.backend->idle_timeout_ms);
	else
		shut(r, false);
}

void relay_finish(struct relay *r, enum relay_end how, const char *why)
{
	if (r->state == RELAY_ALONE) {
		shut(r, how == RELAY_WHOLE);
		return;
	}
	/* What has been passed on cannot be taken back: only its end can be spoilt. */
	if (r->answer.headed && how != RELAY_WHOLE)
		how = RELAY_TRUNCATED;
	shut(r, how == RELAY_WHOLE);
	r->events.end(r->user, how, why);
}

void relay_finish_errno(struct relay *r, enum relay_end how, const char *why, int err)
{
	char text[256];

	if (how == RELAY_FAILED)
		shortage_seen(err, why);
	snprintf(text, sizeof(text), "%s: %s", why, strerror(err));
	relay_finish(r, how, text);
}

bool relay_answer_is_whole(const struct relay *r)
{
	const struct answer *a = &r->answer;

	return answer_finish(a) == ANSWER_WHOLE &&
		(a->bodyless || a->chunked || a->has_length);
}

void relay_judge(struct relay *r, bool clean, const char *why)
{
	switch (answer_finish(&r->answer)) {
	case ANSWER_WHOLE:
		if (clean || relay_answer_is_whole(r))
			relay_finish(r, RELAY_WHOLE, NULL);
		else
			relay_finish(r, RELAY_TRUNCATED, why);
		return;
	case ANSWER_EMPTY:
		relay_finish(r, RELAY_BAD, clean ? "the backend said nothing" : why);
		return;
	case ANSWER_HEADLESS:
		relay_finish(r, RELAY_BAD, "the answer ended before its head did");
		return;
	case ANSWER_TRUNCATED:
		relay_finish(r, RELAY_TRUNCATED, "the answer is shorter than it says");
		return;
	}
}

bool relay_feed(struct relay *r, struct view bytes)
{
	struct view piece;

	if (bytes.n == 0)
		return true;
	if (r->state < RELAY_HEAD)
		relay_enter(r, RELAY_HEAD, 0);
	else if (r->state == RELAY_ALONE ? !r->alone_whole : !relay_answer_is_whole(r))
		relay_touch(r);
	while (r->state < RELAY_ALONE) {
		switch (answer_next(&r->answer, &bytes, &piece)) {
		case ANSWER_MORE:
			if (relay_answer_is_whole(r))
				r->kind->complete(r);
			return r->state != RELAY_DONE;
		case ANSWER_HEAD:
			if (r->state == RELAY_HEAD)
				relay_enter(r, RELAY_BODY, 0);
			r->events.head(r->user, &r->answer);
			/* It may have been the only large thing a long stream holds. */
			buf_release(&r->answer.head);
			break;
		case ANSWER_BODY: r->events.body(r->user, piece); break;
		case ANSWER_BAD: relay_finish(r, RELAY_BAD, r->answer.why); break;
		}
	}
	return r->state != RELAY_DONE;
}

static void log_line(struct relay *r)
{
	struct relay_errors *e = &r->errors;
	struct view line = view_trim(buf_view(&e->line));

	if (line.n && buf_ok(&e->line))
		log_notice("error output of the backend", LOG_STR("request", r->id),
			LOG_STR("backend", r->backend), LOG_VIEW("text", line));
	buf_reset(&e->line);
}

void relay_feed_errors(struct relay *r, struct view bytes)
{
	struct relay_errors *e = &r->errors;
	size_t room = ERRORS_MAX - e->taken;

	if (bytes.n > room) {
		e->dropped += bytes.n - room;
		bytes.n = room;
	}
	e->taken += bytes.n;
	while (bytes.n) {
		const char *end = memchr(bytes.p, '\n', bytes.n);
		size_t n = end ? (size_t)(end - bytes.p) + 1 : bytes.n;

		if (n > ERROR_LINE_MAX - e->line.n) {
			n = ERROR_LINE_MAX - e->line.n;
			end = bytes.p;
		}
		buf_add(&e->line, view_of(bytes.p, n));
		bytes = view_skip(bytes, n);
		/* Without memory for the line it is lost, and the next one tried. */
		if (end || !buf_ok(&e->line))
			log_line(r);
	}
}

static void flush_errors(struct relay *r)
{
	log_line(r);
	if (r->errors.dropped)
		log_notice("error output of the backend was cut", LOG_STR("request", r->id),
			LOG_STR("backend", r->backend),
			LOG_INT("dropped_bytes", r->errors.dropped));
}

const char *relay_unsafe_param(const struct request *rq)
{
	static const char *const paths[] = { "SCRIPT_NAME", "SCRIPT_FILENAME", "PATH_INFO",
		"PATH_TRANSLATED", "DOCUMENT_URI", "REQUEST_URI" };

	for (size_t i = 0; i < rq->n_params; i++) {
		struct view name = rq->params[i].name, value = rq->params[i].value;

		/* Every one of a name: which of two the backend takes is its own affair. */
		for (size_t k = 0; k < COUNT_OF(paths); k++)
			if (view_eq(name, view_str(paths[k])) && value.n &&
				(memchr(value.p, '\r', value.n) ||
					memchr(value.p, '\n', value.n) ||
					memchr(value.p, '\0', value.n)))
				return paths[k];
	}
	return NULL;
}

bool relay_withholds(const struct relay_job *job, struct view name)
{
	/* A client's "Proxy:" field must not become the variable by which programs
	 * choose their HTTP proxy: https://httpoxy.org/ */
	if (view_eq_nocase(name, VIEW("HTTP_PROXY")) || view_starts(name, VIEW("WEIR_")))
		return true;
	for (size_t i = 0; i < job->n_extra; i++)
		if (view_eq(name, job->extra[i].name))
			return true;
	for (size_t i = 0; i < job->backend->n_env; i++)
		if (view_eq(name, view_str(job->backend->env[i].name)))
			return true;
	return false;
}

bool relay_needs_length(const struct relay_job *job)
{
	struct view method = request_param(job->request, "REQUEST_METHOD");

	return job->body->n > 0 || view_eq(method, VIEW("POST")) ||
		view_eq(method, VIEW("PUT")) || view_eq(method, VIEW("PATCH"));
}

char *relay_piece(void)
{
	static _Thread_local char piece[RELAY_PIECE];

	return piece;
}

static void free_watch(uv_handle_t *poll)
{
	free(poll->data);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct relay_watch *w = poll->data;

	if (status < 0) {
		/* libuv has stopped watching; who still wants events sets them again. */
		w->wanted = 0;
		events = UV_READABLE | UV_WRITABLE;
	}
	w->ready(w->relay, events);
}

struct relay_watch *relay_watch_new(
	struct relay *r, int fd, void (*ready)(struct relay *r, int events))
{
	struct relay_watch *w = calloc(1, sizeof(*w));

	if (!w || uv_poll_init(r->loop, &w->poll, fd) < 0) {
		free(w);
		close(fd);
		return NULL;
	}
	w->poll.data = w;
	w->fd = fd;
	w->relay = r;
	w->ready = ready;
	return w;
}

void relay_watch_set(struct relay_watch *w, int events)
{
	if (w->wanted == events)
		return;
	w->wanted = events;
	if (events)
		uv_poll_start(&w->poll, events, on_ready);
	else
		uv_poll_stop(&w->poll);
}

int relay_watch_release(struct relay_watch **w)
{
	int fd = (*w)->fd;

	uv_close((uv_handle_t *)&(*w)->poll, free_watch);
	*w = NULL;
	return fd;
}

void relay_watch_close(struct relay_watch **w)
{
	if (*w)
		close(relay_watch_release(w));
}
