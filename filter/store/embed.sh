#!/bin/sh
# embed.sh FILE: FILE as C text to include, with its SHA-1, on stdout.
set -eu
echo 'static const char text[] = {'
od -An -v -tx1 "$1" | sed 's/ \([0-9a-f][0-9a-f]\)/(char)0x\1,/g'
echo '};'
echo "static const char sha[] = \"$(sha1sum "$1" | cut -c1-40)\";"
