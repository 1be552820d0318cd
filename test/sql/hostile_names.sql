-- Nothing that a caller puts into the search path or among temporary objects
-- changes a result or runs with somebody else's rights.
\set VERBOSITY sqlstate
SET client_min_messages = warning;
CREATE ROLE regress_lockfence_mallory;
SELECT fence_grant('regress_lockfence_mallory');
SELECT fence_grant('regress_lockfence_mallory', 'monitor');
SELECT current_database() AS first_db \gset
GRANT CREATE ON DATABASE :"first_db" TO regress_lockfence_mallory;
CREATE TABLE hn_log (who name DEFAULT current_user, what text);
GRANT INSERT, SELECT ON hn_log TO regress_lockfence_mallory;
SELECT fence_check('hn:a', 5);
SELECT count(*) FROM generate_series(1, 3) n, fence_acquire('hn:warm:' || n, 'h', '1 hour');
SELECT token FROM fence_acquire('hn:b', 'h', '1 hour') \gset

SET ROLE regress_lockfence_mallory;
-- temporary tables of all names
CREATE TEMP TABLE fence (resource text PRIMARY KEY, token bigint, issued boolean, released boolean);
CREATE TEMP TABLE prefix (prefix text PRIMARY KEY, accepts_external boolean);
CREATE TEMP SEQUENCE token START 1;
CREATE TEMP TABLE leases (resource text);
CREATE TEMP TABLE protected_tables (target text);
CREATE TEMP TABLE pg_proc (oid oid);
CREATE TEMP TABLE pg_trigger (oid oid);
INSERT INTO fence VALUES ('hn:a', 1, false, false), ('hn:b', 1, true, false);
INSERT INTO prefix VALUES ('', false);

-- and functions and operators that tell on whoever runs them
CREATE SCHEMA hn_evil;
CREATE FUNCTION hn_evil.greatest(bigint, bigint) RETURNS bigint LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('greatest'); SELECT 0::bigint $$;
CREATE FUNCTION hn_evil.now() RETURNS timestamptz LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('now'); SELECT 'epoch'::timestamptz $$;
CREATE FUNCTION hn_evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('clock_timestamp'); SELECT 'epoch'::timestamptz $$;
CREATE FUNCTION hn_evil.lower(text) RETURNS text LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('lower'); SELECT ''::text $$;
CREATE FUNCTION hn_evil.pg_prepared_xact() RETURNS TABLE (transaction xid, gid text) LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('pg_prepared_xact'); SELECT '3'::xid, 'x'::text $$;
CREATE FUNCTION hn_evil.nextval(regclass) RETURNS bigint LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('nextval'); SELECT 1::bigint $$;
CREATE FUNCTION hn_evil.lt(bigint, bigint) RETURNS boolean LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('<'); SELECT false $$;
CREATE FUNCTION hn_evil.eq(text, text) RETURNS boolean LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('='); SELECT true $$;
CREATE FUNCTION hn_evil.eq(oid, oid) RETURNS boolean LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('= oid'); SELECT true $$;
CREATE FUNCTION hn_evil.gt(timestamptz, timestamptz) RETURNS boolean LANGUAGE sql
    AS $$ INSERT INTO hn_log (what) VALUES ('>'); SELECT false $$;
CREATE OPERATOR hn_evil.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = hn_evil.lt);
CREATE OPERATOR hn_evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = hn_evil.eq);
CREATE OPERATOR hn_evil.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = hn_evil.eq);
CREATE OPERATOR hn_evil.> (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = hn_evil.gt);

SET search_path = hn_evil, pg_temp, pg_catalog, public;
SELECT fence_check('hn:a', 4);
SELECT fence_check('hn:a', 5);
SELECT fence_check('hn:a', 6);
SELECT fence_check('hn:new', 5);
SELECT fence_check('hn:b', :token);
SELECT fence_check('hn:b', 1);
SELECT fence_current('hn:a'), kind, live FROM fence_status('hn:b');
SELECT status, held_by FROM fence_acquire('hn:b', 'mallory', '1 hour');
SELECT status, how FROM fence_acquire('hn:b', 'h', '1 hour');
SELECT status FROM fence_renew('hn:b', :token, 'h', '1 hour');
SELECT status, how FROM fence_acquire('hn:c', 'h', '1 hour');
SELECT count(fence_issue('hn:d', 'h'));
SELECT fence_release('hn:c', NULL, 'h');
SELECT count(*) > 0 AS live FROM lockfence.leases WHERE live;
SELECT count(*) >= 0 AS read FROM lockfence.protected_tables;

-- the temporary ones saw nothing
SELECT resource, token FROM pg_temp.fence ORDER BY 1;
SELECT last_value, is_called FROM pg_temp.token;

-- an empty path
SET search_path = '';
SELECT public.fence_check('hn:a', 6);
SELECT public.fence_check('hn:a', 5);
SELECT status FROM public.fence_acquire('hn:b', 'h', '1 hour');
SELECT count(*) > 0 AS live FROM lockfence.leases WHERE live;
RESET search_path;
RESET ROLE;

-- the same as administrator, with Mallory's objects first
SET search_path = hn_evil, pg_temp, pg_catalog, public;
SELECT fence_override('hn:a', 3);
SELECT fence_accept_external('hn:strict:', false);
SELECT fence_check('hn:strict:x', 5);
SELECT fence_adopt('hn:new');
SELECT fence_grant('regress_lockfence_mallory', 'worker');
RESET search_path;
SELECT token FROM fence_status('hn:a');
SELECT * FROM hn_log;
-- (the traps are real)
SET search_path = hn_evil, pg_catalog, public;
SELECT lower('A');
RESET search_path;
SELECT what FROM hn_log;

-- settings that change how values look
SET timezone = 'Asia/Kathmandu';
SET datestyle = 'German';
SET intervalstyle = 'sql_standard';
SET bytea_output = 'escape';
SET extra_float_digits = 0;
SET quote_all_identifiers = on;
SET transform_null_equals = on;
SET default_transaction_isolation = 'serializable';
SET row_security = off;
SELECT status FROM fence_acquire('hn:e', 'h', '1 hour');
SELECT fence_check('hn:a', 3);
SELECT fence_check('hn:a', 2);
SELECT fence_grant('regress_lockfence_mallory', 'operator');
RESET timezone;
RESET datestyle;
RESET intervalstyle;
RESET bytea_output;
RESET extra_float_digits;
RESET quote_all_identifiers;
RESET transform_null_equals;
RESET default_transaction_isolation;
RESET row_security;

-- created where somebody prepared the ground
CREATE DATABASE regress_lockfence_evil TEMPLATE template0;
\c regress_lockfence_evil
SET client_min_messages = warning;
\set VERBOSITY sqlstate
GRANT ALL ON SCHEMA public TO regress_lockfence_mallory;
SET ROLE regress_lockfence_mallory;
CREATE TABLE public.evil_log (who name DEFAULT current_user, what text);
CREATE FUNCTION public.eq(name, text) RETURNS boolean LANGUAGE sql
    AS $$ INSERT INTO public.evil_log (what) VALUES ('='); SELECT true $$;
CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = text, FUNCTION = public.eq);
CREATE FUNCTION public.quote_ident(text) RETURNS text LANGUAGE sql
    AS $$ INSERT INTO public.evil_log (what) VALUES ('quote_ident'); SELECT $1 $$;
CREATE FUNCTION public.pg_extension_config_dump(text, text) RETURNS void LANGUAGE sql
    AS $$ INSERT INTO public.evil_log (what) VALUES ('dump') $$;
CREATE FUNCTION public.fence_check(text, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
RESET ROLE;
SET search_path = public, pg_catalog;
CREATE EXTENSION lockfence SCHEMA public;
SELECT * FROM public.evil_log;
-- a function of the same name and arguments is in the way, and stays Mallory's
DROP EXTENSION lockfence;
SET ROLE regress_lockfence_mallory;
CREATE FUNCTION public.fence_check(text, bigint, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
RESET ROLE;
CREATE EXTENSION lockfence SCHEMA public;
SELECT count(*) FROM pg_extension WHERE extname = 'lockfence';

\c :first_db
SET client_min_messages = warning;
DROP DATABASE regress_lockfence_evil;
DROP OWNED BY regress_lockfence_mallory CASCADE;
DROP ROLE regress_lockfence_mallory;
DROP TABLE hn_log;
SELECT fence_accept_external('hn:strict:', true);
