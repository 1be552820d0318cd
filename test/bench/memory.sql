-- What the admissions and the commit check of one transaction take.
\set QUIET on
\pset tuples_only on
\pset format unaligned
CREATE FUNCTION pg_temp.peak() RETURNS bigint LANGUAGE sql AS $$
    SELECT substring(pg_read_file('/proc/self/status', 0, 10000) FROM 'VmPeak:\s+(\d+)')::bigint / 1024 $$;
SELECT count(fence_check('res:' || g, g)) FROM generate_series(1, 1000) g \g /dev/null
SELECT pg_temp.peak() AS before \gset
BEGIN;
SELECT count(fence_check('res:' || g, g)) FROM generate_series(1, 1000000) g \g /dev/null
SELECT sum(total_bytes) / 1024 / 1024 AS admissions FROM pg_backend_memory_contexts
    WHERE name LIKE 'lockfence%' \gset
SELECT '  admissions: ' || :'admissions'::numeric(10, 1) || ' MB, ' ||
       round(:'admissions'::numeric * 1048576 / 1000000) || ' bytes for each';
COMMIT;
SELECT '  the process at its peak, commit check included: ' || (pg_temp.peak() - :before) || ' MB more';
