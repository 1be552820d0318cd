#!/bin/bash
# run.sh - measures lockfence against the alternatives, side by side
#
#	test/bench/run.sh			all parts but "scale"
#	test/bench/run.sh PART...	copy rows acquire pair held memory wait scale
#
#	copy	COPY of 1,000,000 rows into guarded tables
#	rows	transactions that insert one row, two clients, all variants mixed
#	acquire	acquire and release, against leases made otherwise: rates in turns
#	pair	acquire and release, and the upsert, at the same time
#	held	an acquire that is refused and a SELECT, against one that is granted
#	memory	a transaction that is admitted for 1,000,000 resources
#	wait	how soon a waiter is granted; an acquire beside a stale writer
#	scale	10,000,000 fences against 1,000 (slow, needs 5 GB)
#
# Not part of the suite: the numbers depend on the machine. What is compared is
# measured at the same time, or in turns within one run, several times, and the
# best of each counts, so that what else the machine does disturbs all alike. CPU
# time is that of the server process, from the kernel; it suffers less from other
# work.
#
# Environment: REPEAT=5 rounds, DURATION=3 seconds of each pgbench run.

# shellcheck source=test/lib/setup.sh
. "$(dirname "$0")/../lib/setup.sh"

LF_NEED="build"
REPEAT=${REPEAT:-5}
DURATION=${DURATION:-3}
ACCOUNTS=100000
export REPEAT DURATION

# Generous, so that no checkpoint falls into a measurement.
CONF=("shared_buffers = 1GB" "max_wal_size = 20GB" "checkpoint_timeout = 1h"
	"autovacuum = off" "jit = off" "max_connections = 60")

run_sql() { psql -XqAt -v ON_ERROR_STOP=1 "$@" || lf_die "psql failed"; }
sql() { run_sql -c "SET search_path = bench, public" "${@/#/-c}"; }
script() { run_sql -f "$LF_TOP/test/bench/$1" "${@:2}"; }

heading() { printf '\n%s\n' "$*"; }

# start NAME [LINE]... - a server with the benchmark's tables and fences
start()
{
	lf_cluster_start "$1" "${CONF[@]}" "${@:2}" || lf_die "no server"
	script schema.sql -v noop="$LF_TOP/test/bench/noop" -v accounts=$ACCOUNTS
}

# children_cpu - milliseconds of CPU that ended backends have used
children_cpu()
{
	local fields

	read -ra fields <"/proc/$(head -n 1 "$LF_DATA/postmaster.pid")/stat"
	echo $(((fields[15] + fields[16]) * 1000 / $(getconf CLK_TCK)))
}

# clients N SCRIPT [ARG]... - sets TPS, COUNT and CPU (us per transaction)
clients()
{
	local out before

	sleep 0.5
	before=$(children_cpu)
	out=$(pgbench -n -M prepared -c "$1" -j "$(($1 > 1 ? 2 : 1))" -T "$DURATION" \
		-f "$LF_TOP/test/bench/$2" "${@:3}" 2>&1) ||
		lf_die "pgbench failed: $out"
	sleep 0.5
	COUNT=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' <<<"$out")
	TPS=$(sed -n 's/^tps = \([0-9.]*\).*/\1/p' <<<"$out")
	CPU=$((($(children_cpu) - before) * 1000 / (COUNT + 1)))
}

# ---------------------------------------------------------------- loads

# load_file NAME EXPRESSION - a file of 1,000,000 rows, account = EXPRESSION of g
load_file()
{
	sql "COPY (SELECT g, account_id, token, 'payload ' || g
		FROM (SELECT g, $2 AS account_id FROM generate_series(1, 1000000) g) s
		JOIN issued USING (account_id) ORDER BY g) TO '$LF_WORK/$1.dat'"
}

part_copy()
{
	local round load variant

	start copy
	load_file one "5::bigint"
	load_file ordered "((g - 1) / 37)::bigint"
	load_file random "floor(random() * $ACCOUNTS)::bigint"
	for ((round = 1; round <= REPEAT; round++)); do
		for load in one ordered random; do
			for variant in none N lockfence "foreign key" PL/pgSQL; do
				script load.sql -v load="$load" -v variant="$variant" \
					-v file="$LF_WORK/$load.dat"
			done
		done
	done
	heading "COPY of 1,000,000 rows, best of $REPEAT, and its ratio to N" \
		"(a trigger in C that does nothing)"
	script report.sql -v part=copy
	lf_cluster_stop copy
}

# mixed LOAD ROUND ACCOUNTS VARIANT... - a table for each variant, and two clients
# that insert into one of them by chance, so that noise slows all alike
mixed()
{
	local load=$1 round=$2 accounts=$3 variant values="" tables=() scripts=() latency

	shift 3
	for variant in "$@"; do
		tables+=("target_${#tables[@]}")
		sql "CALL make_table('${tables[-1]}', '$variant')"
		sed "s/bench\.target/bench.${tables[-1]}/" "$LF_TOP/test/bench/row.pgbench" \
			>"$LF_WORK/${tables[-1]}.pgbench"
		scripts+=(-f "$LF_WORK/${tables[-1]}.pgbench")
	done
	sql CHECKPOINT
	pgbench -n -M prepared -c 2 -j 2 -T $((DURATION * $#)) "${scripts[@]}" \
		-D accounts="$accounts" >"$LF_WORK/rows.out" 2>&1 ||
		lf_die "pgbench failed: $(cat "$LF_WORK/rows.out")"
	while read -r latency; do
		values+="('$load', $round, '$1', $latency),"
		shift
	done < <(sed -n 's/^ - latency average = \([0-9.]*\) ms/\1/p' "$LF_WORK/rows.out")
	sql "INSERT INTO rows_result VALUES ${values%,}" "${tables[@]/#/DROP TABLE }"
}

part_rows()
{
	local round accounts fsync

	for fsync in off on; do
		start rows "fsync = $fsync"
		for ((round = 1; round <= REPEAT; round++)); do
			for accounts in 100 $ACCOUNTS; do
				mixed "$accounts resources" "$round" "$accounts" \
					none N lockfence "foreign key"
			done
		done
		heading "Single-row transactions, 2 clients, all at the same time, fsync" \
			"$fsync, median of $REPEAT; milliseconds per transaction"
		psql -Xq -P footer=off -f "$LF_TOP/test/bench/rows_report.sql"
		lf_cluster_stop rows
	done
}

# ---------------------------------------------------------------- leases

# grants VARIANT - how many leases were granted since the server was filled
grants()
{
	case $1 in
		lockfence)	sql "SELECT last_value FROM lockfence.token" ;;
		upsert)		sql "SELECT sum(token) FROM lease" ;;
		*)			echo 0 ;;
	esac
}

# lease FSYNC VARIANT CLIENTS RESOURCES - one measurement
lease()
{
	local before

	before=$(grants "$2")
	clients "$3" "$2.pgbench" -D resources="$4"
	sql "INSERT INTO lease_result VALUES ('$1', $3, $4, '$2', $TPS,
		$TPS * ($(grants "$2") - $before) / $COUNT, $CPU)"
}

part_acquire()
{
	local fsync round number resources variant order

	heading "The lease by hand that fence_acquire is compared with:"
	grep -v '^\\' "$LF_TOP/test/bench/upsert.pgbench"
	for fsync in on off; do
		start acquire "fsync = $fsync"
		script fill.sql -v n=1000000
		for ((round = 1; round <= REPEAT; round++)); do
			# Each is first in half of the rounds.
			order="lockfence upsert advisory"
			((round % 2)) || order="upsert lockfence advisory"
			for number in 1 8 32; do
				for resources in 1 1000 1000000; do
					for variant in $order; do
						lease $fsync "$variant" $number $resources
					done
				done
			done
			sql "VACUUM lockfence.fence" "VACUUM lease"
		done
		heading "Acquire, and release what was granted, fsync $fsync," \
			"best of $REPEAT: per second"
		psql -Xq -P footer=off -f "$LF_TOP/test/bench/lease_report.sql"
		lf_cluster_stop acquire
	done
	redis_rate
}

# pair FSYNC CLIENTS RESOURCES - both leases in one run of pgbench, whose clients
# take either by chance, so that what else the machine does slows both alike
pair()
{
	local before_lockfence before_upsert

	before_lockfence=$(grants lockfence)
	before_upsert=$(grants upsert)
	pgbench -n -M prepared -c "$2" -j "$(($2 > 1 ? 2 : 1))" -T $((DURATION * 3)) \
		-f "$LF_TOP/test/bench/lockfence.pgbench" \
		-f "$LF_TOP/test/bench/upsert.pgbench" -D resources="$3" \
		>"$LF_WORK/pair.out" 2>&1 || lf_die "pgbench failed: $(cat "$LF_WORK/pair.out")"
	# shellcheck disable=SC2046 # two scripts, each a number and a latency
	set -- "$@" $(sed -n 's/^ - \([0-9]*\) transactions (.*/\1/p
		s/^ - latency average = \([0-9.]*\) ms/\1/p' "$LF_WORK/pair.out")
	sql "INSERT INTO pair_result VALUES ('$1', $2, $3,
		$4 * $5::float8 / ($(grants lockfence) - $before_lockfence),
		$6 * $7::float8 / ($(grants upsert) - $before_upsert))"
}

part_pair()
{
	local fsync round number resources

	for fsync in on off; do
		start pair "fsync = $fsync"
		script fill.sql -v n=1000000
		# Most pages have been in the WAL as a whole after this.
		DURATION=8 pair $fsync 8 1000000
		sql "TRUNCATE pair_result"
		for ((round = 1; round <= REPEAT; round++)); do
			for number in 1 8 32; do
				for resources in 1 1000 1000000; do
					pair $fsync $number $resources
				done
			done
			sql "VACUUM lockfence.fence" "VACUUM lease"
		done
		heading "Acquire and release beside the upsert, fsync $fsync: milliseconds" \
			"of a client's time for each grant, median of $REPEAT"
		psql -Xq -P footer=off -f "$LF_TOP/test/bench/pair_report.sql"
		lf_cluster_stop pair
	done
}

# redis_rate - what redis-benchmark gets for the two commands of a lease
redis_rate()
{
	local number set release

	if ! command -v redis-server >/dev/null; then
		heading "No redis-server here"
		return
	fi
	mkdir "$LF_WORK/redis.data"
	(cd "$LF_WORK/redis.data" && exec redis-server --port 0 --save '' \
		--unixsocket "$LF_WORK/redis.sock" >/dev/null) &
	sleep 1
	heading "Redis without persistence, 1,000 resources: SET NX PX and" \
		"compare-and-delete, each per second"
	for number in 1 8 32; do
		set=$(redis_run $number SET res:__rand_int__ holder NX PX 30000)
		release=$(redis_run $number EVAL "if redis.call('get', KEYS[1]) == ARGV[1] \
then return redis.call('del', KEYS[1]) end return 0" 1 res:__rand_int__ holder)
		printf '  %2s clients  %10s %10s\n' $number "$set" "$release"
	done
	redis-cli -s "$LF_WORK/redis.sock" shutdown nosave >/dev/null 2>&1
	wait
}

redis_run()
{
	redis-benchmark -s "$LF_WORK/redis.sock" -c "$1" -n 100000 -r 1000 -q "${@:2}" |
		tr '\r' '\n' | sed -n 's/.*: \([0-9.]*\) requests per second.*/\1/p'
}

part_held()
{
	local fsync round variant

	for fsync in on off; do
		start held "fsync = $fsync"
		script fill.sql -v n=1000000
		sql "SELECT count(*) FROM generate_series(1, 1000) g,
			fence_acquire('busy:' || g, 'other', '1 day')" >/dev/null
		for ((round = 1; round <= REPEAT; round++)); do
			for variant in granted held select; do
				clients 1 $variant.pgbench -D resources=1000
				sql "INSERT INTO result VALUES ('held', '1 client, fsync $fsync',
					'$variant', 1000 / $TPS::float8, $CPU / 1000.0)"
			done
		done
		heading "An acquire that is granted, one that is held, and a SELECT of one" \
			"row by its key, ms per call"
		script report.sql -v part=held -v base=granted
		lf_cluster_stop held
	done
}

part_memory()
{
	start memory
	script fill.sql -v n=1000000
	heading "A transaction that is admitted for 1,000,000 resources"
	script memory.sql
	lf_cluster_stop memory
}

# ---------------------------------------------------------------- waiting

part_wait()
{
	local before writer token preload

	for preload in "" lockfence; do
		start "wait$preload" "shared_preload_libraries = '$preload'"
		heading "From a release or an expiry to the grant of the one who waits, ms;" \
			"shared memory: ${preload:+preloaded}"
		DURATION=10 clients 2 wait_release.pgbench
		DURATION=10 clients 2 wait_expiry.pgbench
		script wait_report.sql
		lf_cluster_stop "wait$preload"
	done

	start wait
	sql "SELECT FROM fence_acquire('crowded', 'other', '1 day')"
	before=$(children_cpu)
	pgbench -n -c 32 -j 1 -t 1 -f "$LF_TOP/test/bench/wait_crowd.pgbench" \
		>/dev/null 2>&1
	sleep 0.2
	heading "32 callers that wait 10 s in vain: $(($(children_cpu) - before)) ms" \
		"of CPU in all, their connections included"

	heading "An acquire after a lease has expired, ms: alone, and while the stale" \
		"writer's transaction is open"
	sql "CALL make_table('target', 'lockfence')"
	for writer in no yes; do
		token=$(sql "SELECT token FROM fence_acquire('stmt:acct:7', 'stale', '10 ms')")
		if [ $writer = yes ]; then
			coproc STALE { exec psql -XqAt 2>/dev/null; }
			echo "BEGIN; INSERT INTO bench.target VALUES (1, 7, $token, 'x');
				SELECT 'written';" >&"${STALE[1]}"
			read -r _ <&"${STALE[0]}"
		fi
		for _ in 1 2 3 4 5 6 7 8 9; do
			sleep 0.05
			script takeover.sql
		done | sort -g | sed -n '1p;5p' |
			xargs printf "  stale writer open: $writer   least %s, median %s\n"
	done
	echo "COMMIT;" >&"${STALE[1]}"
	eval "exec ${STALE[1]}>&-"
	wait
	lf_cluster_stop wait
}

part_scale()
{
	local call round n

	start scale
	for n in 1000 10000000; do
		script fill.sql -v n=$n
		# The checks first: acquires end the generations that they show.
		for call in scale_check lockfence; do
			for ((round = 1; round <= REPEAT; round++)); do
				clients 2 $call.pgbench -D resources=$n
				sql "INSERT INTO result VALUES ('scale', '$call', '$n fences',
					1000 / $TPS::float8, $CPU / 1000.0)"
			done
		done
	done
	heading "Many fences against few, ms per transaction: fence_check, and" \
		"acquire and release"
	script report.sql -v part=scale -v base='1000 fences'
	lf_cluster_stop scale
}

# ---------------------------------------------------------------- main

PARTS="copy rows acquire pair held memory wait"
for part in "$@"; do
	case " $PARTS scale " in
		*" $part "*) ;;
		*)	sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
			exit 2 ;;
	esac
done
lf_setup_main "$0" "$@"

lf_build release with_llvm=no && lf_stage release ||
	lf_die "the build failed: $(tail -n 5 "$LF_WORK/release.log")"
gcc -O2 -fPIC -shared -I "$("$LF_PG_CONFIG" --includedir-server)" \
	-o test/bench/noop.so test/bench/noop.c || lf_die "noop.c failed"
[ $# -gt 0 ] || read -ra parts <<<"$PARTS"
[ $# -eq 0 ] || parts=("$@")

echo "PostgreSQL $("$LF_PG_CONFIG" --version | cut -d ' ' -f 2-)," \
	"$(nproc) processors, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
for part in "${parts[@]}"; do
	echo
	echo "load of the machine: $(cut -d ' ' -f 1-3 /proc/loadavg)"
	"part_$part"
done
echo
echo "load of the machine: $(cut -d ' ' -f 1-3 /proc/loadavg)"
exit 0
