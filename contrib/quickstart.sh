#!/bin/sh
# The whole path on one machine: lighttpd, weir, a CGI and a FastCGI handler.
#
#	contrib/quickstart.sh [--once] [--redis] [--port N]
#
# Installs what is missing, builds, starts everything on 127.0.0.1:8080 in a temporary
# directory, and shows requests turning from 200 to 429. Then it stays up until Ctrl-C;
# with --once it leaves. Limits are counted in memory, with --redis in a redis-server
# that it starts itself. What it started it stops.
set -eu

once='' redis='' port=8080
while [ $# -gt 0 ]; do
	case $1 in
	--once)	once=1 ;;
	--redis) redis=1 ;;
	--port)	port=${2:?--port needs a number}; shift ;;
	*)	echo "usage: contrib/quickstart.sh [--once] [--redis] [--port N]" >&2
		exit 2 ;;
	esac
	shift
done

top=$(cd "$(dirname "$0")/.." && pwd)
build=${WEIR_BUILD:-$top/build}
say() { printf '\n== %s\n' "$*"; }

say "installing what is missing"
"$top/contrib/deps.sh" --demo

say "building in $build"
[ -f "$build/build.ninja" ] || meson setup -Dtests=false "$build" "$top"
ninja -C "$build" filter/weir filter/ctl/weirctl filter/status/weir-status contrib/echo

run='' pids=''

# end PID: asks until it is gone. A child that has not become its program yet still has the
# traps of this script, and forgets the signal with them.
end() {
	for _ in $(seq 100); do
		kill "$1" 2>/dev/null || return 0
		sleep 0.1
	done
	kill -KILL "$1" 2>/dev/null || true
}

stop() {
	trap '' INT TERM # a second Ctrl-C does not stop the cleaning up
	trap - EXIT
	# The web server first, so that nothing new comes in. The last one may not have
	# been remembered yet.
	for pid in ${!:-} $pids; do
		end "$pid"
	done
	[ -z "$run" ] || rm -rf "$run"
}
trap 'stop' EXIT
trap 'stop; exit 130' INT
trap 'stop; exit 143' TERM

run=$(mktemp -d "${TMPDIR:-/tmp}/weir-quickstart.XXXXXX")
chmod 755 "$run"

fail() {
	echo "quickstart: $*" >&2
	for log in "$run"/*.log; do
		[ -s "$log" ] && { echo "--- $(basename "$log")"; tail -n 20 "$log"; } >&2
	done
	exit 1
}

# start NAME COMMAND...: in the background, its output in a log, its pid remembered.
start() {
	name=$1; shift
	"$@" >"$run/$name.log" 2>&1 &
	pids="$! $pids"
}

# until_ready WHAT COMMAND...: the command succeeds within ten seconds.
until_ready() {
	what=$1; shift
	for _ in $(seq 100); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	fail "$what did not get ready"
}

if curl -s -o /dev/null "http://127.0.0.1:$port/"; then
	fail "something listens on port $port already; choose another with --port"
fi

say "starting"
store='type = memory'
if [ -n "$redis" ]; then
	start redis redis-server --port 0 --unixsocket "$run/redis.sock" --dir "$run" \
		--save '' --appendonly no
	until_ready redis-server redis-cli -s "$run/redis.sock" ping
	store="type = redis
url = unix://$run/redis.sock"
fi

mkdir "$run/endpoints.d"
cat >"$run/weir.ini" <<INI
[server]
listen    = unix:$run/weir.sock
control   = unix:$run/control.sock
endpoints = endpoints.d/*.ini

[store]
$store

[site]
@RateLimit = type=ip count=1000 window=60s

[backend programs]
cgi    = $top/contrib/handlers
prefix = /cgi

[backend application]
fastcgi = unix:$run/echo.sock
INI
cat >"$run/endpoints.d/hello.ini" <<INI
[endpoint hello]
match      = GET /cgi/hello.sh
backend    = programs
@RateLimit = type=ip count=5 window=60s
INI
cat >"$run/endpoints.d/echo.ini" <<INI
[endpoint echo]
match      = GET,POST /echo
backend    = application
@RateLimit = type=ip count=3 window=10s
@RateLimit = type=global algorithm=token_bucket count=60 window=60s burst=20
INI
cat >"$run/lighttpd.conf" <<CONF
server.modules       = ( "mod_fastcgi" )
server.bind          = "127.0.0.1"
server.port          = $port
server.document-root = "$run"
server.stream-response-body = 2
fastcgi.server = (
	"/weir-status" => (( "socket" => "$run/status.sock", "check-local" => "disable" )),
	"/" => (( "socket" => "$run/weir.sock", "check-local" => "disable" ))
)
CONF

"$build/filter/ctl/weirctl" -c "$run/weir.ini" check
start echo spawn-fcgi -n -s "$run/echo.sock" -- "$build/contrib/echo"
WEIR_CONTROL="unix:$run/control.sock" \
	start status spawn-fcgi -n -s "$run/status.sock" -- "$build/filter/status/weir-status"
start weir "$build/filter/weir" -c "$run/weir.ini"
until_ready weir test -S "$run/weir.sock"
start lighttpd lighttpd -D -f "$run/lighttpd.conf"
until_ready lighttpd curl -s -o /dev/null "http://127.0.0.1:$port/weir-status/status.json"

# show PATH TIMES: asks so often, shows each status and the last answer whole, and
# fails unless the answers turned from 200 to a 429 that says when to come back.
show() {
	path=$1 times=$2 seen=''
	say "$times requests for http://127.0.0.1:$port$path"
	for _ in $(seq "$times"); do
		code=$(curl -s -o "$run/body" -D "$run/head" -w '%{http_code}' \
			"http://127.0.0.1:$port$path") || fail "curl failed"
		seen="$seen $code"
		[ "$code" = 429 ] && break
	done
	echo "  $seen"
	echo
	cat "$run/head" "$run/body"
	echo
	case $seen in
	*200*429) ;;
	*)	fail "expected 200s and then a 429, saw:$seen" ;;
	esac
	grep -qi '^retry-after: [1-9]' "$run/head" || fail "the 429 has no Retry-After"
	grep -q '"code":42900' "$run/body" || fail "the 429 has no JSON body"
}

show /cgi/hello.sh 6
show /echo 4

if [ -n "$once" ]; then
	say "done: both handlers were limited through lighttpd"
	exit 0
fi
say "it stays up; try"
cat <<TEXT
  curl -i http://127.0.0.1:$port/cgi/hello.sh        a CGI program, 5 requests a minute
  curl -i -d hello http://127.0.0.1:$port/echo       a FastCGI application, 3 in 10 s
  http://127.0.0.1:$port/weir-status                 what weir is doing
  $build/filter/ctl/weirctl -c $run/weir.ini status

  The configuration is $run/weir.ini, one endpoint a file in $run/endpoints.d.
  Ctrl-C stops everything.
TEXT
wait
