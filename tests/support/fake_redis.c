#include "fake_redis.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECTIONS 16
#define ARGS        128

static const char *const names[] = { "", "AUTH", "SELECT", "INFO", "SCRIPT", "EVALSHA",
	"EVAL", "PROBE" };
#define NAMES (sizeof(names) / sizeof(names[0]))

struct peer {
	int fd;
	char *bytes;
	size_t n, cap;
};

struct fake_redis {
	pthread_t thread;
	int listener;
	int stop[2]; /* a pipe */
	char path[108];
	char load_reply[80];
	const char *take_reply;
	const struct fake_rule *rules;
	struct peer peers[CONNECTIONS];
	atomic_uint seen[NAMES];
	atomic_uint open, most;
};

static int name_index(const char *command)
{
	for (size_t i = 0; i < NAMES; i++)
		if (strcmp(names[i], command) == 0)
			return (int)i;
	return -1;
}

unsigned fake_redis_count(struct fake_redis *f, const char *command)
{
	int i = name_index(command);

	return i < 0 ? 0 : atomic_load(&f->seen[i]);
}

unsigned fake_redis_open(struct fake_redis *f)
{
	return atomic_load(&f->open);
}

unsigned fake_redis_most(struct fake_redis *f)
{
	return atomic_load(&f->most);
}

/* False when it is time to stop. */
static bool rest(struct fake_redis *f, unsigned ms)
{
	struct pollfd p = { .fd = f->stop[0], .events = POLLIN };

	return poll(&p, 1, (int)ms) == 0;
}

static void say(struct peer *p, const char *bytes)
{
	size_t n = strlen(bytes);

	while (n) {
		ssize_t done = send(p->fd, bytes, n, MSG_NOSIGNAL);

		if (done <= 0)
			return;
		bytes += done;
		n -= (size_t)done;
	}
}

static void hang_up(struct fake_redis *f, struct peer *p)
{
	atomic_fetch_sub(&f->open, 1);
	close(p->fd);
	p->fd = -1;
	p->n = 0;
}

static const char *good_reply(const struct fake_redis *f, const char *command)
{
	static const char info[] = "redis_version:7.0.15\r\nredis_mode:standalone\r\n";
	static char info_reply[128];

	if (strcmp(command, "INFO") == 0) {
		snprintf(info_reply, sizeof(info_reply), "$%zu\r\n%s\r\n", sizeof(info) - 1,
			info);
		return info_reply;
	}
	if (strcmp(command, "SCRIPT") == 0)
		return f->load_reply;
	if (strncmp(command, "EVAL", 4) == 0 || strcmp(command, "PROBE") == 0)
		return f->take_reply;
	return "+OK\r\n";
}

static void answer(struct fake_redis *f, struct peer *p, const char *command)
{
	int i = name_index(command);
	unsigned nth = i < 0 ? 1 : atomic_fetch_add(&f->seen[i], 1) + 1;
	const struct fake_rule *rule;

	for (rule = f->rules; rule && rule->command; rule++)
		if (strcmp(rule->command, command) == 0 && nth >= rule->from &&
			(!rule->to || nth <= rule->to))
			break;
	if (!rule || !rule->command) {
		say(p, good_reply(f, command));
		return;
	}
	if (rule->before_ms && !rest(f, rule->before_ms))
		return;
	if (rule->bytes)
		say(p, rule->bytes);
	if (rule->late && rest(f, rule->between_ms))
		say(p, rule->late);
	if (rule->close)
		hang_up(f, p);
}

/* The length of the command at the start of the bytes, or 0 while it is not complete;
 * its name in name. */
static size_t whole_command(const struct peer *p, char name[16])
{
	const char *at = p->bytes, *end = p->bytes + p->n, *nl;
	long argc, len;

	nl = memchr(at, '\n', (size_t)(end - at));
	if (!nl || *at != '*')
		return 0;
	argc = strtol(at + 1, NULL, 10);
	at = nl + 1;
	for (long i = 0; i < argc; i++) {
		nl = memchr(at, '\n', (size_t)(end - at));
		if (!nl)
			return 0;
		len = strtol(at + 1, NULL, 10);
		at = nl + 1;
		if (end - at < len + 2)
			return 0;
		if (i == 0)
			snprintf(name, 16, "%.*s", (int)len, at);
		/* EVAL, the script, one key: the one that stands for nobody. */
		if (i == 3 && strcmp(name, "EVAL") == 0 && len == 10 &&
			memcmp(at, "rate:probe", 10) == 0)
			snprintf(name, 16, "PROBE");
		at += len + 2;
	}
	return (size_t)(at - p->bytes);
}

static void listen_to(struct fake_redis *f, struct peer *p)
{
	char name[16];
	size_t used = 0;
	ssize_t got;

	if (p->cap - p->n < 65536) {
		p->cap = p->n + 65536;
		p->bytes = realloc(p->bytes, p->cap + 1);
		if (!p->bytes)
			abort();
	}
	got = recv(p->fd, p->bytes + p->n, p->cap - p->n, 0);
	if (got <= 0) {
		hang_up(f, p);
		return;
	}
	p->n += (size_t)got;
	p->bytes[p->n] = '\0';
	while (p->fd >= 0 && (used = whole_command(p, name))) {
		memmove(p->bytes, p->bytes + used, p->n - used);
		p->n -= used;
		p->bytes[p->n] = '\0';
		answer(f, p, name);
	}
}

static void welcome(struct fake_redis *f)
{
	int fd = accept(f->listener, NULL, NULL);

	atomic_fetch_add(&f->open, 1);
	if (atomic_load(&f->open) > atomic_load(&f->most))
		atomic_store(&f->most, atomic_load(&f->open));
	atomic_fetch_add(&f->seen[0], 1);
	for (size_t i = 0; fd >= 0 && i < CONNECTIONS; i++) {
		if (f->peers[i].fd < 0) {
			f->peers[i].fd = fd;
			return;
		}
	}
	abort(); /* more connections than a test should make */
}

static void *serve(void *arg)
{
	struct fake_redis *f = arg;

	for (;;) {
		struct pollfd p[CONNECTIONS + 2] = {
			{ .fd = f->stop[0], .events = POLLIN },
			{ .fd = f->listener, .events = POLLIN },
		};

		for (size_t i = 0; i < CONNECTIONS; i++)
			p[i + 2] = (struct pollfd){ .fd = f->peers[i].fd,
				.events = POLLIN };
		/* Looks at the listener before the connections, and serves it after them:
		 * see fake_redis_most(). */
		poll(p, CONNECTIONS + 2, -1);
		if (p[0].revents)
			return NULL;
		for (size_t i = 0; i < CONNECTIONS; i++)
			if (p[i + 2].revents)
				listen_to(f, &f->peers[i]);
		if (p[1].revents)
			welcome(f);
	}
}

struct fake_redis *fake_redis_start(const char *path, const char *sha,
	const char *take_reply, const struct fake_rule *rules)
{
	struct fake_redis *f = calloc(1, sizeof(*f));
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (!f)
		return NULL;
	f->take_reply = take_reply;
	f->rules = rules;
	snprintf(f->load_reply, sizeof(f->load_reply), "$%zu\r\n%s\r\n", strlen(sha), sha);
	snprintf(f->path, sizeof(f->path), "%s", path);
	memcpy(un.sun_path, f->path, sizeof(un.sun_path));
	for (size_t i = 0; i < CONNECTIONS; i++)
		f->peers[i].fd = -1;
	f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (f->listener < 0 || bind(f->listener, (struct sockaddr *)&un, sizeof(un)) < 0 ||
		listen(f->listener, 16) < 0 || pipe(f->stop) < 0 ||
		pthread_create(&f->thread, NULL, serve, f) != 0) {
		free(f);
		return NULL;
	}
	return f;
}

void fake_redis_stop(struct fake_redis *f)
{
	close(f->stop[1]);
	pthread_join(f->thread, NULL);
	close(f->stop[0]);
	close(f->listener);
	unlink(f->path);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		if (f->peers[i].fd >= 0)
			close(f->peers[i].fd);
		free(f->peers[i].bytes);
	}
	free(f);
}
