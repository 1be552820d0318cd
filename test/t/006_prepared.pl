# 006_prepared.pl - prepared transactions, and a restart in between
#
# PREPARE TRANSACTION is the last moment at which a transaction can be refused:
# COMMIT PREPARED may come from anywhere, at any time.  So the commit check is
# made there, and its lock on the fence stays until the second phase.
#
# Wrong results it would show: a stale transaction is prepared and then
# committed; a prepared transaction that is still valid is overtaken; a fence
# that is locked is waited for without end, or the answer does not say by what;
# admissions of the prepared transaction serve the next one of the backend; a
# token is issued twice because its first transaction was rolled back.
#
# Mutants that make it fail, in src/fence_commit.c: xact_callback() without the
# commit check at XACT_EVENT_PRE_PREPARE, or without forgetting at
# XACT_EVENT_PREPARE (the backend crashes or keeps admissions);
# check_admissions() without fence_right_refuse_prepare().
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', 'max_prepared_transactions = 5');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE doc (resource text NOT NULL, token bigint);
	SELECT fence_protect('doc', '{resource}', 'token')});

my ($s1, $s2);

sub connect_both
{
	$_->quit foreach grep { defined } $s1, $s2;
	($s1, $s2) = (session($node), session($node));
	return;
}

sub restart
{
	my ($mode) = @_;

	$_->quit foreach $s1, $s2;
	($s1, $s2) = ();
	$node->stop($mode);
	$node->start;
	return connect_both();
}

sub fence { return $s2->ask("SELECT fence_current('$_[0]')") }
sub prepared { return $s2->ask('SELECT count(*) FROM pg_prepared_xacts') }
sub rows { return $s2->ask("SELECT count(*) FROM doc WHERE resource = '$_[0]'") }

# status, reason and, if granted, how
sub acquire
{
	my ($s, $resource, $holder, $wait) = @_;

	return $s->ask("SELECT status, reason, how
		FROM fence_acquire('$resource', '$holder', '1 h', wait => '$wait')");
}

connect_both();

# ---------------------------------------------------------------------------
# A raise is prepared
is( $s1->try("BEGIN; INSERT INTO doc VALUES ('raise', 5); PREPARE TRANSACTION 'g1'"),
	'ok', 'first use: prepared');
is(fence('raise'), '', 'first use: no fence yet');
is($s1->try("DELETE FROM doc WHERE resource = 'raise'"),
	'ok', 'first use: its rows are not there yet');
$s1->ask("SET lock_timeout = '200ms'");
is($s1->try("INSERT INTO doc VALUES ('raise', 6)"),
	'55P03', 'first use: the next one waits for it');
is($s1->try("INSERT INTO doc VALUES ('raise', 5)"),
	'55P03', 'first use: with an equal token, too');
$s1->ask('RESET lock_timeout');
is($s2->try("COMMIT PREPARED 'g1'"), 'ok', 'first use: committed by another session');
is(fence('raise'), 5, 'first use: fence');
is($s1->try("DELETE FROM doc WHERE resource = 'raise'"),
	'LF002', 'first use: the backend that prepared it has no admission');
is($s1->try("INSERT INTO doc VALUES ('raise', 4)"), 'LF001', 'first use: 4 is stale');
is($s1->try("INSERT INTO doc VALUES ('raise', 6)"), 'ok', 'first use: 6 is not');

$s1->ask("BEGIN; SELECT fence_check('undone', 9); PREPARE TRANSACTION 'g1'");
is($s1->try("ROLLBACK PREPARED 'g1'"), 'ok', 'rolled back');
is($s1->try("SELECT fence_check('undone', 3)"), 'ok', 'rolled back: a smaller token may come');

# A higher token of a fence that is there
$s1->ask("BEGIN; INSERT INTO doc VALUES ('raise', 8); PREPARE TRANSACTION 'g1'");
$s2->ask("SET lock_timeout = '200ms'");
is($s2->try("SELECT fence_check('raise', 9)"), '55P03', 'raise: the next one waits for it');
is($s2->try("SELECT fence_check('raise', 6)"), '55P03',
	'raise: so does the commit check of the old token');
$s2->ask('RESET lock_timeout');
$s2->ask("COMMIT PREPARED 'g1'");
is(fence('raise'), 8, 'raise: committed');

# ---------------------------------------------------------------------------
# A stale transaction cannot be prepared
foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $resource = "stale $level";

	$s2->ask("SELECT fence_check('$resource', 1)");
	$s1->ask("BEGIN ISOLATION LEVEL $level; INSERT INTO doc VALUES ('$resource', 1)");
	$s2->ask("SELECT fence_check('$resource', 2)");
	is($s1->try("PREPARE TRANSACTION 'g1'"), 'LF001', "stale, $level: refused");
	is(prepared(), 0, "stale, $level: nothing is prepared")
	  or $s1->ask("ROLLBACK PREPARED 'g1'");
	is(rows($resource), 0, "stale, $level: nothing was written");
	is($s1->try("INSERT INTO doc VALUES ('$resource', 2)"),
		'ok', "stale, $level: the session can go on");
}

# ---------------------------------------------------------------------------
# A valid one keeps others from the resource
$s1->ask("SELECT fence_acquire('valid', 'A', '20 ms')");
my $t1 = fence('valid');
$s1->ask("BEGIN; INSERT INTO doc VALUES ('valid', $t1); PREPARE TRANSACTION 'valid 1'");
is($s1->code, '', 'valid: prepared');
is($s1->try("DELETE FROM doc WHERE resource = 'raise'"), 'LF002',
	'valid: nothing is left in its backend');
is($s1->try("BEGIN; INSERT INTO doc VALUES ('valid', $t1); COMMIT"),
	'ok', 'valid: the same token passes beside it');
$node->poll_query_until('postgres', "SELECT NOT live FROM fence_status('valid')");
my $answer;
note 'held, without a wait: ',
  milliseconds(sub { $answer = acquire($s2, 'valid', 'B', '0') }), ' ms';
is($answer, 'held|prepared transaction "valid 1"|', 'valid: held, and by what');
my $took = milliseconds(sub { $answer = acquire($s2, 'valid', 'B', '300 ms') });
note "held, with a wait of 300 ms: $took ms";
is($answer, 'held|prepared transaction "valid 1"|', 'valid: held after the wait');
cmp_ok($took, '>=', 300, 'valid: which took its time');

foreach my $mode ('fast', 'immediate')
{
	restart($mode);
	is(prepared(), 1, "valid, $mode restart: still prepared");
	is(acquire($s2, 'valid', 'B', '0'),
		'held|prepared transaction "valid 1"|', "valid, $mode restart: held, and by what");
}
is($s1->try("COMMIT PREPARED 'valid 1'"), 'ok', 'valid: committed after the restarts');
is(acquire($s2, 'valid', 'B', '0'), 'granted||takeover', 'valid: then the lease is free');
is(rows('valid'), 2, 'valid: its row is there');
cmp_ok(fence('valid'), '>', $t1, 'valid: the next token is greater');
is($s1->try("INSERT INTO doc VALUES ('valid', $t1)"), 'LF001', 'valid: and the old one stale');

# A waiter is granted when the second phase comes.
$s1->ask("SELECT fence_acquire('waiter', 'A', '20 ms')");
my $waited = fence('waiter');
$s1->ask("BEGIN; SELECT fence_check('waiter', $waited); INSERT INTO doc VALUES ('waiter', NULL); PREPARE TRANSACTION 'g1'");
$s2->send("SELECT status, how FROM fence_acquire('waiter', 'B', '1 h', wait => '1 min')");
$node->poll_query_until('postgres',
	"SELECT state = 'active' AND query ~ 'waiter' FROM pg_stat_activity WHERE pid = @{[ $s2->pid ]}");
$took = milliseconds(sub {
	$s1->ask("ROLLBACK PREPARED 'g1'");
	$answer = $s2->finish;
});
note "waiter granted after $took ms";
is($answer, 'granted|takeover', 'waiter: granted after ROLLBACK PREPARED');
is(rows('waiter'), 0, 'waiter: no row of the one that was rolled back');

# ---------------------------------------------------------------------------
# A grant that is itself prepared
$s1->ask('BEGIN');
my $lost = $s1->ask("SELECT token FROM fence_acquire('grant', 'A', '1 h')");
is($s1->try("PREPARE TRANSACTION 'grant 1'"), 'ok', 'grant: prepared');
is(acquire($s2, 'grant', 'B', '0'), 'held|prepared transaction "grant 1"|', 'grant: held');
restart('immediate');
is(acquire($s2, 'grant', 'B', '0'), 'held|prepared transaction "grant 1"|',
	'grant: held after a crash');
is($s1->try("ROLLBACK PREPARED 'grant 1'"), 'ok', 'grant: rolled back');
is(acquire($s2, 'grant', 'B', '0'), 'granted||new', 'grant: then granted to another');
cmp_ok(fence('grant'), '>', $lost, 'grant: its token is not issued again');
is($s1->try("SELECT fence_check('grant', $lost)"), 'LF001', 'grant: and is refused');

$s1->ask('BEGIN');
my $kept = $s1->ask("SELECT token FROM fence_acquire('grant 2', 'A', '1 h')");
$s1->ask("PREPARE TRANSACTION 'grant 2'");
$s2->ask("COMMIT PREPARED 'grant 2'");
is($s2->ask("SELECT token, how FROM fence_acquire('grant 2', 'A', '1 h')"),
	"$kept|again", 'grant: committed, the lease is the holder\'s');

# ---------------------------------------------------------------------------
# Admissions of a rolled back savepoint do not count, and many at once do
$s2->ask("SELECT fence_check('sub', 1)");
$s1->ask("BEGIN; SAVEPOINT s; SELECT fence_check('sub', 1); ROLLBACK TO s; INSERT INTO doc VALUES ('other', 1)");
$s2->ask("SELECT fence_check('sub', 2)");
is($s1->try("PREPARE TRANSACTION 'g1'"), 'ok', 'savepoint: what it admitted is not checked');
$s1->ask("COMMIT PREPARED 'g1'");

$s2->ask("SELECT fence_check('many ' || n, 1) FROM generate_series(1, 1000) AS n");
$s1->ask("BEGIN; SELECT fence_check('many ' || n, 1) FROM generate_series(1, 1000) AS n; INSERT INTO doc VALUES ('many 1', 1)");
is($s1->try("PREPARE TRANSACTION 'g1'"), 'ok', '1000 resources: prepared');
$s2->ask("SET lock_timeout = '200ms'");
is($s2->try("SELECT fence_check('many 777', 2)"), '55P03', '1000 resources: all are kept');
is($s2->try("SELECT fence_check('many 777', 1)"), 'ok', '1000 resources: for their own token');
$s2->ask("ROLLBACK PREPARED 'g1'");
is($s2->try("SELECT fence_check('many 777', 2)"), 'ok', '1000 resources: free again');

# ---------------------------------------------------------------------------
# Whoever can create a table can show a token through it, but not keep the fence
# of somebody else's resource locked.
$node->safe_psql('postgres', "CREATE ROLE regress_stranger LOGIN;
	CREATE SCHEMA stranger AUTHORIZATION regress_stranger; SELECT fence_check('target', 5)");
my $stranger = session($node, user => 'regress_stranger');
$stranger->ask("CREATE TABLE stranger.own (k bigint); SELECT fence_protect('stranger.own', 'target', 'k')");
is($stranger->try('INSERT INTO stranger.own VALUES (5)'), 'ok', 'stranger: the token is shown');
is($stranger->try("BEGIN; INSERT INTO stranger.own VALUES (5); PREPARE TRANSACTION 'stranger'"),
	'42501', 'stranger: and not prepared');
is($stranger->try("ROLLBACK; BEGIN; INSERT INTO stranger.own VALUES (5); DROP TABLE stranger.own; PREPARE TRANSACTION 'stranger'"),
	'42501', 'stranger: nor with the table gone');
is($stranger->try("ROLLBACK; BEGIN; CREATE TABLE stranger.plain (v int); PREPARE TRANSACTION 'stranger'; ROLLBACK PREPARED 'stranger'"),
	'ok', 'stranger: anything else is');

# The right counts of whoever shows the token, before or after the row, but not
# for a row that was rolled back.
$node->safe_psql('postgres', q{
	CREATE FUNCTION show(r text, t bigint) RETURNS boolean LANGUAGE sql SECURITY DEFINER
		AS 'SELECT fence_check(r, t)';
	CREATE FUNCTION put() RETURNS void LANGUAGE sql SECURITY DEFINER
		AS 'INSERT INTO stranger.own VALUES (5)';
	GRANT EXECUTE ON FUNCTION fence_acquire TO regress_stranger;
	CREATE TABLE stranger.leased (k bigint);
	ALTER TABLE stranger.leased OWNER TO regress_stranger;
	SELECT fence_protect('stranger.leased', 'leased', 'k')});
my $lease = $stranger->ask("SELECT token FROM fence_acquire('leased', 'h', '1 h')");
my $row = 'INSERT INTO stranger.own VALUES (5)';
foreach my $case (
	[ '42501', 'a lease of an earlier transaction', "INSERT INTO stranger.leased VALUES ($lease)" ],
	[ 'ok', 'the lease confirmed after the row',
		"INSERT INTO stranger.leased VALUES ($lease); SELECT FROM fence_acquire('leased', 'h', '1 h')" ],
	[ 'ok', 'the lease confirmed before the row',
		"SELECT FROM fence_acquire('leased', 'h', '1 h'); INSERT INTO stranger.leased VALUES ($lease)" ],
	[ 'ok', 'shown by right after the row', "$row; SELECT show('target', 5)" ],
	[ 'ok', 'shown by right before the row', "SELECT show('target', 5); $row" ],
	[ 'ok', 'the row was rolled back', "SAVEPOINT a; $row; ROLLBACK TO a" ],
	[ '42501', 'what was shown by right was rolled back',
		"$row; SAVEPOINT a; SELECT show('target', 5); ROLLBACK TO a" ],
	[ '42501', 'a row before was rolled back',
		"SAVEPOINT a; SELECT show('target', 5); ROLLBACK TO a; $row" ],
	[ 'ok', 'written by right', 'SELECT put()' ])
{
	my ($expected, $what, $sql) = @$case;

	is($stranger->try("BEGIN; $sql; PREPARE TRANSACTION 'stranger'"), $expected, "stranger: $what");
	$stranger->ask($expected eq 'ok' ? "ROLLBACK PREPARED 'stranger'" : 'ROLLBACK');
}
$node->safe_psql('postgres', "SELECT fence_grant('regress_stranger')");
is($stranger->try("BEGIN; INSERT INTO stranger.own VALUES (5); PREPARE TRANSACTION 'stranger'; ROLLBACK PREPARED 'stranger'"),
	'ok', 'no stranger any more');
$stranger->quit;

is(prepared(), 0, 'nothing is left');
$_->quit foreach $s1, $s2;
$node->stop;

done_testing();
