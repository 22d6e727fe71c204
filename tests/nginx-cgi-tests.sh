#!/bin/sh
# nginx-cgi-tests.sh - weir runs the programs of nginx-cgi, a module for nginx, and its tests
# look at the answers.
#
#	tests/nginx-cgi-tests.sh SUITE [WEIR]
#
# SUITE is a copy of https://github.com/pjincz/nginx-cgi, WEIR the built program
# (build/filter/weir). Each file runs once, with nginx and weir in the module's place; every
# test that fails is printed with the reason why it may, from README.md. Exits with 1 when
# one fails that has none there. Needs nginx: contrib/deps.sh --suites. Left out is stderr.t,
# which looks for what programs say in nginx's log; weir has its own.
#
# Without SUITE nothing is run, which is said and is no failure.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/compare_suite.sh
. "$here/compare_suite.sh"

[ -n "$suite" ] || not_run 'give a copy of https://github.com/pjincz/nginx-cgi as argument'
[ -d "$suite/test/html/cgi-bin" ] || not_run "$suite holds no nginx-cgi"
nginx=$(command -v nginx || echo /usr/sbin/nginx)
[ -x "$nginx" ] || not_run 'nginx is not installed'
# The tests name it.
! perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new("127.0.0.1:8080")' ||
	not_run 'port 8080 is in use'
settle_paths

[ "$(id -u)" -ne 0 ] || TEST_NGINX_GLOBALS='user root;'
export TEST_NGINX_GLOBALS="${TEST_NGINX_GLOBALS:-}" TEST_NGINX_BINARY="$nginx" WEIR="$weir"
export TEST_ROOT_DIR="$suite/test/html" TMPDIR="$work"

cd "$suite/test/tests"
for test in *.t; do
	[ "$test" != stderr.t ] || continue
	limited 180 perl -I ../lib -I "$here" -Mnginx_cgi_between "$test" \
		>"$work/out" 2>"$work/errors"
	tap <"$work/out" >"$work/with"
	# What is due: the names that came, and as many more as were planned.
	sed 's/^not //' "$work/with" >"$work/without"
	planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$work/out")
	seq $(($(wc -l <"$work/with") + 1)) "${planned:-1}" |
		sed 's/.*/ok & (planned)/' >>"$work/without"
	compare "$test"
done
summary
