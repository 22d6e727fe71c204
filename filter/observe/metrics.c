/*
 * observe/metrics.c - counters as JSON, and a status object as Prometheus text.
 *
 * Names follow the Prometheus conventions: a prefix, base units, "_total" on what only
 * rises. HELP is the sentence of base/counters.h.
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 */
#include "observe/metrics.h"

#include <inttypes.h>
#include <stdlib.h>

json_t *metrics_string(struct view bytes)
{
	json_t *text = json_stringn(bytes.p ? bytes.p : "", bytes.n);
	char *ascii;

	if (text)
		return text;
	ascii = malloc(bytes.n + 1);
	if (!ascii)
		return NULL;
	for (size_t i = 0; i < bytes.n; i++)
		ascii[i] = (unsigned char)bytes.p[i] < 0x80 ? bytes.p[i] : '?';
	text = json_stringn(ascii, bytes.n);
	free(ascii);
	return text;
}

int64_t metrics_int(const json_t *object, const char *member, int64_t otherwise)
{
	const json_t *value = json_object_get(object, member);

	return json_is_integer(value) ? (int64_t)json_integer_value(value) : otherwise;
}

const char *metrics_str(const json_t *object, const char *member, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, member));

	return text ? text : otherwise;
}

json_t *metrics_counters(const int64_t values[COUNTERS_N])
{
	json_t *all = json_object();

	for (size_t i = 0; all && i < COUNTERS_N; i++) {
		if (json_object_set_new(
			    all, counter_infos[i].name, json_integer(values[i])) == 0)
			continue;
		json_decref(all);
		all = NULL;
	}
	return all;
}

/* Inside a HELP line, and between the quotes of a label. */
static void add_escaped(struct buf *out, const char *text, bool label)
{
	for (; *text; text++) {
		if (*text == '\n')
			buf_add_str(out, "\\n");
		else if (*text == '\\' || (label && *text == '"'))
			buf_addf(out, "\\%c", *text);
		else
			buf_add_byte(out, *text);
	}
}

/* What introduces a family of samples. total is "_total" or "". */
static void add_family(struct buf *out, const char *name, const char *total,
	const char *help, const char *kind)
{
	buf_addf(out, "# HELP weir_%s%s ", name, total);
	add_escaped(out, help, false);
	buf_addf(out, "\n# TYPE weir_%s%s %s\n", name, total, kind);
}

static bool number_of(const json_t *value, int64_t *out)
{
	if (json_is_integer(value))
		*out = (int64_t)json_integer_value(value);
	else if (json_is_boolean(value))
		*out = json_is_true(value);
	else
		return false;
	return true;
}

static const struct process_row {
	const char *member, *name, *help;
} process_rows[] = {
	{ "uptime_seconds", "uptime_seconds", "Seconds since the process started." },
	{ "started_at", "start_time_seconds", "When it started, in seconds since 1970." },
	{ "config_age_seconds", "config_age_seconds",
		"Seconds since the configuration in force was read." },
	{ "reload_failed", "config_reload_failed",
		"1 when the last reload was not taken and the older rules stayed in "
		"force." },
	{ "resident_bytes", "resident_bytes", "Memory of the process that is in RAM." },
};

static void add_process(struct buf *out, const json_t *process)
{
	int64_t value;

	if (!process)
		return;
	add_family(out, "info", "", "What is running; always 1.", "gauge");
	buf_add_str(out, "weir_info{version=\"");
	add_escaped(out, metrics_str(process, "version", ""), true);
	buf_add_str(out, "\"} 1\n");
	for (size_t i = 0; i < COUNT_OF(process_rows); i++) {
		const struct process_row *row = &process_rows[i];

		if (!number_of(json_object_get(process, row->member), &value))
			continue;
		add_family(out, row->name, "", row->help, "gauge");
		buf_addf(out, "weir_%s %" PRId64 "\n", row->name, value);
	}
}

static const struct process_row worker_rows[] = {
	{ "connections_open", "worker_connections_open",
		"Connections from web servers that this worker has open now." },
	{ "exchanges_open", "worker_exchanges_open",
		"Requests this worker is working on now." },
	{ "store_up", "worker_store_up",
		"1 while this worker counts in the configured store, 0 while it falls "
		"back." },
};

static void add_workers(struct buf *out, const json_t *workers)
{
	const json_t *worker;
	size_t number;
	int64_t value;

	if (!json_is_array(workers))
		return;
	add_family(out, "workers", "", "Worker threads.", "gauge");
	buf_addf(out, "weir_workers %zu\n", json_array_size(workers));
	for (size_t i = 0; i < COUNT_OF(worker_rows); i++) {
		const struct process_row *row = &worker_rows[i];

		add_family(out, row->name, "", row->help, "gauge");
		json_array_foreach(workers, number, worker)
		{
			if (number_of(json_object_get(worker, row->member), &value))
				buf_addf(out, "weir_%s{worker=\"%zu\"} %" PRId64 "\n",
					row->name, number, value);
		}
	}
}

void metrics_prometheus(const json_t *status, struct buf *out)
{
	const json_t *counters = json_object_get(status, "counters");
	int64_t value;

	add_process(out, json_object_get(status, "process"));
	add_workers(out, json_object_get(status, "workers"));
	for (size_t i = 0; i < COUNTERS_N; i++) {
		const struct counter_info *info = &counter_infos[i];
		const char *total = info->gauge ? "" : "_total";

		if (!number_of(json_object_get(counters, info->name), &value))
			continue;
		add_family(out, info->name, total, info->help,
			info->gauge ? "gauge" : "counter");
		buf_addf(out, "weir_%s%s %" PRId64 "\n", info->name, total, value);
	}
}
