/*
 * asker.h - a worker's store on a loop of its own, for tests that ask it questions.
 */
#ifndef WEIR_TESTS_ASKER_H
#define WEIR_TESTS_ASKER_H

#include "store/store.h"

/* Long enough for everything that is no question of time. */
#define PATIENCE_MS 20000

#define ASKER_SERVERS 3

struct asker {
	uv_loop_t loop;
	uv_timer_t alarm;
	struct config *config;
	struct redis_server
		servers[ASKER_SERVERS]; /* the first is used, until more are named */
	struct store_shared *shared;
	struct store *store;
	unsigned answered;  /* questions, so far */
	uint64_t remaining; /* as ask_one() was last told */
};

struct question {
	struct take take;
	struct rate rate;
	struct take_tier tier;
	struct asker *asker;
	unsigned answers; /* 1 once done */
	unsigned place;   /* the how manieth of all answers it was, from 1 */
	int64_t asked_us, answered_us;
	void (*then)(struct question *q); /* in done; may be NULL */
};

/* Sets config for Redis at that socket: time-out so long that it plays no part, policy
 * local with ample total. The test may change it before asker_start(). The log goes to
 * test_path("store.log"). */
void asker_init(struct asker *a, const char *socket);
/* One more server, which is tried after those before it. */
void asker_add(struct asker *a, const char *socket);
void asker_start(struct asker *a);
/* Closes the store if that has not happened and runs the loop to its end, which shows
 * that nothing is left in it. */
void asker_stop(struct asker *a);

/* A sliding window of count events a minute. The key is borrowed. */
void question_init(struct question *q, struct asker *a, const char *key, uint64_t count);
void ask(struct question *q);
/* Runs the loop until cond holds; false when ms passed first. */
#define RUN_UNTIL(a, ms, cond)                                              \
	__extension__({                                                     \
		int64_t run_end_ = clock_mono_us() + (ms)*US_PER_MS;        \
		bool run_held_;                                             \
		while (!(run_held_ = (cond)) && clock_mono_us() < run_end_) \
			asker_run_a_little(a);                              \
		run_held_;                                                  \
	})
void asker_run_a_little(struct asker *a); /* until something happens, at most 5 ms */

/* Asks one question and waits for its answer. */
enum decided_by ask_one(struct asker *a, const char *key, uint64_t count);
/* Asks again and again until Redis decides; false when ms passed first. */
bool decided_by_redis_within(struct asker *a, int64_t ms);

#endif
