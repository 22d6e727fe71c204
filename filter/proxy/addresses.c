#include "proxy/addresses.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/counters.h"
#include "base/log.h"

struct address {
	char text[sizeof(((struct net_addr *)0)->text)];
	uint64_t requests; /* it has now */
	uint64_t fails;    /* in a row */
	bool out;          /* until it answers */
	int64_t until_ms;  /* when the next may find out how it is */
};

struct addresses {
	atomic_uint refs;
	char *backend;
	pthread_mutex_t lock; /* guards everything below, but for n and texts */
	bool parted;          /* from the configuration in force */
	unsigned turn;        /* where looking begins, so that equals take turns */
	size_t n;
	struct address addrs[];
};

/* -- life -------------------------------------------------------------------------- */

struct addresses *addresses_new(const struct backend *b)
{
	struct addresses *set = calloc(
		1, sizeof(*set) + b->n_addrs * sizeof(set->addrs[0]));

	if (!set)
		return NULL;
	set->backend = strdup(b->name);
	if (!set->backend) {
		free(set);
		return NULL;
	}
	atomic_init(&set->refs, 1);
	pthread_mutex_init(&set->lock, NULL);
	set->n = b->n_addrs;
	for (size_t i = 0; i < set->n; i++)
		memcpy(set->addrs[i].text, b->addrs[i].text, sizeof(set->addrs[i].text));
	return set;
}

struct addresses *addresses_ref(struct addresses *set)
{
	if (set)
		atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
	return set;
}

void addresses_unref(struct addresses *set)
{
	if (!set || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) > 1)
		return;
	pthread_mutex_destroy(&set->lock);
	free(set->backend);
	free(set);
}

bool addresses_are_of(const struct addresses *set, const struct backend *b)
{
	if (set->n != b->n_addrs || strcmp(set->backend, b->name) != 0)
		return false;
	for (size_t i = 0; i < set->n; i++)
		if (strcmp(set->addrs[i].text, b->addrs[i].text) != 0)
			return false;
	return true;
}

static struct addresses *known_in(const struct config *c, const struct backend *b)
{
	for (size_t i = 0; i < c->n_backends; i++)
		if (c->backends[i].known && addresses_are_of(c->backends[i].known, b))
			return c->backends[i].known;
	return NULL;
}

static void let_go(struct config *c)
{
	for (size_t i = 0; i < c->n_backends; i++)
		addresses_unref(c->backends[i].known);
}

bool addresses_hand_on(const struct config *now, struct config *fresh)
{
	fresh->parting = let_go;
	for (size_t i = 0; i < fresh->n_backends; i++) {
		struct backend *b = &fresh->backends[i];

		if (b->kind != BACKEND_FASTCGI)
			continue;
		b->known = addresses_ref(now ? known_in(now, b) : NULL);
		if (!b->known)
			b->known = addresses_new(b);
		if (!b->known)
			return false;
	}
	return true;
}

static void part(struct addresses *set)
{
	int out = 0;

	pthread_mutex_lock(&set->lock);
	set->parted = true;
	for (size_t i = 0; i < set->n; i++)
		out += set->addrs[i].out;
	pthread_mutex_unlock(&set->lock);
	count_add(COUNT_backend_addresses_out, -out);
}

void addresses_part(const struct config *now, const struct config *fresh)
{
	for (size_t i = 0; i < now->n_backends; i++) {
		struct addresses *set = now->backends[i].known;
		size_t k = 0;

		while (k < fresh->n_backends && fresh->backends[k].known != set)
			k++;
		if (set && k == fresh->n_backends)
			part(set);
	}
}

bool addresses_have_parted(struct addresses *set)
{
	bool parted;

	pthread_mutex_lock(&set->lock);
	parted = set->parted;
	pthread_mutex_unlock(&set->lock);
	return parted;
}

/* -- use --------------------------------------------------------------------------- */

/* Better ones first: due to be found out about, then by their requests, then left out.
 * One that is due has none, as a rule; a busy one can wait. */
static bool goes_before(const struct address *a, const struct address *b, int64_t now_ms)
{
	bool a_due = a->out && now_ms >= a->until_ms;
	bool b_due = b->out && now_ms >= b->until_ms;

	if (a_due != b_due)
		return a_due;
	if (a->out != b->out)
		return b->out;
	return a->out ? a->until_ms < b->until_ms : a->requests < b->requests;
}

int addresses_choose(
	struct addresses *set, const struct backend *b, uint64_t except, int64_t now_ms)
{
	int best = -1;

	pthread_mutex_lock(&set->lock);
	set->turn++;
	for (size_t k = 0; k < set->n; k++) {
		size_t i = (set->turn + k) % set->n;

		if (except >> i & 1)
			continue;
		if (best < 0 || goes_before(&set->addrs[i], &set->addrs[best], now_ms))
			best = (int)i;
	}
	if (best >= 0) {
		set->addrs[best].requests++;
		/* The next that finds out, should this one never say. */
		if (set->addrs[best].out)
			set->addrs[best].until_ms = now_ms + b->fail_timeout_ms;
	}
	pthread_mutex_unlock(&set->lock);
	return best;
}

void address_leave(struct addresses *set, int i)
{
	pthread_mutex_lock(&set->lock);
	set->addrs[i].requests--;
	pthread_mutex_unlock(&set->lock);
}

void address_good(struct addresses *set, int i)
{
	pthread_mutex_lock(&set->lock);
	set->addrs[i].fails = 0;
	pthread_mutex_unlock(&set->lock);
}

void address_answers(struct addresses *set, int i)
{
	struct address *a = &set->addrs[i];
	bool was_out, counts;

	pthread_mutex_lock(&set->lock);
	was_out = a->out;
	a->out = false;
	counts = !set->parted;
	pthread_mutex_unlock(&set->lock);
	if (!was_out)
		return;
	count_add(COUNT_backend_addresses_out, -counts);
	log_notice("an address of a backend answers again",
		LOG_STR("backend", set->backend), LOG_STR("address", a->text));
}

static bool others_are_left(const struct addresses *set, int i)
{
	for (size_t k = 0; k < set->n; k++)
		if ((int)k != i && !set->addrs[k].out)
			return true;
	return false;
}

void address_bad(struct addresses *set, const struct backend *b, int i, int64_t now_ms,
	const char *why)
{
	struct address *a = &set->addrs[i];
	bool goes_out, counts;
	uint64_t fails;

	pthread_mutex_lock(&set->lock);
	fails = ++a->fails;
	goes_out = !a->out && b->max_fails && fails >= b->max_fails &&
		others_are_left(set, i);
	a->out |= goes_out;
	if (a->out)
		a->until_ms = now_ms + b->fail_timeout_ms;
	counts = !set->parted;
	pthread_mutex_unlock(&set->lock);
	if (!goes_out)
		return;
	count_one(COUNT_backend_ejections);
	count_add(COUNT_backend_addresses_out, counts);
	log_warn("an address of a backend is left out for a while",
		LOG_STR("backend", set->backend), LOG_STR("address", a->text),
		LOG_INT("fails", fails), LOG_INT("for_ms", b->fail_timeout_ms),
		LOG_STR("why", why));
}
