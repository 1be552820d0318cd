-- fence_once: an operation is accepted once, across generations.
--
-- Wrong result it would show: an operation accepted twice, or counted as
-- accepted although its transaction was rolled back or its token was stale.
-- Mutants: src/fence_operation.c, find_operation() that takes the next operation
-- in order for the one asked for; fence_operation_prune() that does not stop
-- behind the prefix.
\set VERBOSITY terse
CREATE TABLE once_published (operation text, by text);

-- true the first time, false after that, in any generation
SELECT token AS t1 FROM fence_acquire('once:a', 'alice', '1 hour') \gset
SELECT fence_once('once:a', :t1, 'publish:june');
SELECT fence_once('once:a', :t1, 'publish:june');
SELECT fence_once('once:a', :t1, 'publish:july', 'alice');
SELECT fence_release('once:a', :t1, 'alice');
SELECT token AS t2 FROM fence_acquire('once:a', 'bob', '1 hour') \gset
SELECT fence_once('once:a', :t2, 'publish:june');
SELECT fence_once('once:a', :t2, 'publish:august');
-- operation, token and holder in columns of their own
SELECT resource, operation, token = :t1 AS first_token, token = :t2 AS second_token, holder,
       accepted_at <= clock_timestamp() AS accepted
FROM lockfence.operations WHERE resource = 'once:a' ORDER BY operation;

-- the token is judged first: a stale caller learns that it is stale
\set VERBOSITY sqlstate
SELECT fence_once('once:a', :t1, 'publish:june');
SELECT fence_once('once:a', :t1, 'publish:september');
SELECT fence_once('once:a', :t2, 'publish:september', 'alice');
SELECT fence_once('once:a', :t2 + 1, 'publish:september');
SELECT fence_release('once:a', :t2, 'bob');
SELECT fence_once('once:a', :t2, 'publish:september');
SELECT count(*) FROM lockfence.operations WHERE operation = 'publish:september';
\set VERBOSITY terse

-- in the caller's own transaction: what is rolled back was not accepted
SELECT token FROM fence_acquire('once:b', 'alice', '1 hour') \gset
BEGIN;
SELECT fence_once('once:b', :token, 'op');
SELECT fence_once('once:b', :token, 'op');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT fence_once('once:b', :token, 'op');
ROLLBACK TO s;
SELECT fence_once('once:b', :token, 'op');
SELECT fence_once('once:b', :token, 'op');
COMMIT;
SELECT fence_once('once:b', :token, 'op');

-- in every isolation level
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT fence_once('once:b', :token, 'op'), fence_once('once:b', :token, 'op rr');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT fence_once('once:b', :token, 'op rr'), fence_once('once:b', :token, 'op ser');
COMMIT;
SELECT operation FROM lockfence.operations WHERE resource = 'once:b' ORDER BY 1;

-- it admits the transaction, as fence_check does
CREATE TABLE once_rows (id int, token bigint);
SELECT fence_protect('once_rows', 'once:b', 'token');
\set VERBOSITY sqlstate
INSERT INTO once_rows VALUES (1);
\set VERBOSITY terse
BEGIN;
SELECT fence_once('once:b', :token, 'op');
INSERT INTO once_rows VALUES (2);
COMMIT;
SELECT id, token = :token AS stamped FROM once_rows;

-- as a worker uses it
DO $$
DECLARE
    grant1 record;
BEGIN
    SELECT * INTO grant1 FROM fence_acquire('once:c', 'worker-1', '1 hour');
    FOR attempt IN 1..3 LOOP
        IF fence_once('once:c', grant1.token, 'publish') THEN
            INSERT INTO once_published VALUES ('publish', 'attempt ' || attempt);
        END IF;
    END LOOP;
END
$$;
TABLE once_published;

-- the same name is another operation for another resource; bytes count
SELECT token FROM fence_acquire('once:d', 'alice', '1 hour') \gset
SELECT fence_once('once:d', :token, 'publish'), fence_once('once:d', :token, 'Publish'),
       fence_once('once:d', :token, 'publish '), fence_once('once:d', :token, 'publish');

-- resource and operation are never run together
SELECT token AS ab FROM fence_acquire('once:ab', 'alice', '1 hour') \gset
SELECT token AS a FROM fence_acquire('once:a', 'alice', '1 hour') \gset
SELECT fence_once('once:ab', :ab, 'c'), fence_once('once:a', :a, 'bc');

-- an external token, with and without a holder
SELECT fence_once('once:ext', 5, 'op'), fence_once('once:ext', 6, 'op', 'zoe'), fence_once('once:ext', 6, 'op2');
SELECT operation, token, holder FROM lockfence.operations WHERE resource = 'once:ext' ORDER BY operation;

-- arguments
\set VERBOSITY sqlstate
SELECT fence_once(NULL, 5, 'op');
SELECT fence_once('', 5, 'op');
SELECT fence_once('once:e', NULL, 'op');
SELECT fence_once('once:e', 0, 'op');
SELECT fence_once('once:e', -1, 'op');
SELECT fence_once('once:e', 5, NULL);
SELECT fence_once('once:e', 5, '');
SELECT fence_once('once:e', 5, repeat('x', 513));
SELECT fence_once('once:e', 5, 'op', '');
SELECT fence_once(repeat('x', 513), 5, 'op');
SELECT fence_once(repeat('r', 512), 5, repeat('o', 512), repeat('h', 512));
SELECT fence_once(repeat('r', 512), 5, repeat('o', 512), repeat('h', 512));
BEGIN READ ONLY;
SELECT fence_once('once:d', 5, 'op');
ROLLBACK;
SELECT count(*) FROM lockfence.operations WHERE resource = 'once:e';
SELECT fence_current('once:e');
\set VERBOSITY terse

-- pruned by age; an operation that is shown again is then accepted again
SELECT fence_prune_operations('once:d', '1 hour');
SELECT fence_prune_operations('once:d', '0');
SELECT fence_once('once:d', :token, 'publish'), fence_once('once:d', :token, 'publish');
-- other prefixes are untouched, also those that sort next to it
SELECT token AS e FROM fence_acquire('once:e', 'alice', '1 hour') \gset
SELECT token AS d1 FROM fence_acquire('once:d1', 'alice', '1 hour') \gset
SELECT fence_once('once:e', :e, 'op'), fence_once('once:d1', :d1, 'op');
SELECT fence_prune_operations('once:d1', '0');
SELECT resource, operation FROM lockfence.operations WHERE resource ~ '^once:[de]' ORDER BY 1, 2;
-- taken back with its transaction, as every forgetting
BEGIN;
SELECT fence_prune_operations('', '0') > 5 AS all_of_them;
SELECT fence_once('once:e', :e, 'op');
ROLLBACK;
SELECT fence_once('once:e', :e, 'op');
\set VERBOSITY sqlstate
SELECT fence_prune_operations(NULL, '0');
SELECT fence_prune_operations('once:', NULL);
SELECT fence_prune_operations('once:', '-1 s');
SELECT fence_prune_operations('once:', '1000 years');
BEGIN READ ONLY;
SELECT fence_prune_operations('once:', '0');
ROLLBACK;

DROP TABLE once_published, once_rows;
