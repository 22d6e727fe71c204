/*
 * client/address.h - Internet addresses as text says them and as limits count them.
 *
 * Pure. An IPv4-mapped IPv6 address (RFC 4291, section 2.5.5.2) is IPv4 from the
 * moment it is read, so no mask and no network ever sees it as IPv6.
 */
#ifndef WEIR_CLIENT_ADDRESS_H
#define WEIR_CLIENT_ADDRESS_H

#include "config/config.h"

/* Room for any address with "/128" behind it, and the NUL. */
#define ADDRESS_TEXT_MAX 64

struct address {
	unsigned char bytes[16]; /* network order; of IPv4 the first four, the rest zero */
	uint8_t n;               /* 4 or 16 */
};

/* Reads the whole of text: "192.0.2.7", "192.0.2.7:80", "2001:db8::7", "[2001:db8::7]",
 * "[2001:db8::7]:80". A scope id ("fe80::1%eth0") is left out: it tells interfaces of
 * this host apart, not clients. The port is a number or an obfuscated name
 * (RFC 7239, section 6.2), and left out too. Host names are not looked up. */
bool address_parse(struct view text, struct address *out);

bool address_equal(const struct address *a, const struct address *b);

/* Whether a lies in one of the networks. IPv4 lies in no IPv6 network. */
bool address_in(const struct address *a, const struct networks *list);

/* The one spelling of a (RFC 5952), NUL-terminated. */
void address_text(const struct address *a, char out[ADDRESS_TEXT_MAX]);

/* a as limits count it: IPv4 whole, IPv6 cut to ipv6_prefix bits, "2001:db8::/64". All
 * 128 bits are printed like a whole address. */
void address_network_text(
	const struct address *a, uint64_t ipv6_prefix, char out[ADDRESS_TEXT_MAX]);

#endif
