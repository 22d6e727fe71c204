#include "store/asks.h"

#include <stdlib.h>

void asks_init(struct asks *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

void asks_push(struct asks *l, struct ask *a)
{
	a->next = NULL;
	*l->tail = a;
	l->tail = &a->next;
}

struct ask *asks_pop(struct asks *l)
{
	struct ask *a = l->head;

	if (!a)
		return NULL;
	l->head = a->next;
	if (!l->head)
		l->tail = &l->head;
	return a;
}

int64_t asks_oldest_us(const struct asks *l)
{
	int64_t oldest_us = INT64_MAX;

	for (const struct ask *a = l->head; a; a = a->next)
		if (a->asked_us < oldest_us)
			oldest_us = a->asked_us;
	return oldest_us;
}

uint64_t asks_until(const struct asks *l, int64_t at_us)
{
	uint64_t n = 0;

	for (const struct ask *a = l->head; a; a = a->next)
		n += a->asked_us <= at_us;
	return n;
}

void asks_release(struct asks *l)
{
	struct ask *a;

	while ((a = asks_pop(l)))
		ask_free(a);
}

struct ask *ask_new(struct take *t, int64_t now_us)
{
	struct ask *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->asked_us = now_us;
	a->take = t;
	t->link = &a->take;
	return a;
}

struct take *ask_free(struct ask *a)
{
	struct take *t = a->take;

	if (t)
		t->link = NULL;
	free(a);
	return t;
}
