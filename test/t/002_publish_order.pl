# 002_publish_order.pl - a stale transaction has not published anything
#
# postgres_fdw commits the remote part of a transaction in a callback before
# the local commit, as other modules that publish do.  The commit check has to
# come first: whatever is stale must not have been committed over there.
#
# Wrong result it would show: COMMIT fails with LF001 and the row is in the
# remote table all the same.
#
# Mutant that makes it fail: src/fence_commit.c, fence_commit_to_front() that
# does nothing after its first call in the life of the backend.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main');

unless ($node->safe_psql('postgres',
	"SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'"))
{
	plan skip_all => 'postgres_fdw is not installed';
}

my ($host, $port) = ($node->host, $node->port);
$node->safe_psql('postgres', 'CREATE DATABASE remote');
$node->safe_psql('remote', 'CREATE TABLE line (attempt text)');
$node->safe_psql(
	'postgres', "
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER remote FOREIGN DATA WRAPPER postgres_fdw
		OPTIONS (host '$host', port '$port', dbname 'remote');
	CREATE USER MAPPING FOR CURRENT_USER SERVER remote;
	CREATE FOREIGN TABLE far (attempt text) SERVER remote OPTIONS (table_name 'line');
	CREATE TABLE near (resource text NOT NULL, token bigint);
	SELECT fence_protect('near', '{resource}', 'token')");

sub arrived
{
	my ($attempt) = @_;

	return $node->safe_psql('remote',
		"SELECT count(*) FROM line WHERE attempt = '$attempt'");
}

# Ways to show a token, and what a session may have done before.
my %admit = (
	'fence_check' => "SELECT fence_check('RESOURCE', 1)",
	'a protected table' => "INSERT INTO near VALUES ('RESOURCE', 1)");
my $use = 'SELECT count(*) FROM far';
my $other_fence = "SELECT fence_check('another resource', 1)";
my %before = (
	'' => [],
	', connection cached' => [$use],
	', connection cached, lockfence used before it' => [ $other_fence, $use ],
	', connection cached, lockfence used after it' => [ $use, $other_fence ],
	', lockfence used before' => [$other_fence]);
my $attempts = 0;

# Show token 1, publish, be overtaken by token 2 (or not) and commit.
# Returns the outcome of COMMIT and the number of rows that arrived.
sub attempt
{
	my ($stale, $before, @statements) = @_;
	my $resource = 'r' . ++$attempts;
	my $s = session($node);

	$node->safe_psql('postgres', "SELECT fence_check('$resource', 1)");
	$s->ask($_) foreach @$before;
	$s->ask('BEGIN');
	foreach my $statement (@statements)
	{
		my $sql = $statement =~ s/RESOURCE/$resource/r;

		die $s->message if $s->try($sql) ne 'ok';
	}
	$node->safe_psql('postgres', "SELECT fence_check('$resource', 2)") if $stale;
	my $outcome = $s->try('COMMIT');
	$s->quit;
	return "$outcome, " . arrived($resource) . ' arrived';
}

my $publish = "INSERT INTO far VALUES ('RESOURCE')";

foreach my $way (sort keys %admit)
{
	foreach my $before (sort keys %before)
	{
		is(attempt(1, $before{$before}, $publish, $admit{$way}),
			'LF001, 0 arrived', "published, then admitted by $way$before");
		next unless $before =~ /cached/;
		is(attempt(1, $before{$before}, $admit{$way}, $publish),
			'LF001, 0 arrived', "admitted by $way, then published$before");
	}
	is(attempt(0, [], $publish, $admit{$way}),
		'ok, 1 arrived', "admitted by $way and not stale: published");
}

is( attempt(1, [], $use, $admit{'fence_check'}, $publish),
	'LF001, 0 arrived',
	'a look at the foreign table before the first admission is enough');

# What remains.  The module registers its callback when it is used for the
# first time in a session; if that is after the first admission of the very
# same transaction, its callback comes before the commit check.
is( attempt(1, [], $admit{'fence_check'}, $publish),
	'LF001, 1 arrived',
	'limit: foreign module first used after the first admission');

# It is closed by showing the token once more, to fence_check, at the end.
# Mutant: fence_check() without fence_commit_to_front().
my $again = session($node);
$node->safe_psql('postgres', "SELECT fence_check('again', 1)");
$again->ask("BEGIN; SELECT fence_check('again', 1); INSERT INTO far VALUES ('again')");
$again->ask("SELECT fence_check('again', 1)");
$node->safe_psql('postgres', "SELECT fence_check('again', 2)");
is($again->try('COMMIT'), 'LF001', 'shown once more at the end: stale');
is(arrived('again'), 0, 'and nothing was published');
$again->quit;

# One such transaction does not spoil the next one.
my $s = session($node);
$node->safe_psql('postgres', "SELECT fence_check('limit', 1)");
$s->ask("BEGIN; SELECT fence_check('limit', 1); INSERT INTO far VALUES ('limit 1'); COMMIT");
is(arrived('limit 1'), 1, 'the first transaction has published');
$s->ask("BEGIN; SELECT fence_check('limit', 1); INSERT INTO far VALUES ('limit 2')");
$node->safe_psql('postgres', "SELECT fence_check('limit', 2)");
is($s->try('COMMIT'), 'LF001', 'the next one in the same session is stale');
is(arrived('limit 2'), 0, 'and has not published');
$s->quit;

$node->stop;
done_testing();
