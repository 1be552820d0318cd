# 302_crash_of_backend.pl - a killed backend leaves statistics that work
#
# Sessions at full speed are refused, admitted and counted, when one of them is
# killed with SIGKILL, wherever it is: also in the middle of a change of shared
# memory.  The server restarts itself.  Then statistics, refusals and activity
# are empty, with a new "since", and nobody is held up by what was half written.
# Fences are as they were: nothing that decides was in there.
#
# Mutant that must make it fail, before 17: src/fence_shared.c, find_memory() that
# does its work only once in the life of the postmaster.
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

done_testing();
