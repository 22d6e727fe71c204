#include "relay_run.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "proxy/addresses.h"

void sleep_ms(int ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

void run_init(struct run *r, enum backend_kind kind, const char *params)
{
	struct view left = view_str(params);

	*r = (struct run){ .path = VIEW("/") };
	r->backend = (struct backend){
		.name = strdup("test"),
		.kind = kind,
		.root = strdup("/nonexistent"),
		.prefix = strdup(""),
		.path = strdup("/usr/bin:/bin"),
		.connect_timeout_ms = 10000,
		.first_byte_timeout_ms = 10000,
		.idle_timeout_ms = 10000,
		.kill_grace_ms = 10000,
		.max_programs = 100,
		.retry = RETRY_SAFE,
		.fail_timeout_ms = 10000,
		.keep_idle_ms = 10000,
		.no_new_privs = true,
	};
	request_init(&r->request, FCGI_RESPONDER);
	while (left.n) {
		struct view value = view_cut(&left, '\n');
		struct view name = view_cut(&value, '=');

		pairs_put(&r->request.head, name, value);
	}
	spool_init(&r->body, UINT64_C(1) << 30, 65536, "/tmp");
}

void run_body(struct run *r, struct view bytes)
{
	cr_assert_eq(spool_add(&r->body, bytes), SPOOL_OK);
}

static void on_resume(uv_timer_t *timer)
{
	struct run *r = timer->data;

	r->since_pause = 0;
	r->paused = false;
	if (r->relay)
		relay_resume(r->relay);
}

static void over(struct run *r)
{
	r->relay = NULL;
	uv_close((uv_handle_t *)&r->resume, NULL);
	uv_close((uv_handle_t *)&r->cancel, NULL);
}

static void cancel(struct run *r)
{
	relay_cancel(r->relay);
	over(r);
}

static void on_cancel(uv_timer_t *timer)
{
	struct run *r = timer->data;

	if (r->relay)
		cancel(r);
	if (r->then_end)
		relays_end();
}

static void on_head(void *user, const struct answer *a)
{
	struct run *r = user;

	cr_assert(!r->starting && r->relay && !r->heads && !r->ends);
	r->heads++;
	r->status = a->status;
	buf_add(&r->head, buf_view(&a->head));
	if (r->cancel_in_head)
		cancel(r);
}

static void on_body(void *user, struct view piece)
{
	struct run *r = user;

	cr_assert(!r->starting && r->relay && r->heads == 1 && !r->ends);
	buf_add(&r->answer, piece);
	if (r->paused)
		r->since_pause += piece.n;
	cr_assert_leq(r->since_pause, 65536, "a paused relay reads on");
	if (r->cancel_in_body) {
		cancel(r);
	} else if (r->pause_ms && !r->paused) {
		r->paused = true;
		relay_pause(r->relay);
		uv_timer_start(&r->resume, on_resume, (uint64_t)r->pause_ms, 0);
	}
}

static void on_end(void *user, enum relay_end how, const char *why)
{
	struct run *r = user;

	cr_assert(!r->starting && r->relay && !r->ends);
	r->ends++;
	uv_update_time(r->loop);
	r->took_ms = (int64_t)(uv_now(r->loop) - r->began_ms);
	r->how = how;
	snprintf(r->why, sizeof(r->why), "%s", why ? why : "");
	over(r);
}

static void on_too_long(uv_timer_t *timer)
{
	(void)timer;
	cr_assert_fail("half a minute has passed");
}

/* Runs at one backend share what is known of it, one after the other or at once. */
static struct addresses *know(const struct backend *b)
{
	static struct addresses *last;

	if (b->kind != BACKEND_FASTCGI)
		return NULL;
	if (!last || !addresses_are_of(last, b)) {
		addresses_unref(last);
		last = addresses_new(b);
		cr_assert(last);
	}
	return addresses_ref(last);
}

static void start(struct run *r, uv_loop_t *loop)
{
	static const struct relay_events events = { on_head, on_body, on_end };
	const struct relay_job job = {
		.backend = &r->backend,
		.request = &r->request,
		.body = &r->body,
		.path = r->path,
		.query = r->query,
		.own_rate_limit = r->own_rate_limit,
		.own_x_rate_limit = r->own_x_rate_limit,
		.extra = r->extra,
		.n_extra = r->n_extra,
	};

	cr_assert(request_index(&r->request));
	r->backend.known = know(&r->backend);
	r->loop = loop;
	uv_update_time(loop);
	r->began_ms = uv_now(loop);
	uv_timer_init(loop, &r->resume);
	uv_timer_init(loop, &r->cancel);
	r->resume.data = r->cancel.data = r;
	r->starting = true;
	r->relay = relay_start(loop, &job, &events, r);
	cr_assert(r->relay);
	r->starting = false;
	if (r->cancel_at_once)
		cancel(r);
	else if (r->cancel_after_ms)
		uv_timer_start(&r->cancel, on_cancel, (uint64_t)r->cancel_after_ms, 0);
}

static void run_loop(struct run *runs, size_t n, bool in_turn)
{
	uv_loop_t loop;
	uv_timer_t watchdog;

	cr_assert_eq(uv_loop_init(&loop), 0);
	uv_timer_init(&loop, &watchdog);
	uv_timer_start(&watchdog, on_too_long, 30000, 0);
	uv_unref((uv_handle_t *)&watchdog);
	for (size_t i = 0; i < n; i++) {
		start(&runs[i], &loop);
		if (in_turn)
			uv_run(&loop, UV_RUN_DEFAULT);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	relays_end();
	uv_close((uv_handle_t *)&watchdog, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0, "a handle is left in the loop");
	for (size_t i = 0; i < n; i++) {
		cr_assert_null(runs[i].relay, "a relay never ended");
		cr_assert(buf_ok(&runs[i].answer));
	}
}

void run_all(struct run *runs, size_t n)
{
	run_loop(runs, n, false);
}

void run_in_turn(struct run *runs, size_t n)
{
	run_loop(runs, n, true);
}

void run(struct run *r)
{
	run_all(r, 1);
}

void run_release(struct run *r)
{
	free(r->backend.name);
	free(r->backend.root);
	free(r->backend.prefix);
	free(r->backend.path);
	free(r->backend.addrs);
	addresses_unref(r->backend.known);
	request_release(&r->request);
	spool_release(&r->body);
	buf_release(&r->head);
	buf_release(&r->answer);
}

void run_expect(struct run *r, enum relay_end how, int status, const char *body)
{
	run(r);
	cr_assert_eq(r->ends, 1);
	cr_assert_eq((int)r->how, (int)how, "end %d (%s), not %d", (int)r->how, r->why,
		(int)how);
	cr_assert_eq(r->status, status, "status %d, not %d", r->status, status);
	cr_assert_eq(r->heads, status != 0);
	if (how != RELAY_WHOLE)
		cr_assert_gt(strlen(r->why), 0, "no reason is given");
	if (body)
		cr_assert(view_eq(buf_view(&r->answer), view_str(body)),
			"body \"%.*s\", not \"%s\"", VIEW_ARG(buf_view(&r->answer)), body);
}

const char *logged(void)
{
	static int fd = -1;
	static char text[256 * 1024];
	ssize_t n;

	if (fd < 0) {
		fd = memfd_create("log", MFD_CLOEXEC);
		log_open(fd, LOG_LEVEL_INFO);
	}
	n = pread(fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	cr_assert_eq(ftruncate(fd, 0), 0);
	lseek(fd, 0, SEEK_SET);
	return text;
}

static void *serve_all(void *arg)
{
	struct fake *f = arg;

	sleep_ms(f->delay_ms);
	while (!f->stop) {
		struct pollfd p = { .fd = f->listening, .events = POLLIN };
		int fd;

		if (poll(&p, 1, 20) != 1)
			continue;
		fd = accept(f->listening, NULL, NULL);
		if (fd < 0)
			continue;
		f->serve(f, fd);
		f->served++;
		close(fd);
	}
	return NULL;
}

void fake_start(struct fake *f, int backlog)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	static int number;

	snprintf(f->path, sizeof(f->path), "/tmp/test-relay-%d-%d.sock", (int)getpid(),
		number++);
	memcpy(un.sun_path, f->path, strlen(f->path) + 1);
	unlink(f->path); /* of a test that failed, and had this process's number */
	f->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_geq(f->listening, 0);
	cr_assert_eq(bind(f->listening, (struct sockaddr *)&un, sizeof(un)), 0);
	cr_assert_eq(listen(f->listening, backlog), 0);
	cr_assert_eq(pthread_create(&f->thread, NULL, serve_all, f), 0);
}

void fake_stop(struct fake *f)
{
	f->stop = true;
	pthread_join(f->thread, NULL);
	close(f->listening);
	unlink(f->path);
}

void fake_release(struct fake *f)
{
	buf_release(&f->seen.params);
	buf_release(&f->seen.stdin_bytes);
}

void run_add_address(struct run *r, const char *path)
{
	struct backend *b = &r->backend;
	struct net_addr *a;
	struct sockaddr_un *un;

	b->addrs = realloc(b->addrs, (b->n_addrs + 1) * sizeof(*b->addrs));
	cr_assert(b->addrs);
	a = &b->addrs[b->n_addrs++];
	*a = (struct net_addr){ .len = sizeof(*un) };
	un = (struct sockaddr_un *)&a->ss;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, strlen(path) + 1);
	snprintf(a->text, sizeof(a->text), "unix:%s", path);
}

/* Records the pairs of one PARAMS record, which must be whole ones. */
static void see_params(struct seen *s, struct view content)
{
	struct view left = content;
	struct pair pair;
	enum pairs_result got;

	if (content.n == 0)
		s->params_ends++;
	while ((got = pairs_next(&left, &pair)) == PAIRS_PAIR)
		;
	s->cut_pair |= got == PAIRS_BAD;
	buf_add(&s->params, content);
}

static bool read_exactly(int fd, char *out, size_t n)
{
	while (n) {
		ssize_t got = recv(fd, out, n, 0);

		if (got <= 0)
			return false;
		out += got;
		n -= (size_t)got;
	}
	return true;
}

static bool see_record(struct seen *s, int fd)
{
	static _Thread_local char content[65535 + 255];
	unsigned char h[FCGI_HEADER_LEN];
	size_t n;

	if (!read_exactly(fd, (char *)h, sizeof(h)) || h[0] != 1 || h[2] || h[3] != 1)
		return false;
	n = (size_t)(h[4] << 8 | h[5]);
	if (!read_exactly(fd, content, n + h[6]))
		return false;
	switch (h[1]) {
	case FCGI_BEGIN_REQUEST:
		s->begins++;
		s->role = (unsigned char)content[1];
		s->flags = (unsigned char)content[2];
		return n == 8;
	case FCGI_PARAMS: see_params(s, view_of(content, n)); return true;
	case FCGI_STDIN:
		s->stdin_ends += n == 0;
		buf_add(&s->stdin_bytes, view_of(content, n));
		return true;
	default: return false;
	}
}

static void forget(struct seen *s)
{
	buf_release(&s->params);
	buf_release(&s->stdin_bytes);
	*s = (struct seen){ 0 };
}

void fake_read_head(struct fake *f, int fd)
{
	forget(&f->seen);
	while (!f->seen.params_ends && see_record(&f->seen, fd))
		;
}

bool fake_read_request(struct fake *f, int fd)
{
	fake_read_head(f, fd);
	while (!f->seen.stdin_ends && see_record(&f->seen, fd))
		;
	return f->seen.stdin_ends == 1;
}

void fake_write(int fd, struct view bytes)
{
	while (bytes.n) {
		ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		bytes = view_skip(bytes, (size_t)n);
	}
}

/* One record, so text has at most 65535 bytes. */
void fake_say(int fd, unsigned type, unsigned id, struct view text)
{
	struct buf b = { 0 };

	record_put_header(&b, (uint8_t)type, (uint16_t)id, (uint16_t)text.n);
	buf_add(&b, text);
	fake_write(fd, buf_view(&b));
	buf_release(&b);
}

void fake_end(int fd, unsigned protocol_status)
{
	struct buf b = { 0 };

	record_put_end(&b, 1, 0, (uint8_t)protocol_status);
	fake_write(fd, buf_view(&b));
	buf_release(&b);
}
