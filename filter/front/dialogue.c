/*
 * front/dialogue.c - what a web server's records mean.
 *
 * Which record may come when, and whom it is for. Records of an id that is not the
 * request at hand are skipped, as the specification asks; what no web server sends
 * ends the connection.
 */
#include "front/dialogue.h"

#include <errno.h>

#include "base/counters.h"
#include "base/shortage.h"

#define VALUES_MAX 4096 /* bytes of a GET_VALUES record's names */

static bool is_bodiless(const struct request *rq)
{
	uint64_t length = 0;
	bool given;

	return request_content_length(rq, &length, &given) && length == 0;
}

static void give_head(struct connection *c, int problem)
{
	struct request rq = c->rq;
	void *user;

	c->bodiless = !problem && is_bodiless(&rq);

	/* The role outlives the hand-over: it decides whether the connection can be kept. */
	c->rq = (struct request){ .role = rq.role };
	c->served = true;
	connection_enter(c, rq.role == FCGI_AUTHORIZER ? CONN_BUSY : CONN_BODY);
	count_one(COUNT_requests);
	user = c->set->events->head(c->set->owner, &c->front, &rq, problem);
	if (c->state == CONN_BODY || c->state == CONN_BUSY) {
		c->user = user;
		if (!user)
			connection_die(c);
	}
}

static void begin_request(struct connection *c)
{
	struct record_begin begin = record_read_begin(c->begin);

	if (c->state != CONN_IDLE) { /* another id: start_of_record() saw to that */
		record_put_end(&c->out, c->reader.id, 0, FCGI_CANT_MPX_CONN);
		connection_answered(c);
		return;
	}
	if (c->config != c->set->config) { /* a reload came since the last request */
		config_unref(c->config);
		c->config = config_ref(c->set->config);
	}
	c->id = c->reader.id;
	c->keep = begin.keep_conn;
	c->ended = false;
	if (begin.role != FCGI_RESPONDER && begin.role != FCGI_AUTHORIZER) {
		record_put_end(&c->out, c->id, 0, FCGI_UNKNOWN_ROLE);
		/* The rest of that request is skipped as nobody's. */
		if (c->keep)
			connection_answered(c);
		else
			connection_end_request(c, AFTER_DRAIN);
		return;
	}
	request_init(&c->rq, begin.role);
	connection_enter(c, CONN_HEAD);
}

/* One connection carries one request at a time. */
static void put_value(const struct connection *c, struct buf *content, struct view name)
{
	struct buf value = { 0 };
	uint64_t n = 0;

	if (view_eq(name, VIEW(FCGI_MAX_CONNS)))
		n = c->config->server.max_connections;
	else if (view_eq(name, VIEW(FCGI_MAX_REQS)))
		n = c->config->server.max_requests;
	buf_add_u64(&value, n);
	pairs_put(content, name, buf_view(&value));
	buf_release(&value);
}

static void answer_values(struct connection *c)
{
	static const struct view known[] = {
		VIEW_INIT(FCGI_MAX_CONNS),
		VIEW_INIT(FCGI_MAX_REQS),
		VIEW_INIT(FCGI_MPXS_CONNS),
	};
	bool named[COUNT_OF(known)] = { false };
	struct view in = buf_view(&c->values);
	struct buf content = { 0 };
	enum pairs_result got;
	struct pair pair;

	while ((got = pairs_next(&in, &pair)) == PAIRS_PAIR)
		for (size_t i = 0; i < COUNT_OF(known); i++)
			named[i] = named[i] || view_eq(pair.name, known[i]);
	buf_release(&c->values);
	if (got == PAIRS_BAD) {
		connection_malformed(c, "a GET_VALUES record whose pairs do not fit");
		return;
	}
	for (size_t i = 0; i < COUNT_OF(known); i++)
		if (named[i])
			put_value(c, &content, known[i]);
	record_put_header(&c->out, FCGI_GET_VALUES_RESULT, 0, (uint16_t)content.n);
	buf_add(&c->out, buf_view(&content));
	buf_release(&content);
	connection_answered(c);
}

/* The peer no longer wants the request (section 4.2 of the specification). */
static void abort_request(struct connection *c)
{
	void *user = c->user;

	record_put_end(&c->out, c->id, 0, FCGI_REQUEST_COMPLETE);
	request_release(&c->rq);
	connection_end_request(c, AFTER_DRAIN);
	if (user)
		c->set->events->gone(user, FRONT_PEER_LEFT);
}

static bool is_ours(const struct connection *c)
{
	return c->state != CONN_IDLE && c->reader.id == c->id;
}

/* A record's header has come: is it one that may come here? */
static void start_of_record(struct connection *c)
{
	const struct record_reader *r = &c->reader;

	if (r->id == FCGI_NULL_REQUEST_ID) {
		if (r->type >= FCGI_BEGIN_REQUEST && r->type <= FCGI_DATA)
			connection_malformed(c, "a request's record with id 0");
		else if (r->type == FCGI_GET_VALUES && r->content_n > VALUES_MAX)
			connection_malformed(c, "a GET_VALUES record too long");
		return;
	}
	switch (r->type) {
	case FCGI_BEGIN_REQUEST:
		c->begin_n = 0;
		if (r->content_n != sizeof(c->begin))
			connection_malformed(
				c, "a BEGIN_REQUEST record of the wrong length");
		else if (is_ours(c))
			connection_malformed(c, "a second BEGIN_REQUEST for one id");
		break;
	case FCGI_PARAMS:
		if (is_ours(c) && c->state != CONN_HEAD)
			connection_malformed(c, "PARAMS behind their end");
		break;
	case FCGI_STDIN:
		if (is_ours(c) && c->state == CONN_HEAD)
			connection_malformed(c, "STDIN before the end of PARAMS");
		else if (is_ours(c) && c->state == CONN_BUSY &&
			c->rq.role != FCGI_AUTHORIZER)
			connection_malformed(c, "STDIN behind its end");
		break;
	case FCGI_ABORT_REQUEST:
	case FCGI_DATA: break;
	default: connection_malformed(c, "a record of a type that no web server sends");
	}
}

static void content_of_record(struct connection *c, struct view piece)
{
	const struct record_reader *r = &c->reader;

	if (r->type == FCGI_GET_VALUES) {
		buf_add(&c->values, piece);
	} else if (r->type == FCGI_BEGIN_REQUEST) {
		/* The length was checked, so the pieces fit. */
		memcpy(c->begin + c->begin_n, piece.p, piece.n);
		c->begin_n = (uint8_t)(c->begin_n + piece.n);
	} else if (is_ours(c) && c->state == CONN_HEAD && r->type == FCGI_PARAMS) {
		if (c->rq.head.n + piece.n > c->config->server.head_limit) {
			buf_release(&c->rq.head);
			give_head(c, 431);
			return;
		}
		buf_add(&c->rq.head, piece);
	} else if (is_ours(c) && c->state == CONN_BODY && r->type == FCGI_STDIN) {
		if (c->reading)
			connection_arm(c, c->config->server.body_timeout_ms);
		if (c->user)
			c->set->events->body(c->user, piece);
	}
}

static void end_of_stdin(struct connection *c)
{
	c->ended = true;
	if (c->state == CONN_BODY) {
		connection_enter(c, CONN_BUSY);
		if (c->user)
			c->set->events->body_end(c->user);
	} else if (c->state == CONN_FLUSH &&
		(c->after == AFTER_TAIL || c->after == AFTER_REST)) {
		c->after = AFTER_KEEP;
	} else if (c->state == CONN_FLUSH && c->after == AFTER_LAST) {
		c->after = AFTER_CLOSE;
	} else if (c->state == CONN_TAIL) {
		connection_enter(c, CONN_IDLE);
	}
}

static void end_of_record(struct connection *c)
{
	const struct record_reader *r = &c->reader;

	if (r->id == FCGI_NULL_REQUEST_ID) {
		if (r->type == FCGI_GET_VALUES) {
			answer_values(c);
		} else {
			record_put_unknown_type(&c->out, r->type);
			connection_answered(c);
		}
		return;
	}
	if (r->type == FCGI_BEGIN_REQUEST) {
		begin_request(c);
	} else if (!is_ours(c)) {
		return; /* of a request that is over, or never was */
	} else if (r->type == FCGI_PARAMS && r->content_n == 0) {
		if (request_index(&c->rq))
			give_head(c, 0);
		else if (shortage_seen(errno, "a request") == SHORTAGE_NONE)
			connection_malformed(c, "PARAMS whose pairs do not fit");
		else
			connection_die(c);
	} else if (r->type == FCGI_STDIN && r->content_n == 0) {
		end_of_stdin(c);
	} else if (r->type == FCGI_ABORT_REQUEST && c->state < CONN_FLUSH) {
		abort_request(c); /* behind the answer there is nothing to abort */
	}
}

/* Once an answer is complete and the connection cannot be kept, input is not looked at:
 * whatever a body holds, it is never taken for a request. */
static bool is_parsed(const struct connection *c)
{
	return c->state < CONN_FLUSH || c->state == CONN_TAIL ||
		(c->state == CONN_FLUSH && c->after <= AFTER_REST);
}

void dialogue_take(struct connection *c, struct view in)
{
	enum record_event event;
	struct view piece;

	while (is_parsed(c)) {
		event = record_next(&c->reader, &in, &piece);
		switch (event) {
		case RECORD_MORE: return;
		case RECORD_BEGINS: start_of_record(c); break;
		case RECORD_CONTENT: content_of_record(c, piece); break;
		case RECORD_ENDS: end_of_record(c); break;
		case RECORD_BAD:
			connection_malformed(c, "a record whose version is not 1");
			break;
		}
	}
	c->drained += in.n;
}
