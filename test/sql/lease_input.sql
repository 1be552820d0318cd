-- Bad input of the lease calls: a specific error, and the lease unchanged.
\set VERBOSITY terse
SELECT token FROM fence_acquire('li:a', 'alice', '1 hour') \gset
SELECT expires_at AS before FROM fence_status('li:a') \gset

-- ttl: 10 ms to 366 days
SELECT status FROM fence_acquire('li:a', 'alice', '0');
SELECT status FROM fence_acquire('li:a', 'alice', '-1 s');
SELECT status FROM fence_acquire('li:a', 'alice', NULL);
SELECT status FROM fence_acquire('li:a', 'alice', '1 us');
SELECT status FROM fence_acquire('li:a', 'alice', '9.999 ms');
SELECT status FROM fence_acquire('li:a', 'alice', '366 days 1 us');
SELECT status FROM fence_acquire('li:a', 'alice', '10000 years');
SELECT status FROM fence_acquire('li:a', 'alice', '-10000 years');
SELECT status FROM fence_acquire('li:a', 'alice', '178000000 years');
SELECT status FROM fence_acquire('li:a', 'alice', '2000000000 days');
SELECT status FROM fence_acquire('li:a', 'alice', '1 year -1 month -400 days');
SELECT status FROM fence_renew('li:a', :token, 'alice', '0');
SELECT status FROM fence_renew('li:a', :token, 'alice', '-1 s');
SELECT status FROM fence_renew('li:a', :token, 'alice', NULL);
SELECT status FROM fence_renew('li:a', :token, 'alice', '1 us');
SELECT status FROM fence_renew('li:a', :token, 'alice', '10000 years');
-- the ends of the range, and units that have to be converted
SELECT status, valid_for FROM fence_acquire('li:ms', 'alice', '10 ms');
SELECT status, valid_for FROM fence_acquire('li:days', 'alice', '366 days');
SELECT status, valid_for FROM fence_acquire('li:month', 'alice', '1 month');
SELECT status, valid_for FROM fence_acquire('li:mixed', 'alice', '1 month -29 days -23:00');

-- wait
SELECT status FROM fence_acquire('li:a', 'alice', '1 hour', NULL);
SELECT status FROM fence_acquire('li:a', 'alice', '1 hour', '-1 ms');
SELECT status FROM fence_acquire('li:a', 'alice', '1 hour', '10000 years');

-- holder
SELECT status FROM fence_acquire('li:a', NULL, '1 hour');
SELECT status FROM fence_acquire('li:a', '', '1 hour');
SELECT status FROM fence_acquire('li:a', repeat('h', 513), '1 hour');
SELECT status FROM fence_acquire('li:512', repeat('h', 512), '1 hour');
SELECT length(holder) FROM fence_status('li:512');
SELECT status FROM fence_renew('li:a', :token, NULL, '1 hour');
SELECT status FROM fence_renew('li:a', :token, '', '1 hour');
SELECT fence_release('li:a', :token, NULL);
SELECT fence_release('li:a', :token, '');
SELECT fence_release('li:a', :token, repeat('h', 513));
SELECT fence_release('li:a', NULL, NULL);
SELECT fence_issue('li:a', NULL);
SELECT fence_issue('li:a', '');
SELECT fence_issue('li:a', repeat('h', 513));

-- resource
SELECT status FROM fence_acquire(NULL, 'alice', '1 hour');
SELECT status FROM fence_acquire('', 'alice', '1 hour');
SELECT status FROM fence_acquire(repeat('r', 513), 'alice', '1 hour');
SELECT status FROM fence_acquire(repeat('r', 100000), 'alice', '1 hour');
SELECT status FROM fence_renew(NULL, 1, 'alice', '1 hour');
SELECT status FROM fence_renew('', 1, 'alice', '1 hour');
SELECT fence_release(NULL, 1, 'alice');
SELECT fence_release('', 1, 'alice');
SELECT fence_issue(NULL, 'alice');
SELECT fence_issue('', 'alice');

-- token
SELECT status FROM fence_renew('li:a', NULL, 'alice', '1 hour');
SELECT status FROM fence_renew('li:a', 0, 'alice', '1 hour');
SELECT status FROM fence_renew('li:a', -1, 'alice', '1 hour');
SELECT fence_release('li:a', 0, 'alice');
SELECT fence_release('li:a', -1, 'alice');

-- authority
SELECT status FROM fence_acquire('li:a', 'alice', '1 hour', '0', 'nowhere');
SELECT status FROM fence_acquire('li:a', 'alice', '1 hour', '0', NULL);
SELECT fence_release('li:a', :token, 'alice', 'nowhere');

-- errors have their codes
\set VERBOSITY sqlstate
SELECT status FROM fence_acquire('li:a', 'alice', '0');
SELECT status FROM fence_acquire('li:a', 'alice', NULL);
SELECT status FROM fence_acquire('li:a', NULL, '1 hour');
SELECT status FROM fence_acquire('li:a', '', '1 hour');
SELECT status FROM fence_acquire('li:a', repeat('h', 513), '1 hour');
SELECT status FROM fence_acquire('li:a', 'alice', '1 hour', '-1 s');
SELECT status FROM fence_renew('li:a', 0, 'alice', '1 hour');

-- and none of this touched the lease
SELECT token = :token AS same_token, holder, live, expires_at = :'before' AS same_end
FROM fence_status('li:a');
