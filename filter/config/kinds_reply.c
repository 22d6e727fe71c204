/*
 * config/kinds_reply.c - options that say what answers look like.
 */
#include <stdlib.h>

#include "base/utf8.h"
#include "config/kinds.h"
#include "config/words.h"

/* Free text, which goes into JSON. What stands in braces is a placeholder. */
static bool check_sentence(const struct option *o, struct view value, struct buf *why)
{
	static const struct view known = VIEW_INIT("retry_after}");
	struct view left = value;

	if (value.n == 0 || value.n > o->max) {
		buf_addf(why, "has %zu bytes; write 1 to %llu", value.n,
			(unsigned long long)o->max);
		return false;
	}
	if (!utf8_valid(value)) {
		buf_add_str(why, "is not UTF-8; save the file as UTF-8");
		return false;
	}
	while (view_cut(&left, '{'), left.p) {
		if (view_starts(left, known))
			continue;
		buf_add_str(why,
			"has a '{' that begins no placeholder; write {retry_after} "
			"or no brace");
		return false;
	}
	return true;
}

static bool read_sentence(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	(void)n;
	return check_sentence(o, value, why) && kind_keep_text(field, value, why);
}
const struct option_kind kind_sentence = { "SENTENCE", read_sentence, kind_release_text,
	NULL };

/* Letters and digits with hyphens between them (RFC 5646, section 2.1). Whether somebody
 * speaks it is not looked up. */
static bool is_language(struct view tag)
{
	while (tag.p) {
		struct view part = view_cut(&tag, '-');

		if (part.n == 0 || part.n > 8 || !word_is_name(part) ||
			memchr(part.p, '.', part.n) || memchr(part.p, '_', part.n))
			return false;
	}
	return true;
}

/* message.zh = sentence: one more element of the list. */
static bool read_localized(const struct option *o, void *field, size_t *n,
	struct view suffix, struct view value, struct buf *why)
{
	struct localized *list = *(struct localized **)field, *slot;

	if (!is_language(suffix)) {
		buf_addf(why,
			"is for \"%.*s\", which is no language tag; write message.zh or "
			"message.pt-BR",
			VIEW_ARG(suffix));
		return false;
	}
	for (size_t i = 0; i < *n; i++) {
		if (!view_eq_nocase(suffix, view_str(list[i].language)))
			continue;
		buf_addf(why, "is a second message for %s; write one", list[i].language);
		return false;
	}
	if (!check_sentence(o, value, why))
		return false;
	slot = kind_list_room(field, *n, sizeof(*slot), why);
	if (!slot || !kind_keep_text(&slot->language, suffix, why))
		return false;
	if (!kind_keep_text(&slot->text, value, why)) {
		free(slot->language);
		return false;
	}
	++*n;
	return true;
}

static void release_localized(void *field, size_t *n)
{
	struct localized *list = *(struct localized **)field;

	for (size_t i = 0; i < *n; i++) {
		free(list[i].language);
		free(list[i].text);
	}
	kind_release_list(field, n);
}
const struct option_kind kind_localized = { "SENTENCE", NULL, release_localized,
	read_localized };

/* It becomes a field's value as it is. */
static bool read_media_type(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct view rest = value, type = view_cut(&rest, '/');
	bool ok = type.n && rest.n && rest.p[0] != ';' && value.n <= o->max;

	(void)n;
	for (size_t i = 0; i < value.n && ok; i++)
		ok = value.p[i] >= ' ' && value.p[i] < 0x7f;
	if (!ok) {
		buf_add_str(why,
			"is not a media type; write application/json, text/html; "
			"charset=utf-8 or the like");
		return false;
	}
	return kind_keep_text(field, value, why);
}
const struct option_kind kind_media_type = { "TYPE/SUBTYPE", read_media_type,
	kind_release_text, NULL };
