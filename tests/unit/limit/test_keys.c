#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/table.h"
#include "limit/keys.h"
#include "limit/said.h"

#define LONG_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* SHA-256 of "0123456789abcdef" four times and one "x", from sha256sum(1). */
#define LONG_65_HASH "bb9e1cd5ce469c0ffa4af8902e9e07d171baad6eb68fe956b4259af2b66e1ca2"

Test(keys, keys_look_as_documented)
{
	static const struct {
		enum rule_type type;
		const char *user, *address, *place, *rule, *key, *way;
	} rows[] = {
		{ RULE_USER, "alice", "192.0.2.7", "login", "sw60s",
			"rate:user:{alice}:login:sw60s" },
		{ RULE_USER, "", "192.0.2.7", "login", "sw60s",
			"rate:user:{ip/192.0.2.7}:login:sw60s" },
		{ RULE_USER, "", "2001:db8::/64", NULL, "sw60s",
			"rate:user:{ip/2001%3Adb8%3A%3A%2F64}:*:sw60s" },
		{ RULE_IP, "alice", "192.0.2.7", "login", "sw60s",
			"rate:ip:{192.0.2.7}:login:sw60s" },
		{ RULE_IP, "", "unknown", NULL, "tb1h", "rate:ip:{unknown}:*:tb1h" },
		{ RULE_GLOBAL, "alice", "192.0.2.7", "login", "tb60s",
			"rate:global:{login}:tb60s" },
		{ RULE_GLOBAL, "", "192.0.2.7", NULL, "sw1s", "rate:global:{*}:sw1s" },
		/* What others write never looks like what weir writes. */
		{ RULE_USER, "ip/192.0.2.7", "192.0.2.8", "login", "sw60s",
			"rate:user:{ip%2F192.0.2.7}:login:sw60s" },
		{ RULE_GLOBAL, "", "192.0.2.7", "*", "sw1s", "rate:global:{%2A}:sw1s" },
		{ RULE_IP, "", "192.0.2.7", "*", "sw1s", "rate:ip:{192.0.2.7}:%2A:sw1s" },
		{ RULE_USER, "a}:b:{c%", "192.0.2.7", "x:y", "n/m",
			"rate:user:{a%7D%3Ab%3A%7Bc%25}:x%3Ay:n%2Fm" },
		{ RULE_USER, "\r\n\t \x7f", "192.0.2.7", "login", "sw60s",
			"rate:user:{%0D%0A%09%20%7F}:login:sw60s" },
		{ RULE_USER, "J\xc3\xbcrgen@example.org", "192.0.2.7", "login", "sw60s",
			"rate:user:{J%C3%BCrgen@example.org}:login:sw60s" },
		/* Long parts have a fixed length, and no part spells another's hash. */
		{ RULE_USER, LONG_64, "192.0.2.7", "login", "sw60s",
			"rate:user:{" LONG_64 "}:login:sw60s" },
		{ RULE_USER, LONG_64 "x", "192.0.2.7", "login", "sw60s",
			"rate:user:{sha256/" LONG_65_HASH "}:login:sw60s" },
		{ RULE_USER, LONG_65_HASH, "192.0.2.7", "login", "sw60s",
			"rate:user:{" LONG_65_HASH "}:login:sw60s" },
		{ RULE_USER, "sha256/abc", "192.0.2.7", "login", "sw60s",
			"rate:user:{sha256%2Fabc}:login:sw60s" },
		/* A name says how it counts. */
		{ RULE_IP, "", "192.0.2.7", "login", "quota",
			"rate:ip:{192.0.2.7}:login:quota/sw", "sw" },
		{ RULE_GLOBAL, "", "192.0.2.7", NULL, "quota/tb",
			"rate:global:{*}:quota%2Ftb/tb", "tb" },
		{ RULE_CUSTOM, "alice", "192.0.2.7", "login", "sw60s-1f0a9b7c",
			"rate:custom:{acme:%2F}:login:sw60s-1f0a9b7c", "" },
		{ RULE_CUSTOM, "", "192.0.2.7", NULL, "each",
			"rate:custom:{acme:%2F}:*:each/fw-1f0a9b7c", "fw-1f0a9b7c" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct key_parts parts = { rows[i].type, view_str(rows[i].user),
			view_str(rows[i].address), VIEW("acme:%2F"), rows[i].place,
			rows[i].rule, rows[i].way };
		struct buf out = { 0 };

		key_put(&out, "rate", &parts);
		cr_expect_str_eq(
			buf_str(&out), rows[i].key, "row %zu: %s", i, buf_str(&out));
		buf_release(&out);
	}
}

/* A number below n; the same numbers in each run (xorshift64). */
static uint64_t pick(uint64_t n)
{
	static uint64_t x = 0x2545f4914f6cdd1d;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (x >> 16) % n;
}

/* Short parts over few bytes, so that equal ones and near misses come often. */
struct part {
	char p[80];
	size_t n;
};

static void draw(struct part *part, bool printable)
{
	static const char nasty[] = "/:{}%*2FA\0\xff ip\n";
	static const char *const whole[] = { "*", "ip/", "%2A", "%2F", "}:*:", "ip/*",
		"sha256/", LONG_65_HASH, LONG_64 "x", LONG_64 "y" };
	size_t n = sizeof(nasty) - 1;

	*part = (struct part){ .n = pick(5) };
	if (pick(4) == 0) {
		const char *w = whole[pick(COUNT_OF(whole))];

		part->n = strlen(w);
		memcpy(part->p, w, part->n);
		return;
	}
	for (size_t i = 0; i < part->n; i++) {
		do
			part->p[i] = nasty[pick(n)];
		while (printable && part->p[i] == '\0');
	}
}

/* The templates of custom keys: how values and text follow one another. */
static char na[] = "a", nb[] = "b", nc[] = "c", colon[] = ":", x[] = "x", dash[] = "-";
static struct key_piece one[] = { { PIECE_PATH, na } },
			two[] = { { PIECE_PATH, na }, { PIECE_PATH, nb } },
			parted[] = { { PIECE_PATH, na }, { PIECE_TEXT, colon },
				{ PIECE_PATH, nb } },
			swapped[] = { { PIECE_TEXT, x }, { PIECE_PATH, nb },
				{ PIECE_TEXT, dash }, { PIECE_PATH, na } },
			three[] = { { PIECE_PATH, na }, { PIECE_PATH, nb },
				{ PIECE_PATH, nc } },
			mixed[] = { { PIECE_PATH, na }, { PIECE_TEXT, x },
				{ PIECE_PATH, nb }, { PIECE_TEXT, colon },
				{ PIECE_PATH, nc }, { PIECE_TEXT, colon } },
			secret[] = { { PIECE_PATH, na, true }, { PIECE_TEXT, x },
				{ PIECE_PATH, nb }, { PIECE_PATH, nc, true } };
static const struct template
{
	struct key_piece *pieces;
	size_t n, n_values;
	const char *way; /* with its hash */
}
templates[] = {
	{ one, COUNT_OF(one), 1, "sw-00000001" },
	{ two, COUNT_OF(two), 2, "sw-00000002" },
	{ parted, COUNT_OF(parted), 2, "sw-00000003" },
	{ swapped, COUNT_OF(swapped), 2, "sw-00000004" },
	{ three, COUNT_OF(three), 3, "sw-00000005" },
	{ mixed, COUNT_OF(mixed), 3, "sw-00000006" },
	{ secret, COUNT_OF(secret), 3, "sw-00000007" },
};

struct tuple {
	struct table_node by_key, by_parts;
	struct part user, address, place, rule, values[3];
	enum rule_type type;
	const struct template *template;
	const char *way;
	bool everywhere;
	struct buf key, parts;
};

static void spell_part(struct buf *out, const struct part *part)
{
	buf_addf(out, " %zu ", part->n);
	buf_add(out, view_of(part->p, part->n));
}

/* What a tuple is, spelled with lengths, so that it is unambiguous. Of the parts that do
 * not count for the type nothing is said. */
static void spell(struct tuple *t)
{
	const struct part *owner = t->type == RULE_USER && t->user.n ? &t->user
								     : &t->address;

	buf_addf(&t->parts, "%d %d ", (int)t->type, owner == &t->user);
	if (t->type == RULE_CUSTOM) {
		for (size_t i = 0; i < t->template->n_values; i++)
			spell_part(&t->parts, &t->values[i]);
	} else if (t->type != RULE_GLOBAL) {
		spell_part(&t->parts, owner);
	}
	if (!t->everywhere)
		spell_part(&t->parts, &t->place);
	buf_addf(&t->parts, " by %s", t->way);
	spell_part(&t->parts, &t->rule);
}

static void put_identity(const struct tuple *t, struct buf *out)
{
	static const struct client nobody;
	struct rule rule = { .pieces = t->template->pieces, .n_pieces = t->template->n };
	struct limit_subject about = { .client = &nobody,
		.captures = { .list = { { na, view_of(t->values[0].p, t->values[0].n) },
				      { nb, view_of(t->values[1].p, t->values[1].n) },
				      { nc, view_of(t->values[2].p, t->values[2].n) } },
			.n = 3 } };

	said_identity(&about, &rule, out);
}

/* A part between two others of the identity: nothing of a secret stands there as it is. */
static void expect_hidden(const struct tuple *t, struct view identity)
{
	for (size_t i = 0; i < t->template->n; i++) {
		struct view part = view_cut(&identity, ':');
		const struct key_piece *piece = &t->template->pieces[i];

		if (piece->kind == PIECE_TEXT) {
			/* The text before a value has no ':' of its own. */
			i++;
			piece++;
		}
		if (!piece->secret || part.n == 0)
			continue;
		cr_assert(view_starts(part, VIEW("sha256/")), "%.*s", VIEW_ARG(part));
		cr_assert_eq(part.n, strlen("sha256/") + 64, "%.*s", VIEW_ARG(part));
	}
}

static struct tuple *draw_tuple(void)
{
	static const char *const ways[] = { "", "", "sw", "tb" };
	struct tuple *t = calloc(1, sizeof(*t));
	struct buf identity = { 0 };
	struct key_parts parts;

	cr_assert_not_null(t);
	draw(&t->user, false);
	draw(&t->address, false);
	draw(&t->place, true);
	draw(&t->rule, true);
	t->type = (enum rule_type)pick(4);
	t->way = ways[pick(COUNT_OF(ways))];
	t->everywhere = pick(3) == 0;
	if (t->type == RULE_CUSTOM) {
		t->template = &templates[pick(COUNT_OF(templates))];
		t->way = t->template->way;
		for (size_t i = 0; i < COUNT_OF(t->values); i++)
			draw(&t->values[i], false);
		put_identity(t, &identity);
		if (t->template->pieces == secret)
			expect_hidden(t, buf_view(&identity));
	}
	parts = (struct key_parts){ t->type, view_of(t->user.p, t->user.n),
		view_of(t->address.p, t->address.n), buf_view(&identity),
		t->everywhere ? NULL : t->place.p, t->rule.p, t->way };
	key_put(&t->key, "rate", &parts);
	spell(t);
	cr_assert(buf_ok(&t->key) && buf_ok(&t->parts) && buf_ok(&identity));
	buf_release(&identity);
	t->by_key.key = buf_view(&t->key);
	t->by_parts.key = buf_view(&t->parts);
	return t;
}

static void free_tuple(struct tuple *t)
{
	buf_release(&t->key);
	buf_release(&t->parts);
	free(t);
}

/* The node with this one's key, or NULL after it was put in. */
static struct table_node *find_or_add(struct table *table, struct table_node *node)
{
	struct table_node *found;

	node->hash = table_hash(node->key);
	found = table_find(table, node->key, node->hash);
	if (!found)
		cr_assert(table_insert(table, node));
	return found;
}

Test(keys, no_two_tuples_share_a_key)
{
	enum {
		TUPLES = 100000
	};
	struct tuple **all = calloc(TUPLES, sizeof(*all));
	struct table keys = { 0 }, tuples = { 0 };
	size_t n = 0;

	cr_assert_not_null(all);
	for (int i = 0; i < TUPLES; i++) {
		struct tuple *t = draw_tuple();
		struct table_node *same_parts = find_or_add(&tuples, &t->by_parts);
		struct table_node *same_key = find_or_add(&keys, &t->by_key);

		cr_assert_leq(t->key.n, 5 * 3 * KEY_PART_MAX + 64);
		cr_assert_eq(same_parts != NULL, same_key != NULL, "%.*s",
			VIEW_ARG(buf_view(&t->key)));
		if (!same_parts) {
			all[n++] = t;
			continue;
		}
		cr_assert_eq(CONTAINER_OF(same_parts, struct tuple, by_parts),
			CONTAINER_OF(same_key, struct tuple, by_key));
		free_tuple(t);
	}
	/* The alphabet is small enough to repeat tuples and large enough for variety. */
	cr_expect_gt(n, TUPLES / 4);
	cr_expect_lt(n, TUPLES);
	table_release(&keys);
	table_release(&tuples);
	while (n)
		free_tuple(all[--n]);
	free(all);
}
