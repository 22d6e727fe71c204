/*
 * client/client.c - who is asking.
 *
 * The address is read on the spot. The sources of a user are asked one after the other;
 * the directory answers from its cache or, much later, from its loop call, and either
 * way the same function takes the answer.
 *
 * An address that had to be guessed (the peer in place of a client its proxy does not
 * name) is good enough to be limited by and not good enough to be exempt by: otherwise
 * whoever confuses a proxy on the allow list would be on it too.
 */
#include "client/client.h"

#include <assert.h>
#include <sodium.h>

#include "base/clock.h"
#include "base/counters.h"
#include "base/log.h"
#include "client/directory.h"
#include "client/forwarded.h"
#include "client/token.h"

static_assert(
	DIRECTORY_HASH_BYTES == crypto_hash_sha256_BYTES, "tokens are kept as SHA-256");
static_assert(CLIENT_ADDRESS_MAX >= ADDRESS_TEXT_MAX, "a client has room for an address");

static void warn_no_address(struct view remote_addr)
{
	static struct log_gate gate;
	uint64_t missed;

	count_one(COUNT_requests_without_address);
	if (log_gate_open(&gate, clock_mono_us(), &missed))
		log_warn(
			"request without a client address; all of them count as one client",
			LOG_VIEW("remote_addr", remote_addr),
			LOG_INT("suppressed", missed));
}

static void warn_forwarded(enum forwarded what, const char *peer)
{
	static struct log_gate malformed, contradictory;
	uint64_t missed;

	if (what == FORWARDED_MALFORMED &&
		log_gate_open(&malformed, clock_mono_us(), &missed))
		log_warn("trusted proxy names no client address; its own is used",
			LOG_STR("proxy", peer), LOG_INT("suppressed", missed));
	if (what == FORWARDED_CONTRADICTORY &&
		log_gate_open(&contradictory, clock_mono_us(), &missed))
		log_warn(
			"X-Forwarded-For and Forwarded name different clients; the proxy's "
			"address is used. Let the proxy remove the one it does not write",
			LOG_STR("proxy", peer), LOG_INT("suppressed", missed));
}

static void identify_address(
	struct client *out, const struct config *c, const struct request *rq)
{
	struct view remote_addr = request_param(rq, "REMOTE_ADDR");
	enum forwarded got = FORWARDED_NONE;
	struct address a;

	/* nginx says "unix:" for a peer on a unix socket. */
	if (!address_parse(remote_addr, &a)) {
		warn_no_address(remote_addr);
		memcpy(out->network, "unknown", sizeof("unknown"));
		return;
	}
	if (address_in(&a, &c->client.trusted_proxies))
		got = forwarded_client(rq, &c->client.trusted_proxies, &a);
	address_text(&a, out->address);
	address_network_text(&a, c->client.ipv6_prefix, out->network);
	if (got == FORWARDED_NONE || got == FORWARDED_FOUND)
		out->exempt = address_in(&a, &c->allow.networks);
	else
		warn_forwarded(got, out->address);
}

/* -- the user ---------------------------------------------------------------------- */

enum step {
	STEP_NOBODY, /* this source names nobody: the next */
	STEP_NAMED,  /* somebody, or nobody may be named now */
	STEP_WAIT,   /* directory_answer() will be called */
};

/* The directory's word on what the present source has asked. */
static enum step take_answer(
	struct client *c, enum directory_result result, const struct directory_entry *e)
{
	bool by_token = c->config->client.user[c->source] == USER_TOKEN;

	if (result == DIRECTORY_FAILED || result == DIRECTORY_STALE) {
		count_one(COUNT_directory_failures);
		if (c->config->client.directory_error == ON_ERROR_CLOSED) {
			c->unknown = true;
			return STEP_NAMED;
		}
	}
	if (result == DIRECTORY_FOUND || result == DIRECTORY_STALE) {
		memcpy(c->plan, e->plan, sizeof(c->plan));
		if (by_token) {
			memcpy(c->user, e->user, sizeof(c->user));
			c->exempt = c->exempt || e->admin;
		}
		return STEP_NAMED;
	}
	return by_token ? STEP_NOBODY : STEP_NAMED;
}

static void directory_answer(
	void *user, enum directory_result result, const struct directory_entry *e);

static enum step look_up(struct client *c, enum directory_by by, struct view key)
{
	enum directory_result result;
	struct directory_entry entry;

	if (!c->directory)
		return take_answer(c, DIRECTORY_UNKNOWN, NULL);
	if (directory_know(c->directory, by, key, &result, &entry))
		return take_answer(c, result, &entry);
	c->ask = directory_ask(c->directory, c->loop, by, key, directory_answer, c);
	return c->ask ? STEP_WAIT : take_answer(c, DIRECTORY_FAILED, NULL);
}

static enum step ask_token(struct client *c)
{
	struct view token = token_find(c->config, c->request);
	unsigned char hash[DIRECTORY_HASH_BYTES];

	if (token.n == 0)
		return STEP_NOBODY;
	crypto_hash_sha256(hash, (const unsigned char *)token.p, token.n);
	return look_up(c, DIRECTORY_BY_TOKEN, view_of((const char *)hash, sizeof(hash)));
}

static enum step ask_remote_user(struct client *c)
{
	struct view name = request_param(c->request, "REMOTE_USER");

	if (name.n == 0 || request_param_count(c->request, "REMOTE_USER") > 1)
		return STEP_NOBODY;
	name_put(c->user, name);
	memcpy(c->plan, "default", sizeof("default"));
	return look_up(c, DIRECTORY_BY_USER, name);
}

static void end(struct client *c)
{
	c->pending = false;
	if (!*c->user)
		memcpy(c->plan, "anonymous", sizeof("anonymous"));
	c->unknown = c->unknown && !c->exempt;
	c->done(c);
}

/* From c->source on, until somebody is named or there is something to wait for. */
static void ask_sources(struct client *c)
{
	enum step step = STEP_NOBODY;

	while (c->source < c->config->client.n_user) {
		if (c->config->client.user[c->source] == USER_TOKEN)
			step = ask_token(c);
		else
			step = ask_remote_user(c);
		if (step == STEP_WAIT)
			return;
		if (step == STEP_NAMED)
			break;
		c->source++;
	}
	end(c);
}

static void directory_answer(
	void *user, enum directory_result result, const struct directory_entry *e)
{
	struct client *c = user;

	c->ask = NULL;
	if (take_answer(c, result, e) == STEP_NAMED) {
		end(c);
		return;
	}
	c->source++;
	ask_sources(c);
}

void client_identify(struct client *c, uv_loop_t *loop, struct directory *d,
	const struct config *config, const struct request *rq)
{
	*c = (struct client){
		.done = c->done,
		.pending = true,
		.directory = d,
		.config = config,
		.request = rq,
		.loop = loop,
	};
	identify_address(c, config, rq);
	ask_sources(c);
}

void client_cancel(struct client *c)
{
	if (c->ask)
		directory_ask_cancel(c->ask);
	c->ask = NULL;
	c->pending = false;
}
