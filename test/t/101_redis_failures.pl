# 101_redis_failures.pl - every way in which Redis can fail
#
# Each failure is made by a real Redis where it can be, else by a relay that
# delays, cuts or garbles its answers. After each the same backend must work.
#
# Wrong result it would show: "refused" although a lease was taken, "granted"
# by the answer to an earlier call, a crash, or a lease that is lost for good.
#
# Mutants that make it fail: redis_conn.c, redis_conn_call() without
# redis_conn_close() where there was no answer, sweep() that keeps busy
# connections, receive_reply() without the limit of an answer's length;
# redis_route.c with "refused" for REDIS_CUT.
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
use Time::HiRes qw(sleep);

my $node = fence_node('main', 'fsync = off', 'max_files_per_process = 64');
need_redis($node);

my $redis = redis_server();
my $relay = redis_relay($redis);
my $s = session($node);
my $number = 0;

$redis->create_server($node, 'r');
$relay->create_server($node, 'via', timeout => 500);
$relay->create_server($node, 'fresh', timeout => 500, keep_connections => 'off');

sub name { return 'r' . ++$number }

# One failing call: status (or SQLSTATE), and what the reason or message says.
sub fails
{
	my ($status, $like, $label, %more) = @_;
	my $name = $more{name} // name();
	my $row = acquire($s, $name, 'alice', authority => 'via', %more);

	is($row->{status}, $status, $label);
	like($row->{reason} || $s->message, $like, "$label: in words") if $like;
	ok(!$redis->command('EXISTS', $name), "$label: nothing was taken")
	  if $status ne 'unknown' && !$more{taken};
	return $name;
}

sub works
{
	my ($label, $authority) = @_;
	my $name = name();

	is(acquire($s, $name, 'alice', authority => $authority // 'via')->{status}, 'granted',
		"works after $label");
	return;
}

# ------------------------------------------------------------ no connection
my $closed = PostgreSQL::Test::Cluster::get_free_port();
create_redis_server($node, 'closed', port => $closed);
fails('refused', qr/could not connect.*refused/i, 'connection refused', authority => 'closed');
create_redis_server($node, 'nowhere', unix_socket_path => '/nowhere/redis');
fails('refused', qr/could not connect.*No such file/i, 'no socket', authority => 'nowhere');
create_redis_server($node, 'dns', host => 'no-such-host.invalid', sslmode => 'disable');
fails('refused', qr/could not look up/, 'a name that does not exist', authority => 'dns');

{
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1) or die $!;
	my @waiting = map {
		IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $listener->sockport, Blocking => 0, Timeout => 0)
	} 1 .. 5;
	create_redis_server($node, 'backlog', port => $listener->sockport, connect_timeout => 300);
	my $ms = milliseconds(sub {
		fails('refused', qr/could not connect.*timed out|did not answer/i, 'full backlog', authority => 'backlog');
	});
	cmp_ok($ms, '<', 2000, 'within its time');
}

# A listener that never answers: nothing was asked, so it is certain.
{
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 8) or die $!;
	create_redis_server($node, 'mute', port => $listener->sockport, connect_timeout => 200);
	fails('refused', qr/did not answer a new connection/, 'no greeting', authority => 'mute');
}

# ------------------------------------------------- no answer, or half of one
works('nothing');
$relay->mode('silent');
my $name = fails('unknown', qr/did not answer in time/, 'an answer that never comes');
$relay->mode('pass');
works('it');
is(acquire($s, $name, 'alice', authority => 'via')->{status}, 'granted',
	'the same holder may ask again');

$relay->mode('delay', 900, once => 1);
$name = fails('unknown', qr/did not answer in time/, 'an answer that comes too late');
my $next = acquire($s, name(), 'carol', authority => 'via');
is("$next->{status} $next->{how}", 'granted new', 'the next call gets its own answer');
is($redis->command('GET', $name), 'alice', 'the late one had been carried out');
is(acquire($s, $name, 'bob', authority => 'via')->{status}, 'held', 'so others are kept out');
my $again = acquire($s, $name, 'alice', authority => 'via');
is("$again->{status} $again->{how}", 'granted new', 'and the same holder is told');
$relay->mode('delay', 900, once => 1);
$name = fails('unknown', qr/did not answer/, 'once more');
sleep 0.1;
is($s->ask("SELECT fence_release('$name', NULL, 'bob', 'via')"), 'not_held',
	'another holder cannot give it back');
is($s->ask("SELECT fence_release('$name', NULL, 'alice', 'via')"), 'released',
	'without a token its holder can');
is($redis->command('EXISTS', $name), 0, 'and it is gone');

# A call that was cancelled leaves an answer behind, which is nobody's.
acquire($s, 'taken', 'bob', authority => 'via');
$relay->mode('delay', 400, once => 1);
$s->ask("SET statement_timeout = '100ms'");
is(acquire($s, 'taken', 'alice', authority => 'via')->{status}, '57014', 'a call is cancelled');
$s->ask('RESET statement_timeout');
is(acquire($s, name(), 'alice', authority => 'via')->{status}, 'granted',
	'the next one does not take its answer');

foreach my $mode ('cut', 'half')
{
	works("the above, before $mode");
	$relay->mode($mode, undef, once => 1);
	$name = name();
	my $row = acquire($s, $name, 'alice', authority => 'via');
	is("$row->{status} $row->{how}", 'granted new', "$mode on a used connection is repeated");
	is($redis->command('GET', $name), 'alice', 'with the same holder');

	$relay->mode($mode, undef, once => 1);
	$name = fails('unknown', qr/closed the connection/, "$mode on a new connection",
		authority => 'fresh');
	is(acquire($s, $name, 'alice', authority => 'fresh')->{status}, 'granted',
		'the same holder may ask again');

	works('nothing');
	$relay->mode($mode);
	fails('unknown', qr/closed the connection/, "$mode again and again");
	$relay->mode('pass');
}
works('that');
$relay->mode('drop', undef, once => 1);
works('a request that was dropped');

# renew and release
my $a = acquire($s, 'renewed', 'alice', authority => 'via');
$relay->mode('silent');
is(renew($s, 'renewed', $a->{token}, 'alice'), 'unknown', 'a renewal that is not answered');
is($s->ask("SELECT live FROM fence_status('renewed')"), 't', 'leaves the lease as it was');
is($s->ask("SELECT fence_release('renewed', $a->{token}, 'alice')"), 'unknown',
	'a release that is not answered');
is($s->try("SELECT fence_check('renewed', $a->{token})"), 'ok', 'leaves the token as it was');
$relay->mode('pass');
is(renew($s, 'renewed', $a->{token}, 'alice'), 'renewed', 'and can be repeated');
is($s->ask("SELECT fence_release('renewed', $a->{token}, 'alice')"), 'released', 'as the release');

# An answer that comes when the lease is over.
$relay->mode('delay', 200, once => 1);
$name = fails('refused', qr/ended before its token/, 'an answer later than the lease', ttl => '100 ms');
is($s->ask("SELECT fence_current('$name') IS NULL"), 't', 'no token was minted');
$a = acquire($s, 'late', 'alice', authority => 'via');
$relay->mode('delay', 200, once => 1);
is(renew($s, 'late', $a->{token}, 'alice', '100 ms'), 'lost', 'a renewal later than its lease');

# ----------------------------------------------------------- what is no Redis
foreach my $case (
	[ "HTTP/1.1 400 Bad Request\r\n\r\n", 'HTTP' ],
	[ "\$9999999\r\n" . 'x' x 20000, 'a huge answer' ],
	[ '*1' . "\r\n*1" x 3000 . "\r\n", 'a deeply nested answer' ],
	[ '*1' . "\r\n*1" x 1500 . "\r\n:1\r\n", 'a complete nested answer' ],
	[ "*-5\r\n", 'a negative length' ], [ "*99999999\r\n:1\r\n", 'a long array', 'unknown' ],
	[ "+OK\r\n", 'an answer of another type' ], [ ":1\r\n", 'a number' ],
	[ "*2\r\n:7\r\n:7\r\n", 'unknown numbers' ], [ "*0\r\n", 'an empty array' ],
	[ "*1\r\n:1\r\n*1\r\n:1\r\n", 'two answers' ], [ "\0\1\2\3", 'bytes' ])
{
	$relay->mode('say', $case->[0]);
	my $status = acquire($s, name(), 'alice', authority => 'via')->{status};
	is($status, $case->[2] // 'LF005', "$case->[1]: an error");
	unlike($s->message, qr/Bad Request|xxxx/, 'that does not hand on what was said');
	$relay->mode('pass');
	works($case->[1]);
}
{
	my $file = PostgreSQL::Test::Utils::tempdir_short() . '/x';
	my $http = redis_relay($redis);
	$http->mode('say', "HTTP/1.1 200 OK\r\n\r\nsecret", match => '');
	$http->create_server($node, 'http');
	fails('LF005', qr/sent no valid answer/, 'something that is not Redis', authority => 'http');
	unlike($s->message, qr/secret|HTTP/, 'and nothing of it is shown');
}

# ------------------------------------------------------ errors of a real Redis
my $special = redis_server();
$special->create_server($node, 's');

# While something is set, the call fails; then it works again.
sub while_set
{
	my ($status, $like, $label, $set, $reset) = @_;

	$set->();
	my $row = acquire($s, name(), 'alice', authority => 's');
	is($row->{status}, $status, $label);
	like($row->{reason} || $s->message, $like, "$label: in words");
	$reset->();
	works($label, 's');
	return;
}

sub config { my @words = @_; return sub { $special->command('CONFIG', 'SET', @words) } }

works('nothing', 's');
while_set('refused', qr/out of memory/, 'OOM', config('maxmemory', 1), config('maxmemory', 0));
while_set('refused', qr/too few replicas/, 'NOREPLICAS', config('min-replicas-to-write', 1),
	config('min-replicas-to-write', 0));
while_set('refused', qr/could not save/, 'MISCONF', sub {
		mkdir "$special->{dir}/dump.rdb";
		$special->command('CONFIG', 'SET', 'save', '3600 1');
		$special->command('BGSAVE');
		until_true('the save has failed',
			sub { $special->command('INFO', 'persistence') =~ /rdb_last_bgsave_status:err/ });
	}, sub {
		$special->command('CONFIG', 'SET', 'save', '');
		rmdir "$special->{dir}/dump.rdb";
	});
while_set('refused', qr/is a replica/, 'READONLY',
	sub { $special->command('REPLICAOF', '127.0.0.1', $closed) },
	sub { $special->command('REPLICAOF', 'NO', 'ONE') });
while_set('refused', qr/lost its master/, 'MASTERDOWN', sub {
		$special->command('REPLICAOF', '127.0.0.1', $closed);
		$special->command('CONFIG', 'SET', 'replica-serve-stale-data', 'no');
	}, sub {
		$special->command('REPLICAOF', 'NO', 'ONE');
		$special->command('CONFIG', 'SET', 'replica-serve-stale-data', 'yes');
	});
{
	my $busy = $special->connection;
	while_set('refused', qr/busy with a script/, 'BUSY', sub {
			$special->command('CONFIG', 'SET', 'busy-reply-threshold', 50);
			RedisTest::Server::write_request($busy, 'EVAL', 'while true do end', 0);
			until_true('Redis is busy', sub { ($special->command('PING') // '') =~ /^-BUSY/ });
		}, sub {
			$special->command('SCRIPT', 'KILL');
			until_true('it is not', sub { $special->command('PING') eq 'PONG' });
		});
}
while_set('28P01', qr/rejected the credentials/, 'NOAUTH', sub {
		$special->command('CONFIG', 'SET', 'requirepass', 'secret');
		$special->command('CLIENT', 'KILL', 'TYPE', 'normal');
	}, sub {
		$special->command('AUTH', 'secret');
		$special->command('CONFIG', 'SET', 'requirepass', '');
	});

# Credentials of a mapping.
sub mapping
{
	my ($options) = @_;

	$node->safe_psql('postgres', "DROP USER MAPPING FOR PUBLIC SERVER s;"
		  . "CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS ($options)");
	return;
}
while_set('28P01', qr/rejected the credentials/, 'a password that nobody asked for',
	sub { mapping("password 'hunter2'") }, sub { mapping("password_required 'off'") });
$special->command('ACL', 'SETUSER', 'worker', 'on', '>right', '~*', '-@all', '+eval',
	'+evalsha', '+get', '+set', '+pttl', '+pexpire', '+del', '+ping', '+auth');
mapping("\"user\" 'worker', password 'right'");
works('a user with the least rights', 's');
mapping("\"user\" 'worker', password 'hunter2'");
$number++;
is(acquire($s, name(), 'alice', authority => 's')->{status}, '28P01', 'WRONGPASS');
unlike($s->message, qr/hunter2/, 'the password is not shown');
mapping("\"user\" 'worker', password 'right'");
works('the password was corrected', 's');
$special->command('ACL', 'SETUSER', 'worker', '-set');
is(acquire($s, name(), 'alice', authority => 's')->{status}, '42501', 'no right to a command in the script');
$special->command('ACL', 'SETUSER', 'worker', '-evalsha', '-eval', '+set');
is(acquire($s, name(), 'alice', authority => 's')->{status}, '42501', 'NOPERM');
$special->command('ACL', 'SETUSER', 'worker', '+evalsha', '+eval', 'resetkeys', '~other:*');
is(acquire($s, name(), 'alice', authority => 's')->{status}, '42501', 'NOPERM of the key');
mapping("password_required 'off'");

$special->command('RPUSH', 'list', 1);
is(acquire($s, 'list', 'alice', authority => 's')->{status}, '55000', 'WRONGTYPE');
is($special->command('LLEN', 'list'), 1, 'leaves the key alone');

$special->command('SCRIPT', 'FLUSH');
works('SCRIPT FLUSH', 's');
$special->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
works('CLIENT KILL', 's');
$special->stop;
$special->start;
works('a restart of Redis', 's');

{
	my @idle = ($special->connection);
	$special->command('CONFIG', 'SET', 'maxclients', 1);
	$special->command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
	my $row = acquire($s, name(), 'alice', authority => 's');
	is($row->{status}, 'refused', 'too many clients');
	like($row->{reason}, qr/too many clients|closed a new connection/, 'too many clients: in words');
	$special->command('CONFIG', 'SET', 'maxclients', 100);
	works('too many clients', 's');
}
$special->command('CONFIG', 'SET', 'timeout', 1);
sleep 2.5;
works('an idle connection was closed', 's');
$special->command('CONFIG', 'SET', 'timeout', 0);

# LOADING needs a file that takes a while.
$special->command('DEBUG', 'POPULATE', 20000);
$special->command('SAVE');
$special->stop;
$special->{no_wait} = 1;
$special->start('--key-load-delay', 300, '--loading-process-events-interval-bytes', 1024);
until_true('Redis is loading',
	sub { (eval { $special->command('PING') } // '') =~ /^-LOADING/ });
my $row = acquire($s, name(), 'alice', authority => 's');
is($row->{status}, 'refused', 'LOADING');
like($row->{reason}, qr/loading its data/, 'LOADING: in words');
$special->stop('KILL');

my $cluster = redis_server(args => [ '--cluster-enabled', 'yes' ], port => 1);
$cluster->create_server($node, 'cl');
$row = acquire($s, name(), 'alice', authority => 'cl');
is($row->{status}, 'refused', 'CLUSTERDOWN');
like($row->{reason}, qr/cluster is down/, 'CLUSTERDOWN: in words');

# Errors that are hard to provoke, and those of Redis 6.
foreach my $case (
	[ '-TRYAGAIN Multiple keys request', 'refused', qr/moving the key/ ],
	[ '-DENIED Redis is running in protected mode', 'refused', qr/protected mode/ ],
	[ '-MOVED 866 192.0.2.1:6381', 'LF005', qr/node of a cluster/ ],
	[ '-ASK 866 192.0.2.1:6381', 'LF005', qr/node of a cluster/ ],
	[ '-CROSSSLOT Keys in request', 'LF005', qr/CROSSSLOT/ ],
	[ '-ERR Error running script (call to f_0123): @user_script:1: @user_script: 1: -READONLY You can\'t write against a read only replica.', 'refused', qr/is a replica/ ],
	[ '-ERR Error running script (call to f_0123): @user_script:1: @user_script: 1: -OOM command not allowed', 'refused', qr/out of memory/ ],
	[ "-ERR something new \xff\1 and more" . 'y' x 300, 'LF005', qr/something new \?\? and more/ ])
{
	$relay->mode('say', "$case->[0]\r\n");
	fails($case->[1], $case->[2], substr($case->[0], 1, 12));
	$relay->mode('pass');
	works('it');
}

# ------------------------------------------------------------------ options
my $second = redis_server();
$node->safe_psql('postgres', "ALTER SERVER r OPTIONS (SET unix_socket_path '$second->{path}')");
acquire($s, 'moved', 'alice');
is($second->command('GET', 'moved'), 'alice', 'ALTER SERVER counts from the next call');
$node->safe_psql('postgres', "ALTER SERVER r OPTIONS (ADD database '2', ADD key_prefix 'k:')");
acquire($s, 'moved', 'alice', ttl => '40 s');
$second->command('SELECT', 2);
is($second->command('GET', 'k:moved'), 'alice', 'also of the database and the prefix');
is($second->command('INFO', 'clients') =~ /connected_clients:(\d+)/ ? $1 : '', 2,
	'one connection is kept');
acquire($s, 'once', 'alice', authority => 'fresh');
is($s->ask("SELECT count(*) FROM pg_foreign_server WHERE srvname = 'r'"), 1, 'the server is there');
$node->safe_psql('postgres', 'DROP SERVER r CASCADE');
is(acquire($s, 'moved', 'alice')->{status}, '42704', 'a server that was dropped');

# ------------------------------------------------------------- descriptors
# A third of the descriptors, at most, are for what the server did not open.
# Idle connections make room for others; what others have open is an error.
foreach my $i (1 .. 30)
{
	$second->create_server($node, "many$i");
}
my @status = map { acquire($s, name(), 'alice', authority => "many$_")->{status} } 1 .. 30;
is("@status", join(' ', ('granted') x 30), 'idle connections make room for others');
SKIP:
{
	my $full = session($node);

	skip 'needs dblink', 2 if $node->psql('postgres', 'CREATE EXTENSION dblink') != 0;
	my $connstr = $node->connstr('postgres');
	$connstr =~ s/'/''/g;
	$full->try("SELECT dblink_connect('c' || i, '$connstr') FROM generate_series(1, 60) i");
	note 'dblink: ' . $full->message;
	# A server that fails to wait for one more may count a descriptor too few.
	$full->try("SELECT dblink_connect('last', '$connstr')");
	# From 16 on dblink itself needs one more to wait, and leaves it.
	like(acquire($full, name(), 'alice', authority => 'via')->{status},
		$node->pg_version >= 16 ? qr/^(53000|granted)$/ : qr/^53000$/,
		'too many files of others are an error');
	$full->ask('SELECT dblink_disconnect(c) FROM unnest(dblink_get_connections()) c');
	is(acquire($full, name(), 'alice', authority => 'via')->{status}, 'granted',
		'until they are closed');
	$full->quit;
}
works('that');

# ------------------------------------------------------------------- leaks
# 2,000 failed calls of every kind leave nothing behind.
my $pid = $s->pid;
my $descriptors = sub { my @list = glob "/proc/$pid/fd/*"; return scalar @list };
my $memory = sub {
	return PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+)/m ? $1 : 0;
};
my $rounds = sub {
	my ($count) = @_;
	foreach my $call (
		[ 'pass', '', 'closed' ], [ 'say', "-ERR no\r\n", 'via' ], [ 'say', 'HTTP', 'via' ],
		[ 'drop', '', 'fresh' ], [ 'half', '', 'via' ])
	{
		$relay->mode($call->[0], $call->[1]);
		$s->ask("DO \$\$ BEGIN FOR i IN 1 .. $count LOOP BEGIN "
			  . "PERFORM fence_acquire('leak', 'alice', '10 s', authority => '$call->[2]');"
			  . " EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END \$\$");
		is($s->code, '', "$count failed calls: $call->[0] $call->[2]");
	}
	$relay->mode('pass');
	return;
};
$rounds->(100);
my ($fds, $kb) = ($descriptors->(), $memory->());
$rounds->(400);
cmp_ok($descriptors->(), '<=', $fds, '2000 failed calls leave no descriptor');
note "$kb kB before, " . $memory->() . ' kB after';
cmp_ok($memory->(), '<=', $kb + 512, 'and no memory');
works('all that');

is($s->ask('SELECT refused > 0 AND unknown > 0 AND redis_errors > 0 FROM lockfence.stats'), 't',
	'they are counted') if $s->try('SELECT * FROM lockfence.stats') eq 'ok';

$s->quit;
$node->stop;
done_testing();
