-- Handwritten guards: fired in a wrong way or with wrong arguments they refuse;
-- lockfence.guard shows what it can of them.
--
-- Mutants that must make this file fail:
--   no check of the trigger protocol (src/fence_trigger.c)
--   unknown options are skipped (src/fence_guard_args.c)

CREATE TABLE guarded (id int PRIMARY KEY, res text, tok bigint);
CREATE VIEW guarded_view AS SELECT * FROM guarded;
CREATE FUNCTION pg_temp.guard(timing text, arguments text, level text DEFAULT 'ROW')
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER guard %s ON guarded FOR EACH %s '
                   'EXECUTE FUNCTION fence_trigger(%s)', timing, level, arguments);
END
$$;

-- Not as a trigger
SELECT fence_trigger();

-- Fired in a wrong way
SELECT pg_temp.guard('AFTER INSERT OR UPDATE OR DELETE', '''g:{res}''');
INSERT INTO guarded VALUES (1, 'a', 1);
SELECT pg_temp.guard('BEFORE INSERT', '''g:{res}''', 'STATEMENT');
INSERT INTO guarded VALUES (1, 'a', 1);
SELECT pg_temp.guard('AFTER INSERT', '''g:{res}''', 'STATEMENT');
INSERT INTO guarded VALUES (1, 'a', 1);
SELECT pg_temp.guard('AFTER TRUNCATE', '''g:{res}''', 'STATEMENT');
TRUNCATE guarded;
SELECT pg_temp.guard('BEFORE INSERT', '''g:{res}''');
INSERT INTO guarded VALUES (1, 'a', 1);
CREATE TRIGGER guard INSTEAD OF INSERT ON guarded_view
    FOR EACH ROW EXECUTE FUNCTION fence_trigger('g:{res}');
INSERT INTO guarded_view VALUES (1, 'a', 1);
DROP VIEW guarded_view;
DROP TRIGGER guard ON guarded;
CREATE CONSTRAINT TRIGGER guard AFTER INSERT ON guarded DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION fence_trigger('g:{res}');
INSERT INTO guarded VALUES (1, 'a', 1);
DROP TRIGGER guard ON guarded;

-- A TRUNCATE guard needs no arguments, but wrong ones are noticed.
SELECT pg_temp.guard('BEFORE TRUNCATE', '', 'STATEMENT');
TRUNCATE guarded;
SELECT pg_temp.guard('BEFORE TRUNCATE', '''g'', '''', ''mode=x''', 'STATEMENT');
TRUNCATE guarded;
DROP TRIGGER guard ON guarded;

-- Wrong arguments
CREATE TABLE guard_arguments (n int, arguments text);
INSERT INTO guard_arguments VALUES
    (1, ''),
    (2, ''''''),
    (3, '''g:{res'''),
    (4, '''g:{nix}'''),
    (5, '''g:{res}'', ''nix'''),
    (6, '''g:{res}'', ''id'''),
    (7, '''g:{res}'', '''', ''present=column'''),
    (8, '''g:{res}'', ''tok'', ''present=row'''),
    (9, '''g:{res}'', ''tok'', ''mode='''),
    (10, '''g:{res}'', ''tok'', ''colour=red'''),
    (11, '''g:{res}'', ''tok'', ''transaction'''),
    (12, '''g:{res}'', ''tok'', '''''),
    (13, '''g:{res}'', ''tok'', ''types=int8'''),
    (14, '''g:{res}'', ''tok'', ''types='''),
    (15, '''g:{res}'', ''tok'', ''PRESENT=column'''),
    (16, '''g:{tok}'', ''tok'''),
    (17, 'repeat');
CREATE FUNCTION pg_temp.try_guard(n int, arguments text)
RETURNS TABLE (error text, resource text, token_column name, present text, mode text,
               firing text)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_temp.guard('BEFORE INSERT OR UPDATE OR DELETE', arguments);
    BEGIN
        INSERT INTO guarded VALUES (1, 'a', 1);
        RAISE SQLSTATE 'ZZ000';
    EXCEPTION
        WHEN SQLSTATE 'ZZ000' THEN error := 'ok';
        WHEN OTHERS THEN error := SQLSTATE || ' ' || SQLERRM;
    END;
    RETURN QUERY SELECT error, g.*
        FROM pg_trigger t, LATERAL lockfence.guard(t.oid) g
        WHERE t.tgrelid = 'guarded'::regclass AND t.tgname = 'guard';
END
$$;
\x on
SELECT n, arguments, g.* FROM guard_arguments, LATERAL pg_temp.try_guard(n, arguments) g
ORDER BY n;
\x off
SELECT target, resource, token_column, present, mode FROM lockfence.protected_tables
WHERE target = 'guarded'::regclass;
SELECT lockfence.guard(0), lockfence.guard(NULL);
DROP TRIGGER guard ON guarded;

-- Right arguments, defaults, any name, and idle options
SELECT pg_temp.try_guard(0, '''g:{res}'', ''tok''');
SELECT pg_temp.try_guard(0, '''g:{res}'', ''tok'', ''types=text'', ''mode=enforce'', ''present=column''');
SELECT pg_temp.try_guard(0, '''g''');
SELECT pg_temp.try_guard(0, '''g:{res}'', '''', ''mode=observe''');
SELECT pg_temp.try_guard(0, 'g, tok');
\set VERBOSITY sqlstate
SELECT pg_temp.guard('BEFORE INSERT OR UPDATE OR DELETE', '''g:{res}'', ''tok''');
TRUNCATE guarded;
INSERT INTO guarded VALUES (1, 'a', 6);
INSERT INTO guarded VALUES (2, 'a', 5);
UPDATE guarded SET id = 3;
SELECT * FROM guarded;
\set VERBOSITY default

-- Tokens that are no bigint
INSERT INTO guarded VALUES (4, 'a', 18446744073709551615);
INSERT INTO guarded VALUES (4, 'a', -9223372036854775808);
COPY guarded FROM stdin;
4	a	18446744073709551615
\.
COPY guarded FROM stdin;
4	a	0
\.
INSERT INTO guarded VALUES (4, 'z', (2::bigint << 32) | 4294967295);
INSERT INTO guarded VALUES (5, 'z', (3::bigint << 32) | 0);
\set VERBOSITY sqlstate
INSERT INTO guarded VALUES (6, 'z', (2::bigint << 32) | 7);
INSERT INTO guarded VALUES (6, 'z', 9223372036854775807);
INSERT INTO guarded VALUES (7, 'z', 9223372036854775806);
\set VERBOSITY default
SELECT * FROM guarded ORDER BY id;

-- Two guards: only the last one is in its place.
CREATE TRIGGER guard2 BEFORE INSERT OR UPDATE OR DELETE ON guarded
    FOR EACH ROW EXECUTE FUNCTION fence_trigger('g2:{res}', 'tok');
INSERT INTO guarded VALUES (8, 'a', 6);
SELECT fence_unprotect('guarded');
INSERT INTO guarded VALUES (8, 'a', 1);

DROP TABLE guarded, guard_arguments;
DELETE FROM lockfence.fence WHERE resource ~ '^g2?(:|$)';
