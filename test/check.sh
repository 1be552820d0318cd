#!/bin/bash
# check.sh - builds lockfence and runs every test there is
#
#	test/check.sh				everything
#	test/check.sh lint [NAME...]		the checks in test/lint
#	test/check.sh build			default, strict (gcc, clang), no Redis
#	test/check.sh noredis			all suites of a build without hiredis
#	test/check.sh unit [NAME...]		test/unit/NAME.c
#	test/check.sh regress [NAME...]		test/sql/NAME.sql
#	test/check.sh release [NAME...]		the same with the release build
#	test/check.sh isolation [NAME...]	test/isolation/specs/NAME.spec
#	test/check.sh tap [FILE...]		test/t/FILE
#	test/check.sh demo			test/demo.sh, as anybody would start it
#
# As root it installs missing packages and runs as "nobody"; as another user it
# says what to install.  It works on a copy: the checkout and the system's
# directories stay as they are, but for .build/last, where results and logs are
# kept (new golden files are copied from there).
#
# CHECK_QUICK=yes spares the build without hiredis the files test/t/0*.
#
# The release build's server does not preload lockfence, the other one's does:
# without shared memory, as before 17 without preloading, all is enforced alike.
#
# Rule: whatever was to be run and has no result has failed.  The last line is
# "N passed, N failed" (", N skipped"), the exit status 1 if anything failed.

# shellcheck source=test/lib/setup.sh
. "$(dirname "$0")/lib/setup.sh"

LF_NEED="build tap redis strict lint"

# Assertions of the extension alone work on a packaged server; debug points are
# waits that exist only in this build.
STRICT="-Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare"
STRICT="$STRICT -Wno-missing-field-initializers"
# The packaged server's headers and flags are gcc's.
CLANG_STRICT="-Wno-ignored-optimization-argument -Wno-unknown-warning-option"
CLANG_STRICT="$CLANG_STRICT -Wno-ignored-attributes"
ASSERTS="-DUSE_ASSERT_CHECKING"
POINTS="-DLOCKFENCE_DEBUG_POINTS"

# result STATUS SUITE NAME [DETAIL] - STATUS is ok, FAILED or skipped
result()
{
	printf '%s\n' "$1" >>"$LF_WORK/results"
	printf '%-8s %-10s %s%s\n' "$1" "$2" "$3" "${4:+  ($4)}"
}

# show FILE [LINES] - the evidence for a failure
show()
{
	[ -s "$1" ] || return 0
	echo "--------- ${1#"$LF_WORK/"}"
	if [ "$(wc -l <"$1")" -gt "${2:-60}" ]; then
		echo "[...]"
	fi
	tail -n "${2:-60}" "$1" | cut -c 1-300
	echo "---------"
}

# keep NAME FILE... - copies results for .build/last
keep()
{
	local to=$LF_WORK/keep/$1 file

	shift
	mkdir -p "$to"
	for file in "$@"; do
		[ ! -e "$file" ] || cp -r "$file" "$to/"
	done
}

# ---------------------------------------------------------------- suites

# lint [NAME...] - runs each program in test/lint; status 77 means skipped
lint()
{
	local names=("$@") name status

	[ $# -gt 0 ] || names=(test/lint/*)
	for name in "${names[@]}"; do
		name=test/lint/${name#test/lint/}
		[ -x "$name" ] || { case $name in *.txt) continue ;; esac; }
		status=0
		timeout -k 10 120 "$name" >"$LF_WORK/lint.log" 2>&1 || status=$?
		case $status in
			0)	result ok lint "${name##*/}" ;;
			77)	result skipped lint "${name##*/}" \
				"$(tail -n 1 "$LF_WORK/lint.log")" ;;
			*)	result FAILED lint "${name##*/}"
				show "$LF_WORK/lint.log" ;;
		esac
	done
}

# build NAME TITLE MAKEARG... - one build, counted
build()
{
	local name=$1 title=$2 start=$SECONDS

	shift 2
	if lf_build "$name" "$@" && lf_stage "$name"; then
		result ok build "$title" "$((SECONDS - start)) s"
		return 0
	fi
	result FAILED build "$title"
	keep build "$LF_WORK/$name.log"
	show "$LF_WORK/$name.log"
	return 1
}

build_release() { build release "default"; }

build_main()
{
	build main "strict, gcc, assertions, debug points" CC=gcc with_llvm=no \
		PG_CFLAGS="$STRICT $ASSERTS $POINTS"
}

build_others()
{
	build plain "strict, gcc, no assertions" CC=gcc with_llvm=no \
		PG_CFLAGS="$STRICT"
	build clang "strict, clang, assertions" CC="$(lf_clang)" with_llvm=no \
		PG_CFLAGS="$STRICT $ASSERTS $CLANG_STRICT"
}

build_noredis()
{
	build noredis "strict, gcc, assertions, debug points, without Redis" \
		WITH_REDIS=no CC=gcc with_llvm=no PG_CFLAGS="$STRICT $ASSERTS $POINTS"
}

# noredis - what needs Redis says so and is skipped, all else passes
#
# Tests 200 and on are of servers that crash, restore and the like, where Redis
# plays no part.
noredis()
{
	build_noredis || return
	# shellcheck disable=SC2046 # lists of plain names
	{
		pg_suite regress noredis $(names 'test/sql/*.sql')
		pg_suite isolation noredis $(names 'test/isolation/specs/*.spec')
		[ "${CHECK_QUICK:-no}" = yes ] || tap noredis $(names 'test/t/0*.pl')
		tap noredis $(names 'test/t/1*.pl')
	}
}

# unit NAME... - programs that print TAP; NAME_test.c tests src/NAME.c alone
unit()
{
	local name log count

	for name in "$@"; do
		log=$LF_WORK/unit.$name.log
		# shellcheck disable=SC2086 # a list
		if gcc $STRICT $ASSERTS -I src \
			-I "$("$LF_PG_CONFIG" --includedir-server)" \
			"test/unit/$name.c" "src/${name%_test}.c" \
			-o "$LF_WORK/$name" >"$log" 2>&1 &&
			timeout -k 10 60 "$LF_WORK/$name" >"$log" 2>&1 &&
			count=$(grep -c '^ok ' "$log") && grep -qx "1\.\.$count" "$log"
		then
			result ok unit "$name" "$count tests"
		else
			result FAILED unit "$name"
			keep unit "$log"
			grep -v '^ok ' "$log" >"$log.short"
			show "$log.short"
		fi
	done
}

# pg_suite SUITE BUILD NAME... - pg_regress or the isolation tester
#
# Runs what "make installcheck" runs.  Its lines look like
#	test NAME ... ok 12 ms			(15)
#	not ok 1 - NAME 12 ms			(16 and later)
pg_suite()
{
	local suite=$1 build=$2 name line log time golden diffs args conf=()
	local -A verdict=()

	shift 2
	[ $# -gt 0 ] || return 0
	lf_use "$build"
	log=$LF_WORK/$suite.$build.log
	case $suite in
		regress)	args=(REGRESS="$*" ISOLATION=)
				golden=$LF_BUILD/expected diffs=$LF_BUILD ;;
		isolation)	args=(REGRESS= ISOLATION="$*")
				golden=$LF_BUILD/test/isolation/expected
				diffs=$LF_BUILD/output_iso ;;
	esac
	# Without its golden file a test would end the whole suite.
	mkdir -p "$golden"
	for name in "$@"; do
		[ -e "$golden/$name.out" ] || : >"$golden/$name.out"
	done
	rm -rf "$LF_BUILD/results" "$LF_BUILD/output_iso" \
		"$LF_BUILD"/regression.{out,diffs}
	[ "$build" = release ] || conf=("shared_preload_libraries = 'lockfence'")
	if lf_cluster_start "$suite" "${conf[@]}"; then
		PGISOLATIONTIMEOUT=60 timeout -k 10 900 make -s -C "$LF_BUILD" \
			PG_CONFIG="$PG_CONFIG" TAP_TESTS= "${args[@]}" installcheck \
			>"$log" 2>&1
	fi
	lf_cluster_stop "$suite"
	while read -r line; do
		if [[ $line =~ ^(not )?ok\ +[0-9]+\ +[-+]\ ([^ ]+)\ +([0-9]+\ ms) ]]; then
			name=${BASH_REMATCH[2]} time=${BASH_REMATCH[3]}
			verdict[$name]="${BASH_REMATCH[1]:+FAILED}"
		elif [[ $line =~ ^test\ ([^ ]+)\ +\.\.\.\ (ok|FAILED)\ +.*\ ([0-9]+\ ms) ]]
		then
			name=${BASH_REMATCH[1]} time=${BASH_REMATCH[3]}
			verdict[$name]="${BASH_REMATCH[2]#ok}"
			# 15 says ok when an aborted run gave what was expected.
			[[ $line != *'(test process exited'* ]] || verdict[$name]=FAILED
		else
			continue
		fi
		result "${verdict[$name]:-ok}" "$suite" "$name" "$build, $time"
	done < <(cat "$log" 2>/dev/null)
	for name in "$@"; do
		[ -n "${verdict[$name]+seen}" ] ||
			result FAILED "$suite" "$name" "$build, no result"
	done
	keep "$suite.$build" "$log" "$diffs/results" "$diffs/regression.diffs" \
		"$LF_WORK/$suite.pg.log"
	if [ "${#verdict[@]}" -lt $# ]; then
		show "$log"
		show "$LF_WORK/$suite.pg.log" 30
	fi
	show "$diffs/regression.diffs" 200
}

# tap BUILD NAME... - each file starts its own servers; LOCKFENCE_REDIS is the
# program to take for a Redis
#
# They wait more than they work, so some run at once, each in a copy of the
# build; what they reserve of ports they tell each other.
tap()
{
	local build=$1 name jobs running=0

	shift
	lf_use "$build"
	jobs=$(nproc)
	[ "$jobs" -le 4 ] || jobs=4
	export PG_TEST_PORT_DIR=$LF_WORK/ports
	mkdir -p "$PG_TEST_PORT_DIR"
	[ -z "${LOCKFENCE_REDIS:-}" ] || build="$build, $LOCKFENCE_REDIS"
	for name in "$@"; do
		if [ "$running" -ge "$jobs" ]; then
			wait -n
			running=$((running - 1))
		fi
		# One write, so that what two of them say does not mix.
		(printf '%s\n' "$(tap_one "$build" "$(basename "$name" .pl)")") &
		running=$((running + 1))
	done
	wait
	for name in "$@"; do
		name=$(basename "$name" .pl)
		[ -e "$LF_WORK/tap.$name.done" ] ||
			result FAILED tap "$name" "$build, no result"
		rm -f "$LF_WORK/tap.$name.done"
	done
}

# tap_one BUILD NAME
tap_one()
{
	local build=$1 name=$2 dir=$LF_WORK/tap.$2 log=$LF_WORK/tap.$2.log
	local start=$SECONDS status=0 count

	rm -rf "$dir"
	cp -a "$LF_BUILD" "$dir"
	timeout -k 10 600 make -s -C "$dir" PG_CONFIG="$PG_CONFIG" \
		REGRESS= ISOLATION= PROVE_TESTS="test/t/$name.pl" PROVE_FLAGS=-v \
		installcheck >"$log" 2>&1 || status=$?
	count=$(grep -c '^ok ' "$log")
	if [ "$status" -ne 0 ]; then
		result FAILED tap "$name" "$build, status $status"
		keep "tap.$name" "$log" "$dir"/tmp_check/log/*
		show "$log"
	elif grep -q '^Result: NOTESTS' "$log"; then
		result skipped tap "$name" \
			"$build, $(sed -n 's/.* skipped: //p' "$log")"
	else
		result ok tap "$name" "$build, $count tests, $((SECONDS - start)) s"
	fi
	rm -rf "$dir"
	: >"$LF_WORK/tap.$name.done"
}

# demo - builds and cleans up by itself, since that is part of what it shows
demo()
{
	local log=$LF_WORK/demo.out start status option

	for option in "" --redis; do
		start=$SECONDS status=0
		# shellcheck disable=SC2086 # none or one
		env -u LF_SECOND_RUN PG_CONFIG="$LF_PG_CONFIG" \
			timeout -k 10 300 test/demo.sh $option >"$log" 2>&1 || status=$?
		if [ "$status" -eq 0 ]; then
			result ok demo "the incident${option:+, $option}" "$((SECONDS - start)) s"
		else
			result FAILED demo "the incident${option:+, $option}" "status $status"
			keep demo "$log"
			show "$log" 100
		fi
	done
}

# names PATTERN - the tests that there are, by name
names()
{
	local file

	for file in $1; do
		[ ! -e "$file" ] || basename "${file%.*}"
	done
}

# ---------------------------------------------------------------- main

everything()
{
	# shellcheck disable=SC2046 # lists of plain names
	{
		lint
		unit $(names 'test/unit/*.c')
		build_release && pg_suite regress release $(names 'test/sql/*.sql')
		if build_main; then
			pg_suite regress main $(names 'test/sql/*.sql')
			pg_suite isolation main $(names 'test/isolation/specs/*.spec')
			tap main $(names 'test/t/*.pl')
			! command -v valkey-server >/dev/null ||
				LOCKFENCE_REDIS=valkey-server tap main $(names 'test/t/1*.pl')
		fi
		build_others
		noredis
		demo
	}
}

part()
{
	local suite=$1

	shift
	# shellcheck disable=SC2046 # lists of plain names
	case $suite in
		lint)	lint "$@" ;;
		build)	build_release
			build_main
			build_others
			build_noredis ;;
		noredis)
			noredis ;;
		unit)	[ $# -gt 0 ] || set -- $(names 'test/unit/*.c')
			unit "$@" ;;
		regress)
			[ $# -gt 0 ] || set -- $(names 'test/sql/*.sql')
			build_main && pg_suite regress main "$@" ;;
		release)
			[ $# -gt 0 ] || set -- $(names 'test/sql/*.sql')
			build_release && pg_suite regress release "$@" ;;
		isolation)
			[ $# -gt 0 ] || set -- $(names 'test/isolation/specs/*.spec')
			build_main && pg_suite isolation main "$@" ;;
		tap)	[ $# -gt 0 ] || set -- $(names 'test/t/*.pl')
			build_main && tap main "$@" ;;
		demo)	demo ;;
	esac
}

# lf_finish STATUS LEFTOVERS - called by the supervisor (see setup.sh)
lf_finish()
{
	local passed failed skipped

	if [ "$1" -ne 0 ]; then
		result FAILED check "the run ended early" "status $1"
	fi
	if [ -n "$2" ]; then
		result FAILED check "nothing left behind"
		printf '%s\n' "$2"
	else
		result ok check "nothing left behind"
	fi
	if [ -d "$LF_WORK/keep" ] && [ -w "$LF_CLONE" ]; then
		rm -rf "$LF_CLONE/.build/last"
		mkdir -p "$LF_CLONE/.build"
		cp -r "$LF_WORK/keep" "$LF_CLONE/.build/last"
		chown -R --reference="$LF_CLONE" "$LF_CLONE/.build"
	fi
	passed=$(grep -cx ok "$LF_WORK/results")
	failed=$(grep -cx FAILED "$LF_WORK/results")
	skipped=$(grep -cx skipped "$LF_WORK/results")
	if [ "$skipped" -gt 0 ]; then
		echo "$passed passed, $failed failed, $skipped skipped"
	else
		echo "$passed passed, $failed failed"
	fi
	[ "$failed" -eq 0 ]
}

case ${1:-} in
	'' | lint | build | noredis | unit | regress | release | isolation | tap | demo) ;;
	*)	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
		exit 2 ;;
esac
lf_setup_main "$0" "$@"
echo "PostgreSQL $("$LF_PG_CONFIG" --version | cut -d ' ' -f 2-)"
if [ $# -eq 0 ]; then
	everything
else
	part "$@"
fi
exit 0
