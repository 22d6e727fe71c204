/*
 * proxy/addresses.h - which of a backend's addresses is asked.
 *
 * All workers share what each of them has met: how many requests an address has now,
 * and how often in a row it failed. The one with the fewest requests is asked. One that
 * has failed backend.max_fails times is left out for backend.fail_timeout; then one
 * request finds out how it is, while the others still leave it out. The last one that
 * is not left out never is: one overload must not make a backend vanish for everybody.
 *
 * Passive: nothing is asked of a backend but requests. The clock is the caller's. Any
 * thread.
 */
#ifndef WEIR_PROXY_ADDRESSES_H
#define WEIR_PROXY_ADDRESSES_H

#include "config/config.h"

struct addresses;

/* Of these addresses of the backend of that name: the same for each snapshot of the
 * configuration that has them. Lives as long as the process; there are as many as were
 * ever configured. NULL when memory is out. */
struct addresses *addresses_of(const struct backend *b);

/*
 * Chooses an address (its index) for a request and counts the request there until
 * address_leave(). Not those in except (bit i stands for address i). Only when none of the
 * others is left, one that is left out; -1 when there is none at all.
 */
int addresses_choose(
	struct addresses *set, const struct backend *b, uint64_t except, int64_t now_ms);
void address_leave(struct addresses *set, int i);

/* It begins to answer: one that was left out is back. Until an answer has gone well one
 * more failure is enough to leave it out again, for one that always breaks off begins
 * well each time. */
void address_answers(struct addresses *set, int i);
/* An answer has gone well: failures before it are forgotten. */
void address_good(struct addresses *set, int i);
/* It refused, was silent, talked nonsense, or broke off before or in its answer. why is
 * for the log: there is a line when it is left out, and one when it is back. */
void address_bad(struct addresses *set, const struct backend *b, int i, int64_t now_ms,
	const char *why);

#endif
