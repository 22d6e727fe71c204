#!/bin/sh
# arrows.sh [--self] [DIR] - holds the order of the folders below filter/ (or DIR):
#
#	base <- fastcgi <- config <- front, client, limit, store, proxy, observe
#	     <- exchange <- worker <- main
#
# Stations of one level do not know each other, but for limit, which asks store and
# client, and front/request.h, which client, limit and proxy read. ctl and status are
# programs of their own; ctl and main ask startable. Prints each include that goes the
# wrong way and fails if there is any. --self plants some and fails unless each is found.
set -eu

# The includes that a file in folder $1 (or the top-level file $1) may have.
may_include() {
	below='base/* fastcgi/* config/*'
	station="$below verdict.h"
	all="$station front/* client/* limit/* store/* proxy/* observe/*"
	case $1 in
	base)		echo 'base/*' ;;
	fastcgi)	echo 'base/* fastcgi/*' ;;
	config)		echo "$below" ;;
	verdict)	echo "$below" ;;
	front)		echo "$station front/*" ;;
	# schema.sql.h is made of sql/directory by the build.
	client)		echo "$station client/* front/request.h schema.sql.h" ;;
	# take.lua.h is made of store/take.lua by the build.
	store)		echo "$station store/* take.lua.h" ;;
	limit)		echo "$station limit/* store/* client/* front/request.h" ;;
	proxy)		echo "$station proxy/* front/request.h" ;;
	observe)	echo "$station observe/*" ;;
	# The directory's tables are made by weirctl.
	ctl)		echo "$below observe/* ctl/* client/schema.h startable.h" ;;
	startable)	echo "$below client/plans.h startable.h" ;;
	status)		echo "$below observe/* status/*" ;;
	# One station of the house in three files.
	exchange | exchange_state | answering)
			echo "$all exchange.h exchange_state.h" ;;
	ending)		echo "$below ending.h" ;;
	worker)		echo "$all exchange.h ending.h worker.h" ;;
	reloading)	echo "$below proxy/addresses.h startable.h reloading.h" ;;
	accepting)	echo "$below worker.h accepting.h" ;;
	main)		echo '*' ;;
	*)		echo '' ;;
	esac
}

allowed() { # folder include
	set -f
	# shellcheck disable=SC2046 # one pattern a word
	set -- "$2" $(may_include "$1")
	set +f
	include=$1
	shift
	for pattern; do
		# shellcheck disable=SC2254 # it is a pattern
		case $include in $pattern) return 0 ;; esac
	done
	return 1
}

check() { # dir
	wrong=0
	for file in $(cd "$1" && find . -name '*.[ch]' | sort); do
		file=${file#./}
		case $file in
		*/*)	folder=${file%%/*} ;;
		*)	folder=${file%.*} ;;
		esac
		# shellcheck disable=SC2013 # file names without spaces
		for include in $(sed -n \
			's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$1/$file"); do
			allowed "$folder" "$include" && continue
			echo "$file may not include \"$include\""
			wrong=1
		done
	done
	return "$wrong"
}

check_itself() {
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	mkdir "$dir/base" "$dir/proxy" "$dir/limit" "$dir/store" "$dir/ctl"
	echo '#include "base/view.h"' >"$dir/base/right.c"
	echo '#include "store/store.h"' >"$dir/limit/right.c"
	echo '#include "front/request.h"' >"$dir/proxy/right.c"
	echo '#include "proxy/relay.h"' >"$dir/exchange.c"
	check "$dir" || return 1
	echo '#include "config/config.h"' >"$dir/base/wrong.c"
	echo '#  include "front/front.h"' >"$dir/proxy/wrong.c"
	echo '#include "limit/limit.h"' >"$dir/store/wrong.h"
	echo '#include "relay.h"' >"$dir/proxy/wrong.h"
	echo '#include "worker.h"' >"$dir/exchange.h"
	echo '#include "store/store.h"' >"$dir/ctl/wrong.c"
	found=$(check "$dir" | wc -l)
	[ "$found" -eq 6 ] && return
	echo "found $found of 6 wrong includes" >&2
	return 1
}

if [ "${1:-}" = --self ]; then
	check_itself
	shift
fi
check "${1:-$(dirname "$0")/../filter}"
