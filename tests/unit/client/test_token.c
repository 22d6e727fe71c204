#include "client/token.h"
#include "make_request.h"

static char authorization[] = "HTTP_AUTHORIZATION", api_key[] = "HTTP_X_API_KEY",
	    none[] = "", cookie[] = "sid";

static struct view find(const char *header, const char *name, const struct request *rq)
{
	struct config c = { 0 };

	c.client.token_header = header == NULL ? NULL
		: strcmp(header, api_key) == 0 ? api_key
		: *header                      ? authorization
					       : none;
	c.client.token_cookie = *name ? cookie : none;
	return token_find(&c, rq);
}

static void expect(struct view token, const char *want, const char *what)
{
	cr_expect(view_eq(token, view_str(want)), "%s gave \"%.*s\", not \"%s\"", what,
		VIEW_ARG(token), want);
}

Test(token, is_what_stands_in_the_header)
{
	static const struct {
		const char *header, *value, *token;
	} rows[] = {
		{ authorization, "Bearer weir_abc", "weir_abc" },
		{ authorization, "bearer weir_abc", "weir_abc" },
		{ authorization, "BEARER   weir_abc ", "weir_abc" },
		{ authorization, "Bearer a+b/c==", "a+b/c==" },
		{ authorization, "Basic YTpi", "" },
		{ authorization, "weir_abc", "" },
		{ authorization, "Bearer", "" },
		{ authorization, "Bearer ", "" },
		{ authorization, "Bearerweir_abc", "" },
		{ authorization, "Bearer: weir_abc", "" },
		{ authorization, "Bearer a b", "" },
		{ authorization, "Bearer a, Bearer b", "" },
		{ authorization, "Bearer a\tb", "" },
		{ authorization, "Bearer \xc3\xa9", "" },
		{ authorization, "", "" },
		{ api_key, "weir_abc", "weir_abc" },
		{ api_key, " weir_abc\t", "weir_abc" },
		{ api_key, "a b", "" },
		{ api_key, "Bearer weir_abc", "" },
		{ api_key, "", "" },
		{ "", "Bearer weir_abc", "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct request rq;

		make_request(&rq, *rows[i].header ? rows[i].header : authorization,
			rows[i].value, NULL);
		expect(find(rows[i].header, "", &rq), rows[i].token, rows[i].value);
		request_release(&rq);
	}
}

Test(token, is_what_stands_in_the_cookie)
{
	static const struct {
		const char *cookies, *token;
	} rows[] = {
		{ "sid=weir_abc", "weir_abc" },
		{ "a=b; sid=weir_abc; c=d", "weir_abc" },
		{ "a=b;sid=weir_abc", "weir_abc" },
		{ " sid = weir_abc ", "weir_abc" },
		{ "sid=\"weir_abc\"", "weir_abc" },
		{ "sid=a=b", "a=b" },
		{ "sid=", "" },
		{ "sid", "" },
		{ "SID=weir_abc", "" },
		{ "xsid=weir_abc", "" },
		{ "a=sid=weir_abc", "" },
		{ "a=\"; sid=weir_abc\"", "weir_abc\"" },
		{ "sid=a; sid=b", "" },
		{ "sid=a; sid=a", "" },
		{ "sid=; sid=b", "" },
		{ "sid=a b", "" },
		{ "", "" },
		{ ";;;=;", "" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct request rq;

		make_request(&rq, "HTTP_COOKIE", rows[i].cookies, NULL);
		expect(find("", "sid", &rq), rows[i].token, rows[i].cookies);
		request_release(&rq);
	}
}

Test(token, that_is_given_twice_is_none)
{
	struct request rq;

	make_request(&rq, authorization, "Bearer a", authorization, "Bearer b", NULL);
	expect(find(authorization, "", &rq), "", "two Authorization fields");
	request_release(&rq);
	make_request(&rq, authorization, "Bearer a", authorization, "Basic b", NULL);
	expect(find(authorization, "", &rq), "", "a Bearer and a Basic");
	request_release(&rq);
	make_request(&rq, authorization, "Basic b", authorization, "Bearer a",
		"HTTP_COOKIE", "sid=c", NULL);
	expect(find(authorization, "sid", &rq), "", "and a cookie does not help");
	request_release(&rq);
	make_request(&rq, "HTTP_COOKIE", "sid=a", "HTTP_COOKIE", "sid=b", NULL);
	expect(find("", "sid", &rq), "", "two Cookie fields with it");
	request_release(&rq);
	make_request(&rq, "HTTP_COOKIE", "a=b", "HTTP_COOKIE", "sid=c", NULL);
	expect(find("", "sid", &rq), "c", "two Cookie fields, one with it");
	request_release(&rq);
}

Test(token, in_the_header_comes_before_the_cookie)
{
	struct request rq;

	make_request(&rq, authorization, "Bearer a", "HTTP_COOKIE", "sid=b", NULL);
	expect(find(authorization, "sid", &rq), "a", "both");
	request_release(&rq);
	make_request(&rq, authorization, "Basic eDp5", "HTTP_COOKIE", "sid=b", NULL);
	expect(find(authorization, "sid", &rq), "b", "another scheme and the cookie");
	request_release(&rq);
	make_request(&rq, "HTTP_COOKIE", "sid=b", NULL);
	expect(find(NULL, "sid", &rq), "b", "no header configured");
	expect(find(NULL, "", &rq), "", "nothing configured");
	request_release(&rq);
}

Test(token, of_a_senseless_length_is_none)
{
	char value[TOKEN_MAX + 2];
	struct request rq;

	memset(value, 'x', sizeof(value));
	value[TOKEN_MAX] = '\0';
	make_request(&rq, api_key, value, NULL);
	expect(find(api_key, "", &rq), value, "the longest");
	request_release(&rq);
	value[TOKEN_MAX] = 'x';
	value[TOKEN_MAX + 1] = '\0';
	make_request(&rq, api_key, value, NULL);
	expect(find(api_key, "", &rq), "", "one byte more");
	request_release(&rq);
}
