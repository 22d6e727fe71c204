#!/bin/sh
# bench_authorizer.sh - what asking weir costs a web server.
#
#	tests/bench/bench_authorizer.sh [BUILD] [ROUNDS]
#
# One lighttpd serves a small file twice: under /plain/ a minimal libfcgi authorizer that
# answers 200 at once is asked first, under /weir/ weir, which counts each request for one
# rule in memory. In each round both get the same load, one after the other, and the
# ratio of their requests per second is printed; the aim is 0.85 or more. BUILD is a build
# directory (build), ROUNDS how often (5). Needs lighttpd, spawn-fcgi and ab
# (apache2-utils).
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd) rounds=${2:-5}
requests=${REQUESTS:-20000} clients=${CLIENTS:-32}

for program in lighttpd spawn-fcgi ab; do
	PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || {
		echo "bench_authorizer: not run: $program is not installed"
		exit 0
	}
done
ninja -C "$build" filter/weir tests/bench/authorizer_200 >/dev/null

work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; wait; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

mkdir -p "$work/root/plain" "$work/root/weir"
echo hello >"$work/root/plain/x.txt"
echo hello >"$work/root/weir/x.txt"
cat >"$work/weir.ini" <<INI
[server]
listen = unix:$work/weir.sock
workers = 2
control =
[store]
type = memory
[log]
requests = none
[site]
@RateLimit = type=global algorithm=token_bucket count=500000 window=1s
INI
port=$("$top/tests/free_port.py")
cat >"$work/lighttpd.conf" <<CONF
server.document-root = "$work/root"
server.bind = "127.0.0.1"
server.port = $port
server.max-keep-alive-requests = 100000
server.modules = ( "mod_fastcgi" )
fastcgi.server = (
	"/plain/" => (( "socket" => "$work/plain.sock", "mode" => "authorizer",
		"docroot" => "$work/root", "check-local" => "disable" )),
	"/weir/" => (( "socket" => "$work/weir.sock", "mode" => "authorizer",
		"docroot" => "$work/root", "check-local" => "disable" )))
CONF

"$build/filter/weir" -c "$work/weir.ini" 2>"$work/log" &
pids="$pids $!"
# As many processes as weir has workers.
spawn-fcgi -s "$work/plain.sock" -F 2 -P "$work/plain.pid" -- \
	"$build/tests/bench/authorizer_200" >/dev/null
pids="$pids $(cat "$work/plain.pid")"
PATH=$PATH:/usr/sbin lighttpd -D -f "$work/lighttpd.conf" 2>>"$work/log" &
pids="$pids $!"

# load PATH N: requests per second; fails when one was not answered with 200.
load() {
	ab -q -k -n "$2" -c "$clients" "http://127.0.0.1:$port/$1/x.txt" >"$work/ab" 2>&1 ||
		return 1
	if grep -q 'Non-2xx' "$work/ab" || ! grep -q '^Failed requests: *0$' "$work/ab"; then
		cat "$work/ab" >&2
		return 1
	fi
	sed -n 's/^Requests per second: *\([0-9.]*\).*/\1/p' "$work/ab"
}

i=0
until load weir 100 >/dev/null && load plain 100 >/dev/null; do
	i=$((i + 1))
	[ $i -lt 50 ] || { cat "$work/log" >&2 && exit 1; }
	sleep 0.1
done
i=1
while [ "$i" -le "$rounds" ]; do
	# Whoever goes second may find the machine otherwise: they take turns.
	if [ $((i % 2)) -eq 1 ]; then
		plain=$(load plain "$requests") weir=$(load weir "$requests")
	else
		weir=$(load weir "$requests") plain=$(load plain "$requests")
	fi
	echo "$plain $weir"
	i=$((i + 1))
done | awk '{ printf "round %d: libfcgi %.0f/s, weir %.0f/s, ratio %.3f\n", NR, $1, $2, $2 / $1
		ratio[NR] = $2 / $1 }
	END {	for (i = 1; i <= NR; i++)
			for (k = i + 1; k <= NR; k++)
				if (ratio[k] < ratio[i]) { t = ratio[i]; ratio[i] = ratio[k]; ratio[k] = t }
		printf "authorizer: ratio %.3f (median of %d; %.3f to %.3f)\n",
			ratio[int((NR + 1) / 2)], NR, ratio[1], ratio[NR] }'
