/*
 * client/directory.c - see directory.h.
 *
 * A look-up is an ask: it goes to the thread pool, takes a connection nobody uses (as
 * many as there are pool threads come into being, and stay), leaves what it found in the
 * cache, and is told on the loop it came from. Two asks for one key may be under way at
 * once; neither knows of the other, so no worker ever waits for another's loop.
 *
 * An ask is told once and freed later: by the time the pool is done with it, its client
 * may be gone or tired of waiting. A pool whose threads all hang in a dead disk holds one
 * ask each; those in the queue are taken out when they are given up.
 */
#include "client/directory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "client/cache.h"
#include "client/reader.h"

#define WAIT_MS_DEFAULT 2000
#define RETRY_US        US_PER_S /* from a failure to the next look-up */
#define READERS_MAX     64 /* kept open; a larger pool opens the rest anew each time */

struct directory {
	atomic_uint refs; /* the owner's, and one for each ask */
	char *path, *query;
	int64_t wait_ms;
	int64_t (*mono_us)(void);
	int64_t (*wall_us)(void);
	struct cache *cache;
	atomic_bool failing;
	_Atomic int64_t retry_us; /* while it is: when somebody may ask again */
	struct log_gate gate;

	pthread_mutex_t lock; /* guards everything below */
	struct reader *idle[READERS_MAX];
	size_t n_idle;
};

/* "t" or "u" and what is looked up; as the cache has it. */
struct key {
	char bytes[1 + CLIENT_NAME_MAX];
	size_t n;
};

struct directory_ask {
	struct directory *d;
	enum directory_by by;
	struct key key;
	directory_done *done; /* NULL once told or cancelled */
	void *user;

	uv_work_t work;
	uv_timer_t patience;
	unsigned open; /* of those two, how many are not over */

	/* Written on the pool. */
	enum directory_result result;
	struct found found;
};

/* -- the directory ----------------------------------------------------------------- */

static void unref(struct directory *d)
{
	if (atomic_fetch_sub(&d->refs, 1) > 1)
		return;
	while (d->n_idle)
		reader_free(d->idle[--d->n_idle]);
	cache_free(d->cache);
	pthread_mutex_destroy(&d->lock);
	free(d->path);
	free(d->query);
	free(d);
}

void directory_close(struct directory *d)
{
	if (d)
		unref(d);
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
	d->path = strdup(o->path);
	d->query = strdup(o->query ? o->query : "");
	d->wait_ms = o->wait_ms > 0 ? o->wait_ms : WAIT_MS_DEFAULT;
	d->mono_us = o->mono_us ? o->mono_us : clock_mono_us;
	d->wall_us = o->wall_us ? o->wall_us : clock_wall_us;
	d->cache = cache_new(
		o->cache_entries, o->ttl_ms * US_PER_MS, o->miss_ttl_ms * US_PER_MS);
	if (d->path && d->query && d->cache) {
		d->idle[0] = reader_open(d->path, d->query, (int)d->wait_ms, NULL, why);
		d->n_idle = d->idle[0] ? 1 : 0;
	} else {
		buf_add_str(why, "out of memory");
	}
	if (d->n_idle)
		return d;
	unref(d);
	return NULL;
}

/* -- connections ------------------------------------------------------------------- */

static struct reader *take_idle(struct directory *d)
{
	struct reader *r = NULL;

	pthread_mutex_lock(&d->lock);
	if (d->n_idle)
		r = d->idle[--d->n_idle];
	pthread_mutex_unlock(&d->lock);
	return r;
}

static struct reader *take_reader(struct directory *d, struct buf *why)
{
	struct reader *r;

	while ((r = take_idle(d)) != NULL) {
		if (reader_is_current(r))
			return r;
		reader_free(r);
	}
	return reader_open(d->path, d->query, (int)d->wait_ms, NULL, why);
}

static void put_back(struct directory *d, struct reader *r)
{
	pthread_mutex_lock(&d->lock);
	if (d->n_idle < COUNT_OF(d->idle)) {
		d->idle[d->n_idle++] = r;
		r = NULL;
	}
	pthread_mutex_unlock(&d->lock);
	reader_free(r);
}

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

static void work(uv_work_t *w)
{
	struct directory_ask *a = CONTAINER_OF(w, struct directory_ask, work);
	struct directory *d = a->d;
	int64_t asked_us = d->mono_us();
	struct buf why = { 0 };
	struct reader *r = take_reader(d, &why);

	if (r)
		a->result = reader_look(
			r, a->by, view_skip(key_view(&a->key), 1), &a->found);
	if (r && a->result == DIRECTORY_FAILED) {
		buf_add_str(&why, reader_error(r));
		reader_free(r);
	} else if (r) {
		put_back(d, r);
	}
	if (a->result == DIRECTORY_FAILED) {
		tell_failure(d, buf_view(&why));
	} else {
		tell_success(d);
		cache_put(d->cache, key_view(&a->key),
			a->result == DIRECTORY_FOUND ? &a->found : NULL, asked_us);
	}
	buf_release(&why);
}

static void tell(struct directory_ask *a, enum directory_result result)
{
	directory_done *done = a->done;

	if (!done)
		return;
	a->done = NULL;
	done(a->user, result, has_entry(result) ? &a->found.entry : NULL);
}

static void one_is_over(struct directory_ask *a)
{
	if (--a->open)
		return;
	unref(a->d);
	free(a);
}

static void patience_closed(uv_handle_t *h)
{
	one_is_over(CONTAINER_OF((uv_timer_t *)h, struct directory_ask, patience));
}

static void end_patience(struct directory_ask *a)
{
	if (!uv_is_closing((uv_handle_t *)&a->patience))
		uv_close((uv_handle_t *)&a->patience, patience_closed);
}

static void after_work(uv_work_t *w, int status)
{
	struct directory_ask *a = CONTAINER_OF(w, struct directory_ask, work);

	end_patience(a);
	if (status != 0 || a->result == DIRECTORY_FAILED)
		a->result = say_last(a->d, &a->key, &a->found);
	else if (a->result == DIRECTORY_FOUND && is_expired(a->d, &a->found))
		a->result = DIRECTORY_UNKNOWN;
	tell(a, a->result);
	one_is_over(a);
}

static void give_up(uv_timer_t *t)
{
	struct directory_ask *a = CONTAINER_OF(t, struct directory_ask, patience);

	directory_done *done = a->done;
	enum directory_result result;
	struct found last; /* a->found may be written to */

	tell_failure(a->d, VIEW("no answer in time"));
	uv_cancel((uv_req_t *)&a->work); /* fails when it has begun; its end comes later */
	end_patience(a);
	a->done = NULL;
	result = say_last(a->d, &a->key, &last);
	if (done)
		done(a->user, result, has_entry(result) ? &last.entry : NULL);
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
	a->open = 2;
	uv_timer_init(loop, &a->patience);
	uv_timer_start(&a->patience, give_up, (uint64_t)d->wait_ms, 0);
	uv_queue_work(loop, &a->work, work, after_work);
	return a;
}

void directory_ask_cancel(struct directory_ask *a)
{
	a->done = NULL;
	uv_cancel((uv_req_t *)&a->work);
	end_patience(a);
}
