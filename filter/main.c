/*
 * main.c - the life of the process.
 *
 * In order: how it was started, options, configuration, log, sockets, workers; then
 * the main loop, which accepts, hands each connection to the worker that has fewest,
 * answers the control socket and waits for signals; then the drain, and the end, which
 * waits for no look-up (ending.h).
 *
 * The main thread serves no request, so nothing a request does delays a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "accepting.h"
#include "base/clock.h"
#include "base/log.h"
#include "client/directory.h"
#include "ending.h"
#include "exchange.h"
#include "front/cgi.h"
#include "observe/control.h"
#include "proxy/addresses.h"
#include "proxy/program.h"
#include "proxy/relay.h"
#include "reloading.h"
#include "startable.h"

#define CONFIG_DEFAULT "/etc/weir/weir.ini"
#define WORKERS_MAX    256
#define DRAIN_LOOK_MS  10

static struct {
	struct config *config; /* in force */
	struct store_shared *shared;
	struct directory *directory;
	uv_loop_t loop;
	struct worker *workers[WORKERS_MAX];
	size_t n_workers;
	struct control *control;
	int control_fd; /* -1: there is none, or its file is gone */
	struct net_addr control_addr;
	uv_signal_t on_term, on_int, on_hup;
	int64_t loaded_us;
	uv_timer_t drain_timer;
	const char *started_as;
	int64_t started_us;
	bool ending;            /* a signal has come that ends it */
	int64_t drain_until_us; /* then; 0 once those still running are cut off */
} process;

/* -- starting ---------------------------------------------------------------------- */

static bool is_listening(int fd)
{
	int on = 0;
	socklen_t len = sizeof(on);

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on;
}

static void complain(const char *text)
{
	fputs(text, stderr);
}

/* Reads the configuration and tells what is to be told. What it asks of this machine is
 * looked at too, unless one request is all there is to serve. */
static bool load(const char *file, bool look, enum startable_for what)
{
	struct buf messages = { 0 };
	bool ok = config_load(file, &process.config, &messages) &&
		(!look || startable(process.config, what, &messages));

	if (messages.n)
		fwrite(messages.p, 1, messages.n, stderr);
	if (!buf_ok(&messages))
		complain("weir: out of memory; what was found is not shown to its end\n");
	buf_release(&messages);
	return ok;
}

/* Descriptors are what limits the number of requests: take all we may have. Programs
 * get the old limit back. */
static void raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	program_set_nofile(limit.rlim_cur);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		log_warn("cannot raise the number of descriptors",
			LOG_STR("error", strerror(errno)));
}

/* The users' directory, if there is one. A broken one is an error now, and a policy
 * once weir serves. */
static bool open_directory(void)
{
	const struct config *c = process.config;
	const struct directory_options options = {
		.path = c->client.directory,
		.query = c->client.directory_query,
		.ttl_ms = c->client.directory_ttl_ms,
		.miss_ttl_ms = c->client.directory_miss_ttl_ms,
		.cache_entries = c->client.directory_cache,
	};
	struct buf why = { 0 };

	if (!*c->client.directory)
		return true;
	process.directory = directory_open(&options, &why);
	if (!process.directory)
		log_error("no directory of users",
			LOG_STR("directory", c->client.directory),
			LOG_VIEW("why", buf_view(&why)));
	buf_release(&why);
	return process.directory != NULL;
}

/* -- the control socket ------------------------------------------------------------ */

static void tell_facts(void *user, struct control_facts *out)
{
	(void)user;
	out->config_file = process.config->file;
	out->started_as = process.started_as;
	out->started_us = process.started_us;
	out->loaded_us = process.loaded_us;
	out->reload_failed = reloading_failed();
	out->n_workers = process.n_workers;
}

static void tell_worker(void *user, size_t i, struct control_worker *out)
{
	(void)user;
	out->slot = worker_slot(process.workers[i]);
	out->store_up = worker_store_state(
		process.workers[i], out->store, sizeof(out->store));
}

static const struct control_ops control_ops = { .facts = tell_facts,
	.worker = tell_worker };

static void no_control(struct view why)
{
	log_warn("no control socket: weirctl and weir-status will not reach this process",
		LOG_STR("control", process.config->server.control), LOG_VIEW("why", why));
}

/* A control socket is a convenience: without it weir serves all the same. Opened before
 * there are workers (net_listen()); who connects is answered once they serve. */
static void open_control(void)
{
	const struct config *c = process.config;
	struct net_listen how = { .backlog = 16, .mode = 0660 };
	struct buf why = { 0 };

	process.control_fd = -1;
	if (!*c->server.control)
		return;
	if (net_addr_parse(view_str(c->server.control), &process.control_addr, &why) &&
		net_find_owner("", c->server.control_group, &how, &why))
		process.control_fd = net_listen(&process.control_addr, &how, &why);
	if (process.control_fd < 0)
		no_control(buf_view(&why));
	buf_release(&why);
}

/* A successor may want the path while this process drains. */
static void remove_control(void)
{
	if (process.control_fd >= 0)
		net_unlink(&process.control_addr);
	process.control_fd = -1;
}

static void start_control(void)
{
	if (process.control_fd < 0)
		return;
	process.control = control_start(
		&process.loop, process.control_fd, &control_ops, NULL);
	if (process.control)
		return;
	no_control(VIEW("out of memory"));
	remove_control();
}

/* -- reloading --------------------------------------------------------------------- */

/* The new rules are whole and without mistakes: from here nothing can fail. */
static void put_in_force(struct config *c)
{
	addresses_part(process.config, c);
	config_unref(process.config);
	process.config = c;
	process.loaded_us = clock_mono_us();
	accepting_limit(c->server.max_connections);
	log_open(STDERR_FILENO, (enum log_level)c->log.level);
	for (size_t i = 0; i < process.n_workers; i++)
		worker_reload(process.workers[i], c);
	store_forget_denied(process.shared);
	log_notice("configuration reloaded", LOG_STR("config", c->file));
}

static void on_reload_signal(uv_signal_t *s, int number)
{
	(void)s;
	(void)number;
	reloading_start();
}

/* -- ending ------------------------------------------------------------------------ */

static bool all_ended(void)
{
	for (size_t i = 0; i < process.n_workers; i++)
		if (!worker_ended(process.workers[i]))
			return false;
	return true;
}

static void look_at_drain(uv_timer_t *t)
{
	if (all_ended()) {
		uv_stop(t->loop);
		return;
	}
	if (process.drain_until_us && clock_mono_us() > process.drain_until_us) {
		log_warn("requests still running are cut off: server.stop_timeout is over");
		process.drain_until_us = 0;
		for (size_t i = 0; i < process.n_workers; i++)
			worker_stop(process.workers[i], true);
	}
}

/* From the first socket on a signal must end weir by the drain and not at once, which
 * would leave socket files behind: it waits until the loop can take it. */
static void hold_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(how, &set, NULL);
}

/* SIGTERM and SIGINT: no new work, the running is finished. A second signal does not
 * wait for it. */
static void on_signal(uv_signal_t *s, int number)
{
	bool again = process.ending;

	log_notice(again ? "stopping at once" : "stopping", LOG_INT("signal", number));
	process.ending = true;
	if (!again) {
		reloading_stop();
		remove_control();
		accepting_stop();
		process.drain_until_us = clock_mono_us() +
			process.config->server.stop_timeout_ms * US_PER_MS;
		uv_timer_start(&process.drain_timer, look_at_drain, 0, DRAIN_LOOK_MS);
	}
	for (size_t i = 0; i < process.n_workers; i++)
		worker_stop(process.workers[i], again);
	(void)s;
}

static void start_loop(void)
{
	uv_loop_t *loop = &process.loop;

	accepting_limit(process.config->server.max_connections);
	accepting_start(loop, process.workers, process.n_workers);
	uv_timer_init(loop, &process.drain_timer);
	uv_signal_init(loop, &process.on_term);
	uv_signal_init(loop, &process.on_int);
	uv_signal_start(&process.on_term, on_signal, SIGTERM);
	uv_signal_start(&process.on_int, on_signal, SIGINT);
	reloading_init(loop, process.config, put_in_force);
	uv_signal_init(loop, &process.on_hup);
	uv_signal_start(&process.on_hup, on_reload_signal, SIGHUP);
	hold_signals(SIG_UNBLOCK);
}

static bool start_workers(void)
{
	uint64_t n = process.config->server.workers;
	struct buf why = { 0 };

	if (n == 0)
		n = uv_available_parallelism();
	if (n > WORKERS_MAX)
		n = WORKERS_MAX;
	while (process.n_workers < n) {
		struct worker *w = worker_start((unsigned)process.n_workers, process.config,
			process.shared, process.directory, &why);

		if (!w) {
			log_error("cannot start", LOG_VIEW("why", buf_view(&why)));
			buf_release(&why);
			return false;
		}
		process.workers[process.n_workers++] = w;
	}
	return true;
}

/* What these tell comes as an error of write as well: a peer that is gone, a file that may
 * not grow (RLIMIT_FSIZE). Programs get the defaults back. */
static void ignore_signals(void)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

static void nothing(uv_work_t *work)
{
	(void)work;
}

/* libuv makes its pool's threads when they are first wanted, and ends the process where it
 * cannot have them. That had better happen now. */
static bool start_pool(void)
{
	static uv_work_t work;

	return uv_queue_work(&process.loop, &work, nothing, NULL) == 0;
}

/* What the workers have in common. */
static bool make_shared(void)
{
	process.shared = store_shared_new(process.config);
	if (process.shared && addresses_hand_on(NULL, process.config))
		return true;
	log_error("cannot start", LOG_STR("why", "out of memory"));
	return false;
}

/* Once the main loop has stopped. False when the look-up of a name, a reload or a look
 * ahead has not ended: nothing is to be freed then. */
static bool close_all(void)
{
	bool whole = true;

	control_stop(process.control);
	for (size_t i = 0; i < process.n_workers; i++)
		whole = worker_join(process.workers[i]) && whole;
	uv_close((uv_handle_t *)&process.drain_timer, NULL);
	uv_close((uv_handle_t *)&process.on_term, NULL);
	uv_close((uv_handle_t *)&process.on_int, NULL);
	uv_close((uv_handle_t *)&process.on_hup, NULL);
	return loop_end(&process.loop) && whole;
}

static int serve(bool on_descriptor_0)
{
	bool whole;

	raise_nofile();
	hold_signals(SIG_BLOCK);
	if (uv_loop_init(&process.loop) < 0 || !start_pool() ||
		!accepting_open(process.config, on_descriptor_0))
		return 1;
	open_control();
	if (!make_shared() || !open_directory() || !start_workers()) {
		accepting_close();
		remove_control();
		leave(1); /* workers that have started may be looking Redis up */
	}
	start_loop();
	start_control();
	log_notice("ready", LOG_STR("version", WEIR_VERSION),
		LOG_STR("config", process.config->file),
		LOG_INT("workers", process.n_workers),
		LOG_INT("max_connections", process.config->server.max_connections),
		LOG_INT("max_requests", process.config->server.max_requests));
	uv_run(&process.loop, UV_RUN_DEFAULT);

	whole = close_all();
	log_notice("stopped");
	if (!whole)
		leave(0);
	store_shared_free(process.shared);
	directory_close(process.directory);
	reloading_release();
	config_unref(process.config);
	return 0;
}

/* -- as a CGI program -------------------------------------------------------------- */

static int cgi_fails(const char *message)
{
	log_error(message);
	printf("Status: 500 Internal Server Error\r\nContent-Type: application/json\r\n\r\n"
	       "{\"code\":50000,\"message\":\"weir cannot serve; its log says why\"}\n");
	return 0;
}

/* One exchange on this thread's own loop (design: everything a worker has, once). */
static int serve_as_cgi(void)
{
	const char *file = getenv("WEIR_CONFIG");
	struct exchanges exchanges = { .loop = &process.loop };
	struct cgi_front front;

	if (!load(file && *file ? file : CONFIG_DEFAULT, false, STARTABLE_BEGINS))
		return cgi_fails("the configuration has mistakes");
	log_open(2, (enum log_level)process.config->log.level);
	if (process.config->store.type == STORE_MEMORY)
		return cgi_fails(
			"as a CGI program weir needs Redis to count: each request is a "
			"process of its own, and store.type = memory would forget");
	ignore_signals();
	raise_nofile();
	process.shared = store_shared_new(process.config);
	if (uv_loop_init(&process.loop) < 0 || !process.shared ||
		!addresses_hand_on(NULL, process.config))
		return cgi_fails("out of memory");
	exchanges.config = process.config;
	if (!open_directory())
		return cgi_fails("the directory of users cannot be read");
	exchanges.directory = process.directory;
	exchanges.store = store_new(&process.loop, process.config, process.shared);
	if (!exchanges.store)
		return cgi_fails("out of memory");
	cgi_front_start(&front, &process.loop, &exchange_events, &exchanges);
	while (uv_run(&process.loop, UV_RUN_ONCE) && (front.user || exchanges.n))
		;
	relays_end();
	store_close(exchanges.store);
	/* The web server reads to the end of the output: that must not wait. */
	if (!loop_end(&process.loop))
		leave(0);
	store_shared_free(process.shared);
	directory_close(process.directory);
	config_unref(process.config);
	return 0;
}

/* -- options ----------------------------------------------------------------------- */

static const char usage[] =
	"usage: weir [-c FILE] [-t]\n"
	"       weir -h | -V\n"
	"  -c FILE  the configuration (" CONFIG_DEFAULT ")\n"
	"  -t       check the configuration and exit\n"
	"  -h       print this and exit (--help)\n"
	"  -V       print the version and exit (--version)\n"
	"Started with a listening socket as descriptor 0 weir serves there; with\n"
	"GATEWAY_INTERFACE in the environment it is a CGI program and reads WEIR_CONFIG.\n";

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	const char *file = CONFIG_DEFAULT;
	bool on_descriptor_0 = is_listening(STDIN_FILENO), test = false;
	int opt;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			net_occupy(fd);
	process.started_us = clock_mono_us();
	if (!on_descriptor_0 && getenv("GATEWAY_INTERFACE"))
		return serve_as_cgi(); /* argv is the client's (RFC 3875, section 4.4) */
	while ((opt = getopt_long(argc, argv, "c:tVh", long_options, NULL)) != -1) {
		switch (opt) {
		case 'c': file = optarg; break;
		case 't': test = true; break;
		case 'V': printf("weir %s\n", WEIR_VERSION); return 0;
		case 'h': fputs(usage, stdout); return 0;
		default: complain(usage); return 2;
		}
	}
	if (optind < argc) {
		complain(usage);
		return 2;
	}
	if (!load(file, true, test ? STARTABLE_ASKED : STARTABLE_BEGINS))
		return 1;
	if (test) {
		printf("%s: no mistakes found\n", file);
		config_unref(process.config);
		return 0;
	}
	log_open(2, (enum log_level)process.config->log.level);
	ignore_signals();
	process.started_as = on_descriptor_0 ? "on descriptor 0" : "on its own sockets";
	return serve(on_descriptor_0);
}
