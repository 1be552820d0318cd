#!/bin/bash
# redis.sh - what a lease of Redis costs, against its two halves
#
#	test/bench/redis.sh
#
#	alone		EVALSHA through hiredis, no PostgreSQL
#	postgres	fence_acquire with a lease of PostgreSQL
#	redis		fence_acquire with a lease of Redis
#
# The last one does what the other two do, so it is compared with their sum, over
# a unix socket and over TCP: at most 1.25 times. One client, 20,000 calls of
# each, each for a resource never used before, measured in turns within one run;
# medians in microseconds. Then how soon a call ends that waits for a Redis that
# does not answer.
#
# Environment: COUNT=20000, FSYNC=on

# shellcheck source=test/lib/setup.sh
. "$(dirname "$0")/../lib/setup.sh"

LF_NEED="build redis"
TURNS=10
COUNT=${COUNT:-20000}
FSYNC=${FSYNC:-on}
export COUNT FSYNC

lf_setup_main "$0" "$@"
lf_build bench with_llvm=no WITH_REDIS=yes && lf_stage bench || {
	tail -n 30 "$LF_WORK/bench.log" >&2
	exit 1
}
# shellcheck disable=SC2046 # a list of options
gcc -O2 $(pkg-config --cflags hiredis) test/bench/redis_roundtrip.c \
	-o "$LF_WORK/roundtrip" $(pkg-config --libs hiredis) || exit 1
lf_cluster_start bench "fsync = $FSYNC" "shared_buffers = 256MB" \
	"max_wal_size = 4GB" "jit = off" || exit 1

REDIS_SOCKET=$LF_WORK/redis.sock
REDIS_PORT=$((20000 + RANDOM % 10000))
redis-server --port $REDIS_PORT --bind 127.0.0.1 --unixsocket "$REDIS_SOCKET" \
	--save '' --dir "$LF_WORK/tmp" >"$LF_WORK/redis.log" 2>&1 &
REDIS_PID=$!
trap 'kill -s CONT $REDIS_PID; kill $REDIS_PID; wait; lf_stop_all' EXIT
until redis-cli -s "$REDIS_SOCKET" PING >/dev/null 2>&1; do
	kill -s 0 $REDIS_PID || lf_die "no Redis"
	sleep 0.1
done

psql -Xq -v ON_ERROR_STOP=1 <<-EOF || exit 1
	CREATE EXTENSION lockfence;
	CREATE SERVER unix FOREIGN DATA WRAPPER lockfence_redis
		OPTIONS (unix_socket_path '$REDIS_SOCKET', timeout '30000');
	CREATE SERVER tcp FOREIGN DATA WRAPPER lockfence_redis
		OPTIONS (port '$REDIS_PORT', timeout '30000');
	CREATE USER MAPPING FOR PUBLIC SERVER unix;
	CREATE USER MAPPING FOR PUBLIC SERVER tcp;
EOF
cat >"$LF_WORK/acquire.pgbench" <<-'EOF'
	\set id random(1, 1000000000000000)
	SELECT * FROM fence_acquire(:authority::text || ':' || :id, 'holder', '30 s', authority => :authority::text::name);
EOF

# acquire AUTHORITY - the microseconds of each call
acquire()
{
	rm -f "$LF_WORK"/tmp/log.*
	pgbench -n -M prepared -c 1 -t $((COUNT / TURNS)) -D authority="$1" \
		-f "$LF_WORK/acquire.pgbench" -l --log-prefix="$LF_WORK/tmp/log" \
		>/dev/null 2>"$LF_WORK/pgbench.err" || {
		cat "$LF_WORK/pgbench.err" >&2
		exit 1
	}
	awk '{ print $3 }' "$LF_WORK"/tmp/log.*
}

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for ((turn = 1; turn <= TURNS; turn++)); do
	"$LF_WORK/roundtrip" "$REDIS_SOCKET" $((COUNT / TURNS)) >>"$LF_WORK/alone.unix"
	"$LF_WORK/roundtrip" $REDIS_PORT $((COUNT / TURNS)) >>"$LF_WORK/alone.tcp"
	acquire postgres >>"$LF_WORK/postgres"
	acquire unix >>"$LF_WORK/redis.unix"
	acquire tcp >>"$LF_WORK/redis.tcp"
done

printf '\n%-6s %8s %10s %8s %8s\n' "" alone postgres redis ratio
for way in unix tcp; do
	awk -v way=$way -v alone="$(median "$LF_WORK/alone.$way")" \
		-v postgres="$(median "$LF_WORK/postgres")" \
		-v redis="$(median "$LF_WORK/redis.$way")" 'BEGIN {
		printf "%-6s %8.0f %10.0f %8.0f %8.2f\n", way, alone, postgres,
			redis, redis / (alone + postgres) }'
done

# ends HOW - how soon after a cancel or termination
ends()
{
	local pid begin

	psql -Xq -c "SELECT fence_acquire('stopped', 'holder', '30 s', authority => 'unix')" \
		>/dev/null 2>&1 &
	until pid=$(psql -XAtq -c "SELECT pid FROM pg_stat_activity
			WHERE wait_event_type = 'Extension'") && [ -n "$pid" ]; do
		sleep 0.01
	done
	begin=${EPOCHREALTIME/./}
	psql -Xq -o /dev/null -c "SELECT $1($pid)"
	wait $!
	echo $((${EPOCHREALTIME/./} - begin)) >>"$LF_WORK/$1"
}

kill -s STOP $REDIS_PID
for _ in {1..20}; do
	ends pg_cancel_backend
	ends pg_terminate_backend
done
printf '\nRedis stopped: ended after the call of (with the psql that calls), ms\n'
for how in pg_cancel_backend pg_terminate_backend; do
	printf '%-22s %4d\n' $how $(($(median "$LF_WORK/$how") / 1000))
done
