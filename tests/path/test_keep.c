/*
 * Connections to php-fpm that are kept, where others have met trouble with them. Left
 * out of the shipped configuration for what the first test shows.
 */
#include <stdio.h>
#include <unistd.h>

#include "support.h"

static struct weir *weir_before(const char *php, const char *backend)
{
	return weir_start(&(struct weir_spec){
		.server = "workers = 1\nbackend = php\n",
		.sections = text("[store]\ntype = memory\n[backend php]\nfastcgi = %s\n%s",
			php, backend),
	});
}

/* A script in the test's directory. */
static const char *script(const char *name, const char *php)
{
	const char *path = test_path(name);

	file_write(path, text("<?php %s", php));
	return path;
}

static int get(const struct weir *w, const char *path, const char *query, int64_t ms)
{
	const char *const params[] = { text("QUERY_STRING=%s", query), NULL };
	struct fcgi_request rq = { .uri = "/x.php", .script = path, .params = params };
	struct fcgi_answer a;
	int status = fcgi_call(w->addr, &rq, &a, ms) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}

Test(keep, idle_connections_leave_children_to_others_by_default)
{
	const char *ok = script("ok.php", "echo 'ok';");
	struct weir *w = weir_before(php_fpm_start(2), "");

	for (int i = 0; i < 6; i++)
		cr_expect_eq(get(w, ok, "", 10000), 200);
	cr_expect(weir_counts(w, "backend_connects", 6, 5000));
	cr_expect(weir_counts(w, "backend_idle", 0, 5000));
}

/* Two children, of which one may be lent to an idle connection. */
Test(keep, no_more_are_kept_than_told_and_not_for_long)
{
	const char *slow = script("slow.php", "usleep(200000); echo 'ok';");
	const char *php = php_fpm_start(2);
	struct weir *w = weir_before(php, "keep = 1\nkeep_idle = 500ms\n");
	struct buf bytes = { 0 };
	int fds[3];

	fcgi_compose(&bytes, &(struct fcgi_request){ .uri = "/x.php", .script = slow });
	for (size_t i = 0; i < COUNT_OF(fds); i++) {
		fds[i] = dial(w->addr);
		cr_assert(fcgi_send(fds[i], buf_view(&bytes), 5000));
	}
	for (size_t i = 0; i < COUNT_OF(fds); i++) {
		struct fcgi_answer a;

		fcgi_answer_init(&a);
		cr_expect(fcgi_exchange(fds[i], VIEW(""), &a, FCGI_UNTIL_END, 10000));
		cr_expect_eq(answer_status(&a), 200);
		fcgi_answer_release(&a);
		close(fds[i]);
	}
	buf_release(&bytes);
	cr_expect(weir_counts(w, "backend_idle", 1, 5000));
	cr_expect(weir_counts(w, "backend_idle", 0, 10000));
	/* Nobody weir knows of holds a child now. */
	cr_expect(addr_answers(php));
	cr_expect_eq(get(w, slow, "", 10000), 200);
}

Test(keep, an_upload_does_not_wait_for_a_connection_kept_idle)
{
	const char *ok = script("ok.php", "echo 'ok';");
	struct weir *w = weir_before(php_fpm_start(1), "keep = 1\nkeep_idle = 60s\n");
	struct fcgi_request upload = {
		.method = "POST", .uri = "/x.php", .script = ok, .body = VIEW("body")
	};
	struct fcgi_answer a;

	cr_assert_eq(get(w, ok, "", 10000), 200);
	cr_assert(weir_counts(w, "backend_idle", 1, 5000));
	cr_assert(fcgi_call(w->addr, &upload, &a, 20000));
	cr_expect_eq(answer_status(&a), 200);
	fcgi_answer_release(&a);
	/* Its own connection takes the place of the other. */
	cr_expect(weir_counts(w, "backend_idle", 1, 5000));
	cr_expect_eq(weir_counter(w, "backend_reuses"), 0);
}

Test(keep, children_that_are_replaced_cost_nobody_an_answer)
{
	const char *ok = script("ok.php", "echo 'ok';");
	struct weir *w = weir_before(
		php_fpm_pool(1, "pm.max_requests = 2\n"), "keep = 2\n");

	for (int i = 0; i < 9; i++)
		cr_expect_eq(get(w, ok, "", 10000), 200, "request %d", i);
	cr_expect_gt(weir_counter(w, "backend_reuses"), 0);
}

Test(keep, children_that_are_ended_while_idle_cost_nobody_an_answer)
{
	const char *ok = script("ok.php", "echo 'ok';");
	struct weir *w = weir_before(php_fpm_pool(1, "request_terminate_timeout = 1\n"),
		"keep = 2\nkeep_idle = 1m\n");

	for (int i = 0; i < 3; i++) {
		int64_t then = now_ms() + 2500;

		cr_expect_eq(get(w, ok, "", 10000), 200, "request %d", i);
		WAIT_UNTIL(5000, now_ms() >= then);
	}
	cr_expect(weir_counts(w, "backend_failures", 0, 5000));
}

/* It ends its request, and so its connection is kept; then it calls its own site. */
Test(keep, a_script_that_calls_its_own_site_does_not_wait_for_itself)
{
	const char *ok = script("ok.php", "echo 'ok';");
	const char *self = script("self.php",
		"echo 'ok'; fastcgi_finish_request();"
		"parse_str($_SERVER['QUERY_STRING'], $q);"
		"$s = stream_socket_client('unix://'.$q['to']); stream_set_timeout($s, 20);"
		"fwrite($s, file_get_contents($q['what']));"
		"file_put_contents($q['out'], stream_get_contents($s));");
	struct weir *w = weir_before(php_fpm_start(2), "keep = 2\n");
	const char *what = test_path("request"), *out = test_path("answer");
	struct buf bytes = { 0 };
	int64_t began = now_ms();
	FILE *file = fopen(what, "w");

	fcgi_compose(&bytes, &(struct fcgi_request){ .uri = "/x.php", .script = ok });
	cr_assert(file && fwrite(bytes.p, 1, bytes.n, file) == bytes.n);
	fclose(file);
	buf_release(&bytes);
	cr_expect_eq(
		get(w, self, text("to=%s&what=%s&out=%s", w->addr + 5, what, out), 10000),
		200);
	cr_expect(WAIT_UNTIL(15000, access(out, F_OK) == 0 && file_read(out)[0]));
	cr_expect_lt(now_ms() - began, 10000);
	cr_expect(weir_counts(w, "backend_reuses", 1, 5000));
	cr_expect(weir_counts(w, "backend_answers", 2, 5000));
}
