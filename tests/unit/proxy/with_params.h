/*
 * A request with parameters written as "NAME=value" lines, for tests.
 */
#ifndef WEIR_TESTS_WITH_PARAMS_H
#define WEIR_TESTS_WITH_PARAMS_H

#include <criterion/criterion.h>

#include "front/request.h"

static inline void add_param(struct request *rq, struct view name, struct view value)
{
	pairs_put(&rq->head, name, value);
}

/* lines: "NAME=value\nNAME=value"; names and values may be empty. */
static inline struct request with_params(const char *lines)
{
	struct request rq;
	struct view left = view_str(lines);

	request_init(&rq, FCGI_RESPONDER);
	while (left.n) {
		struct view value = view_cut(&left, '\n');
		struct view name = view_cut(&value, '=');

		add_param(&rq, name, value);
	}
	cr_assert(request_index(&rq));
	return rq;
}

#endif
