/* Asking a running weir: the answer, or a sentence that helps. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"
#include "observe/ask.h"
#include "observe/metrics.h"
#include "observed.h"

static struct observed weir;

static void start(void)
{
	observed_start(&weir, 0);
}

static void stop(void)
{
	observed_stop(&weir);
}

TestSuite(ask, .init = start, .fini = stop, .timeout = 60);

static void expect_failure(const char *address, int64_t timeout_ms, const char *hint)
{
	struct buf why = { 0 };
	json_t *reply = NULL;

	cr_assert(!control_ask_for(address, "status", timeout_ms, &reply, &why));
	cr_assert_null(reply);
	cr_assert(strstr(buf_str(&why), hint), "no \"%s\" in \"%s\"", hint, buf_str(&why));
	buf_release(&why);
}

Test(ask, a_question_gets_its_answer)
{
	struct buf why = { 0 };
	json_t *reply = NULL;

	cr_assert(control_ask_for(weir.address, "status", 5000, &reply, &why), "%s",
		buf_str(&why));
	cr_assert_str_eq(metrics_str(json_object_get(reply, "process"), "version", ""),
		WEIR_VERSION);
	json_decref(reply);
}

Test(ask, what_weir_objects_to_is_passed_on)
{
	struct buf why = { 0 };
	json_t *reply = NULL;

	cr_assert(!control_ask_for(weir.address, "frobnicate", 5000, &reply, &why));
	cr_assert_null(reply);
	cr_assert(strstr(buf_str(&why), "unknown command \"frobnicate\""), "%s",
		buf_str(&why));
	buf_release(&why);
}

Test(ask, a_wrong_address_is_explained)
{
	static const char *const rows[] = { "", "/run/weir.sock", "tcp:127.0.0.1:9000",
		"UNIX:/x" };

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect_failure(rows[i], 5000, "write unix:/run/weir/control.sock");
	expect_failure("unix:weir.sock", 5000, "a unix socket needs an absolute path");
}

Test(ask, a_path_with_nothing_there_says_that_weir_is_not_running)
{
	expect_failure("unix:/tmp/weir-is-not/here.sock", 5000,
		"there is no /tmp/weir-is-not/here.sock: weir is not running, or its "
		"control "
		"socket has another path");
}

Test(ask, a_left_over_socket_says_that_weir_is_not_running)
{
	static const struct net_listen how = {
		.backlog = 1, .mode = 0600, .uid = (uid_t)-1, .gid = (gid_t)-1
	};
	struct buf why = { 0 };
	struct net_addr addr;
	char text[128];

	snprintf(text, sizeof(text), "unix:%s/left", weir.dir);
	cr_assert(net_addr_parse(view_str(text), &addr, &why));
	close(net_listen(&addr, &how, &why));
	expect_failure(text, 5000, "nobody listens on");
	unlink(text + 5);
}

Test(ask, a_path_that_is_no_socket_is_called_that)
{
	char text[128];

	snprintf(text, sizeof(text), "unix:%s/file", weir.dir);
	close(open(text + 5, O_CREAT | O_WRONLY, 0666));
	expect_failure(text, 5000, "is not a socket");
	unlink(text + 5);
}

/* Runs what follows as nobody; root passes everywhere. */
static void become_nobody(void)
{
	if (geteuid() == 0)
		cr_assert(setgroups(0, NULL) == 0 && setegid(65534) == 0 &&
			seteuid(65534) == 0);
}

static void become_ourselves(void)
{
	if (getuid() == 0)
		cr_assert(seteuid(0) == 0 && setegid(0) == 0);
}

Test(ask, a_socket_that_is_closed_to_us_names_the_group_it_is_open_to)
{
	const struct group *group = getgrgid(getegid());
	char hint[128];

	cr_assert_eq(chmod(weir.dir, 0755), 0);
	cr_assert_eq(chmod(weir.path, getuid() ? 0060 : 0660), 0);
	snprintf(hint, sizeof(hint), "group %s; run this as a member of that group",
		group ? group->gr_name : "?");
	if (getuid() != 0)
		cr_skip_test("the owner is in the group that may");
	become_nobody();
	expect_failure(weir.address, 5000, hint);
	become_ourselves();
}

Test(ask, a_socket_without_a_group_says_how_to_name_one)
{
	cr_assert_eq(chmod(weir.dir, 0755), 0);
	cr_assert_eq(chmod(weir.path, getuid() ? 0 : 0600), 0);
	become_nobody();
	expect_failure(weir.address, 5000, "name a group in control_group");
	become_ourselves();
}

Test(ask, a_directory_that_is_closed_to_us_is_the_one_named)
{
	char hint[128];

	cr_assert_eq(chmod(weir.dir, getuid() ? 0 : 0700), 0);
	snprintf(hint, sizeof(hint), "no permission to enter %s, which is open to user",
		weir.dir);
	become_nobody();
	expect_failure(weir.address, 5000, hint);
	become_ourselves();
	cr_assert_eq(chmod(weir.dir, 0700), 0);
}

/* Somebody else's server: takes one connection, says one thing, and waits for the end. */
struct stranger {
	char address[128];
	int listener;
	const char *says; /* NULL: closes at once; "": says nothing */
	pthread_t thread;
};

static void *be_strange(void *user)
{
	struct stranger *s = user;
	int fd = accept(s->listener, NULL, NULL);
	char byte[512];

	if (s->says) {
		if (*s->says)
			send(fd, s->says, strlen(s->says), MSG_NOSIGNAL);
		while (recv(fd, byte, sizeof(byte), 0) > 0)
			;
	}
	close(fd);
	return NULL;
}

static void expect_from_stranger(const char *says, int64_t timeout_ms, const char *hint)
{
	static const struct net_listen how = {
		.backlog = 1, .mode = 0600, .uid = (uid_t)-1, .gid = (gid_t)-1
	};
	struct stranger s = { .says = says };
	struct buf why = { 0 };
	struct net_addr addr;

	snprintf(s.address, sizeof(s.address), "unix:%s/strange", weir.dir);
	cr_assert(net_addr_parse(view_str(s.address), &addr, &why));
	s.listener = net_listen(&addr, &how, &why);
	cr_assert_geq(s.listener, 0, "%s", buf_str(&why));
	cr_assert_eq(fcntl(s.listener, F_SETFL, 0), 0);
	pthread_create(&s.thread, NULL, be_strange, &s);
	expect_failure(s.address, timeout_ms, hint);
	pthread_join(s.thread, NULL);
	close(s.listener);
	unlink(s.address + 5);
}

Test(ask, whoever_is_not_weir_is_recognised)
{
	static const struct {
		const char *says, *hint;
	} rows[] = {
		{ "HTTP/1.1 400 Bad Request\r\n", "does not speak as weir does" },
		{ "[1,2]\n", "does not speak as weir does" },
		{ "\n", "does not speak as weir does" },
		{ NULL, "closed the connection without an answer" },
		{ "{\"error\":\"no\"}\n", "no" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		expect_from_stranger(rows[i].says, 5000, rows[i].hint);
}

Test(ask, an_answer_without_an_end_is_cut_off)
{
	char *endless = malloc(ASK_REPLY_MAX + 100000);

	memset(endless, 'x', ASK_REPLY_MAX + 100000 - 1);
	endless[ASK_REPLY_MAX + 100000 - 1] = '\0';
	expect_from_stranger(endless, 20000, "more than an answer can be");
	free(endless);
}

Test(ask, silence_ends_when_the_time_is_over)
{
	int64_t start_us = clock_mono_us();

	expect_from_stranger("", 100, "did not answer on");
	cr_assert_geq(clock_mono_us() - start_us, 100 * US_PER_MS);
	cr_assert_lt(clock_mono_us() - start_us, 5 * US_PER_S);
}

Test(ask, a_listener_that_never_accepts_does_not_hold_us)
{
	static const struct net_listen how = {
		.backlog = 0, .mode = 0600, .uid = (uid_t)-1, .gid = (gid_t)-1
	};
	struct buf why = { 0 };
	struct net_addr addr;
	int listener, first;
	char text[128];

	snprintf(text, sizeof(text), "unix:%s/full", weir.dir);
	cr_assert(net_addr_parse(view_str(text), &addr, &why));
	listener = net_listen(&addr, &how, &why);
	cr_assert_geq(listener, 0, "%s", buf_str(&why));
	first = socket(AF_UNIX, SOCK_STREAM, 0);
	cr_assert_eq(connect(first, (const struct sockaddr *)&addr.ss, addr.len), 0);
	expect_failure(text, 100, "weir is stopped or overloaded");
	close(first);
	close(listener);
	unlink(text + 5);
}
