/*
 * X-Forwarded-For and Forwarded, under any bytes.
 *
 *	clang -g -O1 -fsanitize=fuzzer,address,undefined -std=gnu11 -D_GNU_SOURCE -Ifilter \
 *		tests/fuzz/fuzz_forwarded.c filter/client/forwarded.c filter/client/address.c \
 *		filter/base/view.c -o fuzz_forwarded
 *	./fuzz_forwarded -max_len=4096
 *
 * The input is a list of parameters, one a line; a line that starts with F is Forwarded,
 * any other X-Forwarded-For.
 */
#include <stdlib.h>

#include "client/forwarded.h"

#define PARAMS_MAX 64

/* 10.0.0.0/8 */
static struct network trusted_list[] = { { .addr = { 10 }, .addr_n = 4, .bits = 8 } };
static const struct networks trusted = { trusted_list, 1 };

/* abort() rather than assert(): the driver must not lose its checks to NDEBUG. */
static void check(bool holds)
{
	if (!holds)
		abort();
}

/* An address has one spelling, and that one reads as the address. */
static void check_address(const struct address *a)
{
	char text[ADDRESS_TEXT_MAX], network[ADDRESS_TEXT_MAX];
	struct address again;

	address_text(a, text);
	check(strlen(text) < sizeof(text));
	check(address_parse(view_str(text), &again) && address_equal(a, &again));
	address_network_text(a, 64, network);
	check(a->n == 16 || strcmp(text, network) == 0);
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
		if (view_eq(params[i].name, VIEW("HTTP_X_FORWARDED_FOR")))
			list[kept++] = params[i];
	list[kept].name = VIEW("HTTP_X_FORWARDED_FOR");
	list[kept++].value = view_str(appended);
	rq->params = list;
	rq->n_params = kept;
	check(address_parse(VIEW("192.0.2.7"), &wanted));
	check(forwarded_client(rq, &trusted, &got) == FORWARDED_FOUND);
	check(address_equal(&got, &wanted));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of its own size, so that reading behind it is noticed. */
	char *copy = malloc(size ? size : 1);
	struct pair params[PARAMS_MAX];
	struct request rq = { .params = params };
	struct view rest, line;
	struct address a;

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	rest = view_of(copy, size);
	while (rest.n && rq.n_params < PARAMS_MAX) {
		line = view_cut(&rest, '\n');
		params[rq.n_params].name = VIEW("HTTP_X_FORWARDED_FOR");
		if (line.n && line.p[0] == 'F') {
			params[rq.n_params].name = VIEW("HTTP_FORWARDED");
			line = view_skip(line, 1);
		}
		params[rq.n_params++].value = line;
	}
	if (forwarded_client(&rq, &trusted, &a) == FORWARDED_FOUND)
		check_address(&a);
	if (address_parse(view_of(copy, size), &a))
		check_address(&a);
	check_last_proxy(&rq, params, rq.n_params);
	free(copy);
	return 0;
}
