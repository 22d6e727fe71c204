#include <stdlib.h>

#include "client/forwarded.h"
#include "make_request.h"

/* 10.0.0.0/8 and fd00::/8 */
static struct network trusted_list[] = {
	{ .addr = { 10 }, .addr_n = 4, .bits = 8 },
	{ .addr = { 0xfd }, .addr_n = 16, .bits = 8 },
};
static const struct networks trusted = { trusted_list, COUNT_OF(trusted_list) };

/* What forwarded_client() says, as text. */
static const char *ask(const struct request *rq, char out[ADDRESS_TEXT_MAX])
{
	struct address a;

	switch (forwarded_client(rq, &trusted, &a)) {
	case FORWARDED_NONE: return "none";
	case FORWARDED_MALFORMED: return "malformed";
	case FORWARDED_CONTRADICTORY: return "contradictory";
	case FORWARDED_FOUND: break;
	}
	address_text(&a, out);
	return out;
}

struct row {
	const char *header, *client;
};

static void check_rows(const char *name, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char text[ADDRESS_TEXT_MAX];
		struct request rq;

		make_request(&rq, name, rows[i].header, NULL);
		cr_expect_str_eq(ask(&rq, text), rows[i].client, "%s: %s gave %s, not %s",
			name, rows[i].header, ask(&rq, text), rows[i].client);
		request_release(&rq);
	}
}

Test(forwarded, the_first_untrusted_address_from_the_right_is_the_client)
{
	static const struct row rows[] = {
		{ "192.0.2.7", "192.0.2.7" },
		{ "192.0.2.7:4711", "192.0.2.7" },
		{ " 192.0.2.7\t", "192.0.2.7" },
		{ "192.0.2.7, 10.0.0.2", "192.0.2.7" },
		{ "192.0.2.7,10.0.0.2,10.0.0.3", "192.0.2.7" },
		{ "192.0.2.7, ::ffff:10.0.0.2", "192.0.2.7" },
		{ "192.0.2.7, fd00::1", "192.0.2.7" },
		{ "192.0.2.7, [fd00::1]:8080", "192.0.2.7" },
		/* What the client sent itself stands to the left and is never looked at. */
		{ "6.6.6.6, 192.0.2.7", "192.0.2.7" },
		{ "10.0.0.9, 192.0.2.7", "192.0.2.7" },
		{ "127.0.0.1, 192.0.2.7, 10.0.0.2", "192.0.2.7" },
		{ "garbage, 192.0.2.7", "192.0.2.7" },
		{ "\"unfinished, 192.0.2.7", "192.0.2.7" },
		{ "unknown, 192.0.2.7, 10.0.0.2", "192.0.2.7" },
		{ "2001:db8::1", "2001:db8::1" },
		{ "2001:db8::1%eth0, 10.0.0.2", "2001:db8::1" },
		{ "[2001:db8::1]:443", "2001:db8::1" },
		{ "::ffff:192.0.2.7", "192.0.2.7" },
		/* Empty entries are no entries (RFC 9110, section 5.6.1). */
		{ "192.0.2.7,", "192.0.2.7" },
		{ "192.0.2.7, , ,10.0.0.2, ", "192.0.2.7" },
		{ ",192.0.2.7", "192.0.2.7" },
		{ "", "none" },
		{ " , ,", "none" },
		/* Nobody untrusted: the farthest trusted one asks for itself. */
		{ "10.0.0.2", "10.0.0.2" },
		{ "10.0.0.4, 10.0.0.3, 10.0.0.2", "10.0.0.4" },
		/* A trusted proxy's entry that names nobody. */
		{ "garbage", "malformed" },
		{ "192.0.2.7, garbage", "malformed" },
		{ "192.0.2.7, unknown, 10.0.0.2", "malformed" },
		{ "192.0.2.7 10.0.0.2", "malformed" },
		{ "192.0.2.7; 10.0.0.2", "malformed" },
		{ "\"192.0.2.7\"", "malformed" },
		{ "for=192.0.2.7", "malformed" },
		{ "192.0.2.7:99999", "malformed" },
		{ "unix:", "malformed" },
	};

	check_rows("HTTP_X_FORWARDED_FOR", rows, COUNT_OF(rows));
}

Test(forwarded, the_standard_header_is_read_like_the_customary_one)
{
	static const struct row rows[] = {
		{ "for=192.0.2.7", "192.0.2.7" },
		{ "For=192.0.2.7", "192.0.2.7" },
		{ "FOR=\"192.0.2.7\"", "192.0.2.7" },
		{ "for=\"192.0.2.7:4711\"", "192.0.2.7" },
		{ "for=\"192.0.2.7:_port\"", "192.0.2.7" },
		{ "for=192.0.2.7:4711", "192.0.2.7" },
		{ "for=\"\\1\\92.0.2.7\"", "192.0.2.7" },
		{ "for=\"[2001:db8::1]:4711\"", "2001:db8::1" },
		{ "for=\"[2001:DB8::1]\"", "2001:db8::1" },
		{ "for=\"[2001:db8::1%eth0]\"", "2001:db8::1" },
		{ "for=\"[::ffff:192.0.2.7]\"", "192.0.2.7" },
		{ "for=192.0.2.7;proto=http;by=203.0.113.43", "192.0.2.7" },
		{ "proto=http; for=192.0.2.7 ;by=203.0.113.43", "192.0.2.7" },
		{ "host=\"a,b;for=6.6.6.6\";for=192.0.2.7", "192.0.2.7" },
		{ "for=192.0.2.7;host=\"a\\\",for=6.6.6.6\"", "192.0.2.7" },
		{ ";;for=192.0.2.7;;", "192.0.2.7" },
		{ "for=192.0.2.7, for=10.0.0.2", "192.0.2.7" },
		{ "for=192.0.2.7, for=\"[fd00::1]\";proto=https", "192.0.2.7" },
		{ "for=6.6.6.6, for=192.0.2.7, for=10.0.0.2", "192.0.2.7" },
		{ "for=_hidden, for=192.0.2.7", "192.0.2.7" },
		{ "for=10.0.0.3,for=10.0.0.2", "10.0.0.3" },
		/* An unfinished quote of the client's does not swallow what follows. */
		{ "for=\"6.6.6.6, for=192.0.2.7", "192.0.2.7" },
		{ "x=\", for=\"[2001:db8::1]:80\"", "2001:db8::1" },
		{ "for=6.6.6.6;x=\", for=\"192.0.2.7\";by=\"_a\"", "192.0.2.7" },
		{ "for=6.6.6.6;x=\"\\, for=\"192.0.2.7\"", "192.0.2.7" },
		{ "", "none" },
		{ ", ,", "none" },
		{ "for=_hidden", "malformed" },
		{ "for=\"_SEVKISEK\"", "malformed" },
		{ "for=unknown", "malformed" },
		{ "for=192.0.2.7, for=unknown", "malformed" },
		{ "for=192.0.2.7, for=_gazonk, for=10.0.0.2", "malformed" },
		{ "proto=https", "malformed" },
		{ "for=192.0.2.7, proto=https", "malformed" },
		{ "for=192.0.2.7;for=192.0.2.8", "malformed" },
		{ "for=", "malformed" },
		{ "for=\"\"", "malformed" },
		{ "for", "malformed" },
		{ "192.0.2.7", "malformed" },
		{ "for=\"192.0.2.7", "malformed" },
		{ "for=192.0.2.7\"", "malformed" },
		{ "for=\"192.0.2.7\\", "malformed" },
		{ "for=\"192.0.2.7\\\"", "malformed" },
		{ "for=\"192.0.2.7\"x", "malformed" },
		{ "for =192.0.2.7", "malformed" },
		{ "for= 192.0.2.7 x", "malformed" },
		{ "fo\"r=192.0.2.7", "malformed" },
	};

	check_rows("HTTP_FORWARDED", rows, COUNT_OF(rows));
}

Test(forwarded, a_client_that_sends_both_headers_gains_nothing)
{
	static const struct {
		const char *list, *element, *client;
	} rows[] = {
		{ "192.0.2.7", "for=192.0.2.7", "192.0.2.7" },
		{ "192.0.2.7, 10.0.0.2", "for=\"[::ffff:192.0.2.7]:80\"", "192.0.2.7" },
		{ "192.0.2.7", "", "192.0.2.7" },
		{ "", "for=192.0.2.7", "192.0.2.7" },
		/* One of them is forged, and nothing says which. */
		{ "6.6.6.6", "for=192.0.2.7", "contradictory" },
		{ "192.0.2.7", "for=6.6.6.6", "contradictory" },
		{ "192.0.2.7", "for=10.0.0.9", "contradictory" },
		{ "192.0.2.7", "garbage", "contradictory" },
		{ "garbage", "for=192.0.2.7", "malformed" },
		{ "garbage", "garbage", "malformed" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		char text[ADDRESS_TEXT_MAX];
		struct request rq;

		make_request(&rq, "HTTP_FORWARDED", rows[i].element, "HTTP_X_FORWARDED_FOR",
			rows[i].list, NULL);
		cr_expect_str_eq(ask(&rq, text), rows[i].client, "%s and %s", rows[i].list,
			rows[i].element);
		request_release(&rq);
	}
}

Test(forwarded, a_repeated_header_is_one_list)
{
	char text[ADDRESS_TEXT_MAX];
	struct request rq;

	make_request(&rq, "HTTP_X_FORWARDED_FOR", "6.6.6.6", "HTTP_ACCEPT", "7.7.7.7",
		"HTTP_X_FORWARDED_FOR", "8.8.8.8, 192.0.2.7", "HTTP_X_FORWARDED_FOR", "",
		"HTTP_X_FORWARDED_FOR", "10.0.0.2", "HTTP_X_FORWARDED_FORE", "9.9.9.9",
		NULL);
	cr_expect_str_eq(ask(&rq, text), "192.0.2.7");
	request_release(&rq);

	make_request(&rq, "HTTP_FORWARDED", "for=192.0.2.7;host=\"", "HTTP_FORWARDED",
		"for=\"10.0.0.2\"", NULL);
	cr_expect_str_eq(ask(&rq, text), "malformed");
	request_release(&rq);
}

/* A value of n times unit, between head and tail. */
static void make_long(struct request *rq, const char *name, const char *head,
	const char *unit, size_t n, const char *tail)
{
	struct buf value = { 0 };

	buf_add_str(&value, head);
	for (size_t i = 0; i < n; i++)
		buf_add_str(&value, unit);
	buf_add_str(&value, tail);
	cr_assert(buf_ok(&value));
	request_init(rq, FCGI_RESPONDER);
	request_add(rq, name, buf_view(&value));
	cr_assert(request_index(rq));
	buf_release(&value);
}

Test(forwarded, hostile_lengths_end_soon, .timeout = 20)
{
	static const struct {
		const char *name, *head, *unit;
		size_t n;
		const char *tail, *client;
	} rows[] = {
		{ "HTTP_X_FORWARDED_FOR", "", "6.6.6.6,", 200000, "192.0.2.7",
			"192.0.2.7" },
		{ "HTTP_X_FORWARDED_FOR", "192.0.2.7", ",10.0.0.2", 63, "", "192.0.2.7" },
		{ "HTTP_X_FORWARDED_FOR", "192.0.2.7", ",10.0.0.2", 64, "", "malformed" },
		{ "HTTP_X_FORWARDED_FOR", "192.0.2.7", ",10.0.0.2", 200000, "",
			"malformed" },
		{ "HTTP_X_FORWARDED_FOR", "192.0.2.7", ",", 1000000, "", "192.0.2.7" },
		{ "HTTP_X_FORWARDED_FOR", "192.0.2.7", " ", 1000000, ",", "192.0.2.7" },
		{ "HTTP_X_FORWARDED_FOR", "", "1", 1000000, "", "malformed" },
		{ "HTTP_X_FORWARDED_FOR", "::1%", "e", 1000000, "", "::1" },
		{ "HTTP_FORWARDED", "", "for=6.6.6.6,", 200000, "for=192.0.2.7",
			"192.0.2.7" },
		{ "HTTP_FORWARDED", "for=192.0.2.7", ",for=10.0.0.2", 64, "", "malformed" },
		{ "HTTP_FORWARDED", "for=\"", "\\\\", 500000, "\"", "malformed" },
		{ "HTTP_FORWARDED", "for=\"", "\\\"", 500000, "\"", "malformed" },
		{ "HTTP_FORWARDED", "for=192.0.2.7", ";", 1000000, "", "192.0.2.7" },
		{ "HTTP_FORWARDED", "for=192.0.2.7", ";a=b", 300000, "", "192.0.2.7" },
		{ "HTTP_FORWARDED", "", "\"", 1000000, "", "malformed" },
		{ "HTTP_FORWARDED", "", "=", 1000000, "", "malformed" },
		{ "HTTP_FORWARDED", "for=192.0.2.7;x=\"", ",", 1000000, "\"", "192.0.2.7" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		char text[ADDRESS_TEXT_MAX];
		struct request rq;

		make_long(&rq, rows[i].name, rows[i].head, rows[i].unit, rows[i].n,
			rows[i].tail);
		cr_expect_str_eq(ask(&rq, text), rows[i].client, "%s%s times %zu%s",
			rows[i].head, rows[i].unit, rows[i].n, rows[i].tail);
		request_release(&rq);
	}
}
