/*
 * config/rule_read.h - from the text of @RateLimit lines to tiers.
 */
#ifndef WEIR_CONFIG_RULE_READ_H
#define WEIR_CONFIG_RULE_READ_H

#include "config/mistakes.h"
#include "config/rule.h"

/* Reads what stands behind "@RateLimit =". Blanks separate attributes; what is not
 * given has its default. On a mistake tells all of them and returns false; *out then
 * holds nothing. */
bool rule_read(struct view text, struct place at, struct rule *out, struct mistakes *m);
void rule_release(struct rule *r);

/* A line that begins with @RateLimit and has no '=' behind it, such as a Java
 * annotation: tells, with the form that is read here. False for any other line. */
bool rule_odd_line(struct view line, struct place at, struct mistakes *m);

/* Forms the tiers of one scope from its n rules, in their order. Takes the rules' contents
 * over, whatever happens; the array stays the caller's. False after a mistake; *out
 * then holds nothing. */
bool tiers_build(
	struct tiers *out, struct rule *rules, size_t n, bool site, struct mistakes *m);
void tiers_release(struct tiers *t);

/* "5 in 60s", "none", "unlimited": what a rule allows, for people. */
void rule_put_limit(const struct rule *r, struct buf *out);
/* What struct tier has in id and in way. */
void rule_put_id(const struct rule *r, struct buf *out);
void rule_put_way(const struct rule *r, struct buf *out);

/* The reference of attributes. */
void rules_print(struct buf *out);

#endif
