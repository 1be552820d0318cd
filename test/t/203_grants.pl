# 203_grants.pl - eight sessions take turns, and thirty-two wait
#
# Eight sessions acquire one resource and release it, as fast as they can, for
# five seconds. Every grant is logged in the transaction of the acquire, by the
# clock that decides leases. Then thirty-two sessions wait for one lease, idle,
# and take it one after the other when it is released. Then sessions that name
# several resources in opposite orders.
#
# Wrong result it would show: two live holders at a moment, a grant whose token
# is below that of an earlier one, a deadlock or a unique violation that no
# worker can make sense of; waiters that keep the processor busy, or sleep on
# after the lease is free; a cancel that has to wait.
#
# Mutants that make it fail: src/fence_take.c, fence_take_look() that takes any
# lease for its own (two holders); src/fence_wait.c, a pause of 1 ms (busy), a
# pause of 5 s where nobody wakes (late); src/fence_param.c,
# fence_param_resources() that does not sort, with src/fence_take.c locking
# by waiting (deadlock).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceLoad;
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $SESSIONS = 8;
my $SECONDS = 5;
my $WAITERS = 32;

my $node = fence_node('main', 'fsync = off', 'deadlock_timeout = 10ms',
	'max_connections = 60', 'track_commit_timestamp = on',
	"shared_preload_libraries = 'lockfence'");
$node->safe_psql(
	'postgres', q{
	CREATE TABLE grant_log (token bigint, holder text, acquired_at timestamptz,
		expires_at timestamptz, released_at timestamptz);
	-- acquire, note, keep for a moment, release; a row as it was granted
	CREATE PROCEDURE take_turns(me text, seconds numeric, lease interval, wait interval)
	LANGUAGE plpgsql AS $$
	DECLARE
		stop timestamptz := clock_timestamp() + seconds * interval '1 s';
		answer record;
		n int := 0;
		left_to_lapse boolean;
	BEGIN
		WHILE clock_timestamp() < stop LOOP
			n := n + 1;
			SELECT * INTO answer FROM fence_acquire('turn', me || n, lease, wait);
			IF answer.status <> 'granted' THEN
				COMMIT;
				CONTINUE;
			END IF;
			INSERT INTO grant_log
				SELECT answer.token, me || n, l.acquired_at, l.expires_at FROM lockfence.leases AS l WHERE resource = 'turn';
			COMMIT;
			-- some do not release
			left_to_lapse := random() < 0.1;
			IF NOT left_to_lapse THEN
				UPDATE grant_log SET released_at = clock_timestamp() WHERE token = answer.token;
				IF fence_release('turn', answer.token, me || n) <> 'released' THEN
					UPDATE grant_log SET released_at = NULL WHERE token = answer.token;
				END IF;
				COMMIT;
			END IF;
		END LOOP;
	END $$});

#
# Eight that take turns
#
my @loads = map {
	start_load($node, "turns_$_",
		"CALL take_turns('s$_:', $SECONDS, '50 ms', '"
		  . ($_ % 2 ? '0' : '100 ms') . "');")
} 1 .. $SESSIONS;
my %errors = errors_by_code(map { finish_load($_) } @loads);
my ($grants, $sessions, $lapsed) = split /\|/, $node->safe_psql('postgres',
	q{SELECT count(*), count(DISTINCT split_part(holder, ':', 1)), count(*) FILTER (WHERE released_at IS NULL) FROM grant_log});

note "$grants grants in $SECONDS s, $lapsed of them ended by their ttl";
cmp_ok($grants, '>', 100, 'there was a load');
is($sessions, $SESSIONS, 'all sessions had their turns');
cmp_ok($lapsed, '>', 5, 'some leases ended by themselves');
is_deeply(\%errors, {}, 'no deadlock, no unique violation, no error at all');
is($node->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT token) FROM grant_log'),
	0, 'no token twice');
is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM (SELECT token, lag(token) OVER (ORDER BY acquired_at) AS before FROM grant_log) AS l
		WHERE token < before}),
	0,
	'in order of the grants, tokens rise');
# released_at is read before the release, expires_at is the end without one
is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM (
			SELECT acquired_at, lag(least(released_at, expires_at)) OVER (ORDER BY token) AS end_before FROM grant_log) AS l
		WHERE acquired_at < end_before}),
	0,
	'at each moment there is one live holder at most');
is( $node->safe_psql(
		'postgres', q{
		SELECT count(*) FROM (SELECT token, lag(token) OVER (ORDER BY pg_xact_commit_timestamp(xmin), token) AS before
			FROM grant_log WHERE released_at IS NULL) AS l WHERE token < before}),
	0,
	'and in order of their commits, too');

#
# Thirty-two that wait
#
my $waiting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%queue%' AND wait_event_type = 'Extension'";

# Seconds of processor time that backends have used, by the kernel's count;
# nothing where it does not tell.
sub seconds_used
{
	my $sum = 0;

	foreach my $waiter (@_)
	{
		my $file = '/proc/' . $waiter->pid . '/schedstat';

		return undef unless -r $file;
		$sum += (split / /, slurp_file($file))[0] / 1e9;
	}
	return $sum;
}

# Returns the sessions, which are idle then, and the last holder.
sub queue_up
{
	my ($server, $title) = @_;
	my $holder = 'first';
	my (%got, @late);

	$server->safe_psql('postgres', "SELECT fence_acquire('queue', 'first', '1 hour')");
	my @waiters = map { session($server) } 1 .. $WAITERS;
	foreach my $i (0 .. $#waiters)
	{
		$waiters[$i]->send("SELECT status FROM fence_acquire('queue', 'w$i', '1 hour', '5 min')");
	}
	ok($server->poll_query_until('postgres', $waiting, $WAITERS), "$title: $WAITERS sessions wait");

  SKIP:
	{
		my $before = seconds_used(@waiters);
		my $start = time;
		my $share;

		skip 'the system does not tell', 1 unless defined $before;
		# this is what is measured: nothing happens for two seconds
		usleep(100_000) while time < $start + 2;
		$share = (seconds_used(@waiters) - $before) / (time - $start) * 100;
		note sprintf('%s: %d waiters use %.1f %% of one processor', $title, $WAITERS, $share);
		cmp_ok($share, '<', 15, "$title: idle waiters use next to no processor time");
	}

	# One after the other: release as the holder of the moment, see who is next.
	foreach my $turn (1 .. $WAITERS)
	{
		my $at = $server->safe_psql('postgres',
			"SELECT fence_release('queue', NULL, '$holder') \\g /dev/null\nSELECT extract(epoch FROM clock_timestamp())");
		my ($next, $granted);

		$server->poll_query_until('postgres', "SELECT live FROM fence_status('queue')") or last;
		($next, $granted) = split /\|/, $server->safe_psql('postgres',
			"SELECT holder, extract(epoch FROM acquired_at) FROM lockfence.leases WHERE resource = 'queue'");
		$got{$next}++;
		push @late, int(($granted - $at) * 1000);
		$holder = $next;
	}
	note "$title: granted after the release, in ms: median " . median(@late) . ', most ' . (sort { $b <=> $a } @late)[0];
	is(scalar keys %got, $WAITERS, "$title: each waiter had the lease once");
	cmp_ok(median(@late), '<', 1000, "$title: promptly");
	cmp_ok((sort { $b <=> $a } @late)[0], '<', 3000, "$title: also the last ones");
	is(scalar(grep { $_->finish ne 'granted' } @waiters), 0, "$title: and was told so");
	return ($holder, @waiters);
}

# Without shared memory waiters look at intervals.
my $plain = fence_node('plain', 'fsync = off', 'max_connections = 60');
my (undef, @done) = queue_up($plain, 'not preloaded');
$_->quit foreach @done;
$plain->stop;
my ($holder, @waiters) = queue_up($node, 'preloaded');

#
# Cancel, termination
#
my ($cancelled, $ended, $rest) = @waiters;
$_->send("SELECT status FROM fence_acquire('queue', 'again', '1 hour', '1 hour')")
  foreach $cancelled, $ended;
ok($node->poll_query_until('postgres', $waiting, 2), 'two wait again');
my $ms = milliseconds(
	sub {
		$node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $cancelled->pid . ')');
		$cancelled->finish;
	});
note "cancelled after $ms ms";
is($cancelled->code, '57014', 'a waiter is cancelled');
cmp_ok($ms, '<', 3000, 'at once');
is($cancelled->ask('SELECT 1'), 1, 'and its session goes on');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $ended->pid . ')');
ok($node->poll_query_until('postgres',
		'SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = ' . $ended->pid . ')'),
	'a waiter is terminated');
is($rest->ask("SELECT status, held_by FROM fence_acquire('queue', 'last', '1 hour')"),
	"held|$holder", 'nothing was granted to either');
$_->quit foreach @waiters;

#
# Several resources, in opposite orders, some of which are not there yet
#
my @many = map {
	my $me = $_;

	start_load($node, "several_$_",
		map {
			my @names = map { "'m' || " . (($_ * 7 + $me) % 12) } 1 .. 1 + $_ % 5;
			@names = reverse @names if $me % 2;
			my $array = 'ARRAY[' . join(', ', @names, $_ % 10 ? () : "'new' || $_") . ']';
			"SELECT token FROM fence_acquire_all($array, 's$me', '1 hour', '" . ($_ % 3 ? 0 : 20) . " ms');"
			  . "SELECT count(fence_release(resource, NULL, 's$me')) FROM lockfence.leases WHERE holder = 's$me' \\g /dev/null"
		} 1 .. 150)
} 1 .. 6;
%errors = errors_by_code(map { finish_load($_) } @many);
my @counts = map { scalar(() = tokens($_)) } @many;
note join(', ', @counts) . ' grants of several resources';
is_deeply(\%errors, {}, 'callers that name resources in opposite orders do not deadlock');
cmp_ok((sort { $a <=> $b } @counts)[0], '>', 5, 'and all got some');

$node->stop;
done_testing();
