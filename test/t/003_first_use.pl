# 003_first_use.pl - resources that many sessions use for the first time
#
# 2 and 20 sessions begin at the same moment with resources that are not there
# yet, with external tokens, with fence_acquire and with both, the same
# resources in the same order or resources of their own.  Then single
# transactions that use very many resources for the first time.
#
# Wrong results it would show: a unique violation or a deadlock reaches a
# worker that did nothing wrong; two workers are granted the same lease; a
# smaller token is committed after a greater one; a load fails because the lock
# table is full; memory grows by kilobytes for each resource.
#
# Mutants that make it fail, all in src/fence_table.c: fence_table_lock_absent()
# without its lock (unique violations), and fence_table_insert() without giving
# it back (out of shared memory).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $RESOURCES = 150;

my $node = fence_node('main', 'track_commit_timestamp = on', 'fsync = off');
$node->safe_psql('postgres',
	'CREATE TABLE log (resource text, token bigint, session int, status text)');

# What one session does with one resource.
sub external
{
	my ($session, $resource) = @_;

	return
	  "INSERT INTO log SELECT '$resource', $session, $session, 'granted' WHERE fence_check('$resource', $session);";
}

sub acquire
{
	my ($session, $resource) = @_;

	return
	  "INSERT INTO log SELECT '$resource', token, $session, status FROM fence_acquire('$resource', 'holder $session', '1 hour');";
}

sub mixed
{
	my ($session, $resource) = @_;

	return $session % 2 ? external($session, $resource) : acquire($session, $resource);
}

my %way = (external => \&external, acquire => \&acquire, mixed => \&mixed);

# Let sessions begin together; %$allowed are SQLSTATEs that may come.
sub first_uses
{
	my ($way, $sessions, $same, $allowed) = @_;
	my $name = "$sessions sessions, $way, " . ($same ? 'the same' : 'different') . ' resources';
	my $prefix = "$way $sessions " . ($same ? 'same' : 'different');
	my @files;

	foreach my $session (1 .. $sessions)
	{
		push @files, script("first_use_$session",
			'SELECT pg_advisory_xact_lock_shared(0);',
			map { $way{$way}->($session, "$prefix $_" . ($same ? '' : " of $session")) }
			  1 .. $RESOURCES);
	}
	$node->safe_psql('postgres', 'TRUNCATE log');
	my %errors = errors_by_code(run_together($node, @files));
	note "$name: ", join(', ', map { "$_: $errors{$_}" } sort keys %errors);
	delete @errors{@$allowed};

	is_deeply(\%errors, {}, "$name: no error but " . ("@$allowed" || 'none'));
	is(order_violations($node, 'log'), 0, "$name: in order");
	my $expected = $RESOURCES * ($same ? 1 : $sessions);
	is( $node->safe_psql('postgres', "
			SELECT count(*), count(DISTINCT resource) FROM lockfence.fence
			WHERE resource LIKE '$prefix %'"),
		"$expected|$expected",
		"$name: one row for each resource");
	is( $node->safe_psql('postgres', "
			SELECT count(*) FROM lockfence.fence AS f
			FULL JOIN (SELECT resource, max(token) AS token FROM log
				WHERE status = 'granted' GROUP BY resource) AS l USING (resource)
			WHERE resource LIKE '$prefix %' AND f.token IS DISTINCT FROM l.token"),
		0,
		"$name: the fence is the greatest token that was granted");
	return;
}

foreach my $sessions (2, 20)
{
	# A smaller token that comes second is stale, and that is all.
	first_uses('external', $sessions, 1, ['LF001']);
	first_uses('external', $sessions, 0, []);

	first_uses('acquire', $sessions, 1, []);
	is( $node->safe_psql('postgres', "
			SELECT string_agg(DISTINCT status || ' ' || number, ', ') FROM (
				SELECT status, count(*) AS number FROM log GROUP BY resource, status) AS s"),
		'granted 1, held ' . ($sessions - 1),
		"$sessions sessions, acquire: one is granted, all others are told so");
	first_uses('acquire', $sessions, 0, []);
	is( $node->safe_psql('postgres',
			"SELECT count(*) = count(DISTINCT token) AND bool_and(status = 'granted') FROM log"),
		't', "$sessions sessions, acquire, different resources: all granted, each its own token");

	# Whoever comes first decides what kind of fence it is.
	first_uses('mixed', $sessions, 1, [qw(LF001 LF003 55000)]);
}

# Very many at once.
my $line = join '', map { "copied $_\t7\n" } 1 .. 20_000;
my $file = "$PostgreSQL::Test::Utils::tmp_check/many.copy";
append_to_file($file, $line);
$node->safe_psql(
	'postgres', q{
	CREATE TABLE many (resource text NOT NULL, token bigint);
	SELECT fence_protect('many', '{resource}', 'token')});
my ($status, $out, $err) = $node->psql('postgres', "\\copy many FROM '$file'");
is($err, '', '20,000 resources in one COPY');
is( $node->safe_psql('postgres',
		"SELECT count(*), min(token), max(token) FROM lockfence.fence WHERE resource LIKE 'copied %'"),
	'20000|7|7', 'each has its fence');

# Memory, while the transaction is open.
my $number = 200_000;
my $memory = q{SELECT coalesce(sum(total_bytes) FILTER (WHERE name LIKE 'lockfence admissions%'), 0),
	sum(total_bytes) FROM pg_backend_memory_contexts};
my $s = session($node);
$s->ask("SELECT fence_check('warm', 1)");
my (undef, $all_before) = split /\|/, $s->ask($memory);
$s->ask('BEGIN');
is( $s->ask("SELECT count(*) FROM generate_series(1, $number) AS n WHERE fence_check('memory of ' || n, 1)"),
	$number, "admitted for $number resources");
my ($own, $all) = split /\|/, $s->ask($memory);
my $each = int($own / $number);
my $all_each = int(($all - $all_before) / $number);
note "$each bytes for each admission, $all_each bytes of all memory contexts";
cmp_ok($own, '>', 0, 'admissions have a memory context of their own');
cmp_ok($each, '<=', 200, 'at most 200 bytes for each');
cmp_ok($all_each, '<=', 250, 'and nothing else grows much');
is($s->try('COMMIT'), 'ok', 'commit check of all of them');
is($s->ask($memory) =~ /^0\|/, 1, 'the memory is free after the commit');
$s->quit;

$node->stop;
done_testing();
