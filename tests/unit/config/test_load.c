#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "config/config.h"
#include "config/ini.h"
#include "config/pattern.h"

static void enter(const char *dir)
{
	cr_assert_eq(chdir(dir), 0, "%s", dir);
}

/* Loads what has no mistake in it. */
static struct config *load_good(const char *file, struct buf *messages)
{
	struct config *c = NULL;

	cr_assert(config_load(file, &c, messages), "%s", buf_str(messages));
	cr_assert_not_null(c);
	return c;
}

/* A file that begins with text and has n bytes, of blanks behind it; 0: text alone. */
static void write_file(const char *file, const char *text, size_t n)
{
	FILE *f = fopen(file, "w");

	cr_assert_not_null(f);
	fputs(text, f);
	for (size_t i = strlen(text); i < n; i++)
		fputc(' ', f);
	cr_assert_eq(fclose(f), 0);
}

Test(load, every_mistake_is_told_with_file_line_and_what_would_do)
{
	glob_t found;

	enter(CONFIG_DATA "/bad");
	cr_assert_eq(glob("*.ini", 0, NULL, &found), 0);
	cr_assert_geq(found.gl_pathc, 30);
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *file = found.gl_pathv[i];
		struct buf name = { 0 }, wanted = { 0 }, told = { 0 };
		struct config *c = NULL;

		buf_addf(&name, "%.*s.expected", (int)(strlen(file) - 4), file);
		cr_assert_eq(ini_slurp(buf_str(&name), &wanted), 0, "%s", name.p);
		cr_expect_not(config_load(file, &c, &told), "%s", file);
		cr_expect_null(c);
		cr_expect_str_eq(buf_str(&told), buf_str(&wanted),
			"%s\ntold:\n%s\nwanted:\n%s", file, told.p, wanted.p);
		buf_release(&name);
		buf_release(&wanted);
		buf_release(&told);
	}
	globfree(&found);
}

Test(load, however_a_url_is_miswritten_its_password_is_not_told)
{
	static const char *const lines[] = {
		"url = \"redis://me:hunter2@h\"",
		"url = 'redis://:hunter2@h'",
		"url = redis://:hunter2 #@h",
		"url = redis://:hunter2 ;secret@h",
		"url = redis://:hunter2 ; secret@h",
		"url = redis://:hunter2;@h:x",
		"url = \"redis://:hunter2 ;secret@h\"",
		" url = redis://:hunter2@h",
		"\turl = redis://me:hunter2",
		"url redis://:hunter2@h",
		"url: redis://:hunter2@h",
		"url, = redis://:hunter2@h",
		"= redis://:hunter2@h",
		"[store] url = redis://:hunter2@h",
		"[store url = redis://:hunter2@h",
		"url = redis://:hunter2",
		"url = redis://hunter2:hunter2",
		"url = redis://:hun/hunter2",
		"url = redis:/:hunter2@h",
		"url = redis//:hunter2@h",
		"url = :hunter2@h",
		"url = rediss://:hunter2@h",
		"url = http://:hunter2@h",
		"url = unix://:hunter2@run/redis.sock",
		"url = redis://:hunter2@h@",
		"url = redis://:hunter2%zz@h",
		"url = redis://hunter2@h",
		"ulr = \"redis://:hunter2@h\"",
		"prefix = \"redis://:hunter2@h\"",
		"url = redis://:hunter2-0123456789-0123456789-0123456789-0123456789-"
		"0123456789-0123456789-0123456789-0123456789@h:x",
	};
	char file[] = "/tmp/weir-load-XXXXXX";
	int fd = mkstemp(file);

	cr_assert_geq(fd, 0);
	close(fd);
	for (size_t i = 0; i < COUNT_OF(lines); i++) {
		struct buf text = { 0 }, told = { 0 };
		struct config *c = NULL;

		buf_addf(&text, "[store]\n%s\n", lines[i]);
		write_file(file, buf_str(&text), 0);
		cr_expect_not(config_load(file, &c, &told), "%s", lines[i]);
		cr_expect(strstr(buf_str(&told), ":2: "), "%s: %s", lines[i], told.p);
		cr_expect_not(strstr(told.p, "hunter2"), "%s: %s", lines[i], told.p);
		buf_release(&text);
		buf_release(&told);
	}
	unlink(file);
}

Test(load, a_url_without_a_password_is_told_as_it_was_written)
{
	static const char *const urls[] = { "redis://127.0.0.1/cache",
		"redis://redis.example.org:6379/x", "redis://[::1]:6379/x",
		"redis://h:99999", "unix://run/redis.sock",
		"rediss://redis.example.org:6380/0" };
	char file[] = "/tmp/weir-load-XXXXXX";
	int fd = mkstemp(file);

	cr_assert_geq(fd, 0);
	close(fd);
	for (size_t i = 0; i < COUNT_OF(urls); i++) {
		struct buf text = { 0 }, told = { 0 };
		struct config *c = NULL;

		buf_addf(&text, "[store]\nurl = %s\n", urls[i]);
		write_file(file, buf_str(&text), 0);
		cr_expect_not(config_load(file, &c, &told), "%s", urls[i]);
		cr_expect(strstr(buf_str(&told), urls[i]), "%s: %s", urls[i], told.p);
		buf_release(&text);
		buf_release(&told);
	}
	unlink(file);
}

Test(load, a_file_that_is_not_there_is_told)
{
	struct config *c = NULL;
	struct buf told = { 0 };

	cr_expect_not(config_load("/nonexistent/weir.ini", &c, &told));
	cr_expect_str_eq(buf_str(&told),
		"/nonexistent/weir.ini: the file cannot be read (No such file or "
		"directory); "
		"name the configuration with -c FILE, or in the environment of a CGI "
		"program with WEIR_CONFIG\n");
	buf_release(&told);
}

Test(load, files_are_named_as_the_operator_would_from_where_he_is)
{
	struct config *c = NULL;
	struct buf told = { 0 };

	enter(CONFIG_DATA);
	cr_expect_not(config_load("bad/endpoint-file.ini", &c, &told));
	cr_expect(strstr(buf_str(&told), "bad/endpoint-file.d/a.ini:3: "));
	buf_release(&told);
}

Test(load, every_option_arrives_where_the_rest_of_weir_reads_it)
{
	struct buf told = { 0 };
	struct config *c;
	const struct rule *slow, *custom;

	enter(CONFIG_DATA "/good");
	c = load_good("full.ini", &told);
	cr_expect_str_eq(c->file, "full.ini");
	cr_assert_eq(c->server.n_listen, 3);
	cr_expect_str_eq(c->server.listen[0].text, "unix:/run/weir/weir.sock");
	cr_expect_eq(net_addr_port(&c->server.listen[2]), 9000);
	cr_assert_eq(c->server.n_strip_prefix, 2);
	cr_expect_str_eq(c->server.strip_prefix[1], "/app/index.php");
	cr_expect_eq(c->server.socket_mode, 0600);
	cr_expect_str_eq(c->server.socket_user, "weir");
	cr_expect_str_eq(c->server.socket_group, "www-data");
	cr_expect_eq(c->server.backlog, 100);
	cr_expect_eq(c->server.workers, 4);
	cr_expect_eq(c->server.max_connections, 300);
	cr_expect_eq(c->server.max_requests, 250);
	cr_expect_str_eq(c->server.backend->name, "legacy");
	cr_expect_eq(c->server.mode, MODE_SHADOW);
	cr_expect_eq(c->server.head_limit, 32768);
	cr_expect_eq(c->server.head_timeout_ms, 5000);
	cr_expect_eq(c->server.body_limit, UINT64_C(1) << 30);
	cr_expect_eq(c->server.body_timeout_ms, 30000);
	cr_expect_eq(c->server.send_timeout_ms, 120000);
	cr_expect_eq(c->server.spool_memory, 1 << 20);
	cr_expect_str_eq(c->server.spool_dir, "/tmp");
	cr_expect_eq(c->server.spool_limit, UINT64_C(2) << 30);
	cr_expect_eq(c->server.drain_timeout_ms, 1000);
	cr_expect_eq(c->server.stop_timeout_ms, 3600000);
	cr_expect_str_eq(c->server.control, "unix:/run/weir/ctl.sock");
	cr_expect_str_eq(c->server.control_group, "adm");
	cr_expect_eq(c->store.type, STORE_MEMORY);
	cr_expect_str_eq(c->store.servers[0].host, "redis.example.org");
	cr_expect_str_eq(c->store.servers[0].password, "p@ss/word");
	cr_expect_eq(c->store.servers[0].db, 3);
	cr_expect_eq(c->store.timeout_ms, 20);
	cr_expect_str_eq(c->store.prefix, "limits");
	cr_expect_eq(c->store.memory, 8 << 20);
	cr_expect_eq(c->fallback.policy, ON_ERROR_CLOSED);
	cr_expect_eq(c->fallback.instances, 3);
	cr_expect_eq(c->fallback.rate.window_us, 10000000);
	cr_expect_eq(c->client.directory_cache, 500);
	cr_assert_eq(c->client.trusted_proxies.n, 4);
	cr_expect_eq(c->client.trusted_proxies.list[3].bits, 24);
	cr_expect_eq(c->client.ipv6_prefix, 56);
	cr_assert_eq(c->client.n_user, 2);
	cr_expect_eq(c->client.user[0], USER_REMOTE_USER);
	cr_expect_eq(c->client.user[1], USER_TOKEN);
	cr_expect_str_eq(c->client.token_header, "HTTP_X_API_KEY");
	cr_expect_str_eq(c->client.token_cookie, "sid");
	cr_expect_str_eq(c->client.directory, "/var/lib/weir/weir.db");
	cr_expect_str_eq(c->client.directory_query,
		"SELECT user, plan FROM people WHERE token = ?1");
	cr_expect_eq(c->client.directory_ttl_ms, 5000);
	cr_expect_eq(c->client.directory_miss_ttl_ms, 0);
	cr_expect_eq(c->client.directory_error, ON_ERROR_CLOSED);
	cr_expect_eq(c->allow.networks.n, 1);
	cr_expect_str_eq(c->reply.message, "Too many; wait {retry_after} s, 请稍后重试");
	cr_expect_not(c->reply.rate_limit_fields);
	cr_expect(c->reply.x_rate_limit_fields);
	cr_assert_eq(c->reply.n_messages, 2);
	cr_expect_str_eq(c->reply.messages[0].language, "zh");
	cr_expect_str_eq(
		c->reply.messages[1].text, "Espere {retry_after} segundos; por favor");
	cr_expect_str_eq(c->reply.template_text,
		"<style>p {margin: 0}</style>\n<p>{message} ({rule}, {request_id})</p>\n");
	cr_expect_str_eq(c->reply.template_type, "text/html; charset=utf-8");
	cr_expect_eq(c->reply.authorizer_status, 403);
	cr_expect_eq(c->log.level, LOG_LEVEL_DEBUG);
	cr_expect_eq(c->log.requests, LOG_REQUESTS_ALL);
	cr_assert_eq(c->site.n, 2);
	cr_expect_str_eq(c->site.list[1].label, "site/ip/sw60s");

	cr_assert_eq(c->n_backends, 2);
	cr_expect_eq(c->backends[0].kind, BACKEND_FASTCGI);
	cr_expect_eq(c->backends[0].n_addrs, 2);
	cr_expect_eq(c->backends[0].connect_timeout_ms, 1000);
	cr_expect_eq(c->backends[0].first_byte_timeout_ms, 2000);
	cr_expect_eq(c->backends[0].idle_timeout_ms, 3000);
	cr_expect_eq(c->backends[0].timeout_ms, 4000);
	cr_expect_eq(c->backends[0].retry, RETRY_IDEMPOTENT);
	cr_expect_eq(c->backends[0].max_fails, 5);
	cr_expect_eq(c->backends[0].fail_timeout_ms, 6000);
	cr_expect_eq(c->backends[0].keep, 7);
	cr_expect_eq(c->backends[0].keep_idle_ms, 8000);
	cr_expect_eq(c->backends[0].sendfile, SENDFILE_PASS);
	cr_expect_eq(c->backends[1].kind, BACKEND_CGI);
	cr_expect_str_eq(c->backends[1].root, "/");
	cr_expect_str_eq(c->backends[1].prefix, "/cgi-bin");
	cr_expect_str_eq(c->backends[1].path, "/bin");
	cr_assert_eq(c->backends[0].n_env, 1);
	cr_expect_str_eq(c->backends[0].env[0].name, "PHP_VALUE");
	cr_expect_str_eq(c->backends[0].env[0].value, "upload_max_filesize=5M");
	cr_assert_eq(c->backends[1].n_env, 2);
	cr_expect_str_eq(c->backends[1].env[0].name, "GIT_PROJECT_ROOT");
	cr_expect_str_eq(c->backends[1].env[0].value, "/srv/git");
	cr_expect_str_eq(c->backends[1].env[1].name, "GIT_HTTP_EXPORT_ALL");
	cr_expect_str_eq(c->backends[1].env[1].value, "");
	cr_expect_eq(c->backends[1].kill_grace_ms, 1500);
	cr_expect_eq(c->backends[1].max_programs, 7);
	cr_expect_eq(c->backends[1].timeout_ms, 0);
	cr_expect_eq(c->backends[1].sendfile, SENDFILE_STRIP);
	cr_expect_eq(c->backends[1].cpu_limit_ms, 9000);
	cr_expect_eq(c->backends[1].memory_limit, UINT64_C(512) << 20);
	cr_expect_not(c->backends[1].no_new_privs);
	cr_expect_eq(c->backends[1].client_gone, CLIENT_GONE_FINISH);
	cr_expect_eq(c->backends[1].argv, ARGV_ISINDEX);

	/* In the order of the files' names; submit.ini, named twice, is read once. */
	cr_assert_eq(c->n_files, 3);
	cr_assert_eq(c->n_endpoints, 2);
	cr_expect_str_eq(c->endpoints[0].name, "static");
	cr_expect_str_eq(c->endpoints[0].backend->name, "legacy");
	cr_expect_str_eq(c->endpoints[1].name, "submit");
	cr_expect_str_eq(c->endpoints[1].backend->name, "php");
	cr_expect_str_eq(c->endpoints[1].file, "full.d/submit.ini");
	cr_expect_eq(c->endpoints[1].line, 1);
	cr_assert_eq(c->endpoints[1].tiers.n, 3);
	slow = &c->endpoints[1].tiers.list[1].rules[0];
	cr_expect_str_eq(slow->name, "slow");
	cr_expect_str_eq(slow->file, "full.d/submit.ini");
	cr_expect_eq(slow->line, 8);
	cr_expect_eq(slow->on_error, ON_ERROR_CLOSED, "what [fallback] says");
	custom = &c->endpoints[1].tiers.list[2].rules[0];
	cr_expect_eq(custom->on_error, ON_ERROR_OPEN);
	cr_expect_eq(custom->n_pieces, 3);
	cr_expect_eq(custom->rate.max_delay_us, 2000000);
	cr_expect_eq(custom->cost.max, 5);
	config_unref(c);
	buf_release(&told);
}

Test(load, what_is_left_out_has_its_default)
{
	struct buf told = { 0 };
	struct config *c;

	enter(CONFIG_DATA "/good");
	c = load_good("empty.ini", &told);
	cr_expect_eq(told.n, 0);
	cr_expect_eq(c->server.n_listen, 0);
	cr_expect_null(c->server.backend);
	cr_expect_eq(c->server.mode, MODE_ENFORCE);
	cr_expect_eq(c->server.stop_timeout_ms, 30000);
	cr_expect_str_eq(c->server.socket_user, "");
	cr_expect_eq(c->store.type, STORE_REDIS);
	cr_expect_eq(net_addr_port(&c->store.servers[0].addr), 6379);
	cr_expect_null(c->store.servers[0].host);
	cr_expect_null(c->store.servers[0].password);
	cr_expect_eq(c->fallback.policy, ON_ERROR_LOCAL);
	cr_expect_eq(c->allow.networks.n, 0);
	cr_expect_eq(c->client.ipv6_prefix, 64);
	cr_expect_eq(c->log.requests, LOG_REQUESTS_REFUSED);
	cr_expect_eq(c->n_endpoints, 0);
	cr_expect_not_null(c->patterns);
	config_unref(c);
	buf_release(&told);
}

Test(load, a_file_from_windows_is_read_like_any_other)
{
	struct buf told = { 0 };
	struct config *c;

	enter(CONFIG_DATA "/good");
	c = load_good("crlf.ini", &told);
	cr_expect_eq(told.n, 0);
	cr_expect_eq(c->server.workers, 3);
	cr_expect_eq(c->site.list[0].rules[0].rate.count, 7);
	config_unref(c);
	c = load_good("no-newline.ini", &told);
	cr_expect_eq(c->log.level, LOG_LEVEL_INFO);
	config_unref(c);
	buf_release(&told);
}

Test(load, what_works_and_may_not_be_meant_is_noticed)
{
	static const char *const files[][2] = { { "notices.ini", "notices.expected" },
		{ "large-logs.ini", "large-logs.expected" },
		{ "memory-log.ini", "memory-log.expected" },
		{ "for-nobody.ini", "for-nobody.expected" },
		{ "plans-unmet.ini", "plans-unmet.expected" },
		{ "plans-also-met.ini", "plans-also-met.expected" },
		{ "gate-open.ini", "gate-open.expected" },
		{ "no-newline.ini", "no-newline.expected" } };

	enter(CONFIG_DATA "/good");
	for (size_t i = 0; i < COUNT_OF(files); i++) {
		struct buf told = { 0 }, wanted = { 0 };
		struct config *c;

		cr_assert_eq(ini_slurp(files[i][1], &wanted), 0);
		c = load_good(files[i][0], &told);
		cr_expect_str_eq(buf_str(&told), buf_str(&wanted));
		config_unref(c);
		buf_release(&told);
		buf_release(&wanted);
	}
}

/* A file of exactly the size that is taken, and one with a byte more. */
Test(load, a_template_is_found_beside_the_main_file_and_has_a_size_limit)
{
	char dir[] = "/tmp/weir-template-XXXXXX", path[64];
	struct buf told = { 0 };

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/weir.ini", dir);
	for (size_t n = 65536; n <= 65537; n++) {
		struct config *c = NULL;
		bool ok;

		enter(dir);
		write_file("weir.ini", "[reply]\ntemplate = page.html\n", 0);
		write_file("page.html", "{message}", n);
		enter("/");
		ok = config_load(path, &c, &told);
		cr_expect_eq(ok, n == 65536, "%s", buf_str(&told));
		if (ok)
			cr_expect_eq(strlen(c->reply.template_text), n);
		else
			cr_expect(strstr(buf_str(&told),
				":2: reply.template: \"page.html\" is too large; a "
				"template "
				"has at most 65536 bytes\n"));
		config_unref(c);
	}
	buf_release(&told);
	enter(dir);
	unlink("weir.ini");
	unlink("page.html");
	rmdir(dir);
}

/* Its name would stand in every message about it. */
Test(load, a_file_with_a_control_byte_in_its_name_is_not_read)
{
	char dir[] = "/tmp/weir-names-XXXXXX", path[64];
	struct buf told = { 0 };
	struct config *c = NULL;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/weir.ini", dir);
	enter(dir);
	write_file("weir.ini", "[server]\nendpoints = *.conf\n", 0);
	write_file("a\nb.conf", "nothing = 1\n", 0);
	enter("/");
	cr_expect(!config_load(path, &c, &told));
	cr_expect(strstr(buf_str(&told),
			  "a\\x0ab.conf\" has a control byte in its name; "
			  "rename the file\n"),
		"%s", buf_str(&told));
	cr_expect(!strstr(buf_str(&told), "a\nb"));
	buf_release(&told);
	enter(dir);
	unlink("weir.ini");
	unlink("a\nb.conf");
	enter("/");
	rmdir(dir);
}

Test(load, the_shipped_configuration_loads_anywhere_without_a_word)
{
	struct buf told = { 0 };
	struct config *c = load_good(CONFIG_ETC "/weir.ini", &told);

	cr_expect_str_eq(buf_str(&told), "");
	cr_expect_eq(c->n_endpoints, 6);
	cr_expect_eq(c->site.n, 2);
	config_unref(c);
	buf_release(&told);
}

Test(load, the_summary_shows_what_is_in_force_and_no_password)
{
	struct buf told = { 0 }, out = { 0 };
	struct config *c;

	enter(CONFIG_DATA "/good");
	c = load_good("full.ini", &told);
	config_summary(c, &out);
	cr_expect_str_eq(buf_str(&out),
		"full.ini: files 3, endpoints 2, backends 2, all rules in shadow mode\n"
		"listen unix:/run/weir/weir.sock\n"
		"listen tcp:127.0.0.1:9000\n"
		"listen tcp:[::1]:9000\n"
		"store memory, at most 8M\n"
		"users by remote_user, token; directory /var/lib/weir/weir.db\n"
		"backend php\n"
		"    fastcgi unix:/run/php/a.sock\n"
		"    fastcgi tcp:127.0.0.1:9001\n"
		"backend legacy\n"
		"    cgi / at /cgi-bin\n"
		"site\n"
		"    site/global/sw1s         10000 in 1s\n"
		"    site/ip/sw60s            600 in 60s\n"
		"endpoint static to legacy (full.d/static.ini:1)\n"
		"endpoint submit to php (full.d/submit.ini:1)\n"
		"    user/sw60s               60 in 60s\n"
		"                             plan paid: 600 in 60s\n"
		"    ip/eval/slow             5 in 1h, burst 20, cost 2, shadow\n"
		"    custom/lb1s-bdf1a905     10 in 1s, burst 10, held up to 2s, cost 1 to "
		"5 "
		"from query n, by {path:version}:{header:X-Tenant}, on_error open\n");
	config_unref(c);
	buf_release(&told);
	buf_release(&out);
}

Test(load, a_snapshot_lives_as_long_as_somebody_holds_it)
{
	struct buf told = { 0 };
	struct config *c;

	enter(CONFIG_DATA "/good");
	c = load_good("empty.ini", &told);
	cr_expect_eq(config_ref(c), c);
	config_unref(c);
	cr_expect_str_eq(c->store.prefix, "rate");
	config_unref(c);
	config_unref(NULL);
	cr_expect_null(config_ref(NULL));
	buf_release(&told);
}

/* ---- What depends on the machine ---- */

Test(load, automatic_limits_follow_the_descriptors_that_weir_may_have)
{
	static const struct {
		rlim_t descriptors; /* each fewer than before: there is no way back */
		uint64_t connections, requests;
	} rows[] = {
		{ 65536, 16384, 14746 },
		{ 4096, 1344, 1210 },
		{ 1024, 320, 288 },
		{ 80, 16, 15 },
	};
	struct buf told = { 0 };

	enter(CONFIG_DATA "/good");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		const struct rlimit limit = { rows[i].descriptors, rows[i].descriptors };
		struct config *c;

		if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
			continue; /* there are fewer already */
		c = load_good("empty.ini", &told);
		cr_expect_eq(c->server.max_connections, rows[i].connections, "%lu",
			(unsigned long)rows[i].descriptors);
		cr_expect_eq(c->server.max_requests, rows[i].requests, "%lu",
			(unsigned long)rows[i].descriptors);
		config_unref(c);
	}
	buf_release(&told);
}
