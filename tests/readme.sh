#!/bin/sh
# readme.sh - every test that README.md names is there.
set -eu

cd "$(dirname "$0")"
missing=0
# shellcheck disable=SC2016 # backticks of Markdown
for named in $(grep -o '`[a-z_/]*\.c:[a-z0-9_]*`' README.md | tr -d '`' | sort -u); do
	file=${named%%:*} name=${named##*:}
	if ! grep -qw "$name" "$file" 2>/dev/null; then
		echo "README.md names $name, which is not in tests/$file" >&2
		missing=1
	fi
done
exit $missing
