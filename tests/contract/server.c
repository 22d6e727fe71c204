#include "server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/script.h"

static void run_server(const struct server *s, pid_t parent)
{
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	dup2(null, 0);
	dup2(null, 1);
	execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", s->socket,
		"--save", "", "--appendonly", "no", "--dir", s->dir, "--daemonize", "no",
		(char *)NULL);
	_exit(127);
}

static bool connect_to(struct server *s)
{
	const struct timeval patience = { .tv_sec = 20 };

	for (int i = 0; i < 1000; i++) {
		if (s->redis)
			redisFree(s->redis);
		s->redis = redisConnectUnix(s->socket);
		if (s->redis && !s->redis->err) {
			redisSetTimeout(s->redis, patience);
			return true;
		}
		if (waitpid(s->pid, NULL, WNOHANG) != 0) {
			s->pid = 0;
			return false;
		}
		usleep(10000);
	}
	return false;
}

bool server_start(struct server *s)
{
	struct buf load = { 0 };
	redisReply *reply;
	pid_t me = getpid();

	*s = (struct server){ .dir = "/tmp/weir-contract-XXXXXX" };
	if (!mkdtemp(s->dir))
		return false;
	snprintf(s->socket, sizeof(s->socket), "%s/redis.sock", s->dir);
	s->pid = fork();
	if (s->pid == 0)
		run_server(s, me);
	if (s->pid < 0 || !connect_to(s)) {
		server_stop(s);
		return false;
	}
	script_put_load(&load);
	reply = server_run(s, &load);
	buf_release(&load);
	freeReplyObject(reply);
	return reply;
}

void server_stop(struct server *s)
{
	if (s->redis)
		redisFree(s->redis);
	s->redis = NULL;
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		waitpid(s->pid, NULL, 0);
	}
	s->pid = 0;
	unlink(s->socket);
	rmdir(s->dir);
}

redisReply *server_run(struct server *s, struct buf *b)
{
	void *reply = NULL;

	if (!buf_ok(b))
		return NULL;
	redisAppendFormattedCommand(s->redis, b->p, b->n);
	buf_reset(b);
	redisGetReply(s->redis, &reply);
	return reply;
}
