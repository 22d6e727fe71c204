/*
 * config/kinds_redis.c - store.url, which says where Redis is and who asks it.
 */
#include "config/kinds.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/units.h"

/* Undoes percent-encoding. NULL when it is wrong, or memory is out. */
static char *decoded(struct view v)
{
	struct buf out = { 0 };

	for (size_t i = 0; i < v.n; i++) {
		int high, low;

		if (v.p[i] != '%') {
			buf_add_byte(&out, v.p[i]);
			continue;
		}
		high = v.n - i > 2 ? unit_hex(v.p[i + 1]) : -1;
		low = v.n - i > 2 ? unit_hex(v.p[i + 2]) : -1;
		if (high < 0 || low < 0 || high + low == 0) {
			buf_release(&out);
			return NULL;
		}
		buf_add_byte(&out, (char)(high << 4 | low));
		i += 2;
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
	return unit_is_name(host) && host.n < 100;
}

/* Where Redis is: a numeric address or a socket into addr, a name into host. */
static bool set_server(const struct redis_url *url, struct config *c, struct net_addr *addr,
	struct buf *why)
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
			c->store.host = strndup(url->host.p, url->host.n);
			snprintf(addr->text, sizeof(addr->text), "%.*s",
				VIEW_ARG(buf_view(&text)));
			ok = c->store.host != NULL;
			why->failed |= !ok;
			goto out;
		}
	}
	buf_add_str(why, ": ");
	ok = buf_ok(&text) && net_addr_parse(buf_view(&text), addr, why);
	if (ok)
		buf_reset(why);
out:
	c->store.port = (unsigned)port;
	buf_release(&text);
	return ok;
}

static void release_redis(void *field, size_t *n)
{
	struct config *c = field;

	(void)n;
	free(c->store.host);
	free(c->store.username);
	free(c->store.password);
	c->store.host = c->store.username = c->store.password = NULL;
}

/* The row's field is the whole configuration: a URL fills several of its fields. */
static bool read_redis(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct config *c = field;
	struct net_addr addr = { 0 };
	struct redis_url url;
	uint64_t db = 0;

	(void)o;
	(void)n;
	if (!split_url(value, &url, why))
		return false;
	if (url.db.n && !view_number(url.db, 1 << 20, &db)) {
		buf_add_str(why, "has no such database; write a number, such as /0");
		return false;
	}
	if ((url.user.n && !(c->store.username = decoded(url.user))) ||
		(url.password.n && !(c->store.password = decoded(url.password)))) {
		buf_add_str(why,
			"has a wrong percent-encoding before its '@'; write %25 for a "
			"'%'");
		goto fail;
	}
	if (!set_server(&url, c, &addr, why))
		goto fail;
	c->store.addr = addr;
	c->store.db = (unsigned)db;
	return true;

fail:
	release_redis(field, NULL);
	return false;
}
const struct option_kind kind_redis = { "URL", read_redis, release_redis, NULL };
