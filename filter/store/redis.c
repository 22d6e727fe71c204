#include "store/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "store/asks.h"
#include "store/greeting.h"
#include "store/script.h"
#include "store/wire.h"

enum redis_status {
	REDIS_WAITING,  /* until retry_us, when the next attempt begins */
	REDIS_LOOKUP,   /* until the host name has addresses */
	REDIS_GREETING, /* connecting, until all of the greeting is answered */
	REDIS_READY,    /* commands are answered as they come */
	REDIS_CLOSED,   /* until the loop has let go of timer and look-up */
};

struct redis {
	uv_loop_t *loop;
	const struct config *config;
	const struct redis_events *events;
	void *owner;

	enum redis_status status;
	bool down;                /* nobody waits for it */
	bool logged_down;         /* until a question is answered again */
	bool greeted;             /* the greeting's last answer was right */
	bool loading;             /* SCRIPT LOAD is on the wire */
	char why[WIRE_FAULT_MAX]; /* of the last failure */
	char where[300];          /* for logs */
	char state[WIRE_FAULT_MAX + 32];

	struct wire *wire;
	struct asks waiting; /* for the first connection */
	struct asks sent;    /* on the wire, in the order of the replies */
	struct asks ended;   /* to be given back to the owner */
	bool giving_back;
	struct buf request; /* reused */

	uv_timer_t timer;
	int64_t armed_us; /* when it fires; INT64_MAX: never */
	int64_t attempt_us, connect_by_us, retry_us;

	uv_getaddrinfo_t lookup;
	bool looking_up;
	struct addrinfo *found, *next_address;
	bool timer_alive;
};

static void settle(struct redis *r);

/* To the owner by and by: from settle(), so never from within a call of his. */
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

	if (at_us >= r->armed_us || r->status == REDIS_CLOSED)
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
 * Sending
 */

/* Puts r->request on the wire. */
static bool send_ask(struct redis *r, struct ask *a)
{
	if (!buf_ok(&r->request))
		wire_fail(r->wire, "out of memory");
	if (!wire_send(r->wire, buf_view(&r->request), a))
		return false;
	asks_push(&r->sent, a);
	return true;
}

static void send_take(struct redis *r, struct ask *a)
{
	buf_reset(&r->request);
	script_put_take(&r->request, a->replayed ? SCRIPT_WHOLE : SCRIPT_BY_SHA,
		a->take->tiers, a->take->n_tiers, SCRIPT_REDIS_TIME);
	if (!send_ask(r, a))
		end(r, a, false);
}

static void send_step(struct redis *r, enum greeting_step step)
{
	struct ask *a;

	buf_reset(&r->request);
	greeting_put(&r->request, r->config, step);
	if (r->request.n == 0 && buf_ok(&r->request))
		return;
	a = ask_new(NULL, clock_mono_us());
	if (!a) {
		wire_fail(r->wire, "out of memory");
		return;
	}
	a->greeting = true;
	a->step = step;
	if (!send_ask(r, a))
		ask_free(a);
	else if (step == GREETING_LOAD)
		r->loading = true;
}

static void greet(struct redis *r)
{
	r->greeted = false;
	r->loading = false;
	for (unsigned step = 0; step < GREETING_STEPS; step++)
		send_step(r, step);
}

/*
 * Replies
 */

static void read_step(struct redis *r, enum greeting_step step, const redisReply *reply)
{
	char why[WIRE_FAULT_MAX];

	if (!greeting_check(step, reply, why, sizeof(why))) {
		wire_fail(r->wire, why);
	} else if (step == GREETING_LOAD) {
		r->greeted = true;
		r->loading = false;
	}
}

/* The script cache was flushed: nothing was counted. The text itself is sent, which
 * another flush cannot hurt; it is also loaded, because later versions of Redis may
 * drop what came by EVAL alone. */
static void replay(struct redis *r, struct ask *a)
{
	if (!r->loading)
		send_step(r, GREETING_LOAD);
	a->replayed = true;
	send_take(r, a);
	wake_by(r, a->asked_us + timeout_us(r));
}

static bool is_noscript(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR &&
		view_starts(view_of(reply->str, reply->len), VIEW("NOSCRIPT"));
}

/* A Redis that greets well and then fails at each question (out of memory, read-only)
 * is not up, or the log would say so twice a second. */
static void log_up(struct redis *r)
{
	if (r->logged_down)
		log_notice("redis is up", LOG_STR("redis", r->where));
	r->logged_down = false;
}

static void read_take(struct redis *r, struct ask *a, const redisReply *reply)
{
	struct take *t = a->take;

	if (is_noscript(reply) && !a->replayed) {
		if (t)
			replay(r, a);
		else
			ask_free(a);
		return;
	}
	if (reply->type == REDIS_REPLY_ERROR) {
		wire_fail(r->wire, reply->str);
		end(r, a, false);
		return;
	}
	/* That of a cancelled question cannot be checked: how many tiers it had is gone
	 * with it. It was charged, which is right: it had been asked. */
	if (!t || script_parse(reply, t->n_tiers, &t->admitted, t->views)) {
		log_up(r);
		end(r, a, true);
		return;
	}
	wire_fail(r->wire, "EVALSHA: not the reply to it");
	end(r, a, false);
}

static void on_reply(void *owner, void *tag, const redisReply *reply)
{
	struct redis *r = owner;
	struct ask *a = r->sent.head;

	if (a != tag) {
		wire_fail(r->wire, "replies out of order");
		return;
	}
	asks_pop(&r->sent);
	if (!a->greeting) {
		read_take(r, a, reply);
	} else {
		read_step(r, a->step, reply);
		ask_free(a);
	}
}

static void on_woken(void *owner)
{
	settle(owner);
}

static const struct wire_events wire_events = { .reply = on_reply, .woken = on_woken };

/*
 * Up and down
 */

static void set_why(struct redis *r, const char *why)
{
	snprintf(r->why, sizeof(r->why), "%s", why);
}

/* From now on nobody waits, until the connection is ready. */
static void say_down(struct redis *r)
{
	end_all(r, &r->waiting);
	r->down = true;
	if (!r->logged_down)
		log_warn("redis is down", LOG_STR("redis", r->where),
			LOG_STR("reason", r->why));
	r->logged_down = true;
}

static void say_up(struct redis *r)
{
	struct ask *a;

	r->status = REDIS_READY;
	count_one(COUNT_store_connects);
	r->down = false;
	while ((a = asks_pop(&r->waiting))) {
		if (a->take)
			send_take(r, a);
		else
			ask_free(a);
	}
}

static void hang_up(struct redis *r)
{
	wire_close(r->wire);
	r->wire = NULL;
	end_all(r, &r->sent);
}

static void forget_addresses(struct redis *r)
{
	uv_freeaddrinfo(r->found);
	r->found = r->next_address = NULL;
}

/* One failed attempt, or one connection lost. */
static void fail(struct redis *r)
{
	count_one(COUNT_store_failures);
	say_down(r);
	hang_up(r);
	forget_addresses(r);
	r->status = REDIS_WAITING;
	r->retry_us = r->attempt_us + REDIS_RETRY_MS * US_PER_MS;
	wake_by(r, r->retry_us);
}

static void call(struct redis *r, const struct sockaddr *to)
{
	char why[WIRE_FAULT_MAX];

	r->status = REDIS_GREETING;
	r->wire = wire_open(r->loop, to, &wire_events, r, why);
	if (!r->wire) {
		set_why(r, why);
		return;
	}
	greet(r);
	wake_by(r, wire_fault(r->wire) ? 0 : r->connect_by_us);
}

/* Calls one address after the other until one does not fail at once. */
static void call_next(struct redis *r)
{
	while (!r->wire && r->next_address) {
		const struct sockaddr *to = r->next_address->ai_addr;

		r->next_address = r->next_address->ai_next;
		call(r, to);
	}
	if (!r->wire)
		fail(r);
}

static void set_connect_by(struct redis *r)
{
	int64_t ms = r->config->store.timeout_ms;

	if (ms < REDIS_CONNECT_LEAST_MS)
		ms = REDIS_CONNECT_LEAST_MS;
	r->connect_by_us = clock_mono_us() + ms * US_PER_MS;
}

static void on_lookup(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
	struct redis *r = req->data;
	r->looking_up = false;
	if (r->status == REDIS_CLOSED) {
		uv_freeaddrinfo(found);
		if (!r->timer_alive) {
			r->events->closed(r->owner);
			free(r);
		}
		return;
	}
	if (status < 0) {
		snprintf(r->why, sizeof(r->why), "no address for \"%s\": %s",
			r->config->store.host, uv_strerror(status));
		fail(r);
	} else {
		r->found = r->next_address = found;
		set_why(r, "no address");
		set_connect_by(r);
		call_next(r);
	}
	settle(r);
}

/* A look-up has no time limit but the resolver's; it holds up nobody but itself. */
static void look_up(struct redis *r)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	char port[16];
	int err;

	snprintf(port, sizeof(port), "%u", r->config->store.port);
	r->status = REDIS_LOOKUP;
	r->lookup.data = r;
	err = uv_getaddrinfo(
		r->loop, &r->lookup, on_lookup, r->config->store.host, port, &hints);
	if (err) {
		set_why(r, uv_strerror(err));
		fail(r);
	} else {
		r->looking_up = true;
	}
}

static void attempt(struct redis *r)
{
	r->attempt_us = clock_mono_us();
	if (r->config->store.host) {
		look_up(r);
		return;
	}
	set_connect_by(r);
	call(r, (const struct sockaddr *)&r->config->store.addr.ss);
	if (!r->wire)
		fail(r);
}

/* Redis closes connections that are idle for its "timeout", and when it ends. Nothing
 * is lost, so this is like the start: questions may wait for the new connection. */
static bool may_call_again(const struct redis *r)
{
	return r->status == REDIS_READY && wire_left_idle(r->wire) &&
		clock_mono_us() >= r->attempt_us + REDIS_RETRY_MS * US_PER_MS;
}

/* Draws the consequences of what has happened; all that could be in its way (hiredis,
 * the owner) has returned. */
static void settle(struct redis *r)
{
	if (r->status == REDIS_GREETING && r->greeted && !wire_fault(r->wire))
		say_up(r);
	if (r->wire && wire_fault(r->wire)) {
		set_why(r, wire_fault(r->wire));
		if (r->status == REDIS_GREETING && r->next_address) {
			hang_up(r);
			call_next(r);
		} else if (may_call_again(r)) {
			hang_up(r);
			forget_addresses(r);
			attempt(r);
		} else {
			fail(r);
		}
	}
	give_back(r);
}

/*
 * Time passes
 */

static void expire_waiting(struct redis *r, int64_t now_us)
{
	if (deadline_us(r, &r->waiting) > now_us)
		return;
	snprintf(r->why, sizeof(r->why), "not connected within %lld ms",
		(long long)r->config->store.timeout_ms);
	say_down(r);
}

static void expire_sent(struct redis *r, int64_t now_us)
{
	char why[WIRE_FAULT_MAX];

	if (deadline_us(r, &r->sent) > now_us)
		return;
	/* Timers run before sockets: when it was the loop that was late, the answers
	 * are there. */
	wire_read(r->wire);
	if (deadline_us(r, &r->sent) > now_us)
		return;
	snprintf(why, sizeof(why), "no answer within %lld ms",
		(long long)r->config->store.timeout_ms);
	wire_fail(r->wire, why);
}

static void on_timer(uv_timer_t *timer)
{
	struct redis *r = CONTAINER_OF(timer, struct redis, timer);
	int64_t now_us = clock_mono_us();

	r->armed_us = INT64_MAX;
	if (r->status == REDIS_WAITING && now_us >= r->retry_us)
		attempt(r);
	if (r->status == REDIS_GREETING && now_us >= r->connect_by_us) {
		wire_fail(r->wire, "connecting takes too long");
		r->next_address = NULL;
	}
	expire_waiting(r, now_us);
	if (r->status == REDIS_READY)
		expire_sent(r, now_us);
	settle(r);

	wake_by(r, deadline_us(r, &r->waiting));
	if (r->status == REDIS_WAITING)
		wake_by(r, r->retry_us);
	if (r->status == REDIS_GREETING)
		wake_by(r, r->connect_by_us);
	if (r->status == REDIS_READY)
		wake_by(r, deadline_us(r, &r->sent));
}

/*
 * For the owner
 */

bool redis_asks(const struct redis *r)
{
	return r->status != REDIS_CLOSED && !r->down && !(r->wire && wire_fault(r->wire));
}

bool redis_take(struct redis *r, struct take *t)
{
	struct ask *a;

	if (!redis_asks(r))
		return false;
	a = ask_new(t, clock_mono_us());
	if (!a)
		return false;
	if (r->status == REDIS_READY)
		send_take(r, a);
	else
		asks_push(&r->waiting, a);
	wake_by(r, r->wire && wire_fault(r->wire) ? 0 : a->asked_us + timeout_us(r));
	return true;
}

static void write_where(struct redis *r)
{
	const struct net_addr *to = &r->config->store.addr;
	const struct sockaddr *sa = (const struct sockaddr *)&to->ss;
	char host[INET6_ADDRSTRLEN] = "";

	if (r->config->store.host)
		snprintf(r->where, sizeof(r->where), "%s:%u", r->config->store.host,
			r->config->store.port);
	else if (sa->sa_family == AF_UNIX)
		snprintf(r->where, sizeof(r->where), "%s",
			((const struct sockaddr_un *)sa)->sun_path);
	else if (uv_ip_name(sa, host, sizeof(host)) == 0)
		snprintf(r->where, sizeof(r->where),
			sa->sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
			net_addr_port(to));
}

struct redis *redis_new(uv_loop_t *loop, const struct config *c,
	const struct redis_events *events, void *owner)
{
	struct redis *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->loop = loop;
	r->config = c;
	r->events = events;
	r->owner = owner;
	r->armed_us = INT64_MAX;
	asks_init(&r->waiting);
	asks_init(&r->sent);
	asks_init(&r->ended);
	uv_timer_init(loop, &r->timer);
	r->timer_alive = true;
	write_where(r);
	attempt(r);
	return r;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct redis *r = CONTAINER_OF((uv_timer_t *)handle, struct redis, timer);

	r->timer_alive = false;
	if (r->looking_up)
		return;
	r->events->closed(r->owner);
	free(r);
}

void redis_reload(struct redis *r, const struct config *c)
{
	r->config = c;
}

void redis_close(struct redis *r)
{
	if (r->status == REDIS_CLOSED)
		return;
	r->status = REDIS_CLOSED;
	hang_up(r);
	asks_release(&r->ended);
	asks_release(&r->waiting);
	forget_addresses(r);
	buf_release(&r->request);
	if (r->looking_up)
		uv_cancel((uv_req_t *)&r->lookup);
	uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

const char *redis_state(struct redis *r)
{
	if (r->down)
		snprintf(r->state, sizeof(r->state), "redis (down: %s)", r->why);
	else
		snprintf(r->state, sizeof(r->state), "redis%s",
			r->status == REDIS_READY ? "" : " (connecting)");
	return r->state;
}
