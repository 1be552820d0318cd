-- What the catalogs say of the extension's objects.

CREATE TEMP VIEW members AS
    SELECT d.classid, d.objid, d.objsubid
    FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid
    WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
      AND e.extname = 'lockfence';

SELECT count(*) > 20 AS found FROM members;

-- functions: volatile, parallel unsafe, never STRICT (null must raise), and
-- with the rights of their caller
SELECT p.oid::regprocedure::text COLLATE "C" AS function, p.provolatile, p.proparallel,
       p.proisstrict, p.prosecdef
FROM members m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
WHERE (p.provolatile, p.proparallel, p.proisstrict, p.prosecdef) <> ('v', 'u', false, false)
ORDER BY 1;

-- what PUBLIC may execute: owners protect, migrate and restore by themselves
SELECT p.proname COLLATE "C" AS public_may_execute
FROM members m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid,
     LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
WHERE a.grantee = 0
ORDER BY 1;

-- and nothing else: no right on tables, views, the sequence or the schema
SELECT c.relname, a.grantee, a.privilege_type
FROM members m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid,
     LATERAL aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, c.relowner))) a
WHERE a.grantee = 0;
SELECT n.nspname, a.privilege_type
FROM members m JOIN pg_namespace n ON m.classid = 'pg_namespace'::regclass AND m.objid = n.oid,
     LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
WHERE a.grantee = 0;

-- nothing is lost in a crash
SELECT c.relname, c.relpersistence
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'lockfence' AND c.relpersistence <> 'p';

-- the heap is read by C code, in this order of columns
SELECT c.relname COLLATE "C" AS relname, a.amname
FROM members m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
     JOIN pg_am a ON a.oid = c.relam
WHERE c.relkind = 'r' AND a.amname <> 'heap';

-- number order is grant order only without a cache
SELECT seqrelid::regclass, seqcache, seqcycle, seqincrement, seqmin, seqmax
FROM pg_sequence JOIN members m ON m.objid = seqrelid ORDER BY seqrelid::regclass::text COLLATE "C";

-- every table and sequence is dumped with its data
SELECT c.relname COLLATE "C" AS not_dumped
FROM members m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND m.objid = c.oid
WHERE c.relkind IN ('r', 'S')
  AND NOT EXISTS (SELECT FROM pg_extension e
                  WHERE e.extname = 'lockfence' AND c.oid = ANY (e.extconfig));

-- everything has a comment
SELECT pg_describe_object(classid, objid, objsubid) COLLATE "C" AS no_comment
FROM members
WHERE obj_description(objid, (SELECT relname FROM pg_class WHERE oid = classid)) IS NULL
  AND pg_describe_object(classid, objid, objsubid) NOT LIKE 'type %'
ORDER BY 1;
SELECT a.attrelid::regclass, a.attname
FROM pg_attribute a
WHERE a.attrelid = 'lockfence.fence'::regclass AND a.attnum > 0
  AND col_description(a.attrelid, a.attnum) IS NULL;

-- a function that is volatile cannot sit where PostgreSQL would skip it
CREATE TABLE catalog_t (r text, t bigint);
\set VERBOSITY sqlstate
CREATE INDEX ON catalog_t (fence_check(r, t));
ALTER TABLE catalog_t ADD g boolean GENERATED ALWAYS AS (fence_check(r, t)) STORED;
DROP TABLE catalog_t;
