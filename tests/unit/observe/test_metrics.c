/* What was counted, as JSON and as Prometheus text. */
#include <criterion/criterion.h>

#include "observe/metrics.h"

static json_t *parse(const char *text)
{
	json_error_t wrong;
	json_t *o = json_loads(text, 0, &wrong);

	cr_assert(o, "%s: %s", wrong.text, text);
	return o;
}

/* The Prometheus text of a status object written as JSON. */
static void render(const char *status, struct buf *out)
{
	json_t *o = parse(status);

	metrics_prometheus(o, out);
	json_decref(o);
	cr_assert_not_null(buf_str(out));
}

Test(metrics, every_counter_is_in_the_object_by_its_name)
{
	int64_t values[COUNTERS_N];
	json_t *o;

	for (size_t i = 0; i < COUNTERS_N; i++)
		values[i] = (int64_t)i * 1000003;
	values[COUNT_requests] = INT64_MAX;
	o = metrics_counters(values);
	cr_assert_eq(json_object_size(o), COUNTERS_N);
	for (size_t i = 0; i < COUNTERS_N; i++)
		cr_assert_eq(metrics_int(o, counter_infos[i].name, -1), values[i], "%s",
			counter_infos[i].name);
	json_decref(o);
}

Test(metrics, counters_get_total_and_gauges_do_not)
{
	struct buf b = { 0 };

	render("{\"counters\":{\"requests\":120,\"connections_open\":3}}", &b);
	cr_assert_str_eq(buf_str(&b),
		"# HELP weir_connections_open Connections from web servers that are open "
		"now.\n"
		"# TYPE weir_connections_open gauge\n"
		"weir_connections_open 3\n"
		"# HELP weir_requests_total Requests whose head arrived whole.\n"
		"# TYPE weir_requests_total counter\n"
		"weir_requests_total 120\n");
	buf_release(&b);
}

Test(metrics, the_process_and_each_worker_have_their_samples)
{
	static const char *const lines[] = {
		"weir_info{version=\"1.2.3\"} 1\n",
		"# TYPE weir_uptime_seconds gauge\nweir_uptime_seconds 77\n",
		"weir_start_time_seconds 1700000000\n",
		"weir_config_age_seconds 5\n",
		"weir_config_reload_failed 1\n",
		"weir_resident_bytes 4096\n",
		"weir_workers 2\n",
		"# TYPE weir_worker_connections_open gauge\n",
		"weir_worker_connections_open{worker=\"0\"} 3\n",
		"weir_worker_connections_open{worker=\"1\"} 4\n",
		"weir_worker_exchanges_open{worker=\"0\"} 1\n",
		"weir_worker_store_up{worker=\"0\"} 1\n",
		"weir_worker_store_up{worker=\"1\"} 0\n",
	};
	struct buf b = { 0 };

	render("{\"process\":{\"version\":\"1.2.3\",\"uptime_seconds\":77,"
	       "\"started_at\":1700000000,\"config_age_seconds\":5,"
	       "\"reload_failed\":true,\"resident_bytes\":4096},\"workers\":["
	       "{\"connections_open\":3,\"exchanges_open\":1,\"store_up\":true},"
	       "{\"connections_open\":4,\"exchanges_open\":0,\"store_up\":false}]}",
		&b);
	for (size_t i = 0; i < COUNT_OF(lines); i++)
		cr_assert(strstr(buf_str(&b), lines[i]), "no %s in %s", lines[i],
			buf_str(&b));
	buf_release(&b);
}

Test(metrics, a_family_is_introduced_once)
{
	struct buf b = { 0 };
	const char *first;

	render("{\"workers\":[{\"exchanges_open\":1},{\"exchanges_open\":1}]}", &b);
	first = strstr(buf_str(&b), "# TYPE weir_worker_exchanges_open ");
	cr_assert_not_null(first);
	cr_assert_null(strstr(first + 1, "# TYPE weir_worker_exchanges_open "));
	buf_release(&b);
}

Test(metrics, what_could_break_a_label_is_escaped)
{
	struct buf b = { 0 };

	render("{\"process\":{\"version\":\"a\\\"b\\\\c\\nd\"}}", &b);
	cr_assert(strstr(buf_str(&b), "weir_info{version=\"a\\\"b\\\\c\\nd\"} 1\n"), "%s",
		buf_str(&b));
	buf_release(&b);
}

Test(metrics, what_is_missing_or_strange_is_left_out_and_not_called_zero)
{
	static const char *const rows[] = {
		"{}",
		"[]",
		"{\"counters\":[1,2]}",
		"{\"counters\":{\"requests\":\"many\",\"connections\":null}}",
		"{\"counters\":{\"unheard_of\":5}}",
		"{\"workers\":{\"a\":1},\"totals\":7}",
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf b = { 0 };

		render(rows[i], &b);
		cr_assert_eq(b.n, 0, "%s gives %s", rows[i], buf_str(&b));
		buf_release(&b);
	}
}

Test(metrics, every_line_of_a_full_status_is_in_the_format)
{
	int64_t values[COUNTERS_N] = { 0 };
	json_t *status = json_pack("{s:o}", "counters", metrics_counters(values));
	struct buf b = { 0 };
	struct view left;
	size_t samples = 0;

	metrics_prometheus(status, &b);
	json_decref(status);
	left = buf_view(&b);
	cr_assert_eq(left.p[left.n - 1], '\n');
	while (left.n) {
		struct view line = view_cut(&left, '\n'), name, value = line;
		uint64_t number;

		if (view_starts(line, VIEW("# HELP weir_")) ||
			view_starts(line, VIEW("# TYPE weir_")))
			continue;
		name = view_cut(&value, ' ');
		cr_assert(view_starts(name, VIEW("weir_")), "%.*s", VIEW_ARG(line));
		cr_assert(view_number(value, UINT64_MAX, &number), "%.*s", VIEW_ARG(line));
		samples++;
	}
	cr_assert_eq(samples, COUNTERS_N);
	buf_release(&b);
}

Test(metrics, bytes_that_are_no_utf8_still_become_a_string)
{
	static const struct {
		struct view bytes;
		const char *want;
	} rows[] = {
		{ VIEW("plain"), "plain" },
		{ VIEW(""), "" },
		{ VIEW("\xe8\xb0\x83"), "\xe8\xb0\x83" },
		{ VIEW("a\xff"
		       "b"),
			"a?b" },
		{ VIEW("\xe8\xb0"), "??" },
		{ VIEW("\xc0\xaf"), "??" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		json_t *s = metrics_string(rows[i].bytes);

		cr_assert_str_eq(json_string_value(s), rows[i].want, "row %zu", i);
		json_decref(s);
	}
	json_decref(metrics_string(view_str(NULL)));
}

Test(metrics, members_have_a_default)
{
	json_t *o = parse("{\"n\":5,\"s\":\"x\",\"b\":true}");

	cr_assert_eq(metrics_int(o, "n", -1), 5);
	cr_assert_eq(metrics_int(o, "s", -1), -1);
	cr_assert_eq(metrics_int(NULL, "n", -1), -1);
	cr_assert_str_eq(metrics_str(o, "s", "-"), "x");
	cr_assert_str_eq(metrics_str(o, "n", "-"), "-");
	cr_assert_str_eq(metrics_str(NULL, "s", "-"), "-");
	json_decref(o);
}
