/*
 * status/weir-status.c - the status page, as a FastCGI or CGI program.
 *
 * libfcgi serves: started with a listening socket as descriptor 0 it is a FastCGI
 * application that answers one request after another; otherwise it is a CGI program
 * and answers one. Each answer asks weir anew over its control socket; nothing is kept.
 *
 * It never reads a request's body, and closes every connection after its answer: on a
 * kept one libfcgi would take what is left of a body for the next request.
 *
 *	/		the page
 *	/metrics	Prometheus text
 *	/status.json	the status object
 *
 * Whoever reaches this program sees it all: the web server in front decides who does.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fcgi_config.h>
#include <fcgiapp.h>

#include "base/json.h"
#include "observe/ask.h"
#include "observe/metrics.h"
#include "status/page.h"

#define CONTROL_DEFAULT "unix:/run/weir/control.sock"
#define ASK_MS          2000 /* weir's main thread answers at once or is in trouble */

static const char *const page_types[] = {
	[PAGE_HTML] = "text/html; charset=utf-8",
	[PAGE_METRICS] = METRICS_PROMETHEUS_TYPE,
	[PAGE_JSON] = "application/json",
	[PAGE_UNKNOWN] = "text/plain; charset=utf-8",
};

/* One answer. */
struct answer {
	const char *status; /* "200 OK" */
	const char *type;
	const char *more; /* another header line with its CRLF, or "" */
	struct buf body;
};

static void put_json(const json_t *object, struct buf *out)
{
	json_put(out, object, JSON_INDENT(1));
	buf_add_byte(out, '\n');
}

static void draw(enum page page, const json_t *status, struct view base, struct buf *out)
{
	switch (page) {
	case PAGE_HTML: page_html(status, base, out); break;
	case PAGE_METRICS: metrics_prometheus(status, out); break;
	case PAGE_JSON: put_json(status, out); break;
	case PAGE_UNKNOWN: break;
	}
}

/* weir cannot be asked: 503, in the form the page would have had. */
static void draw_down(enum page page, struct view why, struct answer *a)
{
	json_t *o;

	a->status = "503 Service Unavailable";
	a->more = "Retry-After: 5\r\n";
	if (page == PAGE_HTML) {
		page_html_down(why, &a->body);
	} else if (page == PAGE_JSON) {
		o = json_pack("{s:o}", "error", metrics_string(why));
		put_json(o, &a->body);
		json_decref(o);
	} else {
		a->type = page_types[PAGE_UNKNOWN];
		buf_add(&a->body, why);
		buf_add_byte(&a->body, '\n');
	}
}

static void answer(struct answer *a, const char *method, const char *control, char **params)
{
	struct buf why = { 0 };
	struct view base;
	json_t *status = NULL;
	enum page page;

	page = page_find(FCGX_GetParam("SCRIPT_NAME", params),
		FCGX_GetParam("PATH_INFO", params), &base);
	a->status = "200 OK";
	a->type = page_types[page];
	a->more = "";
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		a->status = "405 Method Not Allowed";
		a->type = page_types[PAGE_UNKNOWN];
		a->more = "Allow: GET, HEAD\r\n";
		buf_add_str(&a->body, "This page can only be read: use GET.\n");
	} else if (page == PAGE_UNKNOWN) {
		a->status = "404 Not Found";
		buf_add_str(&a->body,
			"There is no such page; there are /, /metrics and /status.json.\n");
	} else if (control_ask_for(control, "status", ASK_MS, &status, &why)) {
		draw(page, status, base, &a->body);
	} else {
		draw_down(page, buf_view(&why), a);
	}
	json_decref(status);
	buf_release(&why);
}

/* Head and body as CGI has them, into out. */
static void write_answer(struct answer *a, bool with_body, struct buf *out)
{
	if (!buf_ok(&a->body)) {
		a->status = "503 Service Unavailable";
		a->type = page_types[PAGE_UNKNOWN];
		buf_reset(&a->body);
	}
	buf_addf(out,
		"Status: %s\r\n"
		"Content-Type: %s\r\n"
		"%s"
		"Cache-Control: no-store\r\n"
		"X-Content-Type-Options: nosniff\r\n"
		"Referrer-Policy: no-referrer\r\n"
		"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
		"\r\n",
		a->status, a->type, a->more);
	if (with_body)
		buf_add(out, buf_view(&a->body));
}

/* The whole answer to a request with these variables. */
static void serve(const char *control, char **params, struct buf *out)
{
	const char *method = FCGX_GetParam("REQUEST_METHOD", params);
	struct answer a = { 0 };

	answer(&a, method ? method : "GET", control, params);
	write_answer(&a, !method || strcmp(method, "HEAD") != 0, out);
	buf_release(&a.body);
}

static int serve_fastcgi(const char *control)
{
	FCGX_Request request;
	struct buf out = { 0 };

	if (FCGX_InitRequest(&request, 0, 0) != 0)
		return 1;
	while (FCGX_Accept_r(&request) == 0) {
		serve(control, request.envp, &out);
		if (buf_ok(&out))
			FCGX_PutStr(out.p, (int)out.n, request.out);
		FCGX_Finish_r(&request);
		FCGX_Free(&request, 1);
		buf_release(&out);
	}
	return 0;
}

static int serve_cgi(const char *control)
{
	struct buf out = { 0 };
	bool ok;

	serve(control, environ, &out);
	ok = buf_ok(&out) && fwrite(out.p, 1, out.n, stdout) == out.n &&
		fflush(stdout) == 0;
	buf_release(&out);
	return ok ? 0 : 1;
}

/* On a terminal somebody wants to know what this is. As a CGI program the command line
 * is the query string, a stranger's words: not looked at. */
static bool is_asked_by_a_person(int argc)
{
	return argc > 1 && !getenv("GATEWAY_INTERFACE") && FCGX_IsCGI();
}

static int introduce(const char *argument)
{
	if (strcmp(argument, "--version") == 0) {
		puts("weir-status " WEIR_VERSION);
		return 0;
	}
	fputs("weir-status is run by a web server, as a FastCGI or CGI program: see "
	      "weir-status(1).\nWEIR_CONTROL in its environment is weir's control socket, "
	      "otherwise\n" CONTROL_DEFAULT ".\n",
		stderr);
	return strcmp(argument, "--help") == 0 ? 0 : 2;
}

int main(int argc, char **argv)
{
	/* Of this process, not of a request: as FastCGI the two are different. */
	const char *given = getenv("WEIR_CONTROL");
	const char *control = given && *given ? given : CONTROL_DEFAULT;

	if (FCGX_Init() != 0)
		return 1;
	if (is_asked_by_a_person(argc))
		return introduce(argv[1]);
	return FCGX_IsCGI() ? serve_cgi(control) : serve_fastcgi(control);
}
