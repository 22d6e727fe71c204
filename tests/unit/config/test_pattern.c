#include <criterion/criterion.h>
#include <stdio.h>

#include "config/pattern.h"

/* match, host, query. */
static bool add(struct pattern_index *ix, size_t n, const char *match, const char *host,
	const char *query, size_t *tie)
{
	const struct pattern_text text = { match, host, query };
	struct buf why = { 0 };
	bool ok = pattern_add(ix, n, &text, &why, tie);

	cr_expect_eq(ok, why.n == 0, "%s: %s", match, buf_str(&why));
	buf_release(&why);
	return ok;
}

Test(pattern, what_is_equally_specific_and_can_meet_ties)
{
	static const struct {
		const char *a[3], *b[3];
		bool tie;
	} rows[] = {
		{ { "GET /a" }, { "GET /a" }, true },
		{ { "GET /a" }, { "POST /a" }, false },
		{ { "GET /a" }, { "HEAD /a" }, true },
		{ { "GET,POST /a" }, { "PUT,POST /a" }, true },
		{ { "* /a" }, { "* /a" }, true },
		{ { "* /a" }, { "GET /a" }, false },
		{ { "* /" }, { "* /" }, true },
		{ { "* /a" }, { "* /b" }, false },
		{ { "* /a" }, { "* /A" }, false },
		{ { "* /{x}" }, { "* /{y}" }, true },
		{ { "* /{x}" }, { "* /*" }, false },
		{ { "* /{x}" }, { "* /a" }, false },
		{ { "* /{x}/b" }, { "* /a/{y}" }, false },
		{ { "* /a/**" }, { "* /a" }, false },
		{ { "* /a/**" }, { "* /a/**" }, true },
		{ { "* /**" }, { "* /" }, false },
		{ { "* /a*" }, { "* /*b" }, true },
		{ { "* /a*" }, { "* /b*" }, false },
		{ { "* /a*" }, { "* /ab*" }, false },
		{ { "* /a*c" }, { "* /ab*" }, true },
		{ { "* /*.html" }, { "* /*.jpeg" }, false },
		{ { "* /a*/x" }, { "* /*b/y" }, false },
		{ { "* /a*/{id}" }, { "* /*b/{no}" }, true },
		{ { "* /a", "x.org" }, { "* /a" }, false },
		{ { "* /a", "x.org" }, { "* /a", "X.ORG" }, true },
		{ { "* /a", "x.org" }, { "* /a", "y.org" }, false },
		{ { "* /a", NULL, "do=x" }, { "* /a" }, false },
		{ { "* /a", NULL, "do=x" }, { "* /a", NULL, "do=y" }, false },
		{ { "* /a", NULL, "do=x" }, { "* /a", NULL, "do=x" }, true },
		{ { "* /a", NULL, "do=x" }, { "* /a", NULL, "cmd=x" }, true },
		{ { "GET /a", NULL, "do=x" }, { "* /a", NULL, "do=x" }, false },
		{ { "GET /a", NULL, "do=" }, { "GET /a", NULL, "do=" }, true },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		/* Whatever the order of files. */
		for (int turn = 0; turn < 2; turn++) {
			const char *const *a = turn ? rows[i].b : rows[i].a;
			const char *const *b = turn ? rows[i].a : rows[i].b;
			struct pattern_index *ix = pattern_index_new();
			size_t tie;

			cr_assert(add(ix, 7, a[0], a[1], a[2], &tie));
			cr_expect_eq(add(ix, 8, b[0], b[1], b[2], &tie), !rows[i].tie,
				"%s and %s", a[0], b[0]);
			cr_expect_eq(
				tie, rows[i].tie ? 7 : SIZE_MAX, "%s and %s", a[0], b[0]);
			pattern_index_free(ix);
		}
	}
}

Test(pattern, leaves_are_tried_most_specific_first)
{
	static const struct {
		const char *match, *query;
		size_t place;
	} rows[] = {
		{ "* /a", NULL, 3 },
		{ "GET /a", NULL, 1 },
		{ "* /a", "do=x", 2 },
		{ "GET /a", "do=x", 0 },
	};
	struct pattern_index *ix = pattern_index_new();
	struct pattern_leaf *leaf;
	struct table_node *link;
	size_t tie;

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		cr_assert(add(ix, rows[i].place, rows[i].match, NULL, rows[i].query, &tie));
	link = table_find(&ix->any_host->literals, VIEW("a"), table_hash(VIEW("a")));
	cr_assert_not_null(link);
	leaf = CONTAINER_OF(link, struct pattern_node, link)->here;
	for (size_t i = 0; i < COUNT_OF(rows); i++, leaf = leaf->next) {
		cr_assert_not_null(leaf);
		cr_expect_eq(leaf->endpoint, i);
	}
	cr_expect_null(leaf);
	pattern_index_free(ix);
}

Test(pattern, the_glob_with_more_literal_bytes_comes_first)
{
	static const char *const matches[] = { "* /*", "* /a*", "* /abc*", "* /a*c" };
	static const char *const wanted[] = { "abc*", "a*c", "a*", "*" };
	struct pattern_index *ix = pattern_index_new();
	const struct pattern_glob *glob;
	size_t tie;

	for (size_t i = 0; i < COUNT_OF(matches); i++)
		cr_assert(add(ix, i, matches[i], NULL, NULL, &tie));
	glob = ix->any_host->globs;
	for (size_t i = 0; i < COUNT_OF(wanted); i++, glob = glob->next)
		cr_expect_str_eq(glob->text, wanted[i]);
	pattern_index_free(ix);
}

Test(pattern, a_leaf_knows_methods_query_and_names)
{
	struct pattern_index *ix = pattern_index_new();
	const struct pattern_leaf *leaf;
	struct table_node *host;
	size_t tie;

	cr_assert(add(ix, 4, "GET,POST /{a}/{b}", "WWW.Example.org", "do=x=y", &tie));
	host = table_find(
		&ix->hosts, VIEW("www.example.org"), table_hash(VIEW("www.example.org")));
	cr_assert_not_null(host);
	leaf = CONTAINER_OF(host, struct pattern_host, link)->root->named->named->here;
	cr_assert_eq(leaf->n_methods, 2);
	cr_expect_str_eq(leaf->methods[1], "POST");
	cr_expect_str_eq(leaf->query_name, "do");
	cr_expect_str_eq(leaf->query_value, "x=y");
	cr_assert_eq(leaf->n_params, 2);
	cr_expect_str_eq(leaf->param_names[0], "a");
	cr_expect_str_eq(leaf->param_names[1], "b");
	pattern_index_free(ix);
}

Test(pattern, a_path_that_is_not_canonical_is_told_how_it_would_be)
{
	static const struct {
		const char *path, *canonical;
	} rows[] = {
		{ "/", NULL },
		{ "/a/b", NULL },
		{ "/a.b/..c/...", NULL },
		{ "/100%", NULL },
		{ "/\xe8\xaf\xb7", NULL },
		{ "a", "/a" },
		{ "//", "/" },
		{ "/a//b/", "/a/b" },
		{ "/a/./b", "/a/b" },
		{ "/a/../b", "/b" },
		{ "/../..", "/" },
		{ "/%61/%2e%2E/b", "/b" },
		{ "/a%2Fb", "/a/b" },
		{ "/%252e", "/%2e" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct buf why = { 0 }, wanted = { 0 };

		cr_expect_eq(pattern_path_check(view_str(rows[i].path), &why),
			!rows[i].canonical, "%s", rows[i].path);
		if (rows[i].canonical)
			buf_addf(&wanted, "is not a canonical path; write %s",
				rows[i].canonical);
		cr_expect_str_eq(buf_str(&why), buf_str(&wanted));
		buf_release(&why);
		buf_release(&wanted);
	}
}

Test(pattern, a_path_has_a_bounded_number_of_segments)
{
	struct pattern_index *ix = pattern_index_new();
	struct buf path = { 0 };
	size_t tie;

	buf_add_str(&path, "* ");
	for (int i = 0; i < PATTERN_SEGMENTS_MAX; i++)
		buf_add_str(&path, "/a");
	cr_expect(add(ix, 0, buf_str(&path), NULL, NULL, &tie));
	buf_add_str(&path, "/a");
	cr_expect_not(add(ix, 1, buf_str(&path), NULL, NULL, &tie));
	buf_release(&path);
	pattern_index_free(ix);
}

Test(pattern, ten_thousand_endpoints_are_added_without_comparing_each_with_each)
{
	struct pattern_index *ix = pattern_index_new();
	size_t tie;

	for (size_t i = 0; i < 10000; i++) {
		char match[64];

		snprintf(match, sizeof(match), "* /api/v%zu/{id}", i);
		cr_assert(add(ix, i, match, NULL, NULL, &tie));
	}
	cr_expect_not(add(ix, 10000, "* /api/v9999/{x}", NULL, NULL, &tie));
	cr_expect_eq(tie, 9999);
	pattern_index_free(ix);
}
