/*
 * A handler that died in the middle of its answer, or wrote less than its Content-Length,
 * was passed on as a connection that closes without END_REQUEST. nginx takes that for the
 * end of a whole answer: browsers got half a page as a success, or waited on a kept
 * connection for the bytes that the Content-Length promised.
 *
 * When the break was first made to show, nginx dropped with it what it had not passed on
 * yet: a page of a few lines with a wrong Content-Length, which browsers show as far as it
 * goes, became no answer at all.
 */
#include "support.h"

#include <curl/curl.h>
#include <pthread.h>

#define HEAD        "Content-Type: text/plain\r\n"
#define LONG_ENOUGH 200000 /* more than a web server keeps back before it answers */

static const struct {
	const char *what, *head;
	bool ends; /* the application says that this is all */
} answers[] = {
	{ "a short body and END_REQUEST", HEAD "Content-Length: 300000\r\n\r\n", true },
	{ "a short body", HEAD "Content-Length: 300000\r\n\r\n", false },
	{ "a body of unknown length", HEAD "\r\n", false },
};

/* Each answer has a backend and a path of its own: /0, /1, /2. */
static struct weir_spec before_each_answer(void)
{
	static struct backend_script scripts[COUNT_OF(answers)];
	static struct buf bytes[COUNT_OF(answers)];
	static struct view pieces[COUNT_OF(answers)];
	static char body[LONG_ENOUGH];
	struct buf sections = { 0 }, endpoints = { 0 };
	struct weir_spec spec;

	buf_add_str(&sections, "[store]\ntype = memory\n");
	pattern_fill(body, 0, sizeof(body));
	for (size_t i = 0; i < COUNT_OF(answers); i++) {
		const char *addr = addr_unix(text("backend%zu.sock", i));
		struct buf out = { 0 };

		buf_add_str(&out, answers[i].head);
		buf_add(&out, view_of(body, sizeof(body)));
		backend_answer(&bytes[i], buf_view(&out));
		buf_release(&out);
		pieces[i] = buf_view(&bytes[i]);
		if (!answers[i].ends)
			pieces[i].n -= 8 + 8 + 8; /* the empty record and END_REQUEST */
		scripts[i] = (struct backend_script){ .pieces = &pieces[i], .n_pieces = 1 };
		backend_start(addr, &scripts[i]);
		open_to_all(addr);
		buf_addf(&sections, "[backend b%zu]\nfastcgi = %s\n", i, addr);
		buf_addf(&endpoints, "[endpoint e%zu]\nmatch = * /%zu\nbackend = b%zu\n", i,
			i, i);
	}
	spec = (struct weir_spec){ .sections = text("%.*s", (int)sections.n, sections.p),
		.endpoints = text("%.*s", (int)endpoints.n, endpoints.p) };
	buf_release(&sections);
	buf_release(&endpoints);
	return spec;
}

Test(regress, what_breaks_off_is_no_whole_answer_for_a_browser, .timeout = 50)
{
	struct weir_spec spec = before_each_answer();
	struct weir *w = weir_start(&spec);
	struct web *webs[] = { nginx_start(w->addr), nginx_keepalive_start(w->addr),
		lighttpd_start(w->addr) };

	for (size_t i = 0; i < COUNT_OF(answers); i++)
		for (size_t k = 0; k < COUNT_OF(webs); k++) {
			struct http_answer a;

			http_call(&(struct http_request){ .url = text("%s/%zu",
								  webs[k]->url, i),
					  .timeout_ms = 5000 },
				&a);
			cr_assert_eq(a.status, 200);
			/* lighttpd that hears of the break before it has begun to answer can
			 * only end an answer of unknown length by closing. */
			if (k == 2 && i == 2 && a.error == CURLE_OK) {
				const char *how = field_of(buf_view(&a.head), "Connection");

				cr_assert(how && strcmp(how, "close") == 0);
				http_release(&a);
				continue;
			}
			cr_assert_eq(a.error, CURLE_PARTIAL_FILE,
				"%s, server %zu: error %d after %ld ms, %lu bytes",
				answers[i].what, k, a.error, a.ms, a.body_bytes);
			/* What came before is there, but for what nginx had in its hands. */
			cr_assert(a.body_bytes > LONG_ENOUGH / 2,
				"%s, server %zu: %lu bytes", answers[i].what, k,
				a.body_bytes);
			http_release(&a);
		}
}

struct call {
	pthread_t thread;
	const char *url;
	struct http_answer answer;
};

static void *get(void *arg)
{
	struct call *c = arg;

	http_call(&(struct http_request){ .url = c->url, .timeout_ms = 20000 }, &c->answer);
	return NULL;
}

/* mod_proxy_fcgi waits for more for some seconds, then leaves out the last chunk. mod_fcgid
 * says what it has for whole when it has told no length, and nothing that an application
 * can send makes it say otherwise: contrib/apache/weir-fcgid.conf warns of it. */
Test(regress, what_breaks_off_is_no_whole_answer_behind_apache, .timeout = 55)
{
	static const char *const confs[] = { "apache/weir.conf",
		"apache/weir-proxypass.conf", "apache/weir-proxypass-reuse.conf",
		"apache/weir-fcgid.conf" };
	static struct call calls[COUNT_OF(confs)][COUNT_OF(answers)];
	struct weir_spec spec = before_each_answer(), at_both = spec;
	const char *tcp = addr_tcp();
	struct weir *w;

	at_both.server = text("listen = %s\n", tcp);
	w = weir_start(&at_both);
	for (size_t k = 0; k < COUNT_OF(confs); k++) {
		bool fcgid = strstr(confs[k], "fcgid");
		struct web *web = web_start(&(struct web_spec){ .conf = confs[k],
			.backend = fcgid ? NULL : w->addr,
			.tcp = tcp,
			.ini = fcgid ? weir_configure(&spec)->ini : NULL });

		for (size_t i = 0; i < COUNT_OF(answers); i++) {
			calls[k][i].url = text("%s/%zu", web->url, i);
			pthread_create(&calls[k][i].thread, NULL, get, &calls[k][i]);
		}
	}
	for (size_t k = 0; k < COUNT_OF(confs); k++)
		for (size_t i = 0; i < COUNT_OF(answers); i++) {
			struct http_answer *a = &calls[k][i].answer;
			bool silent = strstr(confs[k], "fcgid") && i == 2;

			pthread_join(calls[k][i].thread, NULL);
			cr_expect_eq(a->status, 200, "%s, %s: %ld", confs[k],
				answers[i].what, a->status);
			cr_expect(a->error == CURLE_PARTIAL_FILE || silent,
				"%s, %s: error %d after %ld ms, %lu bytes", confs[k],
				answers[i].what, a->error, a->ms, a->body_bytes);
			cr_expect(a->body_bytes > LONG_ENOUGH / 2, "%s, %s: %lu bytes",
				confs[k], answers[i].what, a->body_bytes);
			http_release(a);
		}
}

#define SHORT "Content-Type: text/plain\r\nContent-Length: 100\r\n\r\n"
#define LINE  "shorter than it says\n"

Test(regress, a_short_page_that_breaks_off_comes_as_far_as_it_goes, .timeout = 50)
{
	/* nginx has passed on nothing yet. The others may say that there is no page, but
	 * not that this is all of it; Apache says nothing for a while. */
	static const struct {
		const char *conf;
		bool nginx, starts_weir;
	} servers[] = {
		{ "nginx/weir.conf", true, false },
		{ "nginx/weir-unbuffered.conf", true, false },
		{ "nginx/weir-keepalive.conf", true, false },
		{ "lighttpd/weir.conf", false, false },
		{ "apache/weir.conf", false, false },
		{ "apache/weir-fcgid.conf", false, true },
	};
	const char *addr = addr_unix("backend.sock");
	struct weir_spec spec = { .server = "workers = 1\nbackend = b\n",
		.sections = text(
			"[store]\ntype = memory\n[backend b]\nfastcgi = %s\n", addr) };
	/* The backend has them as long as the process lives. */
	static struct buf bytes;
	static struct view piece;
	static const struct backend_script script = { .pieces = &piece, .n_pieces = 1 };
	struct weir *w;

	backend_answer(&bytes, VIEW(SHORT LINE));
	piece = buf_view(&bytes);
	backend_start(addr, &script);
	open_to_all(addr);
	w = weir_start(&spec);
	for (size_t i = 0; i < COUNT_OF(servers); i++) {
		struct web *web = web_start(&(struct web_spec){ .conf = servers[i].conf,
			.backend = servers[i].starts_weir ? NULL : w->addr,
			.ini = servers[i].starts_weir ? weir_configure(&spec)->ini
						      : NULL });
		struct http_answer a;

		http_call(&(struct http_request){ .url = text("%s/", web->url),
				  .timeout_ms = 15000 },
			&a);
		if (servers[i].nginx) {
			cr_assert_eq(a.status, 200, "%s", servers[i].conf);
			cr_assert_eq(a.error, CURLE_PARTIAL_FILE, "%s: error %d",
				servers[i].conf, a.error);
			cr_assert(view_eq(buf_view(&a.body), VIEW(LINE)), "%s",
				servers[i].conf);
		} else {
			cr_assert(a.status >= 500 ||
					(a.error != CURLE_OK &&
						a.error != CURLE_OPERATION_TIMEDOUT),
				"%s: status %ld, error %d", servers[i].conf, a.status,
				a.error);
		}
		http_release(&a);
	}
}
