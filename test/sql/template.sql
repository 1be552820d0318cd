-- From a row to its resource: column types, braces, NULL, lengths; fence_resource
-- says the same as the trigger, whatever the session's settings.
--
-- Mutants that must make this file fail (src/fence_key.c):
--   char(n) with its padding; dates by DateStyle; no limit of 512 bytes;
--   an empty resource passes; toasted values are not fetched

CREATE DOMAIN template_id AS bigint CHECK (VALUE > 0);
CREATE DOMAIN template_code AS char(5);
CREATE TABLE template_types (
    i2 smallint, i4 integer, i8 bigint, t text, vc varchar(20), c char(8),
    n name, u uuid, b boolean, d date, di template_id, dc template_code,
    tok bigint);
SELECT fence_protect('template_types',
    'tpl:{i2}|{i4}|{i8}|{t}|{vc}|{c}|{n}|{u}|{b}|{d}|{di}|{dc}', 'tok');
SET datestyle = 'German';
INSERT INTO template_types VALUES
    (1, 2, 3, 'text', 'varchar', 'char', 'name',
     'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', true, '2024-02-29', 7, 'ab', 1),
    (-32768, -2147483648, -9223372036854775808, '', ' v ', '  c', '',
     '00000000-0000-0000-0000-000000000000', false, 'infinity', 1, '', 1),
    (32767, 2147483647, 9223372036854775807, 'é{}', 'a|b', 'full8888', 'N"',
     'ffffffff-ffff-ffff-ffff-ffffffffffff', true, '0044-03-15 BC', 9, 'abcde', 1),
    (0, 0, 0, E'tab\there', 'x', 'x', 'x',
     '00000000-0000-0000-0000-000000000001', true, '-infinity', 9, 'x', 1),
    (0, 0, 0, 'y', 'x', 'x', 'x',
     '00000000-0000-0000-0000-000000000001', true, '1999-12-31', 9, 'x', 1);
SELECT resource FROM lockfence.fence WHERE resource LIKE 'tpl:%' ORDER BY resource;
SELECT count(*) AS same
FROM template_types r JOIN lockfence.fence f
    ON f.resource = fence_resource('template_types', to_jsonb(r));
SELECT fence_resource('template_types', to_jsonb(r) || '{"d": "2024-03-01"}')
FROM template_types r WHERE i4 = 2;
RESET datestyle;

-- Each value of one column's type is kept apart from the next row's.
CREATE TABLE template_apart (t text, u uuid, tok bigint);
SELECT fence_protect('template_apart', 'apart:{t}:{u}', 'tok');
INSERT INTO template_apart
SELECT t, u, 1 FROM
    (VALUES ('a'), ('ab'), ('abc'), ('ab '), (' ab'), ('')) v (t),
    (VALUES ('00000000-0000-0000-0000-000000000001'::uuid),
            ('00000000-0000-0000-0000-000000000002')) w (u);
SELECT count(*) FROM lockfence.fence WHERE resource LIKE 'apart:%';

-- Column names are taken literally; braces are doubled.
CREATE TABLE template_names (id int, "Weird Col" text, "a""b" text, "é" text, tok bigint);
SELECT fence_protect('template_names', '{{{Weird Col}}}:{a"b}{é}{{}}''\', 'tok');
SELECT resource FROM lockfence.protected_tables
WHERE target = 'template_names'::regclass;
SELECT fence_resource('template_names', '{"Weird Col": "w", "a\"b": 5, "é": true}');
INSERT INTO template_names VALUES (1, 'w', 'x', 'y', 1);
SELECT resource FROM lockfence.fence WHERE resource LIKE '{w}%';
-- A constant template makes one resource of the whole table.
SELECT fence_protect('template_names', 'constant', 'tok');
INSERT INTO template_names VALUES (1, 'a', 'x', 'y', 3), (1, NULL, 'x', 'y', 3);
SELECT resource, token FROM lockfence.fence WHERE resource = 'constant';
SELECT fence_resource('template_names', '{}');
\set VERBOSITY sqlstate
INSERT INTO template_names VALUES (1, 'b', 'x', 'y', 2);
\set VERBOSITY default

-- NULL, the empty resource, and lengths.
CREATE TABLE template_text (k text, tok bigint, filler text);
ALTER TABLE template_text ALTER k SET STORAGE EXTERNAL,
    ALTER filler SET STORAGE PLAIN;
SELECT fence_protect('template_text', '{k}', 'tok');
INSERT INTO template_text VALUES (NULL, 1);
INSERT INTO template_text VALUES ('', 1);
INSERT INTO template_text VALUES ('t:' || repeat('x', 511), 1);
INSERT INTO template_text VALUES (repeat('t', 100000), 1);
INSERT INTO template_text VALUES ('t:' || repeat('é', 256), 1);
INSERT INTO template_text VALUES ('t:' || repeat('é', 255), 1);
INSERT INTO template_text VALUES ('t:' || repeat('x', 510), 1);
SELECT octet_length(resource), token FROM lockfence.fence
WHERE resource LIKE 't:%' ORDER BY resource;

-- Toasted keys: stored outside of the row, and compressed.
INSERT INTO template_text VALUES
    ('t:' || repeat('o', 500), 3, repeat('f', 3000)),
    ('t:' || repeat('o', 500), 3, repeat('f', 3000));
ALTER TABLE template_text ALTER k SET STORAGE EXTENDED;
INSERT INTO template_text VALUES ('t:' || repeat('c', 500), 3, repeat('f', 3000));
SELECT substr(k, 1, 3) AS k, pg_column_compression(k) IS NOT NULL AS compressed
FROM template_text WHERE filler IS NOT NULL ORDER BY k;
SELECT pg_relation_size(reltoastrelid) > 0 AS some_outside
FROM pg_class WHERE oid = 'template_text'::regclass;
\set VERBOSITY sqlstate
DELETE FROM template_text WHERE filler IS NOT NULL;
UPDATE template_text SET tok = 2 WHERE k LIKE 't:o%';
UPDATE template_text SET tok = 2 WHERE k LIKE 't:c%';
\set VERBOSITY default
UPDATE template_text SET tok = 3 WHERE filler IS NOT NULL;
BEGIN;
SELECT fence_check('t:' || repeat('o', 500), 3);
INSERT INTO template_text SELECT k, NULL, filler FROM template_text WHERE k LIKE 't:o%';
SELECT fence_check('t:' || repeat('c', 500), 3);
DELETE FROM template_text WHERE filler IS NOT NULL;
COMMIT;

-- fence_resource: what it refuses.
SELECT fence_resource('template_text', '{"k": "x"}');
SELECT fence_resource('template_text', '{"K": "x"}');
SELECT fence_resource('template_text', '{"k": null}');
SELECT fence_resource('template_text', '{"k": ["x"]}');
SELECT fence_resource('template_text', '{"k": {"x": 1}}');
SELECT fence_resource('template_text', '{"k": ""}');
SELECT fence_resource('template_text', '["k"]');
SELECT fence_resource('template_text', '"k"');
SELECT fence_resource('template_text', NULL);
SELECT fence_resource(NULL, '{"k": "x"}');
SELECT fence_resource('template_text', jsonb_build_object('k', repeat('x', 513)));
SELECT fence_resource('pg_class', '{}');
\set VERBOSITY sqlstate
SELECT fence_resource('template_types', to_jsonb(r) || '{"di": -1}')
FROM template_types r WHERE i4 = 2;
SELECT fence_resource('template_types', to_jsonb(r) || '{"i4": 1.5}')
FROM template_types r WHERE i4 = 2;
SELECT fence_resource('template_types', to_jsonb(r) || '{"vc": "more than twenty characters"}')
FROM template_types r WHERE i4 = 2;
SELECT fence_resource('template_types', to_jsonb(r) || '{"d": "01/02/2024"}')
FROM template_types r WHERE i4 = 2;
\set VERBOSITY default
SHOW datestyle;

DROP TABLE template_types, template_apart, template_names, template_text;
DROP DOMAIN template_id;
DROP DOMAIN template_code;
DELETE FROM lockfence.fence
WHERE resource ~ '^(tpl:|apart:|t:|constant$|[{]w[}])';
