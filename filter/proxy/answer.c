/*
 * proxy/answer.c - reading what a backend says.
 *
 * Web servers differ in what they make of odd output: one takes text without a head
 * for a page, another passes chunk framing on as the body, a third waits for ever for
 * the bytes a wrong Content-Length promised. So nothing odd leaves here: the head is
 * read line by line, each line is judged when it is whole (so a program that prints
 * plain text fails at its first line, not after 64 KiB of it), and what goes out is
 * written anew. Judging whole lines also makes the result the same for every cut.
 *
 * Left out: redirects inside the server (a Location without a host is a 302 for the
 * client, which works wherever the path is reachable from outside).
 */
#include "proxy/answer.h"

#include "proxy/reason.h"

/* What to do with a field, by its name. Everything else is passed on. */
enum field_kind {
	FIELD_PASS,
	FIELD_DROP, /* of one connection only (RFC 9110, section 7.6.1) */
	FIELD_CONNECTION,
	FIELD_SENDFILE, /* commands for the web server */
	FIELD_RATE_LIMIT,
	FIELD_X_RATE_LIMIT,
	FIELD_STATUS,
	FIELD_LOCATION,
	FIELD_LENGTH,
	FIELD_CODING,
};

static const struct {
	const char *name;
	bool prefix; /* stands for every name that starts so */
	enum field_kind kind;
} field_kinds[] = {
	{ "Status", false, FIELD_STATUS },
	{ "Location", false, FIELD_LOCATION },
	{ "Content-Length", false, FIELD_LENGTH },
	{ "Transfer-Encoding", false, FIELD_CODING },
	{ "Connection", false, FIELD_CONNECTION },
	{ "Keep-Alive", false, FIELD_DROP },
	{ "Proxy-Connection", false, FIELD_DROP },
	{ "TE", false, FIELD_DROP },
	{ "Trailer", false, FIELD_DROP },
	{ "Upgrade", false, FIELD_DROP },
	{ "X-Accel-Buffering", false, FIELD_PASS },
	{ "X-Accel-", true, FIELD_SENDFILE },
	{ "X-LIGHTTPD-", true, FIELD_SENDFILE },
	{ "X-Sendfile", true, FIELD_SENDFILE },
	{ "RateLimit", false, FIELD_RATE_LIMIT },
	{ "RateLimit-Policy", false, FIELD_RATE_LIMIT },
	{ "X-RateLimit-", true, FIELD_X_RATE_LIMIT },
};

enum chunk_state {
	CHUNK_SIZE,    /* among the digits of a chunk's size */
	CHUNK_EXT,     /* behind them, up to the end of the line */
	CHUNK_SIZE_LF, /* CR seen */
	CHUNK_DATA,
	CHUNK_DATA_END, /* at the line end behind the data */
	CHUNK_DATA_LF,  /* CR seen */
	CHUNK_LAST,     /* the body is complete; trailers and what else comes is dropped */
};

void answer_init(struct answer *a, bool no_body)
{
	*a = (struct answer){ .no_body = no_body };
}

void answer_release(struct answer *a)
{
	buf_release(&a->head);
	buf_release(&a->raw);
	buf_release(&a->fields);
	buf_release(&a->listed);
}

/* For functions that say with false that no answer can be made. */
static bool bad(struct answer *a, const char *why)
{
	a->why = why;
	a->failed = true;
	return false;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Unlike view_trim() it leaves CR where it is, to be found out. */
static struct view trim_blanks(struct view v)
{
	while (v.n && is_blank(v.p[0]))
		v = view_skip(v, 1);
	while (v.n && is_blank(v.p[v.n - 1]))
		v.n--;
	return v;
}

/* RFC 9110, section 5.6.2. */
static bool is_token(struct view v)
{
	static const char others[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < v.n; i++) {
		char c = v.p[i];

		if (!(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') &&
			!(c && strchr(others, c)))
			return false;
	}
	return v.n > 0;
}

static bool is_control(char c)
{
	return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

/* RFC 9110, section 5.5; bytes of other character sets are let through. */
static bool is_value(struct view v)
{
	for (size_t i = 0; i < v.n; i++)
		if (is_control(v.p[i]))
			return false;
	return true;
}

static enum field_kind kind_of(struct view name)
{
	for (size_t i = 0; i < COUNT_OF(field_kinds); i++) {
		struct view known = view_str(field_kinds[i].name);
		struct view front = name;

		if (field_kinds[i].prefix && front.n > known.n)
			front.n = known.n;
		if (view_eq_nocase(front, known))
			return field_kinds[i].kind;
	}
	return FIELD_PASS;
}

/*
 * "404 Not Found", phrase optional. A second Status is fine when it says the same
 * (programs that print a status line for NPH often add one); two that differ would
 * leave it to chance whether a refusal is taken for a success.
 */
static bool take_status(struct answer *a, struct view value)
{
	uint64_t status;
	struct view phrase;

	if (value.n < 3 || !view_number(view_of(value.p, 3), 999, &status) ||
		(value.n > 3 && !is_blank(value.p[3])))
		return bad(a, "Status is not three digits and a phrase");
	if (status < 200 || status > 599)
		return bad(a, "Status is not between 200 and 599");
	if (a->status && a->status != (int)status)
		return bad(a, "two different statuses");
	if (a->status)
		return true;
	a->status = (int)status;
	phrase = trim_blanks(view_skip(value, 3));
	buf_addf(&a->head, "Status: %03d ", a->status);
	buf_add(&a->head, phrase.n ? phrase : view_str(reason_phrase(a->status)));
	buf_add(&a->head, VIEW("\r\n"));
	return true;
}

/* The status line of a program written for NPH: "HTTP/1.1 201 Created". */
static bool take_status_line(struct answer *a, struct view line)
{
	struct view version = view_cut(&line, ' ');

	if (!is_value(line))
		return bad(a, "control character in the status line");
	for (size_t i = strlen("HTTP/"); i < version.n; i++)
		if (version.p[i] != '.' && (version.p[i] < '0' || version.p[i] > '9'))
			return bad(a, "malformed status line");
	return take_status(a, trim_blanks(line));
}

/* A list is taken too: "5, 5" is what two equal fields become when somebody joins
 * them. What is wrong is judged at the end of the head: chunked bodies have no length. */
static void take_length(struct answer *a, struct view list)
{
	do {
		uint64_t n;

		if (!view_number(trim_blanks(view_cut(&list, ',')), INT64_MAX, &n) ||
			(a->has_length && n != a->length)) {
			a->length_bad = true;
			return;
		}
		a->has_length = true;
		a->length = n;
	} while (list.p);
}

static bool take_coding(struct answer *a, struct view value)
{
	if (!view_eq_nocase(value, VIEW("chunked")))
		return bad(a, "a transfer coding other than chunked");
	if (a->chunked)
		return bad(a, "chunked twice");
	a->chunked = true;
	return true;
}

static bool take_field(struct answer *a, struct view field)
{
	struct view name = view_cut(&field, ':');
	struct view value = trim_blanks(field);

	if (!is_token(name))
		return bad(a, "a field name with a space or another byte it may not have");
	if (!is_value(value))
		return bad(a, "control character in a field");
	switch (kind_of(name)) {
	case FIELD_STATUS: return take_status(a, value);
	case FIELD_CODING: return take_coding(a, value);
	case FIELD_LENGTH: take_length(a, value); return true;
	case FIELD_DROP: return true;
	case FIELD_CONNECTION:
		buf_add(&a->listed, value);
		buf_add_byte(&a->listed, ',');
		return true;
	case FIELD_RATE_LIMIT:
		if (a->own_rate_limit)
			return true;
		break;
	case FIELD_X_RATE_LIMIT:
		if (a->own_x_rate_limit)
			return true;
		break;
	case FIELD_SENDFILE:
		if (!a->keep_sendfile)
			return true;
		break;
	case FIELD_LOCATION: a->has_location |= value.n > 0; break;
	case FIELD_PASS: break;
	}
	buf_add(&a->fields, name);
	buf_add(&a->fields, VIEW(": "));
	buf_add(&a->fields, value);
	buf_add(&a->fields, VIEW("\r\n"));
	return true;
}

/* Whether Connection lists it: then it is of that connection only (RFC 9110, section
 * 7.6.1). */
static bool is_listed(const struct answer *a, struct view name)
{
	struct view list = buf_view(&a->listed);

	while (list.n)
		if (view_eq_nocase(trim_blanks(view_cut(&list, ',')), name))
			return true;
	return false;
}

/* Appends to head the fields that go on. */
static void put_fields(struct answer *a)
{
	struct view left = buf_view(&a->fields);

	if (a->listed.n == 0) {
		buf_add(&a->head, left);
		return;
	}
	while (left.n) {
		struct view line = view_cut(&left, '\n'), rest = line;

		if (is_listed(a, view_cut(&rest, ':')))
			continue;
		buf_add(&a->head, line);
		buf_add_byte(&a->head, '\n');
	}
}

static bool end_head(struct answer *a)
{
	if (!a->status)
		take_status(a, a->has_location ? VIEW("302") : VIEW("200"));
	a->bodyless = a->no_body || a->status == 204 || a->status == 304;
	if (a->chunked)
		a->has_length = false;
	else if (a->length_bad)
		return bad(a, "Content-Length is not one number");
	put_fields(a);
	/* 204 never has one: RFC 9110, section 8.6. */
	if (a->has_length && a->status != 204)
		buf_addf(&a->head, "Content-Length: %llu\r\n",
			(unsigned long long)a->length);
	if (!buf_ok(&a->head) || !buf_ok(&a->fields) || !buf_ok(&a->listed))
		return bad(a, "out of memory");
	a->body_left = a->has_length ? a->length : 0;
	buf_release(&a->raw);
	buf_release(&a->fields);
	buf_release(&a->listed);
	a->parsed = true;
	/* A chunked answer is reported when its first chunk has begun: output that says
	 * chunked and is not can then still be replaced by an error. */
	a->headed = a->bodyless || !a->chunked;
	return true;
}

/* Appends a continuation line to the field in front of it, one space between. */
static bool unfold(struct answer *a, struct view line)
{
	struct view more = trim_blanks(line);

	if (a->line_at == 0)
		return bad(a, "a continuation line without a field");
	/* Ends at the latest at the first byte, which is not blank. */
	while (is_blank(a->raw.p[a->line_at - 1]))
		a->line_at--;
	if (more.n) {
		a->raw.p[a->line_at] = ' ';
		memmove(a->raw.p + a->line_at + 1, more.p, more.n);
		a->line_at += 1 + more.n;
	}
	a->raw.n = a->line_at;
	return true;
}

/* The line that ends raw is whole. */
static bool take_line(struct answer *a, bool first)
{
	struct view line = view_skip(buf_view(&a->raw), a->line_at);

	line.n--;
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	if (line.n && is_blank(line.p[0]))
		return unfold(a, line);
	if (a->line_at && !take_field(a, view_of(a->raw.p, a->line_at)))
		return false;
	if (line.n == 0)
		return end_head(a);
	if (first && view_starts(line, VIEW("HTTP/"))) {
		a->raw.n = 0;
		return take_status_line(a, line);
	}
	if (!memchr(line.p, ':', line.n))
		return bad(a,
			first ? "text without a header" : "a header line without a colon");
	a->raw.n = a->line_at + line.n;
	buf_drop(&a->raw, a->line_at);
	a->line_at = a->raw.n;
	return true;
}

static bool read_head(struct answer *a, struct view *in)
{
	while (in->n && !a->parsed) {
		const char *end = memchr(in->p, '\n', in->n);
		size_t n = end ? (size_t)(end - in->p) + 1 : in->n;
		size_t line_n = a->raw.n - a->line_at;
		bool first = line_n == a->head_n;
		size_t line_room = ANSWER_LINE_MAX - line_n;
		size_t head_room = ANSWER_HEAD_MAX - a->head_n;

		/* The one that is reached first is named, however the input is cut. */
		if (n > line_room && line_room <= head_room)
			return bad(a, "header too large: a line over 16384 bytes");
		if (n > head_room)
			return bad(a, "header too large: over 65536 bytes");
		buf_add(&a->raw, view_of(in->p, n));
		if (!buf_ok(&a->raw))
			return bad(a, "out of memory");
		*in = view_skip(*in, n);
		a->head_n += n;
		if (end && !take_line(a, first))
			return false;
	}
	return true;
}

/* The state behind one byte of framing, or -1. RFC 9112, section 7.1, to the letter:
 * taking a bare LF for a line end would let a size that is off by one go unnoticed. */
static int chunk_step(struct answer *a, char c)
{
	int digit = hex_digit(c);

	switch ((enum chunk_state)a->chunk_state) {
	case CHUNK_SIZE:
		if (digit >= 0 && a->body_left >> 56 == 0) {
			a->body_left = a->body_left << 4 | (unsigned)digit;
			return CHUNK_SIZE;
		}
		if (digit >= 0 || a->chunk_n == 1)
			return -1;
		if (c == '\r')
			return CHUNK_SIZE_LF;
		return c == ';' || is_blank(c) ? CHUNK_EXT : -1;
	case CHUNK_EXT:
		if (c == '\r')
			return CHUNK_SIZE_LF;
		return is_control(c) ? -1 : CHUNK_EXT;
	case CHUNK_SIZE_LF:
		if (c != '\n')
			return -1;
		return a->body_left ? CHUNK_DATA : CHUNK_LAST;
	case CHUNK_DATA_END: return c == '\r' ? CHUNK_DATA_LF : -1;
	case CHUNK_DATA_LF: a->chunk_n = 0; return c == '\n' ? CHUNK_SIZE : -1;
	case CHUNK_DATA:
	case CHUNK_LAST: break;
	}
	return -1;
}

static enum answer_event next_chunked(struct answer *a, struct view *in, struct view *piece)
{
	size_t n;

	while (a->chunk_state != CHUNK_DATA && a->chunk_state != CHUNK_LAST) {
		if (in->n == 0)
			return ANSWER_MORE;
		a->chunk_n++;
		a->chunk_state = a->chunk_n > ANSWER_LINE_MAX ? -1
							      : chunk_step(a, in->p[0]);
		*in = view_skip(*in, 1);
		if (a->chunk_state < 0) {
			bad(a, "broken chunk framing");
			return ANSWER_BAD;
		}
	}
	if (!a->headed) {
		a->headed = true;
		return ANSWER_HEAD;
	}
	if (a->chunk_state == CHUNK_LAST)
		*in = view_skip(*in, in->n);
	n = a->body_left < in->n ? (size_t)a->body_left : in->n;
	if (n == 0)
		return ANSWER_MORE;
	*piece = view_of(in->p, n);
	*in = view_skip(*in, n);
	a->body_left -= n;
	if (a->body_left == 0) {
		a->chunk_state = CHUNK_DATA_END;
		a->chunk_n = 0;
	}
	return ANSWER_BODY;
}

enum answer_event answer_next(struct answer *a, struct view *in, struct view *piece)
{
	size_t n;

	if (a->failed)
		return ANSWER_BAD;
	if (!a->parsed) {
		if (!read_head(a, in)) {
			buf_release(&a->raw);
			buf_release(&a->fields);
			buf_release(&a->listed);
			return ANSWER_BAD;
		}
		if (!a->parsed)
			return ANSWER_MORE;
		if (a->headed)
			return ANSWER_HEAD;
	}
	if (a->chunked && !a->bodyless)
		return next_chunked(a, in, piece);
	n = a->bodyless ? 0 : in->n;
	if (a->has_length && n > a->body_left)
		n = (size_t)a->body_left;
	if (n == 0) {
		*in = view_skip(*in, in->n);
		return ANSWER_MORE;
	}
	*piece = view_of(in->p, n);
	*in = view_skip(*in, n);
	if (a->has_length)
		a->body_left -= n;
	return ANSWER_BODY;
}

enum answer_end answer_finish(const struct answer *a)
{
	if (!a->headed)
		return a->head_n || a->failed ? ANSWER_HEADLESS : ANSWER_EMPTY;
	if (a->bodyless)
		return ANSWER_WHOLE;
	if (a->chunked)
		return a->chunk_state == CHUNK_LAST ? ANSWER_WHOLE : ANSWER_TRUNCATED;
	return a->body_left ? ANSWER_TRUNCATED : ANSWER_WHOLE;
}
