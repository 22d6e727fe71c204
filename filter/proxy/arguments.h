/*
 * proxy/arguments.h - the command line of a CGI program. Pure: no I/O.
 */
#ifndef WEIR_PROXY_ARGUMENTS_H
#define WEIR_PROXY_ARGUMENTS_H

#include "config/config.h"

#define ARGUMENTS_MAX 256 /* words; a query with more gives none */

/*
 * The program's path and, with ARGV_ISINDEX, the words of the query (RFC 3875, section
 * 4.4): only of GET and HEAD, and only of a query without '='. Words stand between '+'
 * and are decoded once. A query with an empty word, a NUL or a broken escape gives none
 * at all. One block, to be freed; it ends with NULL, as execve() wants it. NULL when
 * memory is out.
 */
char **arguments_build(
	const char *file, enum program_argv how, struct view method, struct view query);

#endif
