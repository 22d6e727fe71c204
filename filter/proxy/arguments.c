#include "proxy/arguments.h"

#include <stdlib.h>

/* Decodes a word to *at and moves it behind the NUL. False when it is none. */
static bool put_word(char **at, struct view word)
{
	char *out = *at;

	while (word.n) {
		int byte = view_escape(word);

		if (word.p[0] == '\0' || (word.p[0] == '%' && byte <= 0))
			return false;
		*out++ = byte < 0 ? word.p[0] : (char)byte;
		word = view_skip(word, byte < 0 ? 1 : 3);
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
