# 302_crash_of_backend.pl - a killed backend leaves statistics that work
#
# Sessions at full speed are refused, admitted and counted, when one of them is
# killed with SIGKILL, wherever it is: also in the middle of a change of shared
# memory.  The server restarts itself.  Then statistics, refusals and activity
# are empty, with a new "since", and nobody is held up by what was half written.
# Fences are as they were: nothing that decides was in there.
#
# Then one is held in the middle of such a change, of its place in the activity
# and of a place in the ring of refusals, before it is killed.  Meanwhile others
# read, are refused and are shown as before; what is half written is passed over.
#
# Mutants that must make it fail: before 17, src/fence_shared.c, find_memory() that
# does its work only once in the life of the postmaster; src/fence_activity.c,
# fence_activity_read() that copies again without end; src/fence_journal.c,
# read_place() that takes an odd state for a written place, or take_place() that
# tries the same number again until the place is free.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', "shared_preload_libraries = 'lockfence'",
	'restart_after_crash = on', 'fsync = off');
$node->safe_psql('postgres', "SELECT fence_check('r', 1000000)");

my @scripts = map {
	script("load_$_",
		map { ("SELECT fence_check('r', $_);", "SELECT fence_check('x' || $_ % 50, $_);") }
		  1 .. 20000)
} 1 .. 4;
my $since = '';
foreach my $round (1 .. 3)
{
	my @runs = start_scripts($node, @scripts);

	ok( $node->poll_query_until(
			'postgres',
			'SELECT stale_at_statement > 200 AND EXISTS (SELECT FROM lockfence.rejections) FROM lockfence.stats'),
		'refusals are counted');
	my ($pid, $now) = split /\|/, $node->safe_psql('postgres',
		"SELECT (SELECT min(pid) FROM pg_stat_activity WHERE query LIKE '%fence_check%' AND pid <> pg_backend_pid()), since
		 FROM lockfence.stats");
	isnt($now, $since, 'counted since the last crash only');
	$since = $now;
	is(kill('KILL', $pid), 1, 'a session is killed');
	$_->finish foreach @runs;
	ok($node->poll_query_until('postgres', 'SELECT true'), 'the server is back');
	is( $node->safe_psql(
			'postgres',
			"SELECT checks, stale_at_statement, since <> '$since',
				(SELECT count(*) FROM lockfence.rejections), (SELECT count(*) FROM lockfence.activity)
			 FROM lockfence.stats"),
		'0|0|t|0|0',
		'and begins to count anew');
}
is($node->safe_psql('postgres', "SELECT fence_current('r')"),
	'1000000', 'the fence is there');

# Held in the middle of a change: what the session does, and which rows of the
# view show it then and once it has gone on.
my %middle = (
	'activity-write' => {
		before => "SELECT fence_check('own', 1)",
		change => "SELECT fence_check('own', 2)",
		view => "SELECT count(*) FROM lockfence.activity WHERE resource = 'own'",
	},
	'journal-write' => {
		before => 'SELECT 1',
		change => "SELECT fence_check('r', 3)",
		view => 'SELECT count(*) FROM lockfence.rejections WHERE token = 3',
	});
foreach my $point (sort keys %middle)
{
	foreach my $end (qw(release kill))
	{
		my $gate = session($node);
		my $held = session($node);

		$gate->ask('SELECT pg_advisory_lock(7001, 0)');
		$held->ask("BEGIN; $middle{$point}{before}; SET lockfence.debug_point = '$point'");
		$held->send($middle{$point}{change});
		ok($held->until_blocked, "$point: held");
		is($node->safe_psql('postgres', "SET statement_timeout = '30 s'; $middle{$point}{view}"),
			'0', "$point: half a change is not shown");

		# As many refusals as the ring has places: all but one come round to it.
		my @others = run_scripts($node,
			map { script("other_$_", ("BEGIN; SELECT fence_check('shown', 1);",
				"SELECT count(*) FROM lockfence.activity;", 'COMMIT;',
				("SELECT fence_check('r', 1);") x 300)) } 1 .. 4);
		is_deeply({ errors_by_code(@others) }, { LF001 => 1200 }, "$point: others are refused");
		is( $node->safe_psql('postgres',
				"SET statement_timeout = '30 s'; SELECT count(*), min(token) FROM lockfence.rejections"),
			'256|1', "$point: the others' are");
		if ($end eq 'release')
		{
			$gate->ask('SELECT pg_advisory_unlock(7001, 0)');
			$held->finish;
			is($node->safe_psql('postgres', $middle{'activity-write'}{view}), '1',
				"$point: all of it is, once it is done")
			  if $point eq 'activity-write';
			$held->ask('ROLLBACK');
		}
		else
		{
			my $since = $node->safe_psql('postgres', 'SELECT since FROM lockfence.stats');

			is(kill('KILL', $held->pid), 1, "$point: killed");
			ok( $node->poll_query_until('postgres',
					"SELECT since <> '$since' AND checks = 0 FROM lockfence.stats"),
				"$point: the server is back");
			is($node->safe_psql('postgres', $middle{$point}{view}), '0', "$point: and knows nothing");
		}
		$_->quit foreach $gate, $held;
	}
}

done_testing();
