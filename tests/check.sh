#!/bin/sh
# What an operator reads about a configuration: weir -t and weirctl check say the same,
# and for each wrong fixture it is the expected text and a failure.
#
#	tests/check.sh WEIR WEIRCTL tests/data/config
set -eu

weir=$(realpath "$1") weirctl=$(realpath "$2") data=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tested=0 wrong=0

complain() {
	echo "$1: $2" >&2
	wrong=$((wrong + 1))
}

cd "$data/bad"
for expected in *.expected; do
	file=${expected%.expected}.ini
	tested=$((tested + 1))
	"$weir" -t -c "$file" >"$work/weir" 2>&1 && complain "$file" "weir -t accepts it"
	"$weirctl" -c "$file" check >"$work/ctl" 2>&1 && complain "$file" "weirctl check accepts it"
	diff -u "$expected" "$work/weir" || complain "$file" "weir -t says something else"
	diff -u "$work/weir" "$work/ctl" || complain "$file" "weirctl check says something else"
done

# What a good file asks of the machine (a user, a folder, the directory) need not be there.
of_the_machine=': (client\.directory|server\.(listen|socket_user|socket_group)): '
other_mistakes() {
	grep -v ': notice: ' "$1" | grep -Evc "$of_the_machine"
}

cd ../good
for file in *.ini; do
	tested=$((tested + 1))
	"$weir" -t -c "$file" >/dev/null 2>"$work/weir" || [ "$(other_mistakes "$work/weir")" -eq 0 ] ||
		complain "$file" "weir -t refuses it"
	"$weirctl" -c "$file" check >/dev/null 2>"$work/ctl" || [ "$(other_mistakes "$work/ctl")" -eq 0 ] ||
		complain "$file" "weirctl check refuses it"
	diff -u "$work/weir" "$work/ctl" || complain "$file" "weirctl check says something else"
done

echo "$tested configurations, $wrong wrong"
[ "$tested" -ge 30 ] && [ "$wrong" -eq 0 ]
