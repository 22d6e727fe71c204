/*
 * ctl/status.c - weirctl status: what the running weir is doing, on one screen.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "ctl/ctl.h"
#include "observe/ask.h"
#include "observe/metrics.h"

/* "3d 4h", "12m 5s": the two largest units that say something. */
static void add_duration(struct buf *out, int64_t seconds)
{
	static const struct {
		int64_t seconds;
		char letter;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	size_t i = 0;

	if (seconds < 0)
		seconds = 0;
	while (i + 1 < COUNT_OF(units) && seconds < units[i].seconds)
		i++;
	buf_addf(out, "%" PRId64 "%c", seconds / units[i].seconds, units[i].letter);
	seconds %= units[i].seconds;
	if (++i < COUNT_OF(units) && seconds >= units[i].seconds)
		buf_addf(
			out, " %" PRId64 "%c", seconds / units[i].seconds, units[i].letter);
}

/* Text from the other side, without what a terminal would obey. */
static void add_plain(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_add_byte(
			out, (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text);
}

static void add_process(struct buf *out, const json_t *process)
{
	buf_add_str(out, "weir ");
	add_plain(out, metrics_str(process, "version", "?"));
	buf_addf(out, ", process %" PRId64 ", up ", metrics_int(process, "pid", 0));
	add_duration(out, metrics_int(process, "uptime_seconds", 0));
	buf_add_str(out, ", started ");
	add_plain(out, metrics_str(process, "started_as", "?"));
	buf_add_str(out, "\nconfiguration ");
	add_plain(out, metrics_str(process, "config_file", "?"));
	buf_add_str(out, ", read ");
	add_duration(out, metrics_int(process, "config_age_seconds", 0));
	buf_add_str(out, " ago\n");
	if (json_is_true(json_object_get(process, "reload_failed")))
		buf_add_str(out,
			"The last reload was not taken (weir's log says why, and weirctl "
			"check shows mistakes): the rules before it are in force.\n");
}

static void add_workers(struct buf *out, const json_t *workers)
{
	const json_t *worker;
	size_t i;

	buf_add_str(out, "\nworker  connections  requests  store\n");
	json_array_foreach(workers, i, worker)
	{
		buf_addf(out, "%6zu  %11" PRId64 "  %8" PRId64 "  ", i,
			metrics_int(worker, "connections_open", 0),
			metrics_int(worker, "exchanges_open", 0));
		add_plain(out, metrics_str(worker, "store", "?"));
		buf_add_byte(out, '\n');
	}
}

static void add_counters(struct buf *out, const json_t *counters)
{
	buf_add_byte(out, '\n');
	for (size_t i = 0; i < COUNTERS_N; i++) {
		const struct counter_info *info = &counter_infos[i];
		int64_t n = metrics_int(counters, info->name, -1);

		if (n >= 0)
			buf_addf(out, "%12" PRId64 "  %-24s  %s\n", n, info->name,
				info->help);
	}
}

static int print_json(const json_t *status)
{
	struct buf out = { 0 };

	json_put(&out, status, JSON_INDENT(2));
	buf_add_byte(&out, '\n');
	return ctl_print(&out);
}

static int print_text(const json_t *status)
{
	struct buf out = { 0 };

	add_process(&out, json_object_get(status, "process"));
	add_workers(&out, json_object_get(status, "workers"));
	add_counters(&out, json_object_get(status, "counters"));
	return ctl_print(&out);
}

int command_status(struct ctl *ctl, int argc, char **argv)
{
	int exit_status = ctl_plain_options(ctl, argc, argv, true);
	struct buf address = { 0 }, why = { 0 };
	json_t *status = NULL;

	if (exit_status != CTL_OK)
		return exit_status;
	if (ctl_address(ctl, &address, &why) && buf_str(&address) &&
		control_ask_for(
			buf_str(&address), "status", CTL_TIMEOUT_MS, &status, &why)) {
		exit_status = ctl->json ? print_json(status) : print_text(status);
	} else {
		fprintf(stderr, "weirctl: %.*s\n", VIEW_ARG(buf_view(&why)));
		exit_status = CTL_FAILED;
	}
	json_decref(status);
	buf_release(&address);
	buf_release(&why);
	return exit_status;
}
