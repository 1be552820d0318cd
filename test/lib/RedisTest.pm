# RedisTest.pm - Redis servers and a relay for the tests in test/t
#
# Rule: every server and relay is a child of the test, in a directory of its
# own, on a unix socket or a loopback port, and is gone when the test ends.
#
#	need_redis();			# skips the test where there is no Redis
#	my $redis = redis_server();	# %options: port => 1, args => [...]
#	$redis->command('GET', 'key');	# undef for nil; an error as "-CODE text"
#	$redis->stop; $redis->start; $redis->signal('STOP');
#	$redis->create_server($node, 'r', key_prefix => 'p:');
#
#	my $relay = redis_relay($redis);# between a backend and a Redis
#	$relay->mode('delay', 300);	# see "what the relay can do"
#
#	acquire($session, 'resource', 'holder', %more)	# a hash: the row
package RedisTest;

use strict;
use warnings;

use Exporter 'import';
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(need_redis redis_server redis_relay acquire renew
  create_redis_server until_true quote);

my @children;
my $parent = $$;
my $numbers = 0;

sub program { return $ENV{LOCKFENCE_REDIS} // 'redis-server' }

sub find_program
{
	my ($name) = @_;

	return grep { -x "$_/$name" } split /:/, $ENV{PATH};
}

# Skip where the build or the machine has no Redis; "programs" more to look for.
sub need_redis
{
	my ($node, @programs) = @_;
	my ($code, $out, $err) = $node->psql('postgres',
		"SELECT * FROM fence_release('none', NULL, 'none', 'no such authority')");

	foreach my $program (program(), @programs)
	{
		next if find_program($program);
		$node->stop;
		plan skip_all => "needs $program";
	}
	$node->safe_psql('postgres',
		'CREATE SERVER probe FOREIGN DATA WRAPPER lockfence_redis OPTIONS (port \'1\');'
		  . 'CREATE USER MAPPING FOR PUBLIC SERVER probe');
	($code, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY sqlstate\nSELECT fence_release('none', NULL, 'none', 'probe')");
	$node->safe_psql('postgres', 'DROP SERVER probe CASCADE');
	return unless $err =~ /0A000/;
	$node->stop;
	plan skip_all => 'needs a build with hiredis';
}

# Wait until a function returns true, without luck.
sub until_true
{
	my ($what, $function) = @_;
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;

	while (time < $until)
	{
		return 1 if $function->();
		sleep 0.01;
	}
	die "timed out waiting until $what\n";
}

sub spawn
{
	my ($function) = @_;
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		$function->();
		require POSIX;
		POSIX::_exit(1);
	}
	push @children, $pid;
	return $pid;
}

sub reap
{
	my ($pid, $signal) = @_;

	kill 'CONT', $pid;
	kill $signal, $pid;
	waitpid $pid, 0;
	@children = grep { $_ != $pid } @children;
	return;
}

END
{
	if ($$ == $parent)
	{
		my $status = $?;
		my @left = @children;

		reap($_, 'KILL') foreach @left;
		$? = $status;
	}
}

sub quote
{
	my ($text) = @_;

	return 'NULL' unless defined $text;
	$text =~ s/'/''/g;
	$text =~ s/\\/\\\\/g;
	return "E'$text'";
}

# ---------------------------------------------------------------- servers

# A Redis; port => 1 for a loopback port, else a unix socket; both with "both".
sub redis_server
{
	my (%options) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $self = bless {
		dir => $dir, name => $options{name} // 'redis' . ++$numbers,
		args => $options{args} // [], program => $options{program} // program()
	}, 'RedisTest::Server';

	$self->{path} = "$dir/s" unless $options{port};
	$self->{port} = $options{port} ? PostgreSQL::Test::Cluster::get_free_port() : 0;
	$self->start unless $options{stopped};
	return $self;
}

# CREATE SERVER and a mapping for everybody, or with %mapping in "mapping".
sub create_redis_server
{
	my ($node, $name, %options) = @_;
	my $mapping = delete $options{mapping} // { password_required => 'off' };
	my $list = sub {
		my (%pairs) = @_;
		return '' unless %pairs;
		return 'OPTIONS (' . join(', ', map { "$_ " . literal($pairs{$_}) } sort keys %pairs) . ')';
	};

	$node->safe_psql('postgres',
		"CREATE SERVER $name FOREIGN DATA WRAPPER lockfence_redis " . $list->(%options)
		  . ";\nCREATE USER MAPPING FOR PUBLIC SERVER $name " . $list->(%$mapping));
	return;
}

sub literal
{
	my ($text) = @_;

	$text =~ s/'/''/g;
	return "'$text'";
}

# ---------------------------------------------------------------- calls

my @acquire_columns = qw(status token how held_by valid_for retry_after reason);

# fence_acquire as a hash; valid_for and retry_after in seconds.
sub acquire
{
	my ($session, $resource, $holder, %more) = @_;
	my $ttl = $more{ttl} // '30 s';
	my $authority = $more{authority} // 'r';
	my $wait = $more{wait} // '0';
	my $out = $session->ask(
		"SELECT status, token, how, held_by, extract(epoch FROM valid_for)::numeric, "
		  . 'extract(epoch FROM retry_after)::numeric, reason FROM fence_acquire('
		  . quote($resource) . ', ' . quote($holder)
		  . ", '$ttl', '$wait', '$authority')");
	my %row;

	@row{@acquire_columns} = split /\|/, $out, -1;
	$row{status} = $session->code if $session->code;
	return \%row;
}

sub renew
{
	my ($session, $resource, $token, $holder, $ttl) = @_;

	return $session->ask('SELECT status FROM fence_renew(' . quote($resource)
		  . ", $token, " . quote($holder) . ", '" . ($ttl // '30 s') . "')")
	  || $session->code;
}

# ---------------------------------------------------------------- relay

# What the relay can do with a request that contains "match" (EVAL if not told),
# always or once:
#	pass
#	delay MS	hand the answer on, but later
#	cut		hand the request on and close when the answer is there
#	half		as cut, but hand the first half of the answer on
#	drop		close without handing the request on
#	silent		never answer
#	say BYTES	answer with these, and hand nothing on
sub redis_relay
{
	my ($to) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $self = bless { path => "$dir/r", file => "$dir/mode", seen => "$dir/seen", to => $to },
	  'RedisTest::Relay';

	$self->mode('pass');
	my $listener = IO::Socket::UNIX->new(Local => $self->{path}, Listen => 64)
	  or die "listen: $!";
	$self->{pid} = spawn(sub { relay_loop($self, $listener) });
	close $listener;
	return $self;
}

sub relay_loop
{
	my ($self, $listener) = @_;
	my $select = IO::Select->new($listener);
	my (%peer, %is_client, %mode, @later);

	local $SIG{PIPE} = 'IGNORE';
	local $SIG{TERM} = 'DEFAULT';
	my $close = sub {
		my ($socket) = @_;
		my $other = delete $peer{$socket};

		$select->remove($socket);
		close $socket;
		return unless $other;
		delete $peer{$other};
		$select->remove($other);
		close $other;
	};
	while (1)
	{
		foreach my $socket ($select->can_read(@later ? 0.005 : 1))
		{
			if ($socket == $listener)
			{
				my $client = $listener->accept or next;
				my $server = $self->{to}->connection or do { close $client; next };
				$peer{$client} = $server;
				$peer{$server} = $client;
				$is_client{$client} = 1;
				delete $is_client{$server};
				$mode{$client} = ['pass'];
				$select->add($client, $server);
				next;
			}
			next unless $peer{$socket};
			my $count = sysread $socket, my $bytes, 65536;
			if (!$count) { $close->($socket); next }
			if ($is_client{$socket})
			{
				my @mode = $self->current($bytes);
				$mode{$socket} = \@mode;
				if ($mode[0] eq 'drop') { $close->($socket); next }
				next if $mode[0] eq 'silent';
				if ($mode[0] eq 'say') { syswrite $socket, $mode[1]; next }
				syswrite $peer{$socket}, $bytes;
				next;
			}
			my $client = $peer{$socket};
			my @mode = @{ $mode{$client} };
			if ($mode[0] eq 'cut') { $close->($socket); next }
			if ($mode[0] eq 'half')
			{
				syswrite $client, substr($bytes, 0, int(length($bytes) / 2));
				$close->($socket);
				next;
			}
			if ($mode[0] eq 'delay')
			{
				push @later, [ time + $mode[1] / 1000, $client, $bytes ];
				next;
			}
			# Answers stay in order.
			my ($before) = reverse grep { $_->[1] == $client } @later;
			if ($before)
			{
				push @later, [ $before->[0], $client, $bytes ];
				next;
			}
			syswrite $client, $bytes;
		}
		my @due = grep { $_->[0] <= time } @later;
		@later = grep { $_->[0] > time } @later;
		foreach my $one (@due)
		{
			syswrite $one->[1], $one->[2] if $peer{ $one->[1] };
		}
	}
}

package RedisTest::Server;

use Time::HiRes qw(sleep);

sub start
{
	my ($self, @more) = @_;
	my @where = $self->{path} ? ('--unixsocket', $self->{path}) : ('--bind', '127.0.0.1');
	my $log = "$PostgreSQL::Test::Utils::log_path/$self->{name}.log";

	$self->{pid} = RedisTest::spawn(sub {
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', $log;
		open STDERR, '>>', $log;
		exec $self->{program}, @{ $self->{first} // [] }, '--port', $self->{port},
		  @where, '--dir', $self->{dir}, '--save', '', '--enable-debug-command', 'yes',
		  @{ $self->{args} }, @more;
	});
	return if $self->{no_wait};
	RedisTest::until_true("$self->{name} answers", sub {
		my $answer = eval { $self->command('PING') };
		return defined $answer;
	});
	return;
}

sub stop
{
	my ($self, $signal) = @_;

	close delete $self->{socket} if $self->{socket};
	RedisTest::reap(delete $self->{pid}, $signal // 'TERM') if $self->{pid};
	return;
}

sub signal { kill $_[1], $_[0]{pid}; return }

# Where a lockfence server finds it.
sub where
{
	my ($self) = @_;

	return $self->{path} ? (unix_socket_path => $self->{path}) : (port => $self->{port});
}

sub create_server
{
	my ($self, $node, $name, %options) = @_;

	RedisTest::create_redis_server($node, $name, $self->where, %options);
	return;
}

sub connection
{
	my ($self) = @_;

	return $self->{path}
	  ? IO::Socket::UNIX->new(Peer => $self->{path})
	  : IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port});
}

sub write_request
{
	my ($socket, @words) = @_;

	syswrite $socket, '*' . @words . "\r\n" . join '', map { '$' . length($_) . "\r\n$_\r\n" } @words;
	return;
}

sub read_line
{
	my ($socket) = @_;
	my $line = '';

	until ($line =~ /\r\n\z/)
	{
		sysread($socket, my $byte, 1) or die "connection closed\n";
		$line .= $byte;
	}
	return substr $line, 0, -2;
}

sub read_reply
{
	my ($socket) = @_;
	my $line = read_line($socket);
	my ($type, $rest) = (substr($line, 0, 1), substr($line, 1));

	return $rest if $type eq '+' || $type eq ':';
	return "-$rest" if $type eq '-';
	return undef if $rest < 0;
	return [ map { read_reply($socket) } 1 .. $rest ] if $type eq '*';
	my $bytes = '';
	while (length $bytes < $rest + 2)
	{
		sysread($socket, $bytes, $rest + 2 - length $bytes, length $bytes)
		  or die "connection closed\n";
	}
	return substr $bytes, 0, $rest;
}

# Once more if the server has closed an idle connection.
sub command
{
	my ($self, @words) = @_;
	my $used = $self->{socket};
	my $reply = eval { $self->command_once(@words) };

	return $reply unless $@;
	die $@ unless $used && $@ =~ /closed/;
	return $self->command_once(@words);
}

sub command_once
{
	my ($self, @words) = @_;

	$self->{socket} //= $self->connection or die "cannot connect to $self->{name}\n";
	my $reply = eval {
		local $SIG{PIPE} = 'IGNORE';
		local $SIG{ALRM} = sub { die "no answer from $self->{name}\n" };
		alarm 30;
		write_request($self->{socket}, @words);
		my $answer = read_reply($self->{socket});
		alarm 0;
		$answer;
	};
	if ($@)
	{
		alarm 0;
		close delete $self->{socket};
		die $@;
	}
	return $reply;
}

package RedisTest::Relay;

sub mode
{
	my ($self, $verb, $arg, %more) = @_;

	open my $file, '>', "$self->{file}.new" or die "mode: $!";
	print $file join ' ', $verb, map { unpack 'H*', $_ } $arg // '',
	  $more{match} // 'EVAL', $more{once} ? 1 : 0;
	close $file;
	rename "$self->{file}.new", $self->{file} or die "mode: $!";
	return;
}

# In the relay: what to do with this request.
sub current
{
	my ($self, $bytes) = @_;
	my ($verb, @more) = split / /, PostgreSQL::Test::Utils::slurp_file($self->{file}), -1;
	my ($arg, $match, $once) = map { pack 'H*', $_ } @more;

	return 'pass' unless index($bytes, $match) >= 0;
	$self->mode('pass') if $once;
	return ($verb, $arg);
}

sub create_server
{
	my ($self, $node, $name, %options) = @_;

	RedisTest::create_redis_server($node, $name, unix_socket_path => $self->{path}, %options);
	return;
}

sub stop { RedisTest::reap($_[0]{pid}, 'KILL'); return }

1;
