# 201_promotion.pl - a promoted standby never issues what was lost
#
# The standby is cut off; the primary goes on granting, and dies. What it had
# granted since then is in nobody's memory but the workers'. The promoted server
# must issue beyond all of it, and refuse who shows it.
#
# Wrong result it would show: a token that a worker of the dead primary holds is
# issued again, to somebody else, and both pass.
#
# Mutants that make it fail: src/fence_token.c, current_identity() without the
# timeline; epoch_after() without chance (two siblings issue the same).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceLoad;
use LockfenceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $JUMP = 2**40;

my $primary = fence_node('primary', 'autovacuum = off', 'fsync = off');
$primary->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

sub acquire
{
	my ($node, $resource, $holder) = @_;

	return $node->safe_psql('postgres',
		"SELECT token FROM fence_acquire('$resource', '$holder', '1 hour')");
}

sub code
{
	my ($node, $sql) = @_;
	my (undef, undef, $err) = $node->psql('postgres', $sql,
		extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);

	return $err =~ /ERROR:  (\w{5})/ ? $1 : 'ok';
}

$primary->safe_psql(
	'postgres', q{
	CREATE TABLE line (resource text NOT NULL, token bigint, who text);
	SELECT fence_protect('line', '{resource}', 'token')});
my $early = acquire($primary, 'r', 'A');
$primary->safe_psql('postgres', "INSERT INTO line VALUES ('r', $early, 'A')");
$primary->wait_for_catchup($standby, 'replay');

# a standby: looks work, everything else says that it is one
is($standby->safe_psql('postgres', "SELECT fence_current('r')"), $early,
	'the standby knows the fence');
is($standby->safe_psql('postgres', "SELECT holder, live FROM fence_status('r')"),
	'A|t', 'and the lease');
foreach my $call (
	"fence_acquire('r', 'B', '1 min')", "fence_acquire('new', 'B', '1 min')",
	"fence_acquire_all('{r,new}', 'B', '1 min')", "fence_acquire('r', 'B', '1 min', '1 min')",
	"fence_renew('r', $early, 'A', '1 min')", "fence_release('r', $early, 'A')",
	"fence_issue('r', 'A')", "fence_once('r', $early, 'op')",
	"fence_check('r', $early)", "fence_prune('', '0')",
	"fence_prune_operations('', '0')", "fence_new_epoch()")
{
	is(code($standby, "SELECT $call"), '25006', "on the standby: $call");
}

# The walsender stops where it is, so that nothing reaches the standby any more.
my $walsender = $primary->safe_psql('postgres', 'SELECT pid FROM pg_stat_replication');
kill 'STOP', $walsender or die "could not stop the walsender: $!";

my @lost = split /\n/, $primary->safe_psql(
	'postgres', q{
	SELECT fence_release('r', NULL, 'A') \g /dev/null
	SELECT token FROM fence_acquire('r', 'B', '1 hour');
	SELECT token FROM generate_series(1, 300) AS n, fence_acquire('lost' || n, 'B', '1 hour')});
my $last = $lost[-1];

$primary->safe_psql('postgres', "INSERT INTO line VALUES ('r', $lost[0], 'B')");
is(scalar @lost, 301, 'the primary granted 301 tokens that the standby did not see');

# The primary is gone as by a power failure.
$primary->kill9;
kill 'KILL', $walsender;
is($standby->safe_psql('postgres', "SELECT fence_current('r')"), $early,
	'the standby has not received them');
$standby->promote;

# The lost token: higher than any that is known here.
is(code($standby, "SELECT fence_check('r', $lost[0], 'B')"), 'LF003',
	'a writer with a lost token is refused');
is(code($standby, "INSERT INTO line VALUES ('r', $lost[0], 'B')"), 'LF003',
	'also at a protected table');
is(code($standby, "SELECT fence_once('r', $lost[0], 'op')"), 'LF003', 'and by fence_once');
is($standby->safe_psql('postgres', "SELECT status FROM fence_renew('r', $lost[0], 'B', '1 min')"),
	'lost', 'its lease is lost');
# Not promised otherwise: the generation before the lost one is current again.
is(code($standby, "SELECT fence_check('r', $early, 'A')"), 'ok',
	'the generation before is the current one here, as documented');

# A session that notices the change and stays open holds up nobody.
my $first = session($standby);
$first->ask('BEGIN');
my $next = $first->ask("SELECT token FROM fence_acquire('new', 'C', '1 hour')");
cmp_ok($next, '>', $last, 'the next token is above every lost one');
cmp_ok($next, '>=', $early + $JUMP, 'by a jump of 2^40');
cmp_ok($next, '<', $early + 2 * $JUMP, 'and by one jump only');
my $other = $standby->safe_psql('postgres',
	"SET statement_timeout = '60 s'; SELECT token FROM fence_acquire('other', 'D', '1 hour')");
cmp_ok($other, '>', $next, 'another session goes on while the first is open');
$first->ask('ROLLBACK');
$first->quit;
cmp_ok(acquire($standby, 'third', 'E'), '>', $other, 'a rollback takes nothing back');

# Somebody takes over r: the lost token is below the fence from now on.
is( $standby->safe_psql('postgres', "SELECT fence_release('r', NULL, 'A')"),
	'released', 'the lease that was current here is given back');
cmp_ok(acquire($standby, 'r', 'F'), '>', $last, 'and taken with a higher token');
is(code($standby, "SELECT fence_check('r', $lost[0], 'B')"), 'LF001',
	'then the lost token is stale');
is(code($standby, "INSERT INTO line VALUES ('r', $early, 'A')"), 'LF001', 'so is the one before');
# A lost resource starts anew, above the lost token.
cmp_ok(acquire($standby, 'lost7', 'G'), '>', $last, 'a lost resource gets a higher token');
is(code($standby, "SELECT fence_check('lost7', $lost[7])"), 'LF001', 'and its lost one is stale');

# Again, with eight sessions that notice at once: one jump.
$standby->backup('backup2');
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init_from_backup($standby, 'backup2', has_streaming => 1);
$second->start;
$standby->wait_for_catchup($second, 'replay');
my $before = acquire($standby, 'last', 'H');
$standby->wait_for_catchup($second, 'replay');
$standby->stop('immediate');
$second->promote;
my @loads = map {
	start_load($second, "noticing_$_",
		"SELECT token FROM generate_series(1, 50) AS n, fence_acquire('notice$_:' || n, 'h', '1 hour');")
} 1 .. 8;
my $errors = join '', map { finish_load($_) } @loads;
my @tokens = sort { $a <=> $b } map { tokens($_) } @loads;
is($errors, '', 'eight sessions noticed the second promotion at once');
is(scalar @tokens, 400, 'and got their tokens');
cmp_ok($tokens[0], '>=', $before + $JUMP, 'above all of the first promoted server');
is($tokens[-1] - $tokens[0], 399, 'without gap, twice the same, or a second jump');

# Two standbys in the same state: one is promoted, issues, and is lost; then the
# other is, which knows nothing of the first and has the same timeline.
$second->backup('backup3');
my ($one, $two) = map {
	my $sibling = PostgreSQL::Test::Cluster->new($_);

	$sibling->init_from_backup($second, 'backup3', has_streaming => 1);
	$sibling->start;
	$second->wait_for_catchup($sibling, 'replay');
	$sibling
} 'one', 'two';
$second->stop('immediate');
$one->promote;
my $of_one = acquire($one, 'sibling', 'I');
$one->stop('immediate');
$two->promote;
my $of_two = acquire($two, 'sibling', 'J');
isnt($of_two, $of_one, 'two siblings that are promoted one after the other issue different tokens');
like(code($two, "SELECT fence_check('sibling', $of_one)"), qr/^LF00[13]$/,
	'and the second refuses a token of the first');
cmp_ok($of_two, '>', $tokens[-1], 'which are above all that was known to both');

$two->stop;
# What was killed has left its shared memory, until it starts again.
$primary->start;
$primary->stop;
done_testing();
