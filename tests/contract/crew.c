#include "crew.h"

#include <criterion/criterion.h>
#include <pthread.h>

#include "base/clock.h"

struct worker {
	struct asker *asker;
	struct errand *errands;
	size_t n, next, step, under_way; /* next: to be asked */
	size_t open, answered;
	pthread_barrier_t *start;
	pthread_t thread;
	uv_loop_t loop;
	uv_timer_t patience;
	struct store *store;
};

static void on_done(struct take *t)
{
	struct worker *w = CONTAINER_OF(t, struct errand, take)->worker;

	w->open--;
	w->answered++;
}

static void ask_more(struct worker *w)
{
	while (w->next < w->n && (w->under_way == 0 || w->open < w->under_way)) {
		struct errand *e = &w->errands[w->next];

		w->next += w->step;
		w->open++;
		e->worker = w;
		e->take = (struct take){
			.tiers = e->tiers, .n_tiers = e->n_tiers, .done = on_done
		};
		store_take(w->store, &e->take);
	}
}

static void on_patience(uv_timer_t *timer)
{
	(void)timer;
}

/* No assertions here: they would jump out of another thread's stack. */
static void *work(void *arg)
{
	struct worker *w = arg;
	int64_t ends_us = clock_mono_us() + PATIENCE_MS * US_PER_MS;

	uv_loop_init(&w->loop);
	uv_timer_init(&w->loop, &w->patience);
	uv_timer_start(&w->patience, on_patience, 100, 100);
	w->store = store_new(&w->loop, w->asker->config, w->asker->shared);
	pthread_barrier_wait(w->start);
	for (size_t last = 0; w->store && (w->next < w->n || w->open > 0);) {
		ask_more(w);
		if (w->open > 0)
			uv_run(&w->loop, UV_RUN_ONCE);
		if (w->answered > last)
			ends_us = clock_mono_us() + PATIENCE_MS * US_PER_MS;
		last = w->answered;
		if (clock_mono_us() > ends_us)
			break;
	}
	store_close(w->store);
	uv_close((uv_handle_t *)&w->patience, NULL);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	uv_loop_close(&w->loop);
	return NULL;
}

size_t crew_ask(struct asker *a, struct errand *errands, size_t n, size_t n_workers,
	size_t under_way)
{
	struct worker workers[CREW_MAX];
	pthread_barrier_t start;
	size_t answered = 0;

	cr_assert(n_workers >= 1 && n_workers <= CREW_MAX);
	pthread_barrier_init(&start, NULL, (unsigned)n_workers);
	for (size_t i = 0; i < n_workers; i++) {
		workers[i] = (struct worker){ .asker = a,
			.errands = errands,
			.n = n,
			.next = i,
			.step = n_workers,
			.under_way = under_way,
			.start = &start };
		cr_assert_eq(
			pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (size_t i = 0; i < n_workers; i++) {
		pthread_join(workers[i].thread, NULL);
		answered += workers[i].answered;
	}
	pthread_barrier_destroy(&start);
	return answered;
}
