#include "store/health.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "store/breaker.h"

#define VOICE_US  (10 * US_PER_S)
#define NEWS_MOST 8 /* untold, while the log is slow */

/* One trouble at a time, and whether the log has heard of it. */
struct voice {
	bool heard;
	int64_t ended_us; /* the last one; 0: there was none */
	struct log_gate gate;
};

/* One line that the log is to hear. */
struct news {
	enum {
		NEWS_DOWN,
		NEWS_UP,
		NEWS_OPENED,
		NEWS_CLOSED
	} what;
	char where[HEALTH_WHY_MAX];  /* of down and up */
	char why[HEALTH_OPENED_MAX]; /* of down and opened */
	uint64_t suppressed;         /* of down and opened */
	int64_t after_ms;            /* of up and closed */
};

struct health {
	atomic_bool asks;     /* a copy of breaker.state == BREAKER_CLOSED */
	pthread_mutex_t lock; /* guards everything below */
	struct breaker breaker;
	int64_t opened_us;
	uint64_t opened_failures; /* in a row; 0: opened by slow answers */
	char opened_why[HEALTH_OPENED_MAX];
	char last_why[HEALTH_WHY_MAX]; /* of the last failure */
	uint64_t down; /* connections that have failed and are not up again */
	int64_t down_us;
	struct voice open_voice, down_voice;
	struct news news[NEWS_MOST]; /* a ring */
	unsigned first_news, n_news;
	bool telling; /* a thread is, and looks for more before it leaves */
};

struct health *health_new(void)
{
	struct health *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	breaker_init(&h->breaker);
	atomic_init(&h->asks, true);
	return h;
}

void health_free(struct health *h)
{
	if (!h)
		return;
	pthread_mutex_destroy(&h->lock);
	free(h);
}

bool health_asks(const struct health *h)
{
	return atomic_load_explicit(&h->asks, memory_order_relaxed);
}

void health_why(struct health *h, char *out, size_t cap)
{
	pthread_mutex_lock(&h->lock);
	snprintf(out, cap, "%s", h->breaker.state == BREAKER_CLOSED ? "" : h->opened_why);
	pthread_mutex_unlock(&h->lock);
}

int64_t health_slow_us(const struct config *c)
{
	const int64_t timeout_us = c->store.timeout_ms * US_PER_MS;
	const int64_t slow_us = c->store.breaker_slow_ms * US_PER_MS;

	if (slow_us == 0)
		return timeout_us / 2;
	return slow_us < timeout_us ? slow_us : timeout_us;
}

static struct breaker_limits limits_of(const struct config *c)
{
	return (struct breaker_limits){
		.failures = c->store.breaker_failures,
		.slow_us = health_slow_us(c),
		.pause_us = c->store.breaker_pause_ms * US_PER_MS,
	};
}

/*
 * What the log hears. A trouble that begins long after the last is told at once; one of
 * many only once a minute, unless it lasts.
 */

/* For a beginning, its end, and each end that is still to come: so that none is lost. */
static bool has_room(const struct health *h)
{
	return h->n_news + h->open_voice.heard + h->down_voice.heard + 2 <= NEWS_MOST;
}

static bool may_tell(
	struct health *h, struct voice *v, bool lasts, int64_t now_us, uint64_t *suppressed)
{
	bool rare = !v->ended_us || now_us - v->ended_us >= VOICE_US;

	*suppressed = 0;
	if (v->heard)
		return false;
	if (!has_room(h)) {
		atomic_fetch_add(&v->gate.missed, 1);
		return false;
	}
	v->heard = log_gate_open(&v->gate, now_us, suppressed) || rare || lasts;
	return v->heard;
}

/* True when its beginning was told, so that its end must be. */
static bool ended(struct voice *v, int64_t now_us)
{
	bool heard = v->heard;

	v->heard = false;
	v->ended_us = now_us;
	return heard;
}

static struct news *add_news(struct health *h)
{
	struct news *news = &h->news[(h->first_news + h->n_news++) % NEWS_MOST];

	assert(h->n_news <= NEWS_MOST);
	*news = (struct news){ 0 };
	return news;
}

static void tell_open(struct health *h, bool lasts, int64_t now_us)
{
	struct news *news;
	uint64_t suppressed;

	if (!may_tell(h, &h->open_voice, lasts, now_us, &suppressed))
		return;
	news = add_news(h);
	news->what = NEWS_OPENED;
	news->suppressed = suppressed;
	snprintf(news->why, sizeof(news->why), "%s", h->opened_why);
}

static void tell_closed(struct health *h, int64_t now_us)
{
	struct news *news;

	if (!ended(&h->open_voice, now_us))
		return;
	news = add_news(h);
	news->what = NEWS_CLOSED;
	news->after_ms = (now_us - h->opened_us) / US_PER_MS;
}

static void tell_down(struct health *h, bool lasts, const char *where, int64_t now_us)
{
	struct news *news;
	uint64_t suppressed;

	if (!may_tell(h, &h->down_voice, lasts, now_us, &suppressed))
		return;
	news = add_news(h);
	news->what = NEWS_DOWN;
	news->suppressed = suppressed;
	snprintf(news->where, sizeof(news->where), "%s", where);
	snprintf(news->why, sizeof(news->why), "%s", h->last_why);
}

static void tell_up(struct health *h, const char *where, int64_t now_us)
{
	struct news *news;

	if (!ended(&h->down_voice, now_us))
		return;
	news = add_news(h);
	news->what = NEWS_UP;
	news->after_ms = (now_us - h->down_us) / US_PER_MS;
	snprintf(news->where, sizeof(news->where), "%s", where);
}

static void tell(const struct news *news)
{
	switch (news->what) {
	case NEWS_DOWN:
		log_warn("redis is down", LOG_STR("redis", news->where),
			LOG_STR("reason", news->why),
			LOG_INT("suppressed", news->suppressed));
		break;
	case NEWS_UP:
		log_notice("redis is up", LOG_STR("redis", news->where),
			LOG_INT("after_ms", news->after_ms));
		break;
	case NEWS_OPENED:
		log_warn("redis is no longer asked", LOG_STR("from", "closed"),
			LOG_STR("to", "open"), LOG_STR("reason", news->why),
			LOG_INT("suppressed", news->suppressed));
		break;
	case NEWS_CLOSED:
		log_notice("redis is asked again", LOG_STR("from", "half-open"),
			LOG_STR("to", "closed"), LOG_INT("after_ms", news->after_ms));
		break;
	}
}

/* One thread at a time tells, also what others have brought meanwhile: so lines keep their
 * order, and nobody waits for a line of somebody else's. */
static void unlock_and_tell(struct health *h)
{
	struct news news;

	if (h->telling) {
		pthread_mutex_unlock(&h->lock);
		return;
	}
	while (h->n_news) {
		news = h->news[h->first_news];
		h->first_news = (h->first_news + 1) % NEWS_MOST;
		h->n_news--;
		h->telling = true;
		pthread_mutex_unlock(&h->lock);
		tell(&news);
		pthread_mutex_lock(&h->lock);
		h->telling = false;
	}
	pthread_mutex_unlock(&h->lock);
}

/*
 * What the breaker concludes
 */

/* The last failure is the latest, also of those after it has opened. */
static void put_failures(struct health *h)
{
	snprintf(h->opened_why, sizeof(h->opened_why),
		"%llu failures in a row, the last: %s",
		(unsigned long long)h->opened_failures, h->last_why);
}

static void put_slowness(struct health *h, const struct breaker_limits *l)
{
	uint64_t slow, all = breaker_answers(&h->breaker, &slow);

	snprintf(h->opened_why, sizeof(h->opened_why),
		"%llu of %llu answers within a second took longer than %lld ms",
		(unsigned long long)slow, (unsigned long long)all,
		(long long)(l->slow_us / US_PER_MS));
}

static void has_opened(struct health *h, enum counter how, int64_t now_us)
{
	atomic_store(&h->asks, false);
	h->opened_us = now_us;
	count_one(how);
	count_one(COUNT_store_breaker_open);
	tell_open(h, false, now_us);
}

static void follow(struct health *h, const struct breaker_limits *l,
	enum breaker_change change, int64_t now_us)
{
	switch (change) {
	case BREAKER_STAYS: break;
	case BREAKER_FAILED:
		h->opened_failures = h->breaker.failures;
		put_failures(h);
		has_opened(h, COUNT_store_breaker_failed, now_us);
		break;
	case BREAKER_SLOWED:
		h->opened_failures = 0;
		put_slowness(h, l);
		has_opened(h, COUNT_store_breaker_slowed, now_us);
		break;
	case BREAKER_HEALED:
		atomic_store(&h->asks, true);
		count_add(COUNT_store_breaker_open, -1);
		tell_closed(h, now_us);
		break;
	}
}

void health_answered(struct health *h, const struct config *c, int64_t took_us)
{
	const struct breaker_limits l = limits_of(c);
	int64_t now_us = clock_mono_us();

	pthread_mutex_lock(&h->lock);
	follow(h, &l, breaker_answered(&h->breaker, &l, took_us, now_us), now_us);
	unlock_and_tell(h);
}

void health_missed(struct health *h, const struct config *c, uint64_t n)
{
	const struct breaker_limits l = limits_of(c);
	int64_t now_us = clock_mono_us();

	pthread_mutex_lock(&h->lock);
	follow(h, &l, breaker_missed(&h->breaker, &l, n, now_us), now_us);
	unlock_and_tell(h);
}

void health_failed(struct health *h, const struct config *c, bool *down, const char *where,
	const char *why)
{
	const struct breaker_limits l = limits_of(c);
	int64_t now_us = clock_mono_us();
	bool again = *down;

	count_one(COUNT_store_failures);
	pthread_mutex_lock(&h->lock);
	snprintf(h->last_why, sizeof(h->last_why), "%s", why);
	if (!again && h->down++ == 0)
		h->down_us = now_us;
	*down = true;
	tell_down(h, again, where, now_us);
	if (h->breaker.state != BREAKER_CLOSED && h->opened_failures)
		put_failures(h);
	follow(h, &l, breaker_failed(&h->breaker, &l, now_us), now_us);
	unlock_and_tell(h);
}

void health_up(struct health *h, bool *down, const char *where)
{
	if (!*down)
		return;
	*down = false;
	pthread_mutex_lock(&h->lock);
	if (--h->down == 0)
		tell_up(h, where, clock_mono_us());
	unlock_and_tell(h);
}

void health_leave(struct health *h, bool *down)
{
	pthread_mutex_lock(&h->lock);
	h->down -= *down;
	*down = false;
	pthread_mutex_unlock(&h->lock);
}

unsigned health_turn(struct health *h, const struct config *c, int64_t step_us)
{
	const struct breaker_limits l = limits_of(c);
	unsigned turn;

	pthread_mutex_lock(&h->lock);
	turn = breaker_turn(&h->breaker, &l, step_us, clock_mono_us());
	pthread_mutex_unlock(&h->lock);
	if (turn)
		count_one(COUNT_store_probes);
	return turn;
}

unsigned health_go_on(
	struct health *h, const struct config *c, unsigned turn, int64_t step_us)
{
	const struct breaker_limits l = limits_of(c);
	unsigned next;

	pthread_mutex_lock(&h->lock);
	next = breaker_go_on(&h->breaker, &l, turn, step_us, clock_mono_us());
	pthread_mutex_unlock(&h->lock);
	if (next && next != turn)
		count_one(COUNT_store_probes);
	return next;
}

void health_lend(struct health *h, unsigned turn)
{
	pthread_mutex_lock(&h->lock);
	breaker_lend(&h->breaker, turn);
	pthread_mutex_unlock(&h->lock);
}

void health_probed(
	struct health *h, const struct config *c, unsigned turn, int64_t took_us, bool good)
{
	const struct breaker_limits l = limits_of(c);
	int64_t now_us = clock_mono_us(), limit_us;
	enum breaker_change change;

	pthread_mutex_lock(&h->lock);
	limit_us = h->opened_failures ? c->store.timeout_ms * US_PER_MS : l.slow_us;
	change = breaker_probed(&h->breaker, turn, good && took_us <= limit_us);
	follow(h, &l, change, now_us);
	if (change == BREAKER_STAYS && h->breaker.state == BREAKER_OPEN)
		tell_open(h, true, now_us);
	unlock_and_tell(h);
}
