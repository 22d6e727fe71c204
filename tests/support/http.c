/*
 * http.c - a browser: one request over libcurl, and everything that can be asked about
 * its answer, the moments included at which its parts came.
 */
#include "support.h"

#include <curl/curl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

struct transfer {
	const struct http_request *rq;
	struct http_answer *answer;
	crypto_hash_sha256_state sha;
	int64_t began_ms;
	uint64_t sent;
	size_t keep;
};

static size_t give_body(char *out, size_t size, size_t n, void *user)
{
	struct transfer *t = user;
	const struct http_request *rq = t->rq;
	uint64_t whole = rq->pattern_bytes ? rq->pattern_bytes : rq->body.n;
	size_t part = size * n;

	if (part > whole - t->sent)
		part = (size_t)(whole - t->sent);
	if (rq->pattern_bytes)
		pattern_fill(out, t->sent, part);
	else if (part)
		memcpy(out, rq->body.p + t->sent, part);
	t->sent += part;
	return part;
}

static size_t take_head(char *line, size_t size, size_t n, void *user)
{
	struct http_answer *a = ((struct transfer *)user)->answer;

	if (size * n > 5 && memcmp(line, "HTTP/", 5) == 0)
		buf_reset(&a->head); /* after a 100 Continue */
	buf_add(&a->head, view_of(line, size * n));
	return size * n;
}

static size_t take_body(char *bytes, size_t size, size_t n, void *user)
{
	struct transfer *t = user;
	struct http_answer *a = t->answer;

	n *= size;
	if (!pieces_add(&a->pieces, &a->n_pieces, now_ms() - t->began_ms, n))
		return 0;
	crypto_hash_sha256_update(&t->sha, (const unsigned char *)bytes, n);
	a->body_bytes += n;
	if (a->body.n < t->keep)
		buf_add(&a->body,
			view_of(bytes, n < t->keep - a->body.n ? n : t->keep - a->body.n));
	if (t->rq->leave_after && a->body_bytes >= t->rq->leave_after)
		return 0;
	return n;
}

static struct curl_slist *set_up(CURL *curl, struct transfer *t)
{
	const struct http_request *rq = t->rq;
	bool body = rq->body.n || rq->pattern_bytes || rq->chunked;
	struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
	bool typed = false;

	for (const char *const *h = rq->headers; h && *h; h++) {
		headers = curl_slist_append(headers, *h);
		typed = typed || strncmp(*h, "Content-Type:", 13) == 0;
	}
	if (body) {
		curl_easy_setopt(curl, CURLOPT_POST, 1L);
		curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_body);
		curl_easy_setopt(curl, CURLOPT_READDATA, t);
		if (!typed)
			headers = curl_slist_append(
				headers, "Content-Type: application/octet-stream");
		if (rq->chunked)
			headers = curl_slist_append(headers, "Transfer-Encoding: chunked");
		else
			curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
				(curl_off_t)(rq->pattern_bytes ? rq->pattern_bytes
							       : rq->body.n));
	}
	if (rq->method && strcmp(rq->method, "HEAD") == 0)
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
	else if (rq->method && strcmp(rq->method, "POST") == 0 && !body)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
	else if (rq->method)
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, rq->method);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_URL, rq->url);
	if (rq->http2)
		curl_easy_setopt(curl, CURLOPT_HTTP_VERSION,
			(long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(
		curl, CURLOPT_TIMEOUT_MS, (long)(rq->timeout_ms ? rq->timeout_ms : 30000));
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_head);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
	return headers;
}

static void curl_once(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

void http_call(const struct http_request *rq, struct http_answer *out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct transfer t = { .rq = rq,
		.answer = out,
		.began_ms = now_ms(),
		.keep = rq->keep_body_bytes ? (size_t)rq->keep_body_bytes : 1 << 20 };
	unsigned char hash[crypto_hash_sha256_BYTES];
	struct curl_slist *headers;
	CURL *curl;

	*out = (struct http_answer){ 0 };
	pthread_once(&once, curl_once);
	crypto_hash_sha256_init(&t.sha);
	curl = curl_easy_init();
	headers = set_up(curl, &t);
	out->error = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &out->status);
	out->ms = now_ms() - t.began_ms;
	crypto_hash_sha256_final(&t.sha, hash);
	sodium_bin2hex(out->sha256, sizeof(out->sha256), hash, sizeof(hash));
	curl_slist_free_all(headers);
	curl_easy_cleanup(curl);
}

void http_get(const char *url, struct http_answer *out)
{
	http_call(&(struct http_request){ .url = url }, out);
}

void http_release(struct http_answer *a)
{
	buf_release(&a->head);
	buf_release(&a->body);
	free(a->pieces);
	*a = (struct http_answer){ 0 };
}
