# chroot.sh - Debian chroots for test/matrix.sh and test/bare.sh (bash, sourced
# after setup.sh; needs root)
#
# Rule: every mount and every process belongs to a name space of its own, which
# the kernel takes down with the command that made it, however that one ends.
# What stays is the cache of chroots: LOCKFENCE_CACHE, else
# /var/cache/lockfence.  To get rid of it, remove that directory.
#
# chroot_main CACHE_USER...	checks rights, has debootstrap, finds the mirror
# chroot_base SUITE		has CACHE/SUITE: a bare system with git and
#				ca-certificates, at most CHROOT_DAYS old
# chroot_copy SUITE NAME	has CACHE/NAME: a copy of it, kept until the bare
#				one is made anew or its last use was interrupted
# chroot_clone NAME		puts a clean clone of HEAD into its /root/lockfence
# chroot_run NAME COMMAND...	runs a command there
# chroot_done NAME		its use ended well; the copy may be used again
#
# Functions return 1 with a message if they fail.

CACHE=${LOCKFENCE_CACHE:-/var/cache/lockfence}
CHROOT_DAYS=${CHROOT_DAYS:-7}
CHROOT_CHILD=''

chroot_main()
{
	[ "$(id -u)" = 0 ] || lf_die "making a chroot needs root"
	LF_WORK=$(mktemp -d "${TMPDIR:-/tmp}/lockfence.XXXXXX") || exit 1
	trap chroot_end EXIT
	trap 'exit 130' INT TERM HUP
	if ! command -v debootstrap >/dev/null; then
		apt-get -qq update || lf_die "apt-get update failed"
		lf_install debootstrap
	fi
	mkdir -p "$CACHE" || exit 1
	CACHE=$(cd "$CACHE" && pwd)
	exec 9>"$CACHE/lock"
	flock -n 9 || {
		lf_say "waiting for another run to leave $CACHE"
		flock 9
	}
	# This machine's own mirror, if it is Debian's; a release's name and the
	# suite "-updates" of it share one.
	MIRROR=${LOCKFENCE_MIRROR:-$(apt-get indextargets \
		--format '$(SITE) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' |
		sed -n 's/^\([^ ]*\/debian\/\{0,1\}\) Debian main$/\1/p' | head -n 1)}
	[ -n "$MIRROR" ] || MIRROR=$(apt-get indextargets --format '$(SITE)' |
		grep '/debian/\{0,1\}$' | head -n 1)
	[ -n "$MIRROR" ] ||
		lf_die "apt has no Debian mirror configured; set LOCKFENCE_MIRROR"
	echo "chroots: $CACHE, from $MIRROR"
}

# chroot_end - trap: ends the name space, if one is there
chroot_end()
{
	[ -z "$CHROOT_CHILD" ] || kill -s KILL "$CHROOT_CHILD" 2>/dev/null
	rm -rf "$LF_WORK"
}

# chroot_isolated COMMAND... - runs it in name spaces of its own, interruptible
#
# The child gets no copy of the cache's lock: it must not outlive this command.
chroot_isolated()
{
	local status=0

	unshare --mount --pid --fork --kill-child --propagation private \
		"$@" </dev/null 9>&- &
	CHROOT_CHILD=$!
	wait "$CHROOT_CHILD" || status=$?
	CHROOT_CHILD=''
	return "$status"
}

chroot_base()
{
	local suite=$1 root=$CACHE/$1 script proxy keyring

	if [ -n "$(find "$root/.made" -mtime "-$CHROOT_DAYS" 2>/dev/null)" ]; then
		echo "chroot: $root (cached)"
		return 0
	fi
	echo "chroot: $root (being made)"
	# A release newer than this machine's debootstrap is made like unstable.
	script=/usr/share/debootstrap/scripts/$suite
	[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
	keyring=$(printf '%s\n' /usr/share/keyrings/debian-archive-keyring.* |
		head -n 1)
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	rm -rf "${root:?}" "$root.new"
	if ! http_proxy=${proxy:-${http_proxy:-}} chroot_isolated debootstrap \
		--variant=minbase --include=ca-certificates,git \
		--keyring="$keyring" "$suite" "$root.new" "$MIRROR" "$script" \
		>"$LF_WORK/debootstrap.log" 2>&1; then
		tail -n 5 "$LF_WORK/debootstrap.log" >&2
		rm -rf "$root.new"
		lf_say "could not make $suite: is $MIRROR reachable?"
		return 1
	fi
	# apt there reaches the mirror as apt here does
	apt-config dump | grep -E '^Acquire::(https?::|Check-|Retries|Force)' \
		>"$root.new/etc/apt/apt.conf.d/90machine"
	# a chroot that a power cut spoils is made anew
	echo force-unsafe-io >"$root.new/etc/dpkg/dpkg.cfg.d/unsafe-io"
	cp -L /etc/resolv.conf /etc/hosts "$root.new/etc/"
	rm -f "$root.new"/var/cache/apt/archives/*.deb
	touch "$root.new/.made"
	mv "$root.new" "$root"
}

chroot_copy()
{
	local base=$CACHE/$1 root=$CACHE/$2

	if [ -e "$root/.busy" ] || [ "$base/.made" -nt "$root/.made" ] ||
		[ ! -e "$root/.made" ]; then
		rm -rf "${root:?}"
		cp -a "$base" "$root" || return 1
		touch "$root/.made"
	fi
	touch "$root/.busy"
	rm -rf "$root"/tmp/* "$root"/root/*
}

# chroot_clone NAME - goes through a bundle, since git refuses to read another
# user's repository in the process that serves a clone
chroot_clone()
{
	local root=$CACHE/$1 top

	top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
	rm -rf "$root/root/lockfence"
	git -c safe.directory='*' -C "$top" bundle create -q "$root/root/bundle" \
		HEAD && chroot_run "$1" git -c init.defaultBranch=main \
		-c advice.detachedHead=false clone -q /root/bundle /root/lockfence
}

chroot_run()
{
	local root=$CACHE/$1

	shift
	# shellcheck disable=SC2016 # expanded in there
	chroot_isolated bash -c '
		root=$1
		shift
		mount -t proc proc "$root/proc" &&
			mkdir -p "$root/dev/shm" "$root/dev/pts" &&
			mount -t tmpfs -o mode=1777 shm "$root/dev/shm" || exit 125
		# this shell stays: init of the name space
		chroot "$root" env -i HOME=/root TERM=dumb LANG=C.UTF-8 \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			CI="${CI:-}" "$@"
		exit $?' chroot "$root" "$@"
}

chroot_done()
{
	rm -f "$CACHE/$1/.busy"
	if grep -qF " $CACHE/" /proc/mounts; then
		lf_say "still mounted: $(grep -F " $CACHE/" /proc/mounts)"
		return 1
	fi
}
