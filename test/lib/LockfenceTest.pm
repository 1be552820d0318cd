# LockfenceTest.pm - servers, sessions and loads for the tests in test/t
#
# Rule: nothing here sleeps for luck.  A test waits until a query says so, or
# until the server blocks it.
#
#	my $node = fence_node('main', 'track_commit_timestamp = on');
#	my $s = session($node);		# one psql process, one backend
#	$s->ask('SELECT 1');		# its output; $s->code is then '' or an SQLSTATE
#	$s->try('SELECT 1/0');		# only the outcome: 'ok' or an SQLSTATE
#	$s->send('COMMIT');		# does not wait
#	$s->until_blocked;		# waits until the server says it waits for a lock
#	$s->finish;			# waits for what was sent; like ask
#	run_scripts($node, @files);	# one psql process each, all at once
#	run_together($node, @files);	# likewise, let go when all are there
package LockfenceTest;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

our @EXPORT = qw(fence_node session run_scripts run_together start_scripts script
  errors_by_code order_violations milliseconds);

# A server with the extension in database postgres.
sub fence_node
{
	my ($name, @conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init(allows_streaming => 1);
	$node->append_conf('postgresql.conf',
		join("\n", 'max_connections = 50', @conf, ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION lockfence');
	return $node;
}

# A session; more connection parameters as in "user=alice".
sub session
{
	my ($node, %params) = @_;
	my $connstr = delete $params{connstr}
	  // $node->connstr(delete $params{dbname} // 'postgres');
	my $self = bless {
		node => $node, in => '', out => '', err => '', tags => 0, code => ''
	}, 'LockfenceTest::Session';

	$connstr .= " $_=$params{$_}" foreach sort keys %params;
	$self->{timer} = IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default);
	$self->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $connstr, '-f', '-' ],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		$self->{timer});
	$self->{pid} = $self->ask('SELECT pg_backend_pid()');
	return $self;
}

# Write SQL into a file of its own.
sub script
{
	my ($name, @lines) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/$name.sql";

	open my $out, '>', $file or die "could not write $file: $!";
	print $out join("\n", @lines, '');
	close $out;
	return $file;
}

# Start psql for each file; the caller must call finish() on what is returned.
# Errors go to FILE.err, because nobody empties a pipe while another psql is
# waited for.
sub start_scripts
{
	my ($node, @files) = @_;

	return map {
		IPC::Run::start(
			[
				'psql', '-XAtq', '-v', 'VERBOSITY=verbose',
				'-d', $node->connstr('postgres'), '-o', '/dev/null', '-f', $_
			],
			'<', \undef, '2>', "$_.err",
			IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default))
	} @files;
}

# Run files at once; returns what each wrote to standard error.
sub run_scripts
{
	my ($node, @files) = @_;

	$_->finish foreach start_scripts($node, @files);
	return map { PostgreSQL::Test::Utils::slurp_file("$_.err") } @files;
}

# Likewise, for files that begin with "SELECT pg_advisory_xact_lock_shared(0)":
# there they wait for one another.
sub run_together
{
	my ($node, @files) = @_;
	my $gate = session($node);

	$gate->ask('SELECT pg_advisory_lock(0)');
	my @runs = start_scripts($node, @files);
	$node->poll_query_until('postgres',
		"SELECT count(*) = @{[ scalar @files ]} FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
	) or die "not all sessions came to the gate\n";
	$gate->quit;
	$_->finish foreach @runs;
	return map { PostgreSQL::Test::Utils::slurp_file("$_.err") } @files;
}

# How often each SQLSTATE occurs in what psql wrote.  Left out is what only
# follows from an error before: 25P02, and 3B001 for a SAVEPOINT that failed so.
sub errors_by_code
{
	my %count;

	foreach my $err (@_)
	{
		$count{$1}++ while $err =~ /(?:ERROR|FATAL|PANIC):  (\w{5}):/g;
	}
	delete @count{qw(25P02 3B001)};
	return %count;
}

# Rows of a table log(resource, token) that follow a greater token of the same
# resource in commit order.
sub order_violations
{
	my ($node, $log) = @_;

	return $node->safe_psql(
		'postgres', "
		SELECT count(*) FROM (
			SELECT token, max(token) OVER (PARTITION BY resource ORDER BY at
				RANGE UNBOUNDED PRECEDING EXCLUDE GROUP) AS before
			FROM (SELECT resource, token, pg_xact_commit_timestamp(xmin) AS at
				  FROM $log) AS rows) AS ordered
		WHERE token < before");
}

# Run a function; how many milliseconds did it take?
sub milliseconds
{
	my ($function) = @_;
	my $start = time;

	$function->();
	return int((time - $start) * 1000);
}

package LockfenceTest::Session;

use PostgreSQL::Test::Utils;
use Test::More;

# Hand SQL to the session and return at once.
sub send
{
	my ($self, $sql) = @_;

	$self->{in} .= "$sql\n;\n";
	$self->{run}->pump_nb;
	return;
}

# Wait for everything sent; the output since the last wait.
sub finish
{
	my ($self) = @_;
	my $tag = 'lockfence test ' . ++$self->{tags};
	my $output;

	$self->{timer}->start;
	$self->{in} .= "\\echo '$tag'\n\\warn '$tag'\n";
	until ($self->{out} =~ /^$tag\n/m && $self->{err} =~ /^$tag\n/m)
	{
		die "session $self->{pid} did not answer\n" if $self->{timer}->is_expired;
		last unless $self->{run}->pumpable;
		$self->{run}->pump;
	}
	$self->{timer}->reset;
	($output = $self->{out}) =~ s/\n?^$tag\n//m;
	($self->{message} = $self->{err}) =~ s/^$tag\n//m;
	$self->{out} = $self->{err} = '';
	$self->{code} =
	  $self->{message} =~ /(?:ERROR|FATAL|PANIC):  (\w{5}):/ ? $1 : '';
	return $output;
}

sub ask
{
	my ($self, $sql) = @_;

	$self->send($sql);
	return $self->finish;
}

sub try
{
	my ($self, $sql) = @_;

	$self->ask($sql);
	return $self->{code} || 'ok';
}

sub code { return $_[0]->{code} }
sub message { return $_[0]->{message} }
sub pid { return $_[0]->{pid} }

# Wait until the server shows this session as waiting for a lock.
sub until_blocked
{
	my ($self) = @_;

	return $self->{node}->poll_query_until('postgres',
		"SELECT cardinality(pg_blocking_pids($self->{pid})) > 0");
}

# A dead backend has ended psql already.
sub quit
{
	my ($self) = @_;

	$self->{run}->pump_nb if $self->{run}->pumpable;
	$self->{in} .= "\\q\n" if $self->{run}->pumpable;
	eval { $self->{run}->finish };
	return;
}

1;
