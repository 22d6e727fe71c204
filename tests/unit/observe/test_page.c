/* The status page: which answer a path is for, and that nothing in it comes alive. */
#include <criterion/criterion.h>

#include "base/counters.h"
#include "status/page.h"

Test(page, the_path_decides_wherever_the_program_is_mounted)
{
	static const struct {
		const char *script_name, *path_info;
		enum page page;
		const char *base;
	} rows[] = {
		/* Servers that split the path. */
		{ "/weir", "/", PAGE_HTML, "/weir" },
		{ "/weir", "/metrics", PAGE_METRICS, "/weir" },
		{ "/weir", "/status.json", PAGE_JSON, "/weir" },
		{ "/weir", "/other", PAGE_UNKNOWN, "/weir" },
		{ "/weir", "/metrics/", PAGE_UNKNOWN, "/weir" },
		{ "/weir", "/x/metrics", PAGE_UNKNOWN, "/weir" },
		{ "", "/metrics", PAGE_METRICS, "" },
		{ "", "/favicon.ico", PAGE_UNKNOWN, "" },
		{ NULL, "/status.json", PAGE_JSON, "" },
		{ "/weir", "", PAGE_HTML, "/weir" },
		{ "/cgi-bin/weir-status", NULL, PAGE_HTML, "/cgi-bin/weir-status" },
		/* Servers that do not. */
		{ "/weir/metrics", NULL, PAGE_METRICS, "/weir" },
		{ "/weir/status.json", "", PAGE_JSON, "/weir" },
		{ "/weir/", "", PAGE_HTML, "/weir" },
		{ "/metrics", NULL, PAGE_METRICS, "" },
		{ "/", NULL, PAGE_HTML, "" },
		{ "", "", PAGE_HTML, "" },
		{ NULL, NULL, PAGE_HTML, "" },
		{ "/weirmetrics", NULL, PAGE_HTML, "/weirmetrics" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct view base;

		cr_assert_eq(page_find(rows[i].script_name, rows[i].path_info, &base),
			rows[i].page, "row %zu", i);
		cr_assert(view_eq(base, view_str(rows[i].base)), "row %zu: base %.*s", i,
			VIEW_ARG(base));
	}
}

Test(page, text_stays_text)
{
	struct buf b = { 0 };

	page_escape(VIEW("<a href=\"x\" b='y'>&amp;</a>"), &b);
	cr_assert_str_eq(buf_str(&b),
		"&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;"
		"&lt;/a&gt;");
	buf_release(&b);
}

static void draw(const char *status, const char *base, struct buf *out)
{
	json_error_t wrong;
	json_t *o = json_loads(status, 0, &wrong);

	cr_assert(o, "%s", wrong.text);
	page_html(o, view_str(base), out);
	json_decref(o);
	cr_assert_not_null(buf_str(out));
}

static void expect(struct buf *b, const char *part)
{
	cr_assert(strstr(buf_str(b), part), "no %s in %s", part, buf_str(b));
}

Test(page, it_shows_process_workers_store_and_counters_with_their_sentences)
{
	struct buf b = { 0 };

	draw("{\"process\":{\"version\":\"1.2.3\",\"pid\":77,\"uptime_seconds\":93784,"
	     "\"config_file\":\"/etc/weir/weir.ini\",\"started_as\":\"on descriptor 0\"},"
	     "\"workers\":[{\"connections_open\":12,\"exchanges_open\":3,\"store\":"
	     "\"redis\",\"store_up\":true}],\"counters\":{\"requests\":1234567,"
	     "\"requests_refused\":42}}",
		"/weir", &b);
	expect(&b, "<dd>1.2.3</dd>");
	expect(&b, "<dd>1 day 2 hours, as process 77</dd>");
	expect(&b, "<dd>/etc/weir/weir.ini</dd>");
	expect(&b, "<dd>on descriptor 0</dd>");
	expect(&b, "<td class=\"n\">12</td><td class=\"n\">3</td><td>redis</td>");
	expect(&b, "1&#8239;234&#8239;567</td><td>Requests whose head arrived whole.");
	expect(&b, "42</td><td>Requests refused because a limit was reached (429).");
	expect(&b, "Serving; limits are counted in the store.");
	expect(&b, "<a href=\"/weir/metrics\">");
	expect(&b, "<a href=\"/weir/status.json\">");
	buf_release(&b);
}

Test(page, every_counter_is_shown_once)
{
	json_t *counters = json_object();
	json_t *status = json_pack("{s:o}", "counters", counters);
	struct buf b = { 0 }, code = { 0 };

	for (size_t i = 0; i < COUNTERS_N; i++)
		json_object_set_new(counters, counter_infos[i].name, json_integer(0));
	page_html(status, VIEW(""), &b);
	json_decref(status);
	for (size_t i = 0; i < COUNTERS_N; i++) {
		const char *first;

		buf_reset(&code);
		buf_addf(&code, "<code>%s</code>", counter_infos[i].name);
		first = strstr(buf_str(&b), buf_str(&code));
		cr_assert(first, "%s", counter_infos[i].name);
		cr_assert_null(strstr(first + 1, buf_str(&code)));
	}
	buf_release(&b);
	buf_release(&code);
}

/* Those whose sentence names a status that weir gives of its own accord. */
Test(page, whatever_is_refused_is_among_the_refusals)
{
	json_t *counters = json_object();
	json_t *status = json_pack("{s:o}", "counters", counters);
	struct buf b = { 0 }, code = { 0 };
	const char *end;
	size_t n = 0;

	for (size_t i = 0; i < COUNTERS_N; i++)
		json_object_set_new(counters, counter_infos[i].name, json_integer(0));
	page_html(status, VIEW(""), &b);
	json_decref(status);
	end = strstr(buf_str(&b), "Everything counted");
	cr_assert(end);
	for (size_t i = 0; i < COUNTERS_N; i++) {
		const char *help = counter_infos[i].help;

		if (!strstr(help, "(4") && !strstr(help, "(503)"))
			continue;
		buf_reset(&code);
		buf_addf(&code, "<code>%s</code>", counter_infos[i].name);
		cr_expect(strstr(buf_str(&b), buf_str(&code)) < end, "%s",
			counter_infos[i].name);
		n++;
	}
	cr_assert_geq(n, 12);
	buf_release(&b);
	buf_release(&code);
}

Test(page, what_is_wrong_is_said_on_top)
{
	struct buf b = { 0 };

	draw("{\"process\":{\"reload_failed\":true},\"workers\":["
	     "{\"store\":\"redis\",\"store_up\":true},"
	     "{\"store\":\"redis (down: late)\",\"store_up\":false}]}",
		"", &b);
	expect(&b, "The store does not answer 1 of 2 workers.");
	expect(&b, "The last reload was not taken");
	expect(&b, "<td class=\"bad\">redis (down: late)</td>");
	cr_assert_null(strstr(buf_str(&b), "Serving;"));
	buf_release(&b);
}

Test(page, no_text_from_anywhere_becomes_markup)
{
	struct buf b = { 0 };

	draw("{\"process\":{\"version\":\"<x>\",\"config_file\":\"<x>\",\"started_as\":"
	     "\"<x>\"},\"workers\":[{\"store\":\"<x>\"}],\"counters\":{\"<x>\":1,"
	     "\"requests\":\"<x>\"}}",
		"//evil.example/<x>\"' onclick=", &b);
	cr_assert_null(strstr(buf_str(&b), "<x>"));
	expect(&b, "href=\"/evil.example/%3Cx%3E%22%27%20onclick%3D/metrics\"");
	buf_release(&b);
}

Test(page, a_status_that_lacks_everything_is_still_a_page)
{
	static const char *const rows[] = { "{}", "[]",
		"{\"process\":5,\"workers\":{\"a\":1},\"counters\":[]}",
		"{\"workers\":[5,null,[]]}" };

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf b = { 0 };

		draw(rows[i], "", &b);
		cr_assert(view_starts(buf_view(&b), VIEW("<!DOCTYPE html>\n")));
		expect(&b, "</html>\n");
		buf_release(&b);
	}
}

Test(page, durations_are_two_units_and_in_the_singular_where_it_is_one)
{
	static const struct {
		const char *seconds, *want;
	} rows[] = {
		{ "0", "<dd>0 seconds," },
		{ "1", "<dd>1 second," },
		{ "59", "<dd>59 seconds," },
		{ "60", "<dd>1 minute," },
		{ "3599", "<dd>59 minutes 59 seconds," },
		{ "3605", "<dd>1 hour," },
		{ "86400", "<dd>1 day," },
		{ "90061", "<dd>1 day 1 hour," },
		{ "864000", "<dd>10 days," },
		{ "-5", "<dd>0 seconds," },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf b = { 0 }, status = { 0 };

		buf_addf(&status, "{\"process\":{\"uptime_seconds\":%s}}", rows[i].seconds);
		draw(buf_str(&status), "", &b);
		expect(&b, rows[i].want);
		buf_release(&b);
		buf_release(&status);
	}
}

Test(page, a_weir_that_does_not_answer_has_a_page_that_says_why)
{
	struct buf b = { 0 };

	page_html_down(VIEW("there is no /run/<weir>"), &b);
	expect(&b, "<h1>weir does not answer</h1>");
	expect(&b, "there is no /run/&lt;weir&gt;");
	buf_release(&b);
}
