# 202_restore.pl - restores keep what they are given, and issue beyond it
#
# Restore to a point in time, a dump in all its forms, into the same cluster and
# another one, timelines that meet by accident, a database copied as a template.
# Each time the origin goes on issuing after the copy was made: no token of the
# copy may be among those.
#
# Wrong result it would show: fences, floors, operations, leases or sequences
# that are not there after a restore; a token that the origin has given, too;
# rows of protected tables that a documented restore refuses.
#
# Mutants that make it fail: src/fence_token.c, current_identity() without the
# system identifier, without the database, without the sequence, or without the
# timeline; the install script without pg_extension_config_dump for any one
# relation.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $JUMP = 2**40;
my $dir = PostgreSQL::Test::Utils::tempdir;

my $node = PostgreSQL::Test::Cluster->new('origin');
$node->init(has_archiving => 1, allows_streaming => 1);
$node->append_conf('postgresql.conf', "autovacuum = off\nfsync = off\n");
$node->start;

# Everything that there is to keep, in a database "app".
$node->safe_psql('postgres', 'CREATE DATABASE app');
$node->safe_psql('app', 'CREATE EXTENSION lockfence');
my $fill = q{
	CREATE TABLE line (resource text NOT NULL, token bigint, who text);
	SELECT fence_protect('line', 'stmt:{resource}', 'token');
	CREATE TABLE part (resource text NOT NULL, id int, who text) PARTITION BY LIST (id);
	CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
	SELECT fence_protect('part', 'part:{resource}');
	SELECT fence_accept_external('stmt:', false), fence_accept_external('ext:', true);
	SELECT fence_issue('stmt:b', 'nobody'), fence_issue('stmt:b', 'nobody');
	SELECT fence_acquire('stmt:a', 'alice', '2 hours'), fence_acquire('stmt:b', 'bob', '1 hour'),
		fence_acquire('stmt:gone', 'carol', '1 hour'), fence_issue('part:a', 'dora');
	SELECT fence_release('stmt:b', NULL, 'bob'), fence_release('stmt:gone', NULL, 'carol');
	SELECT fence_prune('stmt:gone', '0');
	SELECT fence_check('ext:kept', 900, 'zoe'), fence_check('ext:gone', 800);
	SELECT fence_prune('ext:gone', '0', true);
	BEGIN;
	SELECT fence_once('stmt:a', fence_current('stmt:a'), 'publish:june');
	INSERT INTO line SELECT 'a', NULL, n FROM generate_series(1, 100) AS n;
	SELECT fence_once('part:a', fence_current('part:a'), 'publish:july');
	INSERT INTO part VALUES ('a', 1, 'dora');
	COMMIT;};
$node->safe_psql('app', $fill);

# What a restore has to keep.
sub contents
{
	my ($server, $database) = @_;

	return $server->safe_psql(
		$database, q{
		SET timezone = 'UTC';
		SELECT 'fence', f.* FROM lockfence.fence AS f ORDER BY resource;
		SELECT 'prefix', p.* FROM lockfence.prefix AS p ORDER BY prefix;
		SELECT 'operation', o.* FROM lockfence.operations AS o ORDER BY resource, operation;
		SELECT 'lease', l.* FROM lockfence.leases AS l ORDER BY resource;
		SELECT 'table', p.* FROM lockfence.protected_tables AS p ORDER BY target::text;
		SELECT 'trigger', pg_get_triggerdef(oid), tgenabled FROM pg_trigger WHERE tgname ~ 'lockfence' ORDER BY 2;
		SELECT 'rows', count(*), min(token) = max(token) FROM line;
		SELECT 'rows', count(*) FROM part});
}

sub sequences
{
	my ($server, $database) = @_;

	return $server->safe_psql($database,
		'SELECT t.last_value, i.last_value, i.is_called FROM lockfence.token AS t, lockfence.identity AS i');
}

sub acquire
{
	my ($server, $database, $resource) = @_;

	return $server->safe_psql($database,
		"SELECT token FROM fence_acquire('$resource', 'h', '1 hour')");
}

sub code
{
	my ($server, $database, $sql) = @_;
	my (undef, undef, $err) = $server->psql($database, $sql,
		extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);

	return $err =~ /ERROR:  (\w{5})/ ? $1 : 'ok';
}

# Tokens that the origin issues after the copy was made; the last of them.
sub go_on
{
	my ($server, $database) = @_;

	return $server->safe_psql($database,
		"SELECT max(token) FROM generate_series(1, 100) AS n, fence_acquire('later' || n || '_' || txid_current(), 'h', '1 hour')");
}

# The copy works on as it should: guards judge, and tokens are new.
sub works_on
{
	my ($server, $database, $known, $title) = @_;
	my $token = $server->safe_psql($database, "SELECT fence_current('stmt:a')");
	my $next;

	is(code($server, $database, "INSERT INTO line VALUES ('a', $token, 'x')"), 'ok',
		"$title: the holder writes on");
	is(code($server, $database, "INSERT INTO line VALUES ('a', $token - 1, 'x')"), 'LF001',
		"$title: a stale writer is refused");
	is(code($server, $database, "INSERT INTO part VALUES ('a', 1, 'x')"), 'LF002',
		"$title: so is one without a token");
	is(code($server, $database, "TRUNCATE part_1"), 'LF002', "$title: and TRUNCATE");
	is(code($server, $database, "SELECT fence_check('ext:gone', 800)"), 'LF001',
		"$title: a token below a floor is refused");
	is($server->safe_psql($database, "SELECT fence_once('stmt:a', $token, 'publish:june')"), 'f',
		"$title: an operation that was accepted stays so");
	is($server->safe_psql($database, "SELECT status FROM fence_acquire('stmt:a', 'bob', '1 hour')"),
		'held', "$title: the lease is live");
	$next = acquire($server, $database, 'stmt:next');
	cmp_ok($next, '>', $known, "$title: the next token is above every one known");
	return $next;
}

my $contents = contents($node, 'app');
like($contents, qr/^$_\|/m, "there is a $_ to keep")
  foreach qw(fence prefix operation lease table trigger rows);
my $sequences = sequences($node, 'app');

#
# A copy made from it as a template
#
$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE app');
my $last = go_on($node, 'app');
is(contents($node, 'copied'), $contents, 'template: all is there');
my $copied = works_on($node, 'copied', $last, 'template');
cmp_ok($copied, '>=', $JUMP, 'template: by a jump');
cmp_ok(acquire($node, 'app', 'n1'), '<', $JUMP, 'template: the origin does not jump');

#
# Dumps
#
my $other = fence_node('other', 'autovacuum = off', 'fsync = off');
$other->safe_psql('postgres', 'DROP EXTENSION lockfence');
my $port = $node->port;

# the origin, as the dumps will see it
my $dumped = contents($node, 'app');
my $dumped_sequences = sequences($node, 'app');
my @dump = ('pg_dump', '-h', $node->host, '-p', $port, '-d', 'app');
command_ok([ @dump, '-f', "$dir/plain.sql" ], 'pg_dump: plain');
command_ok([ @dump, '-Fc', '-f', "$dir/custom" ], 'pg_dump: custom');
command_ok([ @dump, '-Fd', '-j4', '-f', "$dir/directory" ], 'pg_dump: directory, four jobs');
command_ok([ @dump, '-f', "$dir/$_.sql", "--section=$_" ], "pg_dump: section $_")
  foreach qw(pre-data data post-data);
command_ok([ @dump, '-a', '--disable-triggers', '-f', "$dir/data-only.sql" ],
	'pg_dump: data only, triggers disabled');
command_ok([ @dump, '-a', '-t', 'part_1', '-f', "$dir/refused.sql" ], 'pg_dump: data of one table');
command_ok([ @dump, '-a', '--disable-triggers', '-t', 'part_1', '-f', "$dir/accepted.sql" ],
	'pg_dump: data of one table, triggers disabled');
command_ok([ @dump, '-s', '-f', "$dir/schema.sql" ], 'pg_dump: schema only');
$last = go_on($node, 'app');

sub restore
{
	my ($server, $database, @files) = @_;

	foreach my $file (@files)
	{
		if ($file eq 'directory')
		{
			# Section by section: with jobs, pg_restore may create the trigger
			# of a partitioned table before it has filled the partitions.
			command_ok([
					'pg_restore', '-h', $server->host, '-p', $server->port, '-d', $database,
					'--exit-on-error', '-j4', "--section=$_", "$dir/$file" ],
				"$database: restore of $file with four jobs, $_")
			  foreach qw(pre-data data post-data);
		}
		elsif ($file !~ /\.sql$/)
		{
			command_ok([
					'pg_restore', '-h', $server->host, '-p', $server->port, '-d', $database,
					'--exit-on-error', "$dir/$file" ],
				"$database: restore of $file");
		}
		else
		{
			command_ok([
					'psql', '-Xq', '-h', $server->host, '-p', $server->port, '-d', $database,
					'-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-f', "$dir/$file" ],
				"$database: restore of $file");
		}
	}
	return;
}

my %ways = (
	whole => ['plain.sql'],
	custom => ['custom'],
	jobs => ['directory'],
	sections => [ 'pre-data.sql', 'data.sql', 'post-data.sql' ],
	data_only => [ 'schema.sql', 'data-only.sql' ]);
foreach my $way (sort keys %ways)
{
	foreach my $server ($node, $other)
	{
		my $title = $way . ', ' . ($server == $node ? 'fresh database' : 'other cluster');
		my $next;

		# one of the two is enough for the rest
		next if $server == $node && $way =~ /custom|sections/;
		$server->safe_psql('postgres', "CREATE DATABASE $way");
		restore($server, $way, @{ $ways{$way} });
		is(contents($server, $way), $dumped, "$title: all is there");
		is(sequences($server, $way), $dumped_sequences, "$title: both sequences, too");
		$next = works_on($server, $way, $last, $title);
		cmp_ok($next, '<', $copied + $JUMP, "$title: by one jump");
	}
}

# A database goes back to its own past. With --clean the sequence is another one.
# Data alone leaves no trace: that is what fence_new_epoch is for.
my @own = ('-h', $other->host, '-p', $other->port, '-d', 'custom');
$last = go_on($other, 'custom');
my $past_contents = contents($other, 'custom');
command_ok([ 'pg_dump', @own, '-Fc', '-f', "$dir/own" ], 'own past: dump');
$last = go_on($other, 'custom');
command_ok([ 'pg_restore', @own, '--clean', '--exit-on-error', "$dir/own" ],
	'own past: restore with --clean');
is(contents($other, 'custom'), $past_contents, 'own past: all is as it was dumped');
cmp_ok(acquire($other, 'custom', 'own1'), '>', $last, 'own past: the next token is above');
$last = go_on($other, 'custom');
$other->safe_psql('custom',
	'TRUNCATE lockfence.fence, lockfence.prefix, lockfence.operations; ALTER TABLE line DISABLE TRIGGER ALL; DELETE FROM line; ALTER TABLE line ENABLE TRIGGER ALL; ALTER TABLE part DISABLE TRIGGER ALL; DELETE FROM part; ALTER TABLE part ENABLE TRIGGER ALL');
command_ok([ 'pg_restore', @own, '-a', '--disable-triggers', '--exit-on-error', "$dir/own" ],
	'own past: restore of data alone');
is(contents($other, 'custom'), $past_contents, 'own past: all is as it was dumped');
$other->safe_psql('custom', "SELECT fence_new_epoch($last)");
cmp_ok(acquire($other, 'custom', 'own2'), '>', $last,
	'own past: with fence_new_epoch the next token is above');

# rows alone, into a table with its guards
is(code($other, 'whole', slurp_file("$dir/refused.sql")), 'LF002',
	'data of one table without --disable-triggers is refused');
is($other->safe_psql('whole', 'SELECT count(*) FROM part'), 1, 'and nothing of it is there');
restore($other, 'whole', 'accepted.sql');
is($other->safe_psql('whole', 'SELECT count(*) FROM part'), 2, 'with it, it is restored');
is($other->safe_psql('whole', q{SELECT count(*) FROM pg_trigger WHERE tgname ~ 'lockfence' AND tgenabled <> 'O'}),
	0, 'and the guards are on again');

#
# Restore to a point in time
#
$node->backup('base');
my $at_backup = go_on($node, 'app');
my $kept = contents($node, 'app');
$node->safe_psql('postgres', "SELECT pg_create_restore_point('kept')");
my $lost = go_on($node, 'app');
my $segment = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
$node->poll_query_until('postgres',
	"SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver")
  or die 'the WAL was not archived';

my $past = PostgreSQL::Test::Cluster->new('past');
$past->init_from_backup($node, 'base', has_restoring => 1, standby => 0);
$past->append_conf('postgresql.conf',
	"recovery_target_name = 'kept'\nrecovery_target_action = 'promote'\narchive_mode = off\n");
$past->start;
$past->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
is(contents($past, 'app'), $kept, 'point in time: all is there as it was then');
my $first_past = works_on($past, 'app', $lost, 'point in time');

#
# A dump from a higher timeline into clusters whose own meets it
#
sub next_timeline
{
	my ($server) = @_;

	$server->stop;
	$server->append_conf('postgresql.conf', "recovery_target_name = ''\n");
	$server->set_standby_mode;
	$server->start;
	$server->promote;
	return $server->safe_psql('postgres',
		'SELECT timeline_id FROM pg_control_checkpoint()');
}

# each promotion jumps once, when the next token is issued
my $before = $first_past;
foreach my $n (1 .. 2)
{
	$last = go_on($past, 'app');
	next_timeline($past);
	my $after = acquire($past, 'app', "timeline$n");
	cmp_ok($after, '>=', $last + $JUMP, "timeline: promotion $n is noticed");
}
command_ok([
		'pg_dump', '-Fc', '-h', $past->host, '-p', $past->port, '-d', 'app', '-f', "$dir/timeline" ],
	'timeline: dump on a higher timeline');
$last = go_on($past, 'app');
$other->safe_psql('postgres', 'CREATE DATABASE timeline');
restore($other, 'timeline', 'timeline');
$before = acquire($other, 'timeline', 'one');
cmp_ok($before, '>=', $last + $JUMP - 1000, 'timeline: restored on timeline 1, above all known');
foreach my $n (2 .. 4)
{
	$last = go_on($other, 'timeline');
	next_timeline($other);
	cmp_ok(acquire($other, 'timeline', "on$n"), '>=', $last + $JUMP, "timeline: promoted to $n, noticed");
}

$_->stop foreach $node, $other, $past;
done_testing();
