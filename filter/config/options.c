#include "config/options.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "config/kinds.h"
#include "config/words.h"

/* Where a field is. */
#define CONFIG(field)   IN_CONFIG, offsetof(struct config, field)
#define DRAFT(field)    IN_DRAFT, offsetof(struct draft, field)
#define BACKEND(field)  IN_BACKEND, offsetof(struct backend, field)
#define ENDPOINT(field) IN_ENDPOINT, offsetof(struct endpoint_text, field)
/* What sort of value it holds: kind, length of a list, words, bounds. */
#define KIND(kind, lo, hi) &kind_##kind, 0, NULL, lo, hi
#define LIST(kind, n_at)   &kind_##kind, n_at, NULL, 0, 0
#define WORDS(words)       &kind_enum, 0, words, 0, 0
#define RELOAD             OPT_RELOAD
#define RESTART            0

#define MINUTE (60 * 1000)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * UINT64_C(60) * MINUTE)
#define KIB    (UINT64_C(1) << 10)
#define MIB    (UINT64_C(1) << 20)
#define GIB    (UINT64_C(1) << 30)

static const struct option_word modes[] = { { "enforce", MODE_ENFORCE },
	{ "shadow", MODE_SHADOW }, { "off", MODE_OFF }, { 0 } };
static const struct option_word stores[] = { { "redis", STORE_REDIS },
	{ "memory", STORE_MEMORY }, { 0 } };
static const struct option_word policies[] = { { "local", ON_ERROR_LOCAL },
	{ "open", ON_ERROR_OPEN }, { "closed", ON_ERROR_CLOSED }, { 0 } };
static const struct option_word directory_policies[] = { { "open", ON_ERROR_OPEN },
	{ "closed", ON_ERROR_CLOSED }, { 0 } };
static const struct option_word levels[] = { { "error", LOG_LEVEL_ERROR },
	{ "warning", LOG_LEVEL_WARNING }, { "notice", LOG_LEVEL_NOTICE },
	{ "info", LOG_LEVEL_INFO }, { "debug", LOG_LEVEL_DEBUG }, { 0 } };
static const struct option_word requests[] = { { "none", LOG_REQUESTS_NONE },
	{ "refused", LOG_REQUESTS_REFUSED }, { "all", LOG_REQUESTS_ALL }, { 0 } };
static const struct option_word sendfile_words[] = { { "strip", SENDFILE_STRIP },
	{ "pass", SENDFILE_PASS }, { 0 } };
static const struct option_word retries[] = { { "never", RETRY_NEVER },
	{ "safe", RETRY_SAFE }, { "idempotent", RETRY_IDEMPOTENT }, { 0 } };
static const struct option_word client_gone_words[] = { { "kill", CLIENT_GONE_KILL },
	{ "finish", CLIENT_GONE_FINISH }, { 0 } };
static const struct option_word argv_words[] = { { "none", ARGV_NONE },
	{ "isindex", ARGV_ISINDEX }, { 0 } };

/* clang-format off */
const struct option options[] = {
	{ "server", "listen", CONFIG(server.listen),
	  LIST(addresses, offsetof(struct config, server.n_listen)), NULL,
	  RESTART | OPT_REPEATS,
	  "Where web servers connect: unix:/path or tcp:host:port. Without one weir serves "
	  "on descriptor 0, as web servers and systemd start it." },
	{ "server", "socket_mode", CONFIG(server.socket_mode), KIND(mode, 0, 0777), "0660",
	  RESTART,
	  "Permissions of unix sockets. Who may write to one may send requests in "
	  "anybody's name." },
	{ "server", "socket_user", CONFIG(server.socket_user), KIND(name, 0, 32), "", RESTART,
	  "Owner of unix sockets; empty leaves the one weir runs as." },
	{ "server", "socket_group", CONFIG(server.socket_group), KIND(name, 0, 32), "",
	  RESTART,
	  "Group of unix sockets, such as the web server's; empty leaves weir's own." },
	{ "server", "backlog", CONFIG(server.backlog), KIND(number, 1, 65535), "511", RESTART,
	  "Connections that may wait to be accepted; the kernel may allow fewer." },
	{ "server", "workers", CONFIG(server.workers), KIND(auto, 1, 256), "auto", RESTART,
	  "Threads that serve; auto is one per core." },
	{ "server", "max_connections", CONFIG(server.max_connections),
	  KIND(auto, 1, 10000000), "auto", RELOAD,
	  "Connections from web servers open at once. Beyond it idle ones are closed and new "
	  "ones wait in the listen queue. auto: a third of the descriptors weir may have, at "
	  "most 16384." },
	{ "server", "max_requests", CONFIG(server.max_requests), KIND(auto, 1, 10000000),
	  "auto", RELOAD,
	  "Requests being served at once; more get 503. auto: nine of ten connections, so that "
	  "there are some left to say so on." },
	{ "server", "endpoints", DRAFT(endpoints),
	  LIST(texts, offsetof(struct draft, n_endpoints)), "endpoints.d/*.ini",
	  RELOAD | OPT_REPEATS,
	  "Files with one endpoint each, read in the order of their names; relative to "
	  "this file." },
	{ "server", "backend", DRAFT(backend), KIND(name, 1, 64), NULL, RELOAD,
	  "Backend of requests that no endpoint matches, and of endpoints that name none. "
	  "Without one the former get 404." },
	{ "server", "strip_prefix", CONFIG(server.strip_prefix),
	  LIST(prefixes, offsetof(struct config, server.n_strip_prefix)), "",
	  RELOAD | OPT_REPEATS,
	  "A front controller that serves /index.php/api as /api: what is left out of the "
	  "beginning of a path before match is looked at." },
	{ "server", "mode", CONFIG(server.mode), WORDS(modes), "enforce", RELOAD,
	  "shadow counts and reports, and refuses nobody; off does not count. Holds for "
	  "all rules." },
	{ "server", "head_limit", CONFIG(server.head_limit), KIND(size, 4 * KIB, 16 * MIB),
	  "64K", RELOAD,
	  "Largest head of a request, all parameters together; larger ones get 431." },
	{ "server", "head_timeout", CONFIG(server.head_timeout_ms), KIND(ms, 100, HOUR), "10s",
	  RELOAD,
	  "Longest wait for a whole head after its first byte; then the connection is closed, "
	  "and the web server gives its client an error of its own." },
	{ "server", "body_limit", CONFIG(server.body_limit), KIND(size, 0, 1024 * GIB), "64M",
	  RELOAD,
	  "Largest request body; larger ones get 413." },
	{ "server", "body_timeout", CONFIG(server.body_timeout_ms), KIND(ms, 100, DAY), "60s",
	  RELOAD,
	  "Longest wait between two pieces of a request body; then the connection is closed, "
	  "and the web server gives its client an error of its own, mostly 500 or 502." },
	{ "server", "send_timeout", CONFIG(server.send_timeout_ms), KIND(ms, 100, DAY), "60s",
	  RELOAD,
	  "Longest wait for the web server to take another piece of an answer." },
	{ "server", "spool_memory", CONFIG(server.spool_memory), KIND(size, 0, GIB), "64K",
	  RELOAD,
	  "Part of a request body kept in memory; what is larger goes to a file." },
	{ "server", "spool_dir", CONFIG(server.spool_dir), KIND(path, 0, 0), "/var/tmp",
	  RELOAD,
	  "Directory of those files, which have no name there. weir must be able to write to "
	  "it. Not a memory file system." },
	{ "server", "spool_limit", CONFIG(server.spool_limit), KIND(size, 0, 1024 * 1024 * GIB),
	  "4G", RELOAD,
	  "Most bytes in those files at once, over all requests; a request whose body does not "
	  "fit gets 503. 0 for no limit but the disk's." },
	{ "server", "drain_timeout", CONFIG(server.drain_timeout_ms), KIND(ms, 0, HOUR), "30s",
	  RELOAD,
	  "After an answer given early: longest reading on of a body nobody wants, so that "
	  "the web server sees the answer." },
	{ "server", "stop_timeout", CONFIG(server.stop_timeout_ms), KIND(ms, 0, DAY), "30s",
	  RELOAD,
	  "After SIGTERM: longest wait for requests that are being served, and for programs "
	  "that finish without a client (client_gone)." },
	{ "server", "control", CONFIG(server.control), KIND(control, 0, 0),
	  "unix:/run/weir/control.sock", RESTART,
	  "Socket for weirctl and weir-status; empty for none." },
	{ "server", "control_group", CONFIG(server.control_group), KIND(name, 0, 32), "",
	  RESTART,
	  "Group whose members may use the control socket; empty leaves weir's own." },

	{ "store", "type", CONFIG(store.type), WORDS(stores), "redis", RESTART,
	  "Where limits are counted: redis, or memory, which counts in each process alone "
	  "and forgets on restart." },
	{ "store", "url", CONFIG(store.servers),
	  LIST(redis, offsetof(struct config, store.n_servers)), "redis://127.0.0.1:6379/0",
	  RESTART | OPT_REPEATS,
	  "Redis: redis://[user:password@]host[:port][/db] or unix:///path[?db=N]. Of several "
	  "the first that can count is used: the others are for its replicas, one of which may "
	  "have taken its place." },
	{ "store", "password_file", DRAFT(password_file), KIND(text, 0, 0), "", RELOAD,
	  "File with the password, relative to this file, for each url that has none; empty "
	  "for none. Read again on reload, for connections made afterwards." },
	{ "store", "timeout", CONFIG(store.timeout_ms), KIND(ms, 1, MINUTE), "50ms", RELOAD,
	  "Longest wait for an answer from Redis before the fallback decides." },
	{ "store", "breaker_failures", CONFIG(store.breaker_failures), KIND(number, 0, 1000),
	  "5", RELOAD,
	  "Failures in a row, over all workers, after which the fallback decides at once and "
	  "Redis is only probed. So it is when more than half of the answers of a second were "
	  "slow. 0 for never." },
	{ "store", "breaker_slow", CONFIG(store.breaker_slow_ms), KIND(ms, 0, MINUTE), "0",
	  RELOAD,
	  "Answers that take longer are slow; 0 for half of timeout." },
	{ "store", "breaker_pause", CONFIG(store.breaker_pause_ms), KIND(ms, 10, MINUTE),
	  "300ms", RELOAD,
	  "From one probe to the next. One that is answered well puts Redis back in charge." },
	{ "store", "prefix", CONFIG(store.prefix), KIND(name, 1, 64), "rate", RELOAD,
	  "First part of every key in Redis." },
	{ "store", "memory", CONFIG(store.memory), KIND(size, MIB, 64 * GIB), "64M", RESTART,
	  "Most memory for counting in the process; beyond it the entry idle longest is "
	  "forgotten." },

	{ "fallback", "policy", CONFIG(fallback.policy), WORDS(policies), "local", RELOAD,
	  "When Redis does not answer: local counts in each process, open lets everybody "
	  "pass, closed refuses everybody with 503." },
	{ "fallback", "rate", CONFIG(fallback.rate), KIND(rate, 0, 0), "1000/s", RESTART,
	  "With policy = local: requests this process passes in all." },
	{ "fallback", "instances", CONFIG(fallback.instances), KIND(number, 1, 10000), "1",
	  RELOAD,
	  "With policy = local: how many processes share the load; each takes that part "
	  "of every count." },

	{ "client", "trusted_proxies", CONFIG(client.trusted_proxies), KIND(networks, 0, 0), "",
	  RELOAD | OPT_REPEATS,
	  "Networks whose X-Forwarded-For and Forwarded are believed." },
	{ "client", "ipv6_prefix", CONFIG(client.ipv6_prefix), KIND(number, 1, 128), "64",
	  RELOAD,
	  "Bits of an IPv6 address that tell clients apart." },
	{ "client", "user", CONFIG(client.user), LIST(users, offsetof(struct config, client.n_user)),
	  "none", RELOAD,
	  "Who the user is, in the order in which it is asked: token, which the directory "
	  "knows; remote_user, where the web server has verified it. With none rules of "
	  "type=user count by address." },
	{ "client", "token_header", CONFIG(client.token_header), KIND(header, 0, 64),
	  "Authorization", RELOAD,
	  "Header field with the token; in Authorization it stands behind \"Bearer \". Empty "
	  "for none." },
	{ "client", "token_cookie", CONFIG(client.token_cookie), KIND(name, 0, 64), "", RELOAD,
	  "Cookie with the token, where there is none in a header field; empty for none." },
	{ "client", "directory", CONFIG(client.directory), KIND(directory, 0, 0), "", RESTART,
	  "SQLite file with users, plans and tokens; empty for none." },
	{ "client", "directory_query", CONFIG(client.directory_query), KIND(text, 0, 0), "",
	  RESTART,
	  "SQL that finds a token in tables of your own; empty for those weir makes." },
	{ "client", "directory_ttl", CONFIG(client.directory_ttl_ms), KIND(ms, 0, DAY), "60s",
	  RESTART,
	  "How long a user or token that was found is believed: a revoked token works so "
	  "much longer." },
	{ "client", "directory_miss_ttl", CONFIG(client.directory_miss_ttl_ms),
	  KIND(ms, 0, DAY), "10s", RESTART,
	  "How long one that was not found is not looked for again." },
	{ "client", "directory_cache", CONFIG(client.directory_cache),
	  KIND(number, 0, 10000000), "100000", RESTART,
	  "Users and tokens kept in memory, some 600 bytes each, a quarter of them for those "
	  "that were not found. Beyond it the one asked for longest ago is dropped." },
	{ "client", "directory_error", CONFIG(client.directory_error),
	  WORDS(directory_policies), "open", RELOAD,
	  "When the directory cannot be read: open goes on with what it said last, and "
	  "without a user where it said nothing; closed answers 503." },

	{ "allow", "networks", CONFIG(allow.networks), KIND(networks, 0, 0), "",
	  RELOAD | OPT_REPEATS,
	  "Networks that meet no limit at all." },

	{ "reply", "message", CONFIG(reply.message), KIND(sentence, 1, 1000),
	  "Too many requests, retry in {retry_after} seconds", RELOAD,
	  "The message of a refusal. A comment behind it would be part of it." },
	{ "reply", "message.LANGUAGE", CONFIG(reply.messages), &kind_localized,
	  offsetof(struct config, reply.n_messages), NULL, 1, 1000, NULL,
	  RELOAD | OPT_REPEATS | OPT_SUFFIX,
	  "The same in another language, such as message.zh; Accept-Language chooses." },
	{ "reply", "rate_limit_fields", CONFIG(reply.rate_limit_fields), KIND(bool, 0, 0),
	  "yes", RELOAD,
	  "Whether answers carry RateLimit and RateLimit-Policy." },
	{ "reply", "x_rate_limit_fields", CONFIG(reply.x_rate_limit_fields), KIND(bool, 0, 0),
	  "no", RELOAD,
	  "Whether they carry X-RateLimit-Limit, X-RateLimit-Remaining and "
	  "X-RateLimit-Reset." },
	{ "reply", "authorizer_status", CONFIG(reply.authorizer_status),
	  KIND(number, 400, 599), "429", RELOAD,
	  "Status of every refusal given as an authorizer, where the web server cannot pass "
	  "on the refusal's own: 403 for nginx, whose auth_request makes 500 of a 429. The own "
	  "one is then in Weir-Status, the body in Weir-Body. With 429 each has its own." },
	{ "reply", "problem_json", CONFIG(reply.problem_json), KIND(bool, 0, 0), "no", RELOAD,
	  "Whether refusals are application/problem+json (RFC 9457)." },
	{ "reply", "template", DRAFT(reply_template), KIND(text, 0, 0), "", RELOAD,
	  "File with the body of refusals, relative to this file. {code} {message} "
	  "{retry_after} {endpoint} {rule} {request_id} are filled in." },
	{ "reply", "template_type", CONFIG(reply.template_type), KIND(media_type, 0, 100),
	  "application/json", RELOAD,
	  "Content-Type of that file." },

	{ "log", "level", CONFIG(log.level), WORDS(levels), "notice", RELOAD,
	  "Least urgent lines that are written. Those of requests are not meant: what requests "
	  "asks for is written at any level." },
	{ "log", "requests", CONFIG(log.requests), WORDS(requests), "refused", RELOAD,
	  "Requests that get a line each, whatever level is; decided= in it says who counted: "
	  "redis, memory or fallback." },

	{ "backend", "fastcgi", BACKEND(addrs), LIST(addresses, offsetof(struct backend, n_addrs)),
	  NULL, RELOAD | OPT_REPEATS | OPT_NAMED,
	  "Address of a FastCGI application, such as unix:/run/php/php8.2-fpm.sock; of several "
	  "the one with the fewest requests is asked." },
	{ "backend", "cgi", BACKEND(root), KIND(path, 0, 0), NULL, RELOAD | OPT_NAMED,
	  "Directory under which CGI programs live; nothing outside it is run." },
	{ "backend", "prefix", BACKEND(prefix), KIND(prefix, 0, 0), "",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "Leading part of the path that stands for the directory, such as /cgi-bin." },
	{ "backend", "path", BACKEND(path), KIND(text, 0, 0), "/usr/local/bin:/usr/bin:/bin",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "PATH in the environment of CGI programs." },
	{ "backend", "env.NAME", BACKEND(env), &kind_variables,
	  offsetof(struct backend, n_env), NULL, 0, 0, NULL,
	  RELOAD | OPT_NAMED | OPT_REPEATS | OPT_SUFFIX,
	  "A variable for CGI programs, and a parameter with each request for FastCGI "
	  "applications, in place of the web server's: env.GIT_PROJECT_ROOT = /srv/git. Not "
	  "those that describe the request." },
	{ "backend", "connect_timeout", BACKEND(connect_timeout_ms), KIND(ms, 1, HOUR), "3s",
	  RELOAD | OPT_NAMED,
	  "Longest wait for a connection, for each address." },
	{ "backend", "first_byte_timeout", BACKEND(first_byte_timeout_ms), KIND(ms, 1, DAY),
	  "300s", RELOAD | OPT_NAMED,
	  "Longest wait for an answer to begin." },
	{ "backend", "idle_timeout", BACKEND(idle_timeout_ms), KIND(ms, 1, DAY), "300s",
	  RELOAD | OPT_NAMED,
	  "Longest wait between two pieces of an answer." },
	{ "backend", "timeout", BACKEND(timeout_ms), KIND(ms, 0, DAY), "0", RELOAD | OPT_NAMED,
	  "Longest time a request may take in all, from its body read to the answer's end; 0 "
	  "for no end." },
	{ "backend", "retry", BACKEND(retry), WORDS(retries), "safe",
	  RELOAD | OPT_NAMED | OPT_FOR_FASTCGI,
	  "Requests that are sent to the next address when one closes without a word: safe is "
	  "GET, HEAD and OPTIONS, idempotent also PUT and DELETE. One that is silent for "
	  "first_byte_timeout may still be at work, so nothing is sent twice for that." },
	{ "backend", "max_fails", BACKEND(max_fails), KIND(number, 0, 1000), "3",
	  RELOAD | OPT_NAMED | OPT_FOR_FASTCGI,
	  "Failures in a row after which an address is left out for a while; 0 for never. It "
	  "fails when it refuses, is silent for first_byte_timeout, or breaks off in an "
	  "answer. The last one is never left out." },
	{ "backend", "fail_timeout", BACKEND(fail_timeout_ms), KIND(ms, 1, HOUR), "5s",
	  RELOAD | OPT_NAMED | OPT_FOR_FASTCGI,
	  "How long that is. Then one request finds out how it is." },
	{ "backend", "keep", BACKEND(keep), KIND(number, 0, 1000), "0",
	  RELOAD | OPT_NAMED | OPT_FOR_FASTCGI,
	  "Idle connections each worker keeps for later requests. php-fpm lends a process to "
	  "each: workers times keep must stay well below pm.max_children." },
	{ "backend", "keep_idle", BACKEND(keep_idle_ms), KIND(ms, 1, HOUR), "5s",
	  RELOAD | OPT_NAMED | OPT_FOR_FASTCGI,
	  "How long it keeps one." },
	{ "backend", "sendfile", BACKEND(sendfile), WORDS(sendfile_words), "strip",
	  RELOAD | OPT_NAMED,
	  "X-Sendfile, X-Accel-Redirect and the like, by which an answer makes the web server "
	  "send a file of its own: strip, or pass where the backend may read what the web "
	  "server can." },
	{ "backend", "kill_grace", BACKEND(kill_grace_ms), KIND(ms, 0, HOUR), "5s",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "From SIGTERM to SIGKILL, when a CGI program has to end." },
	{ "backend", "max_programs", BACKEND(max_programs), KIND(number, 1, 100000), "64",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "CGI programs running at once; more requests get 503." },
	{ "backend", "cpu_limit", BACKEND(cpu_limit_ms), KIND(ms, 0, DAY), "0",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "Processor time each process of a CGI program may use, in whole seconds; 0 for no "
	  "limit." },
	{ "backend", "memory_limit", BACKEND(memory_limit), KIND(size, 0, 1024 * GIB), "0",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "Address space each may have; 0 for no limit." },
	{ "backend", "no_new_privs", BACKEND(no_new_privs), KIND(bool, 0, 0), "yes",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "Whether set-user-ID and set-group-ID have no effect, on CGI programs and on what "
	  "they start." },
	{ "backend", "client_gone", BACKEND(client_gone), WORDS(client_gone_words), "kill",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "When the client leaves: kill ends the program, finish lets it run to its end." },
	{ "backend", "argv", BACKEND(argv), WORDS(argv_words), "none",
	  RELOAD | OPT_NAMED | OPT_FOR_CGI,
	  "Arguments of CGI programs: isindex makes them of the words of a query without '='. "
	  "Interpreters take some for options: none, unless a program needs them." },

	{ "endpoint", "match", ENDPOINT(match), KIND(text, 0, 0), NULL, RELOAD | OPT_NAMED,
	  "METHOD[,METHOD]|* PATH. In PATH {name} is one segment, * any part of one, ** "
	  "the rest. The most specific endpoint wins." },
	{ "endpoint", "host", ENDPOINT(host), KIND(text, 0, 0), NULL, RELOAD | OPT_NAMED,
	  "Only requests for this host." },
	{ "endpoint", "query", ENDPOINT(query), KIND(text, 0, 0), NULL, RELOAD | OPT_NAMED,
	  "Only requests with this parameter in their query, as in action=submit." },
	{ "endpoint", "backend", ENDPOINT(backend), KIND(name, 1, 64), NULL,
	  RELOAD | OPT_NAMED,
	  "Where its requests go; without one, to server.backend." },
};
/* clang-format on */
const size_t options_n = COUNT_OF(options);
_Static_assert(COUNT_OF(options) <= OPTIONS_MAX, "raise OPTIONS_MAX");

/* "message." of "message.LANGUAGE" */
static struct view fixed_part(struct view name)
{
	struct view rest = name, head = view_cut(&rest, '.');

	return view_of(name.p, head.n + 1);
}

const struct option *option_find(struct view section, struct view name)
{
	for (size_t i = 0; i < options_n; i++) {
		struct view known = view_str(options[i].name);

		if (!view_eq(section, view_str(options[i].section)))
			continue;
		if (options[i].flags & OPT_SUFFIX ? view_starts(name, fixed_part(known))
						  : view_eq(name, known))
			return &options[i];
	}
	return NULL;
}

bool option_section(struct view section, bool *named)
{
	for (size_t i = 0; i < options_n; i++) {
		if (view_eq(section, view_str(options[i].section))) {
			*named = options[i].flags & OPT_NAMED;
			return true;
		}
	}
	/* [site] has rules only. */
	*named = false;
	return view_eq(section, VIEW("site"));
}

/* "env", where it is "env.NAME". */
static bool is_without_word(const char *known, struct view name)
{
	struct view fixed = fixed_part(view_str(known));

	return view_eq(name, view_of(fixed.p, fixed.n - 1));
}

void option_suggest(struct view section, struct view name, struct buf *why)
{
	const char *nearest = NULL, *comma = "";
	size_t least = WORD_SLIP + 1;

	for (size_t i = 0; i < options_n; i++) {
		size_t d;

		if (!view_eq(section, view_str(options[i].section)))
			continue;
		d = word_distance(name, view_str(options[i].name));
		if (options[i].flags & OPT_SUFFIX && is_without_word(options[i].name, name))
			d = 0;
		if (d < least) {
			least = d;
			nearest = options[i].name;
		}
	}
	if (nearest) {
		buf_addf(why, "did you mean %s?", nearest);
		return;
	}
	buf_addf(why, "[%.*s] has ", VIEW_ARG(section));
	for (size_t i = 0; i < options_n; i++) {
		if (!view_eq(section, view_str(options[i].section)))
			continue;
		buf_addf(why, "%s%s", comma, options[i].name);
		comma = ", ";
	}
	if (view_eq(section, VIEW("site")) || view_eq(section, VIEW("endpoint")))
		buf_addf(why, "%s@RateLimit", comma);
}

static void *field_of(const struct option *o, void *base)
{
	return (char *)base + o->at;
}

static size_t *length_of(const struct option *o, void *base)
{
	return o->n_at ? (size_t *)(void *)((char *)base + o->n_at) : NULL;
}

bool option_same(const struct option *o, const void *a, const void *b)
{
	const char *left = a, *right = b;

	assert(o->kind->same);
	return o->kind->same(left + o->at, (const size_t *)(const void *)(left + o->n_at),
		right + o->at, (const size_t *)(const void *)(right + o->n_at));
}

bool option_read(const struct option *o, const struct option_places *places,
	struct view value, struct buf *why)
{
	void *base = places->in[o->in];

	assert(base);
	return o->kind->read(o, field_of(o, base), length_of(o, base), value, why);
}

bool option_read_as(const struct option *o, const struct option_places *places,
	struct view name, struct view value, struct buf *why)
{
	void *base = places->in[o->in];

	if (!(o->flags & OPT_SUFFIX))
		return option_read(o, places, value, why);
	assert(base);
	return o->kind->read_suffix(o, field_of(o, base), length_of(o, base),
		view_skip(name, fixed_part(view_str(o->name)).n), value, why);
}

bool option_is_sentence(const struct option *o)
{
	return o->kind == &kind_sentence || o->kind == &kind_localized;
}

void option_shown(const struct option *o, struct view value, struct buf *out)
{
	const char *at = o->kind == &kind_redis && value.p ? memrchr(value.p, '@', value.n)
							   : NULL;

	/* Whatever is before it: a URL without its "//" has a password all the same. */
	if (at && !memmem(value.p, value.n, "//", 2)) {
		buf_add_str(out, "***");
		value = view_skip(value, (size_t)(at - value.p));
	}
	mistake_hide_password(value, out);
}

bool options_default(
	struct view section, const struct option_places *places, const unsigned *lines)
{
	struct buf why = { 0 };
	bool ok = true;

	for (size_t i = 0; i < options_n && ok; i++) {
		const struct option *o = &options[i];

		if (lines[i] || !o->def || !view_eq(section, view_str(o->section)))
			continue;
		/* A default can only fail for want of memory; a test reads them all. */
		ok = option_read(o, places, view_str(o->def), &why);
		buf_release(&why);
	}
	return ok;
}

void options_release(enum option_in in, void *base)
{
	for (size_t i = 0; i < options_n; i++) {
		const struct option *o = &options[i];

		if (o->in == in && o->kind->release)
			o->kind->release(field_of(o, base), length_of(o, base));
	}
}

static void print_form(const struct option *o, struct buf *out)
{
	const struct option_word *w = o->words;

	if (!w) {
		buf_add_str(out, o->kind->form);
		return;
	}
	for (; w->name; w++)
		buf_addf(out, "%s%s", w == o->words ? "" : "|", w->name);
}

void options_print_wrapped(const char *text, struct buf *out)
{
	struct view left = view_str(text);
	size_t column = 0;

	while (left.n) {
		struct view word = view_cut(&left, ' ');

		if (column && column + 1 + word.n > 72) {
			buf_add_byte(out, '\n');
			column = 0;
		}
		buf_add_str(out, column ? " " : "        ");
		buf_add(out, word);
		column += word.n + 1;
	}
	buf_add_byte(out, '\n');
}

void options_print(struct buf *out)
{
	for (size_t i = 0; i < options_n; i++) {
		const struct option *o = &options[i];

		if (i == 0 || strcmp(o->section, options[i - 1].section) != 0)
			buf_addf(out, "%s[%s%s]\n", i ? "\n" : "", o->section,
				o->flags & OPT_NAMED ? " NAME" : "");
		buf_addf(out, "%s = ", o->name);
		print_form(o, out);
		buf_add_str(
			out, o->def && *o->def ? "    (default " : "    (default: none");
		if (o->def && *o->def)
			buf_add_str(out, o->def);
		buf_addf(out, "%s%s)\n", o->flags & OPT_REPEATS ? "; may repeat" : "",
			o->flags & OPT_RELOAD ? "" : "; needs a restart");
		options_print_wrapped(o->help, out);
	}
}
