# 304_exporter.pl - what doc/monitoring offers works against a real server
#
# The Prometheus exporter, as packaged, reads doc/monitoring/queries.yaml as a
# role with the rights of a monitor.  Its metrics must have the values that the
# views have, and alert rules and dashboard must name none that is not there.
# The one-screen view must run.
#
# Mutants that must make it fail: a column of lockfence.stats renamed; a metric
# left out of queries.yaml; a right left out of fence_grant's monitor.
use strict;
use warnings;

use FindBin;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use lib "$FindBin::RealBin/../lib";
use LockfenceTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($exporter) = grep { -x } map { "$_/prometheus-postgres-exporter" } split /:/, $ENV{PATH};
plan skip_all => 'needs prometheus-postgres-exporter' unless $exporter;

my $doc = "$FindBin::RealBin/../../doc/monitoring";
my $node = fence_node('main', "shared_preload_libraries = 'lockfence'",
	'max_prepared_transactions = 5');
$node->safe_psql(
	'postgres', q{
	CREATE ROLE exporter LOGIN;
	SELECT fence_grant('exporter', 'monitor');
	GRANT pg_monitor TO exporter;
	CREATE TABLE line (resource text, token bigint);
	SELECT fence_protect('line', '{resource}', 'token');
	ALTER TABLE line DISABLE TRIGGER zzz_lockfence;
	SELECT fence_check('r', 10);
	SELECT fence_acquire('l', 'A', '1 hour');
	BEGIN; SELECT fence_check('p', 1); PREPARE TRANSACTION 'p';
});
my $session = session($node);
is($session->try("SELECT fence_check('r', 3)"), 'LF001', 'a refusal') for 1 .. 3;
$session->ask("SELECT fence_check('s', 1)");
my $open = session($node);
$open->ask("BEGIN; SELECT fence_check('s', 1)");
$session->ask("SELECT fence_check('s', 2)");

my $port = PostgreSQL::Test::Cluster::get_free_port();
my ($out, $err) = ('', '');
my $run;
{
	local $ENV{DATA_SOURCE_NAME} =
	  sprintf('user=exporter dbname=postgres host=%s port=%d sslmode=disable',
		$node->host, $node->port);
	$run = IPC::Run::start(
		[
			$exporter, '--disable-default-metrics', '--disable-settings-metrics',
			"--web.listen-address=127.0.0.1:$port",
			"--extend.query-path=$doc/queries.yaml"
		],
		'>', \$out, '2>', \$err);
}
my $http = HTTP::Tiny->new(timeout => 10);
my $answer;
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	$answer = $http->get("http://127.0.0.1:$port/metrics");
	last if $answer->{success} || !$run->pumpable;
	$run->pump_nb;
	select undef, undef, undef, 0.1;
}
$run->kill_kill;
ok($answer->{success}, 'the exporter answers') or diag($err);

# name{labels} => value, without the label that names the server
my %metric;
foreach (split /\n/, $answer->{content})
{
	my ($name, $labels, $value) = /^(lockfence\w*)\{(.*)\} (\S+)$/ or next;
	$metric{"$name\{" . join(',', grep { !/^server=/ } split /,/, $labels) . '}'} = $value;
}
my %expected = (
	'lockfence_refusals_total{datname="postgres",place="statement",sqlstate="LF001"}' => 3,
	'lockfence_refusals_total{datname="postgres",place="commit",sqlstate="LF001"}' => 0,
	'lockfence_acquires_total{datname="postgres",result="new"}' => 1,
	'lockfence_renewals_total{datname="postgres",result="lost"}' => 0,
	'lockfence_checks_total{datname="postgres"}' => 7,
	'lockfence_activity_admissions{datname="postgres"}' => 1,
	'lockfence_activity_stale{datname="postgres"}' => 1,
	'lockfence_activity_prepared{datname="postgres"}' => 1,
	'lockfence_leases_live{authority="postgres",datname="postgres"}' => 1,
	'lockfence_audit_findings{datname="postgres",severity="critical"}' => 1,
	'lockfence_audit_findings{datname="postgres",severity="info"}' => 0);
is($metric{$_}, $expected{$_}, $_) foreach sort keys %expected;
cmp_ok($metric{'lockfence_activity_stale_seconds{datname="postgres"}'},
	'>', 0, 'age of the stale transaction');
unlike($answer->{content}, qr/lockfence.*"r"/, 'no resource is shown');

my %name = map { s/\{.*//r => 1 } keys %metric;
foreach my $file ('alerts.yaml', 'dashboard.json')
{
	my $text = slurp_file("$doc/$file");

	decode_json($text) if $file =~ /json/;
	my %used = map { $_ => 1 } $text =~ /\b(lockfence_[a-z_]+)\b(?=[{\[ ),"])/g;
	cmp_ok(scalar keys %used, '>', 5, "$file uses metrics");
	is(join(' ', grep { !$name{$_} } sort keys %used), '', 'and all of them exist');
}

my $watch = slurp_file("$doc/watch.sql") =~ s/^\\watch.*/;/mr;
my $screen = $node->safe_psql('postgres', $watch);
like($screen, qr/3 stale \(0 at commit\)/, 'the screen counts');
like($screen, qr/^  \d+  s  token 1, fence 2, /m, 'tells who is in the way');
like($screen, qr/last refusals:\n  [\d:]+  LF001 /, 'and what was refused');
$_->quit foreach $session, $open;
$node->safe_psql('postgres', "ROLLBACK PREPARED 'p'");

done_testing();
