/*
 * proxy/program.h - CGI programs: finding one below a root, starting it, ending it.
 *
 * Which file runs is decided by walking the path from the root with openat2(2) and
 * RESOLVE_BENEATH: neither ".." nor a symbolic link leads out of the root (an absolute
 * link counts as leading out, wherever it points). execve(2) then takes the path found,
 * so who may write below the root can still exchange the file in between, as well as
 * put any other there. A running program is
 * watched by pidfd and reaped by weir alone; nothing depends on SIGCHLD.
 */
#ifndef WEIR_PROXY_PROGRAM_H
#define WEIR_PROXY_PROGRAM_H

#include <uv.h>

#include "config/config.h"
#include "front/request.h"

enum program_found {
	PROGRAM_FOUND,
	PROGRAM_MISSING,   /* no such file */
	PROGRAM_FORBIDDEN, /* outside the root, a directory, or not executable */
	PROGRAM_FAILED,    /* the root cannot be used, or no memory */
};

/* Where a program is, and what that makes of the request's paths. Filled by
 * program_find(); until then PROGRAM_PLACE_NONE. */
struct program_place {
	char *file; /* absolute; SCRIPT_FILENAME */
	int dir;    /* the directory it is in (O_PATH), where it will run */
	char *script_name, *path_info, *path_translated; /* "" when empty */
};

#define PROGRAM_PLACE_NONE ((struct program_place){ .dir = -1 })

/*
 * Finds the program a request is for. That is SCRIPT_FILENAME when it lies below
 * backend.root (Apache's "proxy:fcgi://host" in front of it and "?query" behind it are
 * taken off; behind such a name, where Apache has escaped it, it is unescaped once), else
 * root + what follows backend.prefix in path, which is canonical. The longest leading part
 * that is a regular file is the program, the rest PATH_INFO. On anything but PROGRAM_FOUND
 * *out is untouched and *why a static sentence. Asks the file system and may wait for it.
 */
enum program_found program_find(const struct backend *b, const struct request *rq,
	struct view path, struct program_place *out, const char **why);
void program_place_release(struct program_place *place);

/* The soft limit of open files programs get: weir's own before weir raised it. 0
 * leaves it. Call before threads start. */
void program_set_nofile(uint64_t soft);

struct program;
struct spool;

/* How it ended. */
struct program_exit {
	bool by_signal;
	int code; /* exit status, or the signal's number */
};

struct program_job {
	const struct program_place *place;
	char *const *argv, *const *env;
	int in;                   /* its standard input; stays the caller's */
	const struct spool *body; /* where that is from; NULL: counted by nobody */
	const char *backend;      /* whose programs are counted together */
	uint64_t at_most;         /* of them running at once in this process */
	int64_t kill_grace_ms;
	uint64_t cpu_s, memory; /* limits of each of its processes; 0: none */
	bool no_new_privs;      /* set-user-ID and the like have no effect */
};

/* Our ends of its pipes, close-on-exec; the caller's to close. */
struct program_pipes {
	int out, err;
	/* At its end without data the program is being executed. Otherwise it brings an
	 * int, the errno for which it was not. */
	int exec;
};

enum program_started {
	PROGRAM_STARTED,
	PROGRAM_TOO_MANY,  /* at_most are running */
	PROGRAM_NOT_FORKED /* errno; nothing was executed */
};

/*
 * Forks and executes. It runs in a session and process group of its own, with file
 * descriptors 0 to 2 only, default signals, umask 022 and no core file. It dies with
 * weir: PR_SET_PDEATHSIG, which looks at the thread that forked, and workers live as
 * long as the process. exited is called once from the loop, unless program_leave()
 * or program_kill() came first.
 */
enum program_started program_start(uv_loop_t *loop, const struct program_job *job,
	void (*exited)(void *user, struct program_exit how), void *user,
	struct program **out, struct program_pipes *pipes);

/*
 * The owner turns away; each frees it, at once or when it is gone. Until then it
 * keeps the loop alive. NULL is fine.
 */
/* What it still does is its own affair for kill_grace_ms; then as program_kill(). */
void program_leave(struct program *p);
/* SIGTERM to its process group now, SIGKILL to what is left after kill_grace_ms. */
void program_kill(struct program *p);

#endif
