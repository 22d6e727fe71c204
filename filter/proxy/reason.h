/*
 * proxy/reason.h - the words that go with a status.
 */
#ifndef WEIR_PROXY_REASON_H
#define WEIR_PROXY_REASON_H

/* The standard phrase (RFC 9110, section 15, and the registry it founded); for a
 * status without an entry that of its class. Never NULL. */
const char *reason_phrase(int status);

#endif
