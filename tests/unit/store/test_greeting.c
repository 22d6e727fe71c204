/*
 * test_greeting.c - what is said to Redis first, and which answers will do.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "store/greeting.h"
#include "store/script.h"

static struct {
	char *user, *password;
	unsigned db;
	const char *auth, *select;
} requests[] = {
	{ NULL, NULL, 0, "", "" },
	{ NULL, (char[]){ "p w" }, 15, "*2\r\n$4\r\nAUTH\r\n$3\r\np w\r\n",
		"*2\r\n$6\r\nSELECT\r\n$2\r\n15\r\n" },
	{ (char[]){ "" }, (char[]){ "pw" }, 0, "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n", "" },
	{ (char[]){ "me" }, (char[]){ "pw" }, 0,
		"*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$2\r\npw\r\n", "" },
	{ (char[]){ "me" }, NULL, 0, "", "" },
};

Test(greeting, asks_for_what_the_configuration_names_and_for_nothing_else)
{
	struct redis_server server = { 0 };
	struct config c = { 0 };
	struct buf b = { 0 };

	for (size_t i = 0; i < COUNT_OF(requests); i++) {
		server.username = requests[i].user;
		server.password = requests[i].password;
		server.db = requests[i].db;
		buf_reset(&b);
		greeting_put(&b, &c, &server, GREETING_AUTH);
		cr_expect_str_eq(buf_str(&b), requests[i].auth, "%zu", i);
		buf_reset(&b);
		greeting_put(&b, &c, &server, GREETING_SELECT);
		cr_expect_str_eq(buf_str(&b), requests[i].select, "%zu", i);
		buf_reset(&b);
		greeting_put(&b, &c, &server, GREETING_INFO);
		cr_expect_str_eq(buf_str(&b), "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n");
	}
	buf_release(&b);
}

#define SINGLE  "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nos:Linux\r\n"
#define CLUSTER "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\nos:Linux\r\n"

static const struct {
	enum greeting_step step;
	int type;
	const char *text;
	const char *why; /* NULL: it will do */
} replies[] = {
	{ GREETING_AUTH, REDIS_REPLY_STATUS, "OK", NULL },
	{ GREETING_AUTH, REDIS_REPLY_STATUS, "QUEUED",
		"AUTH: what came is not the reply to it" },
	{ GREETING_AUTH, REDIS_REPLY_STRING, "OK",
		"AUTH: what came is not the reply to it" },
	{ GREETING_AUTH, REDIS_REPLY_ERROR, "WRONGPASS invalid username-password pair",
		"AUTH: WRONGPASS; check user and password in store.url or "
		"store.password_file" },
	{ GREETING_AUTH, REDIS_REPLY_ERROR,
		"ERR unknown command 'AUTH', with args: 'sesame'",
		"AUTH: ERR; check user and password in store.url or store.password_file" },
	{ GREETING_AUTH, REDIS_REPLY_ERROR, "sesame",
		"AUTH: ; check user and password in store.url or store.password_file" },
	{ GREETING_AUTH, REDIS_REPLY_ERROR, "",
		"AUTH: ; check user and password in store.url or store.password_file" },
	{ GREETING_SELECT, REDIS_REPLY_STATUS, "OK", NULL },
	{ GREETING_SELECT, REDIS_REPLY_ERROR, "ERR DB index is out of range",
		"SELECT: ERR DB index is out of range" },
	{ GREETING_INFO, REDIS_REPLY_STRING, SINGLE, NULL },
	{ GREETING_INFO, REDIS_REPLY_STRING, CLUSTER,
		"it is a cluster node, where the limits of one request live in several "
		"slots; "
		"give weir a Redis without cluster mode" },
	{ GREETING_INFO, REDIS_REPLY_STRING,
		"redis_version:6.2.1\r\nredis_mode:sentinel\r\n",
		"it is a Sentinel, which counts nothing; give weir the Redis it watches" },
	{ GREETING_INFO, REDIS_REPLY_STRING,
		"redis_version:5.0.0\r\nredis_mode:standalone\r\n", NULL },
	{ GREETING_INFO, REDIS_REPLY_STRING,
		"redis_version:4.0.14\r\nredis_mode:standalone\r\n",
		"it is version 4.0.14, in which a script that has asked for the time may "
		"not write; weir needs 5.0 or later" },
	{ GREETING_INFO, REDIS_REPLY_STRING,
		"redis_version:unknown\r\nredis_mode:standalone\r\n",
		"it is version unknown, in which a script that has asked for the time may "
		"not write; weir needs 5.0 or later" },
	{ GREETING_INFO, REDIS_REPLY_STRING, "redis_mode:standalone\r\n",
		"INFO: what came is not the reply to it" },
	{ GREETING_INFO, REDIS_REPLY_STRING, "", "INFO: what came is not the reply to it" },
	{ GREETING_INFO, REDIS_REPLY_STATUS, SINGLE,
		"INFO: what came is not the reply to it" },
	{ GREETING_INFO, REDIS_REPLY_ERROR, "NOAUTH Authentication required.",
		"INFO: NOAUTH Authentication required." },
	{ GREETING_LOAD, REDIS_REPLY_STRING, "0000000000000000000000000000000000000000",
		"SCRIPT LOAD: what came is not the reply to it" },
	{ GREETING_LOAD, REDIS_REPLY_ERROR, "LOADING Redis is loading",
		"SCRIPT LOAD: LOADING Redis is loading" },
	{ GREETING_TRY, REDIS_REPLY_ERROR, "READONLY You can't write",
		"it cannot count: READONLY You can't write" },
	{ GREETING_TRY, REDIS_REPLY_ERROR, "MISCONF Errors writing to the AOF file",
		"it cannot count: MISCONF Errors writing to the AOF file" },
	{ GREETING_TRY, REDIS_REPLY_ERROR, "BADSTATE key rate:probe holds something",
		NULL },
	{ GREETING_TRY, REDIS_REPLY_STATUS, "OK",
		"it cannot count: what came is not the reply to it" },
};

static bool check(enum greeting_step step, int type, const char *text, char why[160])
{
	char copy[256];
	redisReply reply = { .type = type, .str = copy, .len = strlen(text) };

	snprintf(copy, sizeof(copy), "%s", text);
	return greeting_check(step, &reply, why, 160);
}

Test(greeting, the_password_of_a_file_is_for_servers_whose_url_has_none)
{
	struct redis_server server = { 0 };
	struct config c = { .store.password = (char[]){ "filed" } };
	struct buf b = { 0 };

	greeting_put(&b, &c, &server, GREETING_AUTH);
	cr_expect_str_eq(buf_str(&b), "*2\r\n$4\r\nAUTH\r\n$5\r\nfiled\r\n");
	buf_reset(&b);
	server.username = (char[]){ "me" };
	greeting_put(&b, &c, &server, GREETING_AUTH);
	cr_expect_str_eq(buf_str(&b), "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$5\r\nfiled\r\n");
	buf_reset(&b);
	server.password = (char[]){ "own" };
	greeting_put(&b, &c, &server, GREETING_AUTH);
	cr_expect_str_eq(buf_str(&b), "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$3\r\nown\r\n");
	buf_release(&b);
}

Test(greeting, takes_only_the_reply_hoped_for_and_says_what_is_wrong_with_others)
{
	char why[160];

	for (size_t i = 0; i < COUNT_OF(replies); i++) {
		bool ok = check(replies[i].step, replies[i].type, replies[i].text, why);

		cr_expect_eq(ok, !replies[i].why, "%zu", i);
		if (replies[i].why)
			cr_expect_str_eq(why, replies[i].why, "%zu: %s", i, why);
	}
	cr_expect(check(GREETING_LOAD, REDIS_REPLY_STRING, script_sha(), why));
}
