#include "store/link.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/counters.h"
#include "store/greeting.h"
#include "store/servers.h"

enum link_status {
	LINK_WAITING,  /* until retry_us, when the next attempt may begin */
	LINK_LOOKUP,   /* until the host name has addresses */
	LINK_GREETING, /* connecting, until all of the greeting is answered */
	LINK_READY,    /* commands are answered as they come */
	LINK_CLOSED,   /* until the loop has let go of timer and look-up */
};

struct link {
	uv_loop_t *loop;
	const struct config *config; /* the latest */
	struct health *health;
	const struct link_events *events;
	void *owner;

	enum link_status status;
	bool down;        /* nobody waits for it */
	bool failed;      /* health's mark */
	bool greeted;     /* the greeting's last answer was right */
	bool loading;     /* SCRIPT LOAD is on the wire */
	unsigned turn;    /* to probe, or 0 */
	int64_t tried_us; /* when GREETING_TRY was sent; 0: it is not on the wire */
	int64_t took_us;  /* what the last one took */
	char why[HEALTH_WHY_MAX];

	struct wire *wire;
	/* Their addresses are the tags of the greeting's commands. */
	char steps[GREETING_STEPS];

	uv_timer_t timer;
	bool timer_alive;
	int64_t armed_us; /* when it fires; INT64_MAX: never */
	int64_t attempt_us, retry_us;
	int64_t by_us; /* connecting or a probe must be done */

	struct servers servers;
};

static void settle(struct link *l);
static void on_timer(uv_timer_t *timer);

static void wake_by(struct link *l, int64_t at_us)
{
	int64_t left_us = at_us - clock_mono_us();

	if (at_us >= l->armed_us || l->status == LINK_CLOSED)
		return;
	l->armed_us = at_us;
	uv_timer_start(&l->timer, on_timer,
		left_us > 0 ? (uint64_t)((left_us + US_PER_MS - 1) / US_PER_MS) : 0, 0);
}

/*
 * Sending. What fails outside of an event of the wire is seen to by the timer.
 */

void link_fail(struct link *l, const char *why)
{
	if (!l->wire)
		return;
	wire_fail(l->wire, why);
	wake_by(l, 0);
}

bool link_send(struct link *l, struct view request, void *tag)
{
	if (l->wire && wire_send(l->wire, request, tag))
		return true;
	wake_by(l, 0);
	return false;
}

static void send_step(struct link *l, enum greeting_step step)
{
	struct buf request = { 0 };

	greeting_put(&request, l->config, servers_current(&l->servers), step);
	if (!buf_ok(&request))
		link_fail(l, "out of memory");
	else if (request.n && link_send(l, buf_view(&request), &l->steps[step])) {
		l->loading |= step == GREETING_LOAD;
		if (step == GREETING_TRY)
			l->tried_us = clock_mono_us();
	}
	buf_release(&request);
}

void link_load_script(struct link *l)
{
	if (!l->loading)
		send_step(l, GREETING_LOAD);
}

static void greet(struct link *l)
{
	l->greeted = false;
	l->loading = false;
	l->tried_us = 0;
	for (unsigned step = 0; step < GREETING_TRY; step++)
		send_step(l, step);
}

/*
 * Replies
 */

/* The last step is asked when the others are done, so that what it takes is Redis's
 * own time. */
static void has_loaded(struct link *l)
{
	l->loading = false;
	if (l->status == LINK_GREETING && !l->greeted && !l->tried_us)
		send_step(l, GREETING_TRY);
}

static void has_tried(struct link *l)
{
	l->took_us = clock_mono_us() - l->tried_us;
	l->tried_us = 0;
	l->greeted = true;
}

static void read_step(struct link *l, enum greeting_step step, const redisReply *reply)
{
	char why[WIRE_FAULT_MAX];

	if (!greeting_check(step, reply, why, sizeof(why)))
		wire_fail(l->wire, why);
	else if (step == GREETING_LOAD)
		has_loaded(l);
	else if (step == GREETING_TRY)
		has_tried(l);
}

static void on_reply(void *owner, void *tag, const redisReply *reply)
{
	struct link *l = owner;
	const char *step = tag;

	if (step >= l->steps && step < l->steps + GREETING_STEPS)
		read_step(l, (enum greeting_step)(step - l->steps), reply);
	else
		l->events->reply(l->owner, tag, reply);
}

static void on_woken(void *owner)
{
	settle(owner);
}

static const struct wire_events wire_events = { .reply = on_reply, .woken = on_woken };

/*
 * Up and down
 */

static void set_why(struct link *l, const char *why)
{
	snprintf(l->why, sizeof(l->why), "%s", why);
}

/* Of several that were called each has its reason. */
static void add_why(struct link *l, const char *why)
{
	size_t n = l->servers.at ? strlen(l->why) : 0;

	if (l->servers.config->store.n_servers == 1)
		set_why(l, why);
	else
		snprintf(l->why + n, sizeof(l->why) - n, "%s%s: %s", n ? "; " : "",
			l->servers.where, why);
}

static void say_down(struct link *l)
{
	l->down = true;
	l->events->down(l->owner);
}

void link_give_up(struct link *l, const char *why)
{
	set_why(l, why);
	say_down(l);
}

/* The turn's probe has ended, if this link had it. */
static void end_turn(struct link *l, bool good)
{
	if (l->turn)
		health_probed(l->health, l->config, l->turn, l->took_us, good);
	l->turn = 0;
}

static void say_up(struct link *l)
{
	l->status = LINK_READY;
	l->down = false;
	set_why(l, "");
	count_one(COUNT_store_connects);
	health_up(l->health, &l->failed, l->servers.where);
	l->events->ready(l->owner);
}

static void hang_up(struct link *l)
{
	wire_close(l->wire);
	l->wire = NULL;
	l->events->lost(l->owner);
}

/* One failed attempt, or one connection lost. */
static void fail(struct link *l)
{
	say_down(l);
	hang_up(l);
	l->status = LINK_WAITING;
	l->retry_us = l->attempt_us + LINK_RETRY_MS * US_PER_MS;
	health_failed(l->health, l->config, &l->failed, l->servers.where, l->why);
	end_turn(l, false);
	wake_by(l, l->retry_us);
}

/*
 * An attempt: one server after the other, and of each one address after the other.
 */

/* What one address may take. */
static int64_t connect_us(const struct link *l)
{
	int64_t ms = l->config->store.timeout_ms;

	return (ms < LINK_CONNECT_LEAST_MS ? LINK_CONNECT_LEAST_MS : ms) * US_PER_MS;
}

/* When to look at a greeting again: without a turn it may have to end before its time. */
static int64_t look_us(const struct link *l)
{
	int64_t soon_us = clock_mono_us() + LINK_LOOK_MS * US_PER_MS;

	return l->turn || l->by_us < soon_us ? l->by_us : soon_us;
}

/* False, with a sentence in why, when it failed here and now. */
static bool call(struct link *l, const struct sockaddr *to, char why[static WIRE_FAULT_MAX])
{
	l->status = LINK_GREETING;
	l->wire = wire_open(l->loop, to, &wire_events, l, why);
	if (!l->wire)
		return false;
	l->by_us = clock_mono_us() + connect_us(l);
	greet(l);
	wake_by(l, wire_fault(l->wire) ? 0 : look_us(l));
	return true;
}

/* While the breaker is open only one link calls, and that call is the probe. */
static bool may_call(struct link *l)
{
	if (health_asks(l->health))
		return true;
	l->turn = health_go_on(l->health, l->config, l->turn, connect_us(l));
	return l->turn;
}

/* The probe is another's; nothing more has failed. What is wrong is what the breaker says,
 * unless that has just been healed. */
static void stand_back(struct link *l)
{
	if (!l->down) {
		health_why(l->health, l->why, sizeof(l->why));
		if (!*l->why)
			set_why(l, "another connection was asking");
	}
	say_down(l);
	l->status = LINK_WAITING;
	l->retry_us = l->attempt_us + LINK_RETRY_MS * US_PER_MS;
	wake_by(l, l->retry_us);
}

/* Calls one address after the other until one does not fail at once. failed is what became
 * of the last. */
static void call_next(struct link *l, const char *failed)
{
	const struct sockaddr *to;
	char why[WIRE_FAULT_MAX];

	snprintf(why, sizeof(why), "%s", failed);
	for (;;) {
		switch (servers_next(&l->servers, &to)) {
		case SERVERS_ADDRESS:
			if (!may_call(l)) {
				stand_back(l);
				return;
			}
			if (call(l, to, why))
				return;
			break;
		case SERVERS_LATER:
			l->status = LINK_LOOKUP;
			health_lend(l->health, l->turn);
			return;
		case SERVERS_NONE:
			add_why(l, *l->servers.why ? l->servers.why : why);
			if (!servers_advance(&l->servers)) {
				fail(l);
				return;
			}
			break;
		}
	}
}

static void free_when_unused(struct link *l)
{
	if (l->servers.looking_up || l->timer_alive)
		return;
	servers_release(&l->servers);
	l->events->closed(l->owner);
	free(l);
}

static void on_found(void *owner)
{
	struct link *l = owner;

	if (l->status == LINK_CLOSED) {
		free_when_unused(l);
		return;
	}
	call_next(l, "no address");
	settle(l);
}

static void attempt(struct link *l)
{
	l->attempt_us = clock_mono_us();
	servers_rewind(&l->servers);
	call_next(l, "");
}

static void attempt_if_due(struct link *l, int64_t now_us)
{
	if (now_us < l->retry_us)
		return;
	if (!health_asks(l->health)) {
		l->turn = health_turn(l->health, l->config, connect_us(l));
		if (!l->turn) {
			l->retry_us = now_us + LINK_LOOK_MS * US_PER_MS;
			return;
		}
	}
	attempt(l);
}

/* Redis closes connections that are idle for its "timeout", and when it ends. Nothing
 * is lost, so this is like the start: questions may wait for the new connection. */
static bool may_call_again(const struct link *l)
{
	return l->status == LINK_READY && wire_left_idle(l->wire) && !l->turn &&
		health_asks(l->health) &&
		clock_mono_us() >= l->attempt_us + LINK_RETRY_MS * US_PER_MS;
}

/* What is wrong with the wire is drawn to an end. */
static void end_wire(struct link *l)
{
	char why[WIRE_FAULT_MAX];

	snprintf(why, sizeof(why), "%s", wire_fault(l->wire));
	if (l->status == LINK_GREETING) {
		hang_up(l);
		call_next(l, why);
	} else if (may_call_again(l)) {
		hang_up(l);
		attempt(l);
	} else {
		set_why(l, why);
		fail(l);
	}
}

/* Draws the consequences of what has happened; all that could be in its way (hiredis,
 * the owner) has returned. */
static void settle(struct link *l)
{
	bool good = l->greeted && l->wire && !wire_fault(l->wire);

	if (good && !l->tried_us)
		end_turn(l, true);
	if (good && l->status == LINK_GREETING)
		say_up(l);
	if (l->wire && wire_fault(l->wire))
		end_wire(l);
	if (l->status == LINK_READY && !health_asks(l->health))
		link_poke(l);
	l->events->woken(l->owner);
}

/*
 * Time passes
 */

/* Connected, and the breaker is open: one more count, if it is this link's turn. */
static void probe_if_due(struct link *l)
{
	int64_t step_us;

	if (l->turn || health_asks(l->health))
		return;
	step_us = l->config->store.timeout_ms * US_PER_MS;
	l->turn = health_turn(l->health, l->config, step_us);
	if (!l->turn)
		return;
	l->by_us = clock_mono_us() + step_us;
	send_step(l, GREETING_TRY);
}

/* Timers run before sockets: when it was the loop that was late, the answer is there. So it
 * is with a greeting. */
static void probe_expires(struct link *l, int64_t now_us)
{
	if (!l->tried_us || now_us < l->by_us)
		return;
	wire_read(l->wire);
	if (l->tried_us)
		wire_fail(l->wire, "no answer to a probe in time");
}

static void look_at_greeting(struct link *l, int64_t now_us)
{
	wire_read(l->wire);
	if (l->greeted || wire_fault(l->wire))
		return;
	if (now_us >= l->by_us) {
		wire_fail(l->wire, "connecting takes too long");
	} else if (!l->turn && !health_asks(l->health)) {
		hang_up(l);
		stand_back(l);
	}
}

static void on_timer(uv_timer_t *timer)
{
	struct link *l = CONTAINER_OF(timer, struct link, timer);
	int64_t now_us = clock_mono_us();

	l->armed_us = INT64_MAX;
	if (l->status == LINK_WAITING) {
		attempt_if_due(l, now_us);
	} else if (l->status == LINK_GREETING) {
		look_at_greeting(l, now_us);
	} else if (l->status == LINK_READY) {
		probe_expires(l, now_us);
		if (!wire_fault(l->wire))
			probe_if_due(l);
	}
	settle(l);
	if (l->status == LINK_WAITING)
		wake_by(l, l->retry_us);
	if (l->status == LINK_GREETING)
		wake_by(l, look_us(l));
	if (l->status == LINK_READY && l->tried_us)
		wake_by(l, l->by_us);
}

/*
 * For the owner
 */

bool link_is_ready(const struct link *l)
{
	return l->status == LINK_READY && !wire_fault(l->wire);
}

bool link_is_hopeful(const struct link *l)
{
	return l->status != LINK_CLOSED && !l->down && !(l->wire && wire_fault(l->wire));
}

void link_read(struct link *l)
{
	if (l->wire)
		wire_read(l->wire);
}

void link_poke(struct link *l)
{
	wake_by(l, clock_mono_us() + LINK_LOOK_MS * US_PER_MS);
}

const char *link_why(const struct link *l)
{
	return l->down ? l->why : NULL;
}

const char *link_where(const struct link *l)
{
	return l->servers.where;
}

struct link *link_new(uv_loop_t *loop, struct config *c, struct health *health,
	const struct link_events *events, void *owner)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->loop = loop;
	l->config = c;
	l->health = health;
	l->events = events;
	l->owner = owner;
	l->armed_us = INT64_MAX;
	uv_timer_init(loop, &l->timer);
	l->timer_alive = true;
	servers_init(&l->servers, loop, c, on_found, l);
	wake_by(l, 0);
	return l;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct link *l = CONTAINER_OF((uv_timer_t *)handle, struct link, timer);

	l->timer_alive = false;
	free_when_unused(l);
}

void link_reload(struct link *l, const struct config *c)
{
	l->config = c;
}

void link_close(struct link *l)
{
	if (l->status == LINK_CLOSED)
		return;
	l->status = LINK_CLOSED;
	end_turn(l, false);
	health_leave(l->health, &l->failed);
	wire_close(l->wire);
	l->wire = NULL;
	servers_stop(&l->servers);
	uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}
