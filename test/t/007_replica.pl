# 007_replica.pl - a standby, and a logical subscriber
#
# A standby can show fences but decides nothing: even a token that is right
# there may be stale on the primary.  On a subscriber the apply worker writes
# as a replica: guards are silent for it until they are ENABLE ALWAYS; then it
# has no way to show a token but the token column.
#
# Wrong results it would show: a token is accepted on a standby; the apply
# worker crashes in the guard; a guard that was declared ALWAYS lets a stale
# row pass; an ordinary role can switch guards off.
#
# Mutants that make it fail: src/fence_session.c, fence_admit() without
# PreventCommandDuringRecovery() (a standby accepts); src/fence_trigger.c that
# returns the row at once if SessionReplicationRole is SESSION_REPLICATION_ROLE_REPLICA
# (ALWAYS guards nothing).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main', 'wal_level = logical');

# ---------------------------------------------------------------------------
# Physical standby
$node->safe_psql(
	'postgres', q{
	CREATE TABLE doc (resource text NOT NULL, token bigint, v text);
	SELECT fence_protect('doc', '{resource}', 'token');
	SELECT fence_check('external', 7, 'me')});
my $token = $node->safe_psql('postgres',
	"SELECT token FROM fence_acquire('issued', 'A', '1 h')");
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->append_conf('postgresql.conf', "shared_preload_libraries = 'lockfence'");
$standby->start;
my $later = $node->safe_psql('postgres',
	"SELECT token FROM fence_acquire('issued later', 'A', '1 h')");
$node->wait_for_catchup($standby, 'replay', $node->lsn('write'));

my $s = session($standby);
foreach my $sql (
	"fence_check('external', 7)",
	"fence_check('external', 8)",
	"fence_check('external', 6)",
	"fence_check('absent', 1)",
	"fence_check('issued', $token)",
	"fence_acquire('issued', 'A', '1 h')",
	"fence_acquire('issued', 'B', '1 h')",
	"fence_acquire('absent', 'A', '1 h')",
	"fence_renew('issued', $token, 'A', '1 h')",
	"fence_renew('absent', $token, 'A', '1 h')",
	"fence_release('issued', $token, 'A')",
	"fence_issue('issued', 'A')",
	"fence_issue('absent', 'A')",
	"fence_override('external', 3)",
	"fence_adopt('external')")
{
	is($s->try("SELECT $sql"), '25006', "standby: $sql");
}
is($s->ask("SELECT fence_current('external'), fence_current('issued later'), fence_current('absent')"),
	"7|$later|", 'standby: fence_current');
is($s->ask("SELECT token, holder, released, live FROM fence_status('issued later')"),
	"$later|A|f|t", 'standby: fence_status');
is($s->ask("SELECT count(*) FROM lockfence.leases WHERE live"), 2, 'standby: leases');
is($s->ask("SELECT target, firing FROM lockfence.protected_tables"),
	'doc|origin', 'standby: protected_tables');
is($s->ask("SELECT checks, accepted FROM lockfence.stats"), '5|0', 'standby: stats');
foreach my $sql ("TABLE lockfence.rejections", "TABLE lockfence.activity", "TABLE lockfence.fences",
	"TABLE lockfence.operations", "SELECT fence_audit()", "SELECT fence_audit(true)",
	"SELECT fence_evict('issued')", "SELECT fence_stats_reset()")
{
	is($s->try($sql), 'ok', "standby: $sql");
}
$s->quit;

# After the promotion it decides itself.
$standby->promote;
$s = session($standby);
is($s->try("SELECT fence_check('issued', $token)"), 'ok', 'promoted: the token is accepted');
is($s->try("SELECT fence_check('external', 6)"), 'LF001', 'promoted: a stale one is not');
$s->ask("SELECT fence_release('issued', $token, 'A')");
cmp_ok($s->ask("SELECT token FROM fence_acquire('issued', 'B', '1 h')"),
	'>', $later, 'promoted: the next token is greater than all before');
$s->quit;
$standby->stop;

# ---------------------------------------------------------------------------
# Logical subscriber
my $sub = fence_node('subscriber', 'wal_retrieve_retry_interval = 200ms',
	'max_logical_replication_workers = 10', 'max_worker_processes = 20',
	'log_statement = none');
my $connstr = $node->connstr . ' dbname=postgres';
my $logged = 0;

# Wait until the subscriber has logged something since it was asked last.
sub until_logged
{
	my ($pattern) = @_;
	my $log;

	for (1 .. 5 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$log = slurp_file($sub->logfile, $logged);
		last if $log =~ $pattern;
		select undef, undef, undef, 0.2;
	}
	$logged = -s $sub->logfile;
	return $log =~ $pattern ? $& : '';
}

sub applied
{
	my ($table) = @_;

	$node->wait_for_catchup($table);
	return $sub->safe_psql('postgres',
		"SELECT string_agg(token::text, ' ' ORDER BY id) FROM $table");
}

# Everything on one table of its own; ALWAYS is set before or after the first
# copy.  $options are those of the subscription.  From 16 on apply runs as the
# owner of the table, who needs the right to raise.
$sub->safe_psql('postgres', "CREATE ROLE regress_owner; GRANT CREATE ON SCHEMA public TO regress_owner;
	SELECT fence_grant('regress_owner')");
sub subscribe
{
	my ($table, $always, $options) = @_;
	my $create = "CREATE TABLE $table (id int PRIMARY KEY, resource text NOT NULL, token bigint)";

	$node->safe_psql('postgres', "$create; CREATE PUBLICATION $table FOR TABLE $table;
		INSERT INTO $table VALUES (1, '$table', 5), (2, '$table', 6)");
	$sub->safe_psql('postgres', "SET ROLE regress_owner; $create;
		SELECT fence_protect('$table', '{resource}', 'token')");
	always($table) if $always;
	$sub->safe_psql('postgres', "CREATE SUBSCRIPTION $table CONNECTION '$connstr'
		PUBLICATION $table WITH (slot_name = '$table'$options)");
	$sub->wait_for_subscription_sync($node, $table);
	return;
}

sub always
{
	my ($table) = @_;

	$sub->safe_psql('postgres', "ALTER TABLE $table ENABLE ALWAYS TRIGGER zzz_lockfence");
	return;
}

sub fence { return $sub->safe_psql('postgres', "SELECT fence_current('$_[0]')") }
sub publish { return $node->safe_psql('postgres', $_[0]) }
sub firing
{
	return $sub->safe_psql('postgres',
		"SELECT firing FROM lockfence.protected_tables WHERE target = '$_[0]'::regclass");
}

# What apply does with a stale row under an ALWAYS guard, and the way out.
sub refused
{
	my ($table, $sql, $code) = @_;

	$logged = -s $sub->logfile;
	publish($sql);
	my $line = until_logged(qr/ERROR:  .*fencing token.*\n.*DETAIL:.*\n/);
	note $line;
	like($line, $code eq 'LF001' ? qr/is stale/ : qr/no fencing token/,
		"$table: apply is stopped by a readable error: $sql");
	like($line, qr/resource "$table"; the fence is \d+; table "public\.$table"; at statement\./,
		"$table: that names resource, fence and table");
	like(until_logged(qr/ERROR:  .*fencing token/), qr/fencing token/,
		"$table: the worker comes again, it has not crashed the server");
	unlike(slurp_file($sub->logfile), qr/terminated by signal/, "$table: no crash");

	# The operator's way out: let this transaction pass unchecked.
	$sub->safe_psql('postgres', "ALTER TABLE $table ENABLE TRIGGER zzz_lockfence");
	my $passed = applied($table);
	always($table);
	return $passed;
}

# Default: silent for apply, not for writers of the subscriber.
subscribe('plain', 0, '');
is(applied('plain'), '5 6', 'plain: first copy');
publish("INSERT INTO plain VALUES (3, 'plain', 6), (4, 'plain', 5)");
is(applied('plain'), '5 6 6 5', 'plain: apply passes unchecked, also what is stale');
is(fence('plain'), '', 'plain: and raises no fence');
is(firing('plain'), 'origin', 'plain: protected_tables says so');
$s = session($sub);
is($s->try("INSERT INTO plain VALUES (5, 'plain', 7)"), 'ok', 'plain: a local writer');
is($s->try("INSERT INTO plain VALUES (6, 'plain', 6)"), 'LF001', 'plain: a stale local writer');
is($s->try("DELETE FROM plain"), 'LF002', 'plain: a local writer without a token');

# ALWAYS after the first copy
subscribe('late', 0, '');
always('late');
is(firing('late'), 'always', 'late: protected_tables says so');
publish("INSERT INTO late VALUES (3, 'late', 8)");
is(applied('late'), '5 6 8', 'late: a row with its token passes');
is(fence('late'), 8, 'late: and raises the fence');
publish("UPDATE late SET token = 9 WHERE id = 3");
is(applied('late'), '5 6 9', 'late: so does an UPDATE');
is(fence('late'), 9, 'late: which raises the fence, too');
is(refused('late', "INSERT INTO late VALUES (4, 'late', 7)", 'LF001'),
	'5 6 9 7', 'late: passes when the guard is eased');
is(refused('late', "DELETE FROM late WHERE id = 4", 'LF002'),
	'5 6 9', 'late: so does the DELETE, which can show no token');

# ALWAYS before the first copy; from 16 on also as another user
foreach my $options ('', ', run_as_owner = true')
{
	next if $options && $sub->pg_version < 16;
	my $table = $options ? 'early_owner' : 'early';

	subscribe($table, 1, $options);
	is(applied($table), '5 6', "$table: first copy passes in the order of tokens");
	is(fence($table), 6, "$table: and raises the fence");
	publish("INSERT INTO $table VALUES (3, '$table', 7)");
	is(applied($table), '5 6 7', "$table: a row with its token");
	is(refused($table, "INSERT INTO $table VALUES (4, '$table', 5)", 'LF001'),
		'5 6 7 5', "$table: passes when the guard is eased");
}

# A first copy with a stale row does not end until somebody decides.
publish("CREATE TABLE mixed (id int PRIMARY KEY, resource text NOT NULL, token bigint);
	CREATE PUBLICATION mixed FOR TABLE mixed;
	INSERT INTO mixed VALUES (1, 'mixed', 6), (2, 'mixed', 5)");
$sub->safe_psql('postgres', "CREATE TABLE mixed (id int PRIMARY KEY, resource text NOT NULL, token bigint);
	SELECT fence_protect('mixed', '{resource}', 'token')");
always('mixed');
$logged = -s $sub->logfile;
$sub->safe_psql('postgres', "CREATE SUBSCRIPTION mixed CONNECTION '$connstr' PUBLICATION mixed WITH (slot_name = 'mixed')");
like(until_logged(qr/ERROR:  fencing token 5 for resource "mixed" is stale/),
	qr/is stale/, 'mixed: the first copy is stopped');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM mixed'), 0, 'mixed: as a whole');
is(fence('mixed'), '', 'mixed: and has raised nothing');
$sub->safe_psql('postgres', 'ALTER TABLE mixed ENABLE TRIGGER zzz_lockfence');
$sub->wait_for_subscription_sync($node, 'mixed');
is(applied('mixed'), '6 5', 'mixed: passes when the guard is eased');

# Who may be a replica?
$s->ask('CREATE ROLE regress_worker; GRANT INSERT, DELETE ON plain TO regress_worker; SET ROLE regress_worker');
is($s->try('SET session_replication_role = replica'),
	'42501', 'an ordinary role cannot switch guards off');
is($s->try('DELETE FROM plain'), 'LF002', 'and is still refused');
$s->quit;

$sub->safe_psql('postgres', "DROP SUBSCRIPTION $_") foreach 'plain', 'late', 'early', 'mixed',
	$sub->pg_version < 16 ? () : 'early_owner';
$sub->stop;
$node->stop;
done_testing();
