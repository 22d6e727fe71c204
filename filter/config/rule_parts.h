/*
 * config/rule_parts.h - a @RateLimit line that is being read. Between rule.c, the
 * rule_*.c beside it and key_template.c only.
 */
#ifndef WEIR_CONFIG_RULE_PARTS_H
#define WEIR_CONFIG_RULE_PARTS_H

#include "config/rule_read.h"

/* In the order of the reference. */
enum attribute_id {
	ATTR_TYPE,
	ATTR_COUNT,
	ATTR_WINDOW,
	ATTR_ALGORITHM,
	ATTR_BURST,
	ATTR_MAX_DELAY,
	ATTR_COST,
	ATTR_COST_MIN,
	ATTR_COST_MAX,
	ATTR_COST_DEFAULT,
	ATTR_PLAN,
	ATTR_KEY,
	ATTR_PREFIX,
	ATTR_MODE,
	ATTR_ON_ERROR,
	ATTR_NAME,
	ATTRIBUTES_N,
};

/* Largest count, burst and cost. */
#define COUNT_MAX (EXACT_MAX - 1)
/* Longest a request is held; it keeps its place in the server all the while. */
#define MAX_DELAY_MS (60 * 60 * 1000)

struct reading {
	struct rule rule;
	struct view values[ATTRIBUTES_N]; /* p is NULL when not given */
	bool bad[ATTRIBUTES_N];           /* was told as a mistake */
	struct place at;
	struct mistakes *m;
	bool ok;
};

/* What was written for the attribute, or its default. */
struct view rule_written(const struct reading *rd, enum attribute_id id);
/* Tells what is wrong with an attribute: its name, what was written for it, and why. */
void rule_wrong(struct reading *rd, enum attribute_id id, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* rule_checks.c: what attributes have to say to each other; fills in what follows from
 * others. */
void rule_check(struct reading *rd);

/* key_template.c: reads the template of a custom rule into its pieces. On a mistake says
 * why, beginning with a verb, and leaves nothing. */
bool key_template_read(struct view text, struct rule *r, struct buf *why);
void key_template_release(struct rule *r);

/* rule_words.c: what things are called. */
struct algorithm_words {
	const char *name, *id; /* "sliding_window", and in a tier's id "sw" */
	bool has_burst, has_delay;
};
extern const struct algorithm_words rule_algorithms[];
extern const char *const rule_types[], *const rule_modes[], *const rule_policies[];
#define ALGORITHMS_N (RATE_LEAKY_BUCKET + 1u)
#define TYPES_N      (RULE_CUSTOM + 1u)
#define MODES_N      (MODE_OFF + 1u)
#define POLICIES_N   (ON_ERROR_CLOSED + 1u)

/* "a, b or c": appends word number i of n. */
void rule_add_word(struct buf *b, size_t i, size_t n, const char *word);

#endif
