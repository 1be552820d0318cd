# 005_pooler.pl - two clients on one backend know nothing of each other
#
# Behind a pooler in transaction mode the next transaction of a backend is
# another client's.  First with two clients played in one session, then through
# a real pgbouncer with one server connection.
#
# Wrong result it would show: a client that shows no token, or an old one,
# writes on the admission of the client before it.
#
# Mutant that makes it fail: src/fence_admission.c, fence_admission_forget()
# without a new fence_session_epoch (the guard takes the resource of its last
# row for admitted).
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use IPC::Run;
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fence_node('main');

# The same in both ways to show a token.
$node->safe_psql(
	'postgres', q{
	CREATE TABLE by_column (id int PRIMARY KEY, resource text NOT NULL, token bigint);
	SELECT fence_protect('by_column', '{resource}', 'token');
	CREATE TABLE by_transaction (id int PRIMARY KEY, resource text NOT NULL, token bigint);
	SELECT fence_protect('by_transaction', '{resource}', 'token', 'transaction')});

sub fresh_rows
{
	my ($s, $table) = @_;

	$s->ask("BEGIN; SELECT fence_check('r', 7); DELETE FROM $table;
		INSERT INTO $table (id, resource) SELECT n, 'r' FROM generate_series(1, 9) AS n;
		COMMIT");
	die $s->message if $s->code;
	return;
}

# What a client may try that shows nothing, or the token of an earlier
# generation.  Returns the outcomes.
sub tries
{
	my ($s, $table) = @_;

	return join ' ', map { $s->try($_) } (
		"DELETE FROM $table WHERE id = 1",
		"UPDATE $table SET id = -id WHERE id = 1",
		"INSERT INTO $table (id, resource) VALUES (10, 'r')",
		"SELECT fence_check('r', 6)");
}

my $refused = 'LF002 LF002 LF002 LF001';

# What the client before may have done, and how that ended.
my @before = (
	[ 'a commit', 'ok',
		"BEGIN; SELECT fence_check('r', 7); DELETE FROM TARGET WHERE id = 9; COMMIT" ],
	[ 'a rollback', 'ok',
		"BEGIN; SELECT fence_check('r', 7); DELETE FROM TARGET WHERE id = 8; ROLLBACK" ],
	[ 'an error', '22012',
		"BEGIN; SELECT fence_check('r', 7); DELETE FROM TARGET WHERE id = 8; SELECT 1/0; ROLLBACK" ],
	[ 'an error at commit', 'P0001',
		"BEGIN; SELECT fence_check('r', 7); DELETE FROM TARGET WHERE id = 8; INSERT INTO late VALUES (1); COMMIT" ],
	[ 'a savepoint', 'ok',
		"BEGIN; SAVEPOINT s; SELECT fence_check('r', 7); DELETE FROM TARGET WHERE id = 8; RELEASE s; COMMIT" ],
	[ 'a rollback to a savepoint', 'ok',
		"BEGIN; SAVEPOINT s; SELECT fence_check('r', 7); DELETE FROM TARGET WHERE id = 7; ROLLBACK TO s; COMMIT" ],
	[ 'autocommit', 'ok', "SELECT fence_check('r', 7)" ],
	[ 'one query of two statements', 'ok',
		"SELECT fence_check('r', 7)\\; DELETE FROM TARGET WHERE id = 7" ],
	[ 'a setting, which does not exist', '42602', "SET lockfence.token = '7'" ],
	[ 'DISCARD ALL', 'ok', 'DISCARD ALL' ]);
$node->safe_psql(
	'postgres', q{
	CREATE TABLE late (n int);
	CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN RAISE 'too late'; END $$;
	CREATE CONSTRAINT TRIGGER late AFTER INSERT ON late
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()});

sub both_clients
{
	my ($name, $first, $second) = @_;

	foreach my $table ('by_column', 'by_transaction')
	{
		my $rows = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM $table";

		fresh_rows($first, $table);
		foreach my $case (@before)
		{
			my ($what, $outcome, $sql) = @$case;

			is($first->try($sql =~ s/TARGET/$table/r),
				$outcome, "$name, $table: $what");
			my $rows_before = $second->ask($rows);
			is(tries($second, $table), $refused, "$name, $table: all refused after it");
			is($second->ask($rows), $rows_before, "$name, $table: nothing has changed");
		}

		# A prepared statement stays; what it was allowed to do does not.
		$first->ask("PREPARE del AS DELETE FROM $table WHERE id = \$1");
		$first->ask("BEGIN; SELECT fence_check('r', 7); EXECUTE del(6); COMMIT") foreach 1 .. 6;
		is($second->try('EXECUTE del(1)'),
			'LF002', "$name, $table: prepared statement of the other client");
		$first->ask('DEALLOCATE del');

		# The lease is the holder's, not the connection's.
		my $token = $first->ask("SELECT token FROM fence_acquire('lease of $table', 'one', '1 h')");
		is($second->try("INSERT INTO $table (id, resource) VALUES (20, 'lease of $table')"),
			'LF002', "$name, $table: the other client's lease");
		$second->ask("BEGIN; SELECT fence_check('lease of $table', $token);
			INSERT INTO $table (id, resource) VALUES (20, 'lease of $table'); ROLLBACK");
		is($second->code, '', "$name, $table: whoever shows the token may write");
		$first->ask("SELECT fence_release('lease of $table', $token, 'one')");
	}
	return;
}

my $s = session($node);
both_clients('one session', $s, $s);
$s->quit;

SKIP:
{
	my ($pgbouncer) = grep { -x $_ }
	  map { "$_/pgbouncer" } split(/:/, $ENV{PATH}), '/usr/sbin', '/usr/local/sbin';

	skip 'pgbouncer is not installed', 1 unless $pgbouncer;

	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	my $user = $node->safe_psql('postgres', 'SELECT current_user');
	my ($host, $port) = ($node->host, $node->port);
	append_to_file("$dir/users", qq("$user" ""\n));
	append_to_file("$dir/pgbouncer.ini", "
[databases]
* = host=$host port=$port
[pgbouncer]
unix_socket_dir = $dir
listen_port = $port
auth_type = trust
auth_file = $dir/users
pool_mode = transaction
default_pool_size = 1
ignore_startup_parameters = extra_float_digits
");
	my $log = '';
	my $pooler = IPC::Run::start([ $pgbouncer, "$dir/pgbouncer.ini" ],
		'<', \undef, '>', \$log, '2>', \$log);
	my $connstr = "host=$dir port=$port dbname=postgres user=$user";
	my $up;
	foreach (1 .. 100)
	{
		$pooler->pump_nb;
		$up = !system('psql', '-XAtq', '-d', $connstr, '-o', '/dev/null', '-c', 'SELECT 1');
		last if $up;
		select undef, undef, undef, 0.1;
	}
	ok($up, 'pgbouncer answers') or diag $log;

	my $first = session($node, connstr => $connstr);
	my $second = session($node, connstr => $connstr);
	is($first->pid, $second->pid, 'pgbouncer: two clients on one backend');
	both_clients('pgbouncer', $first, $second);

	# The second client gets the backend at the very moment of the commit.
	fresh_rows($first, 'by_column');
	$first->ask("BEGIN; SELECT fence_check('r', 7); DELETE FROM by_column WHERE id = 9");
	$second->send('DELETE FROM by_column WHERE id = 1');
	$first->ask('COMMIT');
	$second->finish;
	is($second->code, 'LF002', 'pgbouncer: a client that has waited for the backend');

	$_->quit foreach $first, $second;
	$pooler->signal('INT');
	$pooler->finish;
}

$node->stop;
done_testing();
