/*
 * config/kinds_net.c - options that say where something is: sockets, networks, Redis.
 */
#include "config/kinds.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/units.h"

/* The control socket: whoever can write to it commands, so never TCP. */
static bool read_control(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct net_addr addr;

	(void)o;
	(void)n;
	if (value.n && !view_starts(value, VIEW("unix:"))) {
		buf_add_str(why,
			"is not a unix socket; write unix:/run/weir/control.sock, or "
			"nothing for none");
		return false;
	}
	if (value.n) {
		buf_add_str(why, ": ");
		if (!net_addr_parse(value, &addr, why))
			return false;
		buf_reset(why);
	}
	return kind_keep_text(field, value, why);
}
const struct option_kind kind_control = { "ADDRESS", read_control, kind_release_text,
	NULL };

bool kind_same_addr(const struct net_addr *a, const struct net_addr *b)
{
	return a->len == b->len && memcmp(&a->ss, &b->ss, a->len) == 0;
}

static bool read_addresses(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct net_addr addr, *list = *(struct net_addr **)field, *slot;

	(void)o;
	buf_add_str(why, ": ");
	if (!net_addr_parse(value, &addr, why))
		return false;
	buf_reset(why);
	for (size_t i = 0; i < *n; i++) {
		if (!kind_same_addr(&list[i], &addr))
			continue;
		buf_add_str(why, "is named a second time; take one away");
		return false;
	}
	slot = kind_list_room(field, *n, sizeof(*slot), why);
	if (!slot)
		return false;
	*slot = addr;
	++*n;
	return true;
}
const struct option_kind kind_addresses = { "ADDRESS", read_addresses, kind_release_list,
	NULL };

/* Puts text, an address of either family, into net; an IPv4-mapped one as IPv4. */
static bool read_ip(struct view text, struct network *net, bool *mapped)
{
	static const unsigned char v4_in_v6[12] = { [10] = 0xff, [11] = 0xff };
	char whole[INET6_ADDRSTRLEN];

	*mapped = false;
	if (text.n == 0 || text.n >= sizeof(whole) || memchr(text.p, '\0', text.n))
		return false;
	memcpy(whole, text.p, text.n);
	whole[text.n] = '\0';
	net->addr_n = 4;
	if (inet_pton(AF_INET, whole, net->addr) == 1)
		return true;
	net->addr_n = 16;
	if (inet_pton(AF_INET6, whole, net->addr) != 1)
		return false;
	*mapped = memcmp(net->addr, v4_in_v6, sizeof(v4_in_v6)) == 0;
	return true;
}

static void put_network(const struct network *net, struct buf *out)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(net->addr_n == 4 ? AF_INET : AF_INET6, net->addr, text, sizeof(text));
	buf_addf(out, "%s/%u", text, net->bits);
}

/* Clears what lies behind the prefix; true when something was there. */
static bool clear_host_bits(struct network *net)
{
	bool found = false;

	for (unsigned bit = net->bits; bit < net->addr_n * 8u; bit++) {
		unsigned char mask = (unsigned char)(0x80 >> bit % 8);

		found |= (net->addr[bit / 8] & mask) != 0;
		net->addr[bit / 8] = (unsigned char)(net->addr[bit / 8] & ~mask);
	}
	return found;
}

static bool read_network(struct view text, struct network *out, struct buf *why)
{
	struct view bits_text = text, addr = view_cut(&bits_text, '/');
	struct network net = { 0 };
	uint64_t bits;
	bool mapped;

	if (!read_ip(addr, &net, &mapped)) {
		buf_add_str(why,
			"is not a network; write 10.0.0.0/8, 192.0.2.7 or "
			"2001:db8::/32");
		return false;
	}
	bits = net.addr_n * 8u;
	if (bits_text.p && !view_number(bits_text, bits, &bits)) {
		buf_addf(why,
			"has no such prefix; write a number from 0 to %u behind the '/'",
			net.addr_n * 8u);
		return false;
	}
	if (mapped && bits >= 96) {
		memmove(net.addr, net.addr + 12, 4);
		net.addr_n = 4;
		bits -= 96;
	}
	net.bits = (uint8_t)bits;
	if (clear_host_bits(&net)) {
		buf_add_str(why, "has bits behind its prefix; write ");
		put_network(&net, why);
		return false;
	}
	*out = net;
	return true;
}

/* Several in a line, with blanks or commas between them. */
static bool read_networks(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct networks *all = field;
	struct network *slot;
	size_t whole = value.n;

	(void)o;
	(void)n;
	while (value.n) {
		size_t end = 0;
		struct view one;

		while (end < value.n && !strchr(" \t,", value.p[end]))
			end++;
		one = view_of(value.p, end);
		value = view_skip(value, end < value.n ? end + 1 : end);
		if (one.n == 0)
			continue;
		slot = kind_list_room(&all->list, all->n, sizeof(*slot), why);
		if (!slot)
			return false;
		if (!read_network(one, slot, why)) {
			struct buf named = { 0 };

			/* The value may be long: say which one of it. */
			if (one.n < whole) {
				buf_add_str(&named, ": ");
				mistake_quote(&named, one);
				buf_add_byte(&named, ' ');
			}
			buf_add(&named, buf_view(why));
			buf_release(why);
			*why = named;
			return false;
		}
		all->n++;
	}
	return true;
}

static void release_networks(void *field, size_t *n)
{
	struct networks *all = field;

	(void)n;
	free(all->list);
	*all = (struct networks){ 0 };
}
const struct option_kind kind_networks = { "NETWORK ...", read_networks, release_networks,
	NULL };

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
		bool numeric = read_ip(url->host, &net, &mapped);

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
