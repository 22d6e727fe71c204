/*
 * base/counters.h - what the process counts, declared once.
 *
 * Each thread that counts has a slot in cache lines of its own, so that counting waits
 * for nobody; readers sum the slots. An addition is atomic all the same, since threads
 * beyond the slots share one. Name, kind and sentence below are what metrics, status
 * page and manual show.
 */
#ifndef WEIR_BASE_COUNTERS_H
#define WEIR_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/view.h"

/* COUNTER only rises. GAUGE rises and falls. */
#define COUNTERS(COUNTER, GAUGE)                                                          \
	GAUGE(connections_open, "Connections from web servers that are open now.")        \
	GAUGE(exchanges_open, "Requests being worked on now.")                            \
	GAUGE(programs_running, "CGI programs running now.")                              \
	GAUGE(backend_idle, "Connections to backends that are kept and idle now.")        \
	GAUGE(spool_bytes, "Bytes of request bodies in temporary files now.")             \
	GAUGE(backend_addresses_out,                                                      \
		"Addresses of backends that are left out now because they failed.")       \
	GAUGE(store_breaker_open,                                                         \
		"1 while the breaker is open: Redis is not asked, and the fallback "      \
		"decides.")                                                               \
	COUNTER(connections, "Connections accepted from web servers.")                    \
	COUNTER(connections_malformed,                                                    \
		"Connections closed because what came was not FastCGI.")                  \
	COUNTER(connections_slow,                                                         \
		"Connections closed because head or body did not come in time, "          \
		"or the answer was not read.")                                            \
	COUNTER(connections_paused,                                                       \
		"Times no connection was accepted for a moment because "                  \
		"server.max_connections were open.")                                      \
	COUNTER(connections_reclaimed,                                                    \
		"Kept connections that were closed while idle, to make room.")            \
	COUNTER(requests, "Requests whose head arrived whole.")                           \
	COUNTER(requests_passed,                                                          \
		"Requests passed on to a backend, or let pass as authorizer.")            \
	COUNTER(requests_exempt, "Requests from the allow list; they meet no limit.")     \
	COUNTER(requests_refused, "Requests refused because a limit was reached (429).")  \
	COUNTER(requests_forbidden, "Requests refused by a rule with count=0 (403).")     \
	COUNTER(requests_unfit,                                                           \
		"Requests refused because they cost more than a limit ever holds (413).") \
	COUNTER(requests_uncounted,                                                       \
		"Requests refused because nobody could count them (503).")                \
	COUNTER(requests_over_shadow,                                                     \
		"Requests passed although a rule in shadow mode was over its limit.")     \
	COUNTER(requests_crowded_out,                                                     \
		"Requests refused because server.max_requests were being served (503).")  \
	COUNTER(requests_unmatched,                                                       \
		"Requests that no endpoint and no default backend took (404).")           \
	COUNTER(requests_oversized,                                                       \
		"Requests with a head or body over the limit (431, 413).")                \
	COUNTER(requests_bad, "Requests whose head or body contradicts itself (400).")    \
	COUNTER(requests_abandoned,                                                       \
		"Requests whose client left before the answer was complete.")             \
	COUNTER(requests_cut_off,                                                         \
		"Requests that weir gave up before the answer was complete: the "         \
		"connection was too slow or malformed, memory ran out, or weir was "      \
		"stopped.")                                                               \
	COUNTER(spool_full,                                                               \
		"Requests refused because the bodies in temporary files would be over "   \
		"server.spool_limit (503).")                                              \
	COUNTER(spool_failures,                                                           \
		"Requests refused because their body could not be stored: "               \
		"a full disk, say (503).")                                                \
	COUNTER(requests_held, "Requests held by a leaky bucket until their turn.")       \
	COUNTER(requests_without_address,                                                 \
		"Requests without REMOTE_ADDR; all of them count as one client.")         \
	COUNTER(directory_failures,                                                       \
		"Look-ups that the directory of users did not answer.")                   \
	COUNTER(decisions_redis, "Decisions made by Redis.")                              \
	COUNTER(decisions_denied,                                                         \
		"Refusals of Redis that were repeated, within a second or so, "           \
		"without asking it again.")                                               \
	COUNTER(decisions_memory, "Decisions made by the memory store.")                  \
	COUNTER(decisions_fallback,                                                       \
		"Decisions made without Redis, as policy has it. While it rises limits "  \
		"are per process.")                                                       \
	COUNTER(denied_evictions,                                                         \
		"Remembered refusals dropped from a full table; Redis is asked instead.") \
	COUNTER(store_failures,                                                           \
		"Connections to Redis that could not be made or were given up, because "  \
		"of a refusal, a late answer or one that made no sense.")                 \
	COUNTER(store_connects, "Connections made to Redis.")                             \
	COUNTER(store_damaged,                                                            \
		"Questions that Redis could not count because a key of theirs holds "     \
		"something else.")                                                        \
	COUNTER(store_breaker_failed,                                                     \
		"Times the breaker opened because Redis failed so often in a row.")       \
	COUNTER(store_breaker_slowed,                                                     \
		"Times it opened because more than half of the answers were slow.")       \
	COUNTER(store_probes, "Times one worker tried whether Redis is back.")            \
	COUNTER(store_evictions,                                                          \
		"Entries dropped from a full memory table before their time.")            \
	COUNTER(directory_evictions,                                                      \
		"Users and tokens dropped from a full client.directory_cache.")           \
	COUNTER(backend_answers, "Answers that came whole from a backend.")               \
	COUNTER(backend_failures,                                                         \
		"Backend calls that failed before an answer began (502, 503, 504).")      \
	COUNTER(backend_truncated, "Answers that broke off after they had begun.")        \
	COUNTER(backend_retries,                                                          \
		"Requests sent again because a backend closed without a word.")           \
	COUNTER(backend_connects, "Connections made to FastCGI backends.")                \
	COUNTER(backend_reuses, "Requests sent on a connection that was kept.")           \
	COUNTER(backend_ejections,                                                        \
		"Addresses of backends that failed in a row and were left out.")          \
	COUNTER(programs_started, "CGI programs started.")                                \
	COUNTER(programs_killed, "CGI programs ended by force.")                          \
	COUNTER(programs_refused,                                                         \
		"Requests refused because backend.max_programs were running (503).")      \
	COUNTER(programs_unstarted,                                                       \
		"CGI programs that could not be started for want of a process, memory "   \
		"or descriptors (503).")                                                  \
	COUNTER(control_refused,                                                          \
		"Connections to the control socket that were told to try again because "  \
		"32 were being served.")                                                  \
	COUNTER(short_of_descriptors,                                                     \
		"Times no file descriptor was left (EMFILE, ENFILE): a connection "       \
		"waited, or a request got 503.")                                          \
	COUNTER(short_of_memory,                                                          \
		"Times the system had no memory or no process left (ENOMEM, EAGAIN): "    \
		"a connection waited, or a request got 503.")

enum counter {
#define COUNTER_ID(name, help) COUNT_##name,
	COUNTERS(COUNTER_ID, COUNTER_ID)
#undef COUNTER_ID
	COUNTERS_N
};

struct counter_info {
	const char *name;
	const char *help;
	bool gauge;
};
extern const struct counter_info counter_infos[COUNTERS_N];

#define COUNTER_SLOTS_MAX 257

/* Takes a slot for the calling thread (the same one when called again); threads
 * beyond COUNTER_SLOTS_MAX share the last. Call before counting. The return
 * value is the slot's number, from 0 in the order of the calls. */
unsigned counters_join(void);

/* Adds n, which for a gauge may be negative. Calling thread's slot. */
void count_add(enum counter c, int64_t n);
static inline void count_one(enum counter c)
{
	count_add(c, 1);
}

/* Sum over all slots, and one slot's value. Any thread; a reading, not a
 * moment: counters may move meanwhile. */
int64_t counter_sum(enum counter c);
int64_t counter_of(unsigned slot, enum counter c);

#endif
