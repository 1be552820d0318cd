# 300_incident_seen.pl - an operator sees what was refused and who is in the way
#
# The incident with its two endings, refused at the INSERT and refused at
# COMMIT, is in lockfence.rejections after the rollback, and in a log that a
# program can read.  A stale transaction that still holds the row lock which the
# new holder waits for is shown as stale from the acquire's commit on;
# pg_blocking_pids leads to it, and fence_evict ends it and nothing else.  What
# was prepared before a restart is shown although shared memory was emptied.
#
# Mutants that must make it fail: src/fence_report.c, record() behind the
# ereport of a refusal; src/fence_operator.c, fence_evict without "copy.token <
# row.token", or without comparing the resource; src/fence_stats_view.c,
# is_stale() without the blocker; the UNION ALL of lockfence.activity left out.
use strict;
use warnings;

use FindBin;
use JSON::PP;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node(
	'main', "shared_preload_libraries = 'lockfence'",
	'max_prepared_transactions = 5', 'logging_collector = on',
	"log_destination = 'stderr,jsonlog'", "log_directory = 'json'",
	"log_filename = 'log'");
$node->safe_psql(
	'postgres', q{
	CREATE TABLE statement_lines (account_id bigint, line int, amount numeric, token bigint);
	SELECT fence_protect('statement_lines', 'stmt:acct:{account_id}', 'token');
	CREATE ROLE worker LOGIN;
	SELECT fence_grant('worker');
	GRANT SELECT, INSERT, UPDATE ON statement_lines TO worker;
	CREATE ROLE operator LOGIN;
	SELECT fence_grant('operator', 'operator');
	GRANT pg_read_all_stats TO operator;
});
my $boss = session($node);
my $operator = session($node, user => 'operator');
my $worker3 =
  session($node, user => 'worker', application_name => "'worker-3'");
my $worker5 =
  session($node, user => 'worker', application_name => "'worker-5'");

# The token of a lease that ends almost at once, and that of who waits for it.
sub take
{
	my ($worker, $account, $holder) = @_;

	return $worker->ask("SELECT token FROM fence_acquire('stmt:acct:$account', '$holder', '10 ms', '30 s')");
}

# The last refusal, as one line.
sub last_refusal
{
	return $operator->ask(q{
		SELECT concat_ws('|', datname, usename, application_name, pid, resource, token,
			holder, fence, fence_holder, target, command, place, sqlstate, observed)
		FROM lockfence.rejections ORDER BY at DESC LIMIT 1});
}

# The incident
my $old = take($worker3, 88213, 'worker-3/7f1c');
my $new = take($worker5, 88213, 'worker-5/a90e');
is( $worker3->try(
		"INSERT INTO statement_lines SELECT 88213, g, 9.90, $old FROM generate_series(1, 37) g"),
	'LF001', 'the stale INSERT is refused');
is( last_refusal(),
	"postgres|worker|worker-3|$worker3->{pid}|stmt:acct:88213|$old|$new|worker-5/a90e|statement_lines|INSERT|statement|LF001|f",
	'and seen after its rollback');

# Refused at commit
$old = take($worker3, 4711, 'worker-3/7f1d');
$worker3->ask("BEGIN; INSERT INTO statement_lines VALUES (4711, 1, 9.90, $old)");
$new = take($worker5, 4711, 'worker-5/a90f');
is($worker3->try('COMMIT'), 'LF001', 'the stale COMMIT is refused');
is( last_refusal(),
	"postgres|worker|worker-3|$worker3->{pid}|stmt:acct:4711|$old|$new|worker-5/a90f|statement_lines|COMMIT|commit|LF001|f",
	'and seen as one at commit');

# Somebody stale in the way
my $seen = sub {
	my ($pid) = @_;
	return $operator->ask(
		"SELECT resource, token, fence, stale FROM lockfence.activity WHERE pid = $pid");
};
$old = take($worker3, 1, 'worker-3/7f1e');
is( $worker3->try("INSERT INTO statement_lines VALUES (1, 1, 1, $old)"),
	'ok', 'worker-3 inserts a row');
$worker3->ask("BEGIN; SELECT fence_check('stmt:acct:1', $old);
	UPDATE statement_lines SET amount = 2 WHERE account_id = 1");
is($seen->($worker3->{pid}), "stmt:acct:1|$old|$old|f", 'an open transaction');

# one with a lower token, of another resource
my $elsewhere = session($node, user => 'worker');
my $stale_elsewhere = take($elsewhere, 2, 'worker-7/1');
$elsewhere->ask("BEGIN; SELECT fence_check('stmt:acct:2', $stale_elsewhere)");
$worker5->ask('BEGIN');
$new = take($worker5, 1, 'worker-5/a910');
is($seen->($worker3->{pid}), "stmt:acct:1|$old|$old|f",
	'is not stale before the acquire is committed');
is($seen->($worker5->{pid}), "stmt:acct:1|$new|$old|f",
	'nor is who acquires');
is( $worker5->ask('COMMIT;
	SELECT 1'), '1', 'the acquire is committed');
is($seen->($worker3->{pid}), "stmt:acct:1|$old|$new|t",
	'and stale from then on');

my $bystander = session($node, user => 'worker');
$bystander->ask("BEGIN; SELECT fence_check('stmt:acct:1', $new)");
take($worker5, 2, 'worker-5/a911');
like($seen->($elsewhere->{pid}), qr/\|t$/, 'another one is stale elsewhere');

$worker5->send("BEGIN; SELECT fence_check('stmt:acct:1', $new);
	UPDATE statement_lines SET amount = 3, token = $new WHERE account_id = 1");
$worker5->until_blocked;
is( $operator->ask(
		"SELECT a.pid, a.resource FROM lockfence.activity a
		 WHERE a.stale AND a.pid = ANY (pg_blocking_pids($worker5->{pid}))"),
	"$worker3->{pid}|stmt:acct:1", 'pg_blocking_pids leads to the stale one');

is($bystander->try("SELECT fence_evict('stmt:acct:1')"),
	'42501', 'a worker must not evict');
is($operator->try("SELECT fence_evict('stmt:acct:1')"),
	'42501', 'nor an operator who may not end backends');
like($seen->($worker3->{pid}), qr/\|t$/, 'and nobody was');
$boss->ask('GRANT pg_signal_backend TO operator');
is($operator->ask("SELECT fence_evict('stmt:acct:1')"), '1', 'one is evicted');
$worker5->finish;
is($worker5->code, '', 'the new holder goes on');
is($worker5->try('COMMIT'), 'ok', 'and commits');
is( $operator->ask(
		"SELECT count(*) FROM pg_stat_activity WHERE pid IN ($bystander->{pid}, $elsewhere->{pid})"),
	'2', 'nobody else was ended');
is($bystander->try('COMMIT'), 'ok', 'not the other admission of the resource');
is($elsewhere->try('COMMIT'), 'LF001', 'nor who is stale for another one');
is($operator->ask("SELECT fence_evict('stmt:acct:1')"), '0', 'and that was all');
is($operator->ask('SELECT evictions FROM lockfence.stats'), '1', 'it is counted');

# The log
my %logged;
my $log = slurp_file($node->data_dir . '/json/log.json');
foreach my $line (split /\n/, $log)
{
	my $entry = decode_json($line);
	next unless ($entry->{state_code} // '') eq 'LF001';
	$entry->{detail} =~ /^Offered\ token\ (none|\d+)
		(?:\ of\ holder\ "((?:[^"]|"")*)")?
		\ for\ resource\ "((?:[^"]|"")*)";\ the\ fence\ is\ (none|not\ shown|\d+)
		(?:\ of\ holder\ "((?:[^"]|"")*)")?(?:,\ released)?;
		(?:\ table\ "((?:[^"]|"")*)";)?\ at\ (statement|commit)\.$/x
	  or fail("the log has a detail of another form: $entry->{detail}"), next;
	$logged{"$entry->{application_name}|$3|$6|$7"}++;
}
is($logged{'worker-3|stmt:acct:88213|public.statement_lines|statement'},
	1, 'the log has the refused INSERT');
is($logged{'worker-3|stmt:acct:4711|public.statement_lines|commit'},
	1, 'and the refused COMMIT');

# Prepared before a restart
my $token = $boss->ask("SELECT token FROM fence_acquire('stmt:p', 'worker-3/p', '10 ms')");
$boss->ask("BEGIN; SELECT fence_check('stmt:p', $token); PREPARE TRANSACTION 'night'");
is($operator->ask('SELECT gid, resource, stale FROM lockfence.activity'),
	'night|stmt:p|f', 'a prepared transaction');
$_->quit foreach $boss, $operator, $worker3, $worker5, $bystander, $elsewhere;
$node->restart;
$operator = session($node, user => 'operator');
is($operator->ask('SELECT gid, resource, stale FROM lockfence.activity'),
	'night||', 'is shown after a restart, too');
is($operator->ask('SELECT count(*) FROM lockfence.rejections'),
	'0', 'when the refusals are forgotten');
like(
	$node->safe_psql('postgres',
		"SELECT status, reason FROM fence_acquire('stmt:p', 'worker-5/p', '1 s')"),
	qr/^held\|prepared transaction "night"/,
	'it stands in the way');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'night'");
is($operator->ask('SELECT count(*) FROM lockfence.activity'), '0', 'and is gone');
$operator->quit;

done_testing();
