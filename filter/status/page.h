/*
 * status/page.h - the answers of weir-status, as bytes. Pure: no socket, no clock.
 *
 * Drawn from the status object of the control socket (observe/control.h). Everything
 * in it is escaped, whoever wrote it.
 */
#ifndef WEIR_STATUS_PAGE_H
#define WEIR_STATUS_PAGE_H

#include <jansson.h>

#include "base/buf.h"

/* Which answer a request is for. */
enum page {
	PAGE_HTML,
	PAGE_METRICS,
	PAGE_JSON,
	PAGE_UNKNOWN, /* 404 */
};

/* From the variables a web server sets; NULL where it does not. PATH_INFO decides where
 * it is given. Servers that set none (nginx unless told) have the whole path in
 * SCRIPT_NAME: then its last segment decides, and any but the two known names is the
 * page, since nobody says where the program is mounted. *base is the part of the path
 * before it, for links: a piece of script_name. */
enum page page_find(const char *script_name, const char *path_info, struct view *base);

/* Appends a whole HTML document. */
void page_html(const json_t *status, struct view base, struct buf *out);
/* The same when weir cannot be asked: why is the sentence that says what would help. */
void page_html_down(struct view why, struct buf *out);

/* Appends text so that it stays text, in an element or a quoted attribute. */
void page_escape(struct view text, struct buf *out);

#endif
