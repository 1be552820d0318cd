-- One measurement: psql -v load=NAME -v variant=NAME -v file=PATH
\set QUIET on
SET search_path = bench, public;
CALL make_table('target', :'variant');
CHECKPOINT;
SELECT clock_timestamp() AS wall, cpu_ns() AS cpu \gset
COPY target FROM :'file';
INSERT INTO result
    SELECT 'copy', :'load', :'variant',
           extract(epoch FROM clock_timestamp() - :'wall') * 1000,
           (cpu_ns() - :'cpu'::bigint) / 1e6;
DROP TABLE target;
