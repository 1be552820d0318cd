#!/bin/bash
# bare.sh - the demonstration and all tests on bare machines
#
#	test/bare.sh [SUITE...]		default: bookworm trixie forky; needs root
#
# Each suite is a new chroot with nothing but git and ca-certificates, and a
# fresh clone of HEAD in it.  There, in this order:
#
#	an ordinary user without the packages gets a list of them and status 1
#	root runs test/demo.sh, then test/check.sh: both install what they need
#	an ordinary user who has the packages runs test/demo.sh, and a suite
#	nothing is left: no process, no file outside the clone, no mount
#
# Rule: the chroot used is a throw-away copy.  One line per step; the last line
# counts them, the exit status is 1 if any failed.

. "$(dirname "$0")/lib/setup.sh"
. "$(dirname "$0")/lib/chroot.sh"

PASSED=0 FAILED=0

# step NAME EXPECTED PATTERN COMMAND... - runs it in the chroot; the exit status
# is to be EXPECTED and a line of the output to match PATTERN
step()
{
	local name=$1 expected=$2 pattern=$3 status=0 start=$SECONDS
	local log=$LF_WORK/step.log

	shift 3
	chroot_run "$ROOT" timeout -k 30 2400 "$@" >"$log" 2>&1 || status=$?
	if [ "$status" -eq "$expected" ] && grep -qE -- "$pattern" "$log"; then
		PASSED=$((PASSED + 1))
		echo "ok       $SUITE: $name  ($((SECONDS - start)) s)"
		tail -n "${TAIL:-3}" "$log" | sed 's/^/         | /'
	else
		FAILED=$((FAILED + 1))
		echo "FAILED   $SUITE: $name  (status $status)"
		{
			grep '^FAILED' "$log"
			tail -n 60 "$log"
		} | sed 's/^/         | /'
	fi
}

# listing FILE - what a run must leave as it was
#
# Packages of the distribution bring files of their own, so only places that
# belong to nobody's package count.
listing()
{
	(cd "$CACHE/$ROOT" && find tmp var/tmp dev/shm home root run opt srv \
		usr/local -xdev ! -path 'root/lockfence/*' ! -path 'home/tester/*' \
		! -path 'root/.cache*' ! -path 'run/*' ! -path 'usr/local/share/*' \
		! -path 'usr/local/lib/*' ! -path 'tmp/.*-unix' ! -path root/.ssh | sort
	find usr/sbin/policy-rc.d etc/postgresql/* \
		etc/postgresql-common/createcluster.d 2>/dev/null) >"$1"
}

as_tester=(setpriv --reuid=tester --regid=tester --clear-groups
	env -C /home/tester/lockfence HOME=/home/tester)

suite()
{
	SUITE=$1 ROOT=$1-bare
	chroot_base "$SUITE" || { FAILED=$((FAILED + 1)); return; }
	rm -rf "${CACHE:?}/$ROOT"
	if ! { chroot_copy "$SUITE" "$ROOT" && chroot_clone "$ROOT" &&
		chroot_run "$ROOT" useradd -m tester &&
		chroot_run "$ROOT" cp -r /root/lockfence /home/tester/ &&
		chroot_run "$ROOT" chown -R tester: /home/tester; }; then
		FAILED=$((FAILED + 1))
		return
	fi
	listing "$LF_WORK/before"
	step "a user without the packages" 1 "apt-get install .*gcc" \
		"${as_tester[@]}" test/check.sh
	TAIL=15 step "demo.sh as root" 0 . env -C /root/lockfence test/demo.sh
	step "check.sh as root" 0 "^[0-9]+ passed, 0 failed" \
		env -C /root/lockfence test/check.sh
	step "demo.sh as a user" 0 . "${as_tester[@]}" test/demo.sh
	step "a suite as a user" 0 "^[0-9]+ passed, 0 failed" \
		"${as_tester[@]}" test/check.sh regress
	listing "$LF_WORK/after"
	if diff "$LF_WORK/before" "$LF_WORK/after" >"$LF_WORK/diff"; then
		PASSED=$((PASSED + 1))
		echo "ok       $SUITE: no file left"
	else
		FAILED=$((FAILED + 1))
		echo "FAILED   $SUITE: files left"
		cat "$LF_WORK/diff"
	fi
	chroot_done "$ROOT" || FAILED=$((FAILED + 1))
	rm -rf "${CACHE:?}/$ROOT"
}

[ $# -gt 0 ] || set -- bookworm trixie forky
chroot_main
for name in "$@"; do
	suite "$name"
done
echo "$PASSED passed, $FAILED failed"
[ "$FAILED" -eq 0 ]
