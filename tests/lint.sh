#!/bin/sh
# clang-tidy and cppcheck over what is compiled: filter/, the test library and the example
# handlers.
#
#	tests/lint.sh BUILD [FILE...]      a build directory, for how each file is compiled
#
# The checks are listed in .clang-tidy and below. tests/lint.allow names what they say in
# vain, with the reason; everything else is a failure. A line of that list which covers
# nothing any more is told when all files are looked at.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
[ -f "${1:-}/compile_commands.json" ] || {
	echo "usage: tests/lint.sh BUILD [FILE...]" >&2
	exit 2
}
build=$(realpath "$1")
shift
cd "$top"
all=
if [ $# -eq 0 ]; then
	all=1
	# shellcheck disable=SC2046 # one word a file
	set -- $(find filter tests/support contrib -name '*.c' | sort)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Two at a time, a few files each.
# shellcheck disable=SC2016 # expanded by the inner shell
printf '%s\n' "$@" | xargs -P 2 -n 6 sh -c \
	'build=$1; shift; clang-tidy --quiet -p "$build" "$@" 2>/dev/null' - "$build" \
	>"$work/tidy" || true
# A file that does not compile would pass unseen.
grep -q '\[clang-diagnostic-error\]$' "$work/tidy" && { cat "$work/tidy"; exit 1; }

# unusedFunction, style and information are left out: the first needs the whole program
# in one run, the others are taste. missingInclude is the compiler's. jansson's loop is no
# macro that it knows.
echo '#define json_array_foreach(array, i, v) for (i = 0; (v = json_array_get(array, i)); i++)' \
	>"$work/macros.h"
cppcheck --quiet -j 2 --enable=warning,performance,portability --inline-suppr \
	--std=c11 --language=c -D_GNU_SOURCE -DWEIR_VERSION='""' -I filter -I tests/support \
	--include="$work/macros.h" \
	--suppress=missingInclude --suppress=missingIncludeSystem \
	--template='{file}:{line}:{column}: warning: {message} [{id}]' \
	"$@" 2>"$work/cppcheck" || true

# One line a finding, paths from the top, each once: headers are read with many files.
sed -n "s#^\(.*/\)\{0,1\}\(\(filter\|tests\|contrib\)/[^:]*:[0-9]*:[0-9]*: \)\(warning\|error\): #\2#p" \
	"$work/tidy" "$work/cppcheck" | sort -u >"$work/found"

awk -v all="$all" '
	FNR == NR {
		if ($0 !~ /^#/ && NF >= 4 && $3 == "|")
			allowed[$1 " " $2] = 1
		else if ($0 !~ /^#/ && NF)
			bad = bad FILENAME ":" FNR ": not FILE CHECK | REASON\n"
		next
	}
	{
		file = $1
		sub(/:.*/, "", file)
		check = $NF
		gsub(/[][]/, "", check)
		sub(/,.*/, "", check)
		if ((file " " check) in allowed) {
			used[file " " check] = 1
		} else {
			print
			n++
		}
	}
	END {
		printf "%s", bad
		for (a in allowed)
			if (all && !(a in used))
				print "tests/lint.allow: nothing is said any more: " a
		print n + 0 " findings"
		exit n > 0 || bad != ""
	}' tests/lint.allow "$work/found"
