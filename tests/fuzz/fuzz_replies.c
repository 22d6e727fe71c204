/*
 * fuzz_replies.c - what Redis says, through hiredis, to those who asked.
 *
 * A verdict is taken only when it is whole, and its numbers are within bounds. However
 * the bytes are cut, the same is read. What is told about a refusal is one line that ends
 * within its room, and shows nothing of the password.
 *
 * Input: how many tiers were asked for, where to cut, and what comes from the socket.
 */
#include "fuzz.h"
#include "store/greeting.h"
#include "store/script.h"
#include "store/store.h"

#define REPLIES_MAX 16

static void check_view(const struct rate_view *v)
{
	const int64_t exact = INT64_C(1) << 53;

	MUST(v->remaining <= (uint64_t)exact);
	MUST(v->wait_us >= 0 && v->wait_us <= exact);
	MUST(v->reset_us >= 0 && v->reset_us <= exact);
	MUST(v->hold_us >= 0 && v->hold_us <= exact);
	MUST(v->admitted == (v->wait_us == 0));
	MUST(!v->hold_us || v->admitted);
	MUST(!v->unknown);
}

static void put_view(const struct rate_view *v, struct buf *out)
{
	check_view(v);
	buf_addf(out, " %d,%llu,%lld,%lld,%lld", v->admitted,
		(unsigned long long)v->remaining, (long long)v->wait_us,
		(long long)v->reset_us, (long long)v->hold_us);
}

/* Whatever each of them makes of it, in words. */
static void interpret(const redisReply *reply, size_t n_tiers, struct buf *out)
{
	struct rate_view views[TIERS_MAX];
	bool admitted = false;
	char why[64];

	memset(views, 0x5a, sizeof(views));
	buf_addf(out, "\nreply %d", reply->type);
	if (script_parse(reply, n_tiers, &admitted, views)) {
		MUST(n_tiers >= 1 && n_tiers <= TIERS_MAX);
		buf_addf(out, " verdict %d", admitted);
		for (size_t i = 0; i < n_tiers; i++)
			put_view(&views[i], out);
	} else {
		MUST(!admitted);
		for (size_t i = 0; i < sizeof(views); i++)
			MUST(((const unsigned char *)views)[i] == 0x5a);
	}
	for (unsigned step = 0; step < GREETING_STEPS; step++) {
		memset(why, 0x5a, sizeof(why));
		if (greeting_check(step, reply, why, sizeof(why))) {
			buf_addf(out, " step %u", step);
			continue;
		}
		MUST(memchr(why, '\0', sizeof(why)) && *why);
		buf_addf(out, " %s", why);
		if (step == GREETING_AUTH)
			MUST(!strstr(why, "hunter2"));
	}
}

static void read_all(struct view in, size_t piece, size_t n_tiers, struct buf *out)
{
	redisReader *reader = redisReaderCreate();
	size_t replies = 0;

	MUST(reader);
	while (in.n && !reader->err && replies < REPLIES_MAX) {
		struct view part = fuzz_copy(fuzz_take(&in, piece));
		void *reply = NULL;

		redisReaderFeed(reader, part.p, part.n);
		while (replies < REPLIES_MAX &&
			redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
			interpret(reply, n_tiers, out);
			freeReplyObject(reply);
			replies++;
		}
		fuzz_drop(part);
	}
	redisReaderFree(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct view in = view_of((const char *)data, size);
	size_t n_tiers = fuzz_byte(&in) % (TIERS_MAX + 2), piece = 1 + fuzz_byte(&in);
	struct buf whole = { 0 }, cut = { 0 };

	read_all(in, in.n ? in.n : 1, n_tiers, &whole);
	read_all(in, piece, n_tiers, &cut);
	MUST(buf_ok(&whole) && view_eq(buf_view(&whole), buf_view(&cut)));
	buf_release(&whole);
	buf_release(&cut);
	return 0;
}
