#!/bin/sh
# The tests under ThreadSanitizer: what it finds in weir, weirctl or the tests is a
# failure, whatever the test itself says.
#
#	tests/tsan.sh [--short | TEST...]
#
# All tests, one after the other, but for the chaos scripts, which look at time and memory;
# --short those in which threads meet most: some two minutes on two cores; or the tests of
# these names, as "meson test" knows them. WEIR_TSAN_BUILD is where it is built (build-tsan).
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=${WEIR_TSAN_BUILD:-$top/build-tsan}
short='store_denied store_breaker client_directory observe_control deciding reload front keep'

if [ "${1:-}" = --short ]; then
	# shellcheck disable=SC2086 # one word a test
	set -- $short
fi

[ -f "$build/build.ninja" ] ||
	meson setup -Db_sanitize=thread -Db_lundef=false "$build" "$top" >/dev/null
if [ $# -eq 0 ]; then
	ninja -C "$build"
else
	"$top/tests/build_for.py" "$build" "$@"
fi

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
trap 'exit 1' INT TERM
# Programs that a server starts find the options in the environment too. What was found
# does not change how a program ends: tests look at that.
export TSAN_OPTIONS="log_path=$reports/at exitcode=0 second_deadlock_stack=1 \
suppressions=$top/tests/tsan.supp"
export WEIR_TEST_PATIENCE=5

status=0
meson test -C "$build" --no-rebuild --print-errorlogs --num-processes 1 \
	--timeout-multiplier 5 --no-suite lint --no-suite chaos "$@" || status=1
if [ -n "$(ls "$reports")" ]; then
	cat "$reports"/*
	grep -h '^SUMMARY' "$reports"/* | sort | uniq -c
	status=1
fi
exit "$status"
