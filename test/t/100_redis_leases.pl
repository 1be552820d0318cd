# 100_redis_leases.pl - leases of a real Redis, with tokens of PostgreSQL
#
# Over a unix socket and over TCP: taken, confirmed, held, taken over, renewed,
# given back, waited for; keys and values byte for byte; keys of others.
#
# Wrong result it would show: two holders at once, a token that does not rise,
# or a key that is not exactly prefix and resource.
#
# Mutants that make it fail: redis_lease.c, take_script without the comparison
# of the holder; redis_fence.c, lock_fence() with FENCE_AGAIN whatever the row
# says; redis_lease_begin() with the resource as a format.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use RedisTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', 'fsync = off');
need_redis($node);

my $tcp = redis_server(port => 1);
my $redis = redis_server();
my $s = session($node);
my $other = session($node);

$tcp->create_server($node, 't');
$redis->create_server($node, 'r');

foreach my $authority ('r', 't')
{
	my $where = $authority eq 't' ? $tcp : $redis;
	my @on = (authority => $authority);
	my $name = "lease:$authority";
	my $a = acquire($s, $name, 'alice', @on);

	is("$a->{status} $a->{how}", 'granted new', "$authority: granted");
	cmp_ok($a->{valid_for}, '>', 29, 'for nearly all of its ttl');
	cmp_ok($a->{valid_for}, '<=', 29.698, 'less what clocks may differ');
	is($where->command('GET', $name), 'alice', 'the value of the key is the holder');
	cmp_ok($where->command('PTTL', $name), '>', 29000, 'the key has the ttl');
	is($s->ask("SELECT authority, live FROM fence_status('$name')"), "$authority|t",
		'the fence knows the authority');

	my $again = acquire($s, $name, 'alice', @on, ttl => '50 s');
	is("$again->{status} $again->{how}", 'granted again', 'the same holder is confirmed');
	is($again->{token}, $a->{token}, 'with the same token');
	cmp_ok($where->command('PTTL', $name), '>', 40000, 'and the ttl anew');

	my $held = acquire($other, $name, 'bob', @on);
	is("$held->{status} $held->{held_by}", 'held alice', 'held for another holder');
	cmp_ok($held->{retry_after}, '>', 40, 'with the time it has');
	foreach my $holder ('bob', 'alice')
	{
		my $elsewhere = acquire($other, $name, $holder, authority => 'postgres');
		is("$elsewhere->{status} $elsewhere->{held_by}: $elsewhere->{reason}",
			'held alice: held on another lease authority',
			"held for another authority, also for the same holder ($holder)");
	}

	is(renew($s, $name, $a->{token}, 'alice', '90 s'), 'renewed', 'renewed');
	cmp_ok($where->command('PTTL', $name), '>', 80000, 'in Redis, too');
	is(renew($s, $name, $a->{token}, 'bob'), 'lost', 'not for another holder');
	is(renew($s, $name, $a->{token} + 1, 'alice'), 'lost', 'not for another token');

	is($s->ask("SELECT fence_release('$name', $a->{token}, 'bob')"), 'not_held',
		'another holder cannot release');
	is($s->ask("SELECT fence_release('$name', $a->{token} + 1, 'alice', '$authority')"),
		'not_held', 'nor the holder with another token');
	is($s->ask("SELECT fence_release('$name', $a->{token}, 'alice', 'postgres')"),
		'not_held', 'nor with another authority');
	is($where->command('GET', $name), 'alice', 'and the key is still there');
	is($s->ask("SELECT fence_release('$name', $a->{token}, 'alice')"), 'released', 'released');
	is($where->command('EXISTS', $name), 0, 'the key is gone');
	is($s->try("SELECT fence_check('$name', $a->{token})"), 'LF001', 'its token is stale');

	my $b = acquire($other, $name, 'bob', @on, ttl => '1 s');
	is("$b->{status} $b->{how}", 'granted new', 'the next holder after a release');
	cmp_ok($b->{token}, '>', $a->{token}, 'has a higher token');

	my $c = acquire($s, $name, 'carol', @on, wait => '20 s');
	is("$c->{status} $c->{how}", 'granted takeover', 'a lease that has expired is waited for');
	cmp_ok($c->{token}, '>', $b->{token}, 'with a higher token again');
	is(renew($other, $name, $b->{token}, 'bob'), 'lost', 'the earlier holder has lost it');
	is($other->ask("SELECT fence_release('$name', $b->{token}, 'bob')"), 'not_held',
		'and cannot release it');
	is($where->command('GET', $name), 'carol', 'the key is the new holder\'s');
}

# A release is noticed while waiting.
{
	my $a = acquire($s, 'wait', 'alice');
	$other->send("SELECT status, extract(epoch FROM clock_timestamp()) FROM fence_acquire('wait', 'bob', '30 s', '20 s', 'r')");
	$node->poll_query_until('postgres',
		"SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = " . $other->pid);
	my $released = $s->ask("SELECT extract(epoch FROM clock_timestamp()) FROM fence_release('wait', $a->{token}, 'alice')");
	my ($status, $at) = split /\|/, $other->finish;
	is($status, 'granted', 'granted to the one who waited');
	cmp_ok($at - $released, '<', 1, 'soon after the release');
	note sprintf 'noticed after %d ms', 1000 * ($at - $released);
}

# Keys byte for byte.
$redis->create_server($node, 'p', key_prefix => 'pre%s{x}:');
foreach my $name ('100%', 'a%sb', '%n%n', 'a b', 'a}b{c', '{}', q{it's "quoted"}, "two\nlines\ttab",
	"caf\xc3\xa9", '$1', '*3', "\\", 'x' x 512)
{
	my $label = length $name > 20 ? length($name) . ' bytes' : $name =~ s/[^ -~]/?/gr;
	my $a = acquire($s, $name, $name, authority => 'p');
	is($a->{status}, 'granted', "resource $label");
	is($redis->command('GET', "pre%s{x}:$name"), $name, 'key and value byte for byte');
	my $held = acquire($other, $name, 'bob', authority => 'p');
	is($held->{status}, 'held', 'held for others');
	is($s->ask('SELECT fence_release(' . quote($name) . ", $a->{token}, " . quote($name) . ')'),
		'released', 'and released');
}
is(scalar @{ $redis->command('KEYS', 'pre*') }, 0, 'no other keys');

# Keys of workers that do not know lockfence.
$redis->command('SET', 'plain', 'worker-1', 'NX', 'PX', 30000);
my $held = acquire($s, 'plain', 'alice');
is("$held->{status} $held->{held_by}", 'held worker-1', 'their lease excludes');
cmp_ok($held->{retry_after}, '>', 25, 'for as long as it lasts');
my $confirmed = acquire($s, 'plain', 'worker-1');
is("$confirmed->{status} $confirmed->{how}", 'granted new', 'the same holder value confirms it');
cmp_ok($confirmed->{token}, '>', 0, 'and gets a token');

$redis->command('SET', 'bare', 'worker-1');
$held = acquire($s, 'bare', 'alice');
is("$held->{status} $held->{held_by}", 'held worker-1', 'a key without expiry excludes');
is($held->{retry_after}, '', 'nobody knows how long');
is($held->{reason}, 'the key in Redis has no expiry', 'and says why');
is(acquire($s, 'bare', 'worker-1')->{status}, 'held', 'even for that holder');
is($redis->command('TTL', 'bare'), -1, 'and stays as it was');

$redis->command('SET', 'odd', "\xff\x00\r\n", 'PX', 30000);
$held = acquire($s, 'odd', 'alice');
is("$held->{status} $held->{held_by}", 'held ', 'a holder that is no text excludes');
$redis->command('SET', 'odd', 'x' x 5000, 'PX', 30000);
is(acquire($s, 'odd', 'alice')->{status}, 'held', 'one that is too long, too');

# Somebody deletes a holder's key.
my $a = acquire($s, 'bare-del', 'alice');
$redis->command('DEL', 'bare-del');
is(renew($s, 'bare-del', $a->{token}, 'alice'), 'lost', 'a holder learns at its renewal');
my $b = acquire($other, 'bare-del', 'bob');
is("$b->{status} $b->{how}", 'granted takeover', 'the next one gets the lease');
cmp_ok($b->{token}, '>', $a->{token}, 'with a higher token');
is($s->try("SELECT fence_check('bare-del', $a->{token})"), 'LF001', 'nothing stale is written');

# A generation that goes on although Redis has lost the lease is a new one.
$a = acquire($s, 'again', 'alice');
$redis->command('DEL', 'again');
$b = acquire($s, 'again', 'alice');
is("$b->{status} $b->{how}", 'granted takeover', 'the same holder after a loss');
cmp_ok($b->{token}, '>', $a->{token}, 'has a higher token');

# Redis is never asked with a fence locked.
$s->ask('BEGIN');
is(acquire($s, 'tx:1', 'alice')->{status}, 'granted', 'in a transaction');
is(acquire($s, 'tx:2', 'alice')->{status}, '25001', 'a second one is refused');
is($redis->command('EXISTS', 'tx:2'), 0, 'before Redis is asked');
$s->ask('ROLLBACK');
is($redis->command('GET', 'tx:1'), 'alice', 'a rollback leaves the lease in Redis');
is(acquire($s, 'tx:1', 'alice')->{how}, 'new', 'which the holder can ask for again');
$s->ask('BEGIN; SAVEPOINT s');
is(acquire($s, 'tx:3', 'alice')->{status}, 'granted', 'in a savepoint');
$s->ask('ROLLBACK TO s');
is(acquire($s, 'tx:4', 'alice')->{status}, 'granted', 'and after it was rolled back');
$s->ask('RELEASE s');
is(renew($s, 'tx:1', 1, 'alice'), 'lost', 'nothing to renew needs no Redis');
is($s->try("SELECT fence_release('tx:1', NULL, 'alice', 'r')"), '25001', 'nor is a release allowed');
$s->ask('ROLLBACK; BEGIN');
is(acquire($s, 'tx:5', 'alice', authority => 'postgres')->{status}, 'granted', 'a lease of PostgreSQL');
is(acquire($s, 'tx:6', 'alice')->{status}, '25001', 'locks a fence as well');
$s->ask('ROLLBACK');
acquire($s, 'tx:5', 'alice', authority => 'postgres');
is(acquire($other, 'tx:5', 'alice')->{reason}, 'held on another lease authority',
	'and is held for Redis');
is($redis->command('EXISTS', 'tx:5'), 0, 'which was not asked');
$s->ask("SELECT fence_release('tx:5', NULL, 'alice')");

# An open raise of somebody else is in the way; Redis' lease is given back.
$other->ask('BEGIN');
is(acquire($other, 'raise', 'bob', authority => 'postgres', ttl => '10 ms')->{status}, 'granted',
	'another session has the fence locked');
my $refused = acquire($s, 'raise', 'alice');
is($refused->{status}, 'refused', 'an acquire does not wait for it');
like($refused->{reason}, qr/another transaction/, 'and says why');
is($redis->command('EXISTS', 'raise'), 0, 'the lease was given back');
$other->ask('COMMIT');
is(acquire($s, 'raise', 'alice', wait => '20 s')->{status}, 'granted', 'granted afterwards');

# Resources whose tokens come from elsewhere.
$s->ask("SELECT fence_check('external', 7)");
is(acquire($s, 'external', 'alice')->{status}, '55000', 'an external resource');
is($redis->command('EXISTS', 'external'), 0, 'is refused before Redis is asked');

$node->stop;
done_testing();
