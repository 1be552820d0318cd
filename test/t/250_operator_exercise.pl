# 250_operator_exercise.pl - the operator's exercise, with real workers
#
# Workers are processes: doc/worker/worker.sh around a job that computes, and
# then publishes 37 lines in one transaction with fence_once. They are stopped,
# killed, cut off and deaf, and the server crashes in between. What was accepted
# is printed at the end, with operation, holder, token and result in columns of
# their own, and what each exercise shows.
#
# Wrong result it would show: an operation published twice or not at all, lines
# of a holder that was overtaken, a lease that somebody else's late release or
# renewal took away.
#
# Mutants that make it fail: src/fence_rule.c, FENCE_ISSUED with a smaller token
# accepted (a paused worker publishes); src/fence_lease.c, is_generation() that
# compares neither token nor holder (a late release takes the lease of the
# next).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceLoad;
use LockfenceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $worker_sh = "$FindBin::RealBin/../../doc/worker/worker.sh";

plan skip_all => 'worker and test read /proc'
  unless -r '/proc/uptime' && -r "/proc/$$/task/$$/children";

my $node = fence_node('main', 'fsync = off', 'restart_after_crash = off');
my $dir = PostgreSQL::Test::Utils::tempdir;
local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
local $ENV{PGDATABASE} = 'postgres';

$node->safe_psql(
	'postgres', q{
	CREATE TABLE statement_line (operation text, line int, holder text, token bigint);
	SELECT fence_protect('statement_line', '{operation}', 'token');
	-- what each attempt was told; the attempts write it themselves
	CREATE TABLE attempt (n int GENERATED ALWAYS AS IDENTITY, exercise text, worker text, operation text, holder text, token bigint, result text)});

sub file
{
	my ($name, $mode, @lines) = @_;

	append_to_file("$dir/$name", join("\n", @lines, ''));
	chmod $mode, "$dir/$name";
	return "$dir/$name";
}

# Compute until told to publish; then publish; then stay until told to end.
# What the server answers is the result: accepted, repeated, or an SQLSTATE.
my $job = file('job', 0755, split /\n/, <<'EOS');
#!/bin/bash
[ -z "${DEAF:-}" ] || trap '' TERM
: >"$DIR/$NAME.started"
until [ -e "$DIR/$NAME.publish" ]; do sleep 0.02; done
result=$(psql -XAtq -v ON_ERROR_STOP=1 -v VERBOSITY=sqlstate -v resource="$LOCKFENCE_RESOURCE" \
	-v token="$LOCKFENCE_TOKEN" -v holder="$LOCKFENCE_HOLDER" -f - 2>&1 <<'SQL'
BEGIN;
SELECT fence_once(:'resource', :token, 'publish', :'holder') AS first \gset
\if :first
INSERT INTO statement_line SELECT :'resource', n, :'holder', :token FROM generate_series(1, 37) AS n;
\endif
COMMIT;
\if :first
\echo accepted
\else
\echo repeated
\endif
SQL
)
result=${result##*ERROR: }
psql -XAtq -v resource="$LOCKFENCE_RESOURCE" -v token="$LOCKFENCE_TOKEN" -v holder="$LOCKFENCE_HOLDER" \
	-v result="${result// /}" -v name="$NAME" -v exercise="$EXERCISE" -f - <<'SQL'
INSERT INTO attempt (exercise, worker, operation, holder, token, result)
	VALUES (:'exercise', :'name', :'resource' || ' publish', :'holder', :token, :'result');
SQL
: >"$DIR/$NAME.told"
until [ -e "$DIR/$NAME.end" ]; do sleep 0.02; done
EOS

# psql as the worker sees it: the answer of a renewal is lost on the way, or no
# call gets through at all.
my $lossy = file('lossy', 0755, split /\n/, <<'EOS');
#!/bin/bash
sql=$(cat)
if [[ $sql == *fence_renew* && ! -e $DIR/$NAME.heard ]]; then
	: >"$DIR/$NAME.heard"
	psql "$@" >/dev/null <<<"$sql"
	exit 2
fi
psql "$@" <<<"$sql"
EOS
my $cut_off = file('cut_off', 0755, split /\n/, <<'EOS');
#!/bin/bash
sql=$(cat)
[[ $sql != *fence_renew* ]] || exit 2
psql "$@" <<<"$sql"
EOS

my %workers;

# Start a worker; returns when its job has begun, that is, with the lease.
sub start_worker
{
	my ($name, $exercise, %env) = @_;
	my $pid;

	local %ENV = (
		%ENV, DIR => $dir, NAME => $name, EXERCISE => $exercise, WORKER => $name,
		TTL_MS => 3000, GRACE_MS => 30000, %env);
	$pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		setpgrp;
		open STDIN, '<', '/dev/null';
		open STDOUT, '>', '/dev/null';
		open STDERR, '>', "$dir/$name.log";
		exec $worker_sh, $exercise, $job;
	}
	$workers{$name} = $pid;
	return;
}

sub has { my ($name) = @_; return -e "$dir/$name"; }
sub log_of { return slurp_file("$dir/$_[0].log"); }
sub instruct { my ($name, $what) = @_; append_to_file("$dir/$name.$what", ''); return; }

sub started
{
	my ($name) = @_;

	return ok(wait_until(sub { has("$name.started") }), "$name works");
}

# Processes of a worker: its own group and its job's.
sub signal
{
	my ($signal, $name) = @_;
	my $children = slurp_file("/proc/$workers{$name}/task/$workers{$name}/children");

	kill $signal, map { -$_ } grep { $_ } $workers{$name}, grep { getpgrp($_) == $_ } split ' ', $children;
	return;
}

sub publish
{
	my ($name) = @_;

	instruct($name, 'publish');
	wait_until(sub { has("$name.told") }) or diag("$name was told nothing");
	return $node->safe_psql('postgres', "SELECT result FROM attempt WHERE worker = '$name'");
}

sub finish
{
	my ($name) = @_;

	instruct($name, 'end');
	waitpid $workers{$name}, 0;
	return $? >> 8;
}

sub expired
{
	my ($resource) = @_;

	return $node->poll_query_until('postgres', "SELECT NOT live FROM fence_status('$resource')");
}

sub lease
{
	my ($resource) = @_;

	return $node->safe_psql('postgres', "SELECT split_part(holder, '/', 1), token, live FROM fence_status('$resource')");
}

#
# A worker is stopped for longer than its lease, and is deaf when it wakes up
#
start_worker('A', 'paused', DEAF => 1);
started('A');
signal('STOP', 'A');
ok(expired('paused'), 'A is paused, and its lease ends');
start_worker('B', 'paused');
started('B');
like(log_of('B'), qr/granted, takeover/, 'B is told that it takes over');
is(publish('B'), 'accepted', 'B publishes');
my $lease = lease('paused');
like($lease, qr/^B\|\d+\|t$/, 'B has the lease');
instruct('A', 'publish');
signal('CONT', 'A');
is(publish('A'), 'LF001', 'A wakes up, and its publication is refused');
ok(wait_until(sub { log_of('A') =~ /: stopping the command/ }), 'A notices that its lease has ended');
is(finish('A'), 75, 'A stops');
like(log_of('A'), qr/release: not_held/, "A's late release finds nothing of its own");
is(lease('paused') =~ s/\|\d+\|/|/r, 'B|t', 'B still has the lease');
is((split /\|/, lease('paused'))[1], (split /\|/, $lease)[1], 'with the same token');
is(finish('B'), 0, 'B ends well');
like(log_of('B'), qr/release: released/, 'and gives the lease back');

#
# A renewal is done, and its answer is lost
#
start_worker('C', 'lost answer', PSQL => $lossy);
started('C');
ok(wait_until(sub { log_of('C') =~ /no answer, the deadline stays.*renewed.*renewed/s }),
	'C asks again, and goes on');
is(publish('C'), 'accepted', 'C publishes');
is(finish('C'), 0, 'C ends well');

#
# A worker is cut off from the server, and its job ignores that it is to stop
#
start_worker('D', 'deaf', PSQL => $cut_off, DEAF => 1);
started('D');
ok(wait_until(sub { log_of('D') =~ /the deadline has passed: stopping/ }),
	'D hears nothing, and stops its job at the deadline; the job does not listen');
start_worker('E', 'deaf');
started('E');
is(publish('E'), 'accepted', 'E takes over and publishes');
is(publish('D'), 'LF001', "D's job has computed to its end, and is refused");
is(finish('D'), 75, 'D stops');
is(finish('E'), 0, 'E ends well');

#
# Workers are killed: before they have published, and after
#
start_worker('F', 'killed early');
start_worker('H', 'killed late');
started('F');
started('H');
is(publish('H'), 'accepted', 'H publishes');
signal('KILL', $_), waitpid $workers{$_}, 0 foreach 'F', 'H';
is((split /\|/, lease('killed late'))[0], 'H', 'H is killed before it could release');
start_worker('G', 'killed early');
start_worker('I', 'killed late');
started('G');
started('I');
like(log_of($_), qr/granted, takeover/, "$_ waits for the end of the lease and takes over") foreach 'G', 'I';
is(publish('G'), 'accepted', 'G does the work that F had not done');
is(publish('I'), 'repeated', 'I learns that the work of H was done');
is(finish($_), 0, "$_ ends well") foreach 'G', 'I';

#
# The server crashes in the middle
#
start_worker('J', 'crash', TTL_MS => 20000);
started('J');
my $before = lease('crash');
$node->stop('immediate');
$node->start;
is(lease('crash'), $before, 'after the crash the lease is there, with its token');
is(publish('J'), 'accepted', 'J publishes with the token from before');
is(finish('J'), 0, 'J ends well');
like(log_of('J'), qr/release: released/, 'and gives the lease back');

#
# Evidence
#
my $evidence = $node->safe_psql(
	'postgres', q{
	SELECT a.exercise, a.operation, a.worker, split_part(a.holder, '/', 2), a.token, a.result,
		coalesce(o.token = a.token, false)
	FROM attempt AS a LEFT JOIN lockfence.operations AS o ON o.resource = a.exercise ORDER BY n});
note sprintf('%-13s%-22s%-8s%-38s%-7s%-10s%s', 'exercise', 'operation', 'worker', 'holder (its uuid)', 'token', 'result', 'accepted result is its own');
foreach my $line (split /\n/, $evidence)
{
	note sprintf('%-13s%-22s%-8s%-38s%-7s%-10s%s', split /\|/, $line);
}
note $_ foreach (
	'',
	'Invariant kept by the database, in every exercise: of each operation one result was',
	'accepted, all 37 lines of it, by the token that was the fence when it committed; a',
	'generation that was overtaken has changed nothing, neither lines nor lease.',
	'Duplicate computation that was acceptable: A and B, D and E, F and G each computed',
	'the same statement; A, D and F for nothing. H and I computed twice what was',
	'published once. Leases make that rare; they cannot rule it out, and need not.');

is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT resource) FROM lockfence.operations'),
	'6|6', 'each operation was accepted once');
is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM (SELECT operation, count(*) AS n, count(DISTINCT line) AS lines, count(DISTINCT token) AS tokens, min(token) AS token
			FROM statement_line GROUP BY operation) AS s JOIN lockfence.operations AS o ON o.resource = s.operation
		WHERE n = 37 AND lines = 37 AND tokens = 1 AND s.token = o.token}),
	6,
	'and has 37 lines, all of the token that was accepted');
is( $node->safe_psql(
		'postgres', q{
		SELECT string_agg(worker || ' ' || result, ', ' ORDER BY worker) FROM attempt}),
	'A LF001, B accepted, C accepted, D LF001, E accepted, G accepted, H accepted, I repeated, J accepted',
	'and everybody was told the truth');
is($node->safe_psql('postgres', 'SELECT count(*) FROM lockfence.leases WHERE live'),
	0, 'no lease is left');

$node->stop;
done_testing();

# Whatever happens above, no worker stays.
END
{
	my $status = $?;

	foreach my $name (keys %workers)
	{
		next unless -d "/proc/$workers{$name}";
		kill 'KILL', map { -$_ } grep { $_ } $workers{$name}, split ' ',
		  eval { slurp_file("/proc/$workers{$name}/task/$workers{$name}/children") } // '';
	}
	$? = $status;
}
