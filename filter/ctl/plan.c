/*
 * ctl/plan.c - weirctl plan: the plans that users can be on.
 *
 * What a plan allows stands in the rules (plan=NAME); here it only has its name, so that
 * a misspelt one is found when a user is put on it.
 */
#include "client/schema.h"
#include "config/words.h"
#include "ctl/directory.h"

static int plan_add(struct job *j)
{
	const char *name = j->operands[0];

	if (!word_is_name(view_str(name)) || strlen(name) > SCHEMA_PLAN_MAX)
		return job_fail(j,
			"\"%s\" is no name for a plan; write up to %d letters, digits, _ . "
			"-",
			name, SCHEMA_PLAN_MAX);
	if (strcmp(name, "anonymous") == 0)
		return job_fail(j,
			"\"anonymous\" is the plan of requests without a user; "
			"choose another name");
	switch (job_exists(j, "SELECT 1 FROM plans WHERE name = ?", name)) {
	case 0: break;
	case 1: return job_fail(j, "there is a plan \"%s\" already", name);
	default: return CTL_FAILED;
	}
	if (!job_run(j, NULL, "INSERT INTO plans (name, description) VALUES (?, ?)", "ss",
		    name, j->description ? j->description : ""))
		return CTL_FAILED;
	return job_print(j, json_pack("{s:s}", "name", name), "plan %s is there", name);
}

static int plan_list(struct job *j)
{
	static const struct column columns[] = {
		{ "name", COLUMN_TEXT },
		{ "users", COLUMN_TEXT },
		{ "description", COLUMN_TEXT },
	};

	return job_list(j,
		job_prepare(j,
			"SELECT p.name, (SELECT count(*) FROM users AS u WHERE u.plan = "
			"p.name), "
			"p.description FROM plans AS p ORDER BY p.name",
			""),
		columns, COUNT_OF(columns));
}

static int plan_remove(struct job *j)
{
	const char *name = j->operands[0];
	int changes;

	if (strcmp(name, "default") == 0)
		return job_fail(j,
			"\"default\" is the plan of users without another one: it "
			"stays");
	switch (job_exists(j, "SELECT 1 FROM users WHERE plan = ?", name)) {
	case 0: break;
	case 1:
		return job_fail(j,
			"there are users on plan \"%s\"; \"weirctl user list --plan %s\" "
			"shows "
			"them",
			name, name);
	default: return CTL_FAILED;
	}
	if (!job_run(j, &changes, "DELETE FROM plans WHERE name = ?", "s", name))
		return CTL_FAILED;
	if (!changes)
		return job_fail(j, "there is no plan \"%s\"", name);
	return job_print(j, json_pack("{s:s}", "name", name), "plan %s is gone", name);
}

static const struct verb verbs[] = {
	{ "add", "NAME [--description TEXT]", 1, 1, "d", plan_add },
	{ "list", "", 0, 0, "", plan_list },
	{ "remove", "NAME", 1, 1, "", plan_remove },
};

int command_plan(struct ctl *ctl, int argc, char **argv)
{
	return directory_command(ctl, argc, argv, verbs, COUNT_OF(verbs));
}
