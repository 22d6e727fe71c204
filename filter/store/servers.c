#include "store/servers.h"

#include <stdio.h>
#include <sys/un.h>

const struct redis_server *servers_current(const struct servers *s)
{
	return &s->config->store.servers[s->at];
}

static void forget_addresses(struct servers *s)
{
	uv_freeaddrinfo(s->addresses);
	s->addresses = s->next = NULL;
	s->begun = false;
	*s->why = '\0';
}

static void write_where(struct servers *s)
{
	const struct redis_server *server = servers_current(s);
	const struct sockaddr *sa = (const struct sockaddr *)&server->addr.ss;
	char host[INET6_ADDRSTRLEN] = "";

	if (server->host)
		snprintf(s->where, sizeof(s->where), "%s:%u", server->host, server->port);
	else if (sa->sa_family == AF_UNIX)
		snprintf(s->where, sizeof(s->where), "%s",
			((const struct sockaddr_un *)sa)->sun_path);
	else if (uv_ip_name(sa, host, sizeof(host)) == 0)
		snprintf(s->where, sizeof(s->where),
			sa->sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
			net_addr_port(&server->addr));
}

void servers_rewind(struct servers *s)
{
	s->at = 0;
	forget_addresses(s);
	write_where(s);
}

bool servers_advance(struct servers *s)
{
	if (s->at + 1 >= s->config->store.n_servers)
		return false;
	s->at++;
	forget_addresses(s);
	write_where(s);
	return true;
}

static void on_lookup(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
	struct servers *s = req->data;

	s->looking_up = false;
	if (status < 0)
		snprintf(s->why, sizeof(s->why), "no address for \"%s\": %s",
			servers_current(s)->host, uv_strerror(status));
	s->addresses = s->next = found;
	s->found(s->owner);
}

static enum servers_next look_up(struct servers *s)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct redis_server *server = servers_current(s);
	char port[16];
	int err;

	snprintf(port, sizeof(port), "%u", server->port);
	s->lookup.data = s;
	err = uv_getaddrinfo(s->loop, &s->lookup, on_lookup, server->host, port, &hints);
	if (err) {
		snprintf(s->why, sizeof(s->why), "%s", uv_strerror(err));
		return SERVERS_NONE;
	}
	s->looking_up = true;
	return SERVERS_LATER;
}

enum servers_next servers_next(struct servers *s, const struct sockaddr **to)
{
	const struct redis_server *server = servers_current(s);
	bool first = !s->begun;

	s->begun = true;
	if (first && server->host)
		return look_up(s);
	if (server->host && !s->next)
		return SERVERS_NONE;
	if (server->host) {
		*to = s->next->ai_addr;
		s->next = s->next->ai_next;
		return SERVERS_ADDRESS;
	}
	*to = (const struct sockaddr *)&server->addr.ss;
	return first ? SERVERS_ADDRESS : SERVERS_NONE;
}

void servers_init(struct servers *s, uv_loop_t *loop, struct config *c,
	void (*found)(void *owner), void *owner)
{
	*s = (struct servers){
		.loop = loop, .config = config_ref(c), .found = found, .owner = owner
	};
	write_where(s);
}

void servers_stop(struct servers *s)
{
	if (s->looking_up)
		uv_cancel((uv_req_t *)&s->lookup);
}

void servers_release(struct servers *s)
{
	forget_addresses(s);
	config_unref(s->config);
	s->config = NULL;
}
