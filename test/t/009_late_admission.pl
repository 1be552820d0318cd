# 009_late_admission.pl - another module that shows tokens while a transaction commits
#
# A module's callback before commit may run SQL, and that may show a token or
# write a guarded row.  Where lockfence's check is still to come, such an
# admission is checked like any other; where it has been, it is an error.
# Callbacks run newest first, so it depends on which library was loaded first.
#
# Wrong results it would show: a row is committed under a token whose commit check
# never ran; a callback list that is changed while the server walks it.
#
# Mutants that make it fail: src/fence_session.c, fence_admit() that does not look
# at fence_commit_checked(), fence_session_before_raise() likewise;
# src/fence_commit.c, xact_callback() that sets "checked" only when it has checked
# something (an admission behind the last callback is committed unchecked);
# _PG_init without fence_commit_init().
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $late = "$PostgreSQL::Test::Utils::tmp_check/late_admission.so";
my $include = `@{[ $ENV{PG_CONFIG} // 'pg_config' ]} --includedir-server`;
chomp $include;
system_or_bail('cc', '-shared', '-fPIC', "-I$include", '-o', $late,
	"$FindBin::RealBin/../lib/late_admission.c");

my $node = fence_node('main');
$node->safe_psql('postgres', q{
	CREATE TABLE line (resource text, token bigint);
	SELECT fence_protect('line', '{resource}', 'token');
	CREATE TABLE plain (v int);
	SELECT fence_check('late', 1), fence_check('early', 1);
	SELECT FROM fence_acquire('issued', 'A', '1 h')});

# A session whose libraries are loaded in this order; then it has admitted once.
sub session_with
{
	my $s = session($node);

	$s->ask("LOAD '$_'") foreach @_;
	is($s->try("SELECT fence_check('early', 1)"), 'ok', 'admitted');
	return $s;
}

sub committed
{
	my ($s, $what, $late_statement, @statements) = @_;

	$s->ask("SET late.statement = \$\$$late_statement\$\$");
	my $result = $s->try(join(";\n", 'BEGIN', @statements, 'COMMIT'));
	is($s->try('RESET late.statement'), 'ok', "$what: alive");
	return $result;
}

# Behind it the last of lockfence's callbacks is still to come.
my $s = session_with('lockfence', $late);
is(committed($s, 'late token', "SELECT fence_check('late', 1)", 'INSERT INTO plain VALUES (1)'),
	'ok', 'a late token is checked');
is( committed($s, 'late row', "INSERT INTO line VALUES ('late', 1)", 'INSERT INTO plain VALUES (2)'),
	'ok', 'a late row is checked');
is( committed($s, 'stale row', "INSERT INTO line VALUES ('late', 0)", 'INSERT INTO plain VALUES (3)'),
	'22023', 'and refused where it is wrong');
is($node->safe_psql('postgres', "SELECT count(*) FROM plain"), '2', 'two were committed');

# Checked: the fence is raised between the late admission and its check.
my $gate = session($node);
$gate->ask('SELECT pg_advisory_lock(7001, 0)');
$s->ask(q{SET late.statement = $$INSERT INTO line VALUES ('late', 1)$$;
	SET lockfence.debug_point = 'commit-check'});
$s->send('BEGIN; INSERT INTO plain VALUES (4); COMMIT');
ok($s->until_blocked, 'held before the check');
is($node->safe_psql('postgres', "SELECT fence_check('late', 2)"), 't', 'another one takes over');
$gate->ask('SELECT pg_advisory_unlock(7001, 0)');
$s->finish;
is($s->code, 'LF001', 'the late admission is stale at commit');
$s->ask('RESET late.statement; RESET lockfence.debug_point');
is($node->safe_psql('postgres', "SELECT count(*) FROM plain"), '2', 'nothing was committed');

# After an earlier admission lockfence's callback is newer, and has run.
is( committed($s, 'after the check', "SELECT fence_check('late', 2)", "SELECT fence_check('early', 1)"),
	'55000', 'a token after the check is an error');
is( committed($s, 'row after the check', "INSERT INTO line VALUES ('late', 2)",
		"INSERT INTO line VALUES ('early', 1)"),
	'55000', 'a row, too');
foreach my $raise ("SELECT fence_check('late', 3)", "SELECT fence_issue('issued', 'B')",
	"SELECT fence_acquire('free', 'B', '1 h')", "SELECT fence_check('new', 1)")
{
	is(committed($s, $raise, $raise, "SELECT fence_check('early', 1)"), '55000', $raise);
}
is( committed($s, 'again', "INSERT INTO line VALUES ('early', 1)", "SELECT fence_check('early', 1)"),
	'ok', 'what has been checked may be shown again');
$s->quit;

# The module was there first: nothing of lockfence runs after it.
$s = session_with($late, 'lockfence');
is(committed($s, 'last', "INSERT INTO line VALUES ('late', 2)", 'INSERT INTO plain VALUES (5)'),
	'55000', 'what nobody would check is an error');
is( committed($s, 'last, again', "INSERT INTO line VALUES ('early', 1)", "SELECT fence_check('early', 1)"),
	'ok', 'but for what has been checked');
is($s->try('SELECT fence_check(\'late\', 2)'), 'ok', 'the next transaction is not concerned');
$s->quit;

# Many moves to the front, and none is left behind.
$s = session_with('lockfence', $late);
foreach my $round (1 .. 3)
{
	is( committed($s, "round $round", "SELECT fence_check('late', 2)",
			"SELECT count(*) FROM generate_series(1, 3000) WHERE fence_check('early', 1)"),
		'55000', "checked first, round $round");
	is(committed($s, "round $round", '',
			"SELECT count(*) FROM generate_series(1, 3000) WHERE fence_check('early', 1)"),
		'ok', "committed, round $round");
}

# So many that the check stays where it is, and says so once.
$s->ask("BEGIN; SELECT count(*) FROM generate_series(1, 99000) WHERE fence_check('early', 1)");
is($s->message, '', 'no warning up to the limit');
$s->ask("SELECT count(*) FROM generate_series(1, 2000) WHERE fence_check('early', 1)");
is(() = $s->message =~ /WARNING: .* not moved to the front any more/g, 1, 'one above it');
is($s->try("COMMIT"), 'ok', 'committed');
$s->ask("BEGIN; SELECT fence_check('early', 1); COMMIT");
is($s->message, '', 'the next transaction begins anew');
$s->quit;

is( $node->safe_psql('postgres',
		"SELECT string_agg(resource || token, ' ' ORDER BY resource, token) FROM line"),
	'early1 early1 late1', 'these rows are there');
is($node->safe_psql('postgres', "SELECT fence_current('late'), fence_current('new') IS NULL"),
	'2|t', 'and these fences');

done_testing();
