-- fence_new_epoch and the end of the numbers.
--
-- Wrong result it would show: a token at or below one that may have been
-- issued before, or an attempt at the end that changes something.
-- Mutants: src/fence_token.c, fence_token_new_epoch() without Max(..., above);
-- src/fence_generation.c, check_rises() for absent resources only.
\set VERBOSITY terse
-- in a database of its own, whose sequence it wears out
SELECT current_database() AS first_db \gset
CREATE DATABASE regress_lockfence_epoch TEMPLATE template0;
\c regress_lockfence_epoch
SET client_min_messages = warning;
CREATE EXTENSION lockfence;

-- far beyond the last token, and the next acquire goes on from there
SELECT token AS t1 FROM fence_acquire('epoch:a', 'alice', '1 hour') \gset
SELECT fence_new_epoch() AS first \gset
-- (by 2^40, and up to half as much by chance)
SELECT :first - :t1 BETWEEN (1::bigint << 40) AND (3::bigint << 39) + 100 AS jumped, :first < (1::bigint << 53) AS in_range;
SELECT token AS t2, token = :first AS the_first_one FROM fence_acquire('epoch:b', 'alice', '1 hour') \gset
SELECT :'the_first_one' AS the_first_one;
-- what was granted before stays good until somebody follows
SELECT fence_check('epoch:a', :t1);
SELECT fence_release('epoch:a', :t1, 'alice');
SELECT token - :t2 AS next FROM fence_acquire('epoch:a', 'bob', '1 hour');

-- above a number that is known
SELECT fence_new_epoch(:first + (1::bigint << 45)) = :first + (1::bigint << 45) + 1 AS just_above;
SELECT fence_new_epoch(5) > :first + (1::bigint << 45) + (1::bigint << 40) AS never_back;

-- a rollback does not undo it
BEGIN;
SELECT fence_new_epoch() AS first \gset
ROLLBACK;
SELECT fence_issue('epoch:c', 'alice') >= :first AS beyond;

-- arguments and limits: a clear error, again and again, and nothing changed
\set VERBOSITY sqlstate
SELECT fence_new_epoch(0);
SELECT fence_new_epoch(-1);
BEGIN READ ONLY;
SELECT fence_new_epoch();
ROLLBACK;
SELECT last_value AS before FROM lockfence.token \gset
SELECT fence_new_epoch(9223372036854775807);
SELECT fence_new_epoch(1::bigint << 52);
SELECT last_value = :before AS unchanged FROM lockfence.token;
\set VERBOSITY terse
SELECT fence_new_epoch(1::bigint << 52);

-- an administrator's hand has set the sequence back: no fence is ever lowered,
-- neither of the first of several resources nor of another one
SELECT fence_issue('epoch:d', 'alice') AS d \gset
SELECT fence_issue('epoch:z', 'alice') AS z \gset
SELECT last_value AS after FROM lockfence.token \gset
SELECT status FROM fence_acquire('epoch:y', 'alice', '1 hour');
SELECT fence_release('epoch:y', NULL, 'alice');
SELECT setval('lockfence.token', :after - 5) IS NOT NULL AS set_back;
\set VERBOSITY sqlstate
SELECT fence_issue('epoch:y', 'bob');
SELECT setval('lockfence.token', 50);
SELECT * FROM fence_acquire('epoch:z', 'bob', '1 hour');
SELECT fence_issue('epoch:z', 'bob');
SELECT * FROM fence_acquire_all('{epoch:z,epoch:d}', 'bob', '1 hour');
SELECT * FROM fence_acquire_all('{epoch:z,epoch:0}', 'bob', '1 hour');
\set VERBOSITY terse
SELECT fence_current('epoch:z') = :z AS unchanged, fence_current('epoch:0') AS none;
SELECT fence_new_epoch(:after) > :after AS mended;
SELECT status, token > :z AS higher FROM fence_acquire('epoch:z', 'bob', '1 hour');

-- the commit waits for a synchronous standby, which may be promoted with no other
-- knowledge of "above"
-- Mutants: set_sequence() without GetTopTransactionId(); fence_new_epoch() without
-- fence_commit_durably().
SET synchronous_commit = off;
BEGIN;
SELECT fence_new_epoch() IS NOT NULL AS moved;
SELECT pg_current_xact_id_if_assigned() IS NOT NULL AS has_an_id, current_setting('synchronous_commit');
COMMIT;
RESET synchronous_commit;

-- one WAL record covers more than nextval's 32 values, but not if an administrator
-- makes the sequence count otherwise; a sequence that was written anew may be
-- covered by no record, and issuing jumps
SELECT fence_issue('epoch:e', 'alice') AS e \gset
SELECT log_cnt > 32 AS covered FROM lockfence.token;
SELECT last_value AS last FROM lockfence.token \gset
ALTER SEQUENCE lockfence.token INCREMENT BY 2;
SELECT fence_issue('epoch:e', 'alice') - :last >= 1::bigint << 40 AS jumped;
SELECT log_cnt <= 32 AS by_nextval FROM lockfence.token;
ALTER SEQUENCE lockfence.token INCREMENT BY 1 START WITH 7;
SELECT fence_issue('epoch:e', 'alice') - :last >= 2::bigint << 40 AS jumped;
SELECT last_value AS last FROM lockfence.token \gset
SELECT fence_issue('epoch:e', 'alice') - :last AS goes_on;
SELECT log_cnt > 32 AS covered FROM lockfence.token;

-- issuing was moved past the highest external fence that may be forgotten: many
-- jumps are possible after it
SELECT fence_check('epoch:junk', (1::bigint << 52) - 1);
SELECT fence_prune('epoch:junk', '0', true);
SELECT fence_issue('epoch:c', 'alice') - (1::bigint << 52) AS after_it;
SELECT fence_new_epoch() > (1::bigint << 52) + (1::bigint << 40) AS jumped, fence_new_epoch() IS NOT NULL AS again;

-- the last numbers that the sequence has
SELECT setval('lockfence.token', 9223372036854775805);
SELECT token FROM fence_acquire('epoch:top', 'alice', '1 hour') \gset
SELECT :token, fence_check('epoch:top', :token), fence_release('epoch:top', :token, 'alice');
SELECT token FROM fence_acquire('epoch:top', 'bob', '1 hour') \gset
SELECT :token, fence_check('epoch:top', :token), fence_release('epoch:top', :token, 'bob');
\set VERBOSITY sqlstate
SELECT * FROM fence_acquire('epoch:top', 'carol', '1 hour');
SELECT * FROM fence_acquire('epoch:top', 'carol', '1 hour');
SELECT fence_issue('epoch:top', 'carol');
SELECT * FROM fence_acquire_all('{epoch:top,epoch:new}', 'carol', '1 hour');
SELECT fence_new_epoch();
\set VERBOSITY terse
SELECT token, released, holder FROM fence_status('epoch:top');
-- and the guard still judges
SELECT fence_check('epoch:b', :t2);

\c :first_db
DROP DATABASE regress_lockfence_epoch;
