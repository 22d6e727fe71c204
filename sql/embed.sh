#!/bin/sh
# embed.sh FILE...: migrations as C text to include, on stdout. FILE is NNN_what.sql; the
# numbers run from 001 without a gap, and a file's number is the version it leads to.
set -eu
expected=1
for file; do
	name=${file##*/}
	number=${name%%_*}
	if [ "$number" != "$(printf '%03d' "$expected")" ]; then
		echo "embed.sh: $name stands where number $expected is expected" >&2
		exit 1
	fi
	echo "static const char migration_${number}[] = {"
	od -An -v -tx1 "$file" | sed 's/ \([0-9a-f][0-9a-f]\)/(char)0x\1,/g'
	echo '0 };'
	expected=$((expected + 1))
done
echo 'static const struct migration migrations[] = {'
for file; do
	name=${file##*/}
	echo "{ \"$name\", migration_${name%%_*} },"
done
echo '};'
