#include <criterion/criterion.h>
#include <stdio.h>

#include "proxy/reply_accept.h"

static char zh[] = "zh", zh_hant[] = "zh-Hant", de[] = "de", pt_br[] = "pt-BR", en[] = "en",
	    none[] = "";
static const struct localized list[] = {
	{ zh, none },
	{ zh_hant, none },
	{ de, none },
	{ pt_br, none },
};

static const char *chosen(const char *other, const char *accept)
{
	const struct localized *found = accept_language(
		list, COUNT_OF(list), other, view_str(accept));

	return found ? found->language : "-";
}

Test(reply_accept, the_language_that_fits_best_is_chosen)
{
	static const struct {
		const char *accept, *want; /* want "-": the message without a language */
	} rows[] = {
		{ "", "-" },
		{ "zh", "zh" },
		{ "ZH", "zh" },
		{ "  zh  ", "zh" },
		{ "fr", "-" },
		{ "fr, de", "de" },
		/* Falls back from the right. */
		{ "zh-CN", "zh" },
		{ "zh-Hans-CN", "zh" },
		{ "zh-Hant-TW", "zh-Hant" },
		{ "zh-hant", "zh-Hant" },
		{ "de-1996-x-private", "de" },
		{ "de-x-a-b-c", "de" },
		{ "zh-Hant-a-x-b", "zh-Hant" },
		{ "pt-BR-u-co-standard", "pt-BR" },
		{ "pt", "-" },
		{ "pt-PT", "-" },
		{ "x-zh", "-" },
		{ "zhx", "-" },
		{ "zh_CN", "-" },
		{ "-", "-" },
		{ "--", "-" },
		{ "-zh", "-" },
		{ "zh-", "zh" },
		{ "zh--CN", "zh" },
		/* By weight, then by order. */
		{ "de, zh", "de" },
		{ "de;q=0.5, zh", "zh" },
		{ "de;q=0.5, zh;q=0.7", "zh" },
		{ "de;q=0.501, zh;q=0.5", "de" },
		{ "zh-CN,zh;q=0.9,en;q=0.8", "zh" },
		{ "fr;q=1.0, pt-BR;Q=0.9 , de ; q=0.8", "pt-BR" },
		{ "de;q=0.001", "de" },
		/* Not at all. */
		{ "zh;q=0", "-" },
		{ "zh;q=0.000, de;q=0.1", "de" },
		{ "zh-CN, zh;q=0", "-" },
		{ "zh-Hant-TW, zh-Hant;q=0", "zh" },
		{ "zh;q=0, zh-Hant", "zh-Hant" },
		/* A * says nothing about which. */
		{ "*", "-" },
		{ "*, de;q=0.5", "de" },
		{ "fr, *;q=0.5", "-" },
		{ "*;q=0, de", "de" },
		{ "zh-*", "zh" },
		/* Malformed members count for nothing, the others for all. */
		{ "zh;q=2, de", "de" },
		{ "zh;q=1.001, de", "de" },
		{ "zh;q=0.1234, de;q=0.1", "de" },
		{ "zh;q=, de;q=0.1", "de" },
		{ "zh;q, de;q=0.1", "de" },
		{ "zh;q=-1, de;q=0.1", "de" },
		{ "zh;q=x, de;q=0.1", "de" },
		{ "zh;q=.5, de;q=0.1", "de" },
		{ "zh;q=00.5, de;q=0.1", "de" },
		{ "zh;q=1., de;q=0.9", "zh" },
		{ "zh;q=0., de;q=0.9", "de" },
		{ ",, ,zh,,", "zh" },
		{ ";q=1", "-" },
		{ "\"zh, de\"", "-" },
		{ "\"open, zh", "-" },
		{ "\xff\xfe, zh", "zh" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_str_eq(chosen(NULL, rows[i].accept), rows[i].want, "<%s>: %s",
			rows[i].accept, chosen(NULL, rows[i].accept));
}

Test(reply_accept, the_message_without_a_language_counts_as_the_one_it_is_known_to_be_in)
{
	static const struct {
		const char *other, *accept, *want;
	} rows[] = {
		{ en, "en-US,en;q=0.9,zh;q=0.8", "-" },
		{ NULL, "en-US,en;q=0.9,zh;q=0.8", "zh" }, { en, "zh,en;q=0.9", "zh" },
		{ en, "en;q=0, zh;q=0.1", "zh" },
		{ zh, "zh, de;q=0.5", "zh" }, /* the one with a language goes first */
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_str_eq(chosen(rows[i].other, rows[i].accept), rows[i].want,
			"<%s>", rows[i].accept);
	cr_assert_null(accept_language(NULL, 0, NULL, VIEW("zh")));
	cr_assert_null(accept_language(NULL, 0, en, VIEW("zh, en")));
	cr_assert_null(accept_language(list, COUNT_OF(list), NULL, view_of(NULL, 0)));
}

Test(reply_accept, only_the_first_members_are_looked_at)
{
	struct buf b = { 0 };

	for (int i = 0; i < ACCEPT_MEMBERS_MAX - 1; i++)
		buf_add_str(&b, "fr,");
	buf_add_str(&b, "de,");
	cr_assert_str_eq(chosen(NULL, buf_str(&b)), "de");
	buf_add_str(&b, "zh;q=1");
	cr_assert_str_eq(chosen(NULL, buf_str(&b)), "de");
	buf_reset(&b);
	for (int i = 0; i < ACCEPT_MEMBERS_MAX; i++)
		buf_add_str(&b, "fr,");
	buf_add_str(&b, "de");
	cr_assert_str_eq(chosen(NULL, buf_str(&b)), "-");
	buf_release(&b);
}

/* Many of the largest heads there are; work that grew with the square of the length
 * would show as minutes. */
Test(reply_accept, a_field_as_long_as_a_head_is_read_once, .timeout = 60)
{
	static const char *const pieces[] = { "a-", "-", ",", ";", "\"", "\\", "zh-",
		"q=1;", "*", "zh;q=0,", "x-a-" };
	struct buf b = { 0 };

	for (size_t i = 0; i < COUNT_OF(pieces); i++) {
		buf_reset(&b);
		while (b.n < 65536)
			buf_add_str(&b, pieces[i]);
		for (int n = 0; n < 100; n++) {
			cr_assert_str_eq(chosen(NULL, buf_str(&b)), "-", "%s", pieces[i]);
			cr_assert_not(accept_problem_json(buf_view(&b)));
		}
	}
	buf_release(&b);
}

Test(reply_accept, problem_details_are_for_who_names_them)
{
	static const struct {
		const char *accept;
		bool want;
	} rows[] = {
		{ "", false },
		{ "*/*", false },
		{ "application/*", false },
		{ "application/json", false },
		{ "text/html,application/xhtml+xml,*/*;q=0.8", false },
		{ "application/problem+json", true },
		{ "Application/Problem+JSON", true },
		{ "application/problem+json;charset=utf-8", true },
		{ "application/problem+json ; q=0.1, */*", true },
		{ "application/problem+json, application/json", true },
		{ "application/json, application/problem+json", true },
		{ "application/json;q=0.9, application/problem+json", true },
		{ "application/json, application/problem+json;q=0.9", false },
		{ "application/problem+json;q=0", false },
		{ "application/problem+json;q=7", false },
		{ "application/problem+jsonx", false },
		{ "application/problem+xml", false },
		{ "a;x=\"application/problem+json\"", false },
		{ "a;x=\",application/problem+json,\"", false },
		{ "a;x=\"\\\",\", application/problem+json", true },
		{ "application/problem+json;x=\"a,b;q=0\";q=0.5", true },
		{ "application/problem+json;x=\"a,b;q=1\";q=0", false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_expect_eq(accept_problem_json(view_str(rows[i].accept)), rows[i].want,
			"<%s>", rows[i].accept);
}
