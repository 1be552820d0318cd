#!/bin/bash
# matrix.sh - runs test/check.sh on other PostgreSQL versions
#
#	test/matrix.sh [VERSION...]	default: 17 18; needs root
#
# Each version runs in a chroot of the Debian release that packages it, on a
# clean clone of HEAD, by the same command that the README gives, with
# CHECK_QUICK=yes.  To add a version, add a line to suite_of.  The chroots are kept
# (see lib/chroot.sh).
#
# Rule: a version that could not be tested has failed.  One line per version
# ends the output; the exit status is 1 if any failed, but for a version that
# is not released yet.

. "$(dirname "$0")/lib/setup.sh"
. "$(dirname "$0")/lib/chroot.sh"

suite_of()
{
	case $1 in
		15)	echo bookworm ;;
		17)	echo trixie ;;
		18)	echo forky ;;
		19)	echo experimental ;;
		*)	return 1 ;;
	esac
}

# prepare VERSION NAME - has the chroot with a clone in it
prepare()
{
	local suite

	suite=$(suite_of "$1")
	if [ "$suite" != experimental ]; then
		chroot_base "$suite" && chroot_copy "$suite" "$2" && chroot_clone "$2"
		return
	fi
	# experimental adds to unstable; take only what this version brings
	chroot_base sid && chroot_copy sid "$2" || return 1
	echo "deb $MIRROR experimental main" \
		>"$CACHE/$2/etc/apt/sources.list.d/experimental.list"
	printf '%s\n' "Package: src:postgresql-$1 src:postgresql-common" \
		"Pin: release a=experimental" "Pin-Priority: 600" \
		>"$CACHE/$2/etc/apt/preferences.d/experimental"
	chroot_clone "$2"
}

# run VERSION - leaves its last line in LF_WORK/VERSION.line
run()
{
	local version=$1 name log=$LF_WORK/$1.log reader tested line start=$SECONDS

	name=$(suite_of "$version")-$version
	if ! prepare "$version" "$name"; then
		echo "0 passed, 1 failed (no chroot)" >"$LF_WORK/$version.line"
		return
	fi
	# CI reads lines that begin with a count, so indent these.
	exec 3> >(exec tee "$log" | sed -u 's/^/    /')
	reader=$!
	chroot_run "$name" timeout -k 30 2400 env -C /root/lockfence \
		CHECK_QUICK=yes ${2:+PGVERSION="$2"} test/check.sh >&3 2>&1 3>&-
	exec 3>&-
	wait "$reader"
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	tested=$(sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p' "$log" | head -n 1)
	if [ -z "$line" ]; then
		line="0 passed, 1 failed (no result)"
	elif [ "$tested" != "$version" ]; then
		line="0 passed, 1 failed (the release has PostgreSQL $tested)"
	fi
	chroot_done "$name" || line="0 passed, 1 failed (left mounted)"
	echo "$line, $((SECONDS - start)) s"
	echo "$line" >"$LF_WORK/$version.line"
}

[ $# -gt 0 ] || set -- 17 18
for version in "$@"; do
	suite_of "$version" >/dev/null ||
		lf_die "PostgreSQL $version: no Debian release known that packages it"
done
chroot_main
if [ -n "$(git -c safe.directory='*' -C "$(dirname "$0")" status --short)" ]; then
	echo "note: HEAD is tested; there are changes not committed"
fi
for version in "$@"; do
	echo "== PostgreSQL $version ($(suite_of "$version"))"
	run "$version" "$([ "$version" != 19 ] || echo 19)"
done
status=0
for version in "$@"; do
	line=$(cat "$LF_WORK/$version.line")
	echo "PostgreSQL $version ($(suite_of "$version")): $line"
	case $line in *" 0 failed"*) ;; *) [ "$version" = 19 ] || status=1 ;; esac
done
exit $status
