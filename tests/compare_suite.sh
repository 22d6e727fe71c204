# compare_suite.sh - what the scripts share that run other people's tests with weir in the
# path and without it. Sourced with the script's arguments, SUITE and WEIR, which become
# $suite and $weir; $here is the folder it lies in.
#
# A result is one test of a file, by its number. Each that differs is printed with the
# reason that README.md gives for it, in the table whose first column names the file. A
# number there is for readers, the name counts; it stands also for the tests whose names
# begin with it and " - ", which suites skip when the first has failed.
# shellcheck shell=sh disable=SC2154

suite=${1:-} weir=${2:-$here/../build/filter/weir}
results=0 differ=0 skipped=0 unexplained=0 child=
name=$(basename "$0" .sh)
work=$(mktemp -d)
trap '[ -z "$child" ] || kill "$child" 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

not_run() {
	echo "$name: not run: $1"
	exit 0
}

# Once nothing else is in the way: both are found from any folder.
settle_paths() {
	[ -x "$weir" ] || { echo "$name: $weir is not there" >&2; exit 2; }
	weir=$(cd "$(dirname "$weir")" && pwd)/$(basename "$weir")
	suite=$(cd "$suite" && pwd -P)
}

# Runs a command for some seconds at most, so that this script can end it.
limited() {
	timeout -k 10 "$@" &
	child=$!
	wait "$child" || true
	child=
}

# "ok 3 NAME" and "not ok 3 NAME" out of TAP.
tap() {
	sed -n 's/^\(ok\|not ok\) \([0-9][0-9]*\) # [Ss][Kk][Ii][Pp].*/\1 \2 (skipped)/p; t
		s/ # .*//
		s/^\(ok\|not ok\) \([0-9][0-9]*\)\( - \)\{0,1\} */\1 \2 /p'
}

# The reason why a test may differ; nothing when it may not.
reason() {
	awk -F ' *[|] *' -v file="\`$1\`" -v name="$2" '
		$2 == file {
			n = split($3, names, "; ")
			for (i = 1; i <= n; i++) {
				sub(/^[0-9]+ /, "", names[i])
				if (index(name " - ", names[i] " - ") == 1) {
					print $4
					exit
				}
			}
		}' "$here/README.md"
}

unexplained() {
	unexplained=$((unexplained + 1))
	printf '%s\n' "$name: $1: NOT EXPLAINED"
}

# Compares $work/without and $work/with, the results of one file.
compare() {
	results=$((results + $(wc -l <"$work/without")))
	awk 'NR == FNR { with[$0] = 1; next }
		!($0 in with) { print }' "$work/with" "$work/without" >"$work/differ"
	while read -r line; do
		test=${line#not } test=${test#ok }
		number=${test%% *} why=$(reason "$1" "${test#* }")
		got=$(sed -n "s/^ok $number (skipped)/skipped/p; t
			s/^\(ok\|not ok\) $number .*/\1/p" "$work/with")
		if [ -n "$why" ] && [ "$got" = skipped ]; then
			skipped=$((skipped + 1))
			continue
		fi
		differ=$((differ + 1))
		if [ -n "$why" ] && [ -n "$got" ]; then
			printf '%s\n' "$name: $1: $got $test: $why"
		else
			unexplained "$1: ${got:-broke off before} $test"
		fi
	done <"$work/differ"
	[ -s "$work/without" ] || echo "$name: $1: does not run here, with or without weir"
}

# The last line, and whether nothing was unexplained.
summary() {
	echo "$name: $results results, $differ differ, $skipped skipped behind those;" \
		"$unexplained not explained"
	[ "$unexplained" -eq 0 ]
}
