#!/bin/sh
# nginx-tests.sh - nginx's own FastCGI tests, with weir between nginx and their daemons.
#
#	tests/nginx-tests.sh SUITE [WEIR]
#
# SUITE is a copy of https://github.com/nginx/nginx-tests, WEIR the built program
# (build/filter/weir). Each file runs twice, without weir and with it, and every test whose
# result differs is printed with the reason why it may, from README.md. Exits with 1 when
# one differs that has none there. Needs nginx and FCGI.pm: contrib/deps.sh --suites.
#
# Without SUITE nothing is run, which is said and is no failure.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/compare_suite.sh
. "$here/compare_suite.sh"

[ -n "$suite" ] || not_run 'give a copy of https://github.com/nginx/nginx-tests as argument'
[ -f "$suite/lib/Test/Nginx.pm" ] || not_run "$suite holds no nginx-tests"
nginx=$(command -v nginx || echo /usr/sbin/nginx)
[ -x "$nginx" ] || not_run 'nginx is not installed'
perl -MFCGI -e 1 2>/dev/null || not_run 'FCGI.pm is not installed (libfcgi-perl)'
settle_paths

# The workers must reach the sockets, which are weir's and so the caller's.
[ "$(id -u)" -ne 0 ] || TEST_NGINX_GLOBALS='user root;'
export TEST_NGINX_GLOBALS="${TEST_NGINX_GLOBALS:-}" TEST_NGINX_BINARY="$nginx"
export TEST_NGINX_MODULES="${TEST_NGINX_MODULES:-/usr/lib/nginx/modules}" TMPDIR="$work"

# The results of one file, with weir between or, without a second argument, not.
results_of() {
	WEIR=${2:-} limited 180 perl -I lib -I "$here" -Mnginx_between "$1" \
		>"$work/out" 2>"$work/errors"
	tap <"$work/out"
}

cd "$suite"
for test in fastcgi*.t auth_request*.t slice.t; do
	grep -q fastcgi_pass "$test" || continue
	results_of "$test" >"$work/without"
	results_of "$test" "$weir" >"$work/with"
	compare "$test"
done
summary
