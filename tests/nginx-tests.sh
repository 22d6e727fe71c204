#!/bin/sh
# nginx-tests.sh - nginx's own FastCGI tests, with weir between nginx and their daemons.
#
#	tests/nginx-tests.sh SUITE [WEIR]
#
# SUITE is a copy of https://github.com/nginx/nginx-tests, WEIR the built program
# (build/weir). Each fastcgi*.t runs twice, without weir and with it, and every test whose
# result differs is printed with the reason why it may, from the list below. Exits with 1
# when one differs that is not in the list. Needs nginx and FCGI.pm (libfcgi-perl).
#
# Without SUITE nothing is run, which is said and is no failure.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
suite=${1:-} weir=${2:-$here/../build/weir}

not_run() {
	echo "nginx-tests: not run: $1"
	exit 0
}

[ -n "$suite" ] || not_run 'give the directory of nginx-tests as argument'
[ -f "$suite/lib/Test/Nginx.pm" ] || not_run "$suite holds no nginx-tests"
nginx=$(command -v nginx || echo /usr/sbin/nginx)
[ -x "$nginx" ] || not_run 'nginx is not installed'
perl -MFCGI -e 1 2>/dev/null || not_run 'FCGI.pm is not installed (libfcgi-perl)'
[ -x "$weir" ] || { echo "nginx-tests: $weir is not there" >&2; exit 2; }
weir=$(cd "$(dirname "$weir")" && pwd)/$(basename "$weir")
suite=$(cd "$suite" && pwd)

# What may differ: file, start of the test's name, why.
stderr_logged='what a backend says on STDERR goes to the log of weir, not to nginx'
cut='nginx drops what it reads together with the break, which it would not see otherwise'
no_body='an answer to HEAD has no body, also where the application sends one'
anew='a new connection to the backend for each request unless it is told to keep them'
spooled='the body is read to its end before the backend is called'
normal='an answer without a head reaches nginx as 502, so it asks no other server'
differences="fastcgi|catch stderr|$stderr_logged
fastcgi_extra_data|too short response|$cut
fastcgi_extra_data|empty too short response|$cut
fastcgi_extra_data|unbuffered too short response|$cut
fastcgi_extra_data|unbuffered empty too short response|$cut
fastcgi_extra_data|head matching cached|$no_body
fastcgi_extra_data|head extra cached|$no_body
fastcgi_extra_data|head too short cached|$no_body
fastcgi_keepalive|single connection used|$anew
fastcgi_keepalive|new connection after HEAD|$anew
fastcgi_request_buffering|no preread|$spooled
fastcgi_request_buffering|preread|$spooled
fastcgi_request_buffering_chunked|no preread|$spooled
fastcgi_request_buffering_chunked|preread|$spooled
fastcgi_request_buffering_chunked|chunks|$spooled
fastcgi_split|fastcgi next upstream|$normal"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The workers must reach the sockets, which are weir's and so the caller's.
[ "$(id -u)" -ne 0 ] || TEST_NGINX_GLOBALS='user root;'
export TEST_NGINX_GLOBALS="${TEST_NGINX_GLOBALS:-}" TEST_NGINX_BINARY="$nginx"
export TEST_NGINX_MODULES="${TEST_NGINX_MODULES:-/usr/lib/nginx/modules}"

# Runs one file; "ok NAME" and "not ok NAME" lines without their numbers.
results() {
	(cd "$suite" && timeout 120 perl -I lib -I "$here" -Mnginx_between "$1" \
		2>"$work/errors") |
		sed -n 's/^ok [0-9]* # skip.*/skipped/p; s/ # .*//
			s/^\(\(not \)\{0,1\}ok\) [0-9]* - /\1 /p'
}

# The reason why a test may differ; nothing when it may not.
reason() {
	echo "$differences" | while IFS='|' read -r where start why; do
		case $1:$2 in
		"$where:$start"*) echo "$why" && break ;;
		esac
	done
}

results=0 differ=0 unexplained=0
for test in "$suite"/fastcgi*.t; do
	file=$(basename "$test" .t)
	WEIR='' results "$file.t" >"$work/without"
	WEIR=$weir results "$file.t" >"$work/with"
	results=$((results + $(wc -l <"$work/without")))
	diff -U0 "$work/without" "$work/with" | sed -n 's/^+\(ok\|not\)/\1/p' >"$work/differ" ||
		true
	while read -r line; do
		name=${line#not } name=${name#ok } why=$(reason "$file" "$name")
		differ=$((differ + 1))
		[ -n "$why" ] || unexplained=$((unexplained + 1))
		echo "nginx-tests: $file: with weir: $line: ${why:-NOT EXPLAINED}"
	done <"$work/differ"
	if [ "$(wc -l <"$work/without")" -ne "$(wc -l <"$work/with")" ]; then
		echo "nginx-tests: $file: broke off with weir"
		unexplained=$((unexplained + 1))
	fi
done
echo "nginx-tests: $results results, $differ differ, $unexplained of them not explained"
[ "$unexplained" -eq 0 ]
