#!/bin/sh
# hello.sh - a CGI program in shell: says what it was asked, and does what the
# query wants. See echo.c for the list; this one knows status, cookies, lines,
# pause, sleep, size, early and die.
set -eu

# The number behind $1= in the query; nothing when it is not there.
option() {
	printf '%s' "&${QUERY_STRING:-}" | sed -n "s/.*&$1=\([0-9][0-9]*\).*/\1/p"
}

# 200 as 0.200: most sleep(1) take fractions.
ms_as_seconds() {
	printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
}

numbered() {
	seq -f '%015.0f' 0 $(($1 / 16)) | head -c "$1"
}

head_fields() {
	printf 'Status: %s\nContent-Type: text/plain\n' "$1"
	i=1
	while [ "$i" -le "${cookies:-0}" ]; do
		printf 'Set-Cookie: cookie%d=%d; Path=/\n' "$i" "$i"
		i=$((i + 1))
	done
	printf '\n'
}

status=$(option status) cookies=$(option cookies) lines=$(option lines)
pause=$(option pause) size=$(option size) early=$(option early) die=$(option die)
wait=$(option sleep)

if [ -n "$early" ]; then
	head_fields "$early"
	echo 'too early'
	exit
fi

# Standard input ends where the body does, so reading it needs no length.
body=$(sha256sum)
[ -z "$wait" ] || sleep "$wait"
head_fields "${status:-200}"

if [ -n "$die" ]; then
	numbered "$die"
	kill -KILL $$
elif [ -n "$lines" ]; then
	i=1
	while [ "$i" -le "$lines" ]; do
		[ "$i" -eq 1 ] || sleep "$(ms_as_seconds "${pause:-1000}")"
		echo "line $i"
		i=$((i + 1))
	done
elif [ -n "$size" ]; then
	numbered "$size"
else
	env | grep -E '^(GATEWAY_|HTTP_|QUERY_|REMOTE_|REQUEST_|SCRIPT_|SERVER_|PATH_|CONTENT_|DOCUMENT_|WEIR_)' |
		sort
	echo "working_directory=$(pwd)"
	echo "body_bytes=${CONTENT_LENGTH:-0}"
	echo "body_sha256=${body%% *}"
fi
