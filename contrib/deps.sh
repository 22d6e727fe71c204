#!/bin/sh
# Install what weir needs from Debian 12: to build and run it; with --demo also what
# the quick start shows it with (lighttpd, Redis); with --test also what the test
# suite uses (more servers, sanitizers, linters); with --suites what is run by hand
# needs: other people's tests, valgrind, the benchmarks (see tests/README.md). Runs as
# root, or through sudo.
set -eu

build='build-essential meson ninja-build pkg-config
	libfcgi-dev libhiredis-dev libinih-dev libuv1-dev libsodium-dev libjansson-dev
	libsqlite3-dev'
demo='lighttpd redis-server spawn-fcgi curl perl'
test='libfaketime libcriterion-dev libcurl4-openssl-dev nginx-light php8.2-fpm
	apache2 libapache2-mod-fcgid git libcgi-pm-perl php8.2-cgi
	iproute2 clang libclang-rt-14-dev clang-format clang-tidy cppcheck shellcheck'
suites='libfcgi-perl nginx-light valgrind fcgiwrap apache2-utils'

case "${1:-}" in
'')	packages=$build ;;
--demo)	packages="$build $demo" ;;
--test)	packages="$build $demo $test" ;;
--suites) packages="$build $demo $suites" ;;
*)	echo "usage: contrib/deps.sh [--demo | --test | --suites]" >&2
	exit 2 ;;
esac

missing=
for package in $packages; do
	dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null |
		grep -q '^install ok installed$' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || {
		echo "deps.sh: not root and no sudo; as root run:" >&2
		echo "apt-get install --no-install-recommends$missing" >&2
		exit 1
	}
	as_root=sudo
fi

# The servers are for the tests, which start their own on free ports. A policy
# that forbids starting services keeps these packages off port 80 and 6379.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap '$as_root rm -f "$policy"' EXIT
	trap 'exit 1' INT TERM
	printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
	$as_root chmod 755 "$policy"
fi

$as_root apt-get update -q
# shellcheck disable=SC2086 # one word a package
$as_root env DEBIAN_FRONTEND=noninteractive \
	apt-get install -q -y --no-install-recommends $missing
