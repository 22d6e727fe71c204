#include <criterion/criterion.h>

#include "client/address.h"

static const char *text_of(const char *from, char out[ADDRESS_TEXT_MAX])
{
	struct address a;

	if (!address_parse(view_str(from), &a))
		return NULL;
	address_text(&a, out);
	return out;
}

Test(address, every_spelling_of_an_address_comes_to_one)
{
	static const struct {
		const char *from, *to;
	} rows[] = {
		{ "192.0.2.7", "192.0.2.7" },
		{ "192.0.2.7:80", "192.0.2.7" },
		{ "192.0.2.7:65535", "192.0.2.7" },
		{ "192.0.2.7:_hidden-1", "192.0.2.7" },
		{ "0.0.0.0", "0.0.0.0" },
		{ "255.255.255.255", "255.255.255.255" },
		{ "::", "::" },
		{ "::1", "::1" },
		{ "2001:db8::7", "2001:db8::7" },
		{ "2001:DB8:0:0::7", "2001:db8::7" },
		{ "2001:0db8:0000:0000:0000:0000:0000:0007", "2001:db8::7" },
		{ "[2001:db8::7]", "2001:db8::7" },
		{ "[2001:db8::7]:443", "2001:db8::7" },
		{ "[2001:db8::7]:_p", "2001:db8::7" },
		{ "fe80::1%eth0", "fe80::1" },
		{ "fe80::1%25eth0", "fe80::1" },
		{ "[fe80::1%eth0]:80", "fe80::1" },
		{ "::ffff:192.0.2.7", "192.0.2.7" },
		{ "::FFFF:c000:207", "192.0.2.7" },
		{ "[::ffff:192.0.2.7]:80", "192.0.2.7" },
		{ "::ffff:192.0.2.7%eth0", "192.0.2.7" },
		{ "0:0:0:0:0:ffff:192.0.2.7", "192.0.2.7" },
		{ "::fffe:192.0.2.7", "::fffe:c000:207" },
	};
	char text[ADDRESS_TEXT_MAX];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const char *got = text_of(rows[i].from, text);

		cr_assert_not_null(got, "%s", rows[i].from);
		cr_assert_str_eq(got, rows[i].to, "%s gave %s", rows[i].from, got);
	}
}

Test(address, what_is_no_address_is_refused)
{
	static const char *const rows[] = {
		"",
		" ",
		"unix:",
		"unknown",
		"_hidden",
		"localhost",
		"example.org:80",
		"192.0.2",
		"192.0.2.7.1",
		"192.0.2.256",
		"192.0.2.07",
		"192.0.2.-7",
		" 192.0.2.7",
		"192.0.2.7 ",
		"192.0.2.7:",
		"192.0.2.7:65536",
		"192.0.2.7:000080",
		"192.0.2.7:80x",
		"192.0.2.7:_",
		"192.0.2.7:_a b",
		"192.0.2.7%eth0",
		"192.0.2.7/32",
		"0x7f000001",
		"2130706433",
		"127.1",
		":",
		"::g",
		":::",
		"1:2:3:4:5:6:7",
		"1:2:3:4:5:6:7:8:9",
		"1::2::3",
		"fe80::1%",
		"[",
		"[]",
		"[::1",
		"::1]",
		"[::1]80",
		"[::1]:",
		"[::1]:99999",
		"[192.0.2.7]",
		"[[::1]]",
		"[::1]]",
		"2001:db8::/64",
	};
	struct address a;

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect(!address_parse(view_str(rows[i]), &a), "\"%s\"", rows[i]);
	cr_expect(!address_parse(VIEW("192.0.2.7\0"), &a), "a NUL behind it");
	cr_expect(!address_parse(VIEW("::1\0:1"), &a), "a NUL in it");
}

Test(address, a_network_holds_its_addresses_and_no_others)
{
	static const struct {
		const char *address, *net;
		unsigned bits;
		bool in;
	} rows[] = {
		{ "10.1.2.3", "10.0.0.0", 8, true },
		{ "11.0.0.0", "10.0.0.0", 8, false },
		{ "10.127.255.255", "10.0.0.0", 9, true },
		{ "10.128.0.0", "10.0.0.0", 9, false },
		{ "192.0.2.7", "192.0.2.7", 32, true },
		{ "192.0.2.6", "192.0.2.7", 32, false },
		{ "192.0.2.6", "192.0.2.7", 31, true },
		{ "203.0.113.1", "0.0.0.0", 0, true },
		{ "::ffff:10.1.2.3", "10.0.0.0", 8, true },
		{ "::1", "0.0.0.0", 0, false },
		{ "10.1.2.3", "::", 0, false },
		{ "2001:db8::1", "::", 0, true },
		{ "2001:db8::1", "2001:db8::", 32, true },
		{ "2001:db9::1", "2001:db8::", 32, false },
		{ "2001:db8::1", "2001:db8::", 127, true },
		{ "2001:db8::2", "2001:db8::", 127, false },
		{ "::1", "::1", 128, true },
		{ "::2", "::1", 128, false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct address a, net_address;
		struct network net = { .bits = (uint8_t)rows[i].bits };
		struct networks list = { &net, 1 };

		cr_assert(address_parse(view_str(rows[i].address), &a));
		cr_assert(address_parse(view_str(rows[i].net), &net_address));
		memcpy(net.addr, net_address.bytes, sizeof(net.addr));
		net.addr_n = net_address.n;
		cr_expect_eq(address_in(&a, &list), rows[i].in, "%s in %s/%u",
			rows[i].address, rows[i].net, rows[i].bits);
	}
}

Test(address, clients_are_told_apart_by_prefix)
{
	static const struct {
		const char *address;
		unsigned prefix;
		const char *network;
	} rows[] = {
		{ "2001:db8::1", 64, "2001:db8::/64" },
		{ "2001:db8::ffff:1:2:3", 64, "2001:db8::/64" },
		{ "2001:db8:0:1::1", 64, "2001:db8:0:1::/64" },
		{ "2001:db8:0:1::1", 63, "2001:db8::/63" },
		{ "2001:db8:ffff:ffff::1", 56, "2001:db8:ffff:ff00::/56" },
		{ "2001:db8::1", 128, "2001:db8::1" },
		{ "2001:db8::1", 127, "2001:db8::/127" },
		{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 127,
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127" },
		{ "2001:db8::1", 1, "::/1" },
		{ "192.0.2.7", 64, "192.0.2.7" },
		{ "::ffff:192.0.2.7", 64, "192.0.2.7" },
		{ "::ffff:192.0.2.7", 1, "192.0.2.7" },
	};
	char text[ADDRESS_TEXT_MAX];

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct address a;

		cr_assert(address_parse(view_str(rows[i].address), &a));
		address_network_text(&a, rows[i].prefix, text);
		cr_expect_str_eq(
			text, rows[i].network, "%s/%u", rows[i].address, rows[i].prefix);
	}
}
