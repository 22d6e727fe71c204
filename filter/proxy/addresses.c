#include "proxy/addresses.h"

#include <pthread.h>
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
	struct addresses *next;
	char *backend;
	pthread_mutex_t lock; /* guards everything below, but for n and texts */
	unsigned turn;        /* where looking begins, so that equals take turns */
	size_t n;
	struct address addrs[];
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct addresses *all;

static bool is_of(const struct addresses *set, const struct backend *b)
{
	if (set->n != b->n_addrs || strcmp(set->backend, b->name) != 0)
		return false;
	for (size_t i = 0; i < set->n; i++)
		if (strcmp(set->addrs[i].text, b->addrs[i].text) != 0)
			return false;
	return true;
}

static struct addresses *make(const struct backend *b)
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
	pthread_mutex_init(&set->lock, NULL);
	set->n = b->n_addrs;
	for (size_t i = 0; i < set->n; i++)
		memcpy(set->addrs[i].text, b->addrs[i].text, sizeof(set->addrs[i].text));
	return set;
}

struct addresses *addresses_of(const struct backend *b)
{
	struct addresses *set;

	pthread_mutex_lock(&all_lock);
	for (set = all; set && !is_of(set, b); set = set->next)
		;
	if (!set && (set = make(b))) {
		set->next = all;
		all = set;
	}
	pthread_mutex_unlock(&all_lock);
	return set;
}

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
	bool was_out;

	pthread_mutex_lock(&set->lock);
	was_out = a->out;
	a->out = false;
	pthread_mutex_unlock(&set->lock);
	if (!was_out)
		return;
	count_add(COUNT_backend_addresses_out, -1);
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
	bool goes_out;
	uint64_t fails;

	pthread_mutex_lock(&set->lock);
	fails = ++a->fails;
	goes_out = !a->out && b->max_fails && fails >= b->max_fails &&
		others_are_left(set, i);
	a->out |= goes_out;
	if (a->out)
		a->until_ms = now_ms + b->fail_timeout_ms;
	pthread_mutex_unlock(&set->lock);
	if (!goes_out)
		return;
	count_one(COUNT_backend_ejections);
	count_add(COUNT_backend_addresses_out, 1);
	log_warn("an address of a backend is left out for a while",
		LOG_STR("backend", set->backend), LOG_STR("address", a->text),
		LOG_INT("fails", fails), LOG_INT("for_ms", b->fail_timeout_ms),
		LOG_STR("why", why));
}
