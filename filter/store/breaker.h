/*
 * store/breaker.h - whether Redis is worth asking, as arithmetic.
 *
 * Closed, every question is asked. It opens when attempts and connections have failed so
 * many times in a row, whichever worker's, or when more than half of the answers of the
 * last second (BREAKER_LEAST_ANSWERS of them at least) were slow; an answer that did not
 * come in time is slow too. Open, nobody asks. After a pause whoever comes first has the
 * turn to probe, half-open: a good probe closes it, a bad one leaves it open for another
 * pause, counted from when the probe began.
 *
 * One probe at a time. Whoever has the turn says how long he may need for his next step,
 * one address or one question, and has a lease for that and BREAKER_LATE_US more. He asks
 * again before each further step. A turn whose lease is over falls to the next who comes;
 * from then on he who had it calls nobody, and what he says of his probe is ignored.
 *
 * Who looks a name up bothers Redis with nothing, and nobody can say how long it takes. So
 * he lends the turn: another, once the lease is over, may have it to look the name up as
 * well; but the first who has an address to call takes it from whoever still looks it up.
 * So a look-up that hangs is waited for by nobody for longer than a lease, and one that
 * takes longer than a lease, each time, still leads to a probe.
 *
 * Pure: no lock, no clock, no log. store/health.h shares one among the workers.
 */
#ifndef WEIR_STORE_BREAKER_H
#define WEIR_STORE_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_WINDOW_US     INT64_C(1000000)
#define BREAKER_LEAST_ANSWERS 20
/* So late may a loop be to notice that a step has taken too long. */
#define BREAKER_LATE_US INT64_C(1000000)

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
	bool lent;             /* half-open: whose turn it is looks a name up */
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
 * be had. Its first step takes step_us at most. */
unsigned breaker_turn(
	struct breaker *b, const struct breaker_limits *l, int64_t step_us, int64_t now_us);
/* Asks for a further step of that turn, or for its first if turn is 0, of one who has an
 * address to call: the turn to go on with, which may be another, or 0 when he must not. */
unsigned breaker_go_on(struct breaker *b, const struct breaker_limits *l, unsigned turn,
	int64_t step_us, int64_t now_us);
/* The next step of that turn is to look a name up. */
void breaker_lend(struct breaker *b, unsigned turn);
/* The probe of that turn has ended. */
enum breaker_change breaker_probed(struct breaker *b, unsigned turn, bool good);

/* Answers within the window, and how many of them were slow. */
uint64_t breaker_answers(const struct breaker *b, uint64_t *slow);

#endif
