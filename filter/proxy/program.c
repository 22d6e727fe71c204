/*
 * proxy/program.c - a CGI program running.
 *
 * The child runs between vfork and execve in its parent's memory, while the thread that
 * made it waits: it may only make system calls, and all it needs is prepared before. A
 * copy of the memory, as fork makes it, cost three times as much as all else together.
 * The price is that this loop waits for the execve; a disk on which programs are slow to
 * open delays it. How the execve went is heard by a pipe that it closes.
 *
 * Signals go to the process group, since a program may be a shell with the real worker
 * below it. While the program is not reaped its group's number is its own. After that
 * it is so as long as a member is left; so what is left is looked at every few
 * milliseconds, and no signal is sent to a number that was found free.
 *
 * What has left the group (a daemon) is not followed.
 *
 * A program that was executed has begun its work, so from then on nothing that weir runs
 * out of is a reason to end it: without a descriptor for its pidfd it is looked at every
 * few milliseconds instead.
 */
#include "proxy/program.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/shortage.h"
#include "proxy/spool.h"

#define LEFTOVERS_MS 20 /* between two looks at what is left of a group */
#define LOOKS_MS     20 /* at a program without a pidfd */

enum program_state {
	PROGRAM_OWNED,      /* until its owner turns away */
	PROGRAM_LEFT,       /* its owner is gone: until it ends or its time is over */
	PROGRAM_TERMINATED, /* SIGTERM is sent: until its group is empty, or time is over */
	PROGRAM_KILLED,     /* SIGKILL is sent: until it is reaped */
	PROGRAM_CLOSING,    /* until the loop has closed the handles */
};

struct program {
	uv_loop_t *loop;
	union {
		uv_handle_t handle;
		uv_poll_t poll;   /* of pidfd */
		uv_timer_t looks; /* without one */
	} end;
	uv_timer_t timer;
	enum program_state state;
	unsigned handles; /* that are not closed yet */
	pid_t pid;        /* and its process group's number */
	int pidfd;        /* -1: there was no descriptor for it */
	struct quota *quota;
	struct spool_share *share; /* of the body it can read while it runs */
	bool reaped;
	uint64_t grace_ms, deadline_ms;
	void (*exited)(void *user, struct program_exit how);
	void *user;
};

/* How many of a backend's programs run, over all workers. It outlives the configuration
 * that named the backend, since its programs may; there are as many as names were ever
 * configured. */
struct quota {
	struct quota *next;
	atomic_uint_fast64_t running;
	char backend[];
};

static pthread_mutex_t quotas_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct quota *quotas;
static uint64_t nofile_soft;

/* NULL when memory is out. */
static struct quota *quota_of(const char *backend)
{
	struct quota *q;
	size_t n = strlen(backend) + 1;

	pthread_mutex_lock(&quotas_lock);
	for (q = quotas; q && strcmp(q->backend, backend) != 0; q = q->next)
		;
	if (!q && (q = calloc(1, sizeof(*q) + n))) {
		memcpy(q->backend, backend, n);
		q->next = quotas;
		quotas = q;
	}
	pthread_mutex_unlock(&quotas_lock);
	return q;
}

void program_set_nofile(uint64_t soft)
{
	nofile_soft = soft;
}

/* What the child needs, in its final form. */
struct child {
	const struct program_job *job;
	int dir, in, out, err, exec;
	pid_t parent;
};

static void reset_signals(void)
{
	struct sigaction as_new = { .sa_handler = SIG_DFL };
	sigset_t none;

	/* Those that glibc keeps for itself say EINVAL; execve resets them. */
	for (int s = 1; s < NSIG; s++)
		sigaction(s, &as_new, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Moves the descriptors to 0, 1, 2 and 3 and goes where the program lives. Any of them
 * may have one of these numbers now; so first all go out of the way. */
static bool place_descriptors(struct child *c)
{
	int *all[] = { &c->in, &c->out, &c->err, &c->exec, &c->dir };

	for (size_t i = 0; i < COUNT_OF(all); i++) {
		int moved = fcntl(*all[i], F_DUPFD_CLOEXEC, 4);

		if (moved < 0)
			return false;
		*all[i] = moved;
	}
	if (fchdir(c->dir) < 0 || dup2(c->in, 0) < 0 || dup2(c->out, 1) < 0 ||
		dup2(c->err, 2) < 0)
		return false;
	/* Last, so that until here a failure is told by the old number. */
	if (dup3(c->exec, 3, O_CLOEXEC) < 0)
		return false;
	c->exec = 3;
	/* All are close-on-exec; this is for what a library forgot. */
	close_range(4, ~0U, 0);
	return true;
}

/* Sets the soft limit, and with hard the other one too; at most what is allowed. */
static bool limit(__rlimit_resource_t what, uint64_t soft, uint64_t hard)
{
	struct rlimit lim;

	if (getrlimit(what, &lim) < 0)
		return false;
	if (hard < lim.rlim_max)
		lim.rlim_max = hard;
	lim.rlim_cur = soft < lim.rlim_max ? soft : lim.rlim_max;
	return setrlimit(what, &lim) == 0;
}

static bool set_limits(const struct program_job *job)
{
	const uint64_t leave = RLIM_INFINITY;

	if (nofile_soft && !limit(RLIMIT_NOFILE, nofile_soft, leave))
		return false;
	/* SIGXCPU first, SIGKILL a second later. */
	if (job->cpu_s && !limit(RLIMIT_CPU, job->cpu_s, job->cpu_s + 1))
		return false;
	if (job->memory && !limit(RLIMIT_AS, job->memory, job->memory))
		return false;
	if (job->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return false;
	return limit(RLIMIT_CORE, 0, leave);
}

/* Only system calls from here on. Not inlined: what it writes on the stack must lie below
 * the frame that its parent goes on with. */
static void __attribute__((noreturn, noinline)) run_child(struct child *c)
{
	ssize_t done;
	int err;

	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != c->parent)
		_exit(127); /* weir ended before the line above */
	reset_signals();
	umask(022);
	if (place_descriptors(c) && set_limits(c->job))
		execve(c->job->place->file, c->job->argv, c->job->env);
	err = errno;
	done = write(c->exec, &err, sizeof(err));
	(void)done;
	_exit(127);
}

/* Some leave SIGCHLD ignored to what they start. The kernel then reaps by itself, perhaps
 * before there is a pidfd. */
static void keep_the_dead(void)
{
	struct sigaction as_is;

	if (sigaction(SIGCHLD, NULL, &as_is) == 0 && as_is.sa_handler == SIG_IGN)
		signal(SIGCHLD, SIG_DFL);
}

/* No handler of weir's may run in the child, so signals are blocked around it. */
static pid_t fork_child(struct child *c)
{
	sigset_t all, old;
	pid_t pid;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = vfork();
	if (pid == 0)
		run_child(c);
	err = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = err;
	return pid;
}

static void handle_closed(uv_handle_t *handle)
{
	struct program *p = handle->data;

	if (--p->handles > 0)
		return;
	if (p->pidfd >= 0)
		close(p->pidfd);
	free(p);
}

static void close_program(struct program *p)
{
	p->state = PROGRAM_CLOSING;
	uv_close(&p->end.handle, handle_closed);
	uv_close((uv_handle_t *)&p->timer, handle_closed);
}

static void signal_group(struct program *p, int signal)
{
	/* Just forked, it may not have made its group yet. */
	if (kill(-p->pid, signal) < 0 && !p->reaped)
		kill(p->pid, signal);
}

static bool group_is_empty(const struct program *p)
{
	return kill(-p->pid, 0) < 0 && errno == ESRCH;
}

static void terminate(struct program *p);

static void on_timer(uv_timer_t *timer)
{
	struct program *p = timer->data;

	if (p->state == PROGRAM_LEFT) {
		terminate(p);
		return;
	}
	if (p->reaped && group_is_empty(p)) {
		close_program(p);
	} else if (uv_now(p->loop) >= p->deadline_ms) {
		signal_group(p, SIGKILL);
		uv_timer_stop(timer);
		p->state = PROGRAM_KILLED;
		if (p->reaped)
			close_program(p);
	}
}

static void terminate(struct program *p)
{
	p->state = PROGRAM_TERMINATED;
	count_one(COUNT_programs_killed);
	signal_group(p, SIGTERM);
	p->deadline_ms = uv_now(p->loop) + p->grace_ms;
	uv_timer_start(&p->timer, on_timer, p->grace_ms, 0);
}

/* False while it runs. */
static bool reap(struct program *p, struct program_exit *how)
{
	siginfo_t info = { 0 };
	int rc = p->pidfd >= 0 ? waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOHANG)
			       : waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG);

	if (rc == 0 && info.si_pid == 0)
		return false;
	/* Else somebody has reaped it already: it is gone, and how it ended nobody knows. */
	how->by_signal = rc == 0 && info.si_code != CLD_EXITED;
	how->code = rc == 0 ? info.si_status : 0;
	return true;
}

static void look_for_exit(struct program *p)
{
	struct program_exit how;

	if (!reap(p, &how))
		return;
	if (p->pidfd >= 0)
		uv_poll_stop(&p->end.poll);
	else
		uv_timer_stop(&p->end.looks);
	p->reaped = true;
	atomic_fetch_sub(&p->quota->running, 1);
	count_add(COUNT_programs_running, -1);
	spool_share_release(p->share);
	p->share = NULL;
	switch (p->state) {
	case PROGRAM_OWNED: p->exited(p->user, how); break;
	case PROGRAM_TERMINATED:
		uv_timer_start(&p->timer, on_timer, 0, LEFTOVERS_MS);
		break;
	case PROGRAM_LEFT:
	case PROGRAM_KILLED: close_program(p); break;
	case PROGRAM_CLOSING: break;
	}
}

static void on_pidfd(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	look_for_exit(poll->data);
}

static void on_look(uv_timer_t *looks)
{
	look_for_exit(looks->data);
}

void program_leave(struct program *p)
{
	if (!p)
		return;
	if (p->reaped) {
		close_program(p);
		return;
	}
	p->state = PROGRAM_LEFT;
	uv_timer_start(&p->timer, on_timer, p->grace_ms, 0);
}

void program_kill(struct program *p)
{
	if (!p)
		return;
	if (p->reaped)
		close_program(p);
	else
		terminate(p);
}

/* Puts the child under watch. */
static void watch(struct program *p, uv_loop_t *loop)
{
	p->loop = loop;
	p->pidfd = pidfd_open(p->pid, 0);
	if (p->pidfd < 0)
		shortage_seen(errno, "watching a program");
	if (p->pidfd >= 0 && uv_poll_init(loop, &p->end.poll, p->pidfd) < 0) {
		close(p->pidfd);
		p->pidfd = -1;
	}
	if (p->pidfd >= 0) {
		uv_poll_start(&p->end.poll, UV_READABLE, on_pidfd);
	} else {
		uv_timer_init(loop, &p->end.looks);
		uv_timer_start(&p->end.looks, on_look, LOOKS_MS, LOOKS_MS);
	}
	p->end.handle.data = p;
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	p->handles = 2;
}

static void close_pair(int pair[2])
{
	for (int i = 0; i < 2; i++)
		if (pair[i] >= 0)
			close(pair[i]);
}

static bool make_pipes(int out[2], int err[2], int exec[2])
{
	return pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 &&
		pipe2(exec, O_CLOEXEC) == 0;
}

static bool run(struct program *p, uv_loop_t *loop, const struct program_job *job,
	struct program_pipes *pipes)
{
	int out[2] = { -1, -1 }, err[2] = { -1, -1 }, exec[2] = { -1, -1 }, error;
	struct child child;

	if (!make_pipes(out, err, exec))
		goto failed;
	keep_the_dead();
	child = (struct child){ job, job->place->dir, job->in, out[1], err[1], exec[1],
		getpid() };
	p->pid = fork_child(&child);
	if (p->pid < 0)
		goto failed;
	watch(p, loop);
	close(out[1]);
	close(err[1]);
	close(exec[1]);
	*pipes = (struct program_pipes){ out[0], err[0], exec[0] };
	return true;
failed:
	error = errno;
	close_pair(out);
	close_pair(err);
	close_pair(exec);
	errno = error;
	return false;
}

enum program_started program_start(uv_loop_t *loop, const struct program_job *job,
	void (*exited)(void *user, struct program_exit how), void *user,
	struct program **out, struct program_pipes *pipes)
{
	struct quota *quota = quota_of(job->backend);
	struct program *p;

	if (!quota) {
		errno = ENOMEM;
		return PROGRAM_NOT_FORKED;
	}
	if (atomic_fetch_add(&quota->running, 1) >= job->at_most) {
		atomic_fetch_sub(&quota->running, 1);
		count_one(COUNT_programs_refused);
		return PROGRAM_TOO_MANY;
	}
	p = calloc(1, sizeof(*p));
	if (!p || !run(p, loop, job, pipes)) {
		int err = p ? errno : ENOMEM;

		free(p);
		atomic_fetch_sub(&quota->running, 1);
		count_one(COUNT_programs_unstarted);
		errno = err;
		return PROGRAM_NOT_FORKED;
	}
	p->quota = quota;
	p->share = job->body ? spool_share(job->body) : NULL;
	p->grace_ms = (uint64_t)job->kill_grace_ms;
	p->exited = exited;
	p->user = user;
	count_one(COUNT_programs_started);
	count_add(COUNT_programs_running, 1);
	*out = p;
	return PROGRAM_STARTED;
}
