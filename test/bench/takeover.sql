-- How long one acquire takes that starts a new generation.
\set QUIET on
SELECT count(*) FROM fence_acquire('warm', 'up', '10 ms') \g /dev/null
SELECT clock_timestamp() AS before \gset
SELECT status, how FROM fence_acquire('stmt:acct:7', 'next', '10 ms') \gset
SELECT '  stale writer open: ' || :'title' || '   ' || :'status' || ', ' || :'how' || '   ' ||
       round(extract(epoch FROM clock_timestamp() - :'before') * 1000, 2);
