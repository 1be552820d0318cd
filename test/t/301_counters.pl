# 301_counters.pl - the counters are what the clients saw, to the last one
#
# Eight sessions at full speed for 30 s check, write, are refused at statements and at
# commits, roll back, use savepoints and take leases.  The counters must add up
# to what psql printed.  Meanwhile nobody is seen waiting for lockfence's locks.
# Then the ring of refusals holds exactly the newest ones, and as many as
# lockfence.rejection_log_size says from the next reload on.  Sessions that are
# terminated in the middle leave nothing behind.
#
# Mutants that must make it fail: src/fence_stats.c, flush() at commit only, or
# fence_stats_read() of half of the shards; src/fence_journal.c,
# compare_states() the other way around;
# src/fence_activity.c, end_transaction() without XACT_EVENT_ABORT.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use POSIX qw(:sys_wait_h);
use Test::More;

my $CLIENTS = 8;
my $SECONDS = 30;
my $ROUNDS = 1000;    # of each psql; then another one follows
my $RESOURCES = 4;

my $seed = int($ENV{LOCKFENCE_SEED} // time);
note "LOCKFENCE_SEED=$seed";
srand $seed;

my $node = fence_node('main', "shared_preload_libraries = 'lockfence'",
	'fsync = off', 'lockfence.rejection_log_size = 100');
$node->safe_psql(
	'postgres', q{
	CREATE TABLE line (resource text, token bigint);
	SELECT fence_protect('line', '{resource}', 'token');
	CREATE TABLE looked_at (resource text, token bigint);
	SELECT fence_protect('looked_at', '{resource}', 'token', mode => 'observe');
	SELECT fence_stats_reset();
});

# One round: what is sent, and what it counts as, if it is not refused.
sub round
{
	my ($number, $client) = @_;
	my $resource = 'r' . int rand $RESOURCES;
	my $token = 1 + int($number / 10) + int rand 3;
	my $kind = int rand 8;

	return "SELECT 'checked' WHERE fence_check('$resource', $token);"
	  if $kind < 2;
	return "INSERT INTO line VALUES ('$resource', $token) RETURNING 'inserted';"
	  if $kind == 2;
	return "INSERT INTO line VALUES ('$resource', NULL) RETURNING 'unshown';"
	  if $kind == 3;
	return "INSERT INTO looked_at VALUES ('$resource', NULL) RETURNING 'observed';"
	  if $kind == 4;
	return
	  "BEGIN; SELECT 'checked' WHERE fence_check('$resource', $token); DO 'BEGIN PERFORM pg_sleep(0.005); END'; COMMIT;"
	  if $kind == 5;
	return
	  "BEGIN; SAVEPOINT s; SELECT 'checked' WHERE fence_check('$resource', $token); ROLLBACK TO s; ROLLBACK;"
	  if $kind == 6;
	return
	  "SELECT status || coalesce(' ' || how, '') FROM fence_acquire('lease:$resource', 'client $client', '10 ms');";
}

# One psql in the background, which nobody has to pump.
sub start_psql
{
	my ($file) = @_;
	my $pid = fork // die "could not fork: $!";

	return $pid if $pid;
	open STDIN, '<', '/dev/null';
	open STDERR, '>', "$file.err";
	exec('psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d',
		$node->connstr('postgres'), '-o', "$file.out", '-f', $file)
	  or POSIX::_exit(1);
}

# Those of the processes that still run.
sub running
{
	return grep { waitpid($_, WNOHANG) == 0 } @_;
}

# The next script of a client.
my @scripts;
my @done = (0) x $CLIENTS;
sub next_script
{
	my ($client) = @_;
	my $from = $done[$client];

	$done[$client] += $ROUNDS;
	push @scripts,
	  script("client_${client}_$from",
		map { round($from + $_, $client) } 1 .. $ROUNDS);
	return start_psql($scripts[-1]);
}

# Who waits for what meanwhile?
my ($samples, %waits) = (0);
my $watch = session($node);
$watch->ask('SELECT checks FROM lockfence.stats');
my $start = time;
my @runs = map { next_script($_) } 0 .. $CLIENTS - 1;
while (1)
{
	my @ended = grep { $runs[$_] && !running($runs[$_]) } 0 .. $CLIENTS - 1;

	$runs[$_] = time - $start < $SECONDS && next_script($_) foreach @ended;
	last unless grep { $_ } @runs;
	foreach my $wait (split /\n/, $watch->ask(
			"SELECT coalesce(wait_event_type || ':' || wait_event, 'none') FROM pg_stat_activity
			 WHERE state = 'active' AND pid <> pg_backend_pid()"))
	{
		$samples++;
		$waits{$wait}++;
	}
}
my $lockfence = 0;
/Lockfence/ and $lockfence += $waits{$_} foreach keys %waits;
note "$samples samples: "
  . join(', ', map { "$_ $waits{$_}" } sort { $waits{$b} <=> $waits{$a} } keys %waits);
note time - $start, ' s, ', scalar @scripts, " times $ROUNDS rounds";
cmp_ok(time - $start, '>=', $SECONDS, 'the load lasted');
cmp_ok($samples, '>', 20, 'the load was watched');
cmp_ok($lockfence, '<=', $samples / 100, "nobody waits for lockfence's locks");

my (%out, %refused);
foreach my $script (@scripts)
{
	$out{$_}++ foreach split /\n/, slurp_file("$script.out");
	my $err = slurp_file("$script.err");
	$refused{"$1 $2"}++
	  while $err =~ /ERROR:  (LF\d\d\d): .*\nDETAIL:  .* at (statement|commit)\.$/mg;
	my %other = errors_by_code($err);
	delete @other{grep { /^LF/ } keys %other};
	is_deeply(\%other, {}, 'no other errors');
}
my $count = sub { return $_[0]->{ $_[1] } // 0 };
my $seen = sub {
	return $node->safe_psql('postgres', "SELECT $_[0] FROM lockfence.stats");
};
my $stale = $count->(\%refused, 'LF001 statement');
my $passed = $count->(\%out, 'checked') + $count->(\%out, 'inserted') +
  $count->(\%out, 'granted again');
cmp_ok($stale, '>', 100, 'many were stale');
cmp_ok($count->(\%refused, 'LF001 commit'), '>', 0, 'some at commit');

# An INSERT in a transaction of its own may be refused at its commit, after psql
# would have printed the row.
is($seen->('stale_at_statement'), $stale, 'stale at a statement');
is( $seen->('stale_at_commit'),
	$count->(\%refused, 'LF001 commit'), 'stale at commit');
is($seen->('missing'), $count->(\%refused, 'LF002 statement'), 'missing');
is($seen->('observed'), $count->(\%out, 'observed'), 'observed');
is($seen->('checks - accepted'), $stale, 'checks are accepted or refused');
cmp_ok($seen->('accepted'), '>=', $passed, 'accepted');
cmp_ok($seen->('accepted'), '<=', $passed + $count->(\%refused, 'LF001 commit'),
	'and no more than were printed or refused at commit');
is($seen->("granted_$_"), $count->(\%out, "granted $_"), "granted $_")
  foreach qw(new takeover again);
is($seen->('held'), $count->(\%out, 'held'), 'held');
is($node->safe_psql('postgres', 'SELECT count(*) FROM lockfence.activity'),
	'0', 'nothing is left open');

# The ring
is($node->safe_psql('postgres', 'SELECT count(*) FROM lockfence.rejections'),
	'100', 'the ring holds as many as it may');
my ($stdout, $stderr);
$node->psql(
	'postgres',
	join("\n",
		"SELECT fence_check('ring', 1000);",
		map { "SELECT fence_check('ring', $_);" } 1 .. 150),
	on_error_stop => 0);
is( $node->safe_psql(
		'postgres',
		"SELECT string_agg(token::text, ' ' ORDER BY at) FROM lockfence.rejections"),
	join(' ', 51 .. 150),
	'the newest, in order');
$node->append_conf('postgresql.conf', 'lockfence.rejection_log_size = 120');
$node->reload;
ok( $node->poll_query_until(
		'postgres', 'SELECT count(*) = 120 AND min(token) = 31 FROM lockfence.rejections'),
	'more of them after a reload');
$node->append_conf('postgresql.conf', 'lockfence.rejection_log_size = 0');
$node->reload;
ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM lockfence.rejections'),
	'none after another');

# Sessions that are terminated in the middle
$node->safe_psql('postgres', "SELECT fence_check('victim', 1)");
my @long = map {
	script("victim_$_",
		("BEGIN; SELECT fence_check('victim', 1); SELECT count(*) FROM generate_series(1, 50000); COMMIT;") x 1000)
} 1 .. 4;
my @victims;
my $killed = 0;
while ($killed < 25)
{
	@victims = running(@victims);
	push @victims, start_psql($long[ $killed % 4 ]) while @victims < 4;
	my $pid = $watch->ask(
		'SELECT pid FROM lockfence.activity WHERE pid <> pg_backend_pid() LIMIT 1');
	next unless $pid =~ /^\d+$/;
	$killed++
	  if $watch->ask("SELECT pg_terminate_backend($pid)") eq 't';
	$watch->ask("SELECT pg_cancel_backend(pid) FROM lockfence.activity WHERE pid <> pg_backend_pid()");
}
cmp_ok($killed, '>=', 25, 'sessions were terminated');
$watch->ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity
	WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
waitpid $_, 0 foreach @victims;
is($watch->ask('SELECT count(*) FROM lockfence.activity'), '0', 'nothing is left open');
cmp_ok($watch->ask('SELECT checks FROM lockfence.stats'), '>', 0, 'and all can be read');
$watch->quit;

done_testing();
