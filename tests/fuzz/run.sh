#!/bin/sh
# Builds the fuzz drivers with clang and runs them one after the other, each for so many
# seconds (10) from its seeds in corpus/. One table at the end; a finding is left in a
# file, told with the command that shows it again, and makes the exit code 1.
#
#	tests/fuzz/run.sh [SECONDS_PER_DRIVER] [DRIVER...]
#
# What a run has learnt stays in the build directory, and the next goes on from it.
#
#	CC                 clang-14, or clang
#	WEIR_FUZZ_BUILD    the build directory (build-fuzz)
#	WEIR_FUZZ_SEED     of chance; without it another each time
#	WEIR_FUZZ_RUNS     executions after which a driver may stop before its time
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${WEIR_FUZZ_BUILD:-$root/build-fuzz}
seconds=${1:-10}
[ $# -eq 0 ] || shift
case $seconds in
*[!0-9]* | '') echo "$0: \"$seconds\" is not a number of seconds" >&2 && exit 2 ;;
esac

if [ ! -e "$build/build.ninja" ]; then
	if [ -z "${CC:-}" ]; then
		CC=$(command -v clang-14 || command -v clang) || {
			echo "$0: there is no clang; apt-get install clang-14" >&2
			exit 2
		}
	fi
	CC=$CC meson setup "$build" "$root" -Dfuzz=true -Dtests=false -Doptimization=1 \
		-Db_sanitize=address,undefined -Db_lundef=false >"$build.log" 2>&1 || {
		cat "$build.log" >&2
		exit 2
	}
	mv "$build.log" "$build/setup.log"
fi
ninja -C "$build" fuzz >"$build/build.log" 2>&1 || {
	cat "$build/build.log" >&2
	exit 2
}

if [ $# -eq 0 ]; then
	for source in "$root"/tests/fuzz/fuzz_*.c; do
		name=${source##*/fuzz_}
		set -- "$@" "${name%.c}"
	done
fi

# For speed: inputs are small, and so is what is freed and watched.
asan=quarantine_size_mb=4:malloc_context_size=6:max_malloc_fill_size=0
export ASAN_OPTIONS="$asan:allocator_release_to_os_interval_ms=-1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"

found=0
table=
findings=$build/findings
mkdir -p "$findings"
for name in "$@"; do
	driver=$build/tests/fuzz/fuzz_$name
	seeds=$root/tests/fuzz/corpus/$name
	words=$root/tests/fuzz/dict/$name.dict
	log=$build/fuzz_$name.log
	if [ ! -x "$driver" ] || [ ! -d "$seeds" ]; then
		echo "$0: there is no driver $name" >&2
		exit 2
	fi
	mkdir -p "$build/corpus/$name"
	rm -f "$findings/$name"-*
	dict=
	[ ! -e "$words" ] || dict=-dict=$words
	status=0
	# shellcheck disable=SC2086 # no dictionary, no argument
	"$driver" -max_total_time="$seconds" -runs="${WEIR_FUZZ_RUNS:--1}" \
		-seed="${WEIR_FUZZ_SEED:-0}" -timeout=5 \
		-rss_limit_mb=2048 -malloc_limit_mb=256 -max_len=4096 -print_final_stats=1 \
		-artifact_prefix="$findings/$name-" $dict "$build/corpus/$name" "$seeds" \
		>"$log" 2>&1 || status=$?
	n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
	each=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
	cover=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
	here=0
	for file in "$findings/$name"-*; do
		[ -e "$file" ] || continue
		here=$((here + 1))
		echo "$name: $(grep -m 1 -E 'broken promise|runtime error|ERROR: ' "$log" || echo "see $log")"
		echo "	$driver $file"
	done
	if [ "$status" -ne 0 ] && [ "$here" -eq 0 ]; then
		here=1
		echo "$name: ended with $status; see $log"
	fi
	found=$((found + here))
	table="$table$(printf '%-10s %12s %10s %9s %9s' "$name" "${n:-?}" "${each:-?}" "${cover:-?}" "$here")
"
done
printf '%-10s %12s %10s %9s %9s\n%s' driver executions 'per s' coverage findings "$table"
[ "$found" -eq 0 ]
