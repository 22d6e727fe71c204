/*
 * config/checks.c - what single options and files cannot see: mistakes between two
 * places, and notices about what works and may not be meant.
 *
 * Nothing here asks whether this machine or this user has what is named: a configuration
 * is read by weirctl, by others than weir and before there is all that it needs.
 * startable.h does.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "config/kinds.h"
#include "config/load.h"
#include "config/units.h"

struct place load_place(const struct load *l, const char *section, const char *name)
{
	return (struct place){ l->config->files[0], config_line(l->config, section, name) };
}

static void no_such_backend(
	struct load *l, struct place at, const char *subject, const char *name)
{
	const struct config *c = l->config;
	struct buf hint = { 0 };

	buf_add_str(&hint, c->n_backends ? "there is " : "write ");
	for (size_t i = 0; i < c->n_backends; i++)
		buf_addf(&hint, "%s%s", i ? ", " : "", c->backends[i].name);
	if (!c->n_backends)
		buf_addf(&hint, "[backend %s] and what belongs to it", name);
	if (buf_str(&hint))
		mistake_value(
			l->m, at, subject, view_str(name), "is not a backend; %s", hint.p);
	else
		l->m->no_memory = true;
	buf_release(&hint);
}

const struct backend *load_find_backend(
	struct load *l, struct place at, const char *subject, const char *name)
{
	const struct config *c = l->config;

	for (size_t i = 0; i < c->n_backends; i++) {
		if (strcmp(c->backends[i].name, name) == 0)
			return &c->backends[i];
	}
	no_such_backend(l, at, subject, name);
	return NULL;
}

/* A connection that is served has one descriptor, its backend another and its body perhaps
 * a third; programs, the directory and the rest take what is beside. The most keeps what
 * requests cost in memory, some 8 kB each without their bodies, within reason. */
#define DESCRIPTORS_EACH     3
#define DESCRIPTORS_BESIDE   64
#define CONNECTIONS_LEAST    16
#define CONNECTIONS_MOST     16384
#define CONNECTIONS_TO_SPARE 10 /* one of so many: to say on it that there are too many */

/* What auto stands for in a process that takes all descriptors it may have. */
static uint64_t most_connections(void)
{
	struct rlimit limit = { .rlim_max = 1024 };
	uint64_t n;

	getrlimit(RLIMIT_NOFILE, &limit);
	n = limit.rlim_max > DESCRIPTORS_BESIDE
		? (limit.rlim_max - DESCRIPTORS_BESIDE) / DESCRIPTORS_EACH
		: 0;
	if (n < CONNECTIONS_LEAST)
		return CONNECTIONS_LEAST;
	return n < CONNECTIONS_MOST ? n : CONNECTIONS_MOST;
}

static void settle_limits(struct load *l)
{
	struct config *c = l->config;
	struct buf body = { 0 };

	if (c->server.max_connections == 0)
		c->server.max_connections = most_connections();
	if (c->server.max_requests == 0)
		c->server.max_requests = c->server.max_connections -
			c->server.max_connections / CONNECTIONS_TO_SPARE;
	else if (c->server.max_requests > c->server.max_connections)
		mistake_notice(l->m, load_place(l, "server", "max_requests"),
			"server.max_requests: each request needs a connection, and "
			"server.max_connections is %llu; what is beyond waits to be "
			"accepted",
			(unsigned long long)c->server.max_connections);
	if (c->server.spool_limit == 0 || c->server.spool_limit >= c->server.body_limit)
		return;
	unit_put_size(&body, c->server.body_limit);
	if (buf_str(&body))
		mistake_notice(l->m, load_place(l, "server", "spool_limit"),
			"server.spool_limit: not even one body of server.body_limit, %s, "
			"fits; those beyond get 503",
			body.p);
	buf_release(&body);
}

static void check_listen(struct load *l)
{
	size_t n = l->config->server.n_listen;

	if (n > LISTEN_MAX)
		mistake_add(l->m, load_place(l, "server", "listen"),
			"server.listen: %zu addresses; write at most %d", n, LISTEN_MAX);
}

/* weir as its own backend would call itself until connections run out. */
static void check_loops(struct load *l)
{
	const struct config *c = l->config;

	for (size_t i = 0; i < c->server.n_listen; i++) {
		const struct net_addr *mine = &c->server.listen[i];

		if (c->server.control && strcmp(c->server.control, mine->text) == 0)
			mistake_add(l->m, load_place(l, "server", "control"),
				"server.control: \"%s\" is also in server.listen; write "
				"another",
				mine->text);
		for (size_t b = 0; b < c->n_backends; b++) {
			for (size_t a = 0; a < c->backends[b].n_addrs; a++) {
				if (!net_addr_same(mine, &c->backends[b].addrs[a]))
					continue;
				mistake_add(l->m, load_place(l, "server", "listen"),
					"server.listen: \"%s\" is also an address of "
					"[backend %s], so "
					"weir would call itself; write another",
					mine->text, c->backends[b].name);
			}
		}
	}
}

static bool has_source(const struct config *c, enum user_source source)
{
	for (size_t i = 0; i < c->client.n_user; i++) {
		if (c->client.user[i] == source)
			return true;
	}
	return false;
}

static void check_client(struct load *l)
{
	const struct config *c = l->config;
	struct place user = load_place(l, "client", "user");

	/* What was a mistake itself has no value. */
	if (!c->client.directory || !c->client.token_header || !c->client.token_cookie)
		return;
	if (has_source(c, USER_TOKEN)) {
		if (!*c->client.directory)
			mistake_add(l->m, user,
				"client.user: token says nothing without a directory; "
				"write "
				"directory = sqlite:/var/lib/weir/weir.db beside it");
		if (!*c->client.token_header && !*c->client.token_cookie)
			mistake_add(l->m, user,
				"client.user: token says nothing where neither "
				"token_header "
				"nor token_cookie carries one; write one of them");
	}
	if (*c->client.directory_query && !*c->client.directory)
		mistake_add(l->m, load_place(l, "client", "directory_query"),
			"client.directory_query: says nothing without a directory; write "
			"directory = sqlite:/var/lib/weir/weir.db beside it");
}

/* A user alone would not be named to Redis at all. */
static void check_store(struct load *l)
{
	const struct config *c = l->config;
	bool filed = l->draft.password_file && *l->draft.password_file;

	for (size_t i = 0; i < c->store.n_servers && !filed; i++) {
		const struct redis_server *s = &c->store.servers[i];

		if (s->username && !s->password)
			mistake_add(l->m, load_place(l, "store", "url"),
				"store.url: user \"%s\" has no password; write one behind "
				"the ':', or password_file = FILE",
				s->username);
	}
}

static void check_reply(struct load *l)
{
	const char *template = l->draft.reply_template;

	if (!template)
		return;
	if (*template && l->config->reply.problem_json)
		mistake_add(l->m, load_place(l, "reply", "problem_json"),
			"reply.problem_json: says nothing beside reply.template, which is "
			"the whole body; take one of them away");
	if (!*template && l->config->reply.template_type &&
		load_place(l, "reply", "template_type").line)
		mistake_add(l->m, load_place(l, "reply", "template_type"),
			"reply.template_type: says nothing without reply.template; write "
			"template = FILE beside it");
}

static void note_everybody(struct load *l, const struct networks *nets, const char *section,
	const char *name, const char *what)
{
	static const char *const families[] = { NULL, "IPv4", "IPv6", "IPv4 and IPv6" };
	unsigned all = kind_networks_are_all(nets, 4) +
		2u * kind_networks_are_all(nets, 16);

	if (all)
		mistake_notice(l->m, load_place(l, section, name),
			"%s.%s: these are all %s addresses: %s", section, name,
			families[all], what);
}

static bool has_rules(const struct config *c)
{
	bool found = c->site.n > 0;

	for (size_t i = 0; i < c->n_endpoints; i++)
		found = found || c->endpoints[i].tiers.n > 0;
	return found;
}

static void note_what_may_not_be_meant(struct load *l)
{
	const struct config *c = l->config;

	note_everybody(l, &c->client.trusted_proxies, "client", "trusted_proxies",
		"any client with one can choose its address");
	note_everybody(l, &c->allow.networks, "allow", "networks",
		"nobody with one meets a limit");
	if (c->client.directory && *c->client.directory && !c->client.n_user)
		mistake_notice(l->m, load_place(l, "client", "directory"),
			"client.directory: nobody is looked up in it, since client.user is "
			"none; write user = token, or user = remote_user where the web "
			"server verifies it");
	if (c->server.mode == MODE_OFF)
		mistake_notice(l->m, load_place(l, "server", "mode"),
			"server.mode: off: no rule is looked at, and nobody meets a limit");
	if (c->server.mode == MODE_SHADOW && has_rules(c))
		mistake_notice(l->m, load_place(l, "server", "mode"),
			"server.mode: shadow: all rules count and report, and nobody is "
			"refused");
	if (c->server.socket_mode & 02)
		mistake_notice(l->m, load_place(l, "server", "socket_mode"),
			"server.socket_mode: \"%04o\" lets every local user send requests "
			"in "
			"anybody's name",
			c->server.socket_mode);
	if (c->store.type == STORE_MEMORY)
		mistake_notice(l->m, load_place(l, "store", "type"),
			"store.type: memory counts in this process alone; where a web "
			"server "
			"starts several, each of them counts for itself");
}

void load_check(struct load *l)
{
	settle_limits(l);
	check_listen(l);
	check_loops(l);
	check_client(l);
	check_store(l);
	check_reply(l);
	load_check_rules(l);
	note_what_may_not_be_meant(l);
}
