/* The head of a request: its parameters, its length, its target. */
#include <criterion/criterion.h>
#include <errno.h>

#include "front/request.h"

struct param {
	const char *name, *value;
};

/* A request with these parameters, up to the first without a name. */
static struct request request_of(const struct param *params)
{
	struct request rq;

	request_init(&rq, FCGI_RESPONDER);
	for (; params->name; params++)
		pairs_put(&rq.head, view_str(params->name), view_str(params->value));
	cr_assert(request_index(&rq));
	return rq;
}

#define REQUEST(...) request_of((const struct param[]){ __VA_ARGS__, { NULL, NULL } })

Test(request, parameters_are_found_by_their_exact_name)
{
	struct request rq = REQUEST(
		{ "HTTP_HOST", "a" }, { "HTTP_HOST_X", "b" }, { "EMPTY", "" });

	cr_assert(view_eq(request_param(&rq, "HTTP_HOST"), VIEW("a")));
	cr_assert(view_eq(request_param(&rq, "HTTP_HOST_X"), VIEW("b")));
	cr_assert_not_null(request_param(&rq, "EMPTY").p, "empty is not absent");
	cr_assert_eq(request_param(&rq, "EMPTY").n, 0);
	cr_assert_null(request_param(&rq, "http_host").p);
	cr_assert_null(request_param(&rq, "HTTP_HOS").p);
	request_release(&rq);
}

Test(request, of_a_repeated_parameter_the_last_is_meant_and_all_are_counted)
{
	struct request rq = REQUEST({ "A", "1" }, { "B", "2" }, { "A", "3" });

	cr_assert(view_eq(request_param(&rq, "A"), VIEW("3")));
	cr_assert_eq(request_param_count(&rq, "A"), 2);
	cr_assert_eq(request_param_count(&rq, "C"), 0);
	request_release(&rq);
}

Test(request, a_later_parameter_replaces_but_not_a_header)
{
	struct request rq = REQUEST({ "HTTP_A", "1" }, { "A", "2" }, { "HTTPS", "" },
		{ "A", "" }, { "HTTP_A", "3" }, { "HTTPS", "on" });
	static const bool replaced[] = { false, true, true, false, false, false };

	for (size_t i = 0; i < COUNT_OF(replaced); i++)
		cr_expect_eq(request_is_replaced(&rq, i), replaced[i], "%zu", i);
	request_release(&rq);
}

Test(request, a_head_without_parameters_is_a_head)
{
	struct request rq;

	request_init(&rq, FCGI_RESPONDER);
	cr_assert(request_index(&rq));
	cr_assert_eq(rq.n_params, 0);
	cr_assert_null(request_param(&rq, "A").p);
	request_release(&rq);
}

Test(request, pairs_that_do_not_fit_are_refused)
{
	static const struct view heads[] = {
		VIEW_INIT("\x01"),
		VIEW_INIT("\x01\x02"
			  "ab"),
		VIEW_INIT("\x01\x01"
			  "abc"),
		VIEW_INIT("\x80\x00\x00"),
		VIEW_INIT("\xff\xff\xff\xff\xff\xff\xff\xff"
			  "AAAA"),
		VIEW_INIT("\xff\xff\xff\xfe\xff\xff\xff\xfe"
			  "AAAA"),
		VIEW_INIT("\x80\x00\x00\x05\x80\x00\x00\x05"
			  "abcdefghi"),
	};

	for (size_t i = 0; i < COUNT_OF(heads); i++) {
		struct request rq;

		request_init(&rq, FCGI_RESPONDER);
		buf_add(&rq.head, heads[i]);
		cr_expect(!request_index(&rq), "row %zu", i);
		cr_expect_eq(errno, EBADMSG, "row %zu", i);
		request_release(&rq);
	}
}

Test(request, parameters_that_found_no_memory_are_not_called_malformed)
{
	struct request rq;

	request_init(&rq, FCGI_RESPONDER);
	buf_add(&rq.head, VIEW("\1\1ab"));
	rq.head.failed = true;
	cr_assert(!request_index(&rq));
	cr_assert_eq(errno, ENOMEM);
	request_release(&rq);
}

Test(request, identifiers_are_hexadecimal_and_differ)
{
	struct request a, b;

	request_init(&a, FCGI_RESPONDER);
	request_init(&b, FCGI_RESPONDER);
	cr_assert_eq(strlen(a.id), REQUEST_ID_LEN);
	cr_assert_eq(strspn(a.id, "0123456789abcdef"), REQUEST_ID_LEN);
	cr_assert_str_neq(a.id, b.id);
	request_release(&a);
	request_release(&b);
}

Test(request, content_length_is_a_number_or_absent_or_wrong)
{
	static const struct {
		const char *text;
		bool ok, given;
		uint64_t length;
	} rows[] = {
		{ "", true, false, 0 },
		{ "0", true, true, 0 },
		{ "70000", true, true, 70000 },
		{ " 5 ", true, true, 5 },
		{ "007", true, true, 7 },
		{ "9223372036854775807", true, true, INT64_MAX },
		{ "9223372036854775808", false, true, 0 },
		{ "99999999999999999999999", false, true, 0 },
		{ "-1", false, true, 0 },
		{ "+1", false, true, 0 },
		{ "1,1", false, true, 0 },
		{ "0x10", false, true, 0 },
		{ "5 5", false, true, 0 },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct request rq = REQUEST({ "CONTENT_LENGTH", rows[i].text });
		uint64_t length = 0;
		bool given;

		cr_expect_eq(request_content_length(&rq, &length, &given), rows[i].ok, "%s",
			rows[i].text);
		cr_expect_eq(given, rows[i].given, "%s", rows[i].text);
		cr_expect_eq(length, rows[i].length, "%s", rows[i].text);
		request_release(&rq);
	}
}

Test(request, the_target_is_what_the_client_sent)
{
	static const struct {
		const char *uri, *script, *info, *query_string, *path, *query;
	} rows[] = {
		{ "/a/b?x=1", "/ignored", "", "y=2", "/a/b", "x=1" },
		{ "/a%2Fb?", "/a/b", "", "", "/a%2Fb", "" },
		{ "/a?b?c", "", "", "", "/a", "b?c" },
		{ "http://host/a?b", "", "", "", "/a", "b" },
		{ "https://user@host:8443/a", "", "", "", "/a", "" },
		{ "http://host?b", "/s", "", "", "", "b" },
		{ "/x://y/z", "", "", "", "/x://y/z", "" },
		{ "/?u=http://h/p", "", "", "", "/", "u=http://h/p" },
		{ "//a//b", "", "", "", "//a//b", "" },
		{ "*", "", "", "", "*", "" },
		{ "", "/s.cgi", "/info", "q=1", "/s.cgi/info", "q=1" },
		{ "", "/a%2e", "/#b", "", "/a%252e/%23b", "" },
		{ "", "", "", "", "", "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct request rq = REQUEST({ "REQUEST_URI", rows[i].uri },
			{ "SCRIPT_NAME", rows[i].script }, { "PATH_INFO", rows[i].info },
			{ "QUERY_STRING", rows[i].query_string });
		struct buf scratch = { 0 };
		struct request_target target = request_target(&rq, &scratch);

		cr_expect(view_eq(target.path, view_str(rows[i].path)),
			"row %zu: path %.*s", i, VIEW_ARG(target.path));
		cr_expect(view_eq(target.query, view_str(rows[i].query)),
			"row %zu: query %.*s", i, VIEW_ARG(target.query));
		buf_release(&scratch);
		request_release(&rq);
	}
}

Test(request, cookies_of_all_fields_come_one_after_the_other)
{
	static const struct {
		const char *name, *value;
	} wanted[] = { { "a", "1" }, { "b", "x=y" }, { "", "" }, { "c", "" }, { "d", "" },
		{ "e", "q q" }, { "f", "\"" }, { "a", "%31" } };
	struct request rq = REQUEST({ "HTTP_COOKIE", "a=1; b = x=y ;;c" },
		{ "HTTP_COOKIE", "" }, { "HTTP_COOKIE2", "no=1" },
		{ "HTTP_COOKIE", "d=;e=\"q q\";f=\";" }, { "HTTP_COOKIE", "a=%31" });
	struct cookies all = { .rq = &rq };
	struct view name, value;

	for (size_t i = 0; i < COUNT_OF(wanted); i++) {
		cr_assert(cookies_next(&all, &name, &value), "%zu", i);
		cr_expect(view_eq(name, view_str(wanted[i].name)), "%zu: %.*s", i,
			VIEW_ARG(name));
		cr_expect(view_eq(value, view_str(wanted[i].value)), "%zu: %.*s", i,
			VIEW_ARG(value));
	}
	cr_expect_not(cookies_next(&all, &name, &value));
	request_release(&rq);
}
