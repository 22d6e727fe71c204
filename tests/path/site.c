#include "site.h"

struct site *site_start(const struct site_spec *spec)
{
	static struct site s;
	const char *more = spec->backend ? spec->backend : "";
	struct weir_spec weir = { .server = text("workers = 2\nbackend = echo\n%s",
					  spec->server ? spec->server : "") };

	s.programs = programs_dir();
	s.echo = echo_start(spec->echo ? spec->echo : 2);
	s.php = spec->no_php ? NULL : php_fpm_start(3);
	weir.sections = text("[store]\ntype = memory\n"
			     "[backend echo]\nfastcgi = %s\n%s"
			     "[backend php]\nfastcgi = %s\n%s"
			     "[backend cgi]\ncgi = %s\n%s%s%s",
		s.echo, more, s.php ? s.php : s.echo, more, s.programs, more,
		spec->cgi ? spec->cgi : "", spec->sections ? spec->sections : "");
	weir.endpoints = text("[endpoint php]\nmatch = * /hello.php\nbackend = php\n"
			      "[endpoint shell]\nmatch = * /hello.sh\nbackend = cgi\n"
			      "[endpoint perl]\nmatch = * /hello.pl\nbackend = cgi\n"
			      "[endpoint cgi-echo]\nmatch = * /echo\nbackend = cgi\n"
			      "%s",
		spec->endpoints ? spec->endpoints : "");
	s.weir = weir_start(&weir);
	s.addr = s.weir->addr;
	return &s;
}

int site_get(const struct site *s, const char *uri)
{
	struct fcgi_request rq = { .uri = uri };
	struct fcgi_answer a;
	int status = fcgi_call(s->addr, &rq, &a, 10000) ? answer_status(&a) : 0;

	fcgi_answer_release(&a);
	return status;
}
