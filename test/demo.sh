#!/bin/bash
# demo.sh - the doubled statement lines, without lockfence and with it
#
#	test/demo.sh			leases of PostgreSQL
#	test/demo.sh --redis		leases of a throw-away Redis, which loses them all
#
# Two workers write the statement of account 88213, 37 lines and one charge, and
# take a lease of one second for it. worker-3 stalls for longer than that;
# worker-5 takes the lease over. Each worker is a process of its own with its
# own connection to a throw-away PostgreSQL server. They play it twice:
#
#	plain	the lease is a row, and nothing checks the write
#	fenced	the lease comes from fence_acquire, and fence_protect guards the table
#
# With --redis the plain lease is SET NX PX, fence_acquire takes its lease in the
# same Redis, and FLUSHALL comes while worker-3 stalls.
#
# Rule: who comes first is decided by what a worker waits for (an event is a
# file that another worker makes), never by how long something takes.
#
# As root it installs missing packages and runs as "nobody"; as another user it
# says what to install. The exit status is 0 only if the outcome is exactly
# this: 74 lines and two charges, then 37 lines, one charge and LF001.

# shellcheck source=test/lib/setup.sh
. "$(dirname "$0")/lib/setup.sh"

LF_NEED="build"

ACCOUNT=88213
RESOURCE=stmt:acct:$ACCOUNT
TTL=1.0			# of the lease, in seconds
STALL=1.6		# of worker-3's PDF call, in seconds
PATIENCE=30		# for an event, in seconds; then the demonstration has failed

# ---------------------------------------------------------------- the timeline

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

# say WHO TEXT - a line of the timeline, in milliseconds since the scene began
say() { printf '%6d ms  %-8s  %s\n' $(($(now_ms) - SCENE_START)) "$1" "$2"; }

# more TEXT - further lines under the one before
more() { fold -s -w 66 <<<"$1" | sed 's/^/             /; s/ *$//'; }

# happened EVENT - tell the other worker
happened() { : >"$SCENE/$1"; }

# wait_for EVENT
wait_for()
{
	local deadline=$((SECONDS + PATIENCE))

	until [ -e "$SCENE/$1" ]; do
		[ ! -e "$SCENE/given up" ] || exit 1
		[ $SECONDS -lt $deadline ] || give_up "waited in vain for: $1"
		sleep 0.01
	done
}

# give_up REASON - the scene cannot go on
give_up()
{
	happened "given up"
	say "$WORKER" "$1"
	exit 1
}

# ---------------------------------------------------------------- SQL

# connect - this process's own session; it lives as long as the worker
connect()
{
	coproc SESSION { exec psql -XqAt -d "$DATABASE" 2>&1; }
	printf '%s\n' '\set VERBOSITY verbose' >&"${SESSION[1]}"
}

# sql STATEMENT - sets ANSWER to what came back and STATE to the SQLSTATE
sql()
{
	local line

	ANSWER='' STATE=''
	printf '%s;\n%s\n' "$1" '\echo lf_end :SQLSTATE' >&"${SESSION[1]}"
	while IFS= read -r line <&"${SESSION[0]}"; do
		case $line in
			'lf_end '*)	STATE=${line#lf_end }
					return 0 ;;
			LOCATION:* | *' NAME: '*)
					;;
			*)		ANSWER=$ANSWER${ANSWER:+$'\n'}$line ;;
		esac
	done
	give_up "the session has ended"
}

# must STATEMENT - sql, and nothing else than success will do
must()
{
	sql "$1"
	[ "$STATE" = 00000 ] || give_up "cannot go on: $ANSWER"
}

# ---------------------------------------------------------------- the tables

TABLES="
CREATE TABLE accounts (
    account_id bigint PRIMARY KEY,
    charged    numeric(10,2) NOT NULL DEFAULT 0);
CREATE TABLE statement_lines (
    account_id bigint NOT NULL REFERENCES accounts,
    line       integer NOT NULL,
    amount     numeric(10,2) NOT NULL,
    written_by text NOT NULL);
INSERT INTO accounts (account_id) VALUES ($ACCOUNT);"

PLAIN_SETUP="
CREATE TABLE lease (
    resource   text PRIMARY KEY,
    holder     text NOT NULL,
    expires_at timestamptz NOT NULL);"

FENCED_SETUP="
CREATE EXTENSION lockfence;
ALTER TABLE statement_lines ADD COLUMN token bigint;
SELECT fence_protect('statement_lines', 'stmt:acct:{account_id}', 'token');"

# ------------------------------------------------- what the two scenes differ in
#
# SCENE_acquire	asks once for the lease; true if it was granted, with HOW
# SCENE_insert	writes the 37 lines
# SCENE_release	gives the lease back; sets ANSWER

plain_acquire()
{
	must "INSERT INTO lease VALUES ('$RESOURCE', '$WORKER',
			clock_timestamp() + interval '$TTL s')
		ON CONFLICT (resource) DO UPDATE
		SET holder = excluded.holder, expires_at = excluded.expires_at
		WHERE lease.expires_at < clock_timestamp()
		RETURNING 'lease of $TTL s'"
	HOW=$ANSWER
	[ -n "$HOW" ]
}

plain_insert()
{
	sql "INSERT INTO statement_lines
		SELECT $ACCOUNT, n, n * 0.25, '$WORKER' FROM generate_series(1, 37) n"
}

plain_release()
{
	must "WITH gone AS (DELETE FROM lease
			WHERE resource = '$RESOURCE' AND holder = '$WORKER' RETURNING 1)
		SELECT CASE count(*) WHEN 1 THEN 'released' ELSE 'not_held' END FROM gone"
}

# fenced_acquire [AUTHORITY]
fenced_acquire()
{
	must "SELECT status, token, how
		FROM fence_acquire('$RESOURCE', '$WORKER', '$TTL s',
			authority => '${1:-postgres}')"
	IFS='|' read -r STATUS TOKEN HOW <<<"$ANSWER"
	HOW="lease of $TTL s, token $TOKEN ($HOW)"
	[ "$STATUS" = granted ]
}

fenced_insert()
{
	sql "INSERT INTO statement_lines
		SELECT $ACCOUNT, n, n * 0.25, '$WORKER', $TOKEN
		FROM generate_series(1, 37) n"
}

fenced_release()
{
	must "SELECT fence_release('$RESOURCE', $TOKEN, '$WORKER')"
}

# What differs where leases are in Redis.

REDIS_SETUP="$FENCED_SETUP
CREATE SERVER locks FOREIGN DATA WRAPPER lockfence_redis
    OPTIONS (unix_socket_path 'REDIS_SOCKET');
CREATE USER MAPPING FOR PUBLIC SERVER locks;"

redis_cli() { redis-cli --raw -s "$REDIS_SOCKET" "$@"; }

# lose_leases - Redis forgets everything, if it has the leases
lose_leases()
{
	case $KIND in
		redis_*)	redis_cli FLUSHALL >/dev/null || give_up "no FLUSHALL"
				say Redis "FLUSHALL: every lease is gone" ;;
	esac
}

redis_plain_acquire()
{
	HOW="SET NX PX ${TTL/./}00"
	[ "$(redis_cli SET "$RESOURCE" "$WORKER" NX PX "${TTL/./}00")" = OK ]
}

redis_plain_insert() { plain_insert; }

redis_plain_release()
{
	ANSWER=$(redis_cli EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then
		redis.call('del', KEYS[1]) return 'released' end return 'not_held'" \
		1 "$RESOURCE" "$WORKER")
}

redis_fenced_acquire() { fenced_acquire locks; }
redis_fenced_insert() { fenced_insert; }
redis_fenced_release() { fenced_release; }

# ---------------------------------------------------------------- the workers

# look - a careful worker looks first whether somebody has done the work
look()
{
	must "SELECT count(*) FROM statement_lines WHERE account_id = $ACCOUNT"
	say "$WORKER" "looks for lines already written: $ANSWER"
}

# write - lines and charge, in one transaction; sets VERDICT to a SQLSTATE
write()
{
	local line

	must "BEGIN"
	"${KIND}_insert"
	VERDICT=$STATE
	if [ "$VERDICT" = 00000 ]; then
		must "UPDATE accounts SET charged = charged + (SELECT sum(amount)
				FROM statement_lines WHERE account_id = $ACCOUNT
				AND written_by = '$WORKER')
			WHERE account_id = $ACCOUNT"
		must "COMMIT"
		say "$WORKER" "INSERT of 37 lines and the charge: COMMIT"
		return
	fi
	say "$WORKER" "INSERT of 37 lines: refused with SQLSTATE $VERDICT"
	while IFS= read -r line; do
		more "$line"
	done <<<"$ANSWER"
	must "ROLLBACK"
}

worker_3()
{
	WORKER=worker-3
	connect
	"${KIND}_acquire" || give_up "was not granted the lease"
	say $WORKER "acquires $RESOURCE: $HOW"
	look
	say $WORKER "calls the PDF service ..."
	happened "worker-3 stalls"

	sleep $STALL
	wait_for "worker-5 works"

	say $WORKER "... which answers after more than $STALL s; goes on"
	write
	echo "$VERDICT" >"$SCENE/late write"
	"${KIND}_release"
	say $WORKER "releases its lease: $ANSWER"
	happened "worker-3 is done"
}

worker_5()
{
	WORKER=worker-5
	connect
	wait_for "worker-3 stalls"
	lose_leases
	if ! "${KIND}_acquire"; then
		say $WORKER "finds the lease held, and tries until it is free"
		until "${KIND}_acquire"; do
			sleep 0.02
		done
	fi
	say $WORKER "acquires $RESOURCE: $HOW"
	look
	say $WORKER "builds its lines"
	happened "worker-5 works"

	wait_for "worker-3 is done"

	write
	[ "$VERDICT" = 00000 ] || exit 1
	"${KIND}_release"
	say $WORKER "releases its lease: $ANSWER"
}

# play KIND TITLE SETUP - one scene; notes what came out of it
play()
{
	local status=0 pid pids=()

	KIND=$1
	DATABASE=$KIND
	SCENE=$LF_WORK/tmp/$KIND
	mkdir "$SCENE"
	psql -Xq -d postgres -c "CREATE DATABASE $KIND" &&
		psql -Xq -v ON_ERROR_STOP=1 -d "$KIND" -o /dev/null -c "$TABLES" -c "$3" ||
		return

	printf '\n%s\n\n' "$2"
	SCENE_START=$(now_ms)
	worker_3 &
	pids+=($!)
	worker_5 &
	pids+=($!)
	for pid in "${pids[@]}"; do
		wait "$pid" || status=1
	done
	[ $status = 0 ] || return

	ROWS[$KIND]=$(psql -XAt -d "$KIND" -c \
		"SELECT count(*) FROM statement_lines WHERE account_id = $ACCOUNT")
	CHARGED[$KIND]=$(psql -XAt -d "$KIND" -c \
		"SELECT charged FROM accounts WHERE account_id = $ACCOUNT")
	LATE_WRITE[$KIND]=$(cat "$SCENE/late write")
}

# ---------------------------------------------------------------- the result

declare -A ROWS CHARGED LATE_WRITE

# verdict SQLSTATE - in words
verdict()
{
	case $1 in
		00000)	echo "accepted" ;;
		*)	echo "refused: $1" ;;
	esac
}

row() { printf '  %-32s  %14s  %14s\n' "$@"; }

# result PLAIN FENCED TITLE - what came out of the two scenes
result()
{
	printf '\nAccount %s afterwards\n\n' "$ACCOUNT"
	row "" "$3" "lockfence"
	row "" "-----------" "---------"
	row "statement_lines (37 are right)" "${ROWS[$1]}" "${ROWS[$2]}"
	row "charged (175.75 is right)" "${CHARGED[$1]}" "${CHARGED[$2]}"
	row "worker-3's late INSERT" "$(verdict "${LATE_WRITE[$1]}")" \
		"$(verdict "${LATE_WRITE[$2]}")"
	echo

	if [ "${ROWS[$1]} ${CHARGED[$1]} ${LATE_WRITE[$1]}" != \
		"74 351.50 00000" ] ||
		[ "${ROWS[$2]} ${CHARGED[$2]} ${LATE_WRITE[$2]}" != \
			"37 175.75 LF001" ]
	then
		echo "This is not the outcome that was to be shown."
		return 1
	fi
	cat <<-EOF
		In both scenes worker-3 wrote after worker-5 had acquired the lease and before
		worker-5's first write. No look into the table can show that this write is
		stale. fence_acquire raised the fence when it granted the lease to worker-5,
		and the guard that fence_protect put on the table refuses tokens below it.

		What to read next:
		  README.md          install it, and see a stale write refused in psql
		  doc/workers.md     what a worker does with each answer
		  doc/statements.md  what a stale holder can try, statement by statement
		  doc/operations.md  how to introduce it into a running system
		  doc/redis.md       leases of Redis, and a fleet that moves over one by one
	EOF
}

case ${1:-} in
	'') ;;
	--redis)	LF_NEED="build redis" ;;
	*)	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
		exit 2 ;;
esac
lf_setup_main "$0" "$@"

echo "Building lockfence for $("$LF_PG_CONFIG" --version) ..."
if ! lf_build demo with_llvm=no ${1:+WITH_REDIS=yes} || ! lf_stage demo; then
	tail -n 30 "$LF_WORK/demo.log" >&2
	exit 1
fi
echo "Starting a throw-away server ..."
lf_cluster_start demo || exit 1

if [ -z "${1:-}" ]; then
	play plain "1. A plain lease: nobody checks the write" "$PLAIN_SETUP" &&
		play fenced "2. The same with fence_acquire and one call of fence_protect" \
			"$FENCED_SETUP" ||
		lf_die "the incident could not be replayed"
	result plain fenced "plain lease"
	exit
fi

REDIS_SOCKET=$LF_WORK/redis.sock
redis-server --port 0 --unixsocket "$REDIS_SOCKET" --save '' --dir "$LF_WORK/tmp" \
	>"$LF_WORK/redis.log" 2>&1 &
REDIS_PID=$!
for _ in {1..100}; do
	[ "$(redis_cli PING 2>/dev/null)" != PONG ] || break
	sleep 0.1
done
play redis_plain "1. A lease in Redis: nobody checks the write" "" &&
	play redis_fenced "2. The same lease, taken by fence_acquire" \
		"${REDIS_SETUP/REDIS_SOCKET/$REDIS_SOCKET}"
STATUS=$?
kill "$REDIS_PID"
wait "$REDIS_PID"
[ $STATUS = 0 ] || lf_die "the incident could not be replayed"
result redis_plain redis_fenced "lease in Redis"
