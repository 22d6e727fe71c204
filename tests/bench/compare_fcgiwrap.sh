#!/bin/sh
# compare_fcgiwrap.sh - the same CGI programs run by fcgiwrap and by weir.
#
#	tests/bench/compare_fcgiwrap.sh [BUILD] [ROUNDS]
#
# First the faults (see cgi_faults.py): those of weir count, those of fcgiwrap are shown
# beside them. Then throughput: in each round both get the same load, for a program in C
# and one in shell, and the ratio of their requests per second is printed. BUILD is a build
# directory (build), ROUNDS how often (5). fcgiwrap gets as many processes as requests come
# at a time. Exits with 1 when weir has a fault. Needs fcgiwrap and spawn-fcgi.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$top/build}" && pwd) rounds=${2:-5}
requests=${REQUESTS:-2000} clients=${CLIENTS:-8}
PATH=$PATH:/usr/sbin

for program in fcgiwrap spawn-fcgi python3; do
	command -v "$program" >/dev/null || {
		echo "compare_fcgiwrap: not run: $program is not installed"
		exit 0
	}
done
ninja -C "$build" filter/weir contrib/echo tests/path/fcgi_load >/dev/null

work=$(mktemp -d)
pids=
# fcgiwrap does not end what it has started.
trap 'kill $pids 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

mkdir "$work/cgi"
cp "$build/contrib/echo" "$work/cgi/echo"
printf '#!/bin/sh\nprintf "Status: 200 OK\\nContent-Type: text/plain\\n\\nhello\\n"\n' \
	>"$work/cgi/hello"
chmod 755 "$work/cgi/hello"
cat >"$work/weir.ini" <<INI
[server]
listen = unix:$work/weir.sock
workers = 2
control =
backend = cgi
[store]
type = memory
[backend cgi]
cgi = $work/cgi
INI
"$build/filter/weir" -c "$work/weir.ini" 2>"$work/weir.log" &
pids="$pids $!"

# start_fcgiwrap SOCKET: that many processes; with -c they would be one's children, whom
# it leaves behind when it is ended.
start_fcgiwrap() {
	spawn-fcgi -s "$1" -F "$clients" -P "$1.pid" -- "$(command -v fcgiwrap)" >/dev/null
	pids="$pids $(tr '\n' ' ' <"$1.pid")"
}

start_fcgiwrap "$work/faults.sock"
python3 "$top/tests/bench/cgi_faults.py" fcgiwrap "$work/faults.sock" "$work/cgi" || true
rm -f "$work/cgi/pid"
faults=0
python3 "$top/tests/bench/cgi_faults.py" weir "$work/weir.sock" "$work/cgi" || faults=1

start_fcgiwrap "$work/fcgiwrap.sock"
# load NAME PROGRAM: requests per second.
load() {
	"$build/tests/path/fcgi_load" -c "$clients" -n "$requests" -u "/$2" \
		-s "$work/cgi/$2" "unix:$work/$1.sock" >"$work/load" || cat "$work/load" >&2
	grep -q "\"200\":$requests}" "$work/load" || cat "$work/load" >&2
	sed -n 's/.*"requests_per_second":\([0-9.]*\).*/\1/p' "$work/load"
}

for program in echo hello; do
	i=1
	while [ "$i" -le "$rounds" ]; do
		# Whoever goes second may find the machine otherwise: they take turns.
		if [ $((i % 2)) -eq 1 ]; then
			other=$(load fcgiwrap $program) weir=$(load weir $program)
		else
			weir=$(load weir $program) other=$(load fcgiwrap $program)
		fi
		echo "$other $weir"
		i=$((i + 1))
	done | awk -v program=$program '
		{ printf "%s, round %d: fcgiwrap %.0f/s, weir %.0f/s, ratio %.3f\n",
			program, NR, $1, $2, $2 / $1
		ratio[NR] = $2 / $1 }
		END {	for (i = 1; i <= NR; i++)
				for (k = i + 1; k <= NR; k++)
					if (ratio[k] < ratio[i]) { t = ratio[i]; ratio[i] = ratio[k]; ratio[k] = t }
			printf "%s: ratio %.3f (median of %d; %.3f to %.3f)\n", program,
				ratio[int((NR + 1) / 2)], NR, ratio[1], ratio[NR] }'
done
exit $faults
