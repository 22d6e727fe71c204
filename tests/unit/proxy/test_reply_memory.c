/*
 * Allocations made to fail, one after the other: a reply that finds no memory says so,
 * or does without its fields, and leaves nothing behind.
 */
#include <stdlib.h>

#include "reply_scene.h"
#include "with_params.h"

/* How many allocations still succeed; below zero: all. */
static long left = -1;

static bool fails(void)
{
	if (left < 0)
		return false;
	if (left == 0)
		return true;
	left--;
	return false;
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

static void *json_malloc(size_t n)
{
	return fails() ? NULL : malloc(n);
}

Test(reply_memory, a_refusal_survives_the_failure_of_any_allocation)
{
	static char label[] = "user/\"sw60s\"", text[] = "{message} {rule}",
		    type[] = "text/html";
	static const struct {
		char *template_text;
		const char *params;
	} rows[] = {
		{ NULL, "" },
		{ NULL, "HTTP_ACCEPT=application/problem+json" },
		{ text, "" },
	};

	json_set_alloc_funcs(json_malloc, free);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct request rq = with_params(rows[i].params);
		struct scene s;
		bool ok = false;
		long n = 0;

		scene_init(&s, OUTCOME_REFUSED);
		s.c.reply.rate_limit_fields = s.c.reply.x_rate_limit_fields = true;
		s.c.reply.template_text = rows[i].template_text;
		s.c.reply.template_type = type;
		refuse(&s, add_tier(&s, label, 5, 60 * US_PER_S), 30 * US_PER_S);
		for (bool used_up = true; used_up && n < 500; n++) {
			struct reply r = { 0 };

			left = n;
			ok = reply_refusal(&r, &s.c, &s.v, &s.endpoint, &rq);
			used_up = left == 0;
			left = -1;
			cr_assert_eq(ok, buf_ok(&r.head));
			if (ok) {
				cr_assert_not_null(
					strstr(buf_str(&r.head), "Retry-After: 30"));
				cr_assert_not_null(strstr(buf_str(&r.body), "sw60s"));
			}
			reply_release(&r);
		}
		cr_assert(ok && n > 5 && n < 500, "row %zu: %ld", i, n);
		request_release(&rq);
	}
}
