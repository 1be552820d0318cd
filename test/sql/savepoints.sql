-- Admissions follow savepoints and PL/pgSQL's EXCEPTION blocks exactly.
\set VERBOSITY terse

-- the token before comes back
BEGIN;
SELECT fence_check('sp:a', 5);
SAVEPOINT a;
SELECT fence_check('sp:a', 9);
ROLLBACK TO a;
SELECT fence_check('sp:a', 5);
COMMIT;
SELECT fence_current('sp:a');
SELECT fence_check('sp:a', 4);

-- what a savepoint admitted first is gone with it
BEGIN;
SAVEPOINT a;
SELECT fence_check('sp:b', 50);
ROLLBACK TO a;
SELECT fence_check('sp:b', 3);
COMMIT;
SELECT fence_current('sp:b');

-- The commit check goes by what is left: nothing of 'sp:c' is.
SELECT fence_check('sp:c', 5);
BEGIN;
SAVEPOINT a;
SELECT fence_check('sp:c', 6);
ROLLBACK TO a;
COMMIT;
SELECT fence_current('sp:c');

-- released savepoints belong to the outer level
BEGIN;
SAVEPOINT a;
SELECT fence_check('sp:d', 5);
RELEASE a;
SAVEPOINT b;
SELECT fence_check('sp:d', 8);
SAVEPOINT c;
SELECT fence_check('sp:d', 9);
RELEASE c;
ROLLBACK TO b;
-- 8 and 9 are gone, 5 is back
SELECT fence_check('sp:d', 6);
COMMIT;
SELECT fence_current('sp:d');

-- RELEASE inside an aborted outer savepoint
BEGIN;
SAVEPOINT outer_one;
SAVEPOINT inner_one;
SELECT fence_check('sp:e', 40);
RELEASE inner_one;
SELECT fence_check('sp:e', 40);
ROLLBACK TO outer_one;
SELECT fence_check('sp:e', 2);
COMMIT;
SELECT fence_current('sp:e');

-- many levels, each undone in turn
BEGIN;
SELECT fence_check('sp:f', 1);
SAVEPOINT s1; SELECT fence_check('sp:f', 2);
SAVEPOINT s2; SELECT fence_check('sp:f', 3);
SAVEPOINT s3; SELECT fence_check('sp:f', 4), fence_check('sp:g', 4);
SAVEPOINT s4; SELECT fence_check('sp:f', 5);
ROLLBACK TO s4; SELECT fence_check('sp:f', 4);
ROLLBACK TO s3; SELECT fence_check('sp:f', 3), fence_current('sp:g');
RELEASE s2;
ROLLBACK TO s1; SELECT fence_check('sp:f', 1);
COMMIT;
SELECT fence_current('sp:f'), fence_current('sp:g');

-- a refusal inside a savepoint leaves the admission before it as it was
BEGIN;
SELECT fence_check('sp:h', 7);
SAVEPOINT a;
SELECT fence_check('sp:h', 6);
ROLLBACK TO a;
SELECT fence_check('sp:h', 7);
COMMIT;

-- a reused savepoint name, and the same token raised again after a rollback
BEGIN;
SAVEPOINT a;
SELECT fence_check('sp:i', 5);
ROLLBACK TO a;
SELECT fence_check('sp:i', 5);
ROLLBACK TO a;
SELECT fence_check('sp:i', 4);
RELEASE a;
COMMIT;
SELECT fence_current('sp:i');

-- PL/pgSQL: a block that is rolled back admits nothing
DO $$
BEGIN
    BEGIN
        PERFORM fence_check('pl:a', 50);
        RAISE EXCEPTION 'undo';
    EXCEPTION WHEN raise_exception THEN
        RAISE NOTICE 'fence: %', fence_current('pl:a');
    END;
    PERFORM fence_check('pl:a', 3);
END
$$;
SELECT fence_current('pl:a');

-- a refusal that is caught does not admit, and does not spoil what was
DO $$
BEGIN
    PERFORM fence_check('pl:b', 5);
    BEGIN
        PERFORM fence_check('pl:b', 4);
    EXCEPTION WHEN OTHERS THEN
        RAISE NOTICE '%: %', SQLSTATE, SQLERRM;
    END;
    PERFORM fence_check('pl:b', 5);
    PERFORM fence_check('pl:b', 6);
END
$$;
SELECT fence_current('pl:b');

-- in a loop, every second one undone
DO $$
BEGIN
    FOR n IN 1..40 LOOP
        BEGIN
            PERFORM fence_check('pl:c', n);
            IF n % 2 = 0 THEN
                RAISE EXCEPTION 'undo';
            END IF;
        EXCEPTION WHEN raise_exception THEN
            IF fence_current('pl:c') <> n - 1 THEN
                RAISE 'fence is %', fence_current('pl:c');
            END IF;
        END;
    END LOOP;
END
$$;
SELECT fence_current('pl:c');

-- an acquire that is rolled back was no grant, and its token is never reused
BEGIN;
SAVEPOINT a;
SELECT status, how, token AS undone FROM fence_acquire('sp:lease', 'h', '1 hour') \gset
ROLLBACK TO a;
SELECT fence_current('sp:lease');
SELECT status, how, token > :undone AS higher FROM fence_acquire('sp:lease', 'h', '1 hour');
COMMIT;

-- a release that is rolled back was none
SELECT token FROM fence_acquire('sp:lease', 'h', '1 hour') \gset
BEGIN;
SAVEPOINT a;
SELECT fence_release('sp:lease', :token, 'h');
ROLLBACK TO a;
SELECT fence_check('sp:lease', :token);
COMMIT;
SELECT live FROM fence_status('sp:lease');

-- the whole transaction undone after an error at the commit check
BEGIN;
SELECT fence_check('sp:z', 5);
SAVEPOINT a;
SELECT fence_check('sp:z', 6);
RELEASE a;
ROLLBACK;
SELECT fence_current('sp:z');
