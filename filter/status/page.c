/*
 * status/page.c - one page that says what weir is doing.
 *
 * It stands by itself: no script, no picture, no second request. Headings and table
 * captions carry the structure, colours only repeat what words say, and it reads in
 * light and dark and on a telephone. What matters first comes first: is something
 * wrong, who is refused, then the rest.
 */
#include "status/page.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/counters.h"
#include "observe/metrics.h"

void page_escape(struct view text, struct buf *out)
{
	for (size_t i = 0; i < text.n; i++) {
		switch (text.p[i]) {
		case '&': buf_add_str(out, "&amp;"); break;
		case '<': buf_add_str(out, "&lt;"); break;
		case '>': buf_add_str(out, "&gt;"); break;
		case '"': buf_add_str(out, "&quot;"); break;
		case '\'': buf_add_str(out, "&#39;"); break;
		default: buf_add_byte(out, text.p[i]);
		}
	}
}

static void add_text(struct buf *out, const char *text)
{
	page_escape(view_str(text), out);
}

static const struct {
	struct view name;
	enum page page;
} places[] = {
	{ VIEW("/"), PAGE_HTML },
	{ VIEW("/metrics"), PAGE_METRICS },
	{ VIEW("/status.json"), PAGE_JSON },
};

enum page page_find(const char *script_name, const char *path_info, struct view *base)
{
	struct view script = view_str(script_name), info = view_str(path_info);

	*base = script;
	for (size_t i = 0; i < COUNT_OF(places); i++) {
		if (info.n && view_eq(info, places[i].name))
			return places[i].page;
		if (info.n || !view_ends(script, places[i].name))
			continue;
		base->n -= places[i].name.n;
		return places[i].page;
	}
	return info.n ? PAGE_UNKNOWN : PAGE_HTML;
}

/* A path as part of a link: what is not plain is percent-encoded, and two slashes in
 * front would name another host. */
static void add_path(struct buf *out, struct view path)
{
	while (path.n >= 2 && path.p[0] == '/' && path.p[1] == '/')
		path = view_skip(path, 1);
	for (size_t i = 0; i < path.n; i++) {
		unsigned char c = (unsigned char)path.p[i];

		if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
			(c >= 'a' && c <= 'z') || strchr("/-._~", c))
			buf_add_byte(out, (char)c);
		else
			buf_addf(out, "%%%02X", c);
	}
}

/* 1234567 as 1 234 567, with spaces that do not break. */
static void add_count(struct buf *out, int64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRId64, n);

	for (int i = 0; i < len; i++) {
		buf_add_byte(out, digits[i]);
		if (digits[i] != '-' && i + 1 < len && (len - i - 1) % 3 == 0)
			buf_add_str(out, "&#8239;");
	}
}

/* "3 days 4 hours": the two largest units that say something. */
static void add_duration(struct buf *out, int64_t seconds)
{
	static const struct {
		int64_t seconds;
		const char *name;
	} units[] = { { 86400, "day" }, { 3600, "hour" }, { 60, "minute" },
		{ 1, "second" } };
	int said = 0;

	for (size_t i = 0; i < COUNT_OF(units) && said < 2; i++) {
		int64_t n = seconds / units[i].seconds;

		if (n <= 0 && !said && i + 1 < COUNT_OF(units))
			continue;
		if (n > 0 || !said)
			buf_addf(out, "%s%" PRId64 " %s%s", said ? " " : "", n > 0 ? n : 0,
				units[i].name, n == 1 ? "" : "s");
		if (n > 0)
			seconds %= units[i].seconds;
		said++;
	}
}

static const char style[] =
	":root{color-scheme:light dark;--line:#8886;--bad:#b00020;--good:#1b6e3c}"
	"@media(prefers-color-scheme:dark){:root{--bad:#ff8a8a;--good:#7fd6a0}}"
	"body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:0 "
	"auto;padding:1rem}"
	"h1{font-size:1.6rem;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem}"
	"table{border-collapse:collapse;width:100%}caption{text-align:left;padding:.25rem "
	"0}"
	"th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-top:1px solid "
	"var(--line);vertical-align:top}"
	"thead th{border-top:0}.n{text-align:right;white-space:nowrap;"
	"font-variant-numeric:tabular-nums}"
	".bad{color:var(--bad);font-weight:600}.good{color:var(--good);font-weight:600}"
	"code{font-size:.9em}dl{display:grid;grid-template-columns:max-content 1fr;"
	"gap:.25rem 1rem;margin:0}dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}";

static void add_head(struct buf *out, const char *title)
{
	buf_add_str(out,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
		"<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, "
		"initial-scale=1\">\n"
		"<meta name=\"robots\" content=\"noindex\">\n<title>");
	add_text(out, title);
	buf_addf(out, "</title>\n<style>%s</style>\n</head>\n<body>\n", style);
}

static void add_foot(struct buf *out)
{
	buf_add_str(out, "</body>\n</html>\n");
}

static size_t workers_down(const json_t *workers)
{
	const json_t *worker;
	size_t i, down = 0;

	json_array_foreach(workers, i, worker)
		down += json_is_false(json_object_get(worker, "store_up"));
	return down;
}

/* The sentence on top: is something wrong? */
static void add_state(struct buf *out, const json_t *status)
{
	const json_t *workers = json_object_get(status, "workers");
	const json_t *process = json_object_get(status, "process");
	size_t down = workers_down(workers);

	if (down)
		buf_addf(out,
			"<p class=\"bad\">The store does not answer %zu of %zu workers. "
			"Meanwhile the fallback decides.</p>\n",
			down, json_array_size(workers));
	if (json_is_true(json_object_get(process, "reload_failed")))
		buf_add_str(out,
			"<p class=\"bad\">The last reload was not taken: the rules before "
			"it are in force. weir's log says why, <code>weirctl check</code> "
			"shows "
			"mistakes.</p>\n");
	if (!down && json_array_size(workers))
		buf_add_str(out,
			"<p class=\"good\">Serving; limits are counted in the "
			"store.</p>\n");
}

static void add_fact(struct buf *out, const char *term, const char *text)
{
	buf_add_str(out, "<dt>");
	add_text(out, term);
	buf_add_str(out, "</dt><dd>");
	add_text(out, text);
	buf_add_str(out, "</dd>\n");
}

static void add_process(struct buf *out, const json_t *process)
{
	buf_add_str(out, "<h2>Process</h2>\n<dl>\n");
	add_fact(out, "Version", metrics_str(process, "version", "unknown"));
	buf_add_str(out, "<dt>Running for</dt><dd>");
	add_duration(out, metrics_int(process, "uptime_seconds", 0));
	buf_addf(out, ", as process %" PRId64 "</dd>\n", metrics_int(process, "pid", 0));
	add_fact(out, "Started", metrics_str(process, "started_as", "unknown"));
	add_fact(out, "Configuration", metrics_str(process, "config_file", "unknown"));
	buf_add_str(out, "<dt>Rules read</dt><dd>");
	add_duration(out, metrics_int(process, "config_age_seconds", 0));
	buf_add_str(out, " ago</dd>\n");
	if (metrics_int(process, "resident_bytes", 0) > 0) {
		buf_add_str(out, "<dt>Memory</dt><dd>");
		add_count(out, metrics_int(process, "resident_bytes", 0) >> 10);
		buf_add_str(out, " KiB</dd>\n");
	}
	buf_add_str(out, "</dl>\n");
}

static void add_workers(struct buf *out, const json_t *workers)
{
	const json_t *worker;
	size_t i;

	buf_add_str(out,
		"<h2>Workers</h2>\n<table>\n<caption>Each is a thread that serves "
		"connections of its own.</caption>\n"
		"<thead><tr><th scope=\"col\">Worker</th>"
		"<th scope=\"col\" class=\"n\">Connections</th>"
		"<th scope=\"col\" class=\"n\">Requests</th>"
		"<th scope=\"col\">Store</th></tr></thead>\n<tbody>\n");
	json_array_foreach(workers, i, worker)
	{
		buf_addf(out, "<tr><th scope=\"row\">%zu</th><td class=\"n\">", i);
		add_count(out, metrics_int(worker, "connections_open", 0));
		buf_add_str(out, "</td><td class=\"n\">");
		add_count(out, metrics_int(worker, "exchanges_open", 0));
		buf_addf(out, "</td><td%s>",
			json_is_false(json_object_get(worker, "store_up"))
				? " class=\"bad\""
				: "");
		add_text(out, metrics_str(worker, "store", "unknown"));
		buf_add_str(out, "</td></tr>\n");
	}
	buf_add_str(out, "</tbody>\n</table>\n");
}

static void add_counter(struct buf *out, const json_t *counters, enum counter c)
{
	const struct counter_info *info = &counter_infos[c];

	if (!json_is_integer(json_object_get(counters, info->name)))
		return;
	buf_add_str(out, "<tr><td class=\"n\">");
	add_count(out, metrics_int(counters, info->name, 0));
	buf_add_str(out, "</td><td>");
	add_text(out, info->help);
	buf_addf(out, "<br><code>%s</code></td></tr>\n", info->name);
}

static void add_counters_head(struct buf *out, const char *title, const char *caption)
{
	buf_addf(out,
		"<h2>%s</h2>\n<table>\n<caption>%s</caption>\n<thead><tr>"
		"<th scope=\"col\" class=\"n\">Number</th><th scope=\"col\">What</th></tr>"
		"</thead>\n<tbody>\n",
		title, caption);
}

/* What was turned away, before the rest: it is what people come to look for. */
static const enum counter refusals[] = { COUNT_requests_refused, COUNT_requests_forbidden,
	COUNT_requests_unfit, COUNT_requests_uncounted, COUNT_requests_over_shadow,
	COUNT_requests_unmatched, COUNT_requests_oversized, COUNT_requests_bad,
	COUNT_requests_crowded_out, COUNT_spool_full, COUNT_spool_failures,
	COUNT_programs_refused, COUNT_programs_unstarted };

static bool is_refusal(enum counter c)
{
	for (size_t i = 0; i < COUNT_OF(refusals); i++) {
		if (refusals[i] == c)
			return true;
	}
	return false;
}

static void add_counters(struct buf *out, const json_t *counters)
{
	add_counters_head(out, "Refusals", "Since weir was started.");
	for (size_t i = 0; i < COUNT_OF(refusals); i++)
		add_counter(out, counters, refusals[i]);
	buf_add_str(out, "</tbody>\n</table>\n");
	add_counters_head(
		out, "Everything counted", "Open and running ones are as of now.");
	for (size_t i = 0; i < COUNTERS_N; i++) {
		if (!is_refusal((enum counter)i))
			add_counter(out, counters, (enum counter)i);
	}
	buf_add_str(out, "</tbody>\n</table>\n");
}

static void add_link(struct buf *out, struct view base, const char *name, const char *text)
{
	buf_add_str(out, "<a href=\"");
	add_path(out, base);
	buf_addf(out, "%s\">%s</a>", name, text);
}

void page_html(const json_t *status, struct view base, struct buf *out)
{
	add_head(out, "weir status");
	buf_add_str(out, "<header><h1>weir</h1>\n");
	add_state(out, status);
	buf_add_str(out, "</header>\n<main>\n");
	add_process(out, json_object_get(status, "process"));
	add_workers(out, json_object_get(status, "workers"));
	add_counters(out, json_object_get(status, "counters"));
	buf_add_str(out, "</main>\n<footer><p>The same for programs: ");
	add_link(out, base, "/metrics", "metrics for Prometheus");
	buf_add_str(out, ", ");
	add_link(out, base, "/status.json", "all of it as JSON");
	buf_add_str(out, ".</p></footer>\n");
	add_foot(out);
}

void page_html_down(struct view why, struct buf *out)
{
	add_head(out, "weir does not answer");
	buf_add_str(out,
		"<main>\n<h1>weir does not answer</h1>\n<p class=\"bad\" role=\"alert\">");
	page_escape(why, out);
	buf_add_str(out, ".</p>\n</main>\n");
	add_foot(out);
}
