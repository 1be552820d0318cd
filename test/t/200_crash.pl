# 200_crash.pl - a crash takes no token back
#
# One WAL record covers a thousand tokens, and a token from an open transaction
# has to be safe before it is handed out, although nothing of the transaction
# is. Thirty rounds of load and immediate stop: sessions acquire and commit, with
# synchronous_commit off, or roll back, or all stay in one transaction until they
# have taken more than one record covers. One more is in the middle of a
# transaction that has taken a hundred tokens. Some rounds take a checkpoint,
# after which the records before count no more, and a few more begin with the
# sequence written anew, which keeps its count of covered tokens but not the
# record that covers them. Whatever a client has seen counts, committed or not.
#
# Wrong result it would show: a token that somebody has seen is issued again
# after the crash, or a new one is smaller.
#
# Mutants that make it fail, all in src/fence_token.c: fence_token_mint() without
# XLogFlush(); write_sequence() that writes no record, or one with the last value
# as it is; current_identity() without the file. The end of any transaction gets
# the WAL of everybody flushed, so every other round has none; and the WAL writer is
# kept asleep.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceLoad;
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $ROUNDS = 30;
my $ANEW = 3;
my $SESSIONS = 5;

my $node = fence_node('main', 'fsync = off', 'wal_writer_delay = 10s',
	'autovacuum = off', 'restart_after_crash = off');

sub committing
{
	my ($n) = @_;

	return ('SET synchronous_commit = off;', map {
			"SELECT token FROM fence_acquire('c$n:' || $_ % 7, 'h$_', '1 hour'); SELECT NULL FROM fence_release('c$n:' || $_ % 7, NULL, 'h$_');"
		} 1 .. 20000);
}

# Tokens that are rolled back, each seen by the client first.
sub rolling_back
{
	my ($n) = @_;

	return map {
		('BEGIN;', "SELECT token FROM fence_acquire('r$n:$_', 'h', '1 hour');",
			"SELECT token FROM fence_acquire_all(ARRAY['r$n:a', 'r$n:b'], 'h', '1 hour');",
			'ROLLBACK;')
	} 1 .. 20000;
}

# Tokens of a transaction that does not end.
sub staying_open
{
	my ($n) = @_;

	return ('BEGIN;',
		map { "SELECT token FROM fence_acquire('o$n:$_', 'h', '1 hour');" } 1 .. 20000);
}

my %load = (
	'committed' => \&committing,
	'rolled back' => \&rolling_back,
	'open' => \&staying_open);

my %seen;
my $greatest = 0;
my ($again, $smaller, $behind, $unseen) = (0, 0, 0, 0);
my %kinds;

# A token that somebody has seen, in a round that began above $floor.
sub note_token
{
	my ($token, $floor) = @_;

	$again++ if $seen{$token}++;
	$smaller++ if $token <= $floor;
	return;
}

foreach my $round (1 .. $ROUNDS + $ANEW)
{
	my $quiet = $round % 2;
	my $floor = $greatest;
	my @loads = map {
		my $kind = $quiet ? 'open' : $_ % 2 ? 'rolled back' : 'committed';
		my $load =
		  start_load($node, "crash_${round}_$_", $load{$kind}->("$round:$_"));

		$load->{kind} = $kind;
		$load
	} $round > $ROUNDS ? () : 1 .. $SESSIONS;
	my $open = session($node);
	my @open;

	$node->safe_psql('postgres', "ALTER SEQUENCE lockfence.token START WITH $round")
	  if $round > $ROUNDS;

	# until all have seen some, and then a hundred in one open transaction
	foreach my $load (@loads)
	{
		die "no load in round $round"
		  unless wait_until(sub { tokens($load) > ($quiet ? 230 : 10) + int rand 60 });
	}
	$node->safe_psql('postgres', 'CHECKPOINT') unless $round % 5;
	$open->ask('BEGIN');
	@open = split /\n/, $open->ask(
		"SELECT token FROM generate_series(1, 100) AS n, fence_acquire('open:$round:' || n, 'h', '1 hour')");
	$node->stop('immediate');
	finish_load($_) foreach @loads;
	$open->quit;

	$unseen++ unless @open == 100;
	note_token($_, $floor) foreach @open;
	$kinds{open} += @open;
	foreach my $load (@loads)
	{
		my @tokens = tokens($load);

		note_token($_, $floor) foreach @tokens;
		$kinds{ $load->{kind} } += @tokens;
		# each session's own are in order
		foreach my $i (1 .. $#tokens)
		{
			$smaller++ if $tokens[$i] <= $tokens[ $i - 1 ];
		}
	}
	foreach my $token (keys %seen) { $greatest = $token if $token > $greatest; }

	$node->start;
	my $next = $node->safe_psql('postgres',
		"SELECT token FROM fence_acquire('next:$round', 'h', '1 hour')");
	$behind++ if $next <= $greatest;
	note_token($next, $greatest);
	$greatest = $next if $next > $greatest;
}

note join ', ', map { "$kinds{$_} $_" } sort keys %kinds;
note scalar(keys %seen), " tokens seen, the last is $greatest";
is($unseen, 0, 'each round had an open transaction with a hundred tokens');
is($again, 0, 'no token was issued twice');
is($smaller, 0, 'no token is smaller than one that was issued before');
is($behind, 0, 'after each crash the next token is greater than all before');
is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM lockfence.fence
		WHERE resource LIKE 'r%' OR resource LIKE 'o%'}),
	0,
	'nothing of what was rolled back or lost is there');
is( $node->safe_psql(
		'postgres',
		'SELECT count(*) FROM lockfence.fence WHERE token > (SELECT last_value FROM lockfence.token)'),
	0,
	'no fence is above the sequence');

$node->stop;
done_testing();
