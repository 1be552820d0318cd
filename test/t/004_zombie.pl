# 004_zombie.pl - holders that go on after their generation has ended
#
# An old leader that writes every 50 ms and ignores errors; a holder that wakes
# up after its lease; one whose backend is killed; a row version that another
# session's update has just replaced (EvalPlanQual); a takeover in the middle
# of a long UPDATE.  Then many sessions on one fence: deadlocks, and what it
# costs to show an equal token 5000 times.
#
# Wrong results it would show: rows of the old generation after the new one has
# begun; a new leader that waits for the old one; a lease that stays with a dead
# backend for ever; deadlocks or rewritten fences among writers that only show
# an equal token.
#
# Mutants that make it fail: src/fence_commit.c, xact_callback() without the
# call of check_admissions() (the long UPDATE is committed); src/fence_rule.c,
# fence_judge_offer() that returns FENCE_RAISE for an equal external token (the
# fence is rewritten by each write).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', 'track_commit_timestamp = on',
	'log_statement = none', 'log_connections = off', 'log_disconnections = off',
	'log_checkpoints = off', 'deadlock_timeout = 100ms');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE doc (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		resource text NOT NULL, token bigint, v text);
	SELECT fence_protect('doc', '{resource}', 'token')});

# Ask until the lease is granted; returns the token and how it was granted.
sub acquire
{
	my ($s, $resource, $holder, $ttl) = @_;

	for (1 .. 1000)
	{
		my ($status, $token, $how) = split /\|/, $s->ask("
			SELECT status, token, how
			FROM fence_acquire('$resource', '$holder', '$ttl', wait => '100 ms')");

		return ($token, $how) if $status eq 'granted';
	}
	die "'$resource' was not granted to $holder\n";
}

my $old = session($node);    # holder A
my $new = session($node);    # holder B

# ---------------------------------------------------------------------------
# C20: the old leader that was never told
my $WRITES = 100;
my ($t1) = acquire($old, 'leader', 'A', '1 s');
my $old_leader = script('old_leader',
	map {
		(   "INSERT INTO doc (resource, token, v) VALUES ('leader', $t1, 'A');",
			'SELECT pg_sleep(0.05);')
	} 1 .. $WRITES);
my $log_from = -s $node->logfile;
my ($run) = start_scripts($node, $old_leader);
my ($t2, $how) = acquire($new, 'leader', 'B', '1 minute');
is($how, 'takeover', 'old leader: the new one takes over');
is($new->try("INSERT INTO doc (resource, token, v) VALUES ('leader', $t2, 'B')"),
	'ok', 'old leader: the new one writes');
$run->finish;

my %refused = errors_by_code(slurp_file("$old_leader.err"));
my $written = $node->safe_psql('postgres',
	"SELECT count(*) FROM doc WHERE token = $t1");
note "old leader: $written writes accepted, ",
  join(', ', map { "$_: $refused{$_}" } sort keys %refused);
cmp_ok($written, '>', 0, 'old leader: wrote while its lease was good');
is_deeply(\%refused, { LF001 => $WRITES - $written },
	'old leader: everything else is refused as stale');
is(order_violations($node, 'doc'),
	0, 'old leader: none of its rows comes after the new leader');

my @log = split /\n/, slurp_file($node->logfile, $log_from);
is(scalar(grep { /ERROR:  fencing token/ } @log),
	$WRITES - $written, 'old leader: one error in the log for each refusal');
is_deeply([ grep { / (LOG|WARNING|FATAL|PANIC):  / } @log ],
	[], 'old leader: nothing else in the log');

my @times = sort { $a <=> $b } map {
	milliseconds(sub {
		$old->ask("INSERT INTO doc (resource, token, v) VALUES ('leader', $t1, 'A')");
	})
} 1 .. 51;
note "old leader: a refusal takes $times[25] ms (median)";
is($old->code, 'LF001', 'old leader: still refused');

# ---------------------------------------------------------------------------
# C01: the holder that slept longer than its lease
($t1) = acquire($old, 'stmt:88', 'A', '100 ms');
($t2, $how) = acquire($new, 'stmt:88', 'B', '1 minute');
cmp_ok($t2, '>', $t1, 'sleeper: the new token is greater');
$new->ask("INSERT INTO doc (resource, token, v) VALUES ('stmt:88', $t2, 'B')");
is($old->try("INSERT INTO doc (resource, token, v) VALUES ('stmt:88', $t1, 'A')"),
	'LF001', 'sleeper: INSERT');
is($old->try("UPDATE doc SET v = 'A', token = $t1 WHERE resource = 'stmt:88'"),
	'LF001', 'sleeper: UPDATE');
$old->ask("BEGIN; SELECT fence_check('stmt:88', $t1)");
is($old->code, 'LF001', 'sleeper: fence_check before a DELETE');
is($old->try("DELETE FROM doc WHERE resource = 'stmt:88'"),
	'25P02', 'sleeper: the DELETE does not run');
$old->ask('ROLLBACK');
is($old->try("DELETE FROM doc WHERE resource = 'stmt:88'"),
	'LF002', 'sleeper: nor does one without a token');
is($new->try("UPDATE doc SET v = 'B2', token = $t2 WHERE resource = 'stmt:88'"),
	'ok', 'sleeper: the new holder goes on');
is($node->safe_psql('postgres', "SELECT token, v FROM doc WHERE resource = 'stmt:88'"),
	"$t2|B2", 'sleeper: the rows are those of the new holder');

# ---------------------------------------------------------------------------
# C08: the holder whose backend is killed
my $victim = session($node);
($t1) = acquire($victim, 'mig', 'A', '3 s');
my $expires = $node->safe_psql('postgres',
	"SELECT expires_at FROM lockfence.leases WHERE resource = 'mig'");
$node->safe_psql('postgres',
	"SELECT pg_terminate_backend(@{[ $victim->pid ]}, 60000)");
is($new->ask("SELECT status, held_by FROM fence_acquire('mig', 'B', '2 s')"),
	'held|A', 'killed: the lease is not tied to the backend');
($t2, $how) = acquire($new, 'mig', 'B', '2 s');
cmp_ok($t2, '>', $t1, 'killed: the next token is greater');
is($how, 'takeover', 'killed: and it was a takeover');
is($node->safe_psql('postgres',
		"SELECT acquired_at >= '$expires' FROM lockfence.leases WHERE resource = 'mig'"),
	't', 'killed: granted after the lease had expired, and nobody cleaned up');
$victim->quit;

# ---------------------------------------------------------------------------
# C32: MERGE and UPDATE whose row has just been replaced
foreach my $case (
	[ 6, 'LF001', '8|A8', 'stale' ],
	[ 9, 'ok', '9|B2', 'rightful' ])
{
	my ($token, $outcome, $row, $who) = @$case;

	$new->ask("INSERT INTO doc (resource, token, v) VALUES ('mg $who', 5, 'x')");
	$old->ask("BEGIN; UPDATE doc SET token = 8, v = 'A8' WHERE resource = 'mg $who'");
	$new->send("
		MERGE INTO doc AS t USING (VALUES ('mg $who', $token)) AS s (resource, token)
			ON t.resource = s.resource
		WHEN MATCHED AND t.v = 'x' THEN UPDATE SET token = s.token, v = 'B'
		WHEN MATCHED THEN UPDATE SET token = s.token, v = 'B2'");
	ok($new->until_blocked, "MERGE, $who: waits for the row");
	is($old->try('COMMIT'), 'ok', "MERGE, $who: the other one commits");
	$new->finish;
	is($new->code || 'ok', $outcome, "MERGE, $who: then $outcome");
	is($node->safe_psql('postgres', "SELECT token, v FROM doc WHERE resource = 'mg $who'"),
		$row, "MERGE, $who: row");
}

$new->ask("INSERT INTO doc (resource, token, v) VALUES ('up', 5, 'x')");
$old->ask("BEGIN; UPDATE doc SET token = 8, v = 'A8' WHERE resource = 'up'");
$new->send("UPDATE doc SET token = 6, v = 'B' WHERE resource = 'up'");
ok($new->until_blocked, 'UPDATE: waits for the row');
$old->ask('COMMIT');
$new->finish;
is($new->code, 'LF001', 'UPDATE: then stale');
is($node->safe_psql('postgres', "SELECT token, v FROM doc WHERE resource = 'up'"),
	'8|A8', 'UPDATE: row');

# ---------------------------------------------------------------------------
# A takeover in the middle of a long UPDATE.  The statement is stopped after
# its first row, and goes on when the new holder has the lease.
$node->safe_psql(
	'postgres', q{
	CREATE FUNCTION stop_at(v text) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		IF v = 'two' THEN
			PERFORM pg_advisory_xact_lock_shared(42);
		END IF;
		RETURN v || ' by A';
	END $$});
my $gate = session($node);
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $resource = "long $level";

	($t1) = acquire($old, $resource, 'A', '20 ms');
	$old->ask("INSERT INTO doc (resource, token, v)
		SELECT '$resource', $t1, v FROM unnest('{one,two,three}'::text[]) AS v");
	is($old->code, '', "$resource: rows") or diag $old->message;
	$gate->ask('SELECT pg_advisory_lock(42)');
	$old->ask("SET default_transaction_isolation = '$level'");
	$old->send("UPDATE doc SET token = $t1, v = stop_at(v) WHERE resource = '$resource'");
	ok($old->until_blocked, "$resource: in the middle of the statement");

	my $took = milliseconds(sub {
		($t2, $how) = acquire($new, $resource, 'B', '1 minute');
	});
	note "$resource: lease taken over in $took ms";
	cmp_ok($t2, '>', $t1, "$resource: the new holder does not wait for the statement");
	is($new->try("INSERT INTO doc (resource, token, v) VALUES ('$resource', $t2, 'four')"),
		'ok', "$resource: and writes");
	is($node->safe_psql('postgres',
			"SELECT cardinality(pg_blocking_pids(@{[ $old->pid ]}))"),
		1, "$resource: while the statement is still open");

	$gate->ask('SELECT pg_advisory_unlock(42)');
	$old->finish;
	is($old->code, 'LF001', "$resource: the long UPDATE is stale");
	is($node->safe_psql('postgres',
			"SELECT string_agg(v, ' ' ORDER BY id) FROM doc WHERE resource = '$resource'"),
		'one two three four', "$resource: none of its rows was changed");
}
$old->ask('RESET default_transaction_isolation');

# ---------------------------------------------------------------------------
# C54: deadlocks.  The first statement of each script waits for all sessions.
my $together = 'SELECT pg_advisory_xact_lock_shared(0);';

sub run_sessions
{
	my ($name, $number, $transaction) = @_;
	my @files = map {
		my $session = $_;
		script("zombie_$session", $together, $transaction->($session));
	} 1 .. $number;
	my %errors;
	my $took = milliseconds(sub { %errors = errors_by_code(run_together($node, @files)) });

	note "$name: $took ms; ",
	  (join ', ', map { "$_: $errors{$_}" } sort keys %errors) || 'no errors';
	return %errors;
}

# Current tokens: a commit check locks in byte order, whatever order they were
# shown in.
$new->ask("SELECT fence_check('dl ' || n, 5) FROM generate_series(1, 50) AS n");
my %errors = run_sessions('opposite order', 10, sub {
	my ($session) = @_;
	my $direction = $session % 2 ? 'ASC' : 'DESC';

	return ("INSERT INTO doc (resource, token)
		SELECT 'dl ' || n, 5 FROM generate_series(1, 50) AS n ORDER BY n $direction;") x 40;
});
is_deeply(\%errors, {}, 'opposite order, current tokens: no deadlock');

# Raises lock in the order in which they are made.
%errors = run_sessions('opposite order, raising', 2, sub {
	my ($session) = @_;
	my $direction = $session % 2 ? 'ASC' : 'DESC';

	return map { "INSERT INTO doc (resource, token)
		SELECT 'dl ' || n, $_ FROM generate_series(1, 50) AS n ORDER BY n $direction;" } 6 .. 45;
});
delete @errors{qw(LF001 40P01)};
is_deeply(\%errors, {}, 'opposite order, raises: LF001 or a deadlock, nothing else');
is($node->safe_psql('postgres',
		"SELECT count(*), min(token), max(token) FROM lockfence.fence WHERE resource LIKE 'dl %'"),
	'50|45|45', 'opposite order, raises: no fence is lost');

# One resource, one token, ten sessions.
$new->ask("SELECT fence_check('one', 1)");
%errors = run_sessions('equal token', 10, sub {
	return ("BEGIN; SELECT fence_check('one', 1); INSERT INTO doc (resource) VALUES ('one'); COMMIT;") x 200;
});
is_deeply(\%errors, {}, 'one resource, equal tokens: no deadlock, no error');

# Half of them raise.
%errors = run_sessions('raisers', 10, sub {
	return (
		"SELECT fence_current('one') AS fence \\gset",
		"BEGIN; SELECT fence_check('one', :fence);",
		"INSERT INTO doc (resource) VALUES ('one'); COMMIT;",
		"SELECT fence_current('one') AS fence \\gset",
		"BEGIN; SELECT fence_check('one', :fence + 1);",
		"INSERT INTO doc (resource) VALUES ('one'); COMMIT;") x 100;
});
cmp_ok($errors{LF001} // 0, '>', 0, 'one resource, raisers: some are overtaken');
delete $errors{LF001};
is_deeply(\%errors, {}, 'one resource, raisers: no error but that, no deadlock');
is(order_violations($node, 'doc'), 0, 'in all of this no row is out of order');

# ---------------------------------------------------------------------------
# C55: 5000 writes of one resource with one token.  Commits that flush overlap.
my $control = q{SELECT next_multixact_id, next_multi_offset FROM pg_control_checkpoint()};

sub hot
{
	my ($name, $resource) = @_;
	my $versions = "SELECT string_agg(ctid || ' ' || xmin, ', ' ORDER BY resource)
		FROM lockfence.fence WHERE resource LIKE '$resource %'";
	my $size = "SELECT pg_relation_size('lockfence.fence')";

	$new->ask("SELECT fence_check('$resource $_', 7)") foreach 1 .. 16;
	my $versions_before = $new->ask($versions);
	my $size_before = $new->ask($size);
	$new->ask('CHECKPOINT');
	my ($id, $offset) = split /\|/, $new->ask($control);
	my %errors = run_sessions($name, 16, sub {
		my ($session) = @_;
		my $number = $name eq 'one resource' ? 1 : $session;

		return ("INSERT INTO doc (resource, token) VALUES ('$resource $number', 7);") x 313;
	});
	$new->ask('CHECKPOINT');
	my ($id_after, $offset_after) = split /\|/, $new->ask($control);
	my ($ids, $members) = ($id_after - $id, $offset_after - $offset);
	note "$name: $ids multixacts with $members members";

	is_deeply(\%errors, {}, "$name: every write is accepted");
	is($new->ask($versions), $versions_before, "$name: no fence is rewritten");
	is($new->ask($size), $size_before, "$name: the table of fences does not grow");
	return $members;
}

$node->safe_psql('postgres', 'ALTER SYSTEM SET fsync = on');
$node->reload;
my $shared = hot('one resource', 'hot');
my $apart = hot('16 resources', 'apart');
# Each commit lists those that commit at the same moment: at worst all sessions.
cmp_ok($shared, '<=', 16 * 5008, 'one resource: multixact members grow with transactions');
cmp_ok($apart, '<=', 500, '16 resources: no multixacts to speak of');

$_->quit foreach $old, $new, $gate;
$node->stop;
done_testing();
