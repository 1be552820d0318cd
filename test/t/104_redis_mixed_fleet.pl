# 104_redis_mixed_fleet.pl - workers with and without lockfence, on one Redis
#
# Workers that take their lease the usual way, through redis-cli and through
# Python's redis module, exclude lockfence's holders and the other way round;
# and one by one they can be moved over.
#
# Wrong result it would show: a lockfence holder and another worker that both
# hold the lease, or a stale row written although the other worker asked for a
# token.
#
# Mutant that makes it fail: redis_lease.c, redis_lease_begin() with anything
# else in the key than prefix and resource.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use IPC::Run;
use LockfenceTest;
use RedisTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', 'fsync = off');
need_redis($node, 'redis-cli');

my $redis = redis_server();
$redis->create_server($node, 'r', key_prefix => 'lock:');
$node->safe_psql('postgres', "CREATE TABLE line (resource text NOT NULL, token bigint, holder text);"
	  . "SELECT fence_protect('line', '{resource}', 'token')");
my $s = session($node);

sub cli
{
	my (@words) = @_;
	my $out = '';

	IPC::Run::run([ 'redis-cli', '--raw', '-s', $redis->{path}, @words ], '>', \$out);
	chomp $out;
	return $out;
}

# Both sides below: [take, give back] of a worker that knows no lockfence.
my $compare = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
my %workers = ('redis-cli' => {
		take => sub { cli('SET', "lock:$_[0]", $_[1], 'NX', 'PX', 30000) eq 'OK' },
		give_back => sub { cli('EVAL', $compare, 1, "lock:$_[0]", $_[1]) },
		bare_del => sub { cli('DEL', "lock:$_[0]") },
	});

my ($python) = grep { -x && system("$_ -c 'import redis' 2>/dev/null") == 0 }
  ('/usr/bin/python3', map { "$_/python3" } split /:/, $ENV{PATH});
if ($python)
{
	my $program = PostgreSQL::Test::Utils::tempdir_short() . '/worker.py';
	open my $file, '>', $program or die $!;
	print $file <<'EOF';
import sys, redis
r = redis.Redis(unix_socket_path=sys.argv[1])
what, name, holder = sys.argv[2], "lock:" + sys.argv[3], sys.argv[4]
compare = r.register_script(
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end")
if what == "take":
    print(1 if r.set(name, holder, nx=True, px=30000) else 0)
elif what == "give_back":
    print(compare(keys=[name], args=[holder]))
elif what == "bare_del":
    print(r.delete(name))
elif what == "lock":
    lock = r.lock(name, timeout=30, blocking=False, thread_local=False)
    lock.local.token = None
    print(1 if lock.acquire(token=holder) else 0)
EOF
	close $file;
	my $run = sub {
		my $out = '';
		IPC::Run::run([ $python, $program, $redis->{path}, @_ ], '>', \$out);
		chomp $out;
		return $out;
	};
	foreach my $what ('take', 'give_back', 'bare_del')
	{
		$workers{python}{$what} = sub { $run->($what, $_[0], $_[1] // '') };
	}
	$workers{'redis-py Lock'} = { %{ $workers{python} }, take => sub { $run->('lock', @_) } };
}
else { diag 'no Python with the redis module: its part is left out' }

foreach my $kind (sort keys %workers)
{
	my ($take, $give_back, $del) = @{ $workers{$kind} }{qw(take give_back bare_del)};
	my $name = "stmt:$kind";

	ok($take->($name, 'worker-3'), "$kind: takes a free lease");
	my $held = acquire($s, $name, 'worker-5');
	is("$held->{status} $held->{held_by}", 'held worker-3', 'which lockfence respects');
	is($give_back->($name, 'worker-3'), 1, 'and gives it back');

	my $a = acquire($s, $name, 'worker-5');
	is($a->{status}, 'granted', 'a lockfence holder takes it');
	ok(!$take->($name, 'worker-3'), 'which the worker respects');
	is($give_back->($name, 'worker-3'), 0, 'and cannot give back');
	is($s->ask("SELECT fence_release('$name', $a->{token}, 'worker-5')"), 'released', 'it is released');
	ok($take->($name, 'worker-3'), 'and free for the worker');

	# Moved over, in either way: same holder value, or a token for its own lease.
	my $b = acquire($s, $name, 'worker-3');
	is($b->{status}, 'granted', 'fence_acquire confirms the lease of the same holder');
	cmp_ok($b->{token}, '>', $a->{token}, 'with a token');
	is($give_back->($name, 'worker-3'), 1, 'the worker gives back as ever');
	is(renew($s, $name, $b->{token}, 'worker-3'), 'lost', 'which lockfence notices');

	# fence_issue is for leases that this database knows nothing of.
	ok($take->("own:$kind", 'worker-3'), 'a lease of its own');
	my $issued = $s->ask("SELECT fence_issue('own:$kind', 'worker-3')");
	is($s->try("INSERT INTO line VALUES ('own:$kind', $issued, 'worker-3')"), 'ok', 'gets a token');

	# A worker that deletes whatever is there.
	my $c = acquire($s, "del:$kind", 'worker-5');
	$del->("del:$kind");
	is(renew($s, "del:$kind", $c->{token}, 'worker-5'), 'lost', 'a bare DEL: the holder learns it');
	my $d = acquire($s, "del:$kind", 'worker-7');
	cmp_ok($d->{token}, '>', $c->{token}, 'the next holder has a higher token');
	is($s->try("INSERT INTO line VALUES ('del:$kind', $c->{token}, 'worker-5')"), 'LF001',
		'nothing stale is written');
}

$s->quit;
$node->stop;
done_testing();
