# setup.sh - what every test command needs before it can begin (bash, sourced)
#
# Rule: nothing outside ${TMPDIR:-/tmp}/lockfence.XXXXXX is written, but for the
# distribution's own packages; that directory and every process started under
# it are gone when the command ends, however it ends.
#
#	LF_NEED="build tap redis lint strict"	# what to install; default "build"
#	. test/lib/setup.sh
#	lf_setup_main "$0" "$@"
#
# lf_setup_main SCRIPT ARG...
#	As root it installs missing packages.  Otherwise it lists them and exits 1.
#	Then it copies the checkout to a work directory and runs SCRIPT again from
#	there, as an ordinary user ("nobody" if it was root), in a process group
#	of its own.  It returns only in that second run; the first one waits, then
#	stops and removes what is left, and exits.  If SCRIPT defines
#	lf_finish STATUS LEFTOVERS before, that function is called at the end (with
#	one leftover per line) and its return value is the exit status.
#
# In the second run these are set:
#	LF_WORK		the work directory; its LF_WORK/tmp is TMPDIR
#	LF_TOP		the copy of the checkout, current directory
#	LF_CLONE	the checkout itself, perhaps unreadable
#	LF_PG_CONFIG	the server's pg_config; LF_MAJOR its major version
#
# lf_build NAME MAKEARG...	copies the checkout to LF_WORK/NAME and builds it;
#				the output is in LF_WORK/NAME.log
# lf_stage NAME			makes a private copy of the server with build NAME
#				installed, and does lf_use NAME
# lf_use NAME			puts that server's programs first in PATH; sets
#				LF_BIN and PG_CONFIG
# lf_cluster_start NAME [LINE]...	starts a throw-away server with these extra
#				lines in postgresql.conf; sets PGHOST, PGPORT,
#				PGDATABASE, PGUSER, LF_DATA; log: LF_WORK/NAME.pg.log
# lf_cluster_stop NAME		stops it and removes its data
#
# Environment: PG_CONFIG=path or PGVERSION=17 chooses a server other than the
# newest installed, or else the distribution's default one.

set -u

LF_NEED=${LF_NEED:-build}
# sbin: pgbouncer and setpriv are there for ordinary users, too
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

lf_say() { printf '%s\n' "$*" >&2; }
lf_die() { lf_say "${0##*/}: $*"; exit 1; }

# ---------------------------------------------------------------- packages

# lf_find_server - sets LF_PG_CONFIG and LF_MAJOR if a server can be named
#
# LF_MAJOR alone is set when that server's packages are still to be installed.
lf_find_server()
{
	local dir default

	LF_PG_CONFIG='' LF_MAJOR=''
	if [ -n "${PG_CONFIG:-}" ]; then
		LF_PG_CONFIG=$(command -v "$PG_CONFIG") ||
			lf_die "PG_CONFIG is set to $PG_CONFIG, which is not there"
	elif [ -n "${PGVERSION:-}" ]; then
		LF_MAJOR=$PGVERSION
	else
		dir=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V |
			tail -n 1)
		if [ -x "$dir" ]; then
			LF_MAJOR=$(basename "${dir%/bin/postgres}")
		elif command -v apt-cache >/dev/null; then
			default=$(apt-cache depends postgresql 2>/dev/null |
				sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p')
			LF_MAJOR=${default:-}
		fi
	fi
	if [ -z "$LF_PG_CONFIG" ] && [ -n "$LF_MAJOR" ] &&
		[ -x "/usr/lib/postgresql/$LF_MAJOR/bin/pg_config" ]; then
		LF_PG_CONFIG=/usr/lib/postgresql/$LF_MAJOR/bin/pg_config
	elif [ -z "$LF_PG_CONFIG" ] && [ -z "$LF_MAJOR" ]; then
		LF_PG_CONFIG=$(command -v pg_config) || LF_PG_CONFIG=''
	fi
	if [ -n "$LF_PG_CONFIG" ]; then
		LF_MAJOR=$("$LF_PG_CONFIG" --version |
			sed 's/^[^0-9]*\([0-9]*\).*/\1/')
	fi
}

# lf_have WHAT - is this requirement fulfilled?
lf_have()
{
	case $1 in
		cc)			command -v gcc >/dev/null && [ -e /usr/include/stdio.h ] ;;
		clang)		lf_clang >/dev/null ;;
		server)		[ -n "$LF_PG_CONFIG" ] &&
					[ -x "$("$LF_PG_CONFIG" --bindir)/postgres" ] ;;
		server-dev)	[ -n "$LF_PG_CONFIG" ] &&
					[ -e "$("$LF_PG_CONFIG" --pgxs)" ] ;;
		ipc-run)	perl -MIPC::Run -e 1 2>/dev/null ;;
		hiredis)	[ -e /usr/include/hiredis/hiredis.h ] ;;
		libssl)		[ -e /usr/include/openssl/ssl.h ] ;;
		python-redis)	/usr/bin/python3 -c 'import redis' 2>/dev/null ;;
		*)			command -v "$1" >/dev/null ;;
	esac
}

# lf_clang - prints a clang command; PGXS may have brought a versioned one
lf_clang()
{
	command -v clang ||
		printf '%s\n' /usr/bin/clang-[0-9]* | grep -E 'clang-[0-9]+$' |
			sort -V | tail -n 1 | grep -v '\*'
}

# lf_missing - prints the packages to install, one per line
#
# A line of the table: need, requirement (see lf_have), package, and "optional"
# for what a release of the distribution may not have.
lf_missing()
{
	local need what package optional

	while read -r need what package optional; do
		case " $LF_NEED " in *" $need "*) ;; *) continue ;; esac
		lf_have "$what" && continue
		if [ -n "$optional" ] && ! lf_packaged "$package"; then
			continue
		fi
		printf '%s\n' $package
	done <<-EOF
		build cc gcc
		build cc libc6-dev
		build make make
		build server postgresql-${LF_MAJOR:-N}
		build server-dev postgresql-server-dev-${LF_MAJOR:-N}
		tap prove perl
		tap ipc-run libipc-run-perl
		tap prometheus-postgres-exporter prometheus-postgres-exporter optional
		redis hiredis libhiredis-dev
		redis libssl libssl-dev
		redis pkg-config pkg-config
		redis openssl openssl
		redis python-redis python3-redis optional
		redis redis-server redis-server
		redis valkey-server valkey-server optional
		redis pgbouncer pgbouncer optional
		strict clang clang
		lint shellcheck shellcheck
	EOF
}

lf_packaged()
{
	apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [^(]'
}

# lf_install PACKAGE... - installs without a question and starts no service
#
# Debian starts what it installs.  Two settings forbid it for the moment; each
# is made only where the machine has none, and taken back.
lf_install()
{
	local policy=/usr/sbin/policy-rc.d made_policy='' status=0 service
	local cluster=/etc/postgresql-common/createcluster.d

	lf_say "installing: $*"
	mkdir -p "$cluster"
	echo "create_main_cluster = false" >"$cluster/zz_lockfence.conf"
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
		made_policy=yes
	fi
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confdef \
		-o Dpkg::Options::=--force-confold --no-install-recommends install "$@" \
		</dev/null >"$LF_WORK/apt.log" 2>&1 || status=$?
	for service in redis-server valkey-server pgbouncer postgresql \
		prometheus-postgres-exporter; do
		case " $* " in *" $service"*) ;; *) continue ;; esac
		systemctl disable --quiet "$service" >/dev/null 2>&1 || true
	done
	rm -f "$cluster/zz_lockfence.conf"
	rmdir --ignore-fail-on-non-empty "$cluster" 2>/dev/null
	if [ -n "$made_policy" ]; then
		rm -f "$policy"
	fi
	if [ $status -ne 0 ]; then
		tail -n 20 "$LF_WORK/apt.log" >&2
		lf_die "apt-get could not install: $*"
	fi
}

# lf_packages - has everything in LF_NEED, or ends the command
lf_packages()
{
	local missing

	lf_find_server
	if [ -z "$(lf_missing)" ]; then
		return
	fi
	# Without package lists apt knows neither the default server version nor
	# which optional packages there are.
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		if ! apt-get -qq -o DPkg::Lock::Timeout=300 update \
			>"$LF_WORK/apt.log" 2>&1; then
			cat "$LF_WORK/apt.log" >&2
			lf_die "apt-get update failed: is the mirror reachable?"
		fi
		lf_find_server
		missing=$(lf_missing)
		case $missing in *-N*) lf_die "apt knows no PostgreSQL server" ;; esac
		# shellcheck disable=SC2086 # a list
		[ -z "$missing" ] || lf_install $missing
		lf_find_server
		missing=$(lf_missing)
		[ -z "$missing" ] || lf_die "still missing after the installation:" $missing
	else
		missing=$(lf_missing)
		lf_say "These packages are missing; as root:"
		lf_say ""
		lf_say "    apt-get update && apt-get install" $missing
		lf_say ""
		case $missing in *-N*)
			lf_say "(N: the PostgreSQL version you use, 15 or newer)" ;;
		esac
		exit 1
	fi
}

# ------------------------------------------------- work directory and user

# lf_copy FROM TO - copies a checkout: tracked and new files, nothing ignored
lf_copy()
{
	mkdir -p "$2"
	if command -v git >/dev/null && [ -e "$1/.git" ]; then
		(cd "$1" && git -c safe.directory='*' ls-files -z --cached --others \
			--exclude-standard |
			while IFS= read -r -d '' file; do
				[ ! -e "$file" ] || printf '%s\0' "$file"
			done | tar -c --null -T - -f -) | tar -x -f - -C "$2"
	else
		tar -c -C "$1" --exclude=./.git --exclude=./.build -f - . |
			tar -x -f - -C "$2"
	fi
}

# lf_processes - pids whose environment or directory lies in the work directory
#
# The server overwrites the memory that shows its environment, so look at its
# current directory, which is its data directory.
lf_processes()
{
	local pid

	for pid in /proc/[0-9]*; do
		case "$(readlink "$pid/cwd" 2>/dev/null)" in
			"$LF_WORK" | "$LF_WORK"/*) ;;
			*) tr '\0' '\n' 2>/dev/null <"$pid/environ" |
				grep -qx "LF_WORK=$LF_WORK" || continue ;;
		esac
		pid=${pid#/proc/}
		if [ "$pid" != $$ ] && [ "$pid" != "$BASHPID" ]; then
			echo "$pid"
		fi
	done 2>/dev/null
}

# lf_sweep - ends processes that the run left; prints a line for each
lf_sweep()
{
	local signal pid pids shown=''

	for signal in INT INT QUIT KILL; do
		pids=$(lf_processes)
		[ -n "$pids" ] || break
		for pid in $pids; do
			if [ -z "$shown" ] && [ -r "/proc/$pid/cmdline" ]; then
				printf 'process %s: %s\n' "$pid" \
					"$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c 1-100)"
			fi
			kill -s "$signal" "$pid" 2>/dev/null || true
		done
		shown=yes
		for _ in 1 2 3 4 5 6 7 8 9 10; do
			[ -n "$(lf_processes)" ] || break
			sleep 0.2
		done
	done
}

# lf_others - is another run on its way?
lf_others()
{
	local pid

	for pid in /proc/[0-9]*; do
		tr '\0' '\n' 2>/dev/null <"$pid/environ" | grep '^LF_WORK=' |
			grep -qvx "LF_WORK=$LF_WORK" && return 0
	done 2>/dev/null
	return 1
}

# lf_strays - files of the run's user outside the work directory, made since
#
# A real user has other work going on, so for one only PostgreSQL's own kinds of
# file count.  Shared memory that a process still maps belongs to another run,
# and while there is one, some may be of a server that it has just killed.
lf_strays()
{
	local names=(-name '.s.PGSQL.*') file shm=/dev/shm

	if [ "$LF_RUN_USER" = nobody ]; then
		names=(! -name 'lockfence.*')
	fi
	! lf_others || shm=''
	{
		find /tmp /var/tmp -mindepth 1 -maxdepth 1 "${names[@]}" \
			-user "$LF_RUN_USER" -newer "$LF_WORK/started"
		[ -z "$shm" ] || find $shm -maxdepth 1 -name 'PostgreSQL.*' \
			-user "$LF_RUN_USER" -newer "$LF_WORK/started"
	} 2>/dev/null | while read -r file; do
		grep -qsF "$file" /proc/[0-9]*/maps || echo "file $file"
	done
}

# lf_supervise - the first run: waits for the second one and cleans up
lf_supervise()
{
	local status=0 leftovers=''

	LF_INTERRUPTED=''
	set -m	# the child gets a process group, so that it can be ended as a whole
	"$@" </dev/null &
	LF_CHILD=$!
	set +m
	# timeout(1) makes groups of its own, so name each process as well.
	trap 'LF_INTERRUPTED=yes
		kill -s TERM -- "-$LF_CHILD" $(lf_processes) 2>/dev/null' INT TERM HUP
	while :; do
		status=0
		wait "$LF_CHILD" || status=$?
		kill -s 0 "$LF_CHILD" 2>/dev/null || break
	done
	leftovers=$(lf_sweep; lf_strays)
	if [ -n "$LF_INTERRUPTED" ]; then
		lf_say "interrupted"
		exit 130
	fi
	if declare -F lf_finish >/dev/null; then
		status=0
		lf_finish "$status" "$leftovers" || status=$?
	elif [ -n "$leftovers" ]; then
		lf_say "left behind (and now removed): $leftovers"
	fi
	exit "$status"
}

lf_setup_main()
{
	local script top as=()

	script=$(realpath "$1")
	shift
	if [ -n "${LF_SECOND_RUN:-}" ]; then
		cd "$LF_TOP" || exit 1
		trap lf_stop_all EXIT
		trap 'exit 143' INT TERM HUP
		return
	fi

	top=$(dirname "$script")
	while [ ! -e "$top/lockfence.control" ]; do
		[ "$top" != / ] || lf_die "$script lies outside a checkout"
		top=$(dirname "$top")
	done
	LF_CLONE=$top
	LF_WORK=$(mktemp -d "${TMPDIR:-/tmp}/lockfence.XXXXXX") || exit 1
	trap 'rm -rf "$LF_WORK"' EXIT
	trap 'exit 130' INT TERM HUP

	lf_packages
	# A socket's path may have 107 bytes, and tests add some 40.
	[ "${#LF_WORK}" -le 50 ] || lf_die "TMPDIR is too long for unix sockets"
	LF_TOP=$LF_WORK/src
	lf_copy "$top" "$LF_TOP"
	mkdir "$LF_WORK/tmp" "$LF_WORK/home"
	LF_RUN_USER=$(id -un)
	if [ "$(id -u)" = 0 ]; then
		LF_RUN_USER=nobody
		chown -R nobody:nogroup "$LF_WORK"
		as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
	fi
	touch "$LF_WORK/started"
	# Connection settings of the caller must not leak in.
	unset "${!PG@}" 2>/dev/null || true
	lf_supervise env -u MAKEFLAGS -u MAKELEVEL HOME="$LF_WORK/home" USER="$LF_RUN_USER" \
		LOGNAME="$LF_RUN_USER" TMPDIR="$LF_WORK/tmp" LC_ALL=C.UTF-8 \
		LF_SECOND_RUN=yes LF_WORK="$LF_WORK" LF_TOP="$LF_TOP" \
		LF_CLONE="$LF_CLONE" LF_PG_CONFIG="$LF_PG_CONFIG" LF_MAJOR="$LF_MAJOR" \
		LF_NEED="$LF_NEED" \
		"${as[@]}" bash "$LF_TOP${script#"$top"}" "$@"
}

# ------------------------------------------------------ builds and servers

lf_build()
{
	local name=$1

	shift
	rm -rf "${LF_WORK:?}/$name"
	cp -a "$LF_TOP" "$LF_WORK/$name"
	[ $# = 0 ] || printf '%s\0' "$@" >"$LF_WORK/$name.args"
	make -s -C "$LF_WORK/$name" -j 2 PG_CONFIG="$LF_PG_CONFIG" "$@" \
		>"$LF_WORK/$name.log" 2>&1
}

# lf_stage NAME
#
# The server's programs find their libraries and shared files relative to
# themselves, so a tree of the same shape is a server of its own.  Programs are
# copied, since a link would lead back; all else is links, which "make install"
# replaces.  An installed lockfence must not show through.
lf_stage()
{
	local name=$1 stage=$LF_WORK/stage.$1 dir kind args=() link

	rm -rf "$stage"
	for kind in --bindir --pkglibdir --sharedir; do
		dir=$("$LF_PG_CONFIG" $kind)
		mkdir -p "$stage$(dirname "$dir")"
		link=-s
		[ "$kind" != --bindir ] || link=-L
		[ -d "$stage$dir" ] ||
			cp -a $link "$dir" "$stage$(dirname "$dir")/" || return
	done
	for kind in --pkglibdir --sharedir; do
		find "$stage$("$LF_PG_CONFIG" $kind)" -mindepth 1 -name 'lockfence*' \
			-prune -exec rm -rf {} +
	done
	dir=$("$LF_PG_CONFIG" --includedir)
	mkdir -p "$stage$(dirname "$dir")"
	ln -s "$dir" "$stage$dir"
	[ ! -e "$LF_WORK/$name.args" ] ||
		mapfile -t -d '' args <"$LF_WORK/$name.args"
	make -s -C "$LF_WORK/$name" PG_CONFIG="$LF_PG_CONFIG" "${args[@]}" install \
		DESTDIR="$stage" >>"$LF_WORK/$name.log" 2>&1 || return
	lf_use "$name"
}

lf_use()
{
	LF_BIN=$LF_WORK/stage.$1$("$LF_PG_CONFIG" --bindir)
	LF_BUILD=$LF_WORK/$1
	PG_CONFIG=$LF_BIN/pg_config
	LF_PATH=${LF_PATH:-$PATH}
	PATH=$LF_BIN:$LF_PATH
	export PATH PG_CONFIG LF_BIN LF_BUILD
}

lf_cluster_start()
{
	local name=$1

	shift
	LF_DATA=$LF_WORK/$name.data
	PGHOST=$LF_WORK/$name.sock PGPORT=5432 PGDATABASE=postgres PGUSER=postgres
	export PGHOST PGPORT PGDATABASE PGUSER
	mkdir "$PGHOST" &&
		"$LF_BIN/initdb" -A trust -U postgres -E UTF8 --locale=C -N \
			-D "$LF_DATA" >"$LF_WORK/$name.initdb.log" 2>&1 || {
		cat "$LF_WORK/$name.initdb.log" >&2
		return 1
	}
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$PGHOST'"
		echo "fsync = off"
		echo "max_prepared_transactions = 20"
		echo "timezone = 'UTC'"
		echo "log_line_prefix = '%m [%p] %q%a '"
		[ $# = 0 ] || printf '%s\n' "$@"
	} >>"$LF_DATA/postgresql.conf"
	if ! "$LF_BIN/pg_ctl" -D "$LF_DATA" -l "$LF_WORK/$name.pg.log" -w -t 60 \
		start >/dev/null; then
		tail -n 20 "$LF_WORK/$name.pg.log" >&2
		return 1
	fi
}

lf_cluster_stop()
{
	local data=$LF_WORK/$1.data

	if [ -e "$data/postmaster.pid" ]; then
		"$LF_BIN/pg_ctl" -D "$data" -m fast -w -t 30 stop >/dev/null 2>&1 ||
			"$LF_BIN/pg_ctl" -D "$data" -m immediate -w stop >/dev/null 2>&1
	fi
	rm -rf "$data" "${LF_WORK:?}/$1.sock"
}

# lf_stop_all - trap of the second run: no server outlives it
lf_stop_all()
{
	local pidfile data

	for pidfile in "$LF_WORK"/*.data/postmaster.pid; do
		[ -e "$pidfile" ] || continue
		data=$(basename "$(dirname "$pidfile")")
		lf_cluster_stop "${data%.data}"
	done
}
