#!/bin/sh
# Install, build and run every test, then again under AddressSanitizer and UBSan, and in
# part under ThreadSanitizer; the fuzz drivers run for a few seconds. Ends with a line
# "N passed, N failed".
#
#	contrib/test.sh [--quick]      --quick: the first of these alone
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=${WEIR_TEST_BUILD:-$top/build-test}
quick=
case ${1:-} in
'') ;;
--quick) quick=1 ;;
*)	echo "usage: contrib/test.sh [--quick]" >&2
	exit 2 ;;
esac

passed=0 failed=0
failures= # what is said of them, again at the end
say() { printf '\n== %s\n' "$*"; }

# check NAME COMMAND...: one test that is a command.
check() {
	name=$1; shift
	say "$name"
	if "$@"; then
		passed=$((passed + 1))
	else
		echo "FAILED: $name"
		failed=$((failed + 1))
		failures="$failures
$name"
	fi
}

format_is_kept() {
	find "$top/filter" "$top/contrib" "$top/tests" -name '*.[ch]' \
		-exec clang-format --dry-run -Werror {} +
}

scripts_are_clean() {
	find "$top/contrib" "$top/tests" "$top/.ci" "$top/filter" -type f \
		\( -name '*.sh' -o -path '*/.ci/run' \) -exec shellcheck {} +
}

# suite DIRECTORY MESON-OPTION...: builds there and runs all that meson knows. Criterion
# says how many tests a program holds; the sum of those is counted.
suite() {
	dir=$1; shift
	[ -f "$dir/build.ninja" ] || meson setup "$@" "$dir" "$top"
	ninja -C "$dir"
	meson test -C "$dir" --no-rebuild --print-errorlogs --timeout-multiplier 3 || true
	told=$("$top/tests/count.py" "$dir/meson-logs/testlog.json")
	counts=$(echo "$told" | head -n 1)
	passed=$((passed + ${counts% *}))
	failed=$((failed + ${counts#* }))
	told=$(echo "$told" | tail -n +2)
	[ -z "$told" ] || failures="$failures
in $dir:
$told"
}

say "installing what is missing"
"$top/contrib/deps.sh" --test

check "format" format_is_kept
check "shell scripts" scripts_are_clean
check "arrows between the folders" "$top/tests/arrows.sh"

say "tests"
suite "$build"
if [ -z "$quick" ]; then
	check "clang-tidy and cppcheck" "$top/tests/lint.sh" "$build"
	say "tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	export LSAN_OPTIONS="suppressions=$top/tests/lsan.supp:print_suppressions=0"
	export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
	suite "$build-asan" -Db_sanitize=address,undefined -Db_lundef=false
	check "where threads meet, under ThreadSanitizer" \
		env WEIR_TSAN_BUILD="$build-tsan" "$top/tests/tsan.sh" --short
	check "fuzz drivers, a few seconds each" \
		env WEIR_FUZZ_BUILD="$build-fuzz" WEIR_FUZZ_SEED=1 \
		WEIR_FUZZ_RUNS=15000 "$top/tests/fuzz/run.sh" 6
fi

port=$("$top/tests/free_port.py")
check "quick start, counting in memory" \
	env WEIR_BUILD="$build" "$top/contrib/quickstart.sh" --once --port "$port"
check "quick start, counting in Redis" \
	env WEIR_BUILD="$build" "$top/contrib/quickstart.sh" --once --redis --port "$port"
check "quick start, until Ctrl-C" env WEIR_BUILD="$build" "$top/tests/quickstart.py"

say "result"
[ -z "$failures" ] || printf 'failed:%s\n\n' "$failures"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
