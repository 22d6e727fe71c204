/*
 * observe/ask.h - the other end of the control socket, for weirctl and weir-status.
 */
#ifndef WEIR_OBSERVE_ASK_H
#define WEIR_OBSERVE_ASK_H

#include <jansson.h>

#include "base/buf.h"

/* The most bytes of an answer that are read. */
#define ASK_REPLY_MAX (8 << 20)

/* Sends request to the control socket at address ("unix:/path") and waits
 * for the answer, altogether at most timeout_ms. On success *reply is an object
 * the caller owns. Otherwise returns false with a sentence in why that says what would
 * help: nobody listens, the path is wrong, which group may connect, no answer in time;
 * or what weir itself gave as {"error":...}. Blocks. */
bool control_ask(const char *address, const json_t *request, int64_t timeout_ms,
	json_t **reply, struct buf *why);

/* The same for a command without anything else to it. */
bool control_ask_for(const char *address, const char *command, int64_t timeout_ms,
	json_t **reply, struct buf *why);

#endif
