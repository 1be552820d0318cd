# 205_pg_upgrade.pl - pg_upgrade keeps what there is, and is noticed
#
# From another version that is installed with lockfence, or else from this
# version to itself: of the identity, only the system identifier differs then.
#
# Wrong result it would show: fences, floors, operations, leases, sequences or
# guards that are lost; or, when the old cluster goes on after the upgrade (a
# rehearsal, say), tokens that both issue.
#
# Mutant that makes it fail: src/fence_token.c, current_identity() without the
# system identifier.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $JUMP = 2**40;
my $bindir = `pg_config --bindir`;
chomp $bindir;

# An older version that has lockfence, too; LOCKFENCE_OLD_BINDIR names one.
sub old_bindir
{
	my ($major) = `$bindir/postgres --version` =~ / (\d+)/;

	foreach my $dir ($ENV{LOCKFENCE_OLD_BINDIR} // (), reverse glob '/usr/lib/postgresql/*/bin')
	{
		my ($old) = $dir =~ m{/(\d+)/bin$};
		my $share = -x "$dir/pg_config" ? `$dir/pg_config --sharedir` : '';

		chomp $share;
		return $dir
		  if -x "$dir/postgres" && -x "$dir/pg_ctl" && ($old // 0) < $major
		  && -e "$share/extension/lockfence.control";
	}
	return undef;
}

plan skip_all => 'pg_upgrade is not installed' unless -x "$bindir/pg_upgrade";

my $old_bindir = old_bindir();
note $old_bindir ? "from $old_bindir" : 'from this version to itself: no older one has lockfence';
$old_bindir //= $bindir;
(my $install_path = $old_bindir) =~ s{/bin$}{};
my $old = PostgreSQL::Test::Cluster->new('old',
	$old_bindir eq $bindir ? () : (install_path => $install_path));
$old->init;
$old->append_conf('postgresql.conf', "fsync = off\n");
$old->start;
$old->safe_psql(
	'postgres', q{
	CREATE EXTENSION lockfence;
	CREATE TABLE line (resource text NOT NULL, token bigint);
	SELECT fence_protect('line', 'stmt:{resource}', 'token');
	SELECT fence_accept_external('stmt:', false);
	SELECT fence_acquire('stmt:a', 'alice', '2 hours'), fence_issue('stmt:b', 'bob'), fence_issue('stmt:gone', 'bob');
	SELECT fence_prune('stmt:gone', '0');
	SELECT fence_check('ext:kept', 900, 'zoe');
	BEGIN;
	SELECT fence_once('stmt:a', fence_current('stmt:a'), 'publish');
	INSERT INTO line VALUES ('a');
	COMMIT;});

sub contents
{
	my ($node) = @_;

	return $node->safe_psql(
		'postgres', q{
		SET timezone = 'UTC';
		SELECT f.* FROM lockfence.fence AS f ORDER BY resource;
		SELECT p.* FROM lockfence.prefix AS p ORDER BY prefix;
		SELECT o.* FROM lockfence.operations AS o ORDER BY resource;
		SELECT l.* FROM lockfence.leases AS l ORDER BY resource;
		SELECT p.* FROM lockfence.protected_tables AS p;
		SELECT last_value, is_called FROM lockfence.token;
		SELECT last_value, is_called FROM lockfence.identity;
		SELECT * FROM line});
}

my $contents = contents($old);
$old->stop;

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->append_conf('postgresql.conf', "fsync = off\n");
chdir $PostgreSQL::Test::Utils::tmp_check;
command_ok([
		'pg_upgrade', '--no-sync', '-d', $old->data_dir, '-D', $new->data_dir,
		'-b', $old_bindir, '-B', $bindir, '-s', $new->host,
		'-p', $old->port, '-P', $new->port ],
	'pg_upgrade');
$new->start;

is(contents($new), $contents, 'all is there');
is($new->safe_psql('postgres', "SELECT status FROM fence_acquire('stmt:a', 'bob', '1 hour')"),
	'held', 'the lease is live');
my ($ret, $out, $err) = $new->psql('postgres', "INSERT INTO line VALUES ('b', 1)");
like($err, qr/is stale/, 'the guard judges');

# the old cluster goes on: a copy that was upgraded only to try
$old->start;
my $last = $old->safe_psql('postgres',
	"SELECT max(token) FROM generate_series(1, 50) AS n, fence_acquire('later' || n, 'h', '1 hour')");
my $next = $new->safe_psql('postgres', "SELECT token FROM fence_acquire('new', 'h', '1 hour')");
cmp_ok($next, '>', $last, 'the next token is above all of the old cluster');
cmp_ok($next, '>=', $JUMP, 'by a jump');

$_->stop foreach $old, $new;
done_testing();
