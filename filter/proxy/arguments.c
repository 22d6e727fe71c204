#include "proxy/arguments.h"

#include <stdlib.h>

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes a word to *at and moves it behind the NUL. False when it is none. */
static bool put_word(char **at, struct view word)
{
	char *out = *at;

	for (; word.n; word = view_skip(word, 1)) {
		char c = word.p[0];

		if (c == '%') {
			int high = word.n > 2 ? hex(word.p[1]) : -1;
			int low = word.n > 2 ? hex(word.p[2]) : -1;

			if (high < 0 || low < 0)
				return false;
			c = (char)(high << 4 | low);
			word = view_skip(word, 2);
		}
		if (c == '\0')
			return false;
		*out++ = c;
	}
	if (out == *at)
		return false;
	*out++ = '\0';
	*at = out;
	return true;
}

static size_t words_in(enum program_argv how, struct view method, struct view query)
{
	size_t n = 1;

	if (how != ARGV_ISINDEX || query.n == 0 || memchr(query.p, '=', query.n) ||
		(!view_eq(method, VIEW("GET")) && !view_eq(method, VIEW("HEAD"))))
		return 0;
	for (size_t i = 0; i < query.n; i++)
		n += query.p[i] == '+';
	return n <= ARGUMENTS_MAX ? n : 0;
}

char **arguments_build(
	const char *file, enum program_argv how, struct view method, struct view query)
{
	size_t n = words_in(how, method, query), file_n = strlen(file) + 1;
	char **argv = malloc((n + 2) * sizeof(*argv) + file_n + query.n + 1);
	char *at;

	if (!argv)
		return NULL;
	at = (char *)(argv + n + 2);
	argv[0] = memcpy(at, file, file_n);
	at += file_n;
	for (size_t i = 1; i <= n; i++) {
		argv[i] = at;
		if (!put_word(&at, view_cut(&query, '+'))) {
			n = 0;
			break;
		}
	}
	argv[n + 1] = NULL;
	return argv;
}
