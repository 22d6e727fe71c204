#include <criterion/criterion.h>
#include <hiredis/hiredis.h>

#include "store/script.h"
#include "store/store.h"

static redisReply *reply_of(const char *resp)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	redisReaderFeed(reader, resp, strlen(resp));
	redisReaderGetReply(reader, &reply);
	redisReaderFree(reader);
	cr_assert(reply, "the test's own reply is malformed");
	return reply;
}

Test(script, a_question_is_one_command_with_its_keys_and_numbers)
{
	struct rate window = { RATE_SLIDING_WINDOW, 60, 60000000, 60 };
	struct rate bucket = { RATE_TOKEN_BUCKET, 5, 1000, 7 };
	struct rate queue = { RATE_LEAKY_BUCKET, 8, 2000, 9, 250 };
	struct take_tier tiers[] = {
		{ VIEW("rate:a"), &window, 1, false },
		{ VIEW("rate:b"), &bucket, 3, true },
		{ VIEW("rate:c"), &queue, 1, false },
	};
	struct buf b = { 0 };
	redisReply *r;

	script_put_take(&b, SCRIPT_BY_SHA, tiers, 3, 1700000000000001);
	r = reply_of(buf_str(&b));
	cr_assert_eq(r->elements, 28u);
	for (size_t i = 0; i < r->elements; i++) {
		const char *want[] = { "EVALSHA", script_sha(), "3", "rate:a", "rate:b",
			"rate:c", "1700000000000001", "0", "60", "60000000", "60", "1", "0",
			"0", "1", "5", "1000", "7", "3", "1", "0", "4", "8", "2000", "9",
			"1", "0", "250" };

		cr_assert_str_eq(r->element[i]->str, want[i], "argument %zu", i);
	}
	freeReplyObject(r);
	buf_reset(&b);
	script_put_take(&b, SCRIPT_WHOLE, tiers, 1, SCRIPT_REDIS_TIME);
	r = reply_of(buf_str(&b));
	cr_assert_eq(r->elements, 12u);
	cr_assert_str_eq(r->element[0]->str, "EVAL");
	cr_assert_eq(r->element[1]->len, script_text().n);
	cr_assert_str_eq(r->element[4]->str, "");
	freeReplyObject(r);
	buf_release(&b);
}

Test(script, a_reply_is_read_into_views)
{
	redisReply *r = reply_of("*11\r\n:0\r\n:1\r\n:5\r\n:0\r\n:77\r\n:6\r\n"
				 ":0\r\n:0\r\n:3\r\n:4\r\n:0\r\n");
	struct rate_view views[2];
	bool admitted = true;

	cr_assert(script_parse(r, 2, &admitted, views));
	cr_assert_not(admitted);
	cr_assert(views[0].admitted);
	cr_assert_eq(views[0].remaining, 5u);
	cr_assert_eq(views[0].wait_us, 0);
	cr_assert_eq(views[0].reset_us, 77);
	cr_assert_eq(views[0].hold_us, 6);
	cr_assert_not(views[1].admitted);
	cr_assert_eq(views[1].wait_us, 3);
	freeReplyObject(r);
}

Test(script, nonsense_is_no_answer)
{
	static const char for_two[] = "*11\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n"
				      ":1\r\n:0\r\n:0\r\n:0\r\n:0\r\n";
	static const char *const replies[] = {
		"-ERR no\r\n", "+OK\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"*1\r\n:1\r\n", "*5\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n",
		"*7\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n", for_two,
		"*6\r\n$1\r\n1\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
		"*6\r\n:1\r\n$1\r\n1\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
		"*6\r\n:1\r\n:1\r\n*0\r\n:0\r\n:0\r\n:0\r\n",
		"*6\r\n:1\r\n:1\r\n:0\r\n$-1\r\n:0\r\n:0\r\n",
		"*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n-no\r\n:0\r\n",
		"*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:0\r\n$1\r\n0\r\n",
		"*6\r\n:2\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
		"*6\r\n:-1\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
		"*6\r\n:1\r\n:2\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
		"*6\r\n:1\r\n:1\r\n:-1\r\n:0\r\n:0\r\n:0\r\n",
		"*6\r\n:1\r\n:1\r\n:9223372036854775807\r\n:0\r\n:0\r\n:0\r\n",
		"*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:-5\r\n:0\r\n",
		"*6\r\n:1\r\n:1\r\n:0\r\n:0\r\n:5\r\n:-1\r\n",
		"*6\r\n:0\r\n:0\r\n:0\r\n:0\r\n:5\r\n:0\r\n", /* no wait */
		"*6\r\n:0\r\n:0\r\n:0\r\n:7\r\n:5\r\n:1\r\n", /* refused and held */
		"*6\r\n:1\r\n:1\r\n:0\r\n:7\r\n:5\r\n:0\r\n", /* admitted, to wait */
	};
	struct rate_view view = { .remaining = 42 };
	bool admitted = true;

	for (size_t i = 0; i < COUNT_OF(replies); i++) {
		redisReply *r = reply_of(replies[i]);

		cr_assert_not(script_parse(r, 1, &admitted, &view), "row %zu", i);
		freeReplyObject(r);
	}
	cr_assert_not(script_parse(NULL, 1, &admitted, &view));
	cr_assert(admitted);
	cr_assert_eq(view.remaining, 42u);
}
