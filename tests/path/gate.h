/*
 * gate.h - weir with limits, and a reload that must not open them.
 *
 * Each case takes two of the three requests a limit allows, does what it should not, and
 * reloads: the third passes and the fourth is refused, so the limit is the one that was
 * and the count is what it was. Clients are new for each case; what is in words about it.
 */
#ifndef WEIR_TESTS_PATH_GATE_H
#define WEIR_TESTS_PATH_GATE_H

#include "site.h"

/* Endpoint a counts addresses in a sliding window, b anonymous users in a bucket. */
struct gate {
	struct weir *weir;
	const char *ini, *a;      /* good content of weir.ini and of endpoint a */
	const char *a_file, *dir; /* of endpoint a, of the endpoints */
	size_t n_limited;         /* endpoints that are tried */
};

#define IN_MEMORY "[store]\ntype = memory\n"
const char *gate_in_redis(void);

struct gate gate_start(const char *store);
/* In memory, and with endpoint c, which a second pattern finds: sites/c/weir.ini. */
struct gate gate_start_wide(void);

const char *gate_new_client(void);
int gate_status(const struct gate *g, const char *client, const char *uri);
void gate_expect(const struct gate *g, const char *client, const char *uri, int wanted,
	const char *when);

/* Two of three are taken. */
void gate_begin(const struct gate *g, const char *client, const char *what);
/* The third, and no fourth. */
void gate_end(const struct gate *g, const char *client, const char *what);
/* The good files are back: they hold, and so do the counts. */
void gate_mend(const struct gate *g, const char *client, const char *what);
bool gate_reload_failed(const struct gate *g);

/* The content with other words for some that are in it. */
void gate_edit(const char *file, const char *content, const char *from, const char *to);

#endif
