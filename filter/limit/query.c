#include "limit/query.h"

#include "limit/path.h"

static char take_char(struct view *in)
{
	bool plus = in->p[0] == '+';
	char c = percent_decode(in);

	return plus ? ' ' : c;
}

/* CGI.pm and others of its time separate by ';' as well. */
static bool ends_pair(char c)
{
	return c == '&' || c == ';' || c == '#';
}

bool query_next(struct view *query, struct view *name, struct view *value)
{
	struct view pair;
	size_t n = 0;

	while (n < query->n && !ends_pair(query->p[n]))
		n++;
	if (query->n == 0)
		return false;
	pair = view_of(query->p, n);
	if (n == query->n || query->p[n] == '#')
		*query = view_of(NULL, 0);
	else
		*query = view_skip(*query, n + 1);
	*name = view_cut(&pair, '=');
	*value = pair;
	return true;
}

/* PHP reads names more loosely than they are written (main/php_variables.c): it skips
 * blanks before them, ends them at a NUL, and makes '_' of blanks, dots and a '[' without
 * its partner. Elsewhere such spellings are other names, but nobody uses them except to
 * get around a rule. */
bool query_name_is(struct view encoded, const char *wanted)
{
	bool started = false;
	char c;

	while (encoded.n) {
		c = take_char(&encoded);
		if (c == ' ' && !started && *wanted != ' ')
			continue;
		started = true;
		if (c == '\0')
			break;
		if (*wanted == '\0' ||
			(c != *wanted && !(*wanted == '_' && strchr(" .[", c))))
			return false;
		wanted++;
	}
	return *wanted == '\0';
}

bool query_value_is(struct view encoded, const char *wanted)
{
	size_t n = strlen(wanted), at = 0;

	for (; encoded.n; at++)
		if (at == n || take_char(&encoded) != wanted[at])
			return false;
	return at == n;
}

void query_decode(struct view encoded, struct buf *out)
{
	while (encoded.n)
		buf_add_byte(out, take_char(&encoded));
}
