#include "store/script.h"

#include "store/resp.h"
#include "store/store.h"
#include "take.lua.h" /* text and sha, made from take.lua by embed.sh */

#define PER_TIER_ARGS  7
#define PER_TIER_REPLY 5

static const char *const algorithm_codes[] = {
	[RATE_SLIDING_WINDOW] = "0",
	[RATE_TOKEN_BUCKET] = "1",
	[RATE_FIXED_WINDOW] = "2",
	[RATE_SLIDING_COUNTER] = "3",
	[RATE_LEAKY_BUCKET] = "4",
};

struct view script_text(void)
{
	return view_of(text, sizeof(text));
}

const char *script_sha(void)
{
	return sha;
}

void script_put_load(struct buf *b)
{
	resp_put_request(
		b, 3, (struct view[]){ VIEW("SCRIPT"), VIEW("LOAD"), script_text() });
}

void script_put_take(struct buf *b, enum script_form form, const struct take_tier *tiers,
	size_t n, int64_t now_us)
{
	resp_put_array(b, 4 + n + PER_TIER_ARGS * n);
	resp_put(b, form == SCRIPT_WHOLE ? VIEW("EVAL") : VIEW("EVALSHA"));
	resp_put(b, form == SCRIPT_WHOLE ? script_text() : view_str(sha));
	resp_put_number(b, n);
	for (size_t i = 0; i < n; i++)
		resp_put(b, tiers[i].key);
	if (now_us < 0)
		resp_put(b, VIEW(""));
	else
		resp_put_number(b, (uint64_t)now_us);
	for (size_t i = 0; i < n; i++) {
		const struct rate *r = tiers[i].rate;

		resp_put(b, view_str(algorithm_codes[r->algorithm]));
		resp_put_number(b, r->count);
		resp_put_number(b, (uint64_t)r->window_us);
		resp_put_number(b, r->burst);
		resp_put_number(b, tiers[i].cost);
		resp_put(b, tiers[i].shadow ? VIEW("1") : VIEW("0"));
		resp_put_number(b, (uint64_t)r->max_delay_us);
	}
}

static bool read_number(const redisReply *r, long long max, long long *out)
{
	if (!r || r->type != REDIS_REPLY_INTEGER || r->integer < 0 || r->integer > max)
		return false;
	*out = r->integer;
	return true;
}

static bool read_view(redisReply *const *from, struct rate_view *out)
{
	const long long exact = 1LL << 53;
	long long admitted, remaining, wait_us, reset_us, hold_us;

	if (!read_number(from[0], 1, &admitted) ||
		!read_number(from[1], exact, &remaining) ||
		!read_number(from[2], exact, &wait_us) ||
		!read_number(from[3], exact, &reset_us) ||
		!read_number(from[4], exact, &hold_us))
		return false;
	/* Admitted and having to wait exclude each other; only who is admitted is held. */
	if (admitted != (wait_us == 0) || (hold_us > 0 && !admitted))
		return false;
	*out = (struct rate_view){
		.admitted = admitted,
		.remaining = (uint64_t)remaining,
		.wait_us = wait_us,
		.reset_us = reset_us,
		.hold_us = hold_us,
	};
	return true;
}

bool script_parse(
	const redisReply *reply, size_t n, bool *admitted, struct rate_view *views)
{
	struct rate_view read[TIERS_MAX];
	long long pass;

	if (!reply || reply->type != REDIS_REPLY_ARRAY || n == 0 || n > TIERS_MAX ||
		reply->elements != 1 + PER_TIER_REPLY * n)
		return false;
	if (!read_number(reply->element[0], 1, &pass))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!read_view(&reply->element[1 + PER_TIER_REPLY * i], &read[i]))
			return false;
	}
	*admitted = pass;
	memcpy(views, read, n * sizeof(*views));
	return true;
}
