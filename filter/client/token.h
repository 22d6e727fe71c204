/*
 * client/token.h - the token that a request carries.
 *
 * In the header of client.token_header, else in the cookie of client.token_cookie. From
 * Authorization it is taken where the scheme is Bearer (RFC 6750, section 2.1), from
 * any other header as it stands. Whether it is worth anything the directory says.
 */
#ifndef WEIR_CLIENT_TOKEN_H
#define WEIR_CLIENT_TOKEN_H

#include "config/config.h"
#include "front/request.h"

/* Longer ones are nobody's, and not worth hashing. */
#define TOKEN_MAX 512

/* The token, or the empty view where there is none, where it is given more than once
 * (proxy, server and handler might each believe another one), or where it is no word of
 * visible ASCII. Borrowed: as long as rq. */
struct view token_find(const struct config *c, const struct request *rq);

#endif
