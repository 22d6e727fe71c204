#include "base/shortage.h"

#include <errno.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"

enum shortage shortage_of(int err)
{
	switch (err) {
	case EMFILE:
	case ENFILE: return SHORTAGE_DESCRIPTORS;
	case ENOMEM:
	case ENOBUFS:
	case EAGAIN: return SHORTAGE_MEMORY;
	default: return SHORTAGE_NONE;
	}
}

/* The limit to look at is the one that was met: of the process, or of the machine. */
static const char *what_would_do(int err)
{
	switch (err) {
	case EMFILE:
		return "raise the limit of open files (LimitNOFILE of systemd), or lower "
		       "server.max_connections";
	case ENFILE: return "raise the machine's limit of open files, fs.file-max";
	case EAGAIN:
		return "raise the limit of processes (TasksMax of systemd), or lower "
		       "max_programs";
	default: return "give it more memory, or lower server.max_requests";
	}
}

enum shortage shortage_seen(int err, const char *wanted)
{
	static struct log_gate gates[SHORTAGE_MEMORY + 1];
	enum shortage what = shortage_of(err);
	int saved = errno;
	uint64_t missed;

	if (what == SHORTAGE_NONE)
		return what;
	count_one(what == SHORTAGE_DESCRIPTORS ? COUNT_short_of_descriptors
					       : COUNT_short_of_memory);
	if (log_gate_open(&gates[what], clock_mono_us(), &missed))
		log_warn(what == SHORTAGE_DESCRIPTORS ? "out of file descriptors"
						      : "out of memory or processes",
			LOG_STR("for", wanted), LOG_STR("error", strerror(err)),
			LOG_STR("remedy", what_would_do(err)),
			LOG_INT("suppressed", missed));
	errno = saved;
	return what;
}
