/*
 * proxy/spool.h - a request's body, kept until the backend has it all.
 *
 * The first bytes stay in memory; beyond that an unlinked temporary file holds the
 * body, so a crash leaves nothing behind. It can be read from any place any number
 * of times, which is what a retry needs.
 *
 * What the files of all spools hold together is counted, and may be bounded: many bodies
 * below their limit fill a disk as well as a large one.
 */
#ifndef WEIR_PROXY_SPOOL_H
#define WEIR_PROXY_SPOOL_H

#include <sys/types.h>

#include "base/buf.h"

struct spool {
	struct buf mem;      /* the body while it is small */
	int fd;              /* the file once it is not; else -1 */
	uint64_t n;          /* bytes so far */
	uint64_t limit;      /* most bytes accepted */
	size_t memory;       /* most bytes kept in mem */
	const char *dir;     /* where files are made; borrowed */
	uint64_t most_filed; /* bytes in the files of all spools; 0, as set up: no limit */
	struct spool_share *share; /* its part of them; NULL while there is no file */
	int error;                 /* after SPOOL_FAILED: errno */
};

enum spool_result {
	SPOOL_OK,
	SPOOL_TOO_LARGE, /* over the limit; what was added so far is of no use */
	SPOOL_FULL,      /* over most_filed: there may be room once others are gone */
	SPOOL_FAILED,    /* no memory, no disk, no descriptor: error says */
};

void spool_init(struct spool *s, uint64_t limit, size_t memory, const char *dir);
void spool_release(struct spool *s);
enum spool_result spool_add(struct spool *s, struct view bytes);
/* Whether a body of so many bytes in all would fit now. Nothing is set aside for it: who
 * promises much and sends little should not keep others out. */
bool spool_has_room(const struct spool *s, uint64_t length);
/* Bytes in the files of all spools of the process. Any thread. */
uint64_t spool_filed(void);

/* Reads up to cap bytes from offset at; returns how many, 0 at the end, -1 with
 * errno when the file cannot be read. */
ssize_t spool_read(const struct spool *s, uint64_t at, char *out, size_t cap);

/* What a body takes on disk stays taken while a program has it open. A share keeps it
 * counted beyond spool_release(), until it is released too; NULL, which can be released
 * as well, where there is no file. All on the spool's thread. */
struct spool_share *spool_share(const struct spool *s);
void spool_share_release(struct spool_share *share);

/* A descriptor of its own on the whole body, positioned at its start, close-on-exec;
 * the caller closes it. -1 with errno. */
int spool_open(const struct spool *s);

#endif
