#include "client/address.h"

#include <arpa/inet.h>
#include <stdio.h>

/* inet_pton() on a view. It takes no leading zeros, no shorthand ("127.1") and no
 * trailing bytes, so there is one way to write an IPv4 address. */
static bool parse_family(int family, struct view text, unsigned char *bytes)
{
	char copy[INET6_ADDRSTRLEN];

	if (text.n == 0 || text.n >= sizeof(copy) || memchr(text.p, '\0', text.n))
		return false;
	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	return inet_pton(family, copy, bytes) == 1;
}

static bool parse_v4(struct view text, struct address *out)
{
	struct address a = { .n = 4 };

	if (!parse_family(AF_INET, text, a.bytes))
		return false;
	*out = a;
	return true;
}

static bool parse_v6(struct view text, struct address *out)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct address a = { .n = 16 };
	const char *scope = text.n ? memchr(text.p, '%', text.n) : NULL;

	if (scope && scope + 1 == text.p + text.n)
		return false;
	if (scope)
		text.n = (size_t)(scope - text.p);
	if (!parse_family(AF_INET6, text, a.bytes))
		return false;
	if (memcmp(a.bytes, mapped, sizeof(mapped)) == 0) {
		memmove(a.bytes, a.bytes + 12, 4);
		memset(a.bytes + 4, 0, 12);
		a.n = 4;
	}
	*out = a;
	return true;
}

static bool is_obfuscated_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
		c == '.' || c == '_' || c == '-';
}

static bool is_port(struct view text)
{
	uint64_t number;

	if (text.n < 2 || text.p[0] != '_')
		return text.n <= 5 && view_number(text, 65535, &number);
	for (size_t i = 1; i < text.n; i++)
		if (!is_obfuscated_byte(text.p[i]))
			return false;
	return true;
}

bool address_parse(struct view text, struct address *out)
{
	struct view rest = text, host;

	if (text.n == 0)
		return false;
	if (text.p[0] == '[') {
		if (!memchr(text.p, ']', text.n))
			return false;
		rest = view_skip(text, 1);
		host = view_cut(&rest, ']');
		if (rest.n && (rest.p[0] != ':' || !is_port(view_skip(rest, 1))))
			return false;
		return parse_v6(host, out);
	}
	host = view_cut(&rest, ':');
	if (host.n == text.n)
		return parse_v4(text, out);
	/* One colon is a port's; IPv6 has at least two. */
	if (rest.n == 0 || memchr(rest.p, ':', rest.n))
		return parse_v6(text, out);
	return is_port(rest) && parse_v4(host, out);
}

bool address_equal(const struct address *a, const struct address *b)
{
	return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static bool in_network(const struct address *a, const struct network *net)
{
	size_t whole = net->bits / 8;
	unsigned mask = 0xff00u >> (net->bits % 8) & 0xff;

	if (a->n != net->addr_n || net->bits > 8 * net->addr_n)
		return false;
	if (memcmp(a->bytes, net->addr, whole) != 0)
		return false;
	return mask == 0 || (a->bytes[whole] & mask) == (net->addr[whole] & mask);
}

bool address_in(const struct address *a, const struct networks *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (in_network(a, &list->list[i]))
			return true;
	return false;
}

void address_text(const struct address *a, char out[ADDRESS_TEXT_MAX])
{
	/* Cannot fail: the family is known and there is room. */
	inet_ntop(a->n == 4 ? AF_INET : AF_INET6, a->bytes, out, ADDRESS_TEXT_MAX);
}

void address_network_text(
	const struct address *a, uint64_t ipv6_prefix, char out[ADDRESS_TEXT_MAX])
{
	struct address cut = *a;
	size_t n;

	if (a->n == 4 || ipv6_prefix >= 128) {
		address_text(a, out);
		return;
	}
	for (unsigned bit = (unsigned)ipv6_prefix; bit < 128; bit++)
		cut.bytes[bit / 8] &= (unsigned char)~(0x80u >> (bit % 8));
	address_text(&cut, out);
	n = strlen(out);
	snprintf(out + n, ADDRESS_TEXT_MAX - n, "/%u", (unsigned)ipv6_prefix);
}
