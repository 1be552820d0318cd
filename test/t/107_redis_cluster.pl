# 107_redis_cluster.pl - a Redis Cluster of three masters
#
# Wrong result it would show: a lease taken on a node that does not own the
# key, redirections followed without being asked to, or for ever.
#
# Mutants that make it fail: redis_route.c, follow() without looking at the
# option; say_asking() that says nothing; MAX_HOPS of 100.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use IO::Select;
use IO::Socket::INET;
use LockfenceTest;
use RedisTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', 'fsync = off');
need_redis($node, 'redis-cli');

# The bus is 10000 above the port, unless it is told.
my @nodes = map {
	my $redis = redis_server(stopped => 1, port => 1, name => "cluster$_");
	$redis->{args} = [ '--cluster-enabled', 'yes', '--cluster-node-timeout', 2000,
		'--cluster-port', PostgreSQL::Test::Cluster::get_free_port() ];
	eval { $redis->start; 1 } or $redis->{failed} = 1;
	$redis
} 1 .. 3;
if (grep { $_->{failed} } @nodes)
{
	$node->stop;
	plan skip_all => 'needs Redis 7';
}
foreach my $i (0 .. 2)
{
	$nodes[$i]->command('CLUSTER', 'ADDSLOTSRANGE', int($i * 16384 / 3), int(($i + 1) * 16384 / 3) - 1);
	$nodes[$i]->command('CLUSTER', 'SET-CONFIG-EPOCH', $i + 1);
}
foreach my $other (@nodes[ 1, 2 ])
{
	my $bus = $other->{args}[-1];
	$nodes[0]->command('CLUSTER', 'MEET', '127.0.0.1', $other->{port}, $bus);
}
until_true('the cluster is up', sub {
		return 3 == grep {
			my $info = $_->command('CLUSTER', 'INFO');
			$info =~ /cluster_state:ok/ && $info =~ /cluster_known_nodes:3/
		} @nodes;
	});

$nodes[0]->create_server($node, 'no');
$nodes[0]->create_server($node, 'yes', cluster => 'on');
my $s = session($node);

my (%owner, %status);
foreach my $i (1 .. 30)
{
	my $name = "res:$i";
	my $slot = $nodes[0]->command('CLUSTER', 'KEYSLOT', $name);
	my $owner = int($slot * 3 / 16384);
	$owner-- while $slot < int($owner * 16384 / 3);
	$owner++ while $slot >= int(($owner + 1) * 16384 / 3);

	my $off = acquire($s, $name, 'alice', authority => 'no')->{status};
	if ($owner == 0)
	{
		is($off, 'granted', "$name is on the node that was asked");
		$s->ask("SELECT fence_release('$name', NULL, 'alice', 'no')");
	}
	else
	{
		is($off, 'LF005', "$name is elsewhere, and that is an error");
		like($s->message, qr/MOVED $slot .*Set option "cluster"/s, 'which names the slot') if $owner{$owner}++ == 0;
	}
	my $row = acquire($s, $name, 'alice', authority => 'yes');
	is($row->{status}, 'granted', 'with option cluster it is followed');
	is($nodes[$owner]->command('GET', $name), 'alice', 'to the node that owns the key');
	is(acquire($s, $name, 'bob', authority => 'yes')->{status}, 'held', 'held for others');
	is(renew($s, $name, $row->{token}, 'alice'), 'renewed', 'renewed there');
	is($s->ask("SELECT fence_release('$name', $row->{token}, 'alice')"), 'released', 'released there');
}

# A slot on its way from one node to another: ASK.
my ($name) = grep { $nodes[0]->command('CLUSTER', 'KEYSLOT', $_) < 5000 } map { "moving:$_" } 1 .. 100;
my $slot = $nodes[0]->command('CLUSTER', 'KEYSLOT', $name);
my @ids = map { $_->command('CLUSTER', 'MYID') } @nodes;
$nodes[1]->command('CLUSTER', 'SETSLOT', $slot, 'IMPORTING', $ids[0]);
$nodes[0]->command('CLUSTER', 'SETSLOT', $slot, 'MIGRATING', $ids[1]);
my $row = acquire($s, $name, 'alice', authority => 'yes');
is("$row->{status} $row->{how}", 'granted new', 'ASK is followed');
is(acquire($s, $name, 'bob', authority => 'yes')->{status}, 'held', 'and excludes');
$nodes[1]->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $ids[1]);
$nodes[0]->command('CLUSTER', 'SETSLOT', $slot, 'NODE', $ids[1]);
is($nodes[1]->command('GET', $name), 'alice', 'the lease is on the new node');
is(renew($s, $name, $row->{token}, 'alice'), 'renewed', 'where it is renewed');

# Redirections in circles, and to where nobody is.
my $relay = redis_relay($nodes[0]);
$relay->create_server($node, 'circle', cluster => 'on');
$relay->mode('say', "-MOVED 1 127.0.0.1:$nodes[0]{port}\r\n");
my ($mine) = grep { $nodes[0]->command('CLUSTER', 'KEYSLOT', $_) < 5000 && $_ ne $name }
  map { "circle:$_" } 1 .. 100;
is(acquire($s, $mine, 'alice', authority => 'circle')->{status}, 'granted', 'one hop');
{
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 64) or die $!;
	my $port = $listener->sockport;
	my $count = PostgreSQL::Test::Utils::tempdir_short() . '/count';
	my $pid = RedisTest::spawn(sub {
		my $select = IO::Select->new($listener);
		while (1)
		{
			foreach my $socket ($select->can_read)
			{
				if ($socket == $listener) { $select->add($listener->accept); next }
				if (!sysread $socket, my $bytes, 4096) { $select->remove($socket); close $socket; next }
				elsif ($bytes =~ /PING/) { syswrite $socket, "+PONG\r\n"; next }
				open my $file, '>>', $count;
				print $file 'x';
				close $file;
				syswrite $socket, "-MOVED 1 127.0.0.1:$port\r\n";
			}
		}
	});
	create_redis_server($node, 'loop', port => $port, cluster => 'on');
	my $row = acquire($s, 'loop', 'alice', authority => 'loop');
	is("$row->{status} $row->{reason}", 'refused the Redis cluster redirects in circles', 'circles end');
	cmp_ok(-s $count, '<=', 4, 'after three hops');
	RedisTest::reap($pid, 'KILL');
}
$relay->mode('say', "-MOVED 1 127.0.0.1:1\r\n");
is(acquire($s, 'nobody', 'alice', authority => 'circle')->{status}, 'refused', 'a node that is not there');
$relay->mode('say', "-MOVED nonsense\r\n");
is(acquire($s, 'nobody', 'alice', authority => 'circle')->{status}, 'LF005', 'nonsense');

# Elsewhere means TLS, as for a server's own address.
$relay->mode('say', "-MOVED 1 192.0.2.1:6379\r\n");
$node->safe_psql('postgres', "ALTER SERVER circle OPTIONS (ADD connect_timeout '200')");
is(acquire($s, 'far', 'alice', authority => 'circle')->{status}, 'refused', 'another machine that is not there');

is($s->ask("SELECT count(*) FROM fence_redis_check('no') WHERE severity = 'error' AND problem LIKE '%cluster%'"),
	1, 'the check says so without the option');
is($s->ask("SELECT count(*) FROM fence_redis_check('yes') WHERE problem LIKE '%cluster%'"), 0, 'and not with it');

$s->quit;
$node->stop;
done_testing();
