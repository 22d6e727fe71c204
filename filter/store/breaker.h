/*
 * store/breaker.h - whether Redis is worth asking, as arithmetic.
 *
 * Closed, every question is asked. It opens when attempts and connections have failed so
 * many times in a row, whichever worker's, or when more than half of the answers of the
 * last second (BREAKER_LEAST_ANSWERS of them at least) were slow; an answer that did not
 * come in time is slow too. Open, nobody asks. After a pause whoever comes first has the
 * turn to probe, half-open: a good probe closes it, a bad one leaves it open for another
 * pause, counted from when the probe began. A turn not given back within
 * BREAKER_LEASE_US falls to the next, and what its probe says later is ignored.
 *
 * Pure: no lock, no clock, no log. store/health.h shares one among the workers.
 */
#ifndef WEIR_STORE_BREAKER_H
#define WEIR_STORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_WINDOW_US     INT64_C(1000000)
#define BREAKER_LEAST_ANSWERS 20
#define BREAKER_LEASE_US      INT64_C(5000000)

enum breaker_state {
	BREAKER_CLOSED,    /* Redis is asked */
	BREAKER_OPEN,      /* until the pause is over */
	BREAKER_HALF_OPEN, /* until the probe has come back */
};

/* Set by the operator, and may differ from call to call. */
struct breaker_limits {
	uint64_t failures; /* in a row that open it; 0: it never opens */
	int64_t slow_us;   /* an answer that took longer is slow */
	int64_t pause_us;
};

struct breaker {
	enum breaker_state state;
	uint64_t failures; /* in a row */
	struct {
		uint64_t all, slow;
	} answers[2];          /* of the younger half of the window, and of the older */
	int64_t half_us;       /* when the younger began */
	int64_t probe_at_us;   /* open: when the next turn is given */
	int64_t lease_ends_us; /* half-open: when this turn is forfeit */
	unsigned turn;         /* the last one given */
};

/* What a call has changed, if anything. Of several callers one sees it. */
enum breaker_change {
	BREAKER_STAYS,
	BREAKER_FAILED, /* opened by failures in a row */
	BREAKER_SLOWED, /* opened by slow answers */
	BREAKER_HEALED, /* closed */
};

void breaker_init(struct breaker *b);

/* An attempt or a connection has failed. */
enum breaker_change breaker_failed(
	struct breaker *b, const struct breaker_limits *l, int64_t now_us);
/* An answer came and was good: failures are no longer in a row. */
enum breaker_change breaker_answered(
	struct breaker *b, const struct breaker_limits *l, int64_t took_us, int64_t now_us);
/* n answers were slow and did not come at all. */
enum breaker_change breaker_missed(
	struct breaker *b, const struct breaker_limits *l, uint64_t n, int64_t now_us);

/* Asks for the turn to probe: a number to give back with it, or 0 when there is none to
 * be had. */
unsigned breaker_turn(struct breaker *b, const struct breaker_limits *l, int64_t now_us);
/* The probe of that turn has ended. */
enum breaker_change breaker_probed(struct breaker *b, unsigned turn, bool good);

/* Answers within the window, and how many of them were slow. */
uint64_t breaker_answers(const struct breaker *b, uint64_t *slow);

#endif
