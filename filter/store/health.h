/*
 * store/health.h - what the workers of a process know of Redis together.
 *
 * Each has a connection of its own and reports here what becomes of it; from that one
 * breaker (store/breaker.h) concludes whether Redis is asked. Changes are logged once, in
 * the order in which they came about:
 *
 *	"redis is down"   the first connection was lost or could not be made, and why
 *	"redis is up"     none is lost any longer
 *	"redis is no longer asked"  from=closed to=open, and why
 *	"redis is asked again"      from=half-open to=closed
 *
 * One that comes within VOICE_US of the last is a swing: it is told once a minute, or
 * when it has lasted until the next failure. Passwords are in no reason.
 *
 * Any thread; no call waits for more than the lock, and for the log only whoever tells.
 * While it does, the lines of others wait for it; when NEWS_MOST do, a trouble that begins
 * is told only if it lasts until there is room.
 */
#ifndef WEIR_STORE_HEALTH_H
#define WEIR_STORE_HEALTH_H

#include <stddef.h>

#include "config/config.h"

/* Bytes with NUL: why an attempt has failed, with each server's reason; and why the breaker
 * is open, which can have that in it. A state has room for either. */
#define HEALTH_WHY_MAX    (STORE_STATE_MAX - 128)
#define HEALTH_OPENED_MAX (STORE_STATE_MAX - 32)

struct health;

/* NULL when memory is out. */
struct health *health_new(void);
void health_free(struct health *h);

/* Whether Redis is asked at all. */
bool health_asks(const struct health *h);
/* Why not, as a sentence into out; nothing when it is asked. */
void health_why(struct health *h, char *out, size_t cap);

/* An answer that takes longer is slow; one that takes the time-out in any case. */
int64_t health_slow_us(const struct config *c);
/* An answer came, so long after the question. */
void health_answered(struct health *h, const struct config *c, int64_t took_us);
/* n answers were slow and did not come at all. */
void health_missed(struct health *h, const struct config *c, uint64_t n);
/* An attempt or a connection has failed; where is what Redis is called in the log. *down is
 * the connection's own mark that it has failed since it was last up, false at first. */
void health_failed(struct health *h, const struct config *c, bool *down, const char *where,
	const char *why);
/* The connection is good, or is given up for good. */
void health_up(struct health *h, bool *down, const char *where);
void health_leave(struct health *h, bool *down);

/* The turn to probe, or 0; whoever has it must give it back, and before each step but the
 * first ask to go on, or lend it, as store/breaker.h says. An answer that is right may
 * take store.timeout, but where slow answers have opened the breaker it must not be slow. */
unsigned health_turn(struct health *h, const struct config *c, int64_t step_us);
unsigned health_go_on(
	struct health *h, const struct config *c, unsigned turn, int64_t step_us);
void health_lend(struct health *h, unsigned turn);
void health_probed(struct health *h, const struct config *c, unsigned turn, int64_t took_us,
	bool good);

#endif
