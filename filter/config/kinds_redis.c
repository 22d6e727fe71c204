/*
 * config/kinds_redis.c - store.url, which says where Redis is and who asks it.
 */
#include "config/kinds.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/words.h"

/* Undoes percent-encoding. NULL when it is wrong, or memory is out. */
static char *decoded(struct view v)
{
	struct buf out = { 0 };

	while (v.n) {
		int byte = view_escape(v);

		if (v.p[0] == '%' && byte <= 0) { /* none, or of a NUL */
			buf_release(&out);
			return NULL;
		}
		buf_add_byte(&out, byte < 0 ? v.p[0] : (char)byte);
		v = view_skip(v, byte < 0 ? 1 : 3);
	}
	return buf_steal(&out);
}

/* The parts of a URL, as pieces of it. */
struct redis_url {
	bool unix_socket;
	struct view user, password; /* p is NULL when not given */
	struct view host, port, path, db;
};

#define REDIS_FORMS "redis://[user:password@]host[:port][/db] or unix:///path[?db=N]"

/* [user:password@] at the front of *rest. */
static bool cut_userinfo(struct view *rest, struct redis_url *url, struct buf *why)
{
	size_t end = 0, at = SIZE_MAX;
	struct view info;

	for (; end < rest->n && rest->p[end] != '/' && rest->p[end] != '?'; end++) {
		if (rest->p[end] == '@')
			at = end;
	}
	if (at == SIZE_MAX)
		return true;
	info = view_of(rest->p, at);
	*rest = view_skip(*rest, at + 1);
	url->password = info;
	url->user = view_cut(&url->password, ':');
	if (!url->password.p) {
		buf_add_str(why,
			"has no ':' before its '@'; write redis://:password@host, or "
			"redis://user:password@host");
		return false;
	}
	return true;
}

static bool split_url(struct view text, struct redis_url *url, struct buf *why)
{
	struct view rest = text;

	*url = (struct redis_url){ 0 };
	if (view_starts(text, VIEW("rediss://"))) {
		buf_add_str(why,
			"asks for TLS, which is not supported; write redis:// and let "
			"a tunnel such as stunnel encrypt");
		return false;
	}
	url->unix_socket = view_starts(text, VIEW("unix://"));
	if (!url->unix_socket && !view_starts(text, VIEW("redis://"))) {
		buf_add_str(why, "is not a Redis URL; write " REDIS_FORMS);
		return false;
	}
	rest = view_skip(text, url->unix_socket ? 7 : 8);
	if (!cut_userinfo(&rest, url, why))
		return false;
	if (url->unix_socket) {
		url->db = rest;
		url->path = view_cut(&url->db, '?');
		if (!view_starts(url->path, VIEW("/")))
			goto bad;
		if (url->db.p && !view_starts(url->db, VIEW("db=")))
			goto bad;
		if (url->db.p)
			url->db = view_skip(url->db, 3);
		return true;
	}
	url->db = rest;
	url->port = view_cut(&url->db, '/');
	if (url->port.n && url->port.p[0] == '[') {
		url->host = view_skip(view_cut(&url->port, ']'), 1);
		if (!url->port.p || (url->port.n && url->port.p[0] != ':'))
			goto bad;
		url->port = url->port.n ? view_skip(url->port, 1) : (struct view){ 0 };
	} else {
		url->host = view_cut(&url->port, ':');
	}
	if (url->host.n && !memchr(url->host.p, '@', url->host.n))
		return true;
bad:
	buf_add_str(why, "is not understood; write " REDIS_FORMS);
	return false;
}

static bool is_host_name(struct view host)
{
	return word_is_name(host) && host.n < 100;
}

/* Where Redis is: a numeric address or a socket into addr, a name into host. */
static bool set_place(
	const struct redis_url *url, struct redis_server *server, struct buf *why)
{
	struct buf text = { 0 };
	struct network net = { 0 };
	uint64_t port = 6379;
	bool mapped, ok = true;

	if (url->unix_socket) {
		buf_add_str(&text, "unix:");
		buf_add(&text, url->path);
	} else {
		bool numeric = kind_read_ip(url->host, &net, &mapped);

		if (url->port.p && (!view_number(url->port, 65535, &port) || port == 0)) {
			buf_add_str(
				why, "has no such port; write a number from 1 to 65535");
			return false;
		}
		if (!numeric && !is_host_name(url->host)) {
			buf_add_str(why, "has no such host; write a name or an address");
			return false;
		}
		buf_addf(&text,
			net.addr_n == 16 && numeric ? "tcp:[%.*s]:%u" : "tcp:%.*s:%u",
			VIEW_ARG(url->host), (unsigned)port);
		if (!numeric) {
			/* Looked up at each connect; the address may change. */
			server->host = strndup(url->host.p, url->host.n);
			snprintf(server->addr.text, sizeof(server->addr.text), "%.*s",
				VIEW_ARG(buf_view(&text)));
			ok = server->host != NULL;
			why->failed |= !ok;
			goto out;
		}
	}
	buf_add_str(why, ": ");
	ok = buf_ok(&text) && net_addr_parse(buf_view(&text), &server->addr, why);
	if (ok)
		buf_reset(why);
out:
	server->port = (unsigned)port;
	buf_release(&text);
	return ok;
}

static bool same_place(const struct redis_server *a, const struct redis_server *b)
{
	return net_addr_same(&a->addr, &b->addr) && text_eq(a->host, b->host) &&
		a->port == b->port;
}

/* Whether they are one Redis and one account there. */
static bool same_server(const struct redis_server *a, const struct redis_server *b)
{
	return same_place(a, b) && a->db == b->db && text_eq(a->username, b->username) &&
		text_eq(a->password, b->password);
}

static bool same_redis(const void *a, const size_t *n_a, const void *b, const size_t *n_b)
{
	const struct redis_server *left = *(struct redis_server *const *)a;
	const struct redis_server *right = *(struct redis_server *const *)b;

	for (size_t i = 0; i < *n_a && *n_a == *n_b; i++)
		if (!same_server(&left[i], &right[i]))
			return false;
	return *n_a == *n_b;
}

static void server_release(struct redis_server *server)
{
	free(server->host);
	free(server->username);
	free(server->password);
}

static void release_redis(void *field, size_t *n)
{
	struct redis_server **list = field;

	for (size_t i = 0; i < *n; i++)
		server_release(&(*list)[i]);
	free(*list);
	*list = NULL;
	*n = 0;
}

static bool set_server(
	const struct redis_url *url, struct redis_server *server, struct buf *why)
{
	uint64_t db = 0;

	if (url->db.n && !view_number(url->db, 1 << 20, &db)) {
		buf_add_str(why, "has no such database; write a number, such as /0");
		return false;
	}
	server->db = (unsigned)db;
	if ((url->user.n && !(server->username = decoded(url->user))) ||
		(url->password.n && !(server->password = decoded(url->password)))) {
		buf_add_str(why,
			"has a wrong percent-encoding before its '@'; write %25 for a "
			"'%'");
		return false;
	}
	return set_place(url, server, why);
}

static bool read_redis(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct redis_server server = { 0 }, *slot;
	struct redis_url url;

	(void)o;
	if (!split_url(value, &url, why) || !set_server(&url, &server, why))
		goto fail;
	for (size_t i = 0; i < *n; i++) {
		if (!same_place(&(*(struct redis_server **)field)[i], &server))
			continue;
		buf_add_str(why, "is named a second time; take one away");
		goto fail;
	}
	slot = kind_list_room(field, *n, sizeof(*slot), why);
	if (!slot)
		goto fail;
	*slot = server;
	++*n;
	return true;
fail:
	server_release(&server);
	return false;
}
const struct option_kind kind_redis = { "URL", read_redis, release_redis, NULL,
	same_redis };
