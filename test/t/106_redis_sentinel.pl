# 106_redis_sentinel.pl - the master that Sentinel knows
#
# A real Sentinel watches a master and a replica; the master dies, the replica
# is promoted, the old master comes back.
#
# Wrong result it would show: a lease taken from a server that is no master, or
# a session that never finds the new one.
#
# Mutants that make it fail: redis_route.c, connect_by_sentinel() without
# is_master(); handle_error() without asking again after READONLY.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use IO::Socket::INET;
use LockfenceTest;
use RedisTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = fence_node('main', 'fsync = off');
need_redis($node);

my $master = redis_server(port => 1, name => 'master');
my $replica = redis_server(port => 1, name => 'replica',
	args => [ '--replicaof', '127.0.0.1', $master->{port} ]);
until_true('the replica follows',
	sub { $replica->command('INFO', 'replication') =~ /master_link_status:up/ });

# A Sentinel; what it writes into its file is its own.
sub sentinel
{
	my ($name, $quorum) = @_;
	my $self = redis_server(stopped => 1, port => 1, name => $name);

	open my $file, '>', "$self->{dir}/sentinel.conf" or die $!;
	print $file <<"EOF";
sentinel monitor mymaster 127.0.0.1 $master->{port} $quorum
sentinel down-after-milliseconds mymaster 500
sentinel failover-timeout mymaster 5000
EOF
	close $file;
	$self->{first} = [ "$self->{dir}/sentinel.conf", '--sentinel' ];
	$self->start;
	return $self;
}

my $sentinel = sentinel('sentinel', 1);
until_true('the Sentinel knows the replica',
	sub { (@{ $sentinel->command('SENTINEL', 'replicas', 'mymaster') // [] }) == 1 });

my $closed = PostgreSQL::Test::Cluster::get_free_port();
create_redis_server($node, 'r', sentinel_master => 'mymaster', timeout => 3000, connect_timeout => 500,
	sentinels => "127.0.0.1:$closed,127.0.0.1:$sentinel->{port}");
create_redis_server($node, 'unknown', sentinel_master => 'no-such-master',
	sentinels => "127.0.0.1:$sentinel->{port}");
create_redis_server($node, 'down', sentinel_master => 'mymaster', sentinels => "127.0.0.1:$closed");
my ($s, $other) = (session($node), session($node));

is(acquire($s, 'x', 'alice', authority => 'unknown')->{reason}, 'a Sentinel does not know the master',
	'an unknown master');
like(acquire($s, 'x', 'alice', authority => 'down')->{reason}, qr/could not connect/, 'no Sentinel');

my $row;
my $a = acquire($s, 'before', 'alice');
is($a->{status}, 'granted', 'the first Sentinel that answers leads to the master');
is($master->command('GET', 'before'), 'alice', 'where the lease is');

# A Sentinel that says what it is told to.
my $told = PostgreSQL::Test::Utils::tempdir_short() . '/told';

sub point_to
{
	my ($redis) = @_;

	open my $file, '>', "$told.new" or die $!;
	print $file $redis->{port};
	close $file;
	rename "$told.new", $told;
	return;
}

point_to($replica);
my $fake = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 8) or die $!;
my $pid = RedisTest::spawn(sub {
	while (my $client = $fake->accept)
	{
		my $port = PostgreSQL::Test::Utils::slurp_file($told);
		sysread $client, my $bytes, 4096;
		syswrite $client, "*2\r\n\$9\r\n127.0.0.1\r\n\$" . length($port) . "\r\n$port\r\n";
	}
});
create_redis_server($node, 'told', sentinel_master => 'mymaster', sentinels => '127.0.0.1:' . $fake->sockport);

# What it names must be a master: this one does not know yet.
$row = acquire($s, 'stale', 'alice', authority => 'told');
is("$row->{status} $row->{reason}", 'refused Sentinel named a server that is no master', 'a replica is refused');

# Demoted behind our back, with the connection open: looked up again, once.
point_to($master);
is(acquire($s, 'told:1', 'alice', authority => 'told')->{status}, 'granted', 'connected to a master');
my $new = redis_server(port => 1, name => 'new');
$master->command('REPLICAOF', '127.0.0.1', $new->{port});
point_to($new);
is(acquire($s, 'told:2', 'alice', authority => 'told')->{status}, 'granted', 'READONLY leads to another look');
is($new->command('GET', 'told:2'), 'alice', 'and to the new master');
$new->command('REPLICAOF', '127.0.0.1', $closed);
is(acquire($s, 'told:3', 'alice', authority => 'told')->{status}, 'refused', 'one that leads nowhere is refused');
$new->stop;
RedisTest::reap($pid, 'KILL');
$master->command('REPLICAOF', 'NO', 'ONE');
until_true('the replica follows again',
	sub { $replica->command('INFO', 'replication') =~ /master_link_status:up/ });

# A real failover.
is(acquire($other, 'warm', 'bob')->{status}, 'granted', 'another session is connected');
my ($start, $began) = (time, 0);
until_true('the failover is done', sub {
		my $answer = $sentinel->command('SENTINEL', 'get-master-addr-by-name', 'mymaster');
		return 1 if $answer->[1] == $replica->{port};
		# It learns within ten seconds that the replica follows again; until
		# then it finds nobody to promote. What it began it may give up.
		if (time - $began > 20)
		{
			$answer = $sentinel->command('SENTINEL', 'failover', 'mymaster');
			note "failover: $answer";
			$began = time if $answer eq 'OK';
		}
		return 0;
	});
until_true('the old master is a replica', sub { $master->command('ROLE')->[0] eq 'slave' });
until_true('the new master grants', sub {
		$row = acquire($other, 'after', 'bob');
		return $row->{status} eq 'granted';
	});
note sprintf 'granted %.1f s after the failover began', time - $start;
is($replica->command('GET', 'after'), 'bob', 'on the new master');
cmp_ok($row->{token}, '>', $a->{token}, 'with a higher token');

# The new master dies; with nobody else to ask it is refused, then found again.
until_true('it replicates',
	sub { $master->command('INFO', 'replication') =~ /master_link_status:up/ });
$replica->stop('KILL');
# Who was connected may have sent a request that was not answered.
my $fresh = session($node);
is(acquire($fresh, 'while', 'carol')->{status}, 'refused', 'while nobody is master');
like(acquire($other, 'while', 'bob')->{status}, qr/^(?:refused|unknown)$/, 'on a connection that was cut');
$fresh->quit;
until_true('the first one takes over again', sub {
		$row = acquire($other, 'second', 'bob');
		return $row->{status} eq 'granted';
	});
is($master->command('GET', 'second'), 'bob', 'and grants');

# READONLY on a connection in use: asked again, once.
{
	my $gone = $master->command('REPLICAOF', '127.0.0.1', $closed);
	is(acquire($other, 'readonly', 'bob')->{status}, 'refused', 'a master that became a replica is refused');
	$master->command('REPLICAOF', 'NO', 'ONE');
	is(acquire($other, 'readonly', 'bob')->{status}, 'granted', 'until it is one again');
}

is($s->ask("SELECT count(*) FROM fence_redis_check('r') WHERE problem LIKE '%no replica%'"), 1,
	'the check says that there is nobody left to take over');

$s->quit;
$other->quit;
$node->stop;
done_testing();
