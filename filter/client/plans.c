#include "client/plans.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/reader.h"
#include "config/words.h"

#define BUSY_MS     2000 /* as a look-up waits */
#define PLANS_SHOWN 8

/* plans has one a line. */
static bool has_plan(struct view plans, const char *plan)
{
	while (plans.n)
		if (view_eq(view_cut(&plans, '\n'), view_str(plan)))
			return true;
	return false;
}

/* The plan that is meant most likely, or a few of those there are. */
static void put_plans(struct view plans, const char *plan, struct buf *out)
{
	struct view rest = plans, nearest = { 0 };
	size_t least = WORD_SLIP + 1, n = 0;

	while (rest.n) {
		struct view known = view_cut(&rest, '\n');
		size_t d = word_distance(view_str(plan), known);

		if (d < least && d < known.n) {
			least = d;
			nearest = known;
		}
	}
	if (nearest.n) {
		buf_addf(out, "did you mean %.*s?", VIEW_ARG(nearest));
		return;
	}
	buf_add_str(out, "there is ");
	while (plans.n && n < PLANS_SHOWN) {
		struct view known = view_cut(&plans, '\n');

		buf_addf(out, "%s%.*s", n++ ? ", " : "", VIEW_ARG(known));
	}
	buf_addf(out, "%s; \"weirctl plan add %s\" makes this one", plans.n ? ", ..." : "",
		plan);
}

static void check_rule(
	const struct config *c, const struct rule *r, struct view plans, struct mistakes *m)
{
	struct buf hint = { 0 };

	if (!r->plan || plan_is_usual(r->plan) || has_plan(plans, r->plan))
		return;
	put_plans(plans, r->plan, &hint);
	if (buf_str(&hint))
		mistake_notice(m, (struct place){ r->file, r->line },
			"@RateLimit plan: \"%s\" is no plan in %s, so nobody meets this "
			"rule; %s",
			r->plan, c->client.directory, hint.p);
	else
		m->no_memory = true;
	buf_release(&hint);
}

static void check_tiers(const struct config *c, const struct tiers *tiers,
	struct view plans, struct mistakes *m)
{
	for (size_t i = 0; i < tiers->n; i++)
		for (size_t j = 0; j < tiers->list[i].n_rules; j++)
			check_rule(c, &tiers->list[i].rules[j], plans, m);
}

/* The version of the format that a reader has to know: 1, or 2 in WAL mode
 * (https://sqlite.org/fileformat2.html, 1.3.3). */
#define READ_VERSION_AT  19
#define READ_VERSION_WAL 2

/* Whether who opens the file now makes what others then have to open. Of a file that cannot
 * be looked at reader_open() tells. */
static bool would_leave_files(const char *path, struct buf *why)
{
	struct stat st;
	struct buf shm = { 0 };
	unsigned char version = 0;
	bool missing;
	int fd;

	if (geteuid() == 0 || stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
		st.st_uid == geteuid())
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (pread(fd, &version, 1, READ_VERSION_AT) != 1)
		version = 0;
	close(fd); /* locks on the file go with it: this process has none yet */
	buf_addf(&shm, "%s-shm", path);
	missing = !buf_str(&shm) || access(shm.p, F_OK) < 0;
	buf_release(&shm);
	if (version != READ_VERSION_WAL || !missing)
		return false;
	buf_addf(why,
		"the directory %s is not looked into: nobody has it open, and this user "
		"would own %s-shm, which weir has to write; ask as the user weir runs as, "
		"or while it runs",
		path, path);
	return true;
}

enum plans_look plans_check(
	const struct config *c, bool guest, struct mistakes *m, struct buf *why)
{
	enum reader_fault fault;
	struct buf plans = { 0 };
	struct reader *r;

	if (!*c->client.directory)
		return PLANS_FIT;
	if (guest && would_leave_files(c->client.directory, why))
		return PLANS_LEFT;
	r = reader_open(
		c->client.directory, c->client.directory_query, BUSY_MS, &fault, why);
	if (!r)
		return fault == READER_HINDERED ? PLANS_HINDERED : PLANS_UNFIT;
	if (!*c->client.directory_query && reader_plans(r, &plans) && buf_ok(&plans)) {
		check_tiers(c, &c->site, buf_view(&plans), m);
		for (size_t i = 0; i < c->n_endpoints; i++)
			check_tiers(c, &c->endpoints[i].tiers, buf_view(&plans), m);
	}
	buf_release(&plans);
	reader_free(r);
	return PLANS_FIT;
}
