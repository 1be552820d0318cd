# 008_serializable.pl - serializable writers of different resources
#
# Under SERIALIZABLE a read with an MVCC snapshot leaves predicate locks, on
# whole pages when it comes to an index.  All fences lie side by side on few
# pages, so writers that have nothing to do with one another would fail each
# other.  Here each session has resources and a table of its own: whatever
# conflict there is, lockfence's tables have made it.  The server remembers ten
# finished transactions for each possible connection, and lumps older ones
# together, which makes conflicts of its own if a session stands still for a
# second; so let it remember all of them.
#
# Wrong result it would show: 40001 for a transaction that conflicts with
# nothing.
#
# Mutant that makes it fail: src/fence_table.c, find_live() that also calls
# PredicateLockRelation(table->heap, GetTransactionSnapshot()).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $SESSIONS = 6;
my $SECONDS = 6;
my $MOST = 6000;    # rounds in a session's script

my $node = fence_node('main', 'default_transaction_isolation = serializable',
	'max_connections = 3000');

# One round of a session: an equal token, a raise, a first use, a lease.  Reads
# and writes alternate, and transactions overlap at their waits.
sub round
{
	my ($session, $round) = @_;
	my @pause = $round % 5 ? () : 'SELECT pg_sleep(0.002);';

	return (
		"BEGIN; SELECT fence_check('equal $session', 1);", @pause,
		"INSERT INTO own_$session (resource) VALUES ('equal $session'); COMMIT;",

		"BEGIN; INSERT INTO own_$session VALUES ('raise $session', $round);", @pause,
		"UPDATE own_$session SET token = $round WHERE resource = 'raise $session' AND token < $round;",
		"DELETE FROM own_$session WHERE resource = 'raise $session' AND token < $round; COMMIT;",

		"BEGIN; SELECT fence_check('equal $session', 1);", @pause,
		"INSERT INTO own_$session VALUES ('new $session $round', 1); COMMIT;",

		"SELECT token FROM fence_acquire('lease $session', 'H', '1 h') \\gset",
		"BEGIN; INSERT INTO own_$session VALUES ('lease $session', :token);", @pause,
		"SELECT fence_renew('lease $session', :token, 'H', '1 h'); COMMIT;",
		"SELECT fence_release('lease $session', :token, 'H');",
		"SELECT token FROM fence_acquire('lease $session', 'H', '1 h') \\gset",
		"SELECT fence_issue('issue $session', 'H');",
		"SELECT clock_timestamp() > :'deadline' AS over \\gset",
		'\if :over', '\q', '\endif');
}

my @files;
foreach my $session (1 .. $SESSIONS)
{
	$node->safe_psql('postgres', "
		SET default_transaction_isolation = 'read committed';
		CREATE TABLE own_$session (resource text NOT NULL, token bigint);
		SELECT fence_protect('own_$session', '{resource}', 'token');
		SELECT fence_check('equal $session', 1)");
	push @files, script("serializable_$session",
		'SELECT pg_advisory_xact_lock_shared(0);',
		"SELECT clock_timestamp() + '$SECONDS s' AS deadline \\gset",
		map { round($session, $_) } 1 .. $MOST);
}
# And somebody who sets rules for prefixes that nobody uses.
push @files, script('serializable_rules',
	'SELECT pg_advisory_xact_lock_shared(0);',
	map { (
		"BEGIN; SELECT fence_accept_external('unused ' || $_ % 7, $_ % 2 = 0);",
		'SELECT pg_sleep(0.01); COMMIT;') } 1 .. 50 * $SECONDS);
my @errors = run_together($node, @files);
my %errors = errors_by_code(@errors);
my $transactions = $node->safe_psql('postgres',
	"SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'");
note "$SESSIONS sessions, $transactions transactions, ",
  (join ', ', map { "$_: $errors{$_}" } sort keys %errors) || 'no errors';
is_deeply(\%errors, {}, 'not one error, 40001 least of all')
  or diag(explain [ map { (grep { /ERROR|DETAIL/ } split /^/)[ 0 .. 3 ] } @errors ]);
is($node->safe_psql('postgres', 'SHOW default_transaction_isolation'),
	'serializable', 'the sessions were serializable');

# Would conflicts have shown?  First uses of a table that is read with SQL.
$node->safe_psql('postgres', 'CREATE TABLE shared (resource text PRIMARY KEY)');
my %sql = errors_by_code(run_together($node, map {
	my $session = $_;
	script("shared_$session",
		'SELECT pg_advisory_xact_lock_shared(0);',
		map { (
			"BEGIN; SELECT count(*) FROM shared WHERE resource = 'r $session $_';",
			'SELECT pg_sleep(0.002);',
			"INSERT INTO shared VALUES ('r $session $_'); COMMIT;") } 1 .. 50)
} 1 .. $SESSIONS));
note 'a table read with SQL: ', (join ', ', map { "$_: $sql{$_}" } sort keys %sql) || 'no errors';
cmp_ok($sql{'40001'} // 0, '>', 0, 'a table that is read with SQL would have failed them');

$node->stop;
done_testing();
