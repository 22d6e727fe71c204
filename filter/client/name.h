/*
 * client/name.h - users and plans as they are carried about: C strings of bounded length.
 */
#ifndef WEIR_CLIENT_NAME_H
#define WEIR_CLIENT_NAME_H

#include "base/view.h"

#define CLIENT_NAME_MAX 256 /* with the NUL */

/* Puts v into out. What does not fit, or would be cut by a NUL in it, is "sha256/" and
 * its SHA-256 in hexadecimal instead, and so is what begins with "sha256/" itself: two
 * different names never become one. */
void name_put(char out[CLIENT_NAME_MAX], struct view v);

#endif
