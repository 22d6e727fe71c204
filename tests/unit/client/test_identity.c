/*
 * Which user a request comes from, with a directory behind it.
 *
 *	alice  default   token "a", admin token "root", expired "old", revoked "dead"
 *	bob    gold      token "b"
 */
#include "base/log.h"
#include "client/client.h"
#include "directory_file.h"
#include "make_request.h"

#include <stdlib.h>

static void be_quiet(void)
{
	log_open(-1, LOG_LEVEL_ERROR);
}

TestSuite(identity, .init = be_quiet);

static char authorization[] = "HTTP_AUTHORIZATION", none[] = "";

static struct network friends[] = { { .addr = { 203, 0, 113 }, .addr_n = 4, .bits = 24 } };

/* Sources: t, r, in this order. */
static struct config config_of(const char *sources)
{
	struct config c = { 0 };

	c.client.ipv6_prefix = 64;
	c.client.token_header = authorization;
	c.client.token_cookie = none;
	c.client.directory_error = ON_ERROR_OPEN;
	c.allow.networks = (struct networks){ friends, 1 };
	for (; *sources; sources++)
		c.client.user[c.client.n_user++] = *sources == 't' ? USER_TOKEN
								   : USER_REMOTE_USER;
	return c;
}

static unsigned done_calls;

static void note_done(struct client *c)
{
	(void)c;
	done_calls++;
}

static void identify_rq(struct client *out, struct directory *d, const struct config *c,
	const struct request *rq)
{
	uv_loop_t loop;

	cr_assert_eq(uv_loop_init(&loop), 0);
	*out = (struct client){ .done = note_done };
	done_calls = 0;
	client_identify(out, &loop, d, c, rq);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_expect_eq(done_calls, 1);
	cr_expect(!out->pending);
	cr_assert_eq(uv_loop_close(&loop), 0);
}

static void identify(struct client *out, struct directory *d, const char *sources,
	const char *token, const char *remote_user)
{
	struct config c = config_of(sources);
	struct request rq;
	char value[64];

	snprintf(value, sizeof(value), "%s%s", *token ? "Bearer " : "", token);
	make_request(&rq, "REMOTE_ADDR", "192.0.2.7", authorization, value, "REMOTE_USER",
		remote_user, NULL);
	identify_rq(out, d, &c, &rq);
	request_release(&rq);
}

static struct directory *make_directory(struct directory_file *f)
{
	file_init(f);
	file_add(f, "alice", "default", "a", "");
	file_add(f, "alice", "default", "root", "admin = 1");
	file_add(f, "alice", "default", "old", "admin = 1, expires = 1");
	file_add(f, "alice", "default", "dead", "admin = 1, revoked = 1");
	file_add(f, "bob", "gold", "b", "");
	return file_open(f);
}

Test(identity, the_first_source_that_names_somebody_counts)
{
	static const struct {
		const char *sources, *token, *remote_user, *user, *plan;
		bool exempt;
	} rows[] = {
		/* No source is believed unless it is configured. */
		{ "", "a", "bob", "", "anonymous", false },
		{ "t", "", "bob", "", "anonymous", false },
		{ "r", "a", "", "", "anonymous", false },
		{ "t", "a", "", "alice", "default", false },
		{ "t", "b", "", "bob", "gold", false },
		{ "r", "", "bob", "bob", "gold", false },
		{ "r", "", "carol", "carol", "default", false },
		{ "r", "", "", "", "anonymous", false },
		/* In their order. */
		{ "tr", "a", "bob", "alice", "default", false },
		{ "rt", "a", "bob", "bob", "gold", false },
		{ "rt", "a", "carol", "carol", "default", false },
		{ "rt", "a", "", "alice", "default", false },
		{ "tr", "", "bob", "bob", "gold", false },
		{ "tr", "nobody's", "bob", "bob", "gold", false },
		{ "tr", "nobody's", "", "", "anonymous", false },
		/* Administrators, and those who look like one. */
		{ "t", "root", "", "alice", "default", true },
		{ "tr", "root", "bob", "alice", "default", true },
		{ "rt", "root", "bob", "bob", "gold", false },
		{ "r", "root", "", "", "anonymous", false },
		{ "", "root", "", "", "anonymous", false },
		{ "t", "Root", "", "", "anonymous", false },
		{ "t", "root2", "", "", "anonymous", false },
		{ "t", "admin", "", "", "anonymous", false },
		{ "t", "weir_admin", "", "", "anonymous", false },
		{ "tr", "weir_admin", "root", "root", "default", false },
		/* The hash is in the file, and is not the token. */
		{ "t", "4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2",
			"", "", "anonymous", false },
		{ "t", "old", "", "", "anonymous", false },
		{ "t", "dead", "", "", "anonymous", false },
		{ "tr", "dead", "bob", "bob", "gold", false },
	};
	struct directory_file f;
	struct directory *d = make_directory(&f);

	/* Twice: from the file and from the cache. */
	for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
		size_t r = i % COUNT_OF(rows);
		struct client c;

		identify(&c, d, rows[r].sources, rows[r].token, rows[r].remote_user);
		cr_expect_str_eq(c.user, rows[r].user, "row %zu: %s", r, c.user);
		cr_expect_str_eq(c.plan, rows[r].plan, "row %zu: %s", r, c.plan);
		cr_expect_eq(c.exempt, rows[r].exempt, "row %zu", r);
		cr_expect(!c.unknown);
		cr_expect_str_eq(c.network, "192.0.2.7");
	}
	directory_close(d);
	file_release(&f);
}

Test(identity, without_a_directory_the_servers_user_is_on_the_default_plan)
{
	struct client c;

	identify(&c, NULL, "tr", "root", "alice");
	cr_expect_str_eq(c.user, "alice");
	cr_expect_str_eq(c.plan, "default");
	cr_expect(!c.exempt);
	identify(&c, NULL, "t", "root", "alice");
	cr_expect_str_eq(c.user, "");
	cr_expect_str_eq(c.plan, "anonymous");
}

Test(identity, fields_that_are_named_like_the_servers_variables_are_worth_nothing)
{
	static const char *const names[] = { "HTTP_REMOTE_USER", "HTTP_X_REMOTE_USER",
		"HTTP_X_ADMIN", "HTTP_WEIR_USER", "REMOTE_USER_", "HTTP_COOKIE",
		"HTTP_PROXY_AUTHORIZATION", "HTTP_X_AUTHORIZATION", "AUTHORIZATION" };
	struct config config = config_of("tr");
	struct directory_file f;
	struct directory *d = make_directory(&f);

	for (size_t i = 0; i < COUNT_OF(names); i++) {
		struct request rq;
		struct client c;

		make_request(
			&rq, "REMOTE_ADDR", "192.0.2.7", names[i], "Bearer root", NULL);
		identify_rq(&c, d, &config, &rq);
		cr_expect_str_eq(c.user, "", "%s", names[i]);
		cr_expect(!c.exempt, "%s", names[i]);
		request_release(&rq);
	}
	directory_close(d);
	file_release(&f);
}

Test(identity, what_is_given_twice_names_nobody)
{
	struct config config = config_of("tr");
	struct directory_file f;
	struct directory *d = make_directory(&f);
	struct request rq;
	struct client c;

	make_request(&rq, "REMOTE_ADDR", "192.0.2.7", authorization, "Bearer root",
		authorization, "Bearer root", "REMOTE_USER", "bob", NULL);
	identify_rq(&c, d, &config, &rq);
	cr_expect_str_eq(c.user, "bob");
	cr_expect(!c.exempt);
	request_release(&rq);
	make_request(&rq, "REMOTE_USER", "bob", "REMOTE_USER", "alice", NULL);
	identify_rq(&c, d, &config, &rq);
	cr_expect_str_eq(c.user, "");
	request_release(&rq);
	directory_close(d);
	file_release(&f);
}

Test(identity, long_names_of_the_server_stay_apart)
{
	struct config config = config_of("r");
	char name[2][400];
	struct client c[2];

	for (size_t i = 0; i < 2; i++) {
		struct request rq;

		memset(name[i], 'x', sizeof(name[i]) - 1);
		name[i][398] = i ? 'a' : 'b';
		name[i][399] = '\0';
		make_request(&rq, "REMOTE_USER", name[i], NULL);
		identify_rq(&c[i], NULL, &config, &rq);
		request_release(&rq);
	}
	cr_expect_str_neq(c[0].user, c[1].user);
	cr_expect_gt(strlen(c[0].user), 0);
}

/* What there is to find out about a client, where the directory has to be asked. */
struct asking {
	const char *sources, *token, *remote_user, *peer;
	enum on_error policy;
	const char *user, *plan;
	bool exempt, unknown;
};

static void expect_client(struct directory *d, const struct asking *asking, size_t row)
{
	struct config config = config_of(asking->sources);
	struct request rq;
	struct client c;
	char value[64];

	config.client.directory_error = asking->policy;
	snprintf(value, sizeof(value), "Bearer %s", asking->token);
	make_request(&rq, "REMOTE_ADDR", asking->peer, authorization, value, "REMOTE_USER",
		asking->remote_user, NULL);
	identify_rq(&c, d, &config, &rq);
	cr_expect_str_eq(c.user, asking->user, "row %zu: %s", row, c.user);
	cr_expect_str_eq(c.plan, asking->plan, "row %zu: %s", row, c.plan);
	cr_expect_eq(c.exempt, asking->exempt, "row %zu", row);
	cr_expect_eq(c.unknown, asking->unknown, "row %zu", row);
	request_release(&rq);
}

static void take_away(struct directory_file *f)
{
	char away[128];

	snprintf(away, sizeof(away), "%s.new", f->path);
	cr_assert_eq(rename(f->path, away), 0);
}

Test(identity, an_unreadable_directory_is_answered_by_policy)
{
	static const struct asking rows[] = {
		{ "t", "a", "", "192.0.2.7", ON_ERROR_OPEN, "", "anonymous", false, false },
		{ "tr", "a", "bob", "192.0.2.7", ON_ERROR_OPEN, "bob", "default", false,
			false },
		{ "r", "", "bob", "192.0.2.7", ON_ERROR_OPEN, "bob", "default", false,
			false },
		{ "t", "root", "", "192.0.2.7", ON_ERROR_OPEN, "", "anonymous", false,
			false },
		{ "t", "a", "", "192.0.2.7", ON_ERROR_CLOSED, "", "anonymous", false,
			true },
		{ "tr", "a", "bob", "192.0.2.7", ON_ERROR_CLOSED, "", "anonymous", false,
			true },
		{ "r", "", "bob", "192.0.2.7", ON_ERROR_CLOSED, "bob", "default", false,
			true },
		/* Who needs nothing of the directory is served. */
		{ "tr", "", "", "192.0.2.7", ON_ERROR_CLOSED, "", "anonymous", false,
			false },
		{ "t", "a b", "", "192.0.2.7", ON_ERROR_CLOSED, "", "anonymous", false,
			false },
		{ "t", "a", "", "203.0.113.9", ON_ERROR_CLOSED, "", "anonymous", true,
			false },
	};
	struct directory_file f;
	struct directory *d = make_directory(&f);

	take_away(&f);
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect_client(d, &rows[i], i);
	directory_close(d);
	file_release(&f);
}

Test(identity, who_was_known_stays_what_he_was_while_the_directory_cannot_be_read)
{
	static const char peer[] = "192.0.2.7";
	static const struct asking rows[] = {
		{ "t", "a", "", peer, ON_ERROR_OPEN, "alice", "default", false, false },
		{ "t", "b", "", peer, ON_ERROR_OPEN, "bob", "gold", false, false },
		{ "t", "root", "", peer, ON_ERROR_OPEN, "alice", "default", true, false },
		{ "t", "rooT", "", peer, ON_ERROR_OPEN, "", "anonymous", false, false },
		{ "t", "dead", "", peer, ON_ERROR_OPEN, "", "anonymous", false, false },
		{ "r", "", "bob", peer, ON_ERROR_OPEN, "bob", "gold", false, false },
		{ "r", "", "carol", peer, ON_ERROR_OPEN, "carol", "default", false, false },
		{ "t", "old", "", peer, ON_ERROR_OPEN, "", "anonymous", false, false },
	};
	struct directory_file f;
	struct directory *d = make_directory(&f);

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect_client(d, &rows[i], i);
	take_away(&f);
	test_mono_us += 3600 * S;
	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect_client(d, &rows[i], i);
	/* Known or not, where that is not good enough. That a token has expired needs no
	 * file to say it. */
	for (size_t i = 0; i + 1 < COUNT_OF(rows); i++) {
		struct asking closed = rows[i];

		closed.policy = ON_ERROR_CLOSED;
		closed.user = *closed.remote_user ? closed.remote_user : "";
		closed.plan = *closed.remote_user ? "default" : "anonymous";
		closed.exempt = false;
		closed.unknown = true;
		expect_client(d, &closed, i);
	}
	directory_close(d);
	file_release(&f);
}

static void never(struct client *c)
{
	(void)c;
	cr_assert_fail("a cancelled identification was told");
}

Test(identity, a_client_that_leaves_during_the_look_up_is_not_told)
{
	struct config config = config_of("tr");
	struct directory_file f;
	struct directory *d = make_directory(&f);
	struct client zeroed = { 0 }, *c = calloc(1, sizeof(*c));
	struct request rq;
	uv_loop_t loop;

	client_cancel(&zeroed);
	cr_assert(c);
	c->done = never;
	cr_assert_eq(uv_loop_init(&loop), 0);
	make_request(&rq, authorization, "Bearer a", "REMOTE_USER", "bob", NULL);
	client_identify(c, &loop, d, &config, &rq);
	cr_expect(c->pending);
	client_cancel(c);
	cr_expect(!c->pending);
	client_cancel(c);
	/* All it had is gone before the answer comes. */
	request_release(&rq);
	free(c);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0);
	directory_close(d);
	file_release(&f);
}

static void free_client(struct client *c)
{
	done_calls++;
	free(c);
}

Test(identity, a_client_may_end_where_it_is_told)
{
	struct config config = config_of("tr");
	struct directory_file f;
	struct directory *d = make_directory(&f);
	struct request rq;
	uv_loop_t loop;

	cr_assert_eq(uv_loop_init(&loop), 0);
	make_request(&rq, authorization, "Bearer nobody", "REMOTE_USER", "bob", NULL);
	/* First from the file, token and user each; then at once, from the cache. */
	for (unsigned i = 0; i < 2; i++) {
		struct client *c = calloc(1, sizeof(*c));

		cr_assert(c);
		c->done = free_client;
		done_calls = 0;
		client_identify(c, &loop, d, &config, &rq);
		cr_expect_eq(done_calls, i);
		uv_run(&loop, UV_RUN_DEFAULT);
		cr_expect_eq(done_calls, 1);
	}
	request_release(&rq);
	cr_assert_eq(uv_loop_close(&loop), 0);
	directory_close(d);
	file_release(&f);
}
