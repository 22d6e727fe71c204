/*
 * weirctl as an operator types it, and what the directory then knows.
 */
#include "support.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/directory.h"

static const char *db_path(void)
{
	return test_path("weir.db");
}

/* A directory with the users alice, and bob on plan gold. */
static void make_users(void)
{
	weirctl("db init %s", db_path());
	weirctl("plan add gold --description more --db %s", db_path());
	weirctl("user add alice --db %s", db_path());
	weirctl("user add bob --plan gold --db %s", db_path());
}

static json_t *list(const char *arguments)
{
	json_t *rows = json_loads(
		weirctl("%s --json --db %s", arguments, db_path()), 0, NULL);

	cr_assert(json_is_array(rows), "%s", arguments);
	return rows;
}

/* The member of the n-th row as text; the list is released. */
static const char *cell(json_t *rows, size_t n, const char *member)
{
	json_t *v = json_object_get(json_array_get(rows, n), member);
	const char *out = text("%s",
		json_is_string(v) ? json_string_value(v)
			: json_is_integer(v)
			? text("%lld", (long long)json_integer_value(v))
			: json_is_true(v)  ? "true"
			: json_is_false(v) ? "false"
			: json_is_null(v)  ? "null"
					   : "missing");

	json_decref(rows);
	return out;
}

static const char *first_line(const char *out)
{
	struct view rest = view_str(out), line = view_cut(&rest, '\n');

	return text("%.*s", VIEW_ARG(line));
}

static void note(void *user, enum directory_result result, const struct directory_entry *e)
{
	const char **heard = user;

	*heard = result == DIRECTORY_FOUND
		? text("%s/%s%s", e->user, e->plan, e->admin ? "/admin" : "")
		: "unknown";
	if (result == DIRECTORY_FAILED)
		*heard = "failed";
}

/* What weir makes of a token: "alice/default". */
static const char *seen_by_weir(const char *token)
{
	struct directory_options o = { .path = db_path(), .query = "" };
	unsigned char hash[DIRECTORY_HASH_BYTES];
	const char *heard = "nothing";
	struct buf why = { 0 };
	struct directory *d = directory_open(&o, &why);
	uv_loop_t loop;

	cr_assert(d, "%s", buf_str(&why));
	crypto_hash_sha256(hash, (const unsigned char *)token, strlen(token));
	uv_loop_init(&loop);
	directory_ask(d, &loop, DIRECTORY_BY_TOKEN,
		view_of((const char *)hash, sizeof(hash)), note, &heard);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	directory_close(d);
	return heard;
}

TestSuite(weirctl, .timeout = 60);

Test(weirctl, makes_a_token_that_weir_knows_until_it_is_revoked)
{
	const char *token, *admin;
	struct run r;

	make_users();
	r = weirctl_run("token add bob --label laptop --expires 30d --db %s", db_path());
	cr_assert_eq(r.status, 0, "%s", r.err);
	token = first_line(r.out);
	cr_expect_str_eq(r.out, text("%s\n", token), "the token stands alone");
	cr_expect_eq(strlen(token), 48);
	cr_expect_eq(strncmp(token, "weir_", 5), 0);
	cr_expect(strstr(r.err, "token 1 of bob, until "), "%s", r.err);
	cr_expect_null(strstr(r.err, token));
	admin = first_line(weirctl("token add alice --admin --db %s", db_path()));
	cr_expect_str_neq(admin, token);
	cr_expect_str_eq(seen_by_weir(token), "bob/gold");
	cr_expect_str_eq(seen_by_weir(admin), "alice/default/admin");

	weirctl("token revoke laptop --db %s", db_path());
	cr_expect_str_eq(seen_by_weir(token), "unknown");
	weirctl("token revoke 2 --db %s", db_path());
	cr_expect_str_eq(seen_by_weir(admin), "unknown");
	cr_expect(strstr(weirctl("token revoke 2 --db %s", db_path()), "revoked before"));
}

Test(weirctl, stores_no_token)
{
	const char *token, *path;

	make_users();
	token = first_line(weirctl("token add alice --db %s", db_path()));
	for (int i = 0; i < 2; i++) {
		struct stat st;
		char *bytes;
		FILE *from;

		path = text("%s%s", db_path(), i ? "-wal" : "");
		cr_assert_eq(stat(path, &st), 0, "%s", path);
		cr_expect_eq(st.st_mode & 0007, 0, "%s is closed to others", path);
		bytes = malloc((size_t)st.st_size);
		from = fopen(path, "r");
		cr_assert(bytes && from);
		cr_assert_eq(fread(bytes, 1, (size_t)st.st_size, from), (size_t)st.st_size);
		cr_expect_null(
			memmem(bytes, (size_t)st.st_size, token + 5, strlen(token) - 5));
		fclose(from);
		free(bytes);
	}
}

Test(weirctl, changes_plans_and_disables_users)
{
	const char *token;

	make_users();
	token = first_line(weirctl("token add alice --db %s", db_path()));
	weirctl("user set alice --plan gold --db %s", db_path());
	cr_expect_str_eq(seen_by_weir(token), "alice/gold");
	weirctl("user disable alice --db %s", db_path());
	cr_expect_str_eq(seen_by_weir(token), "unknown");
	cr_expect_str_eq(cell(list("token list"), 0, "state"), "disabled");
	weirctl("user enable alice --db %s", db_path());
	cr_expect_str_eq(seen_by_weir(token), "alice/gold");
	weirctl("user set alice --plan default --db %s", db_path());
	weirctl("user set bob --plan default --db %s", db_path());
	weirctl("plan remove gold --db %s", db_path());
	cr_expect_str_eq(cell(list("plan list"), 0, "name"), "default");
	cr_expect_str_eq(cell(list("plan list"), 1, "name"), "missing");
}

Test(weirctl, lists_for_people_and_for_machines)
{
	const char *table;

	make_users();
	weirctl("token add alice --label a --expires 2099-01-31 --db %s", db_path());
	weirctl("token add bob --label b --admin --db %s", db_path());
	cr_expect_str_eq(cell(list("user list"), 1, "name"), "bob");
	cr_expect_str_eq(cell(list("user list"), 1, "plan"), "gold");
	cr_expect_str_eq(cell(list("user list"), 1, "tokens"), "1");
	cr_expect_str_eq(cell(list("user list"), 1, "disabled"), "null");
	cr_expect_str_eq(cell(list("user list --plan gold"), 0, "name"), "bob");
	cr_expect_str_eq(cell(list("plan list"), 1, "users"), "1");
	cr_expect_str_eq(cell(list("token list"), 0, "expires"), "4073500800");
	cr_expect_str_eq(cell(list("token list"), 0, "admin"), "false");
	cr_expect_str_eq(cell(list("token list"), 1, "admin"), "true");
	cr_expect_str_eq(cell(list("token list --user bob"), 0, "label"), "b");
	cr_expect_str_eq(cell(list("token list"), 0, "hash"), "missing");
	table = weirctl("token list --db %s", db_path());
	cr_expect(strstr(table, "id  user   label  state  admin  created"), "%s", table);
	cr_expect(strstr(table, "\n1   alice  a      valid         20"), "%s", table);
	cr_expect(strstr(table, "2099-01-31 00:00 UTC\n"), "%s", table);
}

Test(weirctl, says_what_is_wrong_and_what_would_do)
{
	static const struct {
		const char *arguments; /* --db is added */
		int status;
		const char *says;
	} rows[] = {
		{ "token add carol", 1,
			"no user \"carol\"; \"weirctl user add carol\" makes" },
		{ "token add alice --expires soon", 1,
			"--expires \"soon\" is neither a duration nor a date; write 30d" },
		{ "token add alice --expires 30", 1, "neither a duration nor a date" },
		{ "token add alice --expires 2099-02-30", 1,
			"neither a duration nor a date" },
		{ "token add alice --expires 2001-01-01", 1, "is over already" },
		{ "token add alice --expires 0s", 1, "is over already" },
		{ "token add alice --label 7", 1, "would look like an id" },
		{ "token add", 2, "usage: weirctl token add USER" },
		{ "token add alice bob", 2, "makes nothing of \"bob\"" },
		{ "token add alice --plan gold", 2, "token add takes no --plan" },
		{ "token revoke 99", 1, "there is no token 99" },
		{ "token revoke nothing", 1, "no token has the label \"nothing\"" },
		{ "token revoke twice", 1,
			"several tokens have the label \"twice\": 1 (alice), 2 (bob)" },
		{ "token list --user carol", 1, "no user \"carol\"" },
		{ "token", 2, "usage: weirctl token add" },
		{ "token burn", 2, "usage: weirctl token add" },
		{ "user add alice", 1, "there is a user \"alice\" already" },
		{ "user add carol --plan golf", 1,
			"no plan \"golf\"; \"weirctl plan add golf\" makes it" },
		{ "user add \t", 1, "no name for a user" },
		{ "user set alice", 1, "Write --plan NAME" },
		{ "user set carol --plan gold", 1, "no user \"carol\"" },
		{ "user disable carol", 1, "no user \"carol\"" },
		{ "plan add gold", 1, "there is a plan \"gold\" already" },
		{ "plan add go/ld", 1, "no name for a plan" },
		{ "plan add anonymous", 1, "the plan of requests without a user" },
		{ "plan remove gold", 1, "there are users on plan \"gold\"" },
		{ "plan remove default", 1, "it stays" },
		{ "plan remove golf", 1, "no plan \"golf\"" },
		{ "db init", 1, "is a directory already, with version 1" },
		{ "db", 2, "usage: weirctl db init" },
	};

	make_users();
	weirctl("token add alice --label twice --db %s", db_path());
	weirctl("token add bob --label twice --db %s", db_path());
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct run r = weirctl_run("%s --db %s", rows[i].arguments, db_path());

		cr_expect_eq(
			r.status, rows[i].status, "%s: %d", rows[i].arguments, r.status);
		cr_expect(strstr(r.err, rows[i].says), "%s: %s", rows[i].arguments, r.err);
		cr_expect_str_eq(r.out, "", "%s", rows[i].arguments);
	}
	weirctl("token revoke twice --user bob --db %s", db_path());
	weirctl("token revoke twice --db %s", db_path());
}

Test(weirctl, tells_a_file_that_is_not_there_from_one_that_is_closed)
{
	const char *path = db_path();
	struct run r = weirctl_run("plan add gold --db %s", path);

	cr_expect_eq(r.status, 1);
	cr_expect(
		strstr(r.err, text("there is no %s; \"weirctl db init\" makes it\n", path)),
		"%s", r.err);
	r = weirctl_run("db migrate %s", path);
	cr_expect(strstr(r.err, "\"weirctl db init\" makes it"), "%s", r.err);
	r = weirctl_run("db init %s", test_path("no/such/folder/weir.db"));
	cr_expect_eq(r.status, 1);
	cr_expect(strstr(r.err, "make its folder"), "%s", r.err);
	/* Options of the kind may stand before the command too. */
	weirctl("db init %s", path);
	cr_expect(strstr(weirctl("--db %s --json plan list", path), "\"name\""));
}

Test(weirctl, leaves_files_alone_that_are_not_its_own)
{
	const char *notes = test_path("notes.txt"), *empty = test_path("empty.db");
	struct run r;

	file_write(notes, "These are notes, and a database they are not.\n");
	r = weirctl_run("db init %s", notes);
	cr_expect_eq(r.status, 1);
	cr_expect(strstr(r.err, "file is not a database"), "%s", r.err);
	cr_expect_str_eq(
		file_read(notes), "These are notes, and a database they are not.\n");
	r = weirctl_run("user list --db %s", notes);
	cr_expect_eq(r.status, 1);
	r = weirctl_run("user list --db %s", test_path("nothing.db"));
	cr_expect_eq(r.status, 1);
	cr_expect_eq(access(test_path("nothing.db"), F_OK), -1, "looking makes no file");
	r = weirctl_run("db init %s/nowhere/x.db", test_dir());
	cr_expect(strstr(r.err, "cannot be made: No such file or directory"), "%s", r.err);
	file_write(empty, "");
	weirctl("db init %s", empty);
	weirctl("db migrate %s", empty);
}

Test(weirctl, finds_the_directory_in_the_configuration)
{
	const char *ini = test_path("weir.ini");
	const char *head = text(
		"[server]\nlisten = unix:%s/w.sock\nbackend = b\n"
		"[store]\ntype = memory\n[backend b]\nfastcgi = unix:%s/b.sock\n",
		test_dir(), test_dir());
	struct run r;

	file_write(ini, head);
	r = weirctl_run("user list -c %s", ini);
	cr_expect_eq(r.status, 1);
	cr_expect(strstr(r.err, "names no directory"), "%s", r.err);
	r = weirctl_run("user list -c %s/no.ini", test_dir());
	cr_expect(strstr(r.err, "weirctl check says why"), "%s", r.err);
	file_write(ini,
		text("%s[client]\nuser = token\ntoken_header = Authorization\n"
		     "directory = sqlite:%s\n",
			head, db_path()));
	weirctl("db init -c %s", ini);
	weirctl("user add alice -c %s", ini);
	weirctl("-c %s token add alice", ini);
	cr_expect_str_eq(cell(list("user list"), 0, "tokens"), "1");
}
