/*
 * test_health.c - what the log and the counters hear of a Redis that comes and goes, from
 * one thread and from several.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "store/health.h"

static struct config config;
static struct health *h;
static FILE *lines;

static void start(void)
{
	config.store.timeout_ms = 50;
	config.store.breaker_failures = 3;
	config.store.breaker_pause_ms = 0;
	lines = tmpfile();
	cr_assert(lines);
	log_open(fileno(lines), LOG_LEVEL_DEBUG);
	h = health_new();
	cr_assert(h);
}

static void stop(void)
{
	health_free(h);
	fclose(lines);
}

TestSuite(health, .init = start, .fini = stop);

/* Lines of the log with these words in them. */
static unsigned said(const char *words)
{
	char line[LOG_LINE_MAX + 1];
	unsigned n = 0;

	rewind(lines);
	while (fgets(line, sizeof(line), lines))
		n += strstr(line, words) != NULL;
	return n;
}

static void fail_times(unsigned n, bool *down)
{
	while (n--)
		health_failed(h, &config, down, "here", "broken");
}

static void probe(bool good)
{
	unsigned turn = health_turn(h, &config, US_PER_S);

	cr_assert_neq(turn, 0);
	health_probed(h, &config, turn, 0, good);
}

Test(health, an_outage_is_told_once_from_its_beginning_to_its_end)
{
	bool down[4] = { false };
	char why[200];

	for (unsigned i = 0; i < 4; i++)
		fail_times(5, &down[i]);
	cr_assert_not(health_asks(h));
	health_why(h, why, sizeof(why));
	cr_assert_str_eq(why, "3 failures in a row, the last: broken");
	for (unsigned i = 0; i < 10; i++)
		probe(false);
	cr_assert_eq(counter_sum(COUNT_store_breaker_open), 1);
	probe(true);
	cr_assert(health_asks(h));
	health_why(h, why, sizeof(why));
	cr_assert_str_eq(why, "");
	for (unsigned i = 0; i < 4; i++)
		health_up(h, &down[i], "here");
	cr_assert_eq(said("event=\"redis is down\" redis=here reason=broken"), 1);
	cr_assert_eq(said("event=\"redis is no longer asked\" from=closed to=open"), 1);
	cr_assert_eq(said("event=\"redis is asked again\" from=half-open to=closed"), 1);
	cr_assert_eq(said("event=\"redis is up\""), 1);
	cr_assert_eq(said(""), 4);
	cr_assert_eq(counter_sum(COUNT_store_breaker_open), 0);
	cr_assert_eq(counter_sum(COUNT_store_breaker_failed), 1);
	cr_assert_eq(counter_sum(COUNT_store_probes), 11);
	cr_assert_eq(counter_sum(COUNT_store_failures), 20);
}

Test(health, one_of_many_swings_is_told_and_then_one_that_lasts)
{
	bool down = false;

	for (unsigned i = 0; i < 20; i++) {
		fail_times(3, &down);
		probe(true);
		health_up(h, &down, "here");
	}
	cr_assert_eq(said("is no longer asked"), 1);
	cr_assert_eq(said("is asked again"), 1);
	/* The connection's failures go on, so that is told as soon as it fails again. */
	cr_assert_eq(said("is down"), said("is up"));
	fail_times(3, &down);
	cr_assert_eq(said("is no longer asked"), 1);
	probe(false);
	cr_assert_eq(said("is no longer asked"), 2, "it lasts");
	probe(false);
	probe(true);
	cr_assert_eq(said("is no longer asked"), 2);
	cr_assert_eq(said("is asked again"), 2);
	cr_assert_eq(counter_sum(COUNT_store_breaker_failed), 21);
}

Test(health, whoever_leaves_while_it_is_down_does_not_keep_it_down)
{
	bool down[2] = { false };

	fail_times(1, &down[0]);
	fail_times(1, &down[1]);
	health_leave(h, &down[0]);
	health_up(h, &down[1], "here");
	cr_assert_eq(said("redis is up"), 1);
}

static bool asks_meanwhile;
static unsigned asked;
/* A line that hangs: is awaited, has begun, and may go on. */
static atomic_bool hangs, hanging, may_go_on;

/* In place of the C library's: a line takes as long as another thread would need here. */
ssize_t write(int fd, const void *p, size_t n)
{
	char why[200];

	if (asks_meanwhile) {
		health_why(h, why, sizeof(why));
		asked++;
	}
	if (atomic_exchange(&hangs, false)) {
		hanging = true;
		while (!may_go_on)
			usleep(1000);
	}
	return syscall(SYS_write, fd, p, n);
}

Test(health, nobody_waits_for_a_line_of_the_log, .timeout = 20)
{
	bool down = false;

	asks_meanwhile = true;
	fail_times(3, &down);
	probe(true);
	health_up(h, &down, "here");
	asks_meanwhile = false;
	cr_assert_eq(asked, 4);
	cr_assert_eq(said(""), 4);
}

static void *fail_once(void *down)
{
	fail_times(1, down);
	return NULL;
}

Test(health, what_comes_while_a_line_hangs_is_told_behind_it_and_nobody_waits,
	.timeout = 60)
{
	static const char *const order[] = { "redis is down", "redis is no longer asked",
		"redis is asked again", "redis is up" };
	bool down[2] = { false };
	char got[4 * LOG_LINE_MAX];
	const char *at = got;
	pthread_t thread;
	size_t n;

	hangs = true;
	cr_assert_eq(pthread_create(&thread, NULL, fail_once, &down[0]), 0);
	while (!hanging)
		usleep(1000);
	fail_times(2, &down[1]);
	probe(true);
	health_leave(h, &down[0]);
	health_up(h, &down[1], "here");
	may_go_on = true;
	pthread_join(thread, NULL);
	rewind(lines);
	n = fread(got, 1, sizeof(got) - 1, lines);
	got[n] = '\0';
	for (size_t i = 0; i < COUNT_OF(order); i++) {
		at = strstr(at, order[i]);
		cr_assert_not_null(at, "not in its place: %s\n%s", order[i], got);
	}
	cr_assert_eq(said(""), COUNT_OF(order), "%s", got);
}

enum {
	THREADS = 4,
	TIMES = 20000
};

static void *come_and_go(void *arg)
{
	bool down = false;

	(void)arg;
	for (unsigned i = 0; i < TIMES; i++) {
		unsigned turn = health_asks(h) ? 0 : health_turn(h, &config, US_PER_S);

		if (turn)
			health_probed(h, &config, turn, 0, i % 3 == 0);
		else if (i % 7 < 5)
			health_failed(h, &config, &down, "here", "broken");
		else
			health_answered(h, &config, i % 2 ? 0 : US_PER_S);
		if (i % 11 == 0)
			health_up(h, &down, "here");
	}
	health_leave(h, &down);
	return NULL;
}

Test(health, several_threads_agree_about_it)
{
	pthread_t threads[THREADS];
	int64_t opened, open;

	for (unsigned i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	opened = counter_sum(COUNT_store_breaker_failed) +
		counter_sum(COUNT_store_breaker_slowed);
	open = counter_sum(COUNT_store_breaker_open);
	cr_assert_gt(opened, 0);
	cr_assert_eq(open, health_asks(h) ? 0 : 1);
	/* Each end has had its beginning, in the log as well. */
	cr_assert_leq(said("is asked again"), said("is no longer asked"));
	cr_assert_leq(said("is no longer asked"), said("is asked again") + 1);
}
