/*
 * test_parked.c - thousands of requests that wait for a slow backend are so many small
 * structs: none fails, and others are served meanwhile as if they were not there.
 */
#include "site.h"

#include <stdlib.h>

enum {
	PARKED = 5000,
	DELAY_MS = 10000
};

static const char *load_arg(int n)
{
	return text("%d", n);
}

static double latency(const json_t *result, const char *which)
{
	return json_number_value(
		json_object_get(json_object_get(result, "latency_ms"), which));
}

static int by_size(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

Test(parked, requests_cost_little_and_delay_nobody, .timeout = 180)
{
	static atomic_bool hold = true;
	static const struct backend_script slow = { .delay_ms = DELAY_MS, .hold = &hold },
					   quick;
	const char *slow_addr = addr_unix("slow.sock"),
		   *quick_addr = addr_unix("quick.sock");
	struct backend *b;
	struct weir *w;
	struct process *load;
	json_t *result;
	uint64_t before, during;
	static int64_t quick_ms[4096];
	size_t served = 0;

	need_open_files(3 * PARKED);
	b = backend_start(slow_addr, &slow);
	backend_start(quick_addr, &quick);
	w = weir_start(&(struct weir_spec){
		.server = "workers = 2\nbacklog = 4096\n"
			  "max_connections = 6000\nmax_requests = 6000\n",
		.sections = text(
			"[store]\ntype = memory\n"
			"[backend slow]\nfastcgi = %s\n[backend quick]\nfastcgi = %s\n",
			slow_addr, quick_addr),
		.endpoints = "[endpoint slow]\nmatch = * /slow\nbackend = slow\n"
			     "@RateLimit = type=ip count=100000 window=60s\n"
			     "[endpoint quick]\nmatch = * /quick\nbackend = quick\n" });
	for (int i = 0; i < 10; i++) {
		struct fcgi_answer a;

		cr_assert(fcgi_call(
			w->addr, &(struct fcgi_request){ .uri = "/quick" }, &a, 5000));
		fcgi_answer_release(&a);
	}
	before = process_resident_bytes(w->process);
	load = process_start(&(struct process_spec){ .name = "fcgi_load",
		.argv = (const char *const[]){ test_env("WEIR_LOAD"), "-c",
			load_arg(PARKED), "-n", load_arg(PARKED), "-u", "/slow", w->addr,
			NULL } });
	cr_assert(WAIT_UNTIL(60000, backend_count(b).open >= PARKED),
		"only %u of %d requests are at the backend", backend_count(b).open, PARKED);
	during = process_resident_bytes(w->process);
	cr_assert(weir_counter(w, "exchanges_open") >= PARKED);
	hold = false;
	while (process_running(load)) {
		struct fcgi_request rq = { .uri = "/quick" };
		int64_t began = now_ms(), took;
		struct fcgi_answer a;

		cr_assert(fcgi_call(w->addr, &rq, &a, 5000));
		cr_assert_eq(answer_status(&a), 200);
		took = now_ms() - began;
		if (served < COUNT_OF(quick_ms))
			quick_ms[served++] = took;
		fcgi_answer_release(&a);
		process_ends(load, 20);
	}
	result = json_of(view_str(process_log(load)));
	cr_assert_eq(process_exit(load, 1000), 0, "%s", process_log(load));
	cr_assert_eq(json_integer_value(
			     json_object_get(json_object_get(result, "status"), "200")),
		PARKED, "%s", process_log(load));
	cr_assert(served > 20);
	qsort(quick_ms, served, sizeof(quick_ms[0]), by_size);
	cr_assert(quick_ms[served - 1] < 3000, "a quick request took %ld ms",
		quick_ms[served - 1]);
	printf("parked: %d requests, p50 %.0f ms, p99 %.0f ms, max %.0f ms; "
	       "%lu resident bytes each; %zu quick requests meanwhile: p99 %ld ms, "
	       "slowest %ld ms\n",
		PARKED, latency(result, "p50"), latency(result, "p99"),
		latency(result, "max"), (during - before) / PARKED, served,
		quick_ms[served * 99 / 100], quick_ms[served - 1]);
#ifndef __SANITIZE_THREAD__ /* it remembers each access, in memory of its own */
	cr_assert(during - before < (uint64_t)PARKED * 40960, "%lu bytes each",
		(during - before) / PARKED);
#endif
	json_decref(result);
}
