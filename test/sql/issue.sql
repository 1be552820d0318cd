-- fence_issue, and the sequence that every issued token comes from.
\set VERBOSITY terse

-- a token without a lease: raises the fence each time
SELECT fence_issue('issue:a', 'job-1') AS t1 \gset
SELECT token = :t1 AS token, kind, holder, released, authority, live, expires_at FROM fence_status('issue:a');
SELECT fence_check('issue:a', :t1, 'job-1');
SELECT fence_issue('issue:a', 'job-1') > :t1 AS higher;
\set VERBOSITY sqlstate
SELECT fence_check('issue:a', :t1);
\set VERBOSITY terse
SELECT fence_issue('issue:a', 'job-2') AS t3 \gset
SELECT holder FROM fence_status('issue:a');
-- no lease to see or to renew, but a generation to release
SELECT count(*) FROM lockfence.leases WHERE resource = 'issue:a';
SELECT * FROM fence_renew('issue:a', :t3, 'job-2', '1 hour');
SELECT fence_release('issue:a', :t3, 'job-1');
SELECT fence_release('issue:a', :t3, 'job-2', 'postgres');
SELECT fence_check('issue:a', :t3);
SELECT fence_release('issue:a', :t3, 'job-2');
\set VERBOSITY sqlstate
SELECT fence_check('issue:a', :t3);
\set VERBOSITY terse
SELECT fence_issue('issue:a', 'job-3') > :t3 AS higher;

-- it admits its own transaction
BEGIN;
SELECT fence_issue('issue:b', 'job') AS token \gset
SELECT fence_check('issue:b', :token);
COMMIT;

-- beside leases: not over the live one of another, always over one's own
SELECT token FROM fence_acquire('issue:c', 'alice', '1 hour') \gset
\set VERBOSITY sqlstate
SELECT fence_issue('issue:c', 'bob');
\set VERBOSITY terse
SELECT fence_issue('issue:c', 'alice') > :token AS higher;
SELECT live FROM fence_status('issue:c');
-- an acquire over an issued token takes the generation over
SELECT status, how FROM fence_acquire('issue:c', 'bob', '1 hour');

-- not for external resources
SELECT fence_check('issue:ext', 5);
\set VERBOSITY default
SELECT fence_issue('issue:ext', 'job');
SELECT status FROM fence_acquire('issue:ext', 'job', '1 hour');
\set VERBOSITY sqlstate
SELECT fence_issue('issue:ext', 'job');
SELECT status FROM fence_acquire('issue:ext', 'job', '1 hour');
\set VERBOSITY terse
SELECT token, kind, holder FROM fence_status('issue:ext');

-- tokens of all resources come from one sequence, and start small
SELECT fence_issue('issue:d', 'x') AS d \gset
SELECT fence_issue('issue:e', 'x') > :d AS one_order;
SELECT fence_issue('issue:d', 'x') < (1::bigint << 53) AS exact_in_a_double;

-- A transaction that wrote under a token and issues another: the fence must
-- still be at the first.
BEGIN;
SELECT fence_check('issue:f', 5);
ROLLBACK;
SELECT fence_issue('issue:g', 'x') AS g1 \gset
BEGIN;
SELECT fence_check('issue:g', :g1);
SELECT fence_issue('issue:g', 'x') > :g1 AS higher;
COMMIT;

-- the end of the sequence: an error again and again, with nothing changed
SELECT last_value AS before FROM lockfence.token \gset
SELECT setval('lockfence.token', 9223372036854775806);
SELECT fence_issue('issue:top', 'x') AS top \gset
SELECT :top = 9223372036854775807 AS the_last;
SELECT fence_check('issue:top', :top);
\set VERBOSITY sqlstate
SELECT fence_issue('issue:top', 'x');
SELECT fence_issue('issue:top', 'x');
SELECT status FROM fence_acquire('issue:top', 'y', '1 hour');
SELECT status FROM fence_acquire('issue:top:new', 'y', '1 hour');
SELECT status FROM fence_acquire('issue:top:new', 'y', '1 hour');
SELECT fence_check('issue:top', :top - 1);
\set VERBOSITY terse
SELECT fence_check('issue:top', :top);
SELECT token = :top AS unchanged, holder FROM fence_status('issue:top');
SELECT fence_current('issue:top:new');
SELECT last_value FROM lockfence.token;

-- a sequence set back behind a fence gives nothing out
SELECT setval('lockfence.token', 1);
\set VERBOSITY sqlstate
SELECT fence_issue('issue:top', 'x');
SELECT status FROM fence_acquire('issue:c', 'bob', '1 hour');
SELECT fence_release('issue:c', NULL, 'bob');
SELECT status FROM fence_acquire('issue:c', 'bob', '1 hour');
SELECT setval('lockfence.token', :before + 10) IS NOT NULL AS mended;
SELECT status FROM fence_acquire('issue:c', 'bob', '1 hour');
