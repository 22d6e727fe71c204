/*
 * echo.c - tells back what it was asked: a small handler for trying weir out.
 *
 * One source, two ways to run: on a listening descriptor 0 it is a FastCGI
 * application (spawn-fcgi, lighttpd's bin-path), anywhere else a CGI program;
 * FCGI_Accept() finds out which. fcgi_stdio.h turns printf() and stdin into the
 * request's own streams.
 *
 * The query chooses what it does; hello.sh, hello.pl and hello.php do the same
 * as far as each can:
 *
 *	(nothing)    the parameters, a NAME=value line each, then body_bytes= and
 *	             body_sha256= of the request's body
 *	format=json  the same as {"params":[["NAME","value"],...],"body_bytes":0,
 *	             "body_sha256":"..."}
 *	sleep=S      answers after S seconds
 *	lines=N      N lines, each sent at once, one a second (or every pause=MS)
 *	size=N       N bytes: lines of 16 bytes, each the line's number
 *	status=N     with that status
 *	cookies=N    with N Set-Cookie fields
 *	early=N      answers with status N before it reads the body
 *	die=N        breaks off after N bytes of the answer, and ends the program
 */
#include <fcgi_stdio.h>

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* The number behind name= in the query, or -1. */
static long option(const char *name)
{
	const char *query = getenv("QUERY_STRING");
	size_t n = strlen(name);

	while (query && *query) {
		if (strncmp(query, name, n) == 0 && query[n] == '=')
			return atol(query + n + 1);
		query = strchr(query, '&');
		query = query ? query + 1 : NULL;
	}
	return -1;
}

static int wants_json(void)
{
	const char *query = getenv("QUERY_STRING");

	return query && strstr(query, "format=json") != NULL;
}

static void wait_ms(long ms)
{
	if (ms > 0)
		usleep((useconds_t)ms * 1000);
}

struct body {
	long bytes;
	char sha256[2 * crypto_hash_sha256_BYTES + 1];
};

/* Reads the body to its end. Whoever answers without doing so on a connection
 * that is kept leaves the rest of it to be taken for the next request. */
static void read_body(struct body *b)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state sha;
	char piece[8192];
	size_t n;

	b->bytes = 0;
	crypto_hash_sha256_init(&sha);
	while ((n = fread(piece, 1, sizeof(piece), stdin)) > 0) {
		crypto_hash_sha256_update(&sha, (const unsigned char *)piece, n);
		b->bytes += (long)n;
	}
	crypto_hash_sha256_final(&sha, hash);
	sodium_bin2hex(b->sha256, sizeof(b->sha256), hash, sizeof(hash));
}

static void put_json_string(const char *s, size_t n)
{
	putchar('"');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static void put_request(const struct body *b)
{
	int json = wants_json();

	if (json)
		printf("{\"params\":[");
	for (char **p = environ; *p; p++) {
		size_t name = strcspn(*p, "=");

		if (!json) {
			printf("%s\n", *p);
			continue;
		}
		printf("%s[", p == environ ? "" : ",");
		put_json_string(*p, name);
		putchar(',');
		put_json_string(*p + name + 1, strlen(*p + name + 1));
		putchar(']');
	}
	if (json)
		printf("],\"body_bytes\":%ld,\"body_sha256\":\"%s\"}\n", b->bytes,
			b->sha256);
	else
		printf("body_bytes=%ld\nbody_sha256=%s\n", b->bytes, b->sha256);
}

/* The answer's body for size=: any part of it shows where it belongs. */
static void put_numbered(long size)
{
	char line[32];

	for (long at = 0; at < size; at += 16) {
		snprintf(line, sizeof(line), "%015ld\n", at / 16);
		fwrite(line, 1, size - at < 16 ? (size_t)(size - at) : 16, stdout);
	}
}

static void put_lines(long n)
{
	long pause = option("pause");

	for (long i = 1; i <= n; i++) {
		if (i > 1)
			wait_ms(pause < 0 ? 1000 : pause);
		printf("line %ld\n", i);
		fflush(stdout); /* or it waits in the library until 8 KiB are full */
	}
}

static void put_head(long status)
{
	printf("Status: %ld\r\nContent-Type: %s\r\n", status,
		wants_json() ? "application/json" : "text/plain");
	for (long i = 1; i <= option("cookies"); i++)
		printf("Set-Cookie: cookie%ld=%ld; Path=/\r\n", i, i);
	printf("\r\n");
}

static void answer(void)
{
	long status = option("status"), early = option("early"), die = option("die");
	struct body body;

	if (early > 0) {
		put_head(early);
		printf("too early\n");
		fflush(stdout);
		read_body(&body);
		return;
	}
	read_body(&body);
	wait_ms(option("sleep") * 1000);
	put_head(status > 0 ? status : 200);
	if (die >= 0) {
		put_numbered(die);
		fflush(stdout);
		_exit(1);
	}
	if (option("lines") >= 0)
		put_lines(option("lines"));
	else if (option("size") >= 0)
		put_numbered(option("size"));
	else
		put_request(&body);
}

int main(void)
{
	if (sodium_init() < 0)
		return 1;
	while (FCGI_Accept() >= 0)
		answer();
	return 0;
}
