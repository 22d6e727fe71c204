#include "limit/keys.h"

#include <sodium.h>

static bool is_plain(unsigned char c)
{
	return c > ' ' && c < 0x7f && !strchr("/:{}%*", c);
}

void key_put_text(struct buf *out, struct view text)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (is_plain(c)) {
			buf_add_byte(out, (char)c);
		} else {
			buf_add_byte(out, '%');
			buf_add_byte(out, digits[c >> 4]);
			buf_add_byte(out, digits[c & 15]);
		}
	}
}

static void put_hash(struct buf *out, struct view part)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(hash) + 1];

	crypto_hash_sha256(hash, (const unsigned char *)part.p, part.n);
	sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
	/* The slash keeps it apart from a part that spells a hash. */
	buf_add_str(out, "sha256/");
	buf_add_str(out, hex);
}

void key_put_part(struct buf *out, struct view part)
{
	if (part.n > KEY_PART_MAX)
		put_hash(out, part);
	else
		key_put_text(out, part);
}

void key_put_secret(struct buf *out, struct view part)
{
	if (part.n)
		put_hash(out, part);
}

static void put_place(struct buf *out, const char *place)
{
	if (place)
		key_put_part(out, view_str(place));
	else
		buf_add_byte(out, '*');
}

static void put_owner(struct buf *out, const struct key_parts *parts)
{
	if (parts->type == RULE_CUSTOM) {
		buf_add(out, parts->custom);
		return;
	}
	if (parts->type == RULE_USER && parts->user.n) {
		key_put_part(out, parts->user);
		return;
	}
	if (parts->type == RULE_USER)
		buf_add_str(out, "ip/");
	key_put_part(out, parts->address);
}

void key_put(struct buf *out, const char *prefix, const struct key_parts *parts)
{
	buf_add_str(out, prefix);
	buf_add_byte(out, ':');
	buf_add_str(out, rule_type_name(parts->type));
	buf_add_str(out, ":{");
	if (parts->type == RULE_GLOBAL) {
		put_place(out, parts->place);
	} else {
		put_owner(out, parts);
		buf_add_str(out, "}:");
		put_place(out, parts->place);
	}
	buf_add_str(out, parts->type == RULE_GLOBAL ? "}:" : ":");
	key_put_part(out, view_str(parts->rule));
	if (parts->way && parts->way[0]) {
		buf_add_byte(out, '/');
		key_put_text(out, view_str(parts->way));
	}
}
