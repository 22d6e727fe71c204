/*
 * test_restart.c - what a reload cannot take.
 */
#include "folder.h"

#include "config/options.h"
#include "config/reload.h"

TestSuite(restart, .init = enter_folder, .fini = leave_folder);

Test(restart, every_option_that_needs_a_restart_is_named)
{
	static const struct {
		const char *name, *text;
	} rows[] = {
		{ "server.listen", "[server]\nlisten = tcp:127.0.0.1:9000\n" },
		{ "server.socket_mode", "[server]\nsocket_mode = 0600\n" },
		{ "server.socket_user", "[server]\nsocket_user = www\n" },
		{ "server.socket_group", "[server]\nsocket_group = www\n" },
		{ "server.backlog", "[server]\nbacklog = 7\n" },
		{ "server.workers", "[server]\nworkers = 7\n" },
		{ "server.control", "[server]\ncontrol =\n" },
		{ "server.control_group", "[server]\ncontrol_group = adm\n" },
		{ "store.type", "[store]\ntype = memory\n" },
		{ "store.url", "[store]\nurl = redis://127.0.0.1:6380/0\n" },
		{ "store.url", "[store]\nurl = redis://127.0.0.1:6379/1\n" },
		{ "store.url", "[store]\nurl = redis://:secret@127.0.0.1:6379/0\n" },
		{ "store.url", "[store]\nurl = unix:///run/redis.sock\n" },
		{ "store.memory", "[store]\nmemory = 8M\n" },
		{ "fallback.rate", "[fallback]\nrate = 7/s\n" },
		{ "client.directory", "[client]\ndirectory = sqlite:/x.db\n" },
		{ "client.directory_ttl", "[client]\ndirectory_ttl = 7s\n" },
		{ "client.directory_miss_ttl", "[client]\ndirectory_miss_ttl = 7s\n" },
		{ "client.directory_cache", "[client]\ndirectory_cache = 7\n" },
	};
	struct config *now, *fresh;

	put(MAIN, "[log]\nlevel = notice\n");
	now = load();
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf named = { 0 };

		put(MAIN, rows[i].text);
		fresh = load();
		config_restart_needed(now, fresh, &named);
		cr_expect_str_eq(buf_str(&named), rows[i].name, "%s", rows[i].text);
		config_unref(fresh);
		buf_release(&named);
	}
	config_unref(now);
	/* No such option is missing above. */
	for (size_t i = 0; i < options_n; i++) {
		struct buf name = { 0 };
		bool found = (options[i].flags & OPT_RELOAD) ||
			strcmp(options[i].name, "directory_query") == 0;

		buf_addf(&name, "%s.%s", options[i].section, options[i].name);
		for (size_t j = 0; j < COUNT_OF(rows); j++)
			found = found || strcmp(rows[j].name, buf_str(&name)) == 0;
		cr_expect(found, "%s", buf_str(&name));
		buf_release(&name);
	}
}

Test(restart, all_that_needs_a_restart_is_named_at_once)
{
	struct buf named = { 0 };
	struct config *now, *fresh;

	put(MAIN, "[client]\ndirectory = sqlite:/x.db\n");
	now = load();
	put(MAIN,
		"[server]\nbacklog = 7\n[log]\nlevel = error\n[client]\n"
		"directory = sqlite:/x.db\ndirectory_query = SELECT a, b FROM c WHERE d = "
		"?\n");
	fresh = load();
	config_restart_needed(now, fresh, &named);
	cr_expect_str_eq(buf_str(&named), "server.backlog, client.directory_query");
	config_unref(fresh);
	config_unref(now);
	buf_release(&named);
}
