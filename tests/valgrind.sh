#!/bin/sh
# Path and regress tests with weir under valgrind: what it reports is a failure, whatever
# the test itself says.
#
#	tests/valgrind.sh [TEST...]      names as "meson test" knows them
#
# Tests start weir by the name in WEIR: it is set to a script that puts valgrind in front,
# also where a web server starts weir. Programs that weir starts run as they are.
# WEIR_VALGRIND_BUILD is where it is built (build-valgrind), without sanitizers.
#
# The soak is a short one. Tests that count on every descriptor skip themselves and say so.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
build=${WEIR_VALGRIND_BUILD:-$top/build-valgrind}

[ -f "$build/build.ninja" ] || meson setup "$build" "$top" >/dev/null
if [ $# -eq 0 ]; then
	for name in $(meson test -C "$build" --no-rebuild --list --suite path --suite regress |
		sed 's/.* //'); do
		case $name in
		check | nomem) ;; # weir itself does not serve there
		*) set -- "$@" "$name" ;;
		esac
	done
fi

"$top/tests/build_for.py" "$build" "$@"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
mkdir "$work/reports"

# This valgrind does not know a call that weir makes.
cc -D_GNU_SOURCE -shared -fPIC -o "$work/openat2.so" "$top/tests/valgrind_openat2.c"

cat >"$work/weir" <<END
#!/bin/sh
LD_PRELOAD=\${LD_PRELOAD:+\$LD_PRELOAD:}$work/openat2.so
export LD_PRELOAD
exec valgrind --quiet --vgdb=no --leak-check=full --errors-for-leak-kinds=definite,indirect \\
	--show-leak-kinds=definite,indirect --num-callers=20 --child-silent-after-fork=yes \\
	--suppressions="$top/tests/valgrind.supp" --log-file="$work/reports/at.%p" \\
	"$build/filter/weir" "\$@"
END
cat >"$work/wrap" <<END
#!/bin/sh
[ -z "\${WEIR:-}" ] || WEIR=$work/weir
WEIR_UNDER_VALGRIND=1 WEIR_SOAK_REQUESTS=\${WEIR_SOAK_REQUESTS:-1000}
export WEIR WEIR_UNDER_VALGRIND WEIR_SOAK_REQUESTS
exec "\$@"
END
chmod 755 "$work" "$work/weir" "$work/wrap" "$work/openat2.so"
chmod 1777 "$work/reports"

status=0
meson test -C "$build" --no-rebuild --print-errorlogs --num-processes 1 \
	--timeout-multiplier 10 --wrapper "$work/wrap" "$@" || status=1
find "$work/reports" -type f -size 0 | wc -l | sed 's/$/ runs of weir without a report/'
if [ -n "$(find "$work/reports" -type f -size +0)" ]; then
	find "$work/reports" -type f -size +0 -exec cat {} +
	status=1
fi
exit "$status"
