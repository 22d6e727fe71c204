#include "store/redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "store/asks.h"
#include "store/link.h"
#include "store/script.h"

struct redis {
	const struct config *config;
	struct health *health;
	const struct redis_events *events;
	void *owner;

	struct link *link;
	struct asks waiting; /* for the first connection */
	struct asks sent;    /* on the wire, in the order of the replies */
	struct asks ended;   /* to be given back to the owner */
	bool giving_back;
	struct buf request; /* reused */
	char state[STORE_STATE_MAX];

	uv_timer_t timer;
	int64_t armed_us; /* when it fires; INT64_MAX: never */
	bool closing, link_alive, timer_alive;
};

/* To the owner by and by: from on_woken(), so never from within a call of his. */
static void end(struct redis *r, struct ask *a, bool counted)
{
	a->counted = counted;
	if (a->take)
		asks_push(&r->ended, a);
	else
		ask_free(a);
}

static void end_all(struct redis *r, struct asks *l)
{
	struct ask *a;

	while ((a = asks_pop(l)))
		end(r, a, false);
}

static void give_back(struct redis *r)
{
	struct ask *a;

	if (r->giving_back)
		return;
	r->giving_back = true;
	/* The owner may ask, cancel and close meanwhile; closing empties the list. */
	while ((a = asks_pop(&r->ended))) {
		bool counted = a->counted;
		struct take *t = ask_free(a);

		if (t)
			r->events->answered(r->owner, t, counted);
	}
	r->giving_back = false;
}

/*
 * The clock: one timer, set to the earliest of what is awaited. It is not moved when
 * that is answered; it then fires for nothing and is set anew.
 */

static int64_t timeout_us(const struct redis *r)
{
	return r->config->store.timeout_ms * US_PER_MS;
}

static void on_timer(uv_timer_t *timer);

static void wake_by(struct redis *r, int64_t at_us)
{
	int64_t left_us = at_us - clock_mono_us();

	if (at_us >= r->armed_us || r->closing)
		return;
	r->armed_us = at_us;
	uv_timer_start(&r->timer, on_timer,
		left_us > 0 ? (uint64_t)((left_us + US_PER_MS - 1) / US_PER_MS) : 0, 0);
}

/* The moment at which the first of them has waited too long. */
static int64_t deadline_us(const struct redis *r, const struct asks *l)
{
	int64_t oldest_us = asks_oldest_us(l);

	return oldest_us == INT64_MAX ? oldest_us : oldest_us + timeout_us(r);
}

/*
 * Questions
 */

static void send_take(struct redis *r, struct ask *a)
{
	if (!a->sent_us)
		a->sent_us = clock_mono_us();
	buf_reset(&r->request);
	script_put_take(&r->request, a->replayed ? SCRIPT_WHOLE : SCRIPT_BY_SHA,
		a->take->tiers, a->take->n_tiers, SCRIPT_REDIS_TIME);
	if (!buf_ok(&r->request))
		link_fail(r->link, "out of memory");
	if (link_send(r->link, buf_view(&r->request), a))
		asks_push(&r->sent, a);
	else
		end(r, a, false);
}

/* The script cache was flushed: nothing was counted. The text itself is sent, which
 * another flush cannot hurt; it is also loaded, because later versions of Redis may
 * drop what came by EVAL alone. */
static void replay(struct redis *r, struct ask *a)
{
	link_load_script(r->link);
	a->replayed = true;
	send_take(r, a);
	wake_by(r, a->asked_us + timeout_us(r));
}

/*
 * Replies
 */

static bool is_error(const redisReply *reply, struct view code)
{
	return reply->type == REDIS_REPLY_ERROR &&
		view_starts(view_of(reply->str, reply->len), code);
}

static void answered(struct redis *r, struct ask *a)
{
	health_answered(r->health, r->config, clock_mono_us() - a->sent_us);
	end(r, a, true);
}

/* Whoever has put something else there has to take it away. */
static void cannot_count(struct redis *r, struct ask *a, const redisReply *reply)
{
	static struct log_gate gate;
	uint64_t missed;

	count_one(COUNT_store_damaged);
	if (log_gate_open(&gate, clock_mono_us(), &missed))
		log_warn("a count in redis is damaged",
			LOG_STR("redis", link_where(r->link)),
			LOG_VIEW("reason", view_of(reply->str, reply->len)),
			LOG_INT("suppressed", missed));
	end(r, a, false);
}

static void read_take(struct redis *r, struct ask *a, const redisReply *reply)
{
	struct take *t = a->take;

	if (is_error(reply, VIEW("NOSCRIPT")) && !a->replayed) {
		if (t)
			replay(r, a);
		else
			ask_free(a);
	} else if (is_error(reply, VIEW("BADSTATE key "))) {
		cannot_count(r, a, reply);
	} else if (reply->type == REDIS_REPLY_ERROR) {
		link_fail(r->link, reply->str);
		end(r, a, false);
	} else if (!t || script_parse(reply, t->n_tiers, &t->admitted, t->views)) {
		/* That of a cancelled question cannot be checked: how many tiers it had is
		 * gone with it. It was charged, which is right: it had been asked. */
		answered(r, a);
	} else {
		link_fail(r->link, "EVALSHA: not the reply to it");
		end(r, a, false);
	}
}

static void on_reply(void *owner, void *tag, const redisReply *reply)
{
	struct redis *r = owner;
	struct ask *a = r->sent.head;

	if (a != tag) {
		link_fail(r->link, "replies out of order");
		return;
	}
	asks_pop(&r->sent);
	read_take(r, a, reply);
}

/*
 * What becomes of the link
 */

static void on_ready(void *owner)
{
	struct redis *r = owner;
	struct ask *a;

	while ((a = asks_pop(&r->waiting))) {
		if (a->take)
			send_take(r, a);
		else
			ask_free(a);
	}
}

static void on_lost(void *owner)
{
	struct redis *r = owner;

	end_all(r, &r->sent);
}

static void on_down(void *owner)
{
	struct redis *r = owner;

	end_all(r, &r->waiting);
}

static void on_woken(void *owner)
{
	give_back(owner);
}

static void free_when_unused(struct redis *r)
{
	if (r->link_alive || r->timer_alive)
		return;
	r->events->closed(r->owner);
	free(r);
}

static void on_link_closed(void *owner)
{
	struct redis *r = owner;

	r->link_alive = false;
	free_when_unused(r);
}

static const struct link_events link_events = {
	.ready = on_ready,
	.reply = on_reply,
	.lost = on_lost,
	.down = on_down,
	.woken = on_woken,
	.closed = on_link_closed,
};

/*
 * Time passes
 */

static void expire_waiting(struct redis *r, int64_t now_us)
{
	char why[WIRE_FAULT_MAX];

	if (deadline_us(r, &r->waiting) > now_us)
		return;
	snprintf(why, sizeof(why), "not connected within %lld ms",
		(long long)r->config->store.timeout_ms);
	link_give_up(r->link, why);
}

static void expire_sent(struct redis *r, int64_t now_us)
{
	char why[WIRE_FAULT_MAX];

	if (deadline_us(r, &r->sent) > now_us || !link_is_ready(r->link))
		return;
	/* Timers run before sockets: when it was the loop that was late, the answers
	 * are there. */
	link_read(r->link);
	if (asks_until(&r->sent, now_us - timeout_us(r)) == 0)
		return;
	/* The younger ones are lost as well, but how long they would have taken is not
	 * known. */
	health_missed(r->health, r->config,
		asks_until(&r->sent, now_us - health_slow_us(r->config)));
	snprintf(why, sizeof(why), "no answer within %lld ms",
		(long long)r->config->store.timeout_ms);
	link_fail(r->link, why);
}

static void on_timer(uv_timer_t *timer)
{
	struct redis *r = CONTAINER_OF(timer, struct redis, timer);
	int64_t now_us = clock_mono_us();

	r->armed_us = INT64_MAX;
	expire_waiting(r, now_us);
	expire_sent(r, now_us);
	wake_by(r, deadline_us(r, &r->waiting));
	wake_by(r, deadline_us(r, &r->sent));
	give_back(r);
}

/*
 * For the owner
 */

bool redis_asks(struct redis *r)
{
	if (r->closing)
		return false;
	if (health_asks(r->health))
		return link_is_hopeful(r->link);
	link_poke(r->link);
	return false;
}

bool redis_take(struct redis *r, struct take *t)
{
	struct ask *a;

	if (!redis_asks(r))
		return false;
	a = ask_new(t, clock_mono_us());
	if (!a)
		return false;
	if (link_is_ready(r->link))
		send_take(r, a);
	else
		asks_push(&r->waiting, a);
	wake_by(r, a->asked_us + timeout_us(r));
	return true;
}

struct redis *redis_new(uv_loop_t *loop, struct config *c, struct health *health,
	const struct redis_events *events, void *owner)
{
	struct redis *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->config = c;
	r->health = health;
	r->events = events;
	r->owner = owner;
	r->armed_us = INT64_MAX;
	asks_init(&r->waiting);
	asks_init(&r->sent);
	asks_init(&r->ended);
	r->link = link_new(loop, c, health, &link_events, r);
	if (!r->link) {
		free(r);
		return NULL;
	}
	r->link_alive = true;
	uv_timer_init(loop, &r->timer);
	r->timer_alive = true;
	return r;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct redis *r = CONTAINER_OF((uv_timer_t *)handle, struct redis, timer);

	r->timer_alive = false;
	free_when_unused(r);
}

void redis_reload(struct redis *r, const struct config *c)
{
	r->config = c;
	link_reload(r->link, c);
}

void redis_close(struct redis *r)
{
	if (r->closing)
		return;
	r->closing = true;
	link_close(r->link);
	asks_release(&r->sent);
	asks_release(&r->ended);
	asks_release(&r->waiting);
	buf_release(&r->request);
	uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

bool redis_up(const struct redis *r)
{
	return health_asks(r->health) && !link_why(r->link);
}

const char *redis_state(struct redis *r)
{
	char why[HEALTH_OPENED_MAX];

	health_why(r->health, why, sizeof(why));
	if (!*why && link_why(r->link))
		snprintf(why, sizeof(why), "%s", link_why(r->link));
	if (*why)
		snprintf(r->state, sizeof(r->state), "redis (down: %s)", why);
	else
		snprintf(r->state, sizeof(r->state), "redis%s",
			link_is_ready(r->link) ? "" : " (connecting)");
	return r->state;
}
