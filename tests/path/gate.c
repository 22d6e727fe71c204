#include "gate.h"

#include <sys/stat.h>

static const struct backend_script plain;

#define RULES                                                                   \
	"[endpoint a]\nmatch = GET /a\nbackend = plain\n"                       \
	"@RateLimit = type=ip count=3 window=1h\n"                              \
	"[endpoint b]\nmatch = GET /b\nbackend = plain\n"                       \
	"@RateLimit = type=user plan=anonymous algorithm=token_bucket count=3 " \
	"window=24h\n"

static struct gate gate_open(const char *store, const char *server)
{
	const char *addr = addr_unix("plain.sock");
	struct gate g = { .n_limited = 2 };

	backend_start(addr, &plain);
	g.weir = weir_start(&(struct weir_spec){ .server = text("workers = 2\n%s", server),
		.sections = text("%s[backend plain]\nfastcgi = %s\n[site]\n"
				 "@RateLimit = type=global count=100000 window=1s\n",
			store, addr),
		.endpoints = RULES });
	g.ini = file_read(g.weir->ini);
	g.a_file = endpoint_file(g.weir, "a");
	g.dir = endpoints_dir(g.weir);
	g.a = file_read(g.a_file);
	return g;
}

struct gate gate_start(const char *store)
{
	return gate_open(store, "");
}

struct gate gate_start_wide(void)
{
	const char *pattern = test_path("sites/*/weir.ini");
	struct gate g;

	cr_assert_eq(mkdir(test_path("sites"), 0755), 0);
	cr_assert_eq(mkdir(test_path("sites/c"), 0755), 0);
	file_write(test_path("sites/c/weir.ini"),
		"[endpoint c]\nmatch = GET /c\nbackend = plain\n"
		"@RateLimit = type=ip count=3 window=1h\n");
	g = gate_open(IN_MEMORY, text("endpoints = %s\n", pattern));
	g.n_limited = 3;
	return g;
}

const char *gate_in_redis(void)
{
	return text("[store]\ntype = redis\nurl = %s\ntimeout = 10s\n", redis_start()->url);
}

const char *gate_new_client(void)
{
	static unsigned n;

	n++;
	return text("10.%u.%u.1", n / 250, n % 250);
}

int gate_status(const struct gate *g, const char *client, const char *uri)
{
	struct fcgi_request rq = { .uri = uri, .address = client };
	struct fcgi_answer a;
	int status = fcgi_call(g->weir->addr, &rq, &a, 20000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

void gate_expect(const struct gate *g, const char *client, const char *uri, int wanted,
	const char *when)
{
	int status = gate_status(g, client, uri);

	if (status != wanted)
		fail("%s: %d for %s, where %d was right\n%s", when, status, uri, wanted,
			process_log(g->weir->process));
}

static const char *const limited[] = { "/a", "/b", "/c" };

void gate_begin(const struct gate *g, const char *client, const char *what)
{
	for (size_t i = 0; i < g->n_limited; i++)
		for (int n = 0; n < 2; n++)
			gate_expect(g, client, limited[i], 200, text("before %s", what));
}

void gate_end(const struct gate *g, const char *client, const char *what)
{
	for (size_t i = 0; i < g->n_limited; i++) {
		gate_expect(g, client, limited[i], 200, text("after %s", what));
		gate_expect(g, client, limited[i], 429, text("after %s", what));
	}
}

bool gate_reload_failed(const struct gate *g)
{
	json_t *status = weir_status(g->weir);
	json_t *process = json_object_get(status, "process");
	bool failed = json_is_true(json_object_get(process, "reload_failed"));

	cr_assert_not_null(process);
	json_decref(status);
	return failed;
}

void gate_mend(const struct gate *g, const char *client, const char *what)
{
	reload(g->weir, RELOADED);
	cr_assert(!gate_reload_failed(g), "%s", what);
	for (size_t i = 0; i < g->n_limited; i++)
		gate_expect(g, client, limited[i], 429, text("after mending %s", what));
}

void gate_edit(const char *file, const char *content, const char *from, const char *to)
{
	const char *at = strstr(content, from);

	cr_assert_not_null(at);
	file_replace(file,
		text("%.*s%s%s", (int)(at - content), content, to, at + strlen(from)));
}
