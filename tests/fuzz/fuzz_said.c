/*
 * fuzz_said.c - what a request says about itself: pieces of custom keys, cost, token,
 * preferred language.
 *
 * An identity is bytes that cannot be taken for another part of a store key; what is given
 * twice is as if it were not given; a cost stays within its bounds.
 *
 * Input: the text of a rule, the query, and then parameters NAME=value, one a line.
 */
#include "client/token.h"
#include "config/rule_read.h"
#include "fuzz.h"
#include "limit/query.h"
#include "limit/said.h"
#include "proxy/reply_accept.h"

#define PARAMS_MAX 24

static char token_header[] = "HTTP_AUTHORIZATION", token_cookie[] = "sid", de[] = "de",
	    zh[] = "zh-Hans", pt[] = "pt-BR";
static struct localized messages[] = { { .language = de }, { .language = zh },
	{ .language = pt } };
static const struct config config = { .client = { .token_header = token_header,
					      .token_cookie = token_cookie } };
static const struct client client = {
	.network = "2001:db8::/64", .user = "a/b:{c}", .plan = "paid"
};

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F');
}

/* Escaped, and with one ':' for each placeholder that something follows. */
static void check_identity(const struct rule *rule, struct view id)
{
	size_t colons = 0, wanted = 0;

	for (size_t i = 0; i < id.n; i++) {
		MUST(id.p[i] > ' ' && id.p[i] < 0x7f && !strchr("{}*", id.p[i]));
		if (id.p[i] == '%')
			MUST(i + 2 < id.n && is_hex(id.p[i + 1]) && is_hex(id.p[i + 2]));
		colons += id.p[i] == ':';
	}
	for (size_t i = 0; i + 1 < rule->n_pieces; i++)
		wanted += rule->pieces[i].kind != PIECE_TEXT;
	MUST(colons == wanted);
}

static void check_said(const struct rule *rule, struct request *rq, struct view query)
{
	struct limit_subject about = { .client = &client, .request = rq, .query = query };
	struct pair twice[2 * PARAMS_MAX];
	struct request doubled = { .params = twice, .n_params = 2 * rq->n_params };
	struct buf id = { 0 }, other = { 0 };
	uint64_t cost;

	about.captures.list[0].name = "id";
	about.captures.list[0].value = VIEW("7");
	about.captures.n = 1;
	cost = said_cost(&about, rule);
	MUST(rule->counting != COUNT_LIMITED || cost == rule->rate.burst + 1 ||
		(cost >= rule->cost.min && cost <= rule->cost.max));
	if (rule->type != RULE_CUSTOM)
		return;
	said_identity(&about, rule, &id);
	MUST(buf_ok(&id));
	check_identity(rule, buf_view(&id));

	for (size_t i = 0; i < rq->n_params; i++)
		twice[2 * i] = twice[2 * i + 1] = rq->params[i];
	about.request = &doubled;
	buf_reset(&id);
	said_identity(&about, rule, &id);
	about.request = NULL;
	said_identity(&about, rule, &other);
	MUST(view_eq(buf_view(&id), buf_view(&other)));
	MUST(token_find(&config, &doubled).n == 0);
	buf_release(&id);
	buf_release(&other);
}

static void check_token(const struct request *rq)
{
	struct view token = token_find(&config, rq);

	MUST(token.n <= TOKEN_MAX);
	for (size_t i = 0; i < token.n; i++)
		MUST(token.p[i] > ' ' && token.p[i] < 0x7f);
}

static void check_language(const struct request *rq)
{
	struct view accept = request_param(rq, "HTTP_ACCEPT_LANGUAGE");
	const struct localized *found = accept_language(
		messages, COUNT_OF(messages), "en", accept);

	MUST(!found || (found >= messages && found < messages + COUNT_OF(messages)));
	accept_problem_json(request_param(rq, "HTTP_ACCEPT"));
}

/* Each name and value of the query is found under what it decodes to. */
static void check_query(struct view query)
{
	struct view name, value;
	struct buf text = { 0 };
	size_t left = query.n + 1;

	while (query_next(&query, &name, &value)) {
		MUST(query.n < left);
		left = query.n;
		buf_reset(&text);
		query_decode(value, &text);
		MUST(text.n <= value.n);
		if (!text.n || !memchr(text.p, '\0', text.n))
			MUST(query_value_is(value, buf_str(&text)));
		buf_reset(&text);
		query_decode(name, &text);
		if (text.n && text.p[0] != ' ' && !memchr(text.p, '\0', text.n))
			MUST(query_name_is(name, buf_str(&text)));
	}
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view copy = fuzz_copy(view_of((const char *)data, size)), rest = copy;
	struct view text = view_cut(&rest, '\n'), query = view_cut(&rest, '\n');
	struct pair params[PARAMS_MAX];
	struct request rq = { .params = params };
	struct mistakes m = { 0 };
	struct rule rule;

	while (rest.n && rq.n_params < PARAMS_MAX) {
		struct view value = view_cut(&rest, '\n');
		struct view name = view_cut(&value, '=');

		params[rq.n_params++] = (struct pair){ name, value };
	}
	if (rule_read(text, (struct place){ "x.ini", 1 }, &rule, &m)) {
		check_said(&rule, &rq, query);
		rule_release(&rule);
	}
	check_token(&rq);
	check_language(&rq);
	check_query(query);
	mistakes_release(&m);
	fuzz_drop(copy);
	return 0;
}
