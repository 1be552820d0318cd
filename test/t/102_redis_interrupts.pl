# 102_redis_interrupts.pl - a Redis that does not answer holds nobody up
#
# Redis is stopped, so that the kernel takes connections and requests and
# nothing ever answers. Whatever ends a statement ends the wait at once, in
# this session and in others; on a standby and in read-only transactions Redis
# is not even asked.
#
# Wrong result it would show: a backend that ignores cancels, or DROP DATABASE
# that hangs; an answer to a cancelled call taken for the next one's; a lease
# taken by a statement that cannot write.
#
# Mutants that make it fail: redis_link.c, wait_for() without
# CHECK_FOR_INTERRUPTS(); fence_acquire.c, acquire_from_redis() before
# prevent_unless_writable().
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use RedisTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = fence_node('main', 'fsync = off');
need_redis($node);

my $redis = redis_server();
$redis->create_server($node, 'r', timeout => 30000);
$redis->create_server($node, 'new', timeout => 30000, connect_timeout => 30000,
	keep_connections => 'off');
$redis->create_server($node, 'short', timeout => 700);
my $s = session($node);
my $other = session($node);

is(acquire($s, 'warm', 'alice')->{status}, 'granted', 'before');
is(acquire($s, 'warm:short', 'alice', authority => 'short')->{status}, 'granted', 'before');
$redis->signal('STOP');

my $ms = milliseconds(sub {
	is(acquire($s, 'a', 'alice', authority => 'short')->{status}, 'unknown', 'its own time-out');
});
cmp_ok($ms, '<', 5000, 'ends the call');
note "timeout 700: $ms ms";

foreach my $authority ('r', 'new')
{
	my $waiting = sub {
		$node->poll_query_until('postgres',
			"SELECT wait_event_type = 'Extension' AND state = 'active' FROM pg_stat_activity WHERE pid = " . $s->pid);
	};
	my $call = "SELECT status FROM fence_acquire('cancelled', 'mallory', '60 s', '0', '$authority')";

	$s->ask("SET statement_timeout = '300ms'");
	$ms = milliseconds(sub { is($s->try($call), '57014', "$authority: statement_timeout") });
	$s->ask('RESET statement_timeout');
	cmp_ok($ms, '<', 5000, 'at once');
	note "statement_timeout 300: $ms ms";

	$s->send($call);
	$waiting->();
	my $start = time;
	$other->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
	$s->finish;
	is($s->code, '57014', "$authority: cancel");
	cmp_ok(time - $start, '<', 5, 'at once');
	note sprintf 'cancel: %d ms', 1000 * (time - $start);

	# Another session's DROP DATABASE needs every backend to answer.
	$node->safe_psql('postgres', 'CREATE DATABASE unrelated');
	$s->send($call);
	$waiting->();
	$ms = milliseconds(sub { $node->safe_psql('postgres', 'DROP DATABASE unrelated') });
	cmp_ok($ms, '<', 10000, "$authority: DROP DATABASE of another session");
	note "DROP DATABASE: $ms ms";
	$other->ask('SELECT pg_cancel_backend(' . $s->pid . ')');
	$s->finish;
}

{
	my $victim = session($node);
	$victim->send("SELECT fence_acquire('terminated', 'alice', '60 s', '0', 'r')");
	$node->poll_query_until('postgres',
		"SELECT wait_event_type = 'Extension' AND state = 'active' FROM pg_stat_activity WHERE pid = " . $victim->pid);
	my $start = time;
	$other->ask('SELECT pg_terminate_backend(' . $victim->pid . ')');
	ok($node->poll_query_until('postgres',
			'SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = ' . $victim->pid), 'terminate');
	cmp_ok(time - $start, '<', 5, 'at once');
	note sprintf 'terminate: %d ms', 1000 * (time - $start);
	$victim->quit;
}

# An error inside a block of PL/pgSQL leaves the connection unusable as well.
$s->ask("SET statement_timeout = '200ms'");
$s->ask("DO \$\$ BEGIN PERFORM fence_acquire('caught', 'mallory', '60 s', '0', 'r');"
	  . ' EXCEPTION WHEN query_canceled THEN NULL; END $$');
is($s->code, '', 'a cancel that is caught');
$s->ask('RESET statement_timeout');

$redis->signal('CONT');
foreach my $authority ('r', 'new', 'short')
{
	my $row = acquire($s, "after:$authority", 'alice', authority => $authority);
	is("$row->{status} $row->{how}", 'granted new', "$authority: the next call gets its own answer");
	is($redis->command('GET', "after:$authority"), 'alice', 'and its own lease');
}
is($s->ask("SELECT count(*) FROM lockfence.fence WHERE holder = 'mallory'"), 0,
	'no call that was ended has raised a fence');

# Nothing is asked where nothing can be written.
my $asked = sub { return $redis->command('INFO', 'commandstats') =~ /cmdstat_evalsha:calls=(\d+)/ ? $1 : 0 };
my $before = $asked->();
$s->ask('BEGIN READ ONLY');
is(acquire($s, 'read-only', 'alice')->{status}, '25006', 'a read-only transaction');
$s->ask('ROLLBACK; BEGIN READ ONLY');
is($s->try("SELECT fence_release('warm', NULL, 'alice', 'r')"), '25006', 'cannot release');
$s->ask('ROLLBACK; BEGIN READ ONLY');
is($s->try("SELECT fence_renew('warm', 1, 'alice', '10 s')"), '25006', 'nor renew');
$s->ask('ROLLBACK');

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
my $t = session($standby);
is(acquire($t, 'standby', 'alice')->{status}, '25006', 'a standby');
is($t->try("SELECT fence_release('warm', NULL, 'alice', 'r')"), '25006', 'cannot release');
is($t->try("SELECT fence_renew('warm', 1, 'alice', '10 s')"), '25006', 'nor renew');
is($asked->(), $before, 'Redis was not asked');
is($redis->command('EXISTS', 'standby', 'read-only'), 0, 'no lease was taken');

$t->quit;
$s->quit;
$standby->stop;
$node->stop;
done_testing();
