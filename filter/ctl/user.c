/*
 * ctl/user.c - weirctl user: who has a plan, and tokens.
 */
#include "base/utf8.h"
#include "client/schema.h"
#include "ctl/directory.h"

static bool is_user_name(struct view name)
{
	if (name.n == 0 || name.n > SCHEMA_USER_MAX || !utf8_valid(name))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if ((unsigned char)name.p[i] < ' ' || name.p[i] == 0x7f)
			return false;
	return true;
}

/* Whether users can be put on it; says why not. */
static bool plan_exists(struct job *j, const char *plan)
{
	int there = job_exists(j, "SELECT 1 FROM plans WHERE name = ?", plan);

	if (there == 0)
		job_fail(j,
			"there is no plan \"%s\"; \"weirctl plan add %s\" makes it, "
			"\"weirctl "
			"plan list\" shows the others",
			plan, plan);
	return there == 1;
}

static int no_such_user(const struct job *j, const char *name)
{
	return job_fail(
		j, "there is no user \"%s\"; \"weirctl user list\" shows them", name);
}

static int user_add(struct job *j)
{
	const char *name = j->operands[0], *plan = j->plan ? j->plan : "default";

	if (!is_user_name(view_str(name)))
		return job_fail(j,
			"\"%s\" is no name for a user; write up to %d bytes of UTF-8 "
			"without "
			"control characters",
			name, SCHEMA_USER_MAX);
	switch (job_exists(j, "SELECT 1 FROM users WHERE name = ?", name)) {
	case 0: break;
	case 1:
		return job_fail(j,
			"there is a user \"%s\" already; \"weirctl user set\" changes the "
			"plan",
			name);
	default: return CTL_FAILED;
	}
	if (!plan_exists(j, plan) ||
		!job_run(j, NULL,
			"INSERT INTO users (name, plan, created) VALUES (?, ?, ?)", "ssi",
			name, plan, j->now_s))
		return CTL_FAILED;
	return job_print(j, json_pack("{s:s, s:s}", "name", name, "plan", plan),
		"user %s is there, on plan %s", name, plan);
}

static int user_list(struct job *j)
{
	static const struct column columns[] = {
		{ "name", COLUMN_TEXT },
		{ "plan", COLUMN_TEXT },
		{ "tokens", COLUMN_TEXT },
		{ "created", COLUMN_TIME },
		{ "disabled", COLUMN_TIME },
	};

	return job_list(j,
		job_prepare(j,
			"SELECT u.name, u.plan, (SELECT count(*) FROM tokens AS t WHERE "
			"t.user = "
			"u.name AND t.revoked IS NULL AND (t.expires IS NULL OR t.expires "
			"> ?1)), "
			"u.created, u.disabled FROM users AS u "
			"WHERE ?2 IS NULL OR u.plan = ?2 ORDER BY u.name",
			"is", j->now_s, j->plan),
		columns, COUNT_OF(columns));
}

static int user_set(struct job *j)
{
	const char *name = j->operands[0];
	int changes;

	if (!j->plan)
		return job_fail(j, "what is to be set? Write --plan NAME");
	if (!plan_exists(j, j->plan) ||
		!job_run(j, &changes, "UPDATE users SET plan = ? WHERE name = ?", "ss",
			j->plan, name))
		return CTL_FAILED;
	if (!changes)
		return no_such_user(j, name);
	return job_print(j, json_pack("{s:s, s:s}", "name", name, "plan", j->plan),
		"user %s is on plan %s", name, j->plan);
}

static int user_disable(struct job *j)
{
	const char *name = j->operands[0];
	int changes;

	if (!job_run(j, &changes,
		    "UPDATE users SET disabled = coalesce(disabled, ?) WHERE name = ?",
		    "is", j->now_s, name))
		return CTL_FAILED;
	if (!changes)
		return no_such_user(j, name);
	return job_print(j, json_pack("{s:s, s:b}", "name", name, "disabled", 1),
		"user %s is disabled; the tokens count for nothing once "
		"client.directory_ttl is over",
		name);
}

static int user_enable(struct job *j)
{
	const char *name = j->operands[0];
	int changes;

	if (!job_run(j, &changes, "UPDATE users SET disabled = NULL WHERE name = ?", "s",
		    name))
		return CTL_FAILED;
	if (!changes)
		return no_such_user(j, name);
	return job_print(j, json_pack("{s:s, s:b}", "name", name, "disabled", 0),
		"user %s is in use", name);
}

static const struct verb verbs[] = {
	{ "add", "NAME [--plan PLAN]", 1, 1, "p", user_add },
	{ "list", "[--plan PLAN]", 0, 0, "p", user_list },
	{ "set", "NAME --plan PLAN", 1, 1, "p", user_set },
	{ "disable", "NAME", 1, 1, "", user_disable },
	{ "enable", "NAME", 1, 1, "", user_enable },
};

int command_user(struct ctl *ctl, int argc, char **argv)
{
	return directory_command(ctl, argc, argv, verbs, COUNT_OF(verbs));
}
