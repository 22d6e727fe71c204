#include <criterion/criterion.h>

#include "config/units.h"

Test(units, a_duration_has_a_unit_or_is_in_seconds)
{
	static const struct {
		const char *text;
		int64_t ms;
		const char *again;
	} rows[] = {
		{ "50ms", 50, "50ms" },
		{ "0", 0, "0s" },
		{ "60", 60000, "60s" },
		{ "90s", 90000, "90s" },
		{ "1m", 60000, "60s" },
		{ "10m", 600000, "10m" },
		{ "1h", 3600000, "1h" },
		{ "60M", 3600000, "1h" },
		{ "7d", 604800000, "168h" },
		{ "1500ms", 1500, "1500ms" },
		{ "8999999999999ms", 8999999999999, "8999999999999ms" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf again = { 0 };
		int64_t ms = -1;

		cr_expect(unit_duration(view_str(rows[i].text), &ms), "%s", rows[i].text);
		cr_expect_eq(ms, rows[i].ms, "%s is %lld", rows[i].text, (long long)ms);
		unit_put_duration(&again, ms);
		cr_expect_str_eq(buf_str(&again), rows[i].again);
		buf_release(&again);
	}
}

Test(units, what_is_no_duration_is_refused)
{
	static const char *const texts[] = { "", "ms", "1 hr", "1hr", "0.5s", "-1", "+1",
		"1e3", "s10", "10 s", "0x10", "9999999999999999999999s", "9007199254741s",
		"1w" };
	int64_t ms = 7;

	for (size_t i = 0; i < COUNT_OF(texts); i++)
		cr_expect_not(unit_duration(view_str(texts[i]), &ms), "%s", texts[i]);
	cr_expect_eq(ms, 7);
}

Test(units, a_size_counts_in_powers_of_1024)
{
	static const struct {
		const char *text;
		uint64_t bytes;
		const char *again;
	} rows[] = {
		{ "0", 0, "0" },
		{ "65536", 65536, "64K" },
		{ "1000", 1000, "1000" },
		{ "64K", 65536, "64K" },
		{ "8m", 8388608, "8M" },
		{ "1G", 1073741824, "1G" },
		{ "1025M", UINT64_C(1025) << 20, "1025M" },
	};
	static const char *const wrong[] = { "", "K", "64 K", "64KB", "1.5G", "-1", "64T",
		"99999999999999999999", "9999999999G" };
	uint64_t bytes;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf again = { 0 };

		cr_expect(unit_size(view_str(rows[i].text), &bytes), "%s", rows[i].text);
		cr_expect_eq(bytes, rows[i].bytes, "%s", rows[i].text);
		unit_put_size(&again, bytes);
		cr_expect_str_eq(buf_str(&again), rows[i].again);
		buf_release(&again);
	}
	for (size_t i = 0; i < COUNT_OF(wrong); i++)
		cr_expect_not(unit_size(view_str(wrong[i]), &bytes), "%s", wrong[i]);
}

Test(units, a_mode_is_octal)
{
	static const struct {
		const char *text;
		bool ok;
		unsigned mode;
	} rows[] = {
		{ "0660", true, 0660 },
		{ "660", true, 0660 },
		{ "0", true, 0 },
		{ "07777", true, 07777 },
		{ "17777", false, 0 },
		{ "0800", false, 0 },
		{ "", false, 0 },
		{ "000660", false, 0 },
		{ "rw", false, 0 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		unsigned mode = 0;

		cr_expect_eq(unit_mode(view_str(rows[i].text), &mode), rows[i].ok, "%s",
			rows[i].text);
		cr_expect_eq(mode, rows[i].mode, "%s", rows[i].text);
	}
}

Test(units, yes_and_no_have_three_spellings)
{
	static const struct {
		const char *text;
		bool ok, value;
	} rows[] = {
		{ "yes", true, true },
		{ "ON", true, true },
		{ "True", true, true },
		{ "no", true, false },
		{ "off", true, false },
		{ "false", true, false },
		{ "1", false, false },
		{ "", false, false },
		{ "yess", false, false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		bool value = !rows[i].value;

		cr_expect_eq(unit_bool(view_str(rows[i].text), &value), rows[i].ok, "%s",
			rows[i].text);
		if (rows[i].ok)
			cr_expect_eq(value, rows[i].value, "%s", rows[i].text);
	}
}
