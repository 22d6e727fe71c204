/*
 * fuzz_request.c - the parameters of a request, and what weir makes of them for others:
 * the records a FastCGI application is sent, the environment and command line of a CGI
 * program.
 *
 * An application gets what came, in its order, but for what weir keeps back. A program
 * gets variables that are on the list and no other, each once. No argument is empty.
 *
 * Input: the name-value pairs of a head, as they stand in PARAMS.
 */
#include "fuzz.h"
#include "proxy/arguments.h"
#include "proxy/environment.h"
#include "proxy/relay_kind.h"
#include "proxy/sending.h"

static char backend_name[] = "test";
static const struct backend backend = { .name = backend_name };
static const struct pair extra[] = {
	{ VIEW_INIT("WEIR_CLIENT"), VIEW_INIT("192.0.2.7") },
	{ VIEW_INIT("REMOTE_ADDR"), VIEW_INIT("192.0.2.7") },
};

/* Reads PARAMS back from the records; false when there are none. */
static void read_records(struct view records, struct buf *pairs)
{
	struct record_reader r = { 0 };
	struct view content;
	enum record_event event;
	size_t begun = 0;

	while ((event = record_next(&r, &records, &content)) != RECORD_MORE) {
		MUST(event != RECORD_BAD);
		if (event == RECORD_BEGINS)
			MUST(r.type == (begun++ ? FCGI_PARAMS : FCGI_BEGIN_REQUEST));
		if (event == RECORD_CONTENT && r.type == FCGI_PARAMS)
			buf_add(pairs, content);
	}
	MUST(begun >= 2 && record_at_boundary(&r) && r.content_n == 0);
}

/* Also of several that would take each other's place the last alone goes. */
static bool is_kept_back(const struct relay_job *job, size_t i)
{
	struct view name = job->request->params[i].name;

	return relay_withholds(job, name) || request_is_replaced(job->request, i) ||
		view_eq(name, VIEW("CONTENT_LENGTH"));
}

static void check_sent(const struct relay_job *job)
{
	struct buf records = { 0 }, pairs = { 0 };
	enum sending_result got = sending_head(&records, job, true);
	struct view left;
	struct pair pair;
	size_t i = 0, lengths = 0, own = 0;

	MUST(got != SENDING_NO_MEMORY);
	if (got != SENDING_OK)
		goto out;
	read_records(buf_view(&records), &pairs);
	left = buf_view(&pairs);
	while (left.n) {
		MUST(pairs_next(&left, &pair) == PAIRS_PAIR);
		MUST(!view_eq_nocase(pair.name, VIEW("HTTP_PROXY")));
		if (view_eq(pair.name, VIEW("CONTENT_LENGTH"))) {
			MUST(lengths++ == 0);
			MUST(pair.value.n == 0 || view_eq(pair.value, VIEW("3")));
			continue;
		}
		if (view_eq(pair.name, extra[0].name) ||
			view_eq(pair.name, extra[1].name)) {
			MUST(view_eq(pair.value, extra[own++].value));
			continue;
		}
		while (i < job->request->n_params && is_kept_back(job, i))
			i++;
		MUST(i < job->request->n_params);
		MUST(view_eq(job->request->params[i].name, pair.name));
		MUST(view_eq(job->request->params[i].value, pair.value));
		i++;
	}
	MUST(own == COUNT_OF(extra));
out:
	buf_release(&records);
	buf_release(&pairs);
}

static bool is_listed(struct view name)
{
	static const char *const list[] = { "AUTH_TYPE", "CONTENT_TYPE", "CONTENT_LENGTH",
		"DOCUMENT_ROOT", "DOCUMENT_URI", "GATEWAY_INTERFACE", "HTTPS", "PATH",
		"PATH_INFO", "PATH_TRANSLATED", "QUERY_STRING", "REDIRECT_STATUS",
		"REMOTE_ADDR", "REMOTE_HOST", "REMOTE_IDENT", "REMOTE_PORT", "REMOTE_USER",
		"REQUEST_METHOD", "REQUEST_SCHEME", "REQUEST_URI", "SCRIPT_FILENAME",
		"SCRIPT_NAME", "SERVER_ADDR", "SERVER_NAME", "SERVER_PORT",
		"SERVER_PROTOCOL", "SERVER_SOFTWARE", "WEIR_CLIENT" };

	for (size_t i = 0; i < COUNT_OF(list); i++)
		if (view_eq(name, view_str(list[i])))
			return true;
	return false;
}

static bool is_field(struct view name)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

	if (!view_starts(name, VIEW("HTTP_")) || name.n == 5 ||
		view_eq_nocase(name, VIEW("HTTP_PROXY")))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (!name.p[i] || !strchr(letters, name.p[i]))
			return false;
	return true;
}

static void check_environment(const struct relay_job *job)
{
	const struct environment_paths paths = {
		.script_filename = VIEW("/srv/cgi/x"),
		.script_name = VIEW("/x"),
		.path_info = request_param(job->request, "PATH_INFO"),
	};
	const struct environment_input in = {
		.request = job->request,
		.paths = &paths,
		.path = "/usr/bin:/bin",
		.extra = extra,
		.n_extra = COUNT_OF(extra),
		.body_bytes = job->body->n,
		.length_given = relay_needs_length(job),
	};
	struct environment e;

	MUST(environment_build(&e, &in));
	for (size_t i = 0; i < e.n; i++) {
		struct view value = view_str(e.vars[i]), name = view_cut(&value, '=');

		MUST(value.p && (is_listed(name) || is_field(name)));
		for (size_t k = 0; k < i; k++)
			MUST(strncmp(e.vars[k], e.vars[i], name.n + 1) != 0);
	}
	MUST(!e.vars[e.n]);
	MUST(strcmp(environment_get(&e, "PATH"), "/usr/bin:/bin") == 0);
	MUST(strcmp(environment_get(&e, "REMOTE_ADDR"), "192.0.2.7") == 0);
	MUST(environment_get(&e, "REQUEST_METHOD") ||
		memchr(job->request->head.p, '\0', job->request->head.n));
	environment_release(&e);
}

static void check_arguments(const struct request *rq)
{
	struct view query = request_param(rq, "QUERY_STRING");
	char **argv = arguments_build("/srv/cgi/x", ARGV_ISINDEX, VIEW("GET"), query);
	size_t n = 0;

	MUST(argv && argv[0] && strcmp(argv[0], "/srv/cgi/x") == 0);
	while (argv[n + 1])
		MUST(*argv[++n]);
	MUST(n <= ARGUMENTS_MAX);
	MUST(!n || !memchr(query.p, '=', query.n));
	free(argv);
}

/* Nothing of a target comes from anywhere but the parameters it is made of. */
static void check_target(const struct request *rq)
{
	struct buf scratch = { 0 };
	struct request_target target = request_target(rq, &scratch);
	uint64_t length = 0;
	bool given;

	MUST(buf_ok(&scratch));
	if (!scratch.n) /* else it is from SCRIPT_NAME, which may hold one */
		MUST(!target.path.n || !memchr(target.path.p, '?', target.path.n));
	if (request_content_length(rq, &length, &given) && given)
		MUST(length <= INT64_MAX);
	buf_release(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct request rq = { .role = FCGI_RESPONDER };
	struct spool body;
	struct relay_job job = { .backend = &backend,
		.request = &rq,
		.body = &body,
		.extra = extra,
		.n_extra = COUNT_OF(extra) };

	spool_init(&body, 1 << 20, 1 << 20, "/nonexistent");
	buf_add(&rq.head, view_of((const char *)data, size));
	if (request_index(&rq)) {
		MUST(spool_add(&body, VIEW("abc")) == SPOOL_OK);
		check_target(&rq);
		check_sent(&job);
		check_environment(&job);
		check_arguments(&rq);
		relay_unsafe_param(&rq);
	}
	spool_release(&body);
	request_release(&rq);
	return 0;
}
