/*
 * config/kinds.c - one reader for each sort of value.
 *
 * Each reads the whole value or says what would do. Lists grow by one element a
 * call; everything else is read once.
 */
#include "config/kinds.h"

#include <stdlib.h>

#include "config/pattern.h"
#include "config/units.h"
#include "config/words.h"

static bool same_number(const void *a, const size_t *n_a, const void *b, const size_t *n_b)
{
	(void)n_a;
	(void)n_b;
	return memcmp(a, b, sizeof(uint64_t)) == 0;
}

static bool read_number(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	uint64_t number;

	(void)n;
	if (!view_number(value, UINT64_MAX, &number)) {
		buf_addf(why, "is not a number; write one from %llu to %llu, such as %s",
			(unsigned long long)o->min, (unsigned long long)o->max, o->def);
		return false;
	}
	if (number < o->min || number > o->max) {
		buf_addf(why, "is too %s; write a number from %llu to %llu",
			number < o->min ? "small" : "large", (unsigned long long)o->min,
			(unsigned long long)o->max);
		return false;
	}
	memcpy(field, &number, sizeof(number));
	return true;
}
const struct option_kind kind_number = { "NUMBER", read_number, NULL, NULL, same_number };

static bool read_auto(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	uint64_t none = 0;

	if (view_eq_nocase(value, VIEW("auto"))) {
		memcpy(field, &none, sizeof(none));
		return true;
	}
	if (view_number(value, UINT64_MAX, &none) && none > 0)
		return read_number(o, field, n, value, why);
	buf_addf(why, "is not a number; write auto, or 1 to %llu",
		(unsigned long long)o->max);
	return false;
}
const struct option_kind kind_auto = { "auto|NUMBER", read_auto, NULL, NULL, same_number };

static void say_between(const struct option *o, void (*put)(struct buf *, uint64_t),
	bool small, struct buf *why)
{
	buf_addf(why, "is too %s; write ", small ? "small" : "large");
	put(why, o->min);
	buf_add_str(why, " to ");
	put(why, o->max);
}

static bool read_size(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	uint64_t bytes;

	(void)n;
	if (!unit_size(value, &bytes)) {
		buf_add_str(why, "is not a size; write 65536, 64K, 8M or 1G");
		return false;
	}
	if (bytes < o->min || bytes > o->max) {
		say_between(o, unit_put_size, bytes < o->min, why);
		return false;
	}
	memcpy(field, &bytes, sizeof(bytes));
	return true;
}
const struct option_kind kind_size = { "SIZE", read_size, NULL, NULL, same_number };

static void put_ms(struct buf *b, uint64_t ms)
{
	unit_put_duration(b, (int64_t)ms);
}

static bool read_ms(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	int64_t ms;

	(void)n;
	if (!unit_duration(value, &ms)) {
		buf_add_str(why, "is not a duration; write 50ms, 10s, 5m or 1h");
		return false;
	}
	if ((uint64_t)ms < o->min || (uint64_t)ms > o->max) {
		say_between(o, put_ms, (uint64_t)ms < o->min, why);
		return false;
	}
	memcpy(field, &ms, sizeof(ms));
	return true;
}
const struct option_kind kind_ms = { "DURATION", read_ms, NULL, NULL, same_number };

static bool read_bool(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	(void)o;
	(void)n;
	if (unit_bool(value, field))
		return true;
	buf_add_str(why, "is neither yes nor no; write yes or no");
	return false;
}
const struct option_kind kind_bool = { "yes|no", read_bool, NULL, NULL };

static bool same_word(const void *a, const size_t *n_a, const void *b, const size_t *n_b)
{
	(void)n_a;
	(void)n_b;
	return memcmp(a, b, sizeof(unsigned)) == 0;
}

static bool read_enum(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	const struct option_word *w;

	(void)n;
	for (w = o->words; w->name; w++) {
		if (view_eq_nocase(value, view_str(w->name))) {
			memcpy(field, &w->value, sizeof(w->value));
			return true;
		}
	}
	buf_add_str(why, "is not known here; write ");
	for (w = o->words; w->name; w++)
		buf_addf(why, "%s%s",
			w == o->words       ? ""
				: w[1].name ? ", "
					    : " or ",
			w->name);
	return false;
}
const struct option_kind kind_enum = { NULL, read_enum, NULL, NULL, same_word };

static bool read_mode(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	unsigned mode;

	(void)n;
	if (!unit_mode(value, &mode) || mode > o->max) {
		buf_add_str(
			why, "is not a file mode; write four octal digits, such as 0660");
		return false;
	}
	memcpy(field, &mode, sizeof(mode));
	return true;
}
const struct option_kind kind_mode = { "OCTAL", read_mode, NULL, NULL, same_word };

/* COUNT/WINDOW, where the window may be a unit alone: 1000/s is 1000/1s. It becomes a
 * bucket, which needs no memory per request. */
static bool read_rate(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	struct view window = value, count = view_trim(view_cut(&window, '/'));
	struct rate rate = { .algorithm = RATE_TOKEN_BUCKET };
	struct buf one = { 0 };
	int64_t ms = 0;
	bool ok;

	(void)o;
	(void)n;
	window = view_trim(window);
	if (window.n && (window.p[0] < '0' || window.p[0] > '9'))
		buf_add_byte(&one, '1');
	buf_add(&one, window);
	ok = view_number(count, EXACT_MAX, &rate.count) && buf_ok(&one) &&
		unit_duration(buf_view(&one), &ms);
	buf_release(&one);
	if (!ok || rate.count == 0 || ms == 0) {
		buf_add_str(why, "is not a rate; write 1000/s, 600/m or 50/10s");
		return false;
	}
	rate.window_us = ms * 1000;
	rate.burst = rate.count;
	if (rate.burst >= EXACT_MAX / (uint64_t)rate.window_us) {
		buf_addf(why,
			"is more than can be counted exactly; write at most %llu in that "
			"time",
			(unsigned long long)(EXACT_MAX / (uint64_t)rate.window_us - 1));
		return false;
	}
	*(struct rate *)field = rate;
	return true;
}

static bool same_rate(const void *a, const size_t *n_a, const void *b, const size_t *n_b)
{
	(void)n_a;
	(void)n_b;
	return memcmp(a, b, sizeof(struct rate)) == 0;
}
const struct option_kind kind_rate = { "COUNT/TIME", read_rate, NULL, NULL, same_rate };

void kind_release_text(void *field, size_t *n)
{
	char **text = field;

	(void)n;
	free(*text);
	*text = NULL;
}

bool kind_keep_text(void *field, struct view value, struct buf *why)
{
	char *text = strndup(value.p ? value.p : "", value.n);

	if (!text) {
		why->failed = true;
		return false;
	}
	*(char **)field = text;
	return true;
}

bool kind_same_text(const void *a, const size_t *n_a, const void *b, const size_t *n_b)
{
	(void)n_a;
	(void)n_b;
	return text_eq(*(char *const *)a, *(char *const *)b);
}

static bool read_text(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	(void)o;
	(void)n;
	return kind_keep_text(field, value, why);
}
const struct option_kind kind_text = { "TEXT", read_text, kind_release_text, NULL,
	kind_same_text };

/* Part of names elsewhere: of keys in Redis, users, groups, backends. */
static bool read_name(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	(void)n;
	if (value.n < o->min || value.n > o->max || (value.n && !word_is_name(value))) {
		buf_addf(why, "is not a name; write %sup to %llu letters, digits and _ . -",
			o->min ? "" : "nothing, or ", (unsigned long long)o->max);
		return false;
	}
	return kind_keep_text(field, value, why);
}
const struct option_kind kind_name = { "NAME", read_name, kind_release_text, NULL,
	kind_same_text };

static bool read_path(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	(void)o;
	(void)n;
	if (value.n == 0 || value.p[0] != '/') {
		buf_add_str(why, "is not an absolute path; write one that begins with '/'");
		return false;
	}
	return kind_keep_text(field, value, why);
}
const struct option_kind kind_path = { "DIRECTORY", read_path, kind_release_text, NULL,
	kind_same_text };

static bool read_prefix(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	(void)o;
	(void)n;
	/* "/" takes nothing away, as none does. */
	if (value.n == 0 || view_eq(value, VIEW("/")))
		return kind_keep_text(field, VIEW(""), why);
	return pattern_path_check(value, why) && kind_keep_text(field, value, why);
}
const struct option_kind kind_prefix = { "PATH", read_prefix, kind_release_text, NULL };

/* Makes room for one more element; returns it, not yet counted. */
void *kind_list_room(void *field, size_t n, size_t size, struct buf *why)
{
	void **list = field, *grown = realloc(*list, (n + 1) * size);

	if (!grown) {
		why->failed = true;
		return NULL;
	}
	*list = grown;
	return (char *)grown + n * size;
}

void kind_release_list(void *field, size_t *n)
{
	void **list = field;

	free(*list);
	*list = NULL;
	*n = 0;
}

static bool read_texts(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	char **slot;

	(void)o;
	if (value.n == 0)
		return true;
	slot = kind_list_room(field, *n, sizeof(*slot), why);
	if (!slot || !kind_keep_text(slot, value, why))
		return false;
	++*n;
	return true;
}

static void release_texts(void *field, size_t *n)
{
	char **list = *(char ***)field;

	for (size_t i = 0; i < *n; i++)
		free(list[i]);
	kind_release_list(field, n);
}
const struct option_kind kind_texts = { "FILES", read_texts, release_texts, NULL };

static bool read_prefixes(
	const struct option *o, void *field, size_t *n, struct view value, struct buf *why)
{
	/* "/" takes nothing away, as none does. */
	if (view_eq(value, VIEW("/")))
		return true;
	return (value.n == 0 || pattern_path_check(value, why)) &&
		read_texts(o, field, n, value, why);
}
const struct option_kind kind_prefixes = { "PATH", read_prefixes, release_texts, NULL };
