/*
 * What the directory costs with a million tokens: filling it, look-ups that ask SQLite,
 * look-ups the cache answers, and how long a worker's loop is held up meanwhile. Prints
 * figures; nothing is asserted, since they are the machine's as much as ours.
 *
 *	ninja tests/bench/bench_directory && tests/bench/bench_directory [TOKENS [UNDER_WAY]]
 */
#include <inttypes.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/directory.h"
#include "client/schema.h"

#define LOOK_UPS    200000
#define HITS        2000000
#define AT_ONCE_MAX 5000
#define HOT_TOKENS  10000

static unsigned tokens = 1000000, under_way = 64;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static void run(sqlite3 *db, const char *sql)
{
	if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
		fail(sql, sqlite3_errmsg(db));
}

/* The hash of token number i; beyond the last it is nobody's. */
static struct view hash_of(unsigned i, unsigned char out[DIRECTORY_HASH_BYTES])
{
	crypto_hash_sha256(out, (const unsigned char *)&i, sizeof(i));
	return view_of((const char *)out, DIRECTORY_HASH_BYTES);
}

static void fill(const char *path)
{
	unsigned char hash[DIRECTORY_HASH_BYTES];
	sqlite3_stmt *user, *token;
	struct buf why = { 0 };
	char name[32];
	int64_t began;
	sqlite3 *db;

	if (sqlite3_open(path, &db) != SQLITE_OK || !schema_migrate(db, &why))
		fail(path, why.n ? buf_str(&why) : sqlite3_errmsg(db));
	began = clock_mono_us();
	run(db, "PRAGMA cache_size = -262144; BEGIN"); /* hashes go all over the index */
	sqlite3_prepare_v2(db, "INSERT INTO users (name) VALUES (?)", -1, &user, NULL);
	sqlite3_prepare_v2(
		db, "INSERT INTO tokens (user, hash) VALUES (?, ?)", -1, &token, NULL);
	for (unsigned i = 0; i < tokens; i++) {
		snprintf(name, sizeof(name), "user%07u", i / 2);
		if (i % 2 == 0) {
			sqlite3_bind_text(user, 1, name, -1, SQLITE_STATIC);
			sqlite3_step(user);
			sqlite3_reset(user);
		}
		hash_of(i, hash);
		sqlite3_bind_text(token, 1, name, -1, SQLITE_STATIC);
		sqlite3_bind_blob(token, 2, hash, sizeof(hash), SQLITE_STATIC);
		if (sqlite3_step(token) != SQLITE_DONE)
			fail("insert", sqlite3_errmsg(db));
		sqlite3_reset(token);
	}
	sqlite3_finalize(user);
	sqlite3_finalize(token);
	run(db, "COMMIT");
	printf("%-52s %8.1f s\n", "filled, one transaction",
		(double)(clock_mono_us() - began) / 1e6);
	sqlite3_close(db);
}

/* A worker's loop, with look-ups under way and a clock that is looked at each turn. */
struct bench {
	struct directory *d;
	uv_loop_t loop;
	uv_timer_t tick;
	unsigned next, end, done, found;
	unsigned first, span;      /* tokens asked for: in some order, from first on */
	int64_t tick_us, stall_us; /* on the wall */
	int64_t cpu_us, busy_us;   /* of this thread's own time */
	int64_t began_us[AT_ONCE_MAX], waited_us, longest_us;
};

struct slot {
	struct bench *b;
	unsigned i;
};
static struct slot slots[AT_ONCE_MAX];

static int64_t thread_cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

static void ticked(uv_timer_t *t)
{
	struct bench *b = CONTAINER_OF(t, struct bench, tick);
	int64_t now = clock_mono_us(), cpu = thread_cpu_us();

	if (b->tick_us && now - b->tick_us > b->stall_us)
		b->stall_us = now - b->tick_us;
	if (b->tick_us && cpu - b->cpu_us > b->busy_us)
		b->busy_us = cpu - b->cpu_us;
	b->tick_us = now;
	b->cpu_us = cpu;
	if (b->done == b->end)
		uv_close((uv_handle_t *)t, NULL);
}

/* What the machine holds a loop up by that has nothing to do. */
static void bench_idle(void)
{
	struct bench b = { .end = 1 };

	uv_loop_init(&b.loop);
	uv_timer_init(&b.loop, &b.tick);
	uv_timer_start(&b.tick, ticked, 0, 1);
	for (int64_t began = clock_mono_us(); clock_mono_us() - began < 3000000;)
		uv_run(&b.loop, UV_RUN_ONCE);
	b.done = 1;
	uv_run(&b.loop, UV_RUN_DEFAULT);
	uv_loop_close(&b.loop);
	printf("%-52s %8.2f ms longest, with a tick of 1 ms\n",
		"an idle loop between two ticks", (double)b.stall_us / 1e3);
}

static void ask(struct slot *s);

static void answered(
	void *user, enum directory_result result, const struct directory_entry *e)
{
	struct slot *s = user;
	struct bench *b = s->b;
	int64_t waited = clock_mono_us() - b->began_us[s->i];

	(void)e;
	b->done++;
	b->found += result == DIRECTORY_FOUND;
	b->waited_us += waited;
	if (waited > b->longest_us)
		b->longest_us = waited;
	ask(s);
}

static void ask(struct slot *s)
{
	struct bench *b = s->b;
	unsigned char hash[DIRECTORY_HASH_BYTES];

	if (b->next == b->end)
		return;
	/* A stride that meets all of them, far apart. */
	hash_of(b->first + (unsigned)((uint64_t)b->next++ * 7919 % b->span), hash);
	b->began_us[s->i] = clock_mono_us();
	directory_ask(b->d, &b->loop, DIRECTORY_BY_TOKEN,
		view_of((const char *)hash, sizeof(hash)), answered, s);
}

static void bench_asks(struct directory *d, const char *what, unsigned first, unsigned span)
{
	struct bench b = { .d = d, .end = LOOK_UPS, .first = first, .span = span };
	int64_t began = clock_mono_us(), took;

	uv_loop_init(&b.loop);
	uv_timer_init(&b.loop, &b.tick);
	uv_timer_start(&b.tick, ticked, 0, 1);
	for (unsigned i = 0; i < under_way; i++) {
		slots[i] = (struct slot){ &b, i };
		ask(&slots[i]);
	}
	uv_run(&b.loop, UV_RUN_DEFAULT);
	took = clock_mono_us() - began;
	uv_loop_close(&b.loop);
	printf("%-52s %8.1f thousand/s, %u of %u found\n", what,
		(double)LOOK_UPS * 1e3 / (double)took, b.found, b.end);
	printf("%-52s %8.2f ms mean, %.2f ms longest, %u under way\n", "  a look-up waits",
		(double)b.waited_us / LOOK_UPS / 1e3, (double)b.longest_us / 1e3,
		under_way);
	printf("%-52s %8.2f ms longest, with a tick of 1 ms\n",
		"  the loop between two ticks", (double)b.stall_us / 1e3);
	printf("%-52s %8.2f ms longest\n", "  of that at work itself",
		(double)b.busy_us / 1e3);
}

static void bench_hits(struct directory *d)
{
	unsigned char hash[DIRECTORY_HASH_BYTES];
	enum directory_result result;
	struct directory_entry e;
	unsigned known = 0;
	int64_t began;

	began = clock_mono_us();
	for (unsigned i = 0; i < HITS; i++)
		known += directory_know(
			d, DIRECTORY_BY_TOKEN, hash_of(i % HOT_TOKENS, hash), &result, &e);
	printf("%-52s %8.1f thousand/s, %u of %u known\n",
		"answered by the cache, SHA-256 included",
		(double)HITS * 1e3 / (double)(clock_mono_us() - began), known, HITS);
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/weir-bench-XXXXXX", path[64], more[80];
	struct directory_options o = { .path = path,
		.query = "",
		.ttl_ms = 3600000,
		.miss_ttl_ms = 3600000,
		.cache_entries = 100000,
		.wait_ms = 10000 };
	struct buf why = { 0 };
	struct directory *d;

	if (argc > 1)
		tokens = (unsigned)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		under_way = (unsigned)strtoul(argv[2], NULL, 10);
	if (tokens < HOT_TOKENS || under_way - 1 >= AT_ONCE_MAX || !mkdtemp(folder))
		fail("usage",
			"bench_directory [TOKENS [UNDER_WAY]], at least 10000, at most "
			"5000");
	snprintf(path, sizeof(path), "%s/weir.db", folder);
	printf("%u tokens of %u users\n", tokens, tokens / 2);
	fill(path);
	d = directory_open(&o, &why);
	if (!d)
		fail("open", buf_str(&why));
	bench_idle();
	bench_asks(d, "found in the file", 0, tokens);
	bench_asks(d, "not in the file", tokens, tokens);
	bench_asks(d, "found, ten thousand of them again and again", 0, HOT_TOKENS);
	bench_hits(d);
	directory_close(d);
	for (size_t i = 0; i < 3; i++) {
		static const char *const behind[] = { "", "-wal", "-shm" };

		snprintf(more, sizeof(more), "%s%s", path, behind[i]);
		unlink(more);
	}
	rmdir(folder);
	return 0;
}
