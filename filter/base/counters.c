#include "base/counters.h"

const struct counter_info counter_infos[COUNTERS_N] = {
#define COUNTER_ROW(n, h) { .name = #n, .help = (h), .gauge = false },
#define GAUGE_ROW(n, h)   { .name = #n, .help = (h), .gauge = true },
	COUNTERS(COUNTER_ROW, GAUGE_ROW)
};

/* Padded, so that two threads never write one cache line. */
struct slot {
	_Alignas(128) _Atomic int64_t n[COUNTERS_N];
};

static struct slot slots[COUNTER_SLOTS_MAX];
static atomic_uint slots_used;
static _Thread_local struct slot *mine;

unsigned counters_join(void)
{
	if (!mine) {
		unsigned i = atomic_fetch_add(&slots_used, 1);

		mine = &slots[i < COUNTER_SLOTS_MAX ? i : COUNTER_SLOTS_MAX - 1];
	}
	return (unsigned)(mine - slots);
}

void count_add(enum counter c, int64_t n)
{
	if (!mine)
		counters_join();
	atomic_fetch_add_explicit(&mine->n[c], n, memory_order_relaxed);
}

int64_t counter_of(unsigned slot, enum counter c)
{
	return atomic_load_explicit(&slots[slot].n[c], memory_order_relaxed);
}

int64_t counter_sum(enum counter c)
{
	unsigned used = atomic_load(&slots_used);
	int64_t sum = 0;

	for (unsigned i = 0; i < used && i < COUNTER_SLOTS_MAX; i++)
		sum += counter_of(i, c);
	return sum;
}
