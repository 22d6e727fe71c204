#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "config/ini.h"
#include "config/kinds.h"
#include "config/options.h"

struct places {
	struct config config;
	struct draft draft;
	struct backend backend;
	struct endpoint_text endpoint;
	struct option_places at;
};

static void places_init(struct places *p)
{
	memset(p, 0, sizeof(*p));
	p->at.in[IN_CONFIG] = &p->config;
	p->at.in[IN_DRAFT] = &p->draft;
	p->at.in[IN_BACKEND] = &p->backend;
	p->at.in[IN_ENDPOINT] = &p->endpoint;
}

static void places_release(struct places *p)
{
	for (int in = 0; in < IN_N; in++)
		options_release((enum option_in)in, p->at.in[in]);
}

static bool read(struct places *p, const char *section, const char *name, const char *value)
{
	const struct option *o = option_find(view_str(section), view_str(name));
	struct buf why = { 0 };
	bool ok;

	cr_assert_not_null(o, "%s.%s", section, name);
	ok = option_read(o, &p->at, view_str(value), &why);
	cr_expect_eq(ok, why.n == 0, "%s: %s", value, buf_str(&why));
	buf_release(&why);
	return ok;
}

Test(options, every_default_can_be_read)
{
	struct places p;
	struct buf why = { 0 };

	places_init(&p);
	for (size_t i = 0; i < options_n; i++) {
		if (options[i].def)
			cr_expect(option_read(&options[i], &p.at, view_str(options[i].def),
					  &why),
				"%s.%s: %s", options[i].section, options[i].name,
				buf_str(&why));
		buf_release(&why);
	}
	cr_expect_eq(p.config.store.timeout_ms, 50);
	cr_expect_eq(p.config.server.socket_mode, 0660);
	cr_expect_eq(p.config.server.workers, 0);
	cr_expect_eq(p.config.server.head_limit, 65536);
	cr_expect_eq(p.config.log.level, LOG_LEVEL_NOTICE);
	cr_expect_eq(p.config.client.n_user, 0);
	cr_expect_str_eq(p.config.client.token_header, "HTTP_AUTHORIZATION");
	cr_expect_str_eq(p.config.client.directory, "");
	cr_expect_eq(p.config.client.directory_ttl_ms, 60000);
	cr_expect_eq(p.config.client.directory_miss_ttl_ms, 10000);
	cr_expect_eq(p.config.client.directory_error, ON_ERROR_OPEN);
	cr_expect_str_eq(p.config.reply.template_type, "application/json");
	cr_expect_not(p.config.reply.x_rate_limit_fields);
	cr_expect_not(p.config.reply.problem_json);
	cr_expect_eq(p.config.reply.authorizer_status, 429);
	cr_expect_eq(p.config.fallback.rate.count, 1000);
	cr_expect_eq(p.config.fallback.rate.window_us, 1000000);
	cr_expect_eq(p.config.fallback.rate.burst, 1000);
	cr_expect_str_eq(p.config.store.servers[0].addr.text, "tcp:127.0.0.1:6379");
	cr_expect_str_eq(p.config.server.control, "unix:/run/weir/control.sock");
	cr_expect(p.config.reply.rate_limit_fields);
	places_release(&p);
}

Test(options, every_row_has_a_help_that_ends_in_a_full_stop_and_a_name_of_its_own)
{
	for (size_t i = 0; i < options_n; i++) {
		const struct option *o = &options[i];

		cr_expect_eq(
			o->help[strlen(o->help) - 1], '.', "%s.%s", o->section, o->name);
		cr_expect_eq(option_find(view_str(o->section), view_str(o->name)), o,
			"%s.%s", o->section, o->name);
	}
}

Test(options, redis_is_a_numeric_address_a_name_or_a_socket)
{
	static const struct {
		const char *url, *addr, *host, *user, *password;
		unsigned port, db;
	} rows[] = {
		{ "redis://127.0.0.1", "tcp:127.0.0.1:6379", NULL, NULL, NULL, 6379, 0 },
		{ "redis://127.0.0.1:7000/15", "tcp:127.0.0.1:7000", NULL, NULL, NULL, 7000,
			15 },
		{ "redis://[::1]:7000/", "tcp:[::1]:7000", NULL, NULL, NULL, 7000, 0 },
		{ "redis://[::1]", "tcp:[::1]:6379", NULL, NULL, NULL, 6379, 0 },
		{ "redis://cache/1", "tcp:cache:6379", "cache", NULL, NULL, 6379, 1 },
		{ "redis://:secret@cache.example.org:7001", "tcp:cache.example.org:7001",
			"cache.example.org", NULL, "secret", 7001, 0 },
		{ "redis://me:a%40b%3Ac%25@127.0.0.1", "tcp:127.0.0.1:6379", NULL, "me",
			"a@b:c%", 6379, 0 },
		{ "redis://me:a@b@127.0.0.1", "tcp:127.0.0.1:6379", NULL, "me", "a@b", 6379,
			0 },
		{ "unix:///run/redis.sock", "unix:/run/redis.sock", NULL, NULL, NULL, 6379,
			0 },
		{ "unix:///run/redis.sock?db=2", "unix:/run/redis.sock", NULL, NULL, NULL,
			6379, 2 },
		{ "unix://:secret@/run/redis.sock", "unix:/run/redis.sock", NULL, NULL,
			"secret", 6379, 0 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct places p;

		places_init(&p);
		cr_assert(read(&p, "store", "url", rows[i].url));
		cr_expect_str_eq(p.config.store.servers[0].addr.text, rows[i].addr);
		cr_expect_eq(p.config.store.servers[0].addr.len != 0, rows[i].host == NULL);
#define SAME(a, b) \
	cr_expect((a) == (b) || ((a) && (b) && !strcmp(a, b)), "%s: %s", rows[i].url, a)
		SAME(p.config.store.servers[0].host, rows[i].host);
		SAME(p.config.store.servers[0].username, rows[i].user);
		SAME(p.config.store.servers[0].password, rows[i].password);
#undef SAME
		cr_expect_eq(
			p.config.store.servers[0].port, rows[i].port, "%s", rows[i].url);
		cr_expect_eq(p.config.store.servers[0].db, rows[i].db, "%s", rows[i].url);
		places_release(&p);
	}
}

Test(options, what_is_no_redis_url_is_refused_and_leaves_nothing)
{
	static const char *const urls[] = { "", "redis:", "redis://", "redis:///0",
		"redis://host:0", "redis://host:70000", "redis://host:x", "redis://host/x",
		"redis://user@host", "redis://:%zz@host", "redis://:%00@host",
		"redis://[::1", "redis://[::1]7000", "redis://::1", "redis://ho st",
		"redis://ho/st/0", "rediss://host", "unix://run/x", "unix:///run/x?db=x",
		"unix:///run/x?x=1", "http://host", "redis://:p%40ss:w@host:0" };

	for (size_t i = 0; i < COUNT_OF(urls); i++) {
		struct places p;

		places_init(&p);
		cr_expect_not(read(&p, "store", "url", urls[i]), "%s", urls[i]);
		cr_expect_eq(p.config.store.n_servers, 0);
		cr_expect_null(p.config.store.servers);
		places_release(&p);
	}
}

Test(options, what_needs_a_restart_can_be_compared)
{
	for (size_t i = 0; i < options_n; i++) {
		const struct option *o = &options[i];

		if (o->in == IN_CONFIG && !(o->flags & OPT_RELOAD))
			cr_expect(o->kind->same, "%s.%s", o->section, o->name);
	}
}

Test(options, a_password_is_never_shown)
{
	static const struct {
		const char *name, *value, *shown;
	} rows[] = {
		{ "url", "redis://me:secret@host/0", "redis://***@host/0" },
		{ "url", "redis://me:se//cr@et@host/0", "redis://***@host/0" },
		{ "url", "me:secret@host", "***@host" },
		{ "url", "redis://host/0", "redis://host/0" },
		{ "prefix", "a@b", "a@b" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf out = { 0 };

		option_shown(option_find(VIEW("store"), view_str(rows[i].name)),
			view_str(rows[i].value), &out);
		cr_expect_str_eq(buf_str(&out), rows[i].shown);
		buf_release(&out);
	}
}

Test(options, networks_are_kept_by_their_bits)
{
	static const struct {
		const char *text;
		uint8_t n, bits, first, last;
	} rows[] = {
		{ "10.0.0.0/8", 4, 8, 10, 0 },
		{ "192.0.2.7", 4, 32, 192, 7 },
		{ "0.0.0.0/0", 4, 0, 0, 0 },
		{ "2001:db8::/32", 16, 32, 0x20, 0 },
		{ "::1", 16, 128, 0, 1 },
		{ "::ffff:192.0.2.0/120", 4, 24, 192, 0 },
		{ "::ffff:192.0.2.9", 4, 32, 192, 9 },
	};
	static const char *const wrong[] = { "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/",
		"10.0.0", "10.0.0.0/8/8", "2001:db8::1/64", "::/129", "host", "10.0.0.0/-1",
		"fe80::1%eth0" };
	struct places p;
	struct networks *nets;

	places_init(&p);
	nets = &p.config.allow.networks;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		cr_assert(read(&p, "allow", "networks", rows[i].text));
		cr_assert_eq(nets->n, i + 1);
		cr_expect_eq(nets->list[i].addr_n, rows[i].n, "%s", rows[i].text);
		cr_expect_eq(nets->list[i].bits, rows[i].bits, "%s", rows[i].text);
		cr_expect_eq(nets->list[i].addr[0], rows[i].first, "%s", rows[i].text);
		cr_expect_eq(nets->list[i].addr[rows[i].n - 1], rows[i].last, "%s",
			rows[i].text);
	}
	for (size_t i = 0; i < COUNT_OF(wrong); i++)
		cr_expect_not(read(&p, "allow", "networks", wrong[i]), "%s", wrong[i]);
	cr_expect_eq(nets->n, COUNT_OF(rows));
	cr_assert(read(&p, "allow", "networks", " 10.0.0.0/8,192.0.2.0/24 ,\t::/0 "));
	cr_expect_eq(nets->n, COUNT_OF(rows) + 3);
	places_release(&p);
}

Test(options, networks_are_everybody_when_they_have_every_address_between_them)
{
	static const struct {
		const char *text;
		bool v4, v6;
	} rows[] = {
		{ "", false, false },
		{ "0.0.0.0/0", true, false },
		{ "::/0", false, true },
		{ "::/0 0.0.0.0/0", true, true },
		{ "0.0.0.0/1 128.0.0.0/1", true, false },
		{ "128.0.0.0/1 10.0.0.0/8 0.0.0.0/1", true, false },
		{ "0.0.0.0/1 128.0.0.0/2 192.0.0.0/2", true, false },
		{ "0.0.0.0/1 128.0.0.0/2 192.0.0.0/3", false, false },
		{ "0.0.0.0/1 129.0.0.0/8", false, false },
		{ "128.0.0.0/1 ::/1", false, false },
		{ "0.0.0.0/1 8000::/1", false, false },
		{ "::/1 8000::/1", false, true },
		{ "8000::/1 4000::/2 ::/2 2001:db8::/32", false, true },
		/* IPv4, written as IPv6. */
		{ "::ffff:0:0/97 ::ffff:128.0.0.0/97", true, false },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct places p;
		const struct networks *nets = &p.config.allow.networks;

		places_init(&p);
		cr_assert(read(&p, "allow", "networks", rows[i].text));
		cr_expect_eq(
			kind_networks_are_all(nets, 4), rows[i].v4, "%s", rows[i].text);
		cr_expect_eq(
			kind_networks_are_all(nets, 16), rows[i].v6, "%s", rows[i].text);
		places_release(&p);
	}
}

/* All but one address, in as many networks as that takes. */
Test(options, networks_that_leave_one_address_out_are_not_everybody)
{
	struct network list[128];
	struct networks nets = { list, COUNT_OF(list) };

	for (unsigned i = 0; i < 128; i++) {
		list[i] = (struct network){ .addr_n = 16, .bits = (uint8_t)(i + 1) };
		for (unsigned bit = 0; bit < i; bit++)
			list[i].addr[bit / 8] |= (unsigned char)(0x80 >> bit % 8);
	}
	cr_expect_not(kind_networks_are_all(&nets, 16));
	list[0].addr[0] = 0x80;
	cr_expect_not(kind_networks_are_all(&nets, 16));
	list[0] = (struct network){ .addr_n = 16, .bits = 1 };
	/* The highest of all addresses, which was left out. */
	list[127].bits = 127;
	list[127].addr[15] = 0xfe;
	cr_expect(kind_networks_are_all(&nets, 16));
}

Test(options, rates_are_a_count_and_a_window)
{
	static const struct {
		const char *text;
		uint64_t count;
		int64_t window_us;
	} rows[] = {
		{ "1000/s", 1000, 1000000 },
		{ "60/m", 60, 60000000 },
		{ "50/10s", 50, 10000000 },
		{ "1 / h", 1, INT64_C(3600000000) },
		{ "5/100ms", 5, 100000 },
	};
	static const char *const wrong[] = { "", "1000", "0/s", "/s", "5/", "5/0", "5/0s",
		"-5/s", "5/x", "5.5/s", "5/s/s", "9007199254740992/s" };

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct places p;

		places_init(&p);
		cr_assert(read(&p, "fallback", "rate", rows[i].text));
		cr_expect_eq(p.config.fallback.rate.count, rows[i].count);
		cr_expect_eq(p.config.fallback.rate.window_us, rows[i].window_us);
		places_release(&p);
	}
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		struct places p;

		places_init(&p);
		cr_expect_not(read(&p, "fallback", "rate", wrong[i]), "%s", wrong[i]);
		places_release(&p);
	}
}

Test(options, users_are_asked_for_in_the_order_in_which_they_are_written)
{
	static const struct {
		const char *text;
		size_t n;
		enum user_source first;
	} rows[] = {
		{ "none", 0, 0 },
		{ "token", 1, USER_TOKEN },
		{ "Remote_User", 1, USER_REMOTE_USER },
		{ "token remote_user", 2, USER_TOKEN },
		{ "remote_user,\ttoken", 2, USER_REMOTE_USER },
	};
	static const char *const wrong[] = { "", ",", "tokens", "token token", "none token",
		"token none" };

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct places p;

		places_init(&p);
		cr_assert(read(&p, "client", "user", rows[i].text));
		cr_assert_eq(p.config.client.n_user, rows[i].n, "%s", rows[i].text);
		if (rows[i].n)
			cr_expect_eq(p.config.client.user[0], rows[i].first);
		if (rows[i].n == 2)
			cr_expect_neq(p.config.client.user[1], rows[i].first);
		places_release(&p);
	}
	for (size_t i = 0; i < COUNT_OF(wrong); i++) {
		struct places p;

		places_init(&p);
		cr_expect_not(read(&p, "client", "user", wrong[i]), "%s", wrong[i]);
		cr_expect_eq(p.config.client.n_user, 0);
		places_release(&p);
	}
}

Test(options, a_header_field_is_kept_as_the_parameter_in_which_it_comes)
{
	static const struct {
		const char *text, *parameter;
	} rows[] = {
		{ "Authorization", "HTTP_AUTHORIZATION" },
		{ "X-Api-Key", "HTTP_X_API_KEY" },
		{ "x_token", "HTTP_X_TOKEN" },
		{ "Content-Type", "CONTENT_TYPE" },
		{ "", "" },
	};
	static const char *const wrong[] = { "X Api", "X-Api:", "X.Api", "X\xc3\xa9" };
	struct places p;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		places_init(&p);
		cr_assert(read(&p, "client", "token_header", rows[i].text));
		cr_expect_str_eq(p.config.client.token_header, rows[i].parameter);
		places_release(&p);
	}
	places_init(&p);
	for (size_t i = 0; i < COUNT_OF(wrong); i++)
		cr_expect_not(read(&p, "client", "token_header", wrong[i]), "%s", wrong[i]);
	places_release(&p);
}

Test(options, a_directory_is_a_file_of_sqlite)
{
	static const struct {
		const char *text, *path;
	} rows[] = {
		{ "sqlite:/var/lib/weir/weir.db", "/var/lib/weir/weir.db" },
		{ "sqlite:///var/lib/weir/weir.db", "/var/lib/weir/weir.db" },
		{ "", "" },
	};
	static const char *const wrong[] = { "/var/lib/weir/weir.db", "sqlite:", "sqlite:/",
		"sqlite:weir.db", "mysql://host/db", "postgres:/x" };
	struct places p;

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		places_init(&p);
		cr_assert(read(&p, "client", "directory", rows[i].text));
		cr_expect_str_eq(p.config.client.directory, rows[i].path);
		places_release(&p);
	}
	places_init(&p);
	for (size_t i = 0; i < COUNT_OF(wrong); i++)
		cr_expect_not(read(&p, "client", "directory", wrong[i]), "%s", wrong[i]);
	places_release(&p);
}

static bool read_message(struct places *p, const char *name, const char *value)
{
	const struct option *o = option_find(VIEW("reply"), view_str(name));
	struct buf why = { 0 };
	bool ok;

	cr_assert_not_null(o, "%s", name);
	ok = option_read_as(o, &p->at, view_str(name), view_str(value), &why);
	buf_release(&why);
	return ok;
}

Test(options, a_message_may_be_there_in_any_language_once)
{
	static const char *const wrong[] = { "message.", "message.-", "message.zh-",
		"message.zh_CN", "message.toolonglanguage", "message.zh.cn", "message.ZH" };
	struct places p;

	places_init(&p);
	cr_assert(
		read_message(&p, "message.zh", "调用过于频繁，请 {retry_after} 秒后重试"));
	cr_assert(read_message(&p, "message.pt-BR", "Espere {retry_after} segundos"));
	for (size_t i = 0; i < COUNT_OF(wrong); i++)
		cr_expect_not(read_message(&p, wrong[i], "x"), "%s", wrong[i]);
	cr_expect_not(read_message(&p, "message.de", "{seconds}"));
	cr_expect_not(read_message(&p, "message.de", ""));
	cr_assert_eq(p.config.reply.n_messages, 2);
	cr_expect_str_eq(p.config.reply.messages[1].language, "pt-BR");
	cr_expect_str_eq(p.config.reply.messages[1].text, "Espere {retry_after} segundos");
	cr_expect_null(option_find(VIEW("reply"), VIEW("messages.zh")));
	places_release(&p);
}

Test(options, the_reference_shows_every_option_with_its_default)
{
	struct buf out = { 0 };

	options_print(&out);
	for (size_t i = 0; i < options_n; i++) {
		char line[64];

		snprintf(line, sizeof(line), "\n%s = ", options[i].name);
		cr_expect(strstr(buf_str(&out), line), "%s", options[i].name);
	}
	cr_expect(strstr(buf_str(&out), "[backend NAME]\n"));
	cr_expect(strstr(buf_str(&out), "timeout = DURATION    (default 50ms)\n"));
	cr_expect(strstr(buf_str(&out),
		"type = redis|memory    (default redis; needs a restart)\n"));
	buf_release(&out);
}

/* The shipped file names each option of the main file, and shows the default where the
 * line is commented out, unless the whole section is: that is an example. */
Test(options, the_shipped_file_shows_every_option_and_its_default)
{
	struct buf text = { 0 };
	struct view rest, section = VIEW("");
	bool seen[OPTIONS_MAX] = { false }, example = false;

	cr_assert_eq(ini_slurp(CONFIG_ETC "/weir.ini", &text), 0);
	rest = buf_view(&text);
	while (rest.n) {
		struct view line = view_cut(&rest, '\n'), value;
		bool commented = line.n && line.p[0] == ';';
		const struct option *o;

		value = line = view_skip(line, commented);
		if (line.n && line.p[0] == '[') {
			value = view_skip(line, 1);
			section = view_cut(&value, ']');
			section = view_cut(&section, ' ');
			example = commented;
			continue;
		}
		o = option_find(section, view_trim(view_cut(&value, '=')));
		if (!o)
			continue;
		seen[o - options] = true;
		if (commented && !example)
			cr_expect(view_eq(view_trim(value), view_str(o->def)),
				"%s.%s: %.*s", o->section, o->name, VIEW_ARG(value));
	}
	for (size_t i = 0; i < options_n; i++)
		cr_expect(seen[i] || options[i].in == IN_ENDPOINT, "%s.%s",
			options[i].section, options[i].name);
	buf_release(&text);
}
