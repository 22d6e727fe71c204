/*
 * Relays against FastCGI applications that do what real ones have been seen to do.
 */
#include "relay_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* What an application sends once it has read the request, in order. */
enum step_kind {
	STEP_LAST,
	OUT,      /* text in one STDOUT record */
	OUT_EACH, /* text in STDOUT records of one byte */
	OUT_LINE, /* text in a STDOUT record for each line */
	OUT_BIG,  /* n bytes 'x' in records of 8184 */
	OUT_OVER, /* the empty STDOUT record */
	ERR,      /* text in one STDERR record */
	ERR_BIG,  /* n bytes in lines of 64, in records of 8184 */
	RAW,      /* n bytes of text as they are */
	END,      /* END_REQUEST with protocol status n */
	SILENCE,  /* for n milliseconds */
	LEAVE,    /* without reading the rest; must be the first step */
};

struct step {
	enum step_kind kind;
	const char *text;
	size_t n;
};

static void in_records(int fd, unsigned type, struct view text, size_t step)
{
	while (text.n) {
		size_t n = text.n < step ? text.n : step;

		fake_say(fd, type, 1, view_of(text.p, n));
		text = view_skip(text, n);
	}
}

static void say_lines(int fd, struct view text)
{
	while (text.n) {
		const char *end = memchr(text.p, '\n', text.n);
		size_t n = end ? (size_t)(end - text.p) + 1 : text.n;

		fake_say(fd, FCGI_STDOUT, 1, view_of(text.p, n));
		text = view_skip(text, n);
	}
}

static void say_big(int fd, unsigned type, size_t n)
{
	char *big = malloc(n);

	cr_assert(big);
	for (size_t i = 0; i < n; i++)
		big[i] = type == FCGI_STDERR && i % 64 == 63 ? '\n' : 'x';
	in_records(fd, type, view_of(big, n), 8184);
	free(big);
}

static void play(struct fake *f, int fd)
{
	const struct step *s = f->script;

	if (s->kind == LEAVE) {
		fake_read_head(f, fd);
		s++;
	} else {
		fake_read_request(f, fd);
	}
	for (; s->kind != STEP_LAST; s++) {
		struct view text = view_str(s->text);

		switch (s->kind) {
		case OUT: fake_say(fd, FCGI_STDOUT, 1, text); break;
		case OUT_EACH: in_records(fd, FCGI_STDOUT, text, 1); break;
		case OUT_LINE: say_lines(fd, text); break;
		case OUT_BIG: say_big(fd, FCGI_STDOUT, s->n); break;
		case OUT_OVER: fake_say(fd, FCGI_STDOUT, 1, VIEW("")); break;
		case ERR: fake_say(fd, FCGI_STDERR, 1, text); break;
		case ERR_BIG: say_big(fd, FCGI_STDERR, s->n); break;
		case RAW: fake_write(fd, view_of(s->text, s->n)); break;
		case END: fake_end(fd, (unsigned)s->n); break;
		case SILENCE: sleep_ms((int)s->n); break;
		case LEAVE:
		case STEP_LAST: break;
		}
	}
}

#define HEAD "Content-Type: text/plain\r\n\r\n"

struct row {
	const char *name;
	struct step script[8];
	enum relay_end how;
	int status;
	const char *body;  /* NULL: any */
	const char *head;  /* lines of it, or NULL: any */
	size_t head_least; /* bytes of it */
};

/* Plays one script to one request; set changes the run before it starts. */
static void check(const struct row *row, void (*set)(struct run *))
{
	struct fake f = { .serve = play, .script = row->script };
	struct run r;

	fake_start(&f, 8);
	run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET\nSCRIPT_NAME=/x");
	run_add_address(&r, f.path);
	if (set)
		set(&r);
	cr_log_info("%s", row->name);
	run_expect(&r, row->how, row->status, row->body);
	cr_assert_geq(r.head.n, row->head_least);
	if (row->head)
		cr_assert(memmem(r.head.p, r.head.n, row->head, strlen(row->head)), "%.*s",
			(int)r.head.n, r.head.p);
	fake_stop(&f);
	fake_release(&f);
	run_release(&r);
}

static void check_all(const struct row *rows, size_t n, void (*set)(struct run *))
{
	for (size_t i = 0; i < n; i++)
		check(&rows[i], set);
}

Test(relay_fastcgi, answers_are_put_together_however_records_cut_them)
{
	static const struct row rows[] = {
		{ "plain", { { OUT, HEAD "ok" }, { OUT_OVER }, { END } }, RELAY_WHOLE, 200,
			"ok" },
		{ "one record a line",
			{ { OUT_LINE,
				  "Status: 404 Not Found\r\nX-A: 1\r\nX-B: 2\r\n\r\nbody" },
				{ OUT_OVER }, { END } },
			RELAY_WHOLE, 404, "body", "X-A: 1\r\nX-B: 2\r\n" },
		{ "one byte a record",
			{ { OUT_EACH, "Status: 201 Created\r\nX-A: 1\r\n\r\nbody" },
				{ OUT_OVER }, { END } },
			RELAY_WHOLE, 201, "body", "X-A: 1\r\n" },
		{ "a big field in several records",
			{ { OUT, "X-Big: " }, { OUT_BIG, NULL, 9000 },
				{ OUT, "\r\n\r\nok" }, { OUT_OVER }, { END } },
			RELAY_WHOLE, 200, "ok", "X-Big: ", 9000 },
		{ "line feeds only", { { OUT, "Status: 200 OK\nX: 1\n\nok" }, { END } },
			RELAY_WHOLE, 200, "ok", "X: 1\r\n" },
		{ "empty body", { { OUT, HEAD }, { OUT_OVER }, { END } }, RELAY_WHOLE, 200,
			"" },
		{ "200 KB",
			{ { OUT, HEAD }, { OUT_BIG, NULL, 200000 }, { OUT_OVER }, { END } },
			RELAY_WHOLE, 200, NULL },
	};

	check_all(rows, COUNT_OF(rows), NULL);
}

Test(relay_fastcgi, status_comes_first_even_when_the_application_sends_none)
{
	struct fake f = { .serve = play,
		.script = (const struct step[]){
			{ OUT, "Content-type: text/html\r\n\r\nhi" }, { END }, { 0 } } };
	struct run r;

	fake_start(&f, 8);
	run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET");
	run_add_address(&r, f.path);
	run_expect(&r, RELAY_WHOLE, 200, "hi");
	cr_assert(view_starts(buf_view(&r.head), VIEW("Status: 200 OK\r\n")));
	fake_stop(&f);
	fake_release(&f);
	run_release(&r);
}

Test(relay_fastcgi, end_request_comes_as_applications_write_it)
{
	static const struct row rows[] = {
		{ "no empty STDOUT record", { { OUT, HEAD "ok" }, { END } }, RELAY_WHOLE,
			200, "ok" },
		{ "garbage in reserved bytes, padding",
			{ { OUT, HEAD "ok" },
				{ RAW,
					"\1\3\0\1\0\10\10\377"
					"\0\0\0\11\0\377\377\377ppppppppp",
					24 } },
			RELAY_WHOLE, 200, "ok" },
		{ "more content than eight bytes",
			{ { OUT, HEAD "ok" },
				{ RAW, "\1\3\0\1\0\12\0\0\0\0\0\0\0\0\0\0xx", 18 } },
			RELAY_WHOLE, 200, "ok" },
		{ "less content",
			{ { OUT, HEAD }, { RAW, "\1\3\0\1\0\4\0\0\0\0\0\0", 12 } },
			RELAY_TRUNCATED, 200, NULL },
		{ "less content before the head",
			{ { RAW, "\1\3\0\1\0\4\0\0\0\0\0\0", 12 } }, RELAY_BAD, 0, NULL },
		{ "nothing before it", { { OUT_OVER }, { END } }, RELAY_BAD, 0, NULL },
		{ "no head before it", { { OUT, "X-A: 1\r\n" }, { END } }, RELAY_BAD, 0,
			NULL },
		{ "text without a head", { { OUT, "hello\n" }, { END } }, RELAY_BAD, 0,
			NULL },
		{ "body too short", { { OUT, "Content-Length: 5\r\n\r\nok" }, { END } },
			RELAY_TRUNCATED, 200, "ok" },
		{ "cannot multiplex", { { END, NULL, FCGI_CANT_MPX_CONN } },
			RELAY_OVERLOADED, 0, NULL },
		{ "overloaded", { { END, NULL, FCGI_OVERLOADED } }, RELAY_OVERLOADED, 0,
			NULL },
		{ "unknown role", { { END, NULL, FCGI_UNKNOWN_ROLE } }, RELAY_BAD, 0,
			NULL },
		{ "unknown status", { { END, NULL, 77 } }, RELAY_BAD, 0, NULL },
		{ "output after the end of output",
			{ { OUT, HEAD "ok" }, { OUT_OVER }, { OUT, "more" }, { END } },
			RELAY_WHOLE, 200, "ok" },
	};

	check_all(rows, COUNT_OF(rows), NULL);
}

Test(relay_fastcgi, connections_that_close_are_judged_by_what_came)
{
	static const struct row rows[] = {
		{ "nothing", { { SILENCE, NULL, 1 } }, RELAY_BAD, 0, NULL },
		{ "half a head", { { OUT, "X-A: 1\r\n" } }, RELAY_BAD, 0, NULL },
		{ "head, no end of output", { { OUT, HEAD "part" } }, RELAY_TRUNCATED, 200,
			"part" },
		{ "end of output", { { OUT, HEAD "ok" }, { OUT_OVER } }, RELAY_WHOLE, 200,
			"ok" },
		{ "all of its length", { { OUT, "Content-Length: 2\r\n\r\nok" } },
			RELAY_WHOLE, 200, "ok" },
		{ "part of its length",
			{ { OUT, "Content-Length: 3\r\n\r\nok" }, { OUT_OVER } },
			RELAY_TRUNCATED, 200, "ok" },
		{ "in the middle of a record",
			{ { OUT, HEAD "pa" }, { RAW, "\1\6\0\1\0\11\0\0rt", 10 } },
			RELAY_TRUNCATED, 200, "part" },
		{ "body unread, answer whole", { { LEAVE }, { OUT, HEAD "ok" }, { END } },
			RELAY_WHOLE, 200, "ok" },
	};

	check_all(rows, COUNT_OF(rows), NULL);
}

Test(relay_fastcgi, what_is_no_fastcgi_is_a_bad_gateway)
{
	static const struct row rows[] = {
		{ "wrong version", { { RAW, "HTTP/1.1 200 OK\r\n\r\n", 19 } }, RELAY_BAD, 0,
			NULL },
		{ "another id", { { RAW, "\1\6\0\2\0\1\0\0x", 9 } }, RELAY_BAD, 0, NULL },
		{ "management record", { { RAW, "\1\13\0\0\0\10\0\0........", 16 } },
			RELAY_BAD, 0, NULL },
		{ "a type of requests", { { RAW, "\1\5\0\1\0\1\0\0x", 9 } }, RELAY_BAD, 0,
			NULL },
		{ "wrong version behind the head", { { OUT, HEAD "ok" }, { RAW, "\2", 1 } },
			RELAY_TRUNCATED, 200, "ok" },
	};

	check_all(rows, COUNT_OF(rows), NULL);
}

Test(relay_fastcgi, error_stream_goes_to_the_log_and_nowhere_else)
{
	static const struct row before = { "before the head",
		{ { ERR, "Primary script unknown" },
			{ OUT, "Status: 404 Not Found\r\n\r\nno" }, { OUT_OVER }, { END } },
		RELAY_WHOLE, 404, "no" };
	static const struct row after = { "between head and body",
		{ { OUT, HEAD }, { ERR, "one\ntwo \"quoted\"\nthr" }, { ERR, "ee\n" },
			{ OUT, "ok" }, { END } },
		RELAY_WHOLE, 200, "ok" };
	static const struct row big = { "a lot of it",
		{ { ERR_BIG, NULL, 20480 }, { OUT, HEAD "ok" }, { END } }, RELAY_WHOLE, 200,
		"ok" };
	const char *text;

	logged();
	check(&before, NULL);
	cr_assert(strstr(logged(), "text=\"Primary script unknown\""));
	check(&after, NULL);
	text = logged();
	cr_assert(strstr(text, "backend=test text=one\n"));
	cr_assert(strstr(text, "text=\"two \\\"quoted\\\"\"\n"));
	cr_assert(strstr(text, "text=three\n"));
	check(&big, NULL);
	text = logged();
	cr_assert(strstr(text, "dropped_bytes=4096"));
	cr_assert_lt(strlen(text), 60000);
}

static void short_first_byte(struct run *r)
{
	r->backend.first_byte_timeout_ms = 100;
}

static void short_idle(struct run *r)
{
	r->backend.idle_timeout_ms = 100;
}

Test(relay_fastcgi, silence_ends_by_time)
{
	static const struct row first[] = {
		{ "no answer", { { SILENCE, NULL, 1000 } }, RELAY_TIMEOUT, 0, NULL },
		{ "only an error stream", { { ERR, "busy\n" }, { SILENCE, NULL, 1000 } },
			RELAY_TIMEOUT, 0, NULL },
	};
	static const struct row idle[] = {
		{ "in the head", { { OUT, "X-A: 1\r\n" }, { SILENCE, NULL, 1000 } },
			RELAY_TIMEOUT, 0, NULL },
		{ "in the body", { { OUT, HEAD "part" }, { SILENCE, NULL, 1000 } },
			RELAY_TRUNCATED, 200, "part" },
		{ "all but END_REQUEST",
			{ { OUT, "Content-Length: 2\r\n\r\nok" }, { SILENCE, NULL, 1000 } },
			RELAY_WHOLE, 200, "ok" },
	};

	check_all(first, COUNT_OF(first), short_first_byte);
	check_all(idle, COUNT_OF(idle), short_idle);
}

static void be_head(struct run *r)
{
	buf_reset(&r->request.head);
	pairs_put(&r->request.head, VIEW("REQUEST_METHOD"), VIEW("HEAD"));
}

Test(relay_fastcgi, answers_to_head_have_no_body)
{
	static const struct row row = { "HEAD",
		{ { OUT, "Content-Length: 5\r\n\r\nhello" }, { OUT_OVER }, { END } },
		RELAY_WHOLE, 200, "" };

	check(&row, be_head);
}

/* --- what the application is sent --- */

static const struct step say_ok[] = { { OUT, HEAD "ok" }, { OUT_OVER }, { END }, { 0 } };

/* The pairs a backend saw, as "NAME=value\n" lines. */
static char *lines_of(struct view pairs)
{
	struct buf b = { 0 };
	struct pair pair;

	while (pairs_next(&pairs, &pair) == PAIRS_PAIR) {
		buf_add(&b, pair.name);
		buf_add_byte(&b, '=');
		buf_add(&b, pair.value);
		buf_add_byte(&b, '\n');
	}
	return buf_steal(&b);
}

/* body bytes of the pattern the check expects back. */
static void check_sent(const char *params, size_t body, const char *want)
{
	struct fake f = { .serve = play, .script = say_ok };
	struct run r;
	char *bytes = malloc(body + 1), *lines;

	cr_assert(bytes);
	for (size_t i = 0; i < body; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	fake_start(&f, 8);
	run_init(&r, BACKEND_FASTCGI, params);
	run_body(&r, view_of(bytes, body));
	run_add_address(&r, f.path);
	r.extra[0] = (struct pair){ VIEW("WEIR_USER"), VIEW("alice") };
	r.n_extra = 1;
	run_expect(&r, RELAY_WHOLE, 200, "ok");
	fake_stop(&f);
	cr_assert(f.seen.begins == 1 && f.seen.role == FCGI_RESPONDER && f.seen.flags == 0);
	cr_assert(f.seen.params_ends == 1 && f.seen.stdin_ends == 1);
	cr_assert(!f.seen.cut_pair, "a pair lies in two records");
	cr_assert(view_eq(buf_view(&f.seen.stdin_bytes), view_of(bytes, body)),
		"%zu bytes arrived otherwise", body);
	if (want) {
		lines = lines_of(buf_view(&f.seen.params));
		cr_assert_str_eq(lines, want);
		free(lines);
	}
	free(bytes);
	fake_release(&f);
	run_release(&r);
}

Test(relay_fastcgi, parameters_arrive_as_they_came_but_for_weirs_own)
{
	static const struct {
		const char *params;
		size_t body;
		const char *want;
	} rows[] = {
		{ "B=2\nA=1\nEMPTY=\nHTTP_X=1\nHTTP_X=2", 0,
			"B=2\nA=1\nEMPTY=\nHTTP_X=1\nHTTP_X=2\nWEIR_USER=alice\n" },
		/* nginx: "include fastcgi.conf;", then what is to replace some of it. */
		{ "REMOTE_USER=eve\nA=1\nREMOTE_USER=\nA=3\nB=2", 0,
			"REMOTE_USER=\nA=3\nB=2\nWEIR_USER=alice\n" },
		{ "SCRIPT_FILENAME=proxy:fcgi://weir//srv/a.php?q\nPATH_INFO=", 0,
			"SCRIPT_FILENAME=proxy:fcgi://weir//srv/a.php?q\nPATH_INFO=\n"
			"WEIR_USER=alice\n" },
		{ "HTTP_PROXY=http://evil\nHttp_Proxy=x\nhttp_proxy=y\nHTTP_PROXY_X=1", 0,
			"HTTP_PROXY_X=1\nWEIR_USER=alice\n" },
		{ "WEIR_USER=admin\nWEIR_DECIDED=1\nWEIR_=\nWEIRD=1", 0,
			"WEIRD=1\nWEIR_USER=alice\n" },
		/* The body's true length */
		{ "A=1\nCONTENT_LENGTH=9\nB=2", 5,
			"A=1\nCONTENT_LENGTH=5\nB=2\nWEIR_USER=alice\n" },
		{ "CONTENT_LENGTH=9\nCONTENT_LENGTH=8", 5,
			"CONTENT_LENGTH=5\nWEIR_USER=alice\n" },
		{ "CONTENT_LENGTH=0", 0, "CONTENT_LENGTH=0\nWEIR_USER=alice\n" },
		{ "CONTENT_LENGTH=", 5, "CONTENT_LENGTH=5\nWEIR_USER=alice\n" },
		{ "A=1", 5, "A=1\nCONTENT_LENGTH=5\nWEIR_USER=alice\n" },
		{ "REQUEST_METHOD=POST", 0,
			"REQUEST_METHOD=POST\nCONTENT_LENGTH=0\nWEIR_USER=alice\n" },
		{ "REQUEST_METHOD=POST\nCONTENT_LENGTH=", 0,
			"REQUEST_METHOD=POST\nCONTENT_LENGTH=0\nWEIR_USER=alice\n" },
		{ "REQUEST_METHOD=GET\nCONTENT_LENGTH=", 0,
			"REQUEST_METHOD=GET\nCONTENT_LENGTH=\nWEIR_USER=alice\n" },
		{ "REQUEST_METHOD=GET", 0, "REQUEST_METHOD=GET\nWEIR_USER=alice\n" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		check_sent(rows[i].params, rows[i].body, rows[i].want);
}

Test(relay_fastcgi, the_operators_parameters_take_the_place_of_the_web_servers)
{
	struct variable env[] = {
		{ (char[]){ "PHP_VALUE" }, (char[]){ "upload_max_filesize=5M" } },
		{ (char[]){ "EMPTY" }, (char[]){ "" } },
	};
	struct fake f = { .serve = play, .script = say_ok };
	struct run r;
	char *sent;

	fake_start(&f, 8);
	run_init(&r, BACKEND_FASTCGI, "A=1\nPHP_VALUE=memory_limit=-1\nEMPTY=not\nB=2");
	r.backend.env = env;
	r.backend.n_env = COUNT_OF(env);
	run_add_address(&r, f.path);
	run_expect(&r, RELAY_WHOLE, 200, "ok");
	run_release(&r);
	fake_stop(&f);
	sent = lines_of(buf_view(&f.seen.params));
	cr_expect_str_eq(sent, "A=1\nB=2\nPHP_VALUE=upload_max_filesize=5M\nEMPTY=\n");
	free(sent);
	fake_release(&f);
}

Test(relay_fastcgi, bodies_of_every_size_arrive_whole)
{
	static const size_t sizes[] = { 1, 8, 65519, 65520, 65521, 65527, 65528, 65529,
		65535, 65536, 70000, 131055, 131056, 131057, 300000, 5000000 };

	for (size_t i = 0; i < COUNT_OF(sizes); i++)
		check_sent("REQUEST_METHOD=POST", sizes[i], NULL);
}

Test(relay_fastcgi, large_environments_are_cut_between_pairs)
{
	struct buf params = { 0 };
	char *lines;

	for (int i = 0; i < 494; i++)
		buf_addf(&params, "TEST_ENV_%d=f\n", i);
	buf_add_str(&params, "LONG=");
	for (int i = 0; i < 60000; i++)
		buf_add_byte(&params, 'x');
	buf_add_str(&params, "\nCONTENT_LENGTH=0\nLAST=1");
	lines = buf_steal(&params);
	check_sent(lines, 0, NULL);
	free(lines);
}

Test(relay_fastcgi, requests_that_must_not_go_out_do_not)
{
	struct buf text = { 0 };
	struct fake f = { .serve = play, .script = say_ok };
	static const struct pair unsafe[] = {
		{ VIEW("SCRIPT_NAME"), VIEW("/a\nb") },
		{ VIEW("SCRIPT_FILENAME"), VIEW("/srv/a.php\0.jpg") },
		{ VIEW("PATH_INFO"), VIEW("/\r") },
		{ VIEW("PATH_TRANSLATED"), VIEW("\n") },
		{ VIEW("DOCUMENT_URI"), VIEW("/a\nb") },
		{ VIEW("REQUEST_URI"), VIEW("/a\nb") },
	};
	struct run r;

	fake_start(&f, 8);
	for (size_t i = 0; i < COUNT_OF(unsafe); i++) {
		run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET\nPATH_INFO=/fine");
		pairs_put(&r.request.head, unsafe[i].name, unsafe[i].value);
		run_add_address(&r, f.path);
		run_expect(&r, RELAY_BAD_REQUEST, 0, NULL);
		run_release(&r);
	}
	run_init(&r, BACKEND_FASTCGI, "HTTP_X=a\nSCRIPT_NAME=/x");
	for (int i = 0; i < 70000; i++)
		buf_add_byte(&text, 'x');
	pairs_put(&r.request.head, VIEW("HTTP_COOKIE"), buf_view(&text));
	run_add_address(&r, f.path);
	run_expect(&r, RELAY_TOO_LARGE, 0, NULL);
	run_release(&r);
	buf_release(&text);
	fake_stop(&f);
	cr_assert_eq(f.served, 0);
	fake_release(&f);
}

/* --- connecting --- */

Test(relay_fastcgi, answer_given_before_the_body_was_read_is_heard)
{
	static const struct step early[] = { { LEAVE },
		{ OUT, "Status: 413 Content Too Large\r\n\r\nno" }, { OUT_OVER }, { END },
		{ 0 } };
	static const struct step broken[] = { { LEAVE },
		{ OUT, "Status: 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno" },
		{ 0 } };
	const struct step *scripts[] = { early, broken };
	char *body = calloc(1, 5000000);

	cr_assert(body);
	for (size_t i = 0; i < COUNT_OF(scripts); i++) {
		struct fake f = { .serve = play, .script = scripts[i] };
		struct run r;

		fake_start(&f, 8);
		run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=POST");
		run_body(&r, view_of(body, 5000000));
		run_add_address(&r, f.path);
		run_expect(&r, RELAY_WHOLE, 413, "no");
		fake_stop(&f);
		fake_release(&f);
		run_release(&r);
	}
	free(body);
}

Test(relay_fastcgi, nobody_listening_is_refused)
{
	struct run r;

	run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET");
	run_add_address(&r, "/tmp/test-relay-nobody.sock");
	run_add_address(&r, "/tmp/test-relay-nobody-else.sock");
	run_expect(&r, RELAY_REFUSED, 0, NULL);
	cr_assert(strstr(r.why, "No such file"));
	run_release(&r);
}

Test(relay_fastcgi, next_address_is_tried)
{
	static const struct step full[] = { { END, NULL, FCGI_OVERLOADED }, { 0 } };
	struct fake good = { .serve = play, .script = say_ok };
	struct fake busy = { .serve = play, .script = full };

	fake_start(&good, 8);
	fake_start(&busy, 8);
	/* Each round starts with another address, so all orders are met. */
	for (int i = 0; i < 3; i++) {
		struct run r;

		run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=POST\nA=1");
		run_body(&r, VIEW("hello"));
		run_add_address(&r, "/tmp/test-relay-nobody.sock");
		run_add_address(&r, busy.path);
		run_add_address(&r, good.path);
		run_expect(&r, RELAY_WHOLE, 200, "ok");
		run_release(&r);
	}
	fake_stop(&good);
	fake_stop(&busy);
	cr_assert_eq(good.served, 3);
	cr_assert_gt(busy.served, 0);
	cr_assert(view_eq(buf_view(&good.seen.stdin_bytes), VIEW("hello")));
	fake_release(&good);
	fake_release(&busy);
}

/* Fills the listen queue; returns how many connections that took. */
static size_t fill_queue(const char *path, int *fds, size_t most)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	memcpy(un.sun_path, path, strlen(path) + 1);
	for (size_t n = 0; n < most; n++) {
		fds[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(fds[n], (struct sockaddr *)&un, sizeof(un)) < 0) {
			close(fds[n]);
			return n;
		}
	}
	return most;
}

Test(relay_fastcgi, full_listen_queue_is_waited_for)
{
	struct fake f = { .serve = play, .script = say_ok, .delay_ms = 200 };
	int fds[16];
	size_t n;
	struct run r;

	fake_start(&f, 1);
	n = fill_queue(f.path, fds, COUNT_OF(fds));
	cr_assert_lt(n, COUNT_OF(fds));
	for (size_t i = 0; i < n; i++)
		shutdown(fds[i], SHUT_WR); /* the backend is through with them at once */
	run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET");
	run_add_address(&r, f.path);
	run_expect(&r, RELAY_WHOLE, 200, "ok");
	run_release(&r);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	fake_stop(&f);
	fake_release(&f);
}

Test(relay_fastcgi, full_listen_queue_is_refused_in_the_end)
{
	struct fake f = { .serve = play, .script = say_ok, .delay_ms = 1500 };
	int fds[16];
	size_t n;
	struct run r;

	fake_start(&f, 1);
	n = fill_queue(f.path, fds, COUNT_OF(fds));
	run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET");
	r.backend.connect_timeout_ms = 100;
	run_add_address(&r, f.path);
	run_expect(&r, RELAY_REFUSED, 0, NULL);
	run_release(&r);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	fake_stop(&f);
	fake_release(&f);
}

/* --- pace and cancelling --- */

Test(relay_fastcgi, slow_reader_gets_all_of_it)
{
	static const struct step big[] = { { OUT, HEAD }, { OUT_BIG, NULL, 3000000 },
		{ OUT_OVER }, { END }, { 0 } };
	struct fake f = { .serve = play, .script = big };
	struct run r;

	fake_start(&f, 8);
	run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET");
	run_add_address(&r, f.path);
	r.pause_ms = 5;
	/* Pauses are longer than what a silent backend is allowed. */
	r.backend.idle_timeout_ms = 2000;
	run_expect(&r, RELAY_WHOLE, 200, NULL);
	cr_assert_eq(r.answer.n, 3000000);
	for (size_t i = 0; i < r.answer.n; i++)
		cr_assert_eq(r.answer.p[i], 'x');
	fake_stop(&f);
	fake_release(&f);
	run_release(&r);
}

Test(relay_fastcgi, time_does_not_run_while_the_reader_is_slow)
{
	static const struct step two[] = { { OUT, HEAD "a" }, { SILENCE, NULL, 50 },
		{ OUT, "b" }, { OUT_OVER }, { END }, { 0 } };
	struct fake f = { .serve = play, .script = two };
	clock_t began = clock();
	struct run r;

	fake_start(&f, 8);
	run_init(&r, BACKEND_FASTCGI, "REQUEST_METHOD=GET");
	run_add_address(&r, f.path);
	r.pause_ms = 400;
	r.backend.idle_timeout_ms = 200;
	run_expect(&r, RELAY_WHOLE, 200, "ab");
	/* Nor is the processor kept busy by data that nobody wants yet. */
	cr_assert_lt(clock() - began, CLOCKS_PER_SEC / 10);
	fake_stop(&f);
	fake_release(&f);
	run_release(&r);
}

Test(relay_fastcgi, cancelled_relays_say_no_more)
{
	static const struct step slow[] = { { OUT, HEAD "part" }, { SILENCE, NULL, 300 },
		{ OUT, "more" }, { END }, { 0 } };
	static const struct step silent[] = { { SILENCE, NULL, 300 }, { OUT, HEAD },
		{ 0 } };
	struct fake talks = { .serve = play, .script = slow };
	struct fake waits = { .serve = play, .script = silent };
	struct run runs[5];

	fake_start(&talks, 8);
	fake_start(&waits, 8);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		run_init(&runs[i], BACKEND_FASTCGI, "REQUEST_METHOD=GET");
		run_add_address(&runs[i], i < 2 ? talks.path : waits.path);
	}
	runs[0].cancel_in_head = true;
	runs[1].cancel_in_body = true;
	runs[2].cancel_after_ms = 100;
	runs[3].cancel_after_ms = 1;
	runs[4].cancel_at_once = true;
	run_all(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		cr_assert_eq(runs[i].ends, 0);
		run_release(&runs[i]);
	}
	fake_stop(&talks);
	fake_stop(&waits);
	fake_release(&talks);
	fake_release(&waits);
}

Test(relay_fastcgi, many_at_once_leave_no_descriptor_behind)
{
	struct fake f = { .serve = play, .script = say_ok };
	struct run runs[50];
	int before, after;

	fake_start(&f, 4);
	before = dup(0);
	close(before);
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		run_init(&runs[i], BACKEND_FASTCGI, "REQUEST_METHOD=POST");
		run_body(&runs[i], VIEW("hello"));
		run_add_address(&runs[i], f.path);
	}
	run_all(runs, COUNT_OF(runs));
	for (size_t i = 0; i < COUNT_OF(runs); i++) {
		cr_assert_eq((int)runs[i].how, RELAY_WHOLE, "%s", runs[i].why);
		run_release(&runs[i]);
	}
	fake_stop(&f);
	after = dup(0);
	close(after);
	cr_assert_leq(after, before);
	fake_release(&f);
}
