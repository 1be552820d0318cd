-- Hostile search_path, objects of the same names and row security change
-- nothing: not what is protected, not what is judged, and nobody's code runs
-- with other rights.
--
-- Mutants that must make this file fail:
--   names in generated commands without their schema (src/fence_protect.c)
--   the guard function is looked up by search_path (src/fence_target.c)

CREATE ROLE regress_hostile_app;
CREATE ROLE regress_hostile_owner;
CREATE SCHEMA "Evil ""schema""";
CREATE SCHEMA hostile AUTHORIZATION regress_hostile_owner;
GRANT USAGE ON SCHEMA hostile TO regress_hostile_app;
GRANT ALL ON SCHEMA "Evil ""schema""" TO PUBLIC;
GRANT EXECUTE ON FUNCTION fence_check(text, bigint, text) TO regress_hostile_app;
CREATE TABLE "Evil ""schema""".log (what text);
GRANT INSERT ON "Evil ""schema""".log TO PUBLIC;
SELECT pronamespace::regnamespace AS home FROM pg_proc WHERE proname = 'fence_check'
\gset

-- Everything that lockfence could stumble upon, placed first in the path.
SET search_path = "Evil ""schema""", pg_catalog, public;
CREATE FUNCTION fence_trigger() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN INSERT INTO "Evil ""schema""".log VALUES ('fence_trigger as ' || current_user); RETURN NEW; END$$;
CREATE FUNCTION lower(text) RETURNS text LANGUAGE plpgsql AS
$$BEGIN INSERT INTO "Evil ""schema""".log VALUES ('lower as ' || current_user); RETURN $1; END$$;
CREATE FUNCTION evil_bigint(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS
$$BEGIN INSERT INTO "Evil ""schema""".log VALUES ('operator as ' || current_user); RETURN true; END$$;
CREATE FUNCTION evil_text(text, text) RETURNS boolean LANGUAGE plpgsql AS
$$BEGIN INSERT INTO "Evil ""schema""".log VALUES ('operator as ' || current_user); RETURN true; END$$;
CREATE OPERATOR = (LEFTARG = bigint, RIGHTARG = bigint, PROCEDURE = evil_bigint);
CREATE OPERATOR < (LEFTARG = bigint, RIGHTARG = bigint, PROCEDURE = evil_bigint);
CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, PROCEDURE = evil_text);
CREATE TABLE fence (resource text, token bigint);
CREATE TABLE pg_trigger (oid oid);
CREATE TABLE doc (id int, res text, tok bigint);
CREATE TEMPORARY TABLE fence (resource text, token bigint);
CREATE TEMPORARY TABLE prefix (prefix text);
CREATE TEMPORARY TABLE doc (id int, res text, tok bigint);

-- Names that need quoting everywhere.
CREATE TABLE hostile."Doc ""x""; DROP TABLE y" (
    id int, "Res'" text, "Tok""en" bigint) PARTITION BY RANGE (id);
CREATE TABLE hostile."p';--" PARTITION OF hostile."Doc ""x""; DROP TABLE y"
    FOR VALUES FROM (0) TO (10);
ALTER TABLE hostile."Doc ""x""; DROP TABLE y" OWNER TO regress_hostile_owner;
ALTER TABLE hostile."p';--" OWNER TO regress_hostile_owner;
GRANT ALL ON hostile."Doc ""x""; DROP TABLE y", hostile."p';--" TO regress_hostile_app;
SET ROLE regress_hostile_owner;
SELECT :home.fence_protect('hostile."Doc ""x""; DROP TABLE y"', 'ho:''{Res''}\', 'Tok"en');
RESET ROLE;
SELECT tgrelid::regclass, tgname, pronamespace::regnamespace::text OPERATOR(pg_catalog.=) :'home' AS ours
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.tgfoid
WHERE tgrelid IN ('hostile."Doc ""x""; DROP TABLE y"'::regclass, 'hostile."p'';--"'::regclass)
ORDER BY tgrelid::regclass::text COLLATE "C", tgname;
SELECT target, resource, token_column FROM lockfence.protected_tables
WHERE target IN ('hostile."Doc ""x""; DROP TABLE y"'::regclass, 'hostile."p'';--"'::regclass)
ORDER BY target::text COLLATE "C";

SET ROLE regress_hostile_app;
\set VERBOSITY sqlstate
INSERT INTO hostile."Doc ""x""; DROP TABLE y" VALUES (1, 'a', 6);
INSERT INTO hostile."Doc ""x""; DROP TABLE y" VALUES (2, 'a', 5);
INSERT INTO hostile."p';--" VALUES (2, 'a', 5);
UPDATE hostile."Doc ""x""; DROP TABLE y" SET id = 2;
DELETE FROM hostile."Doc ""x""; DROP TABLE y";
TRUNCATE hostile."p';--";
BEGIN;
SELECT :home.fence_check('ho:''a\', 6);
INSERT INTO hostile."Doc ""x""; DROP TABLE y" VALUES (2, 'a', NULL);
COMMIT;
SELECT :home.fence_resource('hostile."p'';--"', '{"Res''": "b"}');
SET search_path = '';
INSERT INTO hostile."Doc ""x""; DROP TABLE y" VALUES (3, 'a', 5);
INSERT INTO hostile."Doc ""x""; DROP TABLE y" VALUES (3, 'a', 6);
SET search_path = pg_temp, "Evil ""schema""", pg_catalog, public;
INSERT INTO hostile."Doc ""x""; DROP TABLE y" VALUES (4, 'a', 5);
\set VERBOSITY default
RESET ROLE;
SELECT * FROM hostile."Doc ""x""; DROP TABLE y" ORDER BY id;

-- Row security hides rows from readers, never from the guard.
ALTER TABLE hostile."Doc ""x""; DROP TABLE y" ENABLE ROW LEVEL SECURITY;
ALTER TABLE hostile."Doc ""x""; DROP TABLE y" FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON hostile."Doc ""x""; DROP TABLE y" USING (id OPERATOR(pg_catalog.>) 1);
SET ROLE regress_hostile_app;
\set VERBOSITY sqlstate
INSERT INTO hostile."Doc ""x""; DROP TABLE y" VALUES (5, 'a', 5);
INSERT INTO hostile."Doc ""x""; DROP TABLE y" VALUES (5, 'a', 6);
UPDATE hostile."Doc ""x""; DROP TABLE y" SET id = 6 WHERE id OPERATOR(pg_catalog.=) 5;
\set VERBOSITY default
RESET ROLE;

-- Running it again and taking it away, with the same path.
SET ROLE regress_hostile_owner;
SELECT :home.fence_protect('hostile."Doc ""x""; DROP TABLE y"', 'ho:{Res''}', 'Tok"en', 'transaction');
SELECT :home.fence_unprotect('hostile."Doc ""x""; DROP TABLE y"');
RESET ROLE;
SELECT count(*) FROM pg_catalog.pg_trigger
WHERE tgrelid IN ('hostile."Doc ""x""; DROP TABLE y"'::regclass, 'hostile."p'';--"'::regclass);
SELECT * FROM "Evil ""schema""".log;

-- The trigger function of that name in the path is no guard.
CREATE TABLE hostile.t (id int, res text, tok bigint);
CREATE TRIGGER zzz_lockfence BEFORE INSERT ON hostile.t
    FOR EACH ROW EXECUTE FUNCTION "Evil ""schema""".fence_trigger();
SELECT :home.fence_protect('hostile.t', 'ho:{res}', 'tok');
SELECT :home.fence_unprotect('hostile.t');
SELECT lockfence.guard(oid) IS NULL AS no_guard FROM pg_catalog.pg_trigger
WHERE tgrelid OPERATOR(pg_catalog.=) 'hostile.t'::regclass;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA hostile CASCADE;
DROP SCHEMA "Evil ""schema""" CASCADE;
DROP TABLE pg_temp.fence, pg_temp.prefix, pg_temp.doc;
REVOKE EXECUTE ON FUNCTION fence_check(text, bigint, text) FROM regress_hostile_app;
DROP ROLE regress_hostile_app;
DROP ROLE regress_hostile_owner;
DELETE FROM lockfence.fence WHERE resource LIKE 'ho:%';
