# 103_redis_order.pl - nothing that Redis loses puts tokens out of order
#
# FLUSHALL, eviction, a restart without persistence, a failover to a replica
# that has not heard of the lease; and a caller that is stopped between the
# lease and its token while another one takes over.
#
# Wrong result it would show: a token twice or in the wrong order, a row of an
# earlier holder after a later one took over, or a rightful holder fenced by a
# caller whose lease had ended.
#
# Mutants that make it fail: redis_fence.c, raise_fence() without the first, or
# without the second look at redis_lease_left(); lock_fence() with FENCE_AGAIN
# whatever Redis says.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use RedisTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', 'fsync = off', 'track_commit_timestamp = on');
need_redis($node);

my $redis = redis_server();
$redis->create_server($node, 'r');
$node->safe_psql('postgres', "CREATE TABLE line (resource text NOT NULL, token bigint, holder text);"
	  . "SELECT fence_protect('line', '{resource}', 'token')");
my ($a, $b) = (session($node), session($node));
my %last;

# After a loss: B gets the lease although A's would still run; A is refused.
sub lose
{
	my ($what, $lose, $authority) = @_;
	my $name = $what =~ s/\W/-/gr;
	my $one = acquire($a, $name, 'alice', ttl => '60 s', authority => $authority // 'r');

	is("$one->{status} $one->{how}", 'granted new', "$what: granted to alice");
	$a->ask("INSERT INTO line VALUES ('$name', $one->{token}, 'alice')");
	$a->ask("BEGIN; INSERT INTO line VALUES ('$name', $one->{token}, 'alice, open')");
	is($a->code, '', 'who works, and has a transaction open');
	$lose->($name);
	my $two = acquire($b, $name, 'bob', ttl => '60 s', authority => $authority // 'r');
	is("$two->{status} $two->{how}", 'granted takeover', "$what: bob can have the lease");
	cmp_ok($two->{token}, '>', $one->{token}, 'with a higher token');
	is($b->try("INSERT INTO line VALUES ('$name', $two->{token}, 'bob')"), 'ok', 'and works');
	is($a->try('COMMIT'), 'LF001', 'the open transaction is refused at its commit');
	is($a->try("INSERT INTO line VALUES ('$name', $one->{token}, 'alice, late')"), 'LF001',
		'and later ones at once');
	is(renew($a, $name, $one->{token}, 'alice'), 'lost', 'the lease is lost');
	return;
}

lose('FLUSHALL', sub { $redis->command('FLUSHALL') });
lose('restart without persistence', sub { $redis->stop('KILL'); $redis->start });
lose('eviction', sub {
		my ($name) = @_;
		$redis->command('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl');
		$redis->command('CONFIG', 'SET', 'maxmemory-samples', 10);
		$redis->command('SET', "filler:$_", 'x' x 100000) foreach 1 .. 20;
		$redis->command('CONFIG', 'SET', 'maxmemory',
			$redis->command('INFO', 'memory') =~ /used_memory:(\d+)/ ? $1 - 100000 : 1);
		$redis->command('SET', 'filler', 'x' x 1000);
		ok(!$redis->command('EXISTS', $name), 'Redis has evicted the lease');
		$redis->command('CONFIG', 'SET', 'maxmemory', 0);
		$redis->command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
		$redis->command('FLUSHALL');
	});

# A failover while replication is stalled.
{
	my $master = redis_server(port => 1);
	my $replica = redis_server(port => 1);
	$master->create_server($node, 'm');
	$replica->command('REPLICAOF', '127.0.0.1', $master->{port});
	until_true('the replica follows',
		sub { $replica->command('INFO', 'replication') =~ /master_link_status:up/ });
	lose('failover', sub {
			my ($name) = @_;
			is($master->command('EXISTS', $name), 1, 'the old master has the lease');
			$node->safe_psql('postgres', "ALTER SERVER m OPTIONS (SET port '$replica->{port}')");
		}, 'm') if $replica->command('REPLICAOF', 'NO', 'ONE');
}

# Stopped between the lease and its token.
SKIP:
{
	skip 'needs debug points', 8 if $a->try('SHOW lockfence.debug_point') ne 'ok';
	my $gate = session($node);

	$gate->ask('SELECT pg_advisory_lock(7001, 0)');
	$a->ask("SET lockfence.debug_point = 'redis-granted'");
	$a->send("SELECT status, reason FROM fence_acquire('stalled', 'alice', '100 ms', '0', 'r')");
	$a->until_blocked;
	my $two = acquire($b, 'stalled', 'bob', wait => '20 s', ttl => '60 s');
	is($two->{status}, 'granted', 'bob takes over from a caller that was stopped');
	$gate->ask('SELECT pg_advisory_unlock(7001, 0)');
	is($a->finish, 'refused|the lease ended before its token was minted',
		'who is refused when it goes on');
	is($redis->command('GET', 'stalled'), 'bob', 'the lease stays bob\'s');
	is($b->try("SELECT fence_check('stalled', $two->{token})"), 'ok', 'and his token is good');

	# The same, with nobody else about: what is left is given back.
	acquire($b, 'alone', 'carol', ttl => '500 ms');
	$gate->ask('SELECT pg_advisory_lock(7001, 0)');
	$a->send("SELECT status FROM fence_acquire('alone', 'alice', '1 s', '5 s', 'r')");
	$a->until_blocked;
	$redis->command('PEXPIRE', 'alone', 60000);
	$b->ask('SELECT pg_sleep(1)');
	$gate->ask('SELECT pg_advisory_unlock(7001, 0)');
	is($a->finish, 'refused', 'refused although nobody else asked');
	is($redis->command('EXISTS', 'alone'), 0, 'and the lease is given back');

	# Stopped with the fence locked: the last look is the one that counts.
	acquire($b, 'locked', 'carol', ttl => '500 ms');
	$gate->ask('SELECT pg_advisory_lock(7001, 0)');
	$a->ask("SET lockfence.debug_point = 'redis-locked'");
	$a->send("SELECT status FROM fence_acquire('locked', 'alice', '200 ms', '5 s', 'r')");
	$a->until_blocked;
	$b->ask('SELECT pg_sleep(0.3)');
	$gate->ask('SELECT pg_advisory_unlock(7001, 0)');
	is($a->finish, 'refused', 'a lease that ended with the fence locked is refused');
	$a->ask('RESET lockfence.debug_point');
	is($a->ask("SELECT holder FROM fence_status('locked')"), 'carol', 'and raised nothing');
	$gate->quit;
}

# Every session at once, and Redis loses everything all the time.
{
	my @files = map {
		my $holder = "holder $_";
		script("redis_order_$_", map {
			("SELECT token FROM fence_acquire('load', '$holder', '1 s', '100 ms', 'r') \\gset",
				"INSERT INTO line SELECT 'load', :token, '$holder' WHERE :token IS NOT NULL;")
		} 1 .. 150)
	} 1 .. 4;
	my $flusher = RedisTest::spawn(sub {
		delete $redis->{socket};
		while (1) { $redis->command('FLUSHALL'); select undef, undef, undef, 0.003 }
	});
	my @errors = run_scripts($node, @files);
	RedisTest::reap($flusher, 'KILL');
	my %errors = errors_by_code(@errors);
	note join ', ', map { "$_: $errors{$_}" } sort keys %errors;
	is($node->safe_psql('postgres', "SELECT count(*) > 20 FROM line WHERE resource = 'load'"), 't',
		'there was a load');
	is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT token FROM line WHERE resource = 'load' GROUP BY token HAVING count(DISTINCT holder) > 1) t"),
		0, 'no token has two holders');
	is(order_violations($node, 'line'), 0,
		'in commit order no row follows one with a higher token');
}

$a->quit;
$b->quit;
$node->stop;
done_testing();
