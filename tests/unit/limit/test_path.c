#include <criterion/criterion.h>

#include "limit/path.h"

static void check(struct view raw, const char *wanted)
{
	struct buf out = { 0 };

	path_canonical(raw, &out);
	cr_assert(buf_ok(&out));
	cr_expect(view_eq(buf_view(&out), view_str(wanted)), "%.*s gave %.*s, not %s",
		VIEW_ARG(raw), VIEW_ARG(buf_view(&out)), wanted);
	buf_release(&out);
}

Test(path, no_spelling_gets_around_a_rule)
{
	static const char *const spellings[] = {
		"/api/eval/submit",
		"/api/eval/submit/",
		"/api/eval/submit//",
		"/api/eval/submit/.",
		"/api/eval/submit/./",
		"/api/eval/submit/x/..",
		"/api/eval/submit/x/../",
		"//api/eval/submit",
		"///api///eval///submit///",
		"/api//eval/submit",
		"/./api/eval/submit",
		"/api/./eval/././submit",
		"/../api/eval/submit",
		"/../../../api/eval/submit",
		"/api/eval/x/../submit",
		"/api/x/../eval/submit",
		"/x/y/../../api/eval/submit",
		"/x/../y/../api/eval/submit",
		"/api/eval/../eval/submit",
		"/api/eval/submit/../submit",
		"/api/eval/x//../submit",
		"/api/eval/./x/.././submit",
		"/%61pi/eval/submit",
		"/api/eval/%73ubmit",
		"/api/eval/%73%75%62%6D%69%74",
		"/api/eval/%73%75%62%6d%69%74",
		"/api%2Feval%2Fsubmit",
		"/api%2feval/submit",
		"%2Fapi/eval/submit",
		"/%2Fapi/eval/submit",
		"/api/eval/submit%2F",
		"/api/eval/submit%2f%2F",
		"/api/eval%2F/submit",
		"/api/eval/x/%2e%2e/submit",
		"/api/eval/x/%2E%2E/submit",
		"/api/eval/x/.%2e/submit",
		"/api/eval/x/%2e./submit",
		"/api/eval/x%2F..%2Fsubmit",
		"/api/eval/x/..%2Fsubmit",
		"/api/eval/x%2F%2e%2e/submit",
		"/api/%2e/eval/submit",
		"/api/eval/submit/%2e",
		"/api/eval/submit/x/%2e%2e",
		"/%2e%2e/api/eval/submit",
		"/api/eval/submit#",
		"/api/eval/submit#top",
		"/api/eval/submit/#/../x",
		"api/eval/submit",
		"./api/eval/submit",
		"../api/eval/submit",
		"x/../api/eval/submit",
	};

	for (size_t i = 0; i < COUNT_OF(spellings); i++)
		check(view_str(spellings[i]), "/api/eval/submit");
}

Test(path, what_means_something_else_stays_something_else)
{
	static const struct {
		const char *raw, *canonical;
	} rows[] = {
		{ "", "/" },
		{ "/", "/" },
		{ "//", "/" },
		{ "/.", "/" },
		{ "/..", "/" },
		{ "/a/..", "/" },
		{ "/%2F", "/" },
		{ "#top", "/" },
		{ "*", "/*" },
		/* Once is not twice. */
		{ "/a%252Fb", "/a%2Fb" },
		{ "/a/%252e%252e/b", "/a/%2e%2e/b" },
		{ "/%2573ubmit", "/%73ubmit" },
		/* No encoding, so no meaning. */
		{ "/a%", "/a%" },
		{ "/a%2", "/a%2" },
		{ "/a%zz", "/a%zz" },
		{ "/a%2z/", "/a%2z" },
		{ "/a%%32F", "/a%2F" },
		{ "/a%u0041", "/a%u0041" },
		/* Left alone. */
		{ "/API/Eval", "/API/Eval" },
		{ "/a\\b", "/a\\b" },
		{ "/a/..\\b", "/a/..\\b" },
		{ "/a%5Cb", "/a\\b" },
		{ "/a;v=1/b", "/a;v=1/b" },
		{ "/a/..;/b", "/a/..;/b" },
		{ "/a+b", "/a+b" },
		{ "/a%20b", "/a b" },
		{ "/a%23b", "/a#b" },
		{ "/a%3Fb", "/a?b" },
		{ "/...", "/..." },
		{ "/a/.../b", "/a/.../b" },
		{ "/.a/..b/c.", "/.a/..b/c." },
		{ "/caf%C3%A9", "/caf\xc3\xa9" },
		{ "/caf\xc3\xa9", "/caf\xc3\xa9" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		check(view_str(rows[i].raw), rows[i].canonical);
}

Test(path, a_nul_is_a_byte_like_any_other)
{
	struct buf out = { 0 };

	path_canonical(VIEW("/a%00b/../c%00"), &out);
	cr_expect(view_eq(buf_view(&out), VIEW("/c\0")));
	buf_reset(&out);
	path_canonical(VIEW("/a\0b"), &out);
	cr_expect(view_eq(buf_view(&out), VIEW("/a\0b")));
	buf_release(&out);
}

Test(path, it_is_added_behind_what_is_there)
{
	struct buf out = { 0 };

	buf_add_str(&out, "before");
	path_canonical(VIEW("/../../a/"), &out);
	path_canonical(VIEW(""), &out);
	path_canonical(VIEW(".."), &out);
	cr_expect(view_eq(buf_view(&out), VIEW("before/a//")));
	buf_release(&out);
}

Test(path, very_long_paths_take_linear_time, .timeout = 20)
{
	static const char *const units[] = { "/", "/..", "/a", "/a/..", "%2e%2e%2f",
		"/a/b/../", "%", "%2", "./", "\\..", "%2F" };
	struct buf raw = { 0 }, out = { 0 };

	for (size_t i = 0; i < COUNT_OF(units); i++) {
		buf_reset(&raw);
		buf_reset(&out);
		while (raw.n < 4000000)
			buf_add_str(&raw, units[i]);
		path_canonical(buf_view(&raw), &out);
		cr_assert(buf_ok(&out));
		cr_expect(out.n >= 1 && out.n <= raw.n + 1 && out.p[0] == '/');
	}
	buf_release(&raw);
	buf_release(&out);
}

Test(path, a_front_controllers_name_can_be_left_out)
{
	static char index[] = "/index.php", app[] = "/app", nested[] = "/app/index.php";
	static char *const prefixes[] = { index, app, nested };
	static const struct {
		const char *path;
		size_t n;
		const char *wanted;
	} rows[] = {
		{ "/index.php/api/submit", 1, "/api/submit" },
		{ "/index.php", 1, "/" },
		{ "/api/submit", 1, "/api/submit" },
		{ "/", 1, "/" },
		{ "/index.phpx/api", 1, "/index.phpx/api" },
		{ "/index.php5", 1, "/index.php5" },
		{ "/index.ph", 1, "/index.ph" },
		{ "/Index.php/api", 1, "/Index.php/api" },
		{ "/x/index.php/api", 1, "/x/index.php/api" },
		/* Once, as the application does. */
		{ "/index.php/index.php/api", 1, "/index.php/api" },
		{ "/app/index.php/api", 3, "/api" },
		{ "/app/index.php", 3, "/" },
		{ "/app/api", 3, "/api" },
		{ "/index.php/app", 3, "/app" },
		{ "/index.php/api", 0, "/index.php/api" },
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct view got = path_strip(view_str(rows[i].path), prefixes, rows[i].n);

		cr_expect(view_eq(got, view_str(rows[i].wanted)), "%s gave %.*s",
			rows[i].path, VIEW_ARG(got));
	}
}
