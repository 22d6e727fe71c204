/*
 * config/config.h - the configuration as the rest of weir sees it: one immutable
 * snapshot, checked as a whole, held by reference, replaced as a whole.
 *
 * config_load() reads weir.ini and the endpoint files it names, collects every
 * mistake with file, line, what was read and what would do, and gives a snapshot
 * only if there is none.
 */
#ifndef WEIR_CONFIG_CONFIG_H
#define WEIR_CONFIG_CONFIG_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/net.h"
#include "config/rule.h"

struct pattern_index; /* config/pattern.h */
struct addresses;     /* proxy/addresses.h */

enum backend_kind {
	BACKEND_FASTCGI,
	BACKEND_CGI
};

/* Which requests may be sent a second time when a backend closed without a word: its
 * work may have been done all the same. RFC 9110, sections 9.2.1 and 9.2.2. */
enum retry {
	RETRY_NEVER,
	RETRY_SAFE,       /* GET, HEAD, OPTIONS */
	RETRY_IDEMPOTENT, /* and PUT, DELETE */
};
enum client_gone {
	CLIENT_GONE_KILL,
	CLIENT_GONE_FINISH,
};
enum sendfile {
	SENDFILE_STRIP,
	SENDFILE_PASS, /* X-Sendfile and the like reach the web server */
};
enum program_argv {
	ARGV_NONE,
	ARGV_ISINDEX, /* words of a query without '=' (RFC 3875, section 4.4) */
};

/* How a file looks to whoever asks whether it was written to its end. */
enum file_look {
	FILE_WHOLE,
	FILE_BLANK, /* there is nothing in it, not even a comment */
	FILE_CUT,   /* the last line has no end */
};

#define BACKEND_ADDRS_MAX 64
#define LISTEN_MAX        64

/* env.NAME = value */
struct variable {
	char *name, *value;
};

/* [backend NAME] */
struct backend {
	char *name;
	enum backend_kind kind;
	struct net_addr *addrs; /* FastCGI: 1 to BACKEND_ADDRS_MAX */
	size_t n_addrs;
	struct addresses *known; /* FastCGI: about addrs; NULL unless weir serves */
	char *root;              /* CGI: directory the programs live under, absolute */
	char *prefix; /* CGI: leading part of the path that stands for root, or "" */
	char *path;   /* CGI: PATH in the environment of the programs */
	struct variable *env; /* more variables for programs, parameters for FastCGI */
	size_t n_env;         /* none of a name that weir or the web server sets */
	int64_t connect_timeout_ms;
	int64_t first_byte_timeout_ms; /* from the request sent to the answer's first byte */
	int64_t idle_timeout_ms; /* between two pieces of the answer, or of our sending */
	int64_t timeout_ms;      /* of the whole call; 0: none */
	enum sendfile sendfile;
	enum retry retry;   /* FastCGI */
	uint64_t max_fails; /* FastCGI: in a row, then an address is left out; 0: never */
	int64_t fail_timeout_ms;      /* FastCGI: for so long */
	uint64_t keep;                /* FastCGI: idle connections kept, per worker */
	int64_t keep_idle_ms;         /* FastCGI: for so long */
	int64_t kill_grace_ms;        /* CGI: from SIGTERM to SIGKILL */
	uint64_t max_programs;        /* CGI: running at once, per process; more get 503 */
	int64_t cpu_limit_ms;         /* CGI: processor time of each process; 0: none */
	uint64_t memory_limit;        /* CGI: bytes of address space of each; 0: none */
	bool no_new_privs;            /* CGI: set-user-ID and the like have no effect */
	enum client_gone client_gone; /* CGI */
	enum program_argv argv;       /* CGI */
};

/* [endpoint NAME], one per file */
struct endpoint {
	char *name;
	const struct backend *backend;
	struct tiers tiers;
	const char *file; /* where it stands; owned by the snapshot */
	unsigned line;
};

enum store_type {
	STORE_REDIS,
	STORE_MEMORY
};
enum user_source {
	USER_TOKEN,       /* a token that the directory knows */
	USER_REMOTE_USER, /* REMOTE_USER, which the web server has verified */
};
#define USER_SOURCES_MAX 2
enum log_requests {
	LOG_REQUESTS_NONE,
	LOG_REQUESTS_REFUSED,
	LOG_REQUESTS_ALL
};

/* A network: address bytes (IPv4 as four, IPv6 as sixteen) and prefix bits. */
struct network {
	unsigned char addr[16];
	uint8_t addr_n; /* 4 or 16 */
	uint8_t bits;
};
struct networks {
	struct network *list;
	size_t n;
};

/* A sentence in one language. */
struct localized {
	char *language; /* a language tag as written: "zh", "pt-BR" (RFC 5646) */
	char *text;     /* with {retry_after} */
};

/* Bytes of what a store says of its state, with NUL (store/store.h): with several servers
 * each has its reason in it. */
#define STORE_STATE_MAX 1024

/* One store.url. */
struct redis_server {
	struct net_addr addr; /* text to show; ss is unused when host is set */
	char *host;           /* a name to look up at each connect, or NULL */
	unsigned port;
	char *username, *password; /* NULL when not given */
	unsigned db;
};

/* One server.endpoints. */
struct endpoint_pattern {
	char *text;   /* as written */
	size_t files; /* that it found */
};

struct config {
	atomic_uint refs;
	/* Called before it is freed, unless NULL: for who has put something into it that
	 * goes with it. Any thread. */
	void (*parting)(struct config *c);
	char *file;      /* the path it was read from */
	unsigned *lines; /* by row of the option table; ask config_line() */

	struct {
		struct net_addr *listen; /* at most LISTEN_MAX */
		size_t n_listen;
		unsigned socket_mode;             /* of unix sockets, 0660 */
		char *socket_user, *socket_group; /* "" leaves the owner */
		uint64_t backlog;
		uint64_t workers;              /* 0: one per core */
		uint64_t max_connections;      /* open at once */
		uint64_t max_requests;         /* served at once; more get 503 */
		const struct backend *backend; /* when no endpoint matches; or NULL */
		char **strip_prefix; /* "/index.php": left out of paths before matching */
		size_t n_strip_prefix;
		enum rule_mode mode;     /* of all rules, unless MODE_ENFORCE */
		uint64_t head_limit;     /* bytes of PARAMS */
		int64_t head_timeout_ms; /* from a connection's first byte to the whole head */
		uint64_t body_limit;     /* bytes */
		int64_t body_timeout_ms; /* between two pieces of the body */
		int64_t send_timeout_ms; /* a reader that takes nothing for so long is gone */
		uint64_t spool_memory;   /* bytes of a body before it goes to a file */
		char *spool_dir;         /* where the unlinked temporary files are made */
		uint64_t spool_limit;    /* bytes in all of them; 0: no limit */
		int64_t drain_timeout_ms; /* of early answers: longest reading of what nobody wants */
		int64_t stop_timeout_ms; /* after SIGTERM: longest wait for running requests */
		char *control;           /* address of the control socket, "" for none */
		char *control_group;     /* group that may use it, "" leaves it */
	} server;
	struct {
		enum store_type type;
		struct redis_server *servers; /* in the order in which they are tried */
		size_t n_servers;
		char *password; /* what store.password_file holds, or NULL; of those whose
				 * URL has none */
		int64_t timeout_ms;
		uint64_t breaker_failures; /* in a row that open the breaker; 0: none do */
		int64_t breaker_slow_ms;   /* answers above are slow; 0: half of timeout */
		int64_t breaker_pause_ms;  /* between two probes */
		char *prefix;
		uint64_t memory; /* most bytes of the memory store or fallback table */
	} store;
	struct {
		enum on_error policy;
		uint64_t instances; /* by which counts are divided */
		struct rate rate;   /* the total under which everything stays */
	} fallback;
	struct {
		struct networks trusted_proxies;
		uint64_t ipv6_prefix; /* bits by which IPv6 clients are told apart */
		enum user_source user[USER_SOURCES_MAX]; /* the first that names one */
		size_t n_user;                           /* 0: nobody has a name */
		char *token_header; /* parameter that carries a token: "HTTP_AUTHORIZATION"
				     * (then behind "Bearer "), "HTTP_X_API_KEY"; "" for none */
		char *token_cookie; /* cookie that carries one, "" for none */
		char *directory;    /* path of the SQLite file; "" when there is none */
		char *directory_query;    /* SQL in place of our schema's; "" for ours */
		int64_t directory_ttl_ms; /* how long a token or user found may be believed */
		int64_t directory_miss_ttl_ms; /* how long one that was not found */
		uint64_t directory_cache;      /* most entries kept */
		enum on_error directory_error; /* the directory cannot be read at run time:
						* ON_ERROR_OPEN goes on with what it said
						* last, and without a user,
						* ON_ERROR_CLOSED answers 503 */
	} client;
	struct {
		struct networks networks; /* who meets no limit */
	} allow;
	struct {
		char *message;              /* of 429, with {retry_after} */
		struct localized *messages; /* message.LANGUAGE, no language twice */
		size_t n_messages;
		bool rate_limit_fields;     /* RateLimit-Policy and RateLimit on answers */
		bool x_rate_limit_fields;   /* X-RateLimit-Limit, -Remaining, -Reset */
		uint64_t authorizer_status; /* of its refusals; 429: their own */
		bool problem_json; /* refusals as application/problem+json (RFC 9457) */
		/* The body of refusals, from the file reply.template; NULL: JSON as ever.
		 * {code} {message} {retry_after} {endpoint} {rule} {request_id} are
		 * placeholders; there is no other {word} in it. */
		char *template_text;
		char *template_type; /* its Content-Type */
	} reply;
	struct {
		unsigned level; /* enum log_level */
		enum log_requests requests;
	} log;

	struct tiers site;
	struct backend *backends;
	size_t n_backends;
	struct endpoint *endpoints;
	size_t n_endpoints;
	struct endpoint_pattern *endpoint_patterns;
	size_t n_endpoint_patterns;
	struct pattern_index *patterns; /* over endpoints, for limit/match */
	char **files;          /* all that were read, weir.ini first; owns their names */
	enum file_look *looks; /* of each of them */
	size_t n_files;
};

/* Reads file and everything it names. On success *out holds one reference and
 * true is returned; notices (such as a memory store that counts per process) may
 * be in messages. On failure returns false and messages has a line per mistake,
 * "FILE:LINE: what was read; what would do\n". Blocks on files and look-ups. */
bool config_load(const char *file, struct config **out, struct buf *messages);

/* References. Any thread; the last config_unref() frees. NULL is fine. */
struct config *config_ref(struct config *c);
void config_unref(struct config *c);

/* Where weir.ini gives an option first, for messages; 0 when it does not. */
unsigned config_line(const struct config *c, const char *section, const char *name);

/* 0 where large bodies find a directory to be stored in, or need none, since all there may
 * be fit into server.spool_memory; else why not, an errno: for whoever asks, and now. */
int config_spool_fault(const struct config *c);

/* In how many shards the table of this process keeps its store.memory, a power of two. Each
 * has an equal part, and a client's whole state lies in one: fewer rather than small ones. */
#define MEMORY_SHARDS_MAX 64
size_t config_memory_shards(uint64_t bytes);

/* What is in force, for people: endpoints, tiers, backends, store. */
void config_summary(const struct config *c, struct buf *out);

#endif
