# 108_redis_check.pl - what fence_redis_check finds
#
# Wrong result it would show: a Redis that may lose leases without a finding, or
# a finding about one that is in order.
#
# Mutant that makes it fail: redis_check.c, fence_redis_check() without
# check_memory().
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use RedisTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', 'fsync = off');
need_redis($node);

my $redis = redis_server(port => 1, args => [ '--appendonly', 'yes' ]);
$redis->create_server($node, 'r');
my $s = session($node);

# All findings of a server, "severity problem" each.
sub findings
{
	my ($server) = @_;

	return $s->ask("SELECT severity || ' ' || problem FROM fence_redis_check('$server') ORDER BY 1");
}

is(findings('r'), '', 'a Redis in order');
is($redis->command('DBSIZE'), 0, 'no key was written');

$redis->command('CONFIG', 'SET', 'appendonly', 'no');
like(findings('r'), qr/^notice .*appendonly is off$/, 'no persistence');
$redis->command('CONFIG', 'SET', 'appendonly', 'yes');
foreach my $policy ('allkeys-lru', 'volatile-ttl')
{
	$redis->command('CONFIG', 'SET', 'maxmemory-policy', $policy);
	is(findings('r'), "warning Redis may evict leases: maxmemory-policy is $policy", $policy);
}
$redis->command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');

my $closed = PostgreSQL::Test::Cluster::get_free_port();
$redis->command('REPLICAOF', '127.0.0.1', $closed);
is(findings('r'), 'error Redis is a replica, which grants nothing', 'a replica');
$redis->command('REPLICAOF', 'NO', 'ONE');

my $replica = redis_server(port => 1, args => [ '--replicaof', '127.0.0.1', $redis->{port} ]);
until_true('the replica follows',
	sub { $redis->command('INFO', 'replication') =~ /connected_slaves:1/ });
is(findings('r'), 'notice Redis has replicas, but a failover would not be followed', 'a replica nobody would find');
$replica->stop;

create_redis_server($node, 'closed', port => $closed);
like(findings('closed'), qr/^error Redis cannot be reached: could not connect/, 'no Redis');
create_redis_server($node, 'far', hostaddr => '192.0.2.1', sslmode => 'disable', connect_timeout => 100);
like(findings('far'), qr/^error Redis cannot be reached.*\nwarning holders and credentials are sent in clear$/, 'in clear');

$redis->command('ACL', 'SETUSER', 'default', '-info');
is(findings('r'), 'notice Redis does not tell anything about itself', 'no right to ask');
$redis->command('ACL', 'SETUSER', 'default', '+info');

is($s->try("SELECT * FROM fence_redis_check('nowhere')"), '42704', 'no such server');
$s->ask('CREATE ROLE operator; CREATE ROLE worker');
$s->ask("SELECT fence_grant('operator', 'operator'), fence_grant('worker')");
$s->ask('SET ROLE worker');
is($s->try("SELECT * FROM fence_redis_check('r')"), '42501', 'workers have no right to it');
$s->ask('SET ROLE operator');
is($s->try("SELECT * FROM fence_redis_check('r')"), '42501', 'operators need USAGE of the server');
$s->ask('RESET ROLE; GRANT USAGE ON FOREIGN SERVER r TO operator; SET ROLE operator');
is($s->try("SELECT * FROM fence_redis_check('r')"), 'ok', 'and then have it');

$s->quit;
$node->stop;
done_testing();
