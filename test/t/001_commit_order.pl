# 001_commit_order.pl - no smaller token is committed after a greater one
#
# Six sessions show random external tokens from 1 to 30 for resources that they
# share, for ten seconds, through fence_check and through protected tables, at
# every isolation level, with savepoints and rollbacks.  The commit timestamps
# then tell the order in which the rows were committed.
#
# Wrong result it would show: a transaction that was admitted, and overtaken
# by a greater token before its COMMIT, is committed all the same; or an error
# that a worker cannot make sense of (a unique violation from first uses).
#
# Mutant that makes it fail: src/fence_commit.c, xact_callback() without the
# call of check_admissions().
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $SESSIONS = 6;
my $SECONDS = 10;
my $MOST = 10000;     # transactions in a session's script
my $WINDOW = 6;       # resources in use at a time
my $MOVES = 12;       # new resources per second

my $seed = int($ENV{LOCKFENCE_SEED} // time);
note "LOCKFENCE_SEED=$seed";

my $node = fence_node('main', 'track_commit_timestamp = on',
	'deadlock_timeout = 20ms', 'fsync = off');
$node->safe_psql(
	'postgres', q{
	-- every token that was accepted, with the transaction that showed it
	CREATE TABLE log (resource text, token bigint, via text);

	-- what was inserted under protection
	CREATE TABLE line (resource text NOT NULL, token bigint);
	SELECT fence_protect('line', '{resource}', 'token');

	-- what was changed under protection, one row for each resource
	CREATE TABLE cell (resource text PRIMARY KEY, token bigint);
	SELECT fence_protect('cell', '{resource}', 'token');
	CREATE FUNCTION log_row() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO log VALUES (NEW.resource, NEW.token, TG_TABLE_NAME);
		RETURN NULL;
	END $$;
	CREATE TRIGGER log AFTER INSERT OR UPDATE ON line
		FOR EACH ROW EXECUTE FUNCTION log_row();
	CREATE TRIGGER log AFTER INSERT OR UPDATE ON cell
		FOR EACH ROW EXECUTE FUNCTION log_row();
});

sub pick { return $_[ int rand @_ ] }

# Show one token for one resource, and leave a row behind.
sub touch
{
	my ($resource, $token) = @_;
	my $row = "($resource, $token)";

	return pick(
		"INSERT INTO log SELECT $resource, $token, 'check' WHERE fence_check($resource, $token);",
		"INSERT INTO line VALUES $row;",
		"INSERT INTO cell VALUES $row ON CONFLICT (resource) DO UPDATE SET token = excluded.token;",
		"UPDATE cell SET token = $token WHERE resource = $resource;");
}

# What psql asks before each transaction: which resources are in use now (in
# variables r0, r1 ...), what are their fences (t0, t1 ...), and is it time to
# stop?  By the clock, so that a slow session does not work on resources that
# the others have left.
sub prologue
{
	return (
		'SELECT '
		  . join('',
			map { "'r' || first + $_ AS r$_, coalesce(fence_current('r' || first + $_), 1) AS t$_, " }
			  0 .. $WINDOW - 1)
		  . "clock_timestamp() > :'deadline' AS over",
		"FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * $MOVES)::bigint AS first) AS f \\gset",
		'\if :over', '\q', '\endif');
}

# The token of the present generation or a later one, or any.
sub token
{
	my ($number) = @_;

	return pick(
		":t$number", ":t$number",
		"least(30, :t$number + " . (1 + int rand 4) . ')',
		1 + int rand 30);
}

sub transaction
{
	my @lines = 'BEGIN ISOLATION LEVEL '
	  . pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE') . ';';

	foreach (1 .. 1 + int rand 3)
	{
		my $number = int rand $WINDOW;
		my $statement = touch(":'r$number'", token($number));

		push @lines, rand() < 0.25
		  ? ('SAVEPOINT s;', $statement, pick('ROLLBACK TO s;', 'RELEASE s;'))
		  : $statement;
		push @lines, 'SELECT pg_sleep(0.003);' if rand() < 0.4;
	}
	return (@lines, rand() < 0.95 ? 'COMMIT;' : 'ROLLBACK;');
}

srand $seed;
my @files = map {
	script("commit_order_$_",
		"SELECT now() + '$SECONDS s' AS deadline \\gset",
		map { (prologue(), transaction()) } 1 .. $MOST)
} 1 .. $SESSIONS;

my @errors = run_scripts($node, @files);
my %errors = errors_by_code(@errors);
my ($rows, $transactions, $via, $resources, $tenths, $raises) = split /\|/,
  $node->safe_psql(
	'postgres', q{
	WITH ordered AS (
		SELECT *, row_number() OVER (PARTITION BY resource ORDER BY at) = 1
				OR token > max(token) OVER (PARTITION BY resource ORDER BY at
					RANGE UNBOUNDED PRECEDING EXCLUDE GROUP) AS raised,
			ntile(10) OVER (ORDER BY at) AS tenth
		FROM (SELECT *, pg_xact_commit_timestamp(xmin) AS at FROM log) AS rows)
	SELECT count(*), count(DISTINCT at), count(DISTINCT via),
		count(DISTINCT resource), count(DISTINCT tenth) FILTER (WHERE raised),
		count(*) FILTER (WHERE raised)
	FROM ordered});

my $at_commit = () = join('', @errors) =~ /at commit\./g;
my $violations = order_violations($node, 'log');

note "$rows rows in $transactions committed transactions over $resources resources, $raises raises";
note join ', ', map { "$_: $errors{$_}" } sort keys %errors;
note "$at_commit transactions overtaken before their COMMIT, $violations violations";

cmp_ok($transactions, '>', 100, 'there was a load');
is($via, 3, 'it came by fence_check, INSERT and UPDATE');
is($tenths, 10, 'fences were raised during the whole run');
cmp_ok($at_commit, '>', 0, 'some transactions were overtaken before their COMMIT');

is($violations, 0, 'in commit order no smaller token follows a greater one');
delete @errors{qw(LF001 40001 40P01)};
is_deeply(\%errors, {}, 'no error but LF001, 40001 and 40P01')
  or diag(explain [ grep { /ERROR/ && !/ (LF001|40001|40P01|25P02|3B001):/ } map { split /^/ } @errors ]);

is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM lockfence.fence AS f
		FULL JOIN (SELECT resource, max(token) AS token FROM log GROUP BY 1) AS l
			USING (resource)
		WHERE f.token IS DISTINCT FROM l.token}),
	0,
	'each fence is the greatest token of the committed rows');

$node->stop;
done_testing();
