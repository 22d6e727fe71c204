/*
 * config/kinds_net.c - options that say where something is: sockets, networks.
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
const struct option_kind kind_control = { "ADDRESS", read_control, kind_release_text, NULL,
	kind_same_text };

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
		if (!net_addr_same(&list[i], &addr))
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

static bool same_addresses(
	const void *a, const size_t *n_a, const void *b, const size_t *n_b)
{
	const struct net_addr *left = *(struct net_addr *const *)a;
	const struct net_addr *right = *(struct net_addr *const *)b;

	for (size_t i = 0; i < *n_a && *n_a == *n_b; i++)
		if (!net_addr_same(&left[i], &right[i]))
			return false;
	return *n_a == *n_b;
}
const struct option_kind kind_addresses = { "ADDRESS", read_addresses, kind_release_list,
	NULL, same_addresses };

bool kind_read_ip(struct view text, struct network *net, bool *mapped)
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

	if (!kind_read_ip(addr, &net, &mapped)) {
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

#define WRONG_SHOWN 10

/* Of a value with several in it says which one. */
static void add_wrong(
	struct view one, bool named, bool first, struct buf *what, struct buf *why)
{
	if (named) {
		buf_add_str(why, first ? ": " : "; and ");
		mistake_quote(why, one);
		buf_add_byte(why, ' ');
	}
	buf_add(why, buf_view(what));
	why->failed |= what->failed;
}

/* Several in a line, with blanks or commas between them. */
static bool read_networks(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct networks *all = field;
	struct network *slot;
	size_t whole = value.n, wrong = 0;

	(void)o;
	(void)n;
	while (value.n) {
		struct buf what = { 0 };
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
		if (read_network(one, slot, &what))
			all->n++;
		else if (wrong++ < WRONG_SHOWN)
			add_wrong(one, one.n < whole, wrong == 1, &what, why);
		buf_release(&what);
	}
	if (wrong > WRONG_SHOWN)
		buf_addf(why, "; and %zu more", wrong - WRONG_SHOWN);
	return wrong == 0;
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

static const struct network *network_with(
	const struct networks *nets, const unsigned char *addr, unsigned addr_n)
{
	for (size_t i = 0; i < nets->n; i++) {
		const struct network *net = &nets->list[i];
		unsigned bytes = net->bits / 8, rest = net->bits % 8;

		if (net->addr_n == addr_n && memcmp(net->addr, addr, bytes) == 0 &&
			(!rest || (net->addr[bytes] ^ addr[bytes]) >> (8 - rest) == 0))
			return net;
	}
	return NULL;
}

/* The first address behind net; false when there is none. */
static bool address_behind(const struct network *net, unsigned char *addr)
{
	unsigned carry = 1;

	memcpy(addr, net->addr, net->addr_n);
	for (unsigned i = (net->bits + 7) / 8; i-- && carry;) {
		unsigned last = i == net->bits / 8 ? 8 - net->bits % 8 : 0;
		unsigned sum = addr[i] + (carry << last);

		addr[i] = (unsigned char)sum;
		carry = sum >> 8;
	}
	return !carry;
}

bool kind_networks_are_all(const struct networks *nets, unsigned addr_n)
{
	unsigned char next[16] = { 0 }; /* all below it are in one of them */
	const struct network *net;

	while ((net = network_with(nets, next, addr_n)) != NULL)
		if (!address_behind(net, next))
			return true;
	return false;
}
