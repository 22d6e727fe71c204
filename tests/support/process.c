/*
 * process.c - programs that a test starts, and the keeper that ends them.
 *
 * The keeper is a process forked before the first program. It reads the groups that
 * were started from a pipe and, once the test process is gone and the pipe with it,
 * kills them all. So neither a failed assertion nor a crash leaves a server behind,
 * not even one whose workers outlive their master.
 */
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS_MAX 4096

extern char **environ;

static int keeper_pipe = -1;
static struct process *processes[GROUPS_MAX];
static unsigned n_processes;

static void keeper_run(int from)
{
	pid_t groups[GROUPS_MAX];
	size_t n = 0;

	setpgid(0, 0);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	while (n < GROUPS_MAX && read(from, &groups[n], sizeof(pid_t)) == sizeof(pid_t))
		n++;
	while (n)
		kill(-groups[--n], SIGKILL);
	_exit(0);
}

static void keeper_start(void)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		fail("keeper: %s", strerror(errno));
	if (pid == 0) {
		/* Nothing of the runner's may stay open here: it waits for its end. */
		dup2(ends[0], 3);
		close_range(4, ~0U, 0);
		close(0);
		close(1);
		close(2);
		keeper_run(3);
	}
	close(ends[0]);
	keeper_pipe = ends[1];
}

static const char *log_name(const char *name)
{
	unsigned same = 1;

	for (unsigned i = 0; i < n_processes; i++)
		same += strcmp(processes[i]->name, name) == 0;
	return same == 1 ? text("%s/%s.log", test_dir(), name)
			 : text("%s/%s.%u.log", test_dir(), name, same);
}

static void child_run(const struct process_spec *spec, const char *log, pid_t parent)
{
	int in = spec->input ? spec->input : open("/dev/null", O_RDWR);
	int err = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	int out = spec->output ? spec->output : err;
	sigset_t none;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	/* Above 2, so that none overwrites another. */
	in = fcntl(in, F_DUPFD, 10);
	out = fcntl(out, F_DUPFD, 10);
	err = fcntl(err, F_DUPFD, 10);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(127);
	close_range(3, ~0U, 0);
	if (chdir(spec->cwd ? spec->cwd : test_dir()) < 0)
		_exit(127);
	if (spec->bare_env)
		clearenv();
	for (const char *const *e = spec->env; e && *e; e++)
		putenv((char *)(uintptr_t)*e);
	execvp(spec->argv[0], (char *const *)(uintptr_t)spec->argv);
	dprintf(2, "%s: %s\n", spec->argv[0], strerror(errno));
	_exit(127);
}

struct process *process_start(const struct process_spec *spec)
{
	struct process *p = calloc(1, sizeof(*p));
	pid_t parent = getpid();

	if (!p || n_processes == GROUPS_MAX)
		fail("more than %d processes", GROUPS_MAX);
	if (keeper_pipe < 0)
		keeper_start();
	*p = (struct process){ .name = spec->name, .log = log_name(spec->name) };
	p->pid = fork();
	if (p->pid < 0)
		fail("fork: %s", strerror(errno));
	if (p->pid == 0)
		child_run(spec, p->log, parent);
	setpgid(p->pid, p->pid);
	if (write(keeper_pipe, &p->pid, sizeof(p->pid)) != sizeof(p->pid))
		fail("keeper: %s", strerror(errno));
	processes[n_processes++] = p;
	return p;
}

static bool reap(struct process *p, int flags)
{
	if (!p->ended && waitpid(p->pid, &p->status, flags) == p->pid)
		p->ended = true;
	return p->ended;
}

bool process_running(struct process *p)
{
	return !reap(p, WNOHANG);
}

bool process_ends(struct process *p, int64_t ms)
{
	int64_t end = now_ms() + ms;
	int fd;

	if (reap(p, WNOHANG))
		return true;
	fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	while (!reap(p, WNOHANG) && now_ms() < end) {
		struct pollfd pfd = { .fd = fd, .events = POLLIN };

		if (fd < 0)
			wait_a_little();
		else
			poll(&pfd, 1, (int)(end - now_ms() + 1));
	}
	if (fd >= 0)
		close(fd);
	return p->ended;
}

int process_exit(struct process *p, int64_t ms)
{
	if (!process_ends(p, ms))
		return -1;
	return WIFEXITED(p->status) ? WEXITSTATUS(p->status) : 128 + WTERMSIG(p->status);
}

void process_signal(struct process *p, int sig)
{
	if (process_running(p))
		kill(p->pid, sig);
}

void process_stop(struct process *p, int64_t ms)
{
	if (!process_running(p))
		return;
	kill(-p->pid, SIGTERM);
	if (!process_ends(p, ms))
		kill(-p->pid, SIGKILL);
	process_ends(p, 5000);
}

const char *process_log(const struct process *p)
{
	const char *log = file_read(p->log);

	return log ? log : "";
}

bool process_logs(const struct process *p, const char *words, int64_t ms)
{
	return WAIT_UNTIL(ms, strstr(process_log(p), words) != NULL);
}

uint64_t process_resident_bytes(const struct process *p)
{
	const char *status = file_read(text("/proc/%d/status", (int)p->pid));
	const char *line = status ? strstr(status, "VmRSS:") : NULL;

	return line ? strtoull(line + 6, NULL, 10) * 1024 : 0;
}

double process_cpu_seconds(const struct process *p)
{
	const char *stat = file_read(text("/proc/%d/stat", (int)p->pid));
	const char *rest = stat ? strrchr(stat, ')') : NULL;
	unsigned long user, system;

	if (!rest ||
		sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			&user, &system) != 2)
		return 0;
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static size_t count_words(const char *s)
{
	size_t n = 0;

	while (s && *(s += strspn(s, " \n"))) {
		n++;
		s += strcspn(s, " \n");
	}
	return n;
}

size_t process_open_files(const struct process *p)
{
	DIR *d = opendir(text("/proc/%d/fd", (int)p->pid));
	size_t n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n < 2 ? 0 : n - 2; /* . and .. */
}

size_t process_files_at_rest(const struct process *p)
{
	size_t least = process_open_files(p);

	for (int i = 0; i < 100; i++) {
		size_t n = process_open_files(p);

		least = n < least ? n : least;
		wait_a_little();
	}
	return least;
}

/* Of any of its threads. */
size_t process_children(const struct process *p)
{
	DIR *d = opendir(text("/proc/%d/task", (int)p->pid));
	struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			n += count_words(file_read(
				text("/proc/%d/task/%s/children", (int)p->pid, e->d_name)));
	if (d)
		closedir(d);
	return n;
}
