/*
 * client/directory.c - see directory.h.
 *
 * A look-up is an ask: it waits in a queue for a thread, each of which has a connection
 * of its own, leaves what it found in the cache, and is told on the loop it came from. Two
 * asks for one key may be under way at once; neither knows of the other, so no worker ever
 * waits for another's loop.
 *
 * An ask is told once and freed later: by the time a thread is done with it, its client
 * may be gone or tired of waiting, and so may its loop be. Threads that hang in a dead disk
 * hold one ask each, and nobody waits for them; asks in the queue are taken out when they
 * are given up.
 */
#include "client/directory.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/shortage.h"
#include "base/thread.h"
#include "client/cache.h"
#include "client/reader.h"

#define WAIT_MS_DEFAULT 2000
#define RETRY_US        US_PER_S /* from a failure to the next look-up */
#define THREADS_MAX     4 /* after the first, started when asks wait and none is idle */

struct directory {
	atomic_uint refs; /* the owner's, and one for each ask and each thread */
	char *path, *query;
	int64_t wait_ms;
	int64_t (*mono_us)(void);
	int64_t (*wall_us)(void);
	struct cache *cache;
	atomic_bool failing;
	_Atomic int64_t retry_us; /* while it is: when somebody may ask again */
	struct log_gate gate;

	pthread_mutex_t lock; /* guards everything below, and the asks' stage */
	pthread_cond_t called;
	struct directory_ask *first, **last; /* the queue */
	unsigned waiting;                    /* how many are in it */
	unsigned started, idle;              /* threads */
	bool closed;
	struct reader *checked; /* from the opening; the first thread takes it */
};

/* "t" or "u" and what is looked up; as the cache has it. */
struct key {
	char bytes[1 + CLIENT_NAME_MAX];
	size_t n;
};

enum stage {
	ASK_WAITING, /* in the queue */
	ASK_LOOKING, /* a thread has it */
	ASK_LOOKED,  /* and is done: its loop has been called */
	ASK_DROPPED, /* its loop wants no more of it */
};

struct directory_ask {
	struct directory *d;
	enum directory_by by;
	struct key key;
	directory_done *done;
	void *user;

	uv_timer_t patience;
	uv_async_t over;
	atomic_uint parts; /* those two, and the look-up: the last one frees it */

	enum stage stage;
	struct directory_ask *next, **link; /* in the queue */

	/* Written by the thread that has it. */
	enum directory_result result;
	struct found found;
};

/* -- the directory ----------------------------------------------------------------- */

static void unref(struct directory *d)
{
	if (atomic_fetch_sub(&d->refs, 1) > 1)
		return;
	reader_free(d->checked);
	cache_free(d->cache);
	pthread_cond_destroy(&d->called);
	pthread_mutex_destroy(&d->lock);
	free(d->path);
	free(d->query);
	free(d);
}

void directory_close(struct directory *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->closed = true;
	pthread_cond_broadcast(&d->called);
	pthread_mutex_unlock(&d->lock);
	unref(d);
}

/* -- failures --------------------------------------------------------------------- */

static void tell_failure(struct directory *d, struct view why)
{
	uint64_t missed;

	atomic_store(&d->retry_us, d->mono_us() + RETRY_US);
	atomic_store(&d->failing, true);
	if (log_gate_open(&d->gate, clock_mono_us(), &missed))
		log_error("the directory cannot be read", LOG_STR("file", d->path),
			LOG_VIEW("why", why), LOG_INT("suppressed", missed));
}

static void tell_success(struct directory *d)
{
	if (atomic_load_explicit(&d->failing, memory_order_relaxed) &&
		atomic_exchange(&d->failing, false))
		log_notice("the directory can be read again", LOG_STR("file", d->path));
}

/* -- looking up -------------------------------------------------------------------- */

/* False when nobody can have that key. */
static bool make_key(struct key *key, enum directory_by by, struct view v)
{
	if (v.n == 0 || v.n >= sizeof(key->bytes))
		return false;
	key->bytes[0] = by == DIRECTORY_BY_TOKEN ? 't' : 'u';
	memcpy(key->bytes + 1, v.p, v.n);
	key->n = 1 + v.n;
	return true;
}

static struct view key_view(const struct key *key)
{
	return view_of(key->bytes, key->n);
}

static bool is_expired(const struct directory *d, const struct found *f)
{
	return f->expires_s != INT64_MAX && d->wall_us() / US_PER_S >= f->expires_s;
}

/* Nobody asks a directory that failed a moment ago, and then one does. */
static bool is_left_alone(struct directory *d)
{
	int64_t retry_us, now_us;

	if (!atomic_load(&d->failing))
		return false;
	now_us = d->mono_us();
	retry_us = atomic_load(&d->retry_us);
	return now_us < retry_us ||
		!atomic_compare_exchange_strong(&d->retry_us, &retry_us, now_us + RETRY_US);
}

/* What there is to tell when the directory does not answer. */
static enum directory_result say_last(
	struct directory *d, const struct key *key, struct found *found)
{
	enum directory_result result;

	if (!cache_get(d->cache, key_view(key), CACHE_ANY_AGE, &result, found) ||
		result != DIRECTORY_FOUND)
		return DIRECTORY_FAILED;
	return is_expired(d, found) ? DIRECTORY_UNKNOWN : DIRECTORY_STALE;
}

static bool has_entry(enum directory_result result)
{
	return result == DIRECTORY_FOUND || result == DIRECTORY_STALE;
}

bool directory_know(struct directory *d, enum directory_by by, struct view v,
	enum directory_result *result, struct directory_entry *out)
{
	struct found found;
	struct key key;

	if (!make_key(&key, by, v) || (by == DIRECTORY_BY_USER && *d->query)) {
		*result = DIRECTORY_UNKNOWN;
		return true;
	}
	if (cache_get(d->cache, key_view(&key), d->mono_us(), result, &found)) {
		if (*result == DIRECTORY_FOUND && is_expired(d, &found))
			*result = DIRECTORY_UNKNOWN;
	} else if (is_left_alone(d)) {
		*result = say_last(d, &key, &found);
	} else {
		return false;
	}
	if (has_entry(*result))
		*out = found.entry;
	return true;
}

static bool is_dropped(struct directory_ask *a)
{
	bool dropped;

	pthread_mutex_lock(&a->d->lock);
	dropped = a->stage == ASK_DROPPED;
	pthread_mutex_unlock(&a->d->lock);
	return dropped;
}

/* On a thread. *r is its connection, and NULL when it has none. */
static void look(struct directory_ask *a, struct reader **r)
{
	struct directory *d = a->d;
	int64_t asked_us = d->mono_us();
	struct buf why = { 0 };

	if (*r && !reader_is_current(*r)) {
		reader_free(*r);
		*r = NULL;
	}
	if (!*r)
		*r = reader_open(d->path, d->query, (int)d->wait_ms, NULL, &why);
	if (*r)
		a->result = reader_look(
			*r, a->by, view_skip(key_view(&a->key), 1), &a->found);
	if (*r && a->result == DIRECTORY_FAILED) {
		buf_add_str(&why, reader_error(*r));
		reader_free(*r);
		*r = NULL;
	}
	if (a->result != DIRECTORY_FAILED) {
		tell_success(d);
		cache_put(d->cache, key_view(&a->key),
			a->result == DIRECTORY_FOUND ? &a->found : NULL, asked_us);
	} else if (!is_dropped(a)) { /* when it was, that has been told, perhaps long ago */
		tell_failure(d, buf_view(&why));
	}
	buf_release(&why);
}

/* -- the queue and its threads ----------------------------------------------------- */

static void part_is_over(struct directory_ask *a)
{
	if (atomic_fetch_sub(&a->parts, 1) > 1)
		return;
	unref(a->d);
	free(a);
}

/* Both with the lock held. */
static void queue_add(struct directory *d, struct directory_ask *a)
{
	a->stage = ASK_WAITING;
	a->link = d->last;
	*d->last = a;
	d->last = &a->next;
	d->waiting++;
}

static void queue_take(struct directory *d, struct directory_ask *a)
{
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
	else
		d->last = a->link;
	a->next = NULL;
	d->waiting--;
}

/* Waits for one; NULL once the directory is closed and nobody waits. */
static struct directory_ask *next_ask(struct directory *d)
{
	struct directory_ask *a;

	pthread_mutex_lock(&d->lock);
	d->idle++;
	while (!d->first && !d->closed)
		pthread_cond_wait(&d->called, &d->lock);
	d->idle--;
	a = d->first;
	if (a) {
		queue_take(d, a);
		a->stage = ASK_LOOKING;
	}
	pthread_mutex_unlock(&d->lock);
	return a;
}

static void *serve_queue(void *arg)
{
	struct directory *d = arg;
	struct directory_ask *a;
	struct reader *r;

	pthread_mutex_lock(&d->lock);
	r = d->checked;
	d->checked = NULL;
	pthread_mutex_unlock(&d->lock);
	while ((a = next_ask(d)) != NULL) {
		look(a, &r);
		pthread_mutex_lock(&d->lock);
		if (a->stage != ASK_DROPPED) {
			a->stage = ASK_LOOKED;
			uv_async_send(&a->over);
		}
		pthread_mutex_unlock(&d->lock);
		part_is_over(a);
	}
	reader_free(r);
	unref(d);
	return NULL;
}

/* 0 or an errno. Nobody waits for its end, which on a dead disk does not come. */
static int start_thread(struct directory *d)
{
	pthread_t thread;
	int err;

	atomic_fetch_add(&d->refs, 1);
	err = thread_start(&thread, serve_queue, d);
	if (err) {
		atomic_fetch_sub(&d->refs, 1); /* not the last one: the caller has it */
		return err;
	}
	pthread_detach(thread);
	d->started++;
	return 0;
}

static void enqueue(struct directory *d, struct directory_ask *a)
{
	pthread_mutex_lock(&d->lock);
	queue_add(d, a);
	/* Where there can be no further one, those there are come to it. */
	if (d->waiting > d->idle && d->started < THREADS_MAX)
		shortage_seen(start_thread(d), "a thread for look-ups");
	pthread_cond_signal(&d->called);
	pthread_mutex_unlock(&d->lock);
}

/* -- opening ----------------------------------------------------------------------- */

static bool start_first(struct directory *d, struct buf *why)
{
	int err = start_thread(d);

	if (err)
		buf_addf(why,
			"there can be no thread to read %s: %s; look at TasksMax and "
			"ulimit -u",
			d->path, strerror(err));
	return !err;
}

struct directory *directory_open(const struct directory_options *o, struct buf *why)
{
	struct directory *d = calloc(1, sizeof(*d));

	if (!d) {
		buf_add_str(why, "out of memory");
		return NULL;
	}
	atomic_init(&d->refs, 1);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->called, NULL);
	d->last = &d->first;
	d->path = strdup(o->path);
	d->query = strdup(o->query ? o->query : "");
	d->wait_ms = o->wait_ms > 0 ? o->wait_ms : WAIT_MS_DEFAULT;
	d->mono_us = o->mono_us ? o->mono_us : clock_mono_us;
	d->wall_us = o->wall_us ? o->wall_us : clock_wall_us;
	d->cache = cache_new(
		o->cache_entries, o->ttl_ms * US_PER_MS, o->miss_ttl_ms * US_PER_MS);
	if (d->path && d->query && d->cache)
		d->checked = reader_open(d->path, d->query, (int)d->wait_ms, NULL, why);
	else
		buf_add_str(why, "out of memory");
	if (d->checked && start_first(d, why))
		return d;
	unref(d);
	return NULL;
}

/* -- asking ------------------------------------------------------------------------ */

static void patience_closed(uv_handle_t *h)
{
	part_is_over(CONTAINER_OF((uv_timer_t *)h, struct directory_ask, patience));
}

static void over_closed(uv_handle_t *h)
{
	part_is_over(CONTAINER_OF((uv_async_t *)h, struct directory_ask, over));
}

/* The loop is done with it. */
static void leave_loop(struct directory_ask *a)
{
	uv_close((uv_handle_t *)&a->patience, patience_closed);
	uv_close((uv_handle_t *)&a->over, over_closed);
}

/* For the loop: the stage it was in. Where nothing had been found yet, nothing will be
 * told; from ASK_LOOKED on the loop has it, and what was found. */
static enum stage take_back(struct directory_ask *a)
{
	struct directory *d = a->d;
	enum stage was;

	pthread_mutex_lock(&d->lock);
	was = a->stage;
	if (was == ASK_WAITING) {
		queue_take(d, a);
		atomic_fetch_sub(&a->parts, 1); /* not the last: the loop's two are left */
	}
	if (was != ASK_LOOKED)
		a->stage = ASK_DROPPED;
	pthread_mutex_unlock(&d->lock);
	return was;
}

static void tell_found(struct directory_ask *a)
{
	leave_loop(a);
	if (a->result == DIRECTORY_FAILED)
		a->result = say_last(a->d, &a->key, &a->found);
	else if (a->result == DIRECTORY_FOUND && is_expired(a->d, &a->found))
		a->result = DIRECTORY_UNKNOWN;
	a->done(a->user, a->result, has_entry(a->result) ? &a->found.entry : NULL);
}

static void on_over(uv_async_t *over)
{
	struct directory_ask *a = CONTAINER_OF(over, struct directory_ask, over);
	enum stage was = take_back(a);

	(void)was;
	assert(was == ASK_LOOKED);
	tell_found(a);
}

static void give_up(uv_timer_t *t)
{
	struct directory_ask *a = CONTAINER_OF(t, struct directory_ask, patience);
	enum directory_result result;
	struct found last; /* a->found may be written to */

	if (take_back(a) == ASK_LOOKED) { /* at the last moment */
		tell_found(a);
		return;
	}
	tell_failure(a->d, VIEW("no answer in time"));
	leave_loop(a);
	result = say_last(a->d, &a->key, &last);
	a->done(a->user, result, has_entry(result) ? &last.entry : NULL);
}

struct directory_ask *directory_ask(struct directory *d, uv_loop_t *loop,
	enum directory_by by, struct view key, directory_done *done, void *user)
{
	struct directory_ask *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	if (!make_key(&a->key, by, key)) {
		free(a);
		return NULL;
	}
	atomic_fetch_add(&d->refs, 1);
	a->d = d;
	a->by = by;
	a->done = done;
	a->user = user;
	a->result = DIRECTORY_FAILED;
	atomic_init(&a->parts, 3);
	uv_timer_init(loop, &a->patience);
	uv_async_init(loop, &a->over, on_over); /* what it needs the loop has already */
	uv_timer_start(&a->patience, give_up, (uint64_t)d->wait_ms, 0);
	enqueue(d, a);
	return a;
}

void directory_ask_cancel(struct directory_ask *a)
{
	take_back(a);
	leave_loop(a);
}
