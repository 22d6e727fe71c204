/*
 * Socket addresses, and what listening does with what it finds at a path. These
 * rules are about files, so sockets are made here, in a directory of their own.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/net.h"

#define LONGEST_PATH (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

Test(net_addr, the_forms_of_the_manual_are_read)
{
	static const struct {
		const char *text;
		int family;
		unsigned port;
	} rows[] = {
		{ "unix:/run/weir/weir.sock", AF_UNIX, 0 },
		{ "tcp:127.0.0.1:9000", AF_INET, 9000 },
		{ "tcp:0.0.0.0:0", AF_INET, 0 },
		{ "tcp:127.0.0.1:65535", AF_INET, 65535 },
		{ "tcp:[::1]:9000", AF_INET6, 9000 },
		{ "tcp:[::]:1", AF_INET6, 1 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct net_addr a;
		struct buf why = { 0 };

		cr_assert(net_addr_parse(view_str(rows[i].text), &a, &why), "%s: %s",
			rows[i].text, buf_str(&why));
		cr_assert_eq(a.ss.ss_family, rows[i].family, "%s", rows[i].text);
		cr_assert_eq(net_addr_port(&a), rows[i].port, "%s", rows[i].text);
		cr_assert_str_eq(a.text, rows[i].text);
		cr_assert_eq(why.n, 0);
	}
}

Test(net_addr, what_is_no_address_gets_a_sentence_that_says_what_would_do)
{
	static const struct {
		struct view text;
		const char *hint;
	} rows[] = {
		{ VIEW(""), "write unix:/path or tcp:host:port" },
		{ VIEW("/run/weir.sock"), "write unix:/path or tcp:host:port" },
		{ VIEW("127.0.0.1:9000"), "write unix:/path or tcp:host:port" },
		{ VIEW("UNIX:/x"), "write unix:/path or tcp:host:port" },
		{ VIEW("unix:"), "write unix:/run/name.sock" },
		{ VIEW("unix:weir.sock"), "write unix:/run/name.sock" },
		{ VIEW("unix:/a\0b"), "NUL" },
		{ VIEW("tcp:"), "write tcp:host:port" },
		{ VIEW("tcp:127.0.0.1"), "write tcp:host:port" },
		{ VIEW("tcp:127.0.0.1:"), "port is not a number" },
		{ VIEW("tcp:127.0.0.1:65536"), "port is not a number" },
		{ VIEW("tcp:127.0.0.1:http"), "port is not a number" },
		{ VIEW("tcp:127.0.0.1:-1"), "port is not a number" },
		{ VIEW("tcp::9000"), "write tcp:127.0.0.1:9000" },
		{ VIEW("tcp:[]:9000"), "write tcp:127.0.0.1:9000" },
		{ VIEW("tcp:::1:9000"), "write tcp:[::1]:9000" },
		{ VIEW("tcp:127.0.0.1\0x:9000"), "NUL" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct net_addr a = { .len = 4711 };
		struct buf why = { 0 };

		cr_assert(!net_addr_parse(rows[i].text, &a, &why), "row %zu: %.*s", i,
			VIEW_ARG(rows[i].text));
		cr_assert(strstr(buf_str(&why), rows[i].hint), "row %zu: %s", i,
			buf_str(&why));
		cr_assert_eq(a.len, 4711, "out is untouched");
		buf_release(&why);
	}
}

Test(net_addr, a_path_fits_or_is_refused)
{
	for (size_t n = LONGEST_PATH - 1; n <= LONGEST_PATH + 30; n++) {
		struct net_addr a;
		struct buf text = { 0 }, why = { 0 };

		buf_add_str(&text, "unix:/");
		while (text.n < n + 5)
			buf_add_byte(&text, 'x');
		cr_assert_eq(net_addr_parse(buf_view(&text), &a, &why), n <= LONGEST_PATH,
			"%zu bytes: %s", n, buf_str(&why));
		buf_release(&text);
		buf_release(&why);
	}
}

/* A directory of its own for each test, and an address in it. */
static char dir[64];
static struct net_addr addr;
static const char *path;
static const struct net_listen how = {
	.backlog = 5, .mode = 0640, .uid = (uid_t)-1, .gid = (gid_t)-1
};

static void make_dir(void)
{
	struct buf text = { 0 }, why = { 0 };

	snprintf(dir, sizeof(dir), "/tmp/weir-net-XXXXXX");
	cr_assert_not_null(mkdtemp(dir));
	buf_addf(&text, "unix:%s/s", dir);
	cr_assert(net_addr_parse(buf_view(&text), &addr, &why));
	path = ((const struct sockaddr_un *)&addr.ss)->sun_path;
	buf_release(&text);
}

static void remove_dir(void)
{
	unlink(path);
	rmdir(dir);
}

TestSuite(net_listen, .init = make_dir, .fini = remove_dir);

/* Listens and returns the descriptor; a failure's sentence goes to said. */
static int try_listen(char *said, size_t cap)
{
	struct buf why = { 0 };
	int fd = net_listen(&addr, &how, &why);

	snprintf(said, cap, "%s", buf_str(&why));
	buf_release(&why);
	return fd;
}

Test(net_listen, a_socket_has_its_mode_and_is_not_inherited)
{
	char said[256];
	int fd = try_listen(said, sizeof(said));
	struct stat st;

	cr_assert_geq(fd, 0, "%s", said);
	cr_assert_eq(lstat(path, &st), 0);
	cr_assert_eq(st.st_mode & 07777, 0640);
	cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
	cr_assert_eq(accept(fd, NULL, NULL), -1, "nobody waits yet, and we do not either");
	close(fd);
}

Test(net_listen, the_process_keeps_its_umask)
{
	char said[256];
	mode_t before = umask(027);
	int fd = try_listen(said, sizeof(said));

	cr_assert_geq(fd, 0, "%s", said);
	cr_assert_eq(umask(before), 027);
	close(fd);
}

Test(net_listen, what_a_dead_process_left_is_replaced)
{
	char said[256];
	int old = try_listen(said, sizeof(said)), fd;

	close(old);
	cr_assert_eq(access(path, F_OK), 0, "the file outlives its socket");
	fd = try_listen(said, sizeof(said));
	cr_assert_geq(fd, 0, "%s", said);
	close(fd);
}

Test(net_listen, a_living_listener_is_left_alone)
{
	char said[256];
	int live = try_listen(said, sizeof(said)), client;

	cr_assert_eq(try_listen(said, sizeof(said)), -1);
	cr_assert(strstr(said, "somebody listens"), "%s", said);
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	cr_assert_eq(connect(client, (const struct sockaddr *)&addr.ss, addr.len), 0,
		"it can still be reached");
	close(client);
	close(live);
}

Test(net_listen, a_living_listener_with_a_full_backlog_is_left_alone)
{
	char said[256];
	int live = try_listen(said, sizeof(said)), clients[16];

	for (size_t i = 0; i < COUNT_OF(clients); i++) {
		clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(clients[i], (const struct sockaddr *)&addr.ss, addr.len);
	}
	cr_assert_eq(try_listen(said, sizeof(said)), -1);
	cr_assert(strstr(said, "somebody listens"), "%s", said);
	for (size_t i = 0; i < COUNT_OF(clients); i++)
		close(clients[i]);
	close(live);
}

Test(net_listen, a_file_that_is_no_socket_is_never_removed)
{
	char said[256];
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	cr_assert_eq(write(fd, "precious", 8), 8);
	close(fd);
	cr_assert_eq(try_listen(said, sizeof(said)), -1);
	cr_assert(strstr(said, "is not a socket"), "%s", said);
	cr_assert_eq(access(path, F_OK), 0);
}

Test(net_listen, a_symbolic_link_is_not_followed_and_not_removed)
{
	char said[256], other[80];
	int fd;

	snprintf(other, sizeof(other), "%s/other", dir);
	fd = open(other, O_CREAT | O_WRONLY, 0600);
	close(fd);
	cr_assert_eq(symlink(other, path), 0);
	cr_assert_eq(try_listen(said, sizeof(said)), -1);
	cr_assert(strstr(said, "is not a socket"), "%s", said);
	cr_assert_eq(access(other, F_OK), 0);
	unlink(other);
}

Test(net_listen, a_directory_that_is_not_there_is_named)
{
	char said[256];

	rmdir(dir);
	cr_assert_eq(try_listen(said, sizeof(said)), -1);
	cr_assert(strstr(said, "there is no folder /tmp/weir-net-"), "%s", said);
	cr_assert(strstr(said, ": make it"), "%s", said);
	cr_assert(strstr(said, path), "%s", said);
}

Test(net_listen, the_owner_is_set_before_anybody_can_connect)
{
	struct net_listen owned = how;
	struct buf why = { 0 };
	struct stat st;
	int fd;

	if (geteuid() != 0)
		cr_skip_test("only root can give a file away");
	owned.uid = 65534;
	owned.gid = 65534;
	fd = net_listen(&addr, &owned, &why);
	cr_assert_geq(fd, 0, "%s", buf_str(&why));
	cr_assert_eq(lstat(path, &st), 0);
	cr_assert_eq(st.st_uid, 65534);
	cr_assert_eq(st.st_gid, 65534);
	close(fd);
}

Test(net_listen, a_taken_tcp_port_is_named)
{
	struct sockaddr_in got = { 0 };
	socklen_t n = sizeof(got);
	struct net_addr a;
	struct buf why = { 0 };
	char text[40];
	int fd;

	cr_assert(net_addr_parse(VIEW("tcp:127.0.0.1:0"), &a, &why));
	fd = net_listen(&a, &how, &why);
	cr_assert_geq(fd, 0, "%s", buf_str(&why));
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&got, &n), 0);
	snprintf(text, sizeof(text), "tcp:127.0.0.1:%u", (unsigned)ntohs(got.sin_port));
	cr_assert(net_addr_parse(view_str(text), &a, &why));
	buf_reset(&why);
	cr_assert_eq(net_listen(&a, &how, &why), -1);
	cr_assert(strstr(buf_str(&why), text), "%s", buf_str(&why));
	buf_release(&why);
	close(fd);
}

Test(net_listen, a_datagram_socket_in_the_way_is_left_there)
{
	struct sockaddr_un un = *(const struct sockaddr_un *)&addr.ss;
	int other = socket(AF_UNIX, SOCK_DGRAM, 0);
	char said[256];

	cr_assert_eq(bind(other, (const struct sockaddr *)&un, sizeof(un)), 0);
	cr_assert_eq(try_listen(said, sizeof(said)), -1);
	cr_assert(strstr(said, "cannot be told"), "%s", said);
	cr_assert_eq(access(path, F_OK), 0);
	close(other);
}

Test(net_listen, a_socket_that_cannot_get_its_owner_is_not_left_behind)
{
	struct net_listen owned = how;
	struct buf why = { 0 };

	if (geteuid() == 0) {
		cr_assert_eq(chmod(dir, 0777), 0);
		cr_assert_eq(setgroups(0, NULL), 0);
		cr_assert_eq(setegid(65534), 0);
		cr_assert_eq(seteuid(65534), 0);
	}
	owned.uid = 0;
	cr_assert_eq(net_listen(&addr, &owned, &why), -1);
	cr_assert(strstr(buf_str(&why), path), "%s", buf_str(&why));
	cr_assert(
		strstr(buf_str(&why), "cannot be given to user root"), "%s", buf_str(&why));
	cr_assert_eq(access(path, F_OK), -1);
	buf_reset(&why);
	owned = how;
	owned.gid = 0;
	cr_assert_eq(net_listen(&addr, &owned, &why), -1);
	cr_assert(strstr(buf_str(&why), "cannot be given to group root"), "%s",
		buf_str(&why));
	cr_assert(strstr(buf_str(&why), "adduser USER root"), "%s", buf_str(&why));
	cr_assert_eq(access(path, F_OK), -1);
	buf_release(&why);
	if (getuid() == 0)
		cr_assert_eq(seteuid(0), 0);
}
