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
 *
 * What is known hangs at the configuration, and a reload hands it on to the next one for
 * each backend that keeps its name and addresses. Requests and idle connections, which may
 * outlive the configuration, hold it too.
 */
#ifndef WEIR_PROXY_ADDRESSES_H
#define WEIR_PROXY_ADDRESSES_H

#include "config/config.h"

struct addresses;

/* Of the addresses b has now, with nothing known of them yet: one reference. NULL when
 * memory is out. */
struct addresses *addresses_new(const struct backend *b);
/* References. The last addresses_unref() frees. NULL is fine. */
struct addresses *addresses_ref(struct addresses *set);
void addresses_unref(struct addresses *set);
/* Whether b has that name and these addresses in that order. */
bool addresses_are_of(const struct addresses *set, const struct backend *b);

/*
 * A reload. addresses_hand_on() fills backend.known of all FastCGI backends of fresh, with
 * what is known in now, the configuration in force (NULL: none yet), or anew; fresh holds
 * it until its end. To be called before fresh is shared. False when memory is out.
 *
 * Once fresh is to take the place of now, and before anybody is told, addresses_part() says
 * so to all that is known in now and is not in fresh.
 */
bool addresses_hand_on(const struct config *now, struct config *fresh);
void addresses_part(const struct config *now, const struct config *fresh);
/* It is in no configuration any more that is in force: who still uses it may go on, but the
 * gauge of addresses left out does not count it. */
bool addresses_have_parted(struct addresses *set);

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
