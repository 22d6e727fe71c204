/*
 * fuzz_forwarded.c - X-Forwarded-For and Forwarded, and the addresses in them.
 *
 * An address has one spelling. What a trusted proxy writes decides, whatever its client
 * wrote to the left of it. A list is one list, however a web server cuts it into fields.
 *
 * Input: one field a line; a line that starts with F is Forwarded, any other
 * X-Forwarded-For.
 */
#include "client/forwarded.h"
#include "fuzz.h"

#define PARAMS_MAX 64

/* 10.0.0.0/8, 2001:db8::/33 */
static struct network trusted_list[] = {
	{ .addr = { 10 }, .addr_n = 4, .bits = 8 },
	{ .addr = { 0x20, 0x01, 0x0d, 0xb8 }, .addr_n = 16, .bits = 33 },
};
static const struct networks trusted = { trusted_list, COUNT_OF(trusted_list) };

/* An address has one spelling, and that one reads as the address. */
static void check_address(const struct address *a)
{
	char text[ADDRESS_TEXT_MAX], network[ADDRESS_TEXT_MAX];
	struct address again;

	address_text(a, text);
	MUST(strlen(text) < sizeof(text));
	MUST(address_parse(view_str(text), &again) && address_equal(a, &again));
	address_network_text(a, 64, network);
	MUST(a->n == 16 || strcmp(text, network) == 0);
}

static struct pair list_of(struct view value)
{
	return (struct pair){ VIEW("HTTP_X_FORWARDED_FOR"), value };
}

static bool is_list(const struct pair *p)
{
	return view_eq(p->name, VIEW("HTTP_X_FORWARDED_FOR"));
}

/* A trusted proxy that writes the one header it names its client in decides, whatever
 * stands to the left. */
static void check_last_proxy(struct request *rq, const struct pair *params, size_t n)
{
	static const char appended[] = "192.0.2.7, 10.0.0.1";
	struct pair list[PARAMS_MAX + 1];
	struct address got, wanted;
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (is_list(&params[i]))
			list[kept++] = params[i];
	list[kept++] = list_of(view_str(appended));
	rq->params = list;
	rq->n_params = kept;
	MUST(address_parse(VIEW("192.0.2.7"), &wanted));
	MUST(forwarded_client(rq, &trusted, &got) == FORWARDED_FOUND);
	MUST(address_equal(&got, &wanted));
}

/* The same list, but each field cut in two at its first comma. */
static void check_cut(const struct pair *params, size_t n)
{
	struct pair cut[2 * PARAMS_MAX];
	struct request rq = { .params = cut }, whole = { 0 };
	struct pair copy[PARAMS_MAX];
	struct address a, b;
	enum forwarded got;

	for (size_t i = 0; i < n; i++) {
		struct view rest = params[i].value, left;

		copy[i] = params[i];
		if (!is_list(&params[i])) {
			cut[rq.n_params++] = params[i];
			continue;
		}
		left = view_cut(&rest, ',');
		cut[rq.n_params++] = list_of(left);
		cut[rq.n_params++] = list_of(rest);
	}
	whole.params = copy;
	whole.n_params = n;
	got = forwarded_client(&whole, &trusted, &a);
	MUST(forwarded_client(&rq, &trusted, &b) == got);
	MUST(got != FORWARDED_FOUND || address_equal(&a, &b));
}

/* Commas alone are an empty list, which says nothing. */
static bool has_entry(struct view list)
{
	while (list.n)
		if (view_trim(view_cut(&list, ',')).n)
			return true;
	return false;
}

/* What a client sends in front changes nothing once a stranger was found. */
static void check_prepended(const struct request *rq)
{
	struct pair more[PARAMS_MAX + 1];
	struct request with = { .params = more, .n_params = rq->n_params + 1 };
	struct address a, b;

	if (forwarded_client(rq, &trusted, &a) != FORWARDED_FOUND ||
		address_in(&a, &trusted))
		return;
	more[0] = list_of(VIEW("198.51.100.99"));
	if (rq->n_params)
		memcpy(more + 1, rq->params, rq->n_params * sizeof(*more));
	for (size_t i = 1; i <= rq->n_params; i++)
		if (is_list(&more[i]) && has_entry(more[i].value)) {
			MUST(forwarded_client(&with, &trusted, &b) == FORWARDED_FOUND);
			MUST(address_equal(&a, &b));
			return;
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view copy = fuzz_copy(view_of((const char *)data, size));
	struct pair params[PARAMS_MAX];
	struct request rq = { .params = params };
	struct view rest = copy, line;
	struct address a;

	while (rest.n && rq.n_params < PARAMS_MAX) {
		line = view_cut(&rest, '\n');
		params[rq.n_params] = list_of(line);
		if (line.n && line.p[0] == 'F')
			params[rq.n_params] = (struct pair){ VIEW("HTTP_FORWARDED"),
				view_skip(line, 1) };
		rq.n_params++;
	}
	if (forwarded_client(&rq, &trusted, &a) == FORWARDED_FOUND)
		check_address(&a);
	if (address_parse(copy, &a))
		check_address(&a);
	check_cut(params, rq.n_params);
	check_prepended(&rq);
	check_last_proxy(&rq, params, rq.n_params);
	fuzz_drop(copy);
	return 0;
}
