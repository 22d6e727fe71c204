#include "store/greeting.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/resp.h"
#include "store/script.h"
#include "store/store.h"

static void put_auth(
	struct buf *b, const struct config *c, const struct redis_server *server)
{
	struct view user = view_str(server->username);
	struct view password = view_str(
		server->password ? server->password : c->store.password);

	if (!password.p)
		return;
	if (user.n)
		resp_put_request(b, 3, (struct view[]){ VIEW("AUTH"), user, password });
	else
		resp_put_request(b, 2, (struct view[]){ VIEW("AUTH"), password });
}

/* The whole script: a flush of the script cache must not look like a fault. */
static void put_try(struct buf *b, const struct config *c)
{
	static const struct rate rate = {
		.algorithm = RATE_FIXED_WINDOW,
		.count = 1000000000,
		.window_us = 1000000,
		.burst = 1000000000,
	};
	struct take_tier tier = { .rate = &rate, .cost = 1 };
	struct buf key = { 0 };

	buf_addf(&key, "%s:probe", c->store.prefix ? c->store.prefix : "rate");
	b->failed |= !buf_ok(&key);
	tier.key = buf_view(&key);
	if (buf_ok(b))
		script_put_take(b, SCRIPT_WHOLE, &tier, 1, SCRIPT_REDIS_TIME);
	buf_release(&key);
}

void greeting_put(struct buf *b, const struct config *c, const struct redis_server *server,
	enum greeting_step step)
{
	char number[16];

	switch (step) {
	case GREETING_AUTH: put_auth(b, c, server); break;
	case GREETING_SELECT:
		if (server->db == 0)
			break;
		snprintf(number, sizeof(number), "%u", server->db);
		resp_put_request(b, 2, (struct view[]){ VIEW("SELECT"), view_str(number) });
		break;
	case GREETING_INFO:
		resp_put_request(b, 2, (struct view[]){ VIEW("INFO"), VIEW("server") });
		break;
	case GREETING_LOAD: script_put_load(b); break;
	case GREETING_TRY: put_try(b, c); break;
	default: break;
	}
}

static bool is_ok(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_STATUS &&
		view_eq(view_of(reply->str, reply->len), VIEW("OK"));
}

static bool refuse(const char *what, const redisReply *reply, char *why, size_t why_cap)
{
	if (reply->type == REDIS_REPLY_ERROR)
		snprintf(why, why_cap, "%s: %s", what, reply->str);
	else
		snprintf(why, why_cap, "%s: what came is not the reply to it", what);
	return false;
}

/* The code at the start of an error, such as WRONGPASS; empty when it has none. */
static struct view error_code(const redisReply *reply)
{
	struct view text = view_of(reply->str, reply->len), code = view_cut(&text, ' ');

	for (size_t i = 0; i < code.n; i++)
		if (code.p[i] < 'A' || code.p[i] > 'Z')
			return VIEW("");
	return code.n <= 16 ? code : VIEW("");
}

/* Of a refused AUTH only the code is shown: a server that does not know the command
 * repeats its arguments, which are the password. */
static bool refuse_auth(const redisReply *reply, char *why, size_t why_cap)
{
	struct view code;

	if (reply->type != REDIS_REPLY_ERROR)
		return refuse("AUTH", reply, why, why_cap);
	code = error_code(reply);
	snprintf(why, why_cap,
		"AUTH: %.*s; check user and password in store.url or "
		"store.password_file",
		VIEW_ARG(code));
	return false;
}

/* TIME in a script that writes afterwards needs replication by effects, which is the
 * default from this version on (redis.io, "Scripting with Lua"). */
#define OLDEST_MAJOR 5

/* hiredis ends strings with a NUL of its own. */
static bool check_info(const redisReply *reply, char *why, size_t why_cap)
{
	const char *mode = NULL, *version = NULL;
	int len;

	if (reply->type == REDIS_REPLY_STRING) {
		mode = strstr(reply->str, "redis_mode:");
		version = strstr(reply->str, "redis_version:");
	}
	if (!mode || !version)
		return refuse("INFO", reply, why, why_cap);
	mode += strlen("redis_mode:");
	version += strlen("redis_version:");
	len = (int)strcspn(version, "\r\n");
	if (strncmp(mode, "cluster", 7) == 0)
		snprintf(why, why_cap,
			"it is a cluster node, where the limits of one request live in "
			"several slots; give weir a Redis without cluster mode");
	else if (strncmp(mode, "sentinel", 8) == 0)
		snprintf(why, why_cap,
			"it is a Sentinel, which counts nothing; give weir the Redis it "
			"watches");
	else if (strtoul(version, NULL, 10) < OLDEST_MAJOR)
		snprintf(why, why_cap,
			"it is version %.*s, in which a script that has asked for the time "
			"may not write; weir needs 5.0 or later",
			len < 20 ? len : 20, version);
	else
		return true;
	return false;
}

static bool check_load(const redisReply *reply, char *why, size_t why_cap)
{
	if (reply->type == REDIS_REPLY_STRING &&
		view_eq(view_of(reply->str, reply->len), view_str(script_sha())))
		return true;
	return refuse("SCRIPT LOAD", reply, why, why_cap);
}

/* That somebody else uses the key shows that Redis answers; questions will show more. */
static bool check_try(const redisReply *reply, char *why, size_t why_cap)
{
	struct rate_view view;
	bool admitted;

	if (script_parse(reply, 1, &admitted, &view) ||
		(reply->type == REDIS_REPLY_ERROR &&
			view_starts(
				view_of(reply->str, reply->len), VIEW("BADSTATE key "))))
		return true;
	return refuse("it cannot count", reply, why, why_cap);
}

bool greeting_check(
	enum greeting_step step, const redisReply *reply, char *why, size_t why_cap)
{
	switch (step) {
	case GREETING_AUTH: return is_ok(reply) || refuse_auth(reply, why, why_cap);
	case GREETING_SELECT: return is_ok(reply) || refuse("SELECT", reply, why, why_cap);
	case GREETING_INFO: return check_info(reply, why, why_cap);
	case GREETING_LOAD: return check_load(reply, why, why_cap);
	default: return check_try(reply, why, why_cap);
	}
}
