/*
 * fastcgi/pairs.h - name-value pairs (FastCGI Specification 1.0, section 3.4).
 *
 * A length below 128 is one byte, else four with the top bit set. Reading works
 * on the whole stream of pairs, however records cut it; writing towards a
 * backend cuts records at pair boundaries, since php-fpm refuses a pair that
 * lies in two.
 */
#ifndef WEIR_FASTCGI_PAIRS_H
#define WEIR_FASTCGI_PAIRS_H

#include "fastcgi/record.h"

struct pair {
	struct view name, value;
};

enum pairs_result {
	PAIRS_PAIR, /* *out is the next pair; *in starts behind it */
	PAIRS_END,  /* *in is empty */
	PAIRS_BAD,  /* the lengths do not fit in what is left */
};

/* Takes the next pair from *in. The views are pieces of *in's bytes. */
enum pairs_result pairs_next(struct view *in, struct pair *out);

/* Appends one encoded pair. Lengths must be below 2^31. */
void pairs_put(struct buf *b, struct view name, struct view value);

/* Appends already encoded pairs as PARAMS records cut at pair boundaries, and
 * the empty record that ends them. False when pairs is malformed or one pair
 * alone exceeds RECORD_CONTENT_MAX and so fits in no record. */
bool pairs_put_params(struct buf *b, uint16_t id, struct view pairs);

#endif
