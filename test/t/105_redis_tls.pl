# 105_redis_tls.pl - TLS to Redis
#
# Certificates are made for this test. A real Redis listens with TLS.
#
# Wrong result it would show: a connection to a server with somebody else's
# certificate, or credentials sent in clear to another machine.
#
# Mutants that make it fail: redis_tls.c, set_identity() without the name;
# set_up() without SSL_VERIFY_PEER; redis_option.c, redis_option_ssl() with
# "disable" for everybody.
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

my $node = fence_node('main', 'fsync = off');
need_redis($node, 'openssl');
if ($node->psql('postgres', "CREATE SERVER probe FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sslmode 'verify-full')") != 0)
{
	my (undef, undef, $err) = $node->psql('postgres',
		"\\set VERBOSITY verbose\nCREATE SERVER probe FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sslmode 'verify-full')");
	like($err, qr/0A000.*not supported by this build/s, 'a build without TLS says so');
	done_testing();
	exit 0;
}

my $dir = PostgreSQL::Test::Utils::tempdir_short();

sub openssl
{
	my $log = "$PostgreSQL::Test::Utils::log_path/openssl.log";

	system("openssl @_ >>$log 2>&1") == 0 or die "openssl @_ failed\n";
	return;
}

sub authority
{
	my ($name) = @_;

	openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=$name -keyout $dir/$name.key -out $dir/$name.crt");
	return;
}

# A certificate of an authority; "names" as in subjectAltName.
sub certificate
{
	my ($name, $ca, $names, $days) = @_;

	open my $file, '>', "$dir/$name.ext" or die $!;
	print $file "subjectAltName=$names\n";
	close $file;
	openssl("req -newkey rsa:2048 -nodes -subj /CN=$name -keyout $dir/$name.key -out $dir/$name.csr");

	# From 3.4 on the past has options of its own.
	my $sign = "x509 -req -in $dir/$name.csr -CA $dir/$ca.crt -CAkey $dir/$ca.key -CAcreateserial -extfile $dir/$name.ext -out $dir/$name.crt";
	return if eval { openssl("$sign -days $days"); 1 };
	openssl("$sign -not_before 20200101000000Z -not_after 20200102000000Z");
	return;
}

authority('ca');
authority('other-ca');
certificate('good', 'ca', 'DNS:redis.example,DNS:localhost,IP:127.0.0.1', 2);
certificate('wrong', 'ca', 'DNS:other.example', 2);
certificate('expired', 'ca', 'DNS:localhost,IP:127.0.0.1', -1);
certificate('client', 'ca', 'DNS:client.example', 2);

# "off", "no" or "yes": must clients show a certificate?
sub tls_redis
{
	my ($name, $clients) = @_;
	my $redis = redis_server(stopped => 1, port => 1, name => "tls_$name");
	my $port = $redis->{port};

	$redis->{tls_port} = PostgreSQL::Test::Cluster::get_free_port();
	$redis->{args} = [
		'--tls-port', $redis->{tls_port}, '--tls-cert-file', "$dir/$name.crt",
		'--tls-key-file', "$dir/$name.key", '--tls-ca-cert-file', "$dir/ca.crt",
		'--tls-auth-clients', $clients // 'no', '--requirepass', 'secret'
	];
	$redis->start;
	return $redis;
}

my $good = eval { tls_redis('good') };
if (!$good)
{
	$node->stop;
	plan skip_all => 'needs a Redis with TLS';
}
my %password = (mapping => { password => 'secret' });
my $s = session($node);
my $number = 0;

# Create a server and use it once.
sub try
{
	my ($status, $label, $redis, %options) = @_;
	my $server = 't' . ++$number;

	create_redis_server($node, $server, port => $redis->{tls_port}, %password, %options);
	my $row = acquire($s, $server, 'alice', authority => $server);
	is($row->{status}, $status, $label);
	is(acquire($s, $server, 'alice', authority => $server)->{how}, 'again', 'and once more')
	  if $status eq 'granted';
	return $row->{reason} || $s->message;
}

my @ca = (sslmode => 'verify-full', sslrootcert => "$dir/ca.crt");
try('granted', 'a certificate for the name', $good, host => 'localhost', @ca);
try('granted', 'a certificate for the address', $good, hostaddr => '127.0.0.1', @ca);
try('granted', 'another name to ask for', $good, hostaddr => '127.0.0.1', ssl_server_name => 'redis.example', @ca);
try('granted', 'name and address', $good, host => 'redis.example', hostaddr => '127.0.0.1', @ca);
like(try('LF005', 'a name that is not in it', $good, hostaddr => '127.0.0.1', host => 'db.example', @ca),
	qr/certificate verify failed: hostname mismatch/i, 'in words');
like(try('LF005', 'an unknown authority', $good, host => 'localhost', sslmode => 'verify-full', sslrootcert => "$dir/other-ca.crt"),
	qr/certificate verify failed: .*(self.signed|unable to get)/i, 'in words');
like(try('LF005', 'the authorities of the system', $good, host => 'localhost', sslmode => 'verify-full'),
	qr/certificate verify failed/, 'in words');
like(try('LF005', 'no file of authorities', $good, host => 'localhost', sslmode => 'verify-full', sslrootcert => "$dir/none.crt"),
	qr/could not load the root certificates/, 'in words');

my $wrong = tls_redis('wrong');
try('LF005', 'a certificate for another name', $wrong, host => 'localhost', @ca);
try('granted', 'which verify-ca accepts', $wrong, host => 'localhost', sslmode => 'verify-ca', sslrootcert => "$dir/ca.crt");
try('LF005', 'but not of another authority', $wrong, host => 'localhost', sslmode => 'verify-ca', sslrootcert => "$dir/other-ca.crt");
my $expired = tls_redis('expired');
like(try('LF005', 'a certificate that has expired', $expired, host => 'localhost', @ca),
	qr/expired/, 'in words');

# Client certificates.
my $strict = tls_redis('good', 'yes');
like(try('refused', 'a client without a certificate', $strict, host => 'localhost', @ca),
	qr/closed/, 'in words');
%password = (mapping => { password => 'secret', sslcert => "$dir/client.crt", sslkey => "$dir/client.key" });
try('granted', 'a client with a certificate', $strict, host => 'localhost', @ca);
%password = (mapping => { password => 'secret', sslcert => "$dir/client.crt", sslkey => "$dir/good.key" });
like(try('LF005', 'a key that is not its own', $strict, host => 'localhost', @ca),
	qr/could not load the client certificate/, 'in words');
%password = (mapping => { password => 'secret' });

# TLS to a plain port and the other way round.
# Redis waits for the end of a line; Valkey says that there is none.
create_redis_server($node, 'plain_port', port => $good->{port}, host => 'localhost', %password, @ca);
my $row = acquire($s, 'plain_port', 'alice', authority => 'plain_port');
like($row->{status}, qr/^(refused|LF005)$/, 'TLS to a plain port');
like($row->{reason} || $s->message, qr/TLS/, 'in words');
like(try('refused', 'plain to a TLS port', $good, host => 'localhost', sslmode => 'disable'),
	qr/closed/, 'in words');

# Off this machine it is verify-full unless something else is said. 127.0.0.1
# under another name is as good as another machine: nobody looks it up.
my $named = `hostname 2>/dev/null`;
chomp $named;
SKIP:
{
	my $address = gethostbyname $named || 'x';
	skip 'the machine\'s name has no address', 1 unless $address;
	my $listener = IO::Socket::INET->new(LocalAddr => '0.0.0.0', Listen => 4) or die $!;
	my $child = RedisTest::spawn(sub {
		my $client = $listener->accept;
		sysread $client, my $bytes, 4096;
		open my $out, '>', "$dir/first.new";
		print $out $bytes;
		close $out;
		rename "$dir/first.new", "$dir/first";
		sleep 60;
	});
	create_redis_server($node, 'elsewhere', host => $named, port => $listener->sockport, %password, connect_timeout => 2000);
	$s->send("SET statement_timeout = '5s'; SELECT fence_acquire('e', 'alice', '1 s', '0', 'elsewhere')");
	until_true('something was sent', sub { -e "$dir/first" });
	$s->finish;
	like(PostgreSQL::Test::Utils::slurp_file("$dir/first"), qr/\A\x16\x03/, 'another host is asked for TLS, not for the password');
	RedisTest::reap($child, 'KILL');
}

# A password in clear, only if it was asked for.
is($s->ask("SELECT count(*) FROM fence_redis_check('t1') WHERE problem LIKE '%in clear%'"), 0, 'no finding');

# Interrupted during the handshake.
{
	my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 4) or die $!;
	create_redis_server($node, 'mute', host => 'localhost', port => $listener->sockport, @ca, %password,
		connect_timeout => 20000, timeout => 20000);
	$s->ask("RESET statement_timeout; SET statement_timeout = '200ms'");
	my $ms = milliseconds(sub { is(acquire($s, 'm', 'alice', authority => 'mute')->{status}, '57014', 'cancelled in the handshake') });
	cmp_ok($ms, '<', 5000, 'at once');
	$s->ask('RESET statement_timeout');
}
is(acquire($s, 'end', 'alice', authority => 't1')->{status}, 'granted', 'and the session works');

$s->quit;
$node->stop;
done_testing();
