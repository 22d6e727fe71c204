#include "proxy/health.h"

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

struct health {
	struct health *next;
	char *backend;
	pthread_mutex_t lock; /* guards everything below, but for n and texts */
	unsigned turn;        /* where looking begins, so that equals take turns */
	size_t n;
	struct address addrs[];
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct health *all;

static bool is_of(const struct health *h, const struct backend *b)
{
	if (h->n != b->n_addrs || strcmp(h->backend, b->name) != 0)
		return false;
	for (size_t i = 0; i < h->n; i++)
		if (strcmp(h->addrs[i].text, b->addrs[i].text) != 0)
			return false;
	return true;
}

static struct health *make(const struct backend *b)
{
	struct health *h = calloc(1, sizeof(*h) + b->n_addrs * sizeof(h->addrs[0]));

	if (!h)
		return NULL;
	h->backend = strdup(b->name);
	if (!h->backend) {
		free(h);
		return NULL;
	}
	pthread_mutex_init(&h->lock, NULL);
	h->n = b->n_addrs;
	for (size_t i = 0; i < h->n; i++)
		memcpy(h->addrs[i].text, b->addrs[i].text, sizeof(h->addrs[i].text));
	return h;
}

struct health *health_of(const struct backend *b)
{
	struct health *h;

	pthread_mutex_lock(&all_lock);
	for (h = all; h && !is_of(h, b); h = h->next)
		;
	if (!h && (h = make(b))) {
		h->next = all;
		all = h;
	}
	pthread_mutex_unlock(&all_lock);
	return h;
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

int health_begin(struct health *h, const struct backend *b, uint64_t except, int64_t now_ms)
{
	int best = -1;

	pthread_mutex_lock(&h->lock);
	h->turn++;
	for (size_t k = 0; k < h->n; k++) {
		size_t i = (h->turn + k) % h->n;

		if (except >> i & 1)
			continue;
		if (best < 0 || goes_before(&h->addrs[i], &h->addrs[best], now_ms))
			best = (int)i;
	}
	if (best >= 0) {
		h->addrs[best].requests++;
		/* The next that finds out, should this one never say. */
		if (h->addrs[best].out)
			h->addrs[best].until_ms = now_ms + b->fail_timeout_ms;
	}
	pthread_mutex_unlock(&h->lock);
	return best;
}

void health_end(struct health *h, int i)
{
	pthread_mutex_lock(&h->lock);
	h->addrs[i].requests--;
	pthread_mutex_unlock(&h->lock);
}

void health_good(struct health *h, int i)
{
	pthread_mutex_lock(&h->lock);
	h->addrs[i].fails = 0;
	pthread_mutex_unlock(&h->lock);
}

void health_answers(struct health *h, int i)
{
	struct address *a = &h->addrs[i];
	bool was_out;

	pthread_mutex_lock(&h->lock);
	was_out = a->out;
	a->out = false;
	pthread_mutex_unlock(&h->lock);
	if (!was_out)
		return;
	count_add(COUNT_backend_addresses_out, -1);
	log_notice("an address of a backend answers again", LOG_STR("backend", h->backend),
		LOG_STR("address", a->text));
}

static bool others_are_left(const struct health *h, int i)
{
	for (size_t k = 0; k < h->n; k++)
		if ((int)k != i && !h->addrs[k].out)
			return true;
	return false;
}

void health_bad(
	struct health *h, const struct backend *b, int i, int64_t now_ms, const char *why)
{
	struct address *a = &h->addrs[i];
	bool goes_out;
	uint64_t fails;

	pthread_mutex_lock(&h->lock);
	fails = ++a->fails;
	goes_out = !a->out && b->max_fails && fails >= b->max_fails &&
		others_are_left(h, i);
	a->out |= goes_out;
	if (a->out)
		a->until_ms = now_ms + b->fail_timeout_ms;
	pthread_mutex_unlock(&h->lock);
	if (!goes_out)
		return;
	count_one(COUNT_backend_ejections);
	count_add(COUNT_backend_addresses_out, 1);
	log_warn("an address of a backend is left out for a while",
		LOG_STR("backend", h->backend), LOG_STR("address", a->text),
		LOG_INT("fails", fails), LOG_INT("for_ms", b->fail_timeout_ms),
		LOG_STR("why", why));
}
