# 303_observe_switched.pl - from observe to enforce and back under load
#
# Four workers write rows with rightful and with stale tokens while the guard of
# their table is switched between the two modes, with lock_timeout and repeated
# until it works.  Every rightful row must be there; every stale one must either
# have been refused, or be there and have been observed.  Switching takes no
# lock that keeps readers out, and gives up when a writer stays open.  What
# became stale before its commit is observed there.
#
# Mutants that must make it fail: src/fence_spec.c, mark_invalid() that marks
# nothing; src/fence_commit.c, check_admission() that leaves out the observed
# ones; src/fence_protect.c, AccessExclusiveLock.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $ROWS = 6000;    # of each worker

my $node = fence_node('main', "shared_preload_libraries = 'lockfence'",
	'fsync = off', 'lockfence.observed_log_rate = 0');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE line (resource text, token bigint, id int);
	SELECT fence_protect('line', '{resource}', 'token');
	SELECT fence_check('r' || g, 10) FROM generate_series(1, 4) g;
	SELECT fence_stats_reset();
});
my $boss = session($node);

# Set the mode as an operator should: a queue of writers must not form behind
# somebody who waits for one that is slow.
sub switch_to
{
	my ($mode) = @_;

	$boss->ask("SET lock_timeout = '100ms'");
	for (1 .. 100)
	{
		my $code = $boss->try("SELECT fence_protect('line', '{resource}', 'token', mode => '$mode')");
		return if $code eq 'ok';
		die "fence_protect: $code" if $code ne '55P03';
	}
	die "the table was never free\n";
}

my @scripts = map {
	my $worker = $_;
	script(
		"worker_$worker",
		map {
			my ($token, $id) = ($_ % 2 ? 10 : 9, $worker * 100000 + $_);
			$_ % 3
			  ? "INSERT INTO line VALUES ('r$worker', $token, $id);"
			  : "BEGIN; INSERT INTO line VALUES ('r$worker', $token, $id); UPDATE line SET token = $token WHERE id = $id; COMMIT;"
		} 1 .. $ROWS)
} 1 .. 4;
my @runs = start_scripts($node, @scripts);
my $switches = 0;
my $workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
$node->poll_query_until('postgres', 'SELECT count(*) > 100 FROM line')
  or die "the workers do not work\n";
while ($boss->ask($workers))
{
	switch_to($switches++ % 2 ? 'enforce' : 'observe');
}
switch_to('enforce');
$_->finish foreach @runs;
my %errors = errors_by_code(map { slurp_file("$_.err") } @scripts);
note "$switches switches; ", join(', ', map { "$_ $errors{$_}" } sort keys %errors);
cmp_ok($switches, '>', 10, 'the mode was switched under load');
my $refused = delete $errors{LF001};
is_deeply(\%errors, {}, 'nothing but stale tokens was refused');
is($boss->ask('SELECT count(*) FROM line WHERE token = 10'),
	4 * $ROWS / 2, 'no rightful row is lost');
my $let_pass = $boss->ask('SELECT count(*) FROM line WHERE token = 9');
is($let_pass + $refused, 4 * $ROWS / 2, 'every stale one is there or was refused');
cmp_ok($let_pass, '>', 0, 'some were let pass');
cmp_ok($refused, '>', 0, 'some were refused');
is($boss->ask('SELECT stale_at_statement FROM lockfence.stats'),
	$refused, 'the refused ones are counted');

# An UPDATE in the same transaction is observed once more, if it still was.
cmp_ok($boss->ask('SELECT observed FROM lockfence.stats'),
	'>=', $let_pass, 'so are those observed');

# Which locks
my $reader = session($node);
my $writer = session($node);
$boss->ask("BEGIN; SELECT fence_protect('line', '{resource}', 'token', mode => 'observe')");
is( $boss->ask(
		q{SELECT string_agg(DISTINCT mode, ' ' ORDER BY mode) FROM pg_locks
		  WHERE relation = 'line'::regclass AND pid = pg_backend_pid()}),
	'ShareRowExclusiveLock',
	'switching takes no stronger lock than CREATE TRIGGER');
cmp_ok($reader->ask('SELECT count(*) FROM line'), '>', 0, 'readers go on');
$writer->send("INSERT INTO line VALUES ('r1', 9, 1)");
$writer->until_blocked;
$boss->ask('COMMIT');
$writer->finish;
is($writer->code, '', 'a writer waits, and is observed');
$writer->ask("BEGIN; INSERT INTO line VALUES ('r1', 10, 2)");
is($boss->try("SELECT fence_protect('line', '{resource}', 'token')"),
	'55P03', 'lock_timeout ends the wait for an open writer');

# Observed at commit
$boss->ask("SELECT fence_check('r1', 11)");
is($writer->try('COMMIT'), 'ok', 'an observed transaction commits');
is( $boss->ask(
		'SELECT resource, token, fence, target, command, place, sqlstate, observed
		 FROM lockfence.rejections ORDER BY at DESC LIMIT 1'),
	'r1|10|11|line|COMMIT|commit|LF001|t',
	'although it was stale by then');
is($boss->ask("SELECT count(*) FROM pg_locks WHERE relation = 'lockfence.fence'::regclass AND pid <> pg_backend_pid()"),
	'0', 'and has locked nothing');
is($boss->ask("INSERT INTO line VALUES ('r1', 50, 3), ('new', 7, 4); SELECT fence_current('r1'), fence_current('new')"),
	'11|', 'observed tokens raise nothing');
$_->quit foreach $boss, $reader, $writer;

done_testing();
