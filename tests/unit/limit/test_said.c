#include <criterion/criterion.h>

#include "../client/make_request.h"
#include "base/log.h"
#include "limit/said.h"

static const struct client alice = {
	.network = "2001:db8::/64", .user = "alice", .plan = "paid"
};

static char text[256];

/* A piece with that name; lives until the next one is made. */
static struct key_piece piece(enum piece_kind kind, const char *name)
{
	cr_assert_lt(strlen(name), sizeof(text));
	memcpy(text, name, strlen(name) + 1);
	return (struct key_piece){ kind, text };
}

static void expect_piece(const struct limit_subject *about, enum piece_kind kind,
	const char *name, struct view wanted, const char *row)
{
	struct buf scratch = { 0 };
	struct key_piece p = piece(kind, name);
	struct view got = said_piece(about, &p, &scratch);

	cr_expect(view_eq(got, wanted), "%s: got %.*s", row, VIEW_ARG(got));
	buf_release(&scratch);
}

Test(said, a_field_or_parameter_counts_when_it_is_there_once)
{
	static const struct {
		enum piece_kind kind;
		const char *name, *value;
	} rows[] = {
		{ PIECE_HEADER, "HTTP_X_TENANT", "acme" },
		{ PIECE_HEADER, "HTTP_X_PADDED", "acme inc" },
		{ PIECE_HEADER, "HTTP_X_MISSING", "" },
		{ PIECE_HEADER, "HTTP_X_EMPTY", "" },
		{ PIECE_HEADER, "HTTP_X_TWICE", "" },
		{ PIECE_HEADER, "HTTP_X_SAME", "" },
		{ PIECE_HEADER, "http_x_tenant", "" },
		{ PIECE_PARAM, "SSL_CLIENT_S_DN", "CN=me" },
		{ PIECE_PARAM, "REMOTE_USER", "" },
		{ PIECE_USER, "", "alice" },
		{ PIECE_PLAN, "", "paid" },
		{ PIECE_IP, "", "2001:db8::/64" },
		{ PIECE_PATH, "id", "7" },
		{ PIECE_PATH, "other", "" },
	};
	struct limit_subject about = { .client = &alice,
		.captures = { .list = { { "x", VIEW_INIT("1") }, { "id", VIEW_INIT("7") } },
			.n = 2 } };
	struct request rq;

	make_request(&rq, "HTTP_X_TENANT", "acme", "HTTP_X_PADDED", " acme inc\t",
		"HTTP_X_TWICE", "a", "HTTP_X_EMPTY", "", "HTTP_X_TWICE", "b", "HTTP_X_SAME",
		"a", "HTTP_X_SAME", "a", "SSL_CLIENT_S_DN", "CN=me", NULL);
	about.request = &rq;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect_piece(&about, rows[i].kind, rows[i].name, view_str(rows[i].value),
			rows[i].name);
	request_release(&rq);
}

Test(said, without_a_request_nothing_is_found)
{
	struct limit_subject about = { .client = &alice };

	expect_piece(&about, PIECE_HEADER, "HTTP_X_TENANT", VIEW(""), "header");
	expect_piece(&about, PIECE_COOKIE, "sid", VIEW(""), "cookie");
	expect_piece(&about, PIECE_QUERY, "id", VIEW(""), "query");
	expect_piece(&about, PIECE_USER, "", VIEW("alice"), "user");
}

Test(said, a_parameter_has_one_value_however_it_is_written)
{
	static const struct {
		const char *query, *value;
	} rows[] = {
		{ "i_d=7", "7" },
		{ "x=1&i_d=7&y=2", "7" },
		{ "%69_d=%37", "7" },
		{ "i.d=7", "7" },
		{ "+i_d=7", "7" },
		{ "i_d=a+b%20c", "a b c" },
		{ "i_d=%2537", "%37" },
		{ "i_d=%zz", "%zz" },
		{ "i_d=7#top", "7" },
		{ "i_d=7;x", "7" },
		{ "i_d=a=b", "a=b" },
		/* Not there, or not to be believed. */
		{ "", "" },
		{ "i_d", "" },
		{ "i_d=", "" },
		{ "I_D=7", "" },
		{ "x#&i_d=7", "" },
		{ "i_d=7&i_d=8", "" },
		{ "i_d=7&i_d=7", "" },
		{ "i_d=7&i.d=8", "" },
		{ "i_d=7&%69_d=8", "" },
		{ "i_d=7;i_d=8", "" },
		{ "i_d=7&i_d", "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct limit_subject about = { .query = view_str(rows[i].query) };

		expect_piece(
			&about, PIECE_QUERY, "i_d", view_str(rows[i].value), rows[i].query);
	}
	/* A zero byte ends nothing. */
	expect_piece(&(struct limit_subject){ .query = VIEW("i_d=a\0b&c=d") }, PIECE_QUERY,
		"i_d", VIEW("a\0b"), "zero byte");
}

Test(said, a_cookie_has_one_value_however_it_is_written)
{
	static const struct {
		const char *cookies, *value;
	} rows[] = {
		{ "sid=abc", "abc" },
		{ "a=1; sid=abc; b=2", "abc" },
		{ "a=1;sid=abc", "abc" },
		{ "  sid =  abc  ;", "abc" },
		{ "sid=\"abc\"", "abc" },
		{ "sid=a%62c", "abc" },
		{ "%73id=abc", "abc" },
		{ "sid=a=b", "a=b" },
		{ "", "" },
		{ "sid", "" },
		{ "SID=abc", "" },
		{ "xsid=abc", "" },
		{ "sid=abc; sid=def", "" },
		{ "sid=abc; sid=abc", "" },
		{ "sid=abc; %73id=def", "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct limit_subject about = { .client = &alice };
		struct request rq;

		make_request(&rq, "HTTP_COOKIE", rows[i].cookies, NULL);
		about.request = &rq;
		expect_piece(&about, PIECE_COOKIE, "sid", view_str(rows[i].value),
			rows[i].cookies);
		request_release(&rq);
	}
}

static char x_a[] = "HTTP_X_A", x_b[] = "HTTP_X_B", colon[] = ":", dash[] = "-x",
	    prefix[] = "t/", colons[] = "::";

Test(said, an_identity_is_readable_and_cannot_be_forged)
{
	static const struct key_piece both[] = { { PIECE_HEADER, x_a },
		{ PIECE_HEADER, x_b } },
				      parted[] = { { PIECE_HEADER, x_a },
					      { PIECE_TEXT, colon },
					      { PIECE_HEADER, x_b } },
				      dashed[] = { { PIECE_TEXT, prefix },
					      { PIECE_HEADER, x_a }, { PIECE_TEXT, dash },
					      { PIECE_HEADER, x_b },
					      { PIECE_TEXT, colons } };
	static const struct {
		const struct key_piece *pieces;
		size_t n;
		const char *a, *b, *identity;
	} rows[] = {
		{ both, 1, "acme", "", "acme" },
		{ both, 2, "acme", "bob", "acme:bob" },
		{ both, 2, "acmeb", "ob", "acmeb:ob" },
		{ both, 2, "", "", ":" },
		{ both, 2, "a:b", "", "a%3Ab:" },
		{ both, 2, "a", ":b", "a:%3Ab" },
		{ parted, 3, "acme", "bob", "acme:bob" },
		{ dashed, 5, "acme", "bob", "t%2Facme:-xbob:%3A" },
		{ dashed, 5, "acme-x", "b", "t%2Facme-x:-xb:%3A" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct key_piece pieces[5];
		struct rule rule = { .pieces = pieces, .n_pieces = rows[i].n };
		struct limit_subject about = { .client = &alice };
		struct buf out = { 0 };
		struct request rq;

		memcpy(pieces, rows[i].pieces, rows[i].n * sizeof(pieces[0]));
		make_request(&rq, "HTTP_X_A", rows[i].a, "HTTP_X_B", rows[i].b, NULL);
		about.request = &rq;
		said_identity(&about, &rule, &out);
		cr_expect_str_eq(buf_str(&out), rows[i].identity, "row %zu", i);
		buf_release(&out);
		request_release(&rq);
	}
}

/* SHA-256 of "abc" (FIPS 180-2, appendix B.1). */
#define ABC_HASH "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

Test(said, a_secret_is_hashed_however_short_it_is)
{
	static char sid[] = "sid", key[] = "HTTP_X_API_KEY";
	struct key_piece pieces[] = { { PIECE_COOKIE, sid, true },
		{ PIECE_HEADER, key, true }, { PIECE_USER, NULL, false } };
	static const struct {
		const char *cookies, *key, *identity;
	} rows[] = {
		{ "sid=abc", "", "sha256/" ABC_HASH "::alice" },
		{ "", "abc", ":sha256/" ABC_HASH ":alice" },
		{ "sid=%61bc", "abc", "sha256/" ABC_HASH ":sha256/" ABC_HASH ":alice" },
		{ "sid=a; sid=b", "", "::alice" },
	};
	struct rule rule = { .pieces = pieces, .n_pieces = COUNT_OF(pieces) };

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct limit_subject about = { .client = &alice };
		struct buf out = { 0 };
		struct request rq;

		make_request(&rq, "HTTP_COOKIE", rows[i].cookies, key, rows[i].key, NULL);
		about.request = &rq;
		said_identity(&about, &rule, &out);
		cr_expect_str_eq(buf_str(&out), rows[i].identity, "row %zu", i);
		buf_release(&out);
		request_release(&rq);
	}
}

Test(said, long_values_are_hashed_one_by_one)
{
	static char id[] = "id";
	struct key_piece pieces[] = { { PIECE_QUERY, id }, { PIECE_USER, NULL } };
	struct rule rule = { .pieces = pieces, .n_pieces = 2 };
	struct buf query = { 0 }, out = { 0 };
	struct limit_subject about = { .client = &alice };

	buf_add_str(&query, "id=");
	for (int i = 0; i < 10000; i++)
		buf_add_str(&query, "x");
	about.query = buf_view(&query);
	said_identity(&about, &rule, &out);
	cr_expect_eq(out.n, strlen("sha256/") + 64 + strlen(":alice"));
	cr_expect(strstr(buf_str(&out), ":alice"));
	buf_release(&query);
	buf_release(&out);
}

Test(said, a_cost_stays_within_its_bounds_whatever_is_said)
{
	static const struct {
		const char *said; /* NULL: nothing */
		uint64_t cost;
	} rows[] = {
		{ NULL, 5 },
		{ "", 5 },
		{ "  ", 5 },
		{ "7", 7 },
		{ " 7 ", 7 },
		{ "007", 7 },
		{ "2", 2 },
		{ "1", 2 },
		{ "0", 2 },
		{ "50", 50 },
		{ "51", 50 },
		{ "100", 50 },
		/* More than the tier ever holds. */
		{ "101", 101 },
		{ "18446744073709551615", 101 },
		{ "18446744073709551616", 101 },
		{ "99999999999999999999999999", 101 },
		{ "-1", 50 },
		{ "+3", 50 },
		{ "3.5", 50 },
		{ "3,4", 50 },
		{ "3 4", 50 },
		{ "0x3", 50 },
		{ "1e1", 50 },
		{ "three", 50 },
	};
	static char name[] = "HTTP_X_COST", n[] = "n";
	struct rule header = {
		.cost = { COST_HEADER, 5, name, 2, 50 }, .rate.burst = 100, .file = "a.ini"
	};
	struct rule query = {
		.cost = { COST_QUERY, 5, n, 2, 50 }, .rate.burst = 100, .file = "a.ini"
	};

	log_open(2, LOG_LEVEL_ERROR);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct limit_subject about = { .client = &alice };
		struct buf uri = { 0 };
		struct request rq;

		make_request(&rq, "HTTP_X_OTHER", "9", rows[i].said ? "HTTP_X_COST" : "X",
			rows[i].said ? rows[i].said : "9", NULL);
		about.request = &rq;
		cr_expect_eq(said_cost(&about, &header), rows[i].cost, "%s", rows[i].said);
		if (rows[i].said)
			buf_add_str(&uri, "n=");
		for (const char *c = rows[i].said; c && *c; c++)
			buf_addf(&uri, "%%%02x", (unsigned char)*c);
		about.query = buf_view(&uri);
		cr_expect_eq(said_cost(&about, &query), rows[i].cost, "%s", rows[i].said);
		buf_release(&uri);
		request_release(&rq);
	}
}

Test(said, a_cost_said_twice_is_the_largest)
{
	static char name[] = "HTTP_X_COST", n[] = "n";
	struct rule header = { .cost = { COST_HEADER, 5, name, 2, 50 } };
	struct rule query = { .cost = { COST_QUERY, 5, n, 2, 50 } };
	struct rule fixed = { .cost = { COST_FIXED, 3, NULL, 3, 3 } };
	struct limit_subject about = { .client = &alice, .query = VIEW("n=3&n=3") };
	struct request rq;

	make_request(&rq, "HTTP_X_COST", "3", "HTTP_X_COST", "3", NULL);
	about.request = &rq;
	cr_expect_eq(said_cost(&about, &header), 50);
	cr_expect_eq(said_cost(&about, &query), 50);
	cr_expect_eq(said_cost(&about, &fixed), 3);
	request_release(&rq);
}
