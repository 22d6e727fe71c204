#include "config/units.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit times[] = {
	{ "ms", 1 },
	{ "s", 1000 },
	{ "m", 60 * 1000 },
	{ "h", 60 * 60 * 1000 },
	{ "d", 24 * 60 * 60 * 1000 },
	{ "", 1000 },
};

static const struct unit sizes[] = {
	{ "K", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "", 1 },
};

/* A number and one of the units, whose letters may have any case. */
static bool read_in(
	const struct unit *units, size_t n, struct view text, uint64_t max, uint64_t *out)
{
	size_t digits = 0;
	uint64_t number;
	struct view unit;

	while (digits < text.n && text.p[digits] >= '0' && text.p[digits] <= '9')
		digits++;
	unit = view_skip(text, digits);
	for (size_t i = 0; i < n; i++) {
		if (!view_eq_nocase(unit, view_str(units[i].name)))
			continue;
		if (!view_number(view_of(text.p, digits), max / units[i].factor, &number))
			return false;
		*out = number * units[i].factor;
		return true;
	}
	return false;
}

bool unit_duration(struct view text, int64_t *out_ms)
{
	uint64_t ms;

	/* So far that the same in microseconds is below 2^53 too. */
	if (!read_in(times, COUNT_OF(times), text, EXACT_MAX / 1000 - 1, &ms))
		return false;
	*out_ms = (int64_t)ms;
	return true;
}

bool unit_size(struct view text, uint64_t *out_bytes)
{
	return read_in(sizes, COUNT_OF(sizes), text, EXACT_MAX, out_bytes);
}

bool unit_mode(struct view text, unsigned *out)
{
	unsigned sum = 0;

	if (text.n == 0 || text.n > 5)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '7')
			return false;
		sum = sum * 8 + (unsigned)(text.p[i] - '0');
	}
	if (sum > 07777)
		return false;
	*out = sum;
	return true;
}

bool unit_bool(struct view text, bool *out)
{
	static const char *const words[] = { "no", "yes", "off", "on", "false", "true" };

	for (size_t i = 0; i < COUNT_OF(words); i++) {
		if (view_eq_nocase(text, view_str(words[i]))) {
			*out = i % 2;
			return true;
		}
	}
	return false;
}

/* Seconds are kept up to two minutes, since 60s says more than 1m beside 90s. */
void unit_put_duration(struct buf *b, int64_t ms)
{
	if (ms % 1000)
		buf_addf(b, "%lldms", (long long)ms);
	else if (ms && ms % (3600 * 1000) == 0)
		buf_addf(b, "%lldh", (long long)ms / (3600 * 1000));
	else if (ms && ms % (60 * 1000) == 0 && ms >= 120 * 1000)
		buf_addf(b, "%lldm", (long long)ms / (60 * 1000));
	else
		buf_addf(b, "%llds", (long long)ms / 1000);
}

void unit_put_size(struct buf *b, uint64_t bytes)
{
	for (size_t i = 3; i-- > 0;) {
		if (bytes && bytes % sizes[i].factor == 0) {
			buf_add_u64(b, bytes / sizes[i].factor);
			buf_add_str(b, sizes[i].name);
			return;
		}
	}
	buf_add_u64(b, bytes);
}
