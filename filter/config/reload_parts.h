/*
 * config/reload_parts.h - limits before and after. Between reload.c and reload_limits.c
 * only.
 *
 * A rule is enforced when it can refuse somebody: it stands there, and neither it nor
 * [server] mode is shadow or off, nor its count unlimited.
 */
#ifndef WEIR_CONFIG_RELOAD_PARTS_H
#define WEIR_CONFIG_RELOAD_PARTS_H

#include "config/reload.h"

bool tier_enforced(const struct config *c, const struct tier *t); /* has such a rule */
size_t tiers_enforced(const struct config *c, const struct tiers *tiers);
size_t limits_enforced(const struct config *c); /* in all */

/* The endpoint of that name, or NULL. */
const struct endpoint *endpoint_named(const struct config *c, const char *name);

#endif
