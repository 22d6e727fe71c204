/*
 * observe/command.c - what the control socket answers. A command is one row below.
 */
#include "observe/control.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "observe/metrics.h"

/* One request being answered. */
struct ask {
	const struct control_ops *ops;
	void *user;
	const json_t *request;
};

/* Sets a member and takes over value's reference; a NULL on the way makes *ok false. */
static void put(json_t *object, const char *member, json_t *value, bool *ok)
{
	if (json_object_set_new(object, member, value) < 0)
		*ok = false;
}

static json_t *describe_process(const struct control_facts *f)
{
	int64_t now_us = clock_mono_us();
	int64_t uptime_us = now_us - f->started_us;
	int64_t loaded_us = f->loaded_us ? f->loaded_us : f->started_us;
	json_t *o = json_object();
	size_t resident = 0;
	bool ok = o;

	put(o, "version", json_string(WEIR_VERSION), &ok);
	put(o, "pid", json_integer(getpid()), &ok);
	put(o, "uptime_seconds", json_integer(uptime_us / US_PER_S), &ok);
	put(o, "started_at", json_integer((clock_wall_us() - uptime_us) / US_PER_S), &ok);
	put(o, "config_file", metrics_string(view_str(f->config_file)), &ok);
	put(o, "config_age_seconds", json_integer((now_us - loaded_us) / US_PER_S), &ok);
	put(o, "reload_failed", json_boolean(f->reload_failed), &ok);
	put(o, "started_as", metrics_string(view_str(f->started_as)), &ok);
	if (uv_resident_set_memory(&resident) == 0)
		put(o, "resident_bytes", json_integer((json_int_t)resident), &ok);
	if (ok)
		return o;
	json_decref(o);
	return NULL;
}

/* Members both a worker and the whole have. count is of one slot, or the sum. */
static json_t *describe_load(int64_t connections, int64_t exchanges)
{
	return json_pack("{s:I, s:I}", "connections_open", (json_int_t)connections,
		"exchanges_open", (json_int_t)exchanges);
}

static json_t *describe_worker(const struct control_worker *w)
{
	json_t *o = describe_load(counter_of(w->slot, COUNT_connections_open),
		counter_of(w->slot, COUNT_exchanges_open));
	bool ok = o;

	put(o, "store", metrics_string(view_str(w->store)), &ok);
	put(o, "store_up", json_boolean(w->store_up), &ok);
	if (ok)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *describe_workers(const struct ask *ask, size_t n)
{
	json_t *all = json_array();

	for (size_t i = 0; all && i < n; i++) {
		struct control_worker worker = { 0 };

		ask->ops->worker(ask->user, i, &worker);
		if (json_array_append_new(all, describe_worker(&worker)) == 0)
			continue;
		json_decref(all);
		all = NULL;
	}
	return all;
}

static json_t *answer_status(const struct ask *ask)
{
	struct control_facts facts = { 0 };
	int64_t values[COUNTERS_N];
	json_t *o = json_object();
	bool ok = o;

	ask->ops->facts(ask->user, &facts);
	for (size_t i = 0; i < COUNTERS_N; i++)
		values[i] = counter_sum((enum counter)i);
	put(o, "process", describe_process(&facts), &ok);
	put(o, "workers", describe_workers(ask, facts.n_workers), &ok);
	put(o, "totals",
		describe_load(values[COUNT_connections_open], values[COUNT_exchanges_open]),
		&ok);
	put(o, "counters", metrics_counters(values), &ok);
	if (ok)
		return o;
	json_decref(o);
	return NULL;
}

/* The object that answers, or NULL when memory is out. It may be an {"error":...}. */
static const struct command {
	const char *name;
	json_t *(*answer)(const struct ask *ask);
} commands[] = {
	{ "status", answer_status },
};

static json_t *error_object(struct view message)
{
	json_t *o = json_object();
	bool ok = o;

	put(o, "error", metrics_string(message), &ok);
	if (ok)
		return o;
	json_decref(o);
	return NULL;
}

static json_t *errorf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static json_t *errorf(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return error_object(view_str(text));
}

static json_t *unknown_command(const char *name)
{
	struct buf text = { 0 };
	json_t *o;

	buf_addf(&text, "unknown command \"%.64s\"; there is", name);
	for (size_t i = 0; i < COUNT_OF(commands); i++)
		buf_addf(&text, "%s %s", i ? "," : "", commands[i].name);
	o = buf_ok(&text) ? error_object(buf_view(&text)) : NULL;
	buf_release(&text);
	return o;
}

static json_t *dispatch(const struct ask *ask)
{
	const char *name = json_string_value(json_object_get(ask->request, "command"));

	if (!name)
		return errorf("no command; write {\"command\":\"status\"}");
	for (size_t i = 0; i < COUNT_OF(commands); i++) {
		if (strcmp(name, commands[i].name) == 0)
			return commands[i].answer(ask);
	}
	return unknown_command(name);
}

/* The object as a line; takes over its reference. NULL when memory is out. */
static char *as_line(json_t *object)
{
	struct buf line = { 0 };

	json_put(&line, object, JSON_COMPACT);
	json_decref(object);
	buf_add_byte(&line, '\n');
	return buf_steal(&line);
}

char *control_answer(const struct control_ops *ops, void *user, struct view line)
{
	json_error_t wrong;
	json_t *request = json_loadb(
		line.p ? line.p : "", line.n, JSON_REJECT_DUPLICATES, &wrong);
	struct ask ask = { .ops = ops, .user = user, .request = request };
	json_t *reply;

	reply = request
		? dispatch(&ask)
		: errorf("not JSON (%s); write {\"command\":\"status\"}", wrong.text);
	json_decref(request);
	return as_line(reply);
}

char *control_error(struct view message)
{
	return as_line(error_object(message));
}
