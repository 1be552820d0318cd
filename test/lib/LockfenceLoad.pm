# LockfenceLoad.pm - psql processes that run while a test does something else
#
# Rule: what a load has seen counts, whatever becomes of the server. psql ends
# orderly when its server is gone, so its output is complete then.
#
#	my $load = start_load($node, 'name', @statements);	# does not wait
#	wait_until(sub { tokens($load) > 10 });		# looks every few milliseconds
#	finish_load($load);
#	my @tokens = tokens($load);		# lines of its output that are numbers
package LockfenceLoad;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(start_load finish_load tokens wait_until median);

sub start_load
{
	my ($node, $name, @statements) = @_;
	my $file = script($name, @statements);
	my $out = "$PostgreSQL::Test::Utils::tmp_check/$name.out";
	my $run = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-f', $file ],
		'<', \undef, '>', $out, '2>', "$out.err",
		IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default));

	return { name => $name, run => $run, out => $out };
}

# What it wrote to standard error.
sub finish_load
{
	my ($load) = @_;

	$load->{run}->finish;
	return PostgreSQL::Test::Utils::slurp_file("$load->{out}.err");
}

sub tokens
{
	my ($load) = @_;

	return () unless -e $load->{out};
	return grep { /^\d+$/ } split /\n/,
	  PostgreSQL::Test::Utils::slurp_file($load->{out});
}

# Look again and again until a condition holds; false if it takes too long.
sub wait_until
{
	my ($condition) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;

	while (time < $end)
	{
		return 1 if $condition->();
		usleep(5000);
	}
	return 0;
}

sub median
{
	my @sorted = sort { $a <=> $b } @_;

	return $sorted[ $#sorted / 2 ];
}

1;
