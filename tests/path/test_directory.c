/*
 * test_directory.c - the file of users and tokens on a disk that is full: weir reads it as
 * ever, and weirctl says why it changes nothing. What else can happen to it is in
 * test_users.c.
 */
#include "site.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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
static void scene_serve(struct scene *s)
{
	s->weir->process = process_start(&(struct process_spec){ .name = "weir",
		.argv = (const char *const[]){
			test_env("WEIR"), "-c", s->weir->ini, NULL } });
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

/* So many requests of that token pass, and then no more. */
static void expect_paid(const struct scene *s, const char *token)
{
	struct fcgi_request rq = { .uri = "/a",
		.params = (const char *const[]){
			text("HTTP_AUTHORIZATION=Bearer %s", token), NULL } };

	for (int i = 0; i <= PAID; i++) {
		struct fcgi_answer a;

		cr_assert(fcgi_call(s->weir->addr, &rq, &a, 10000), "no answer");
		cr_assert_eq(answer_status(&a), i < PAID ? 200 : 429, "request %d: %d",
			i + 1, answer_status(&a));
		fcgi_answer_release(&a);
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
	scene_serve(&s);
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
