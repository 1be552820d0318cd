#!/bin/bash
# worker.sh - runs one command while it holds the lease of a resource
#
#	worker.sh RESOURCE COMMAND [ARG...]
#
# The command finds in its environment
#	LOCKFENCE_RESOURCE	the resource
#	LOCKFENCE_TOKEN		the token to show in each transaction that writes
#	LOCKFENCE_HOLDER	the holder of this attempt
#	LOCKFENCE_HOW		new, again, or takeover: then reconcile first
#
# Settings, from the environment:
#	TTL_MS=30000	length of the lease in milliseconds
#	GRACE_MS=5000	from SIGTERM to SIGKILL for a command that is to stop
#	TRIES=1000000	how often to ask for the lease
#	WORKER=name	begins the holder; default: host name and process id
#	PSQL=psql	connection as psql takes it: PGHOST, PGDATABASE ...
#
# Exit status: the command's; 69 no lease to be had (asked for TRIES times), 75 the
# command was stopped: the lease was lost, the deadline passed, or this script was
# told to stop.
#
# The rules of a worker are here in full (doc/workers.md has the reasons):
#	a new holder for each attempt, chosen before the first call;
#	no answer to an acquire: ask again with the same holder;
#	deadline = time before the call + ttl, on the own monotonic clock;
#	renew at a third of the ttl; no answer: the old deadline stays;
#	lost, or the deadline has passed: stop the work;
#	release at the end, with the own token: if the lease has passed on, that
#	takes nothing from anybody.
# None of them protects the tables. The token does.

set -u

TTL_MS=${TTL_MS:-30000}
GRACE_MS=${GRACE_MS:-5000}
TRIES=${TRIES:-1000000}
PSQL=${PSQL:-psql}
RESOURCE=${1:?usage: worker.sh RESOURCE COMMAND [ARG...]}
shift

say() { printf '%s worker %s: %s\n' "$(date -u +%T.%3N)" "$HOLDER" "$*" >&2; }

# Milliseconds of a clock that nobody sets, and that runs while this process is
# stopped.
now_ms()
{
	local up rest

	read -r up rest </proc/uptime
	REPLY=$((10#${up/./} * 10))
}

pause_ms() { sleep "$(printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)))"; }

# ask LIMIT_MS SQL - one statement with psql variables resource, token, holder,
# ttl; its answer goes to REPLY. False if none came in time: nobody knows then
# whether it was done.
ask()
{
	local limit=$1 sql=$2

	REPLY=$(PGCONNECT_TIMEOUT=$((limit / 1000 + 1)) timeout -k 1 \
		"$(printf '%d.%03d' $((limit / 1000)) $((limit % 1000)))" \
		"$PSQL" -XAtq -v ON_ERROR_STOP=1 -v resource="$RESOURCE" \
		-v token="${TOKEN:-0}" -v holder="$HOLDER" -v ttl="$TTL_MS ms" \
		-f - <<<"$sql" 2>/dev/null) && [ -n "$REPLY" ]
}

# ---------------------------------------------------------------- acquire

HOLDER=${WORKER:-$(uname -n)-$$}/$(cat /proc/sys/kernel/random/uuid)
for ((try = 1;; try++)); do
	now_ms
	deadline=$((REPLY + TTL_MS))
	if ! ask "$TTL_MS" "SELECT status, token, how, ceil(extract(epoch FROM retry_after) * 1000)::bigint, reason
		FROM fence_acquire(:'resource', :'holder', :'ttl')"; then
		# Granted or not? The same holder gets the same token, if it was.
		say "acquire: no answer"
		retry=$((TTL_MS / 10))
	else
		IFS='|' read -r status TOKEN how retry reason <<<"$REPLY"
		[ "$status" != granted ] || break
		say "acquire: $status, $reason"
	fi
	[ "$try" -lt "$TRIES" ] || exit 69
	# Others wait, too: not all come back at once, and none sleeps for too long.
	[ "$retry" -le "$TTL_MS" ] || retry=$TTL_MS
	pause_ms $((retry / 4 + RANDOM % (retry + 1) + 10))
done
say "granted, $how, token $TOKEN"

# ---------------------------------------------------------------- work

export LOCKFENCE_RESOURCE=$RESOURCE LOCKFENCE_TOKEN=$TOKEN
export LOCKFENCE_HOLDER=$HOLDER LOCKFENCE_HOW=$how
set -m				# the command gets a process group of its own
"$@" &
command=$!
set +m
stopped=''
trap 'stopped=${stopped:-told to stop}' TERM INT

# alive - has the command not ended?
alive() { kill -s 0 "$command" 2>/dev/null; }

now_ms
renew_at=$((deadline - TTL_MS + TTL_MS / 3))
while alive && [ -z "$stopped" ]; do
	now_ms
	if [ "$REPLY" -ge "$deadline" ]; then
		stopped="the deadline has passed"
	elif [ "$REPLY" -ge "$renew_at" ]; then
		called=$REPLY
		renew_at=$((called + TTL_MS / 3))
		# An answer after the deadline would be of no use.
		if ! ask $((deadline - called)) "SELECT status
			FROM fence_renew(:'resource', :'token', :'holder', :'ttl')"; then
			say "renew: no answer, the deadline stays"
			now_ms
			renew_at=$((REPLY + TTL_MS / 10))
		elif [ "$REPLY" = renewed ]; then
			deadline=$((called + TTL_MS))
			say "renewed"
		else
			stopped="the lease is $REPLY"
		fi
	else
		pause_ms 50
	fi
done

# ---------------------------------------------------------------- end

if [ -n "$stopped" ] && alive; then
	say "$stopped: stopping the command"
	kill -s TERM -- "-$command" 2>/dev/null
	now_ms
	end=$((REPLY + GRACE_MS))
	while alive && now_ms && [ "$REPLY" -lt "$end" ]; do
		pause_ms 20
	done
	! alive || kill -s KILL -- "-$command" 2>/dev/null
fi
wait "$command" 2>/dev/null
status=$?
if ask "$TTL_MS" "SELECT fence_release(:'resource', :'token', :'holder')"; then
	say "release: $REPLY"
else
	say "release: no answer; the lease ends by itself"
fi
[ -z "$stopped" ] || exit 75
exit "$status"
