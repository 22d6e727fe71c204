#!/bin/sh
# lighttpd-tests.sh - lighttpd's own FastCGI tests, with weir in front of their application.
#
#	tests/lighttpd-tests.sh SUITE [WEIR]
#
# SUITE is lighttpd's source of the version that is installed ("apt-get source lighttpd",
# or https://github.com/lighttpd/lighttpd1.4 at that tag), WEIR the built program
# (build/filter/weir). tests/mod-fastcgi.t runs twice: as it is, and with a program in place of
# its application that starts both and lets weir serve lighttpd's socket. Every test whose
# result differs is printed with the reason why it may, from README.md. Exits with 1 when
# one differs that has none there. Needs lighttpd, spawn-fcgi and a C compiler:
# contrib/deps.sh --suites.
#
# An authorizer is left as it is: weir is one itself and does not ask another.
#
# Without SUITE nothing is run, which is said and is no failure.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/compare_suite.sh
. "$here/compare_suite.sh"

[ -n "$suite" ] || not_run 'give the source of lighttpd as argument (apt-get source lighttpd)'
[ -f "$suite/tests/mod-fastcgi.t" ] || not_run "$suite holds no tests/mod-fastcgi.t"
lighttpd=$(command -v lighttpd || echo /usr/sbin/lighttpd)
[ -x "$lighttpd" ] || not_run 'lighttpd is not installed'
command -v spawn-fcgi >/dev/null || not_run 'spawn-fcgi is not installed'
command -v cc >/dev/null || not_run 'there is no C compiler'
settle_paths

# The tests write into their own folder.
mkdir -p "$work/src/compat"
cp -R "$suite/tests" "$work/tests"
cp "$suite/src/compat/fastcgi.h" "$work/src/compat/"
cd "$work/tests"
# It closes when nothing comes for 10 ms, which on a busy machine happens to anybody.
sed -i 's/poll(&pfd, 1, 10)/poll(\&pfd, 1, 5000)/' fcgi-responder.c
cc -O1 -o application fcgi-responder.c
MAKELEVEL=1 sh prepare.sh >/dev/null

cat >between <<END
#!/bin/sh
# In the application's place: descriptor 0 is lighttpd's socket.
exec 3<&0
dir=\$(mktemp -d "$work/between.XXXXXX")
printf '%s\n' '[server]' 'backend = application' 'control =' '[store]' 'type = memory' \
	'[backend application]' "fastcgi = unix:\$dir/socket" >"\$dir/weir.ini"
spawn-fcgi -n -s "\$dir/socket" -- "$work/tests/application" >/dev/null 3<&- &
application=\$!
until [ -S "\$dir/socket" ]; do
	kill -0 \$application || exit 1
	sleep 0.05
done
"$weir" -c "\$dir/weir.ini" 2>"\$dir/weir.log" <&3 3<&- &
weir=\$!
trap 'kill \$weir \$application' TERM INT
wait \$weir || true
kill \$application 2>/dev/null || true
END
chmod +x between

export LIGHTTPD_EXE_PATH="$lighttpd" USER="${USER:-$(id -un)}"
ln application fcgi-responder
limited 120 perl ./mod-fastcgi.t >"$work/out" 2>"$work/errors"
tap <"$work/out" >"$work/without"

mv between fcgi-responder
# An authorizer is an entry of its own, up to the next one.
sed -i '/"grisu-auth"/,/)/ {
	s/"host" => "127.0.0.1"/"socket" => env.SRCDIR + "\/authorizer"/
	/"port"/d
	s/fcgi-responder/application/
}' fastcgi-responder.conf
limited 120 perl ./mod-fastcgi.t >"$work/out" 2>"$work/errors"
tap <"$work/out" >"$work/with"
compare mod-fastcgi.t
summary
