/* A request from its parameters, as C strings; the list ends with NULL. */
#ifndef WEIR_TESTS_MAKE_REQUEST_H
#define WEIR_TESTS_MAKE_REQUEST_H

#include <criterion/criterion.h>
#include <stdarg.h>

#include "front/request.h"

static inline void request_add(struct request *rq, const char *name, struct view value)
{
	pairs_put(&rq->head, view_str(name), value);
}

static inline void make_request(struct request *rq, ...)
{
	const char *name;
	va_list ap;

	request_init(rq, FCGI_RESPONDER);
	va_start(ap, rq);
	while ((name = va_arg(ap, const char *)) != NULL)
		request_add(rq, name, view_str(va_arg(ap, const char *)));
	va_end(ap);
	cr_assert(request_index(rq));
}

#endif
