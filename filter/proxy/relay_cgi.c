/*
 * proxy/relay_cgi.c - a request given to a CGI program.
 *
 * The program has the whole body as its standard input, a file, so nothing needs to be
 * fed to it and it may ignore it. Its output is read as it comes, its error output
 * beside it, so neither can block the other.
 *
 * Two things end an answer: the output's end and the program's. A program may close
 * its output and work on; a child it left behind may hold the output open for ever.
 * So the second is waited for only as long as SILENCE_MS pass without output. An answer
 * that says how long it is has a third end, its length; most programs are through then,
 * so a moment is waited for that too: whoever calls one after the other is then not
 * counted twice by max_programs.
 *
 * Left out: non-parsed headers (a status line is understood by answer.c), and taking the
 * place of the user who owns the program.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/arguments.h"
#include "proxy/environment.h"
#include "proxy/program.h"
#include "proxy/relay_kind.h"

#define SILENCE_MS    200
#define COMPLETE_MS   20
#define PIECES_A_TURN 4

struct relay_cgi {
	struct relay relay;
	struct program *program;
	struct relay_watch *exec; /* until the program is executed */
	struct relay_watch *out, *err;
	bool out_over, exited;
	bool finishes; /* also when its client leaves */
	uint64_t grace_ms;
	struct program_exit how; /* valid once it exited */
};

static struct relay_cgi *of(struct relay *r)
{
	return (struct relay_cgi *)r;
}

static void flow(struct relay *r)
{
	struct relay_cgi *c = of(r);

	if (c->exec)
		relay_watch_set(c->exec, UV_READABLE);
	if (c->out)
		relay_watch_set(c->out, r->paused ? 0 : UV_READABLE);
	if (c->err)
		relay_watch_set(c->err, UV_READABLE);
}

static enum relay_end exec_end(int err)
{
	switch (err) {
	case EACCES:
	case EPERM:
	case ENOEXEC: /* no binary, and no "#!" */
	case ELOOP:
	case EISDIR: return RELAY_FORBIDDEN;
	case ENOENT: return RELAY_BAD; /* it is there; what its "#!" names is not */
	case E2BIG: return RELAY_TOO_LARGE;
	default: return RELAY_FAILED;
	}
}

/* False: it could not be executed, and the relay is over. */
static bool read_exec(struct relay_cgi *c)
{
	int err;
	ssize_t n;

	if (!c->exec)
		return true;
	n = read(c->exec->fd, &err, sizeof(err));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n == (ssize_t)sizeof(err)) {
		relay_finish_errno(
			&c->relay, exec_end(err), "the program cannot be executed", err);
		return false;
	}
	relay_watch_close(&c->exec);
	if (c->relay.state == RELAY_CONNECT)
		relay_enter(&c->relay, RELAY_WAIT, 0);
	return true;
}

static void on_exec(struct relay *r, int events)
{
	(void)events;
	if (read_exec(of(r)))
		flow(r);
}

static void judge_exit(struct relay_cgi *c)
{
	char why[64];

	snprintf(why, sizeof(why),
		c->how.by_signal ? "the program was ended by signal %d"
				 : "the program ended with status %d",
		c->how.code);
	relay_judge(&c->relay, !c->how.by_signal && c->how.code == 0, why);
}

/* Output or program is over. */
static void one_ended(struct relay_cgi *c)
{
	struct relay *r = &c->relay;

	/* Why there is no program says more than that there is no output. */
	if (!read_exec(c))
		return;
	/* Nobody waits for output, only for the program's end. */
	if (r->state == RELAY_ALONE) {
		if (c->exited)
			relay_finish(r, RELAY_WHOLE, NULL);
		return;
	}
	if (c->exited && (c->out_over || relay_answer_is_whole(r)))
		judge_exit(c);
	else
		relay_enter(r, RELAY_LEAVE, SILENCE_MS);
}

static void on_out(struct relay *r, int events)
{
	struct relay_cgi *c = of(r);

	(void)events;
	for (int i = 0; i < PIECES_A_TURN && !r->paused; i++) {
		char *piece = relay_piece();
		ssize_t n = read(c->out->fd, piece, RELAY_PIECE);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			relay_watch_close(&c->out);
			c->out_over = true;
			one_ended(c);
			return;
		}
		if (!relay_feed(r, view_of(piece, (size_t)n)))
			return;
	}
	/* What came may have been all, while a child keeps the pipe open. */
	if (c->exited && relay_answer_is_whole(r))
		judge_exit(c);
	else
		flow(r);
}

/* False at its end. */
static bool read_errors(struct relay_cgi *c)
{
	char *piece = relay_piece();
	ssize_t n = read(c->err->fd, piece, RELAY_PIECE);

	if (n > 0)
		relay_feed_errors(&c->relay, view_of(piece, (size_t)n));
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void on_err(struct relay *r, int events)
{
	struct relay_cgi *c = of(r);

	(void)events;
	if (!read_errors(c))
		relay_watch_close(&c->err);
	flow(r);
}

static void on_exit_of_program(void *user, struct program_exit how)
{
	struct relay_cgi *c = user;

	c->exited = true;
	c->how = how;
	one_ended(c);
}

static bool expired(struct relay *r)
{
	struct relay_cgi *c = of(r);

	if (r->state != RELAY_LEAVE)
		return false;
	if (relay_answer_is_whole(r) && !c->exited) {
		relay_go_alone(r, true, c->grace_ms);
		return true;
	}
	/* A busy loop may bring the time before the output that came in it. */
	if (c->out) {
		on_out(r, UV_READABLE);
		if (r->state == RELAY_DONE || uv_now(r->loop) < r->deadline_ms)
			return true;
	}
	if (c->exited)
		judge_exit(c);
	else
		relay_judge(r, true, NULL);
	return true;
}

static void complete(struct relay *r)
{
	if (r->state != RELAY_LEAVE)
		relay_enter(r, RELAY_LEAVE, COMPLETE_MS);
}

static bool outlives(const struct relay *r)
{
	const struct relay_cgi *c = (const struct relay_cgi *)r;

	return c->finishes && c->program && !c->exited;
}

static void stop(struct relay *r, bool whole)
{
	struct relay_cgi *c = of(r);

	/* The reason for a failure is often the last thing it wrote. */
	if (c->err)
		read_errors(c);
	relay_watch_close(&c->exec);
	relay_watch_close(&c->out);
	relay_watch_close(&c->err);
	/* One that had its time alone gets no second one. */
	if (whole)
		program_leave(c->program);
	else
		program_kill(c->program);
}

/* Finds the program; ends the relay when there is none. */
static bool find(struct relay *r, struct program_place *place)
{
	static const enum relay_end ends[] = {
		[PROGRAM_MISSING] = RELAY_NO_PROGRAM,
		[PROGRAM_FORBIDDEN] = RELAY_FORBIDDEN,
		[PROGRAM_FAILED] = RELAY_FAILED,
	};
	const struct relay_job *job = &r->job;
	const char *why;
	enum program_found found = program_find(
		job->backend, job->request, job->path, place, &why);

	if (found != PROGRAM_FOUND) {
		relay_finish(r, ends[found], why);
		return false;
	}
	if (relay_unsafe_param(job->request) ||
		(job->path.n &&
			(memchr(job->path.p, '\n', job->path.n) ||
				memchr(job->path.p, '\r', job->path.n)))) {
		relay_finish(r, RELAY_BAD_REQUEST, "CR, LF or NUL in a path");
		return false;
	}
	return true;
}

static bool make_environment(
	const struct relay *r, const struct program_place *place, struct environment *env)
{
	const struct relay_job *job = &r->job;
	const struct environment_paths paths = {
		.script_filename = view_str(place->file),
		.script_name = view_str(place->script_name),
		.path_info = view_str(place->path_info),
		.path_translated = view_str(place->path_translated),
	};
	const struct environment_input in = {
		.request = job->request,
		.paths = &paths,
		.path = job->backend->path,
		.env = job->backend->env,
		.n_env = job->backend->n_env,
		.extra = job->extra,
		.n_extra = job->n_extra,
		.body_bytes = job->body->n,
		.length_given = relay_needs_length(job),
	};

	return environment_build(env, &in);
}

static bool watch_pipes(struct relay_cgi *c, const struct program_pipes *pipes)
{
	struct relay *r = &c->relay;

	/* Each takes its descriptor over, also when it fails. */
	c->exec = relay_watch_new(r, pipes->exec, on_exec);
	c->out = relay_watch_new(r, pipes->out, on_out);
	c->err = relay_watch_new(r, pipes->err, on_err);
	return c->exec && c->out && c->err;
}

static void start_program(struct relay_cgi *c, const struct program_place *place,
	char *const *argv, const struct environment *env)
{
	struct relay *r = &c->relay;
	const struct backend *b = r->job.backend;
	struct program_pipes pipes;
	struct program_job job = {
		.place = place,
		.argv = argv,
		.env = env->vars,
		.in = spool_open(r->job.body),
		.body = r->job.body,
		.backend = b->name,
		.at_most = b->max_programs,
		.kill_grace_ms = b->kill_grace_ms,
		.cpu_s = (uint64_t)(b->cpu_limit_ms + 999) / 1000,
		.memory = b->memory_limit,
		.no_new_privs = b->no_new_privs,
	};
	enum program_started started;

	if (job.in < 0) {
		relay_finish_errno(r, RELAY_FAILED, "the body cannot be read again", errno);
		return;
	}
	started = program_start(r->loop, &job, on_exit_of_program, c, &c->program, &pipes);
	if (started == PROGRAM_NOT_FORKED) {
		int err = errno;

		close(job.in);
		relay_finish_errno(r, RELAY_FAILED, "no process for the program", err);
		return;
	}
	close(job.in);
	if (started == PROGRAM_TOO_MANY) {
		relay_finish(r, RELAY_CROWDED, "too many programs are running");
	} else if (!watch_pipes(c, &pipes)) {
		relay_finish(r, RELAY_FAILED, "no memory");
	} else {
		c->finishes = b->client_gone == CLIENT_GONE_FINISH;
		c->grace_ms = (uint64_t)b->kill_grace_ms;
		relay_enter(r, RELAY_CONNECT, 0);
		flow(r);
	}
}

static void start(struct relay *r)
{
	struct program_place place = PROGRAM_PLACE_NONE;
	struct environment env = { 0 };
	char **argv = NULL;

	if (find(r, &place)) {
		argv = arguments_build(place.file, r->job.backend->argv,
			request_param(r->job.request, "REQUEST_METHOD"), r->job.query);
		if (argv && make_environment(r, &place, &env))
			start_program(of(r), &place, argv, &env);
		else
			relay_finish(r, RELAY_FAILED, "no memory");
	}
	free(argv);
	environment_release(&env);
	program_place_release(&place);
}

const struct relay_kind relay_cgi_kind = {
	.size = sizeof(struct relay_cgi),
	.start = start,
	.flow = flow,
	.expired = expired,
	.complete = complete,
	.outlives = outlives,
	.stop = stop,
};
