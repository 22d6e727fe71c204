#include "store/breaker.h"

#include <string.h>

/* The window slides by halves: a stall of some milliseconds at the start of a half is
 * still weighed against the good answers of the one before. */
#define HALF_US (BREAKER_WINDOW_US / 2)

void breaker_init(struct breaker *b)
{
	*b = (struct breaker){ .state = BREAKER_CLOSED };
}

uint64_t breaker_answers(const struct breaker *b, uint64_t *slow)
{
	*slow = b->answers[0].slow + b->answers[1].slow;
	return b->answers[0].all + b->answers[1].all;
}

static void forget_answers(struct breaker *b, int64_t now_us)
{
	memset(b->answers, 0, sizeof(b->answers));
	b->half_us = now_us;
}

static void slide(struct breaker *b, int64_t now_us)
{
	if (now_us < b->half_us + HALF_US)
		return;
	if (now_us >= b->half_us + 2 * HALF_US) {
		forget_answers(b, now_us);
		return;
	}
	b->answers[1] = b->answers[0];
	memset(&b->answers[0], 0, sizeof(b->answers[0]));
	b->half_us += HALF_US;
}

static enum breaker_change open_for(struct breaker *b, const struct breaker_limits *l,
	enum breaker_change why, int64_t now_us)
{
	b->state = BREAKER_OPEN;
	b->probe_at_us = now_us + l->pause_us;
	return why;
}

/* While it is not closed nothing that others still hear of has a say, but the probe. */
static bool counts(const struct breaker *b, const struct breaker_limits *l)
{
	return b->state == BREAKER_CLOSED && l->failures > 0;
}

enum breaker_change breaker_failed(
	struct breaker *b, const struct breaker_limits *l, int64_t now_us)
{
	if (!counts(b, l) || ++b->failures < l->failures)
		return BREAKER_STAYS;
	return open_for(b, l, BREAKER_FAILED, now_us);
}

static enum breaker_change weigh(
	struct breaker *b, const struct breaker_limits *l, int64_t now_us)
{
	uint64_t slow, all = breaker_answers(b, &slow);

	if (all < BREAKER_LEAST_ANSWERS || slow * 2 <= all)
		return BREAKER_STAYS;
	return open_for(b, l, BREAKER_SLOWED, now_us);
}

enum breaker_change breaker_answered(
	struct breaker *b, const struct breaker_limits *l, int64_t took_us, int64_t now_us)
{
	if (!counts(b, l))
		return BREAKER_STAYS;
	b->failures = 0;
	slide(b, now_us);
	b->answers[0].all++;
	if (took_us <= l->slow_us)
		return BREAKER_STAYS;
	b->answers[0].slow++;
	return weigh(b, l, now_us);
}

enum breaker_change breaker_missed(
	struct breaker *b, const struct breaker_limits *l, uint64_t n, int64_t now_us)
{
	if (!counts(b, l))
		return BREAKER_STAYS;
	slide(b, now_us);
	b->answers[0].all += n;
	b->answers[0].slow += n;
	return weigh(b, l, now_us);
}

static void lease(struct breaker *b, int64_t step_us, int64_t now_us)
{
	b->lease_ends_us = now_us + step_us + BREAKER_LATE_US;
	b->lent = false;
}

static unsigned give_turn(
	struct breaker *b, const struct breaker_limits *l, int64_t step_us, int64_t now_us)
{
	b->state = BREAKER_HALF_OPEN;
	b->probe_at_us = now_us + l->pause_us;
	lease(b, step_us, now_us);
	if (++b->turn == 0)
		b->turn = 1;
	return b->turn;
}

unsigned breaker_turn(
	struct breaker *b, const struct breaker_limits *l, int64_t step_us, int64_t now_us)
{
	bool free = b->state == BREAKER_OPEN && now_us >= b->probe_at_us;
	bool forfeit = b->state == BREAKER_HALF_OPEN && now_us >= b->lease_ends_us;

	return free || forfeit ? give_turn(b, l, step_us, now_us) : 0;
}

static bool has_turn(const struct breaker *b, unsigned turn)
{
	return b->state == BREAKER_HALF_OPEN && turn == b->turn;
}

unsigned breaker_go_on(struct breaker *b, const struct breaker_limits *l, unsigned turn,
	int64_t step_us, int64_t now_us)
{
	if (has_turn(b, turn)) {
		lease(b, step_us, now_us);
		return turn;
	}
	if (b->state == BREAKER_HALF_OPEN && b->lent)
		return give_turn(b, l, step_us, now_us);
	return breaker_turn(b, l, step_us, now_us);
}

void breaker_lend(struct breaker *b, unsigned turn)
{
	if (has_turn(b, turn))
		b->lent = true;
}

enum breaker_change breaker_probed(struct breaker *b, unsigned turn, bool good)
{
	if (!has_turn(b, turn))
		return BREAKER_STAYS;
	if (!good) {
		b->state = BREAKER_OPEN;
		return BREAKER_STAYS;
	}
	b->state = BREAKER_CLOSED;
	b->failures = 0;
	forget_answers(b, 0);
	return BREAKER_HEALED;
}
