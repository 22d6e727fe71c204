/*
 * support.h - what tests that run programs stand on.
 *
 * A test gets a directory of its own, starts the servers it needs there on free
 * addresses, talks to them as a web server or a browser would, and returns. It
 * stops nothing by hand: when the test process ends, however it ends, a keeper
 * process kills what was started; then the runner removes the directory, or, if
 * the test failed, prints the ends of the logs in it first. WEIR_TEST_KEEP=1 in
 * the environment leaves directories in place.
 *
 * Memory that functions here hand out as const char * or as a pointer to a server
 * lives until the test process ends; what has to be released says so. Functions
 * that start something end the test with a message when it does not start; they
 * belong on the test's main thread. Waiting has deadlines in milliseconds.
 *
 * Addresses are written as weir.ini has them: unix:/path or tcp:127.0.0.1:9000.
 */
#ifndef WEIR_TESTS_SUPPORT_H
#define WEIR_TESTS_SUPPORT_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/buf.h"

/* ---- The test's own place (place.c) ---- */

/* A fresh directory, short enough for socket paths. */
const char *test_dir(void);
/* "DIR/name" */
const char *test_path(const char *name);
/* Formatted text. */
const char *text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends the test as failed. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* An environment variable that the build sets for path tests, such as WEIR. */
const char *test_env(const char *name);
/* Ends the test as one that cannot be run here, which contrib/test.sh tells. */
void skip_test(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Whether weir is started under valgrind (tests/valgrind.sh), which has memory and
 * descriptors of its own. */
bool under_valgrind(void);

void file_write(const char *path, const char *content);
void file_copy(const char *from, const char *to); /* and its mode */
/* A whole file, NUL-terminated, or NULL when it cannot be read. */
const char *file_read(const char *path);

/* Time and memory are a sanitizer's then, not weir's. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

int64_t now_ms(void); /* monotonic */
/* Looks at cond every few milliseconds until it holds: false when ms passed first. */
#define WAIT_UNTIL(ms, cond)                                           \
	__extension__({                                                \
		int64_t wait_end_ = now_ms() + (ms);                   \
		bool wait_held_;                                       \
		while (!(wait_held_ = (cond)) && now_ms() < wait_end_) \
			wait_a_little();                               \
		wait_held_;                                            \
	})
void wait_a_little(void); /* 2 ms, for WAIT_UNTIL */

/* The bytes tests send: any part of them shows where it belongs. at is the offset of
 * p[0]; the same at gives the same byte. */
void pattern_fill(char *p, uint64_t at, size_t n);
/* SHA-256 in hexadecimal, of bytes and of the first n bytes of the pattern. */
const char *sha256_of(struct view bytes);
const char *sha256_of_pattern(uint64_t n);
/* SHA-256 of the handlers' answer to size=N. */
const char *sha256_of_numbered(uint64_t n);

/* Raises the limit on open files to at least n; ends the test as skipped, with a
 * sentence, where that is not allowed. Children inherit it. */
void need_open_files(unsigned n);

/* ---- Addresses and sockets (net.c) ---- */

const char *addr_unix(const char *name); /* unix:DIR/name */
const char *addr_tcp(void);              /* tcp:127.0.0.1:PORT, the port free just now */
unsigned free_port(void);
/* A connected blocking socket, or -1 with errno. Any thread. */
int dial(const char *addr);
/* A listening blocking socket; ends the test when it cannot. */
int listen_on(const char *addr, int backlog);
/* Somebody accepts connections there. */
bool addr_answers(const char *addr);

/* ---- Processes (process.c) ---- */

struct process {
	pid_t pid;
	const char *name;
	const char *log; /* file with its standard output and error */
	bool ended;
	int status; /* as waitpid(2) gives it, once ended */
};

struct process_spec {
	const char *name;        /* names the log: NAME.log, NAME.2.log, ... */
	const char *const *argv; /* NULL-terminated */
	const char *const *env;  /* NAME=value to add, NULL-terminated, or NULL */
	bool bare_env;           /* nothing but env */
	int input;               /* becomes descriptor 0; 0: /dev/null */
	int output;              /* becomes descriptor 1; 0: the log */
	const char *cwd;         /* NULL: the test's directory */
};

/* Each in a process group of its own, SIGKILLed when this process's main thread ends. */
struct process *process_start(const struct process_spec *spec);
bool process_running(struct process *p);
/* True when it ended within ms; status is set. */
bool process_ends(struct process *p, int64_t ms);
/* The exit status, 128 + N after signal N, or -1 when it did not end within ms. */
int process_exit(struct process *p, int64_t ms);
void process_signal(struct process *p, int sig);
/* TERM to the group, KILL after ms. Fine when it ended already. */
void process_stop(struct process *p, int64_t ms);
const char *process_log(const struct process *p); /* the log now */
/* False when it does not appear within ms. */
bool process_logs(const struct process *p, const char *words, int64_t ms);
uint64_t process_resident_bytes(const struct process *p);
double process_cpu_seconds(const struct process *p);
size_t process_open_files(const struct process *p);
/* The fewest it has for a while: a last connection may still be closing. */
size_t process_files_at_rest(const struct process *p);
size_t process_children(const struct process *p);

/* ---- Servers (servers.c) ---- */

/* Waits until p accepts connections at addr; ends the test when it does not. */
void process_expect(struct process *p, const char *addr);

struct redis {
	struct process *process;
	const char *url;    /* unix:///..., as store.url wants it */
	const char *socket; /* path */
};
struct redis *redis_start(void);
/* Runs one command and gives its answer as text: a status, a number, a string, or ""
 * for nil. Formatted as hiredis does. Main thread. */
const char *redis_run(const struct redis *r, const char *fmt, ...);

/* php-fpm with a pool of its own; returns its address. children is pm.max_children. */
const char *php_fpm_start(unsigned children);
/* The same with further lines for the pool. */
const char *php_fpm_pool(unsigned children, const char *lines);
/* The echo handler as a FastCGI application at a new address: processes of it share
 * one listening socket as descriptor 0. */
const char *echo_start(unsigned processes);
/* A directory with the CGI programs hello.sh, hello.pl, hello.php and echo in it. */
const char *programs_dir(void);

/* ---- Web servers (web.c) ---- */

struct web {
	struct process *process;
	unsigned port;
	const char *url; /* http://127.0.0.1:PORT */
	const char *root;
};

struct web_spec {
	const char *conf;    /* the shipped file: "apache/weir.conf" */
	const char *backend; /* address in place of the one it names; opened to all */
	const char *tcp;     /* the same for a file that names one of this kind */
	const char *php;     /* ... of php-fpm's */
	const char *ini;     /* path of weir.ini, where the server starts weir */
	const char *root;    /* document root; NULL: programs_dir() */
	const char *more;    /* lines for the server, after that file */
};
/* Lets any user connect to a unix socket: servers started as root become somebody else. */
void open_to_all(const char *addr);
/* lighttpd, nginx or Apache with a shipped file as it is, but for the places it names. */
struct web *web_start(const struct web_spec *spec);

/* The usual ones: files of that name, and each in front of everything. */
struct web *lighttpd_start(const char *backend);
struct web *nginx_start(const char *backend);
struct web *apache_start(const char *backend);
/* nginx with connections to the backend kept open. */
struct web *nginx_keepalive_start(const char *backend);
/* lighttpd that starts weir itself, with the listening socket as descriptor 0. */
struct web *lighttpd_spawn_start(const char *ini);

/* ---- weir (weir.c) ---- */

struct weir {
	struct process *process;
	const char *addr;    /* where it serves */
	const char *control; /* its control socket */
	const char *ini;     /* path of weir.ini */
};

struct weir_spec {
	const char *server;    /* lines for [server], after listen, control and endpoints */
	const char *sections;  /* further sections, [store] and so on */
	const char *endpoints; /* any number of [endpoint NAME]; each gets a file */
	const char *listen;    /* instead of a unix socket of its own */
	const char *const *env;
	int input; /* descriptor 0, when it is to serve there; addr is then listen */
};

/* Writes weir.ini and starts weir with it; returns once its sockets accept. */
struct weir *weir_start(const struct weir_spec *spec);
/* Writes weir.ini only; a is set as weir_start() would. process is NULL. */
struct weir *weir_configure(const struct weir_spec *spec);
/* Runs weir with further arguments to its end: exit status; its output is in *out. */
int weir_run(const char *const *args, const char **out);
/* The status as the control socket gives it; released with json_decref(). NULL when
 * there was no answer. */
json_t *weir_status(const struct weir *w);
/* One counter of it; -1 when it is not there. */
int64_t weir_counter(const struct weir *w, const char *name);
/* The counter came to be n within ms: what is counted after an answer has left is not
 * there the moment the answer is. */
bool weir_counts(const struct weir *w, const char *name, int64_t n, int64_t ms);

struct run {
	int status;
	const char *out, *err;
};
/* weirctl with arguments that are cut at blanks. */
struct run weirctl_run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same, which has to succeed: what it prints. */
const char *weirctl(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The token in what "weirctl token add" prints. */
const char *token_in(const char *output);

/* ---- A browser (http.c; libcurl) ---- */

struct http_request {
	const char *method; /* NULL: GET, or POST with a body */
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated, or NULL */
	struct view body;
	uint64_t pattern_bytes;   /* instead of body: so many bytes of the pattern */
	bool chunked;             /* send the body without its length */
	bool http2;               /* begin with HTTP/2, without TLS */
	int64_t timeout_ms;       /* 0: 30 s */
	uint64_t leave_after;     /* closes after so many bytes of the body; 0: never */
	uint64_t keep_body_bytes; /* of the body that are kept; 0: 1 MiB */
};

struct http_piece {
	int64_t ms; /* since the request began */
	size_t bytes;
};

/* Appends to a list that grows by doubling; false when memory is out. */
bool pieces_add(struct http_piece **list, size_t *n, int64_t ms, size_t bytes);

struct http_answer {
	int error;       /* CURLcode; 0: whole */
	long status;     /* 0: none came */
	struct buf head; /* header lines with CRLF, of the last answer */
	struct buf body; /* its beginning */
	uint64_t body_bytes;
	char sha256[65]; /* of the whole body */
	struct http_piece *pieces;
	size_t n_pieces;
	int64_t ms; /* from the start to the end */
};

/* Any thread. */
void http_call(const struct http_request *rq, struct http_answer *out);
void http_get(const char *url, struct http_answer *out);
void http_release(struct http_answer *a);

/* ---- A web server, byte by byte (fcgi.c) ---- */

/* What does not come from filter/fastcgi is composed here on its own, so that both
 * sides cannot share a mistake. */
void fcgi_header(struct buf *b, unsigned version, unsigned type, unsigned id, unsigned n,
	unsigned padding);
/* One whole record of version 1: n <= 65535. */
void fcgi_record(
	struct buf *b, unsigned type, unsigned id, struct view content, unsigned padding);
void fcgi_begin(struct buf *b, unsigned id, unsigned role, unsigned flags);
void fcgi_pair(struct buf *b, struct view name, struct view value);

struct fcgi_request {
	unsigned role; /* 0: responder */
	unsigned id;   /* 0: 1 */
	bool keep;
	const char *method;        /* NULL: GET, or POST with a body */
	const char *uri;           /* NULL: "/" */
	const char *address;       /* NULL: 127.0.0.1 */
	const char *script;        /* SCRIPT_FILENAME; NULL: none */
	const char *const *params; /* further "NAME=value", NULL-terminated, or NULL */
	struct view body;
	uint64_t pattern_bytes; /* instead of body */
};
/* The whole request as nginx would send it. */
void fcgi_compose(struct buf *b, const struct fcgi_request *rq);
/* Its parts, for tests that stop in the middle. */
void fcgi_compose_params(struct buf *b, const struct fcgi_request *rq);
void fcgi_compose_head(struct buf *b, const struct fcgi_request *rq);
void fcgi_compose_body(struct buf *b, const struct fcgi_request *rq);

struct fcgi_answer {
	struct buf out, err; /* STDOUT and STDERR */
	struct buf
		management; /* content of records with id 0, types in front: type, n, ... */
	unsigned ends;      /* END_REQUEST records seen */
	unsigned end_id;    /* the last one's id, app and protocol status */
	uint32_t app_status;
	unsigned protocol_status;
	bool closed;               /* the peer closed its side */
	bool reset;                /* ... by a reset */
	bool late;                 /* the deadline passed first */
	const char *malformed;     /* what was wrong with the records, or NULL */
	struct http_piece *pieces; /* of out, with times */
	size_t n_pieces;

	/* Private. */
	struct buf raw;
	int64_t began_ms;
};
void fcgi_answer_init(struct fcgi_answer *a);
void fcgi_answer_release(struct fcgi_answer *a);

/* What to wait for. */
enum fcgi_until {
	FCGI_UNTIL_END,        /* one more END_REQUEST, or the connection's end */
	FCGI_UNTIL_CLOSED,     /* the connection's end */
	FCGI_UNTIL_SOMETHING,  /* any more bytes, or the connection's end */
	FCGI_UNTIL_MANAGEMENT, /* one more management record, or the connection's end */
};
/* Sends bytes (which may be empty) and reads at the same time, as web servers do, until
 * what is awaited came; false when ms passed first. Any thread. */
bool fcgi_exchange(int fd, struct view bytes, struct fcgi_answer *a, enum fcgi_until until,
	int64_t ms);
/* Sends alone; false when ms passed or the peer is gone. */
bool fcgi_send(int fd, struct view bytes, int64_t ms);
/* One request on a connection of its own. False when there is no whole answer. */
bool fcgi_call(
	const char *addr, const struct fcgi_request *rq, struct fcgi_answer *a, int64_t ms);

/* Of the CGI answer in a->out: the status (200 without a Status field, 0 without a whole
 * head), how many fields of that name and the first one's value, the body. */
int answer_status(const struct fcgi_answer *a);
size_t answer_fields(const struct fcgi_answer *a, const char *name);
const char *answer_field(const struct fcgi_answer *a, const char *name);
struct view answer_body(const struct fcgi_answer *a);

/* The same for header lines with CRLF (http_answer.head). */
size_t fields_of(struct view head, const char *name);
const char *field_of(struct view head, const char *name);
/* What stands behind "NAME=" at the start of a line, as the handlers write it; NULL. */
const char *line_of(struct view body, const char *name);
/* A JSON body, parsed; ends the test when it is none. Released with json_decref(). */
json_t *json_of(struct view body);

/* ---- A backend that does as told (backend.c) ---- */

/* One script for all its connections. Without any field set it reads the whole
 * request, answers 200 with "ok", and closes. */
struct backend_script {
	const struct view *pieces; /* raw bytes to send instead, in this cut */
	size_t n_pieces;
	int64_t delay_ms;        /* before the first piece */
	int64_t gap_ms;          /* between pieces */
	bool early;              /* answers as soon as somebody connects */
	bool silent;             /* never answers */
	bool stay;               /* does not close after its answer */
	bool reset;              /* closes with a reset */
	bool no_reading;         /* reads nothing at all */
	const atomic_bool *hold; /* no answer is begun while it is set; may be NULL */
};

struct backend;
struct backend_counts {
	unsigned accepted, requests, open; /* connections; whole requests; open now */
	unsigned left_by_peer; /* closed by the peer before the answer was out */
};

/* Serves addr in a thread until the test ends. script is borrowed. */
struct backend *backend_start(const char *addr, const struct backend_script *script);
struct backend_counts backend_count(struct backend *b);
/* What the request number i (from 0) brought: parameters and body, copied; both are
 * released by the caller. False when there is none yet. */
bool backend_seen(struct backend *b, unsigned i, struct buf *params, struct buf *body);
/* A parameter's value in such params, or NULL. */
const char *param_of(struct view params, const char *name);

/* A whole answer in records: out as STDOUT, then the end. */
void backend_answer(struct buf *b, struct view out);

#endif
