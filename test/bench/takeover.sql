-- Milliseconds that one acquire takes which starts a new generation.
\set QUIET on
SELECT count(*) FROM fence_acquire('warm', 'up', '10 ms') \g /dev/null
SELECT clock_timestamp() AS before \gset
SELECT token > 0 AS granted FROM fence_acquire('stmt:acct:7', 'next', '10 ms') \gset
\if :granted
SELECT round(extract(epoch FROM clock_timestamp() - :'before') * 1000, 2);
\endif
