/*
 * ctl/token.c - weirctl token: what users show to be known.
 *
 * A token is 256 random bits. It is printed once, on standard output and alone there, and
 * kept nowhere: the directory has its SHA-256, which is as good as the token to compare
 * with and of no use to whoever reads the file.
 */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/utf8.h"
#include "client/schema.h"
#include "config/units.h"
#include "ctl/directory.h"

/* Tokens that turn up in the wrong place are found by it. */
#define TOKEN_PREFIX "weir_"
#define TOKEN_BYTES  32
#define TOKEN_TEXT_MAX                     \
	(sizeof(TOKEN_PREFIX) +            \
		sodium_base64_ENCODED_LEN( \
			TOKEN_BYTES, sodium_base64_VARIANT_URLSAFE_NO_PADDING))
#define LABEL_MAX 100

/* "2027-01-31" is its first moment, UTC; "2027-01-31T12:00:00Z" that one. */
static bool read_date(const char *text, int64_t *out)
{
	static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ" };

	for (size_t i = 0; i < COUNT_OF(forms); i++) {
		struct tm tm = { 0 }, same;
		char *end = strptime(text, forms[i], &tm);

		if (!end || *end)
			continue;
		same = tm;
		*out = timegm(&tm);
		/* The 31st of February becomes a day of March: no date. */
		return tm.tm_mday == same.tm_mday && tm.tm_mon == same.tm_mon;
	}
	return false;
}

/* *out is 0 where it never expires. A number without unit is no duration here: it could
 * be a year. */
static bool read_expires(const struct job *j, int64_t *out)
{
	struct view text = view_str(j->expires);
	int64_t ms, at = 0;
	uint64_t number;

	if (!j->expires) {
		*out = 0;
		return true;
	}
	if (!view_number(text, UINT64_MAX, &number) && unit_duration(text, &ms))
		at = j->now_s + ms / 1000;
	else if (!read_date(j->expires, &at)) {
		job_fail(j,
			"--expires \"%s\" is neither a duration nor a date; write 30d, "
			"12h, "
			"2027-01-31 or 2027-01-31T12:00:00Z",
			j->expires);
		return false;
	}
	if (at <= j->now_s) {
		job_fail(j, "--expires \"%s\" is over already", j->expires);
		return false;
	}
	*out = at;
	return true;
}

static bool is_label(const char *label)
{
	struct view v = view_str(label);
	uint64_t number;

	if (v.n > LABEL_MAX || !utf8_valid(v) || view_number(v, UINT64_MAX, &number))
		return false;
	for (size_t i = 0; i < v.n; i++)
		if ((unsigned char)v.p[i] < ' ' || v.p[i] == 0x7f)
			return false;
	return true;
}

static void draw_token(char text[TOKEN_TEXT_MAX], unsigned char *hash)
{
	const size_t prefix_n = sizeof(TOKEN_PREFIX) - 1;
	unsigned char bytes[TOKEN_BYTES];

	randombytes_buf(bytes, sizeof(bytes));
	memcpy(text, TOKEN_PREFIX, prefix_n);
	sodium_bin2base64(text + prefix_n, TOKEN_TEXT_MAX - prefix_n, bytes, sizeof(bytes),
		sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	crypto_hash_sha256(hash, (const unsigned char *)text, strlen(text));
}

/* Standard output has the token alone, so that a script can take it. */
static int print_token(struct job *j, const char *text, int64_t id, int64_t expires)
{
	const char *user = j->operands[0];
	json_t *object = json_pack("{s:I, s:s, s:s, s:s, s:b, s:I, s:o}", "id",
		(json_int_t)id, "token", text, "user", user, "label",
		j->label ? j->label : "", "admin", j->admin, "created",
		(json_int_t)j->now_s, "expires",
		expires ? json_integer(expires) : json_null());
	int status = job_print(j, object, "%s", text);
	struct buf when = { 0 };

	if (!j->ctl->json && status == CTL_OK) {
		if (expires)
			job_put_time(&when, expires);
		fprintf(stderr,
			"weirctl: token %" PRId64
			" of %s%s, %s%.*s. It is shown this once.\n",
			id, user, j->admin ? ", an administrator" : "",
			expires ? "until " : "for ever", VIEW_ARG(buf_view(&when)));
		buf_release(&when);
	}
	return status;
}

static int token_add(struct job *j)
{
	const char *user = j->operands[0];
	unsigned char hash[crypto_hash_sha256_BYTES];
	char text[TOKEN_TEXT_MAX];
	int64_t expires;
	int there;

	if (j->label && !is_label(j->label))
		return job_fail(j,
			"--label \"%s\" does not do; write up to %d bytes of UTF-8 that "
			"are "
			"not all digits, which would look like an id",
			j->label, LABEL_MAX);
	if (!read_expires(j, &expires))
		return CTL_FAILED;
	there = job_exists(j, "SELECT 1 FROM users WHERE name = ?", user);
	if (there == 0)
		return job_fail(j,
			"there is no user \"%s\"; \"weirctl user add %s\" makes it", user,
			user);
	if (there < 0)
		return CTL_FAILED;
	if (sodium_init() < 0)
		return job_fail(j, "there is no source of random numbers");
	draw_token(text, hash);
	if (!job_run(j, NULL,
		    "INSERT INTO tokens (hash, user, label, admin, created, expires) "
		    "VALUES (?, ?, ?, ?, ?, nullif(?, 0))",
		    "bssiii", view_of((const char *)hash, sizeof(hash)), user,
		    j->label ? j->label : "", (int64_t)j->admin, j->now_s, expires))
		return CTL_FAILED;
	return print_token(j, text, sqlite3_last_insert_rowid(j->db), expires);
}

static int token_list(struct job *j)
{
	static const struct column columns[] = {
		{ "id", COLUMN_TEXT },
		{ "user", COLUMN_TEXT },
		{ "label", COLUMN_TEXT },
		{ "state", COLUMN_TEXT },
		{ "admin", COLUMN_FLAG },
		{ "created", COLUMN_TIME },
		{ "expires", COLUMN_TIME },
		{ "revoked", COLUMN_TIME },
	};

	if (j->user && job_exists(j, "SELECT 1 FROM users WHERE name = ?", j->user) == 0)
		return job_fail(j,
			"there is no user \"%s\"; \"weirctl user list\" shows them",
			j->user);
	return job_list(j,
		job_prepare(j,
			"SELECT t.id, t.user, t.label, CASE WHEN t.revoked IS NOT NULL "
			"THEN "
			"'revoked' WHEN t.expires <= ?1 THEN 'expired' WHEN u.disabled IS "
			"NOT NULL "
			"THEN 'disabled' ELSE 'valid' END, t.admin, t.created, t.expires, "
			"t.revoked "
			"FROM tokens AS t JOIN users AS u ON u.name = t.user "
			"WHERE ?2 IS NULL OR t.user = ?2 ORDER BY t.id",
			"is", j->now_s, j->user),
		columns, COUNT_OF(columns));
}

/* The ids of the tokens that are meant, as the message about them has them: "3 (alice)". */
static int find_by_label(struct job *j, const char *label, int64_t *id, struct buf *ids)
{
	sqlite3_stmt *s = job_prepare(j,
		"SELECT id, user FROM tokens WHERE label = ?1 AND label <> '' AND revoked "
		"IS NULL "
		"AND (?2 IS NULL OR user = ?2) ORDER BY id LIMIT 10",
		"ss", label, j->user);
	int n = 0;

	while (s && sqlite3_step(s) == SQLITE_ROW) {
		*id = sqlite3_column_int64(s, 0);
		buf_addf(ids, "%s%" PRId64 " (%s)", n++ ? ", " : "", *id,
			(const char *)sqlite3_column_text(s, 1));
	}
	sqlite3_finalize(s);
	return s ? n : -1;
}

/* 0 after saying why there is none. */
static int64_t find_token(struct job *j, const char *name)
{
	struct buf ids = { 0 };
	uint64_t number;
	int64_t id = 0;
	int n;

	if (view_number(view_str(name), INT64_MAX, &number)) {
		id = job_exists(j, "SELECT 1 FROM tokens WHERE id = CAST(? AS INTEGER)",
			     name) > 0
			? (int64_t)number
			: 0;
		if (!id)
			job_fail(j,
				"there is no token %s; \"weirctl token list\" shows them",
				name);
		return id;
	}
	n = find_by_label(j, name, &id, &ids);
	if (n == 0)
		job_fail(j,
			"no token has the label \"%s\" (or it is revoked); \"weirctl token "
			"list\" "
			"shows them",
			name);
	if (n > 1)
		job_fail(j, "several tokens have the label \"%s\": %s; name one by its id",
			name, buf_str(&ids) ? buf_str(&ids) : "");
	buf_release(&ids);
	return n == 1 ? id : 0;
}

static int token_revoke(struct job *j)
{
	int64_t id = find_token(j, j->operands[0]);
	int changes;

	if (!id)
		return CTL_FAILED;
	if (!job_run(j, &changes,
		    "UPDATE tokens SET revoked = ? WHERE id = ? AND revoked IS NULL", "ii",
		    j->now_s, id))
		return CTL_FAILED;
	return job_print(j, json_pack("{s:I, s:b}", "id", (json_int_t)id, "revoked", 1),
		"token %" PRId64 " %s", id,
		changes ? "is revoked; it counts for nothing once client.directory_ttl is "
			  "over"
			: "was revoked before");
}

static const struct verb verbs[] = {
	{ "add", "USER [--label TEXT] [--expires 30d|DATE] [--admin]", 1, 1, "lea",
		token_add },
	{ "list", "[--user USER]", 0, 0, "u", token_list },
	{ "revoke", "ID|LABEL [--user USER]", 1, 1, "u", token_revoke },
};

int command_token(struct ctl *ctl, int argc, char **argv)
{
	return directory_command(ctl, argc, argv, verbs, COUNT_OF(verbs));
}
