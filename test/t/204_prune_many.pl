# 204_prune_many.pl - one-off resources come and go, and the table stays
#
# Very many resources are used once, forgotten in batches, and used again under
# other names. LOCKFENCE_ROWS says how many; the default takes seconds.
#
# Wrong result it would show: batches that get slower and slower or cannot be
# interrupted, a fence that is left, a table that grows with each generation
# although autovacuum runs.
#
# Mutants that make it fail: src/fence_table.c, fence_table_next() without
# CHECK_FOR_INTERRUPTS(); src/fence_prune.c, prune() that gives up at the first
# fence that may not be pruned.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceLoad;
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $ROWS = $ENV{LOCKFENCE_ROWS} // 60_000;
my $BATCH = 10_000;
my $node = fence_node('main', 'fsync = off', 'autovacuum_naptime = 1s');

$node->safe_psql(
	'postgres', q{
	SELECT fence_accept_external('job:', false);
	SELECT fence_acquire('job:0:live', 'h', '1 hour');
	CREATE PROCEDURE use_once(generation int, rows int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR n IN 1 .. rows LOOP
			PERFORM fence_issue('job:' || n || ':' || generation, 'h');
			IF n % 10000 = 0 THEN
				COMMIT;
			END IF;
		END LOOP;
	END $$});

sub size
{
	my ($heap, $all) = split /\|/, $node->safe_psql('postgres',
		"SELECT pg_relation_size('lockfence.fence'), pg_total_relation_size('lockfence.fence')");

	return $all;
}

sub megabytes { return sprintf '%.1f MB', $_[0] / 2**20 }

# Prune all in batches; how long each took, in ms.
sub prune_all
{
	my @times;

	for (;;)
	{
		my $pruned;

		push @times,
		  milliseconds(
			sub {
				$pruned = $node->safe_psql('postgres',
					"SELECT fence_prune('job:', '0', max_rows => $BATCH)");
			});
		return @times if $pruned == 0;
	}
}

# Until autovacuum has taken away what was pruned; the sessions that did it have
# ended, so the count of dead rows is complete.
sub vacuumed
{
	return $node->poll_query_until('postgres',
		"SELECT last_autovacuum IS NOT NULL AND n_dead_tup < $ROWS / 10 FROM pg_stat_all_tables WHERE relid = 'lockfence.fence'::regclass");
}

my @sizes;
foreach my $generation (1 .. 3)
{
	my $ms = milliseconds(
		sub { $node->safe_psql('postgres', "CALL use_once($generation, $ROWS)") });
	my @times;

	push @sizes, size();
	note "$ROWS resources used in $ms ms, the table has " . megabytes($sizes[-1]);
	if ($generation == 1)
	{
		my $before = $node->safe_psql('postgres', 'SELECT count(*) FROM lockfence.fence');
		my $err;

		$ms = milliseconds(
			sub {
				(undef, undef, $err) = $node->psql('postgres',
					"SET statement_timeout = '10ms'; SELECT fence_prune('job:', '0')");
			});
		like($err, qr/statement timeout/, "a prune can be interrupted ($ms ms)");
		is($node->safe_psql('postgres', 'SELECT count(*) FROM lockfence.fence'),
			$before, 'and has done nothing then');
	}
	@times = prune_all();
	note 'pruned in batches of ' . $BATCH . ', ms: ' . join(' ', @times);
	is($node->safe_psql('postgres', 'SELECT resource FROM lockfence.fence'),
		'job:0:live', "generation $generation: all but the live one are forgotten");
	ok(vacuumed(), "generation $generation: autovacuum comes by itself");
}
cmp_ok($sizes[2], '<', $sizes[0] * 2, 'the table has not grown with the generations');

# A lease that is renewed in time is never pruned, however short it is.
my $pruner = start_load($node, 'pruner', map { "SELECT fence_prune('job:', '0');" } 1 .. 300);
my $kept = $node->safe_psql(
	'postgres', q{
	CREATE TABLE renewals (renewed int, gone int);
	DO $$
	DECLARE
		answer record;
		renewed int := 0;
		gone int := 0;
		mine bigint;
	BEGIN
		SELECT token INTO mine FROM fence_acquire('job:short', 'h', '500 ms');
		COMMIT;
		FOR n IN 1 .. 300 LOOP
			SELECT * INTO answer FROM fence_renew('job:short', mine, 'h', '500 ms');
			COMMIT;
			EXIT WHEN answer.status <> 'renewed';
			renewed := renewed + 1;
			IF fence_current('job:short') IS DISTINCT FROM mine THEN
				gone := gone + 1;
			END IF;
			PERFORM pg_sleep(0.002);
		END LOOP;
		INSERT INTO renewals VALUES (renewed, gone);
	END $$;
	SELECT * FROM renewals});
is(finish_load($pruner), '', 'fences are pruned meanwhile');
note "$kept (renewed, gone)";
like($kept, qr/^[1-9]\d*\|0$/, 'a lease that is renewed in time is never pruned');

my ($code, undef, $err) = $node->psql('postgres', "SELECT fence_check('job:1:1', 1)");
like($err, qr/never issued|not issued|is stale/, 'what was forgotten is refused');

$node->stop;
done_testing();
