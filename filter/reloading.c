#include "reloading.h"

#include "base/log.h"
#include "config/reload.h"
#include "proxy/addresses.h"
#include "startable.h"

static struct {
	uv_loop_t *loop;
	void (*take)(struct config *fresh);
	struct config *started; /* what the process was started with; a reference */
	struct config *now;     /* in force; borrowed from its owner */
	bool ending, failed;

	uv_work_t reading;
	bool is_reading, read_again;
	struct config *fresh; /* what was read; NULL when it is not to be taken */
	struct buf messages;  /* what was said, and what was found beside the old one */
	struct buf gone, restart;

	uv_work_t looking; /* at what the next start would meet */
	bool is_looking, look_again;
	struct config *looked_at; /* a reference */
	struct buf look_messages;
} reloading;

void reloading_init(uv_loop_t *loop, struct config *c, void (*take)(struct config *fresh))
{
	reloading.loop = loop;
	reloading.take = take;
	reloading.started = config_ref(c);
	reloading.now = c;
}

bool reloading_failed(void)
{
	return reloading.failed;
}

void reloading_stop(void)
{
	reloading.ending = true;
}

void reloading_release(void)
{
	config_unref(reloading.started);
}

static void log_messages(enum log_level level, struct view text)
{
	while (text.n) {
		struct view line = view_cut(&text, '\n');

		if (log_wants(level))
			log_write(level, "configuration",
				(const struct log_field[]){
					LOG_VIEW("message", line), { 0 } });
	}
}

/* -- looking ahead ----------------------------------------------------------------- */

static void start_look(void);

static void look_ended(uv_work_t *work, int status)
{
	(void)work;
	(void)status;
	reloading.is_looking = false;
	if (!reloading.ending)
		log_messages(LOG_LEVEL_NOTICE, buf_view(&reloading.look_messages));
	buf_release(&reloading.look_messages);
	config_unref(reloading.looked_at);
	if (reloading.look_again)
		start_look();
}

static void look_work(uv_work_t *work)
{
	(void)work;
	startable(reloading.looked_at, STARTABLE_RUNS, &reloading.look_messages);
}

/* What a restart would meet is told once the new rules are in force, and holds up none that
 * come after them: a disk that hangs, for one, keeps it for as long as it likes. */
static void start_look(void)
{
	reloading.look_again = reloading.is_looking;
	if (reloading.is_looking || reloading.ending)
		return;
	reloading.looked_at = config_ref(reloading.now);
	reloading.is_looking = uv_queue_work(reloading.loop, &reloading.looking, look_work,
				       look_ended) == 0;
	if (!reloading.is_looking)
		config_unref(reloading.looked_at);
}

/* -- reading ----------------------------------------------------------------------- */

static void forget(void)
{
	reloading.fresh = NULL;
	buf_release(&reloading.messages);
	buf_release(&reloading.gone);
	buf_release(&reloading.restart);
}

static void take(struct config *fresh)
{
	reloading.take(fresh);
	reloading.now = fresh;
	if (reloading.gone.n)
		log_warn("these limits are no longer enforced",
			LOG_VIEW("limits", buf_view(&reloading.gone)));
	if (reloading.restart.n)
		log_warn("these options have changed and need a restart",
			LOG_VIEW("options", buf_view(&reloading.restart)));
	start_look();
}

static void reading_ended(uv_work_t *work, int status)
{
	(void)work;
	reloading.is_reading = false;
	if (reloading.ending) { /* the workers may be gone */
		config_unref(reloading.fresh);
		forget();
		return;
	}
	reloading.failed = status < 0 || !reloading.fresh;
	log_messages(reloading.failed ? LOG_LEVEL_ERROR : LOG_LEVEL_NOTICE,
		buf_view(&reloading.messages));
	if (reloading.failed)
		log_error("the configuration is not taken: the old one stays in force");
	else
		take(reloading.fresh);
	forget();
	if (reloading.read_again)
		reloading_start();
}

static void read_work(uv_work_t *work)
{
	struct config *now = reloading.now; /* changes only when this has ended */
	struct config *fresh;
	struct buf why = { 0 };

	(void)work;
	if (!config_load(now->file, &fresh, &reloading.messages))
		return;
	if (!config_may_replace(now, fresh, &why)) {
		buf_release(&reloading.messages);
		reloading.messages = why;
		config_unref(fresh);
	} else if (!addresses_hand_on(now, fresh)) {
		buf_addf(&reloading.messages, "%s: memory is out\n", fresh->file);
		config_unref(fresh);
	} else {
		reloading.fresh = fresh;
		config_limits_gone(now, fresh, &reloading.gone);
		/* Since the start: an earlier reload may have left something to do. */
		config_restart_needed(reloading.started, fresh, &reloading.restart);
	}
}

void reloading_start(void)
{
	reloading.read_again = reloading.is_reading;
	if (reloading.is_reading || reloading.ending)
		return;
	reloading.is_reading = uv_queue_work(reloading.loop, &reloading.reading, read_work,
				       reading_ended) == 0;
}
