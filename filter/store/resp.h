/*
 * store/resp.h - requests to Redis, written: an array of bulk strings (redis.io, "RESP
 * protocol specification"). Pure.
 */
#ifndef WEIR_STORE_RESP_H
#define WEIR_STORE_RESP_H

#include "base/buf.h"

/* Begins a request of n words, which have to follow. */
void resp_put_array(struct buf *b, uint64_t n);
/* A word, of any bytes. */
void resp_put(struct buf *b, struct view word);
void resp_put_number(struct buf *b, uint64_t n);

/* A whole request. */
void resp_put_request(struct buf *b, size_t n, const struct view *words);

#endif
