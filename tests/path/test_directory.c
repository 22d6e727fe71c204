/*
 * test_directory.c - the file of users and tokens on a disk that is full: weir reads it as
 * ever, and weirctl says why it changes nothing; and on one that hangs. What else can
 * happen to it is in test_users.c.
 */
#include "faults.h"
#include "site.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAID 4 /* requests an hour */

static const struct backend_script plain;

struct scene {
	struct weir *weir;
	const char *db;
	unsigned tokens; /* made so far */
};

/* weir with a directory in dir that is asked at each request. */
static struct scene scene_start(const char *dir)
{
	struct scene s = { .db = text("%s/weir.db", dir) };
	const char *addr = addr_unix("plain.sock");
	struct weir_spec spec = {
		.sections = text("[store]\ntype = memory\n[backend plain]\nfastcgi = %s\n"
				 "[client]\nuser = token\ndirectory = sqlite:%s\n"
				 "directory_ttl = 0\ndirectory_miss_ttl = 0\n",
			addr, s.db),
		.endpoints = text("[endpoint a]\nmatch = GET /a\nbackend = plain\n"
				  "@RateLimit = type=user count=1 window=1h\n"
				  "@RateLimit = type=user plan=paid count=%d window=1h\n",
			PAID),
	};

	backend_start(addr, &plain);
	s.weir = weir_configure(&spec);
	weirctl("-c %s db init", s.weir->ini);
	weirctl("-c %s plan add paid", s.weir->ini);
	return s;
}

/* Once there are users: weir reads the directory when it starts. */
static void scene_serve(struct scene *s, const char *const *env)
{
	s->weir->process = process_start(&(struct process_spec){ .name = "weir",
		.argv = (const char *const[]){ test_env("WEIR"), "-c", s->weir->ini, NULL },
		.env = env });
	process_expect(s->weir->process, s->weir->addr);
	process_expect(s->weir->process, s->weir->control);
}

/* A user of its own on that plan: the token. */
static const char *add_paid(struct scene *s)
{
	const char *ini = s->weir->ini;

	weirctl("-c %s user add user%u --plan paid", ini, ++s->tokens);
	return token_in(weirctl("-c %s token add user%u", ini, s->tokens));
}

static const char *as(const char *token)
{
	return text("HTTP_AUTHORIZATION=Bearer %s", token);
}

/* 0 without an answer. Any thread. */
static int status_for(const struct scene *s, const char *authorization)
{
	struct fcgi_request rq = { .uri = "/a",
		.params = (const char *const[]){ authorization, NULL } };
	struct fcgi_answer a;
	int status = fcgi_call(s->weir->addr, &rq, &a, 10000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

/* So many requests of that token pass, and then no more. */
static void expect_paid(const struct scene *s, const char *token)
{
	const char *paid = as(token);

	for (int i = 0; i <= PAID; i++) {
		int status = status_for(s, paid);

		cr_assert_eq(status, i < PAID ? 200 : 429, "request %d: %d", i + 1, status);
	}
}

static void fill_disk(const char *file)
{
	static char block[4096];
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	while (write(fd, block, sizeof(block)) > 0)
		;
	cr_assert_eq(errno, ENOSPC);
	close(fd);
}

Test(directory, on_a_full_disk_is_read_and_refuses_changes_in_words)
{
	const char *dir = small_disk("small"), *filler = text("%s/filler", dir);
	const char *paid[2];
	struct scene s;
	struct run r = { 0 };

	s = scene_start(dir);
	paid[0] = add_paid(&s);
	paid[1] = add_paid(&s);
	scene_serve(&s, NULL);
	expect_paid(&s, paid[0]);
	fill_disk(filler);
	/* What SQLite has set aside lasts for some changes. */
	for (int i = 0; i < 200 && r.status == 0; i++)
		r = weirctl_run("-c %s user add more%d", s.weir->ini, i);
	cr_assert_eq(r.status, 1, "%d: %s", r.status, r.err);
	cr_assert_not_null(strstr(r.err, s.db), "%s", r.err);
	cr_assert_not_null(strstr(r.err, "look for room on that disk"), "%s", r.err);
	expect_paid(&s, paid[1]);
	cr_assert_eq(weir_counter(s.weir, "directory_failures"), 0);
	cr_assert_eq(unlink(filler), 0);
	expect_paid(&s, add_paid(&s));
}

struct caller {
	pthread_t thread;
	const struct scene *scene;
	const char *authorization;
	int status;
};

static void *call(void *arg)
{
	struct caller *c = arg;

	c->status = status_for(c->scene, c->authorization);
	return NULL;
}

/* More look-ups hang than there are threads for them, and than libuv's pool has. */
Test(directory, on_a_disk_that_hangs_holds_up_look_ups_and_nothing_else, .timeout = 100)
{
	struct caller callers[12];
	unsigned passed = 0, refused = 0;
	struct buf bytes = { 0 };
	int fd, met;
	const char *dir = test_path("disk"), *token, *paid;
	struct scene s;

	cr_assert_eq(mkdir(dir, 0755), 0);
	s = scene_start(dir);
	token = add_paid(&s);
	paid = as(token);
	scene_serve(&s, faults_env());
	expect_paid(&s, token);
	faults_set(FAULT_DISK, EIO, -1);
	for (size_t i = 0; i < COUNT_OF(callers); i++) {
		callers[i] = (struct caller){ .scene = &s, .authorization = paid };
		pthread_create(&callers[i].thread, NULL, call, &callers[i]);
	}
	for (size_t i = 0; i < COUNT_OF(callers); i++) {
		pthread_join(callers[i].thread, NULL);
		passed += callers[i].status == 200;
		refused += callers[i].status == 429;
	}
	/* Nothing is kept, so they are nobody's, who has one. */
	cr_expect_eq(passed, 1);
	cr_expect_eq(refused, COUNT_OF(callers) - 1);
	cr_expect_geq(faults_met(FAULT_DISK), 4);
	file_replace(endpoint_file(s.weir, "a"),
		"[endpoint a]\nmatch = GET /a\nbackend = plain\n"
		"@RateLimit = type=user count=0 window=1h\n");
	reload(s.weir, RELOADED);
	cr_expect(WAIT_UNTIL(10000, status_for(&s, paid) == 403));
	/* It answers again; and once more it does not when weir is to end. */
	faults_set(FAULT_DISK, EIO, 0);
	cr_expect(WAIT_UNTIL(10000,
			  status_for(&s, paid) == 403 &&
				  process_logs(s.weir->process,
					  "the directory can be read again", 0)),
		"%s", process_log(s.weir->process));
	faults_set(FAULT_DISK, EIO, -1);
	met = faults_met(FAULT_DISK);
	fcgi_compose(&bytes,
		&(struct fcgi_request){
			.uri = "/a", .params = (const char *const[]){ paid, NULL } });
	fd = dial(s.weir->addr);
	cr_assert(fcgi_send(fd, buf_view(&bytes), 1000));
	cr_assert(WAIT_UNTIL(10000, faults_met(FAULT_DISK) > met), "it is looked up");
	close(fd); /* who asked has left; and weir ends before the look-up does */
	process_signal(s.weir->process, SIGTERM);
	cr_assert_eq(process_exit(s.weir->process, 20000), 0, "%s",
		process_log(s.weir->process));
	buf_release(&bytes);
}
