/*
 * site.h - the site most path tests serve: weir with the memory store in front of the
 * three kinds of handlers.
 *
 *	/hello.php          php-fpm
 *	/hello.sh, .pl      CGI programs below programs_dir()
 *	/echo               the echo handler as a CGI program
 *	anything else       the echo handler as a FastCGI application
 */
#ifndef WEIR_TESTS_PATH_SITE_H
#define WEIR_TESTS_PATH_SITE_H

#include "support.h"

struct site {
	struct weir *weir;
	const char *addr; /* weir's */
	const char *echo, *php;
	const char *programs;
};

struct site_spec {
	const char *server;     /* further lines for [server] */
	const char *backend;    /* further lines for each [backend] */
	const char *cgi;        /* further lines for [backend cgi] */
	const char *sections;   /* further sections */
	const char *endpoints;  /* further endpoints */
	bool no_php;            /* does not start php-fpm */
	const char *const *env; /* weir's environment, as weir_spec has it */
	unsigned echo;          /* processes of the echo handler; 0: 2 */
};

struct site *site_start(const struct site_spec *spec);

/* One request to weir and its answer's status; 0 when there was no whole answer. */
int site_get(const struct site *s, const char *uri);

/* The folder weir_start() has put the endpoints of w into, and the file of one. */
const char *endpoints_dir(const struct weir *w);
const char *endpoint_file(const struct weir *w, const char *name);

/* Signals SIGHUP and waits until words are in the log: what it says from then on. Valid
 * until the next call. */
const char *reload(const struct weir *w, const char *words);

/* The same file, under a name that had another: as editors that rename do. */
void file_replace(const char *path, const char *content);

#define RELOADED     "configuration reloaded"
#define RELOAD_FAILS "the old one stays in force"

/* A new directory of that name on a file system of one megabyte, for this test and what it
 * starts. Where none can be mounted the test is skipped, and that is said aloud. */
const char *small_disk(const char *name);
/* Ends weir, which must say that all went well: under a sanitizer, that nothing leaked. */
void expect_clean_end(const struct weir *w);
/* It is a 503 of weir's own with that reason and Retry-After; case names it in messages. */
void expect_busy(const struct fcgi_answer *a, const char *reason, const char *case_name);

#endif
