/*
 * proxy/relay_alone.c - relays whose owners are gone.
 *
 * An answer that has all of its length is complete for the client, but the backend may
 * have work left: closing at once would end it in the middle. And a program may be meant
 * to finish although nobody waits for it. Such a relay goes on by itself: it reads, so
 * that the backend never waits for a reader, and throws away what it read.
 */
#include "proxy/idle.h"
#include "proxy/relay_kind.h"

static _Thread_local struct relay *alone;
static _Thread_local void (*tell)(void *arg);
static _Thread_local void *tell_arg;

void relay_go_alone(struct relay *r, bool whole, uint64_t for_ms)
{
	r->alone_whole = whole;
	r->paused = false;
	relay_enter(r, RELAY_ALONE, for_ms);
	r->alone_next = alone;
	r->alone_link = &alone;
	if (alone)
		alone->alone_link = &r->alone_next;
	alone = r;
	r->kind->flow(r);
	if (whole)
		r->events.end(r->user, RELAY_WHOLE, NULL);
}

void relay_forget_alone(struct relay *r)
{
	if (!r->alone_link)
		return;
	*r->alone_link = r->alone_next;
	if (r->alone_next)
		r->alone_next->alone_link = r->alone_link;
	r->alone_link = NULL;
	if (!alone && tell)
		tell(tell_arg);
}

bool relays_are_alone(void)
{
	return alone != NULL;
}

void relays_tell(void (*none_alone)(void *arg), void *arg)
{
	tell = none_alone;
	tell_arg = arg;
}

void relays_end(void)
{
	while (alone)
		relay_finish(alone, alone->alone_whole ? RELAY_WHOLE : RELAY_TIMEOUT, NULL);
	idle_close_all();
}
