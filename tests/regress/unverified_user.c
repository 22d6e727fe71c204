/*
 * nginx's fastcgi.conf gives REMOTE_USER the name that the client has put into its
 * Authorization field, which nobody has verified. The shipped configuration takes it back
 * with a line behind the include, but nginx then sends both. weir took the first of them
 * for its programs and handed both on: to a CGI program, or an application on libfcgi,
 * anybody was who he said he was.
 */
#include "support.h"

Test(regress, a_name_that_nginx_did_not_verify_reaches_no_handler, .timeout = 50)
{
	static const char *const headers[] = { "Authorization: Basic YWxpY2U6eA==", NULL };
	struct weir *w = weir_start(&(struct weir_spec){
		.server = "backend = application\n",
		.sections = text("[store]\ntype = memory\n"
				 "[backend application]\nfastcgi = %s\n"
				 "[backend programs]\ncgi = %s\n",
			echo_start(1), programs_dir()),
		.endpoints = "[endpoint program]\nmatch = * /echo\nbackend = programs\n" });
	struct web *nginx = nginx_start(w->addr);
	static const char *const paths[] = { "/echo", "/application" };

	for (size_t i = 0; i < COUNT_OF(paths); i++) {
		struct http_answer a;

		http_call(&(struct http_request){ .url = text("%s%s", nginx->url, paths[i]),
				  .headers = headers },
			&a);
		cr_assert_eq(a.status, 200, "%s", paths[i]);
		buf_add_byte(&a.body, '\0');
		cr_expect(strstr(a.body.p, "HTTP_AUTHORIZATION="), "%s", a.body.p);
		cr_expect_null(strstr(a.body.p, "REMOTE_USER=alice"), "%s", paths[i]);
		http_release(&a);
	}
}
