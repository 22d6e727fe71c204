/*
 * worker.c - see worker.h.
 *
 * Others leave word in the inbox, under its lock, and wake the loop; the loop empties
 * the inbox in its own time. Nothing else here is shared.
 */
#include "worker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/log.h"
#include "base/thread.h"
#include "ending.h"
#include "exchange.h"
#include "front/connection.h"
#include "proxy/idle.h"
#include "proxy/relay.h"

#define STATE_EVERY_MS 200 /* how often the state others may read is renewed */

struct worker {
	pthread_t thread;
	uv_loop_t loop;
	uv_async_t wake;
	uv_timer_t state_timer;
	struct connections connections;
	struct exchanges exchanges;
	struct config *config;
	bool stopping, forced;
	bool lingers; /* the look-up of a name has not ended; for worker_join() */

	atomic_size_t load;
	atomic_uint slot;
	atomic_bool ended;

	pthread_mutex_t lock; /* guards everything below */
	int *fds;             /* accepted, not yet taken over */
	size_t fds_n, fds_cap;
	struct config *reload; /* takes w->config's place; a reference */
	bool stop, force, make_room;
	bool deaf; /* wake is closed: word left now is not heard */
	char store_state[STORE_STATE_MAX];
	bool store_up;
};

static void publish_state(uv_timer_t *t)
{
	struct worker *w = t->data;
	const char *state = store_state(w->exchanges.store);

	pthread_mutex_lock(&w->lock);
	snprintf(w->store_state, sizeof(w->store_state), "%s", state);
	w->store_up = store_up(w->exchanges.store);
	pthread_mutex_unlock(&w->lock);
}

/* Once nothing is left to serve, also of what goes on without a client, closes what keeps
 * the loop alive. */
static void end_if_idle(struct worker *w)
{
	if (!w->stopping || w->connections.n || uv_is_closing((uv_handle_t *)&w->wake))
		return;
	if (relays_are_alone() && !w->forced)
		return;
	pthread_mutex_lock(&w->lock);
	w->deaf = true;
	pthread_mutex_unlock(&w->lock);
	uv_close((uv_handle_t *)&w->wake, NULL);
	uv_close((uv_handle_t *)&w->state_timer, NULL);
	connections_release(&w->connections);
	relays_end();
	store_close(w->exchanges.store);
	uv_stop(&w->loop); /* what is left of it is loop_end()'s */
}

static void connection_closed(void *owner)
{
	struct exchanges *exchanges = owner;
	struct worker *w = CONTAINER_OF(exchanges, struct worker, exchanges);

	atomic_fetch_sub(&w->load, 1);
	end_if_idle(w);
}

static void none_alone(void *arg)
{
	end_if_idle(arg);
}

static void take_config(struct worker *w, struct config *c)
{
	config_unref(w->config);
	w->config = c;
	w->exchanges.config = c;
	connections_configure(&w->connections, c);
	store_reload(w->exchanges.store, c);
	idle_configure(c);
}

static void look_in_inbox(uv_async_t *wake)
{
	struct worker *w = wake->data;
	struct config *reload;
	size_t n;
	int *fds;
	bool stop, force, make_room;

	pthread_mutex_lock(&w->lock);
	fds = w->fds;
	n = w->fds_n;
	w->fds = NULL;
	w->fds_n = w->fds_cap = 0;
	stop = w->stop;
	force = w->force;
	make_room = w->make_room;
	w->make_room = false;
	reload = w->reload;
	w->reload = NULL;
	pthread_mutex_unlock(&w->lock);
	if (reload)
		take_config(w, reload);
	for (size_t i = 0; i < n; i++)
		if (!connections_add(&w->connections, fds[i]))
			atomic_fetch_sub(&w->load, 1);
	free(fds);
	if (make_room)
		connections_make_room(&w->connections);
	if (stop) {
		w->stopping = true;
		connections_stop(&w->connections);
	}
	if (force) {
		w->forced = true;
		connections_break(&w->connections);
	}
	end_if_idle(w);
}

static void *serve(void *arg)
{
	struct worker *w = arg;

	w->slot = counters_join();
	relays_tell(none_alone, w);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	w->lingers = !loop_end(&w->loop);
	config_unref(w->config);
	atomic_store(&w->ended, true);
	return NULL;
}

struct worker *worker_start(unsigned number, struct config *c, struct store_shared *shared,
	struct directory *directory, struct buf *why)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err;

	if (!w || uv_loop_init(&w->loop) < 0) {
		buf_add_str(why, "out of memory or descriptors");
		free(w);
		return NULL;
	}
	w->config = config_ref(c);
	w->store_up = true; /* until publish_state() knows better */
	pthread_mutex_init(&w->lock, NULL);
	uv_async_init(&w->loop, &w->wake, look_in_inbox);
	w->wake.data = w;
	uv_timer_init(&w->loop, &w->state_timer);
	w->state_timer.data = w;
	uv_unref((uv_handle_t *)&w->state_timer);
	connections_init(&w->connections, &w->loop, &exchange_events, &w->exchanges,
		connection_closed);
	connections_configure(&w->connections, w->config);
	w->exchanges = (struct exchanges){
		.loop = &w->loop, .config = w->config, .directory = directory
	};
	w->exchanges.store = store_new(&w->loop, c, shared);
	uv_timer_start(&w->state_timer, publish_state, 0, STATE_EVERY_MS);
	err = w->exchanges.store ? thread_start(&w->thread, serve, w) : ENOMEM;
	if (err) {
		buf_addf(why, "cannot start worker %u: %s", number, strerror(err));
		/* The process ends here; the loop and its handles go with it. */
		return NULL;
	}
	return w;
}

void worker_give(struct worker *w, int fd)
{
	bool taken;

	pthread_mutex_lock(&w->lock);
	taken = !w->deaf;
	if (taken && w->fds_n == w->fds_cap) {
		size_t cap = w->fds_cap ? w->fds_cap * 2 : 16;
		int *fds = realloc(w->fds, cap * sizeof(*fds));

		taken = fds != NULL;
		if (taken) {
			w->fds = fds;
			w->fds_cap = cap;
		}
	}
	if (taken) {
		w->fds[w->fds_n++] = fd;
		atomic_fetch_add(&w->load, 1);
		uv_async_send(&w->wake);
	}
	pthread_mutex_unlock(&w->lock);
	if (!taken)
		close(fd);
}

size_t worker_load(const struct worker *w)
{
	return atomic_load(&w->load);
}

void worker_make_room(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->make_room = true;
	if (!w->deaf)
		uv_async_send(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

void worker_reload(struct worker *w, struct config *c)
{
	pthread_mutex_lock(&w->lock);
	if (!w->deaf) {
		config_unref(w->reload);
		w->reload = config_ref(c);
		uv_async_send(&w->wake);
	}
	pthread_mutex_unlock(&w->lock);
}

void worker_stop(struct worker *w, bool by_force)
{
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	w->force = w->force || by_force;
	if (!w->deaf)
		uv_async_send(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

bool worker_ended(const struct worker *w)
{
	return atomic_load(&w->ended);
}

bool worker_join(struct worker *w)
{
	pthread_join(w->thread, NULL);
	if (w->lingers)
		return false;
	pthread_mutex_destroy(&w->lock);
	free(w->fds);
	config_unref(w->reload);
	free(w);
	return true;
}

unsigned worker_slot(const struct worker *w)
{
	return atomic_load(&w->slot);
}

bool worker_store_state(struct worker *w, char *out, size_t cap)
{
	bool up;

	pthread_mutex_lock(&w->lock);
	snprintf(out, cap, "%s", w->store_state);
	up = w->store_up;
	pthread_mutex_unlock(&w->lock);
	return up;
}
