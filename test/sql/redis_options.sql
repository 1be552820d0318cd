-- Options of Redis servers and user mappings; who may do what. No Redis runs.
CREATE ROLE regress_redis_owner;
CREATE ROLE regress_redis_worker;
GRANT USAGE ON FOREIGN DATA WRAPPER lockfence_redis TO regress_redis_owner;

-- everything that there is
CREATE SERVER ro_all FOREIGN DATA WRAPPER lockfence_redis OPTIONS (
    host 'redis.example', hostaddr '192.0.2.1', port '6380', database '3',
    key_prefix 'a{b}%s:', sslmode 'disable', connect_timeout '500', timeout '1500',
    keep_connections 'off');
CREATE SERVER ro_path FOREIGN DATA WRAPPER lockfence_redis OPTIONS (
    unix_socket_path '/nowhere/redis.sock');
CREATE SERVER ro_sentinel FOREIGN DATA WRAPPER lockfence_redis OPTIONS (
    sentinels 'localhost, [::1]:26380,192.0.2.2:26381', sentinel_master 'mymaster');
CREATE SERVER ro_cluster FOREIGN DATA WRAPPER lockfence_redis OPTIONS (cluster 'on');
CREATE SERVER ro FOREIGN DATA WRAPPER lockfence_redis OPTIONS (host '127.0.0.1', port '1');
CREATE USER MAPPING FOR PUBLIC SERVER ro_all OPTIONS ("user" 'u', password 'p', password_required 'off');

-- unknown names
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (hots 'x');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (password 'secret');
CREATE USER MAPPING FOR PUBLIC SERVER ro OPTIONS (host 'x');
ALTER FOREIGN DATA WRAPPER lockfence_redis OPTIONS (ADD host 'x');
CREATE FOREIGN TABLE ro_table (a int) SERVER ro OPTIONS (key 'x');

-- values
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (port '0');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (port 'redis');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (database '16384');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (timeout '0');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (connect_timeout '60001');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (keep_connections 'maybe');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sslmode 'require');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (hostaddr 'redis.example');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (host 'http://redis.example');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (host '');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (unix_socket_path 'redis.sock');
SELECT format('CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (unix_socket_path %L)', '/' || repeat('x', 107)) \gexec
SELECT format('CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (key_prefix %L)', repeat('x', 257)) \gexec
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sentinels 'a:0', sentinel_master 'm');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sentinels 'a:1,:2', sentinel_master 'm');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sentinels ', ', sentinel_master 'm');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (port '1', port '2');
CREATE USER MAPPING FOR PUBLIC SERVER ro OPTIONS (password '');

-- what does not go together
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (unix_socket_path '/x', host 'a');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (unix_socket_path '/x', sslmode 'verify-full');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sentinels 'a');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sentinel_master 'm');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sentinels 'a', sentinel_master 'm', host 'b');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sentinels 'a', sentinel_master 'm', cluster 'on');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (cluster 'on', database '1');
CREATE USER MAPPING FOR PUBLIC SERVER ro OPTIONS ("user" 'u');
ALTER SERVER ro_path OPTIONS (ADD hostaddr '127.0.0.1');

-- what only superusers can set
SET ROLE regress_redis_owner;
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (unix_socket_path '/x');
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis OPTIONS (sentinels 'a', sentinel_master 'm');
CREATE SERVER ro_owned FOREIGN DATA WRAPPER lockfence_redis OPTIONS (host '127.0.0.1', port '1');
CREATE USER MAPPING FOR PUBLIC SERVER ro_owned OPTIONS (password_required 'off');
CREATE USER MAPPING FOR PUBLIC SERVER ro_owned OPTIONS (password_required 'on');
RESET ROLE;
SET ROLE regress_redis_worker;
CREATE SERVER ro_bad FOREIGN DATA WRAPPER lockfence_redis;
RESET ROLE;

-- names, rights and passwords are checked at the call
SELECT status FROM fence_acquire('ro:a', 'alice', '1 s', authority => 'nowhere');
SELECT fence_release('ro:a', NULL, 'alice', 'nowhere');
SELECT * FROM fence_redis_check('nowhere');
SELECT * FROM fence_redis_check(NULL);
-- no user mapping, in words that differ between versions
\set VERBOSITY sqlstate
SELECT status FROM fence_acquire('ro:a', 'alice', '1 s', authority => 'ro');
\set VERBOSITY default
CREATE FOREIGN DATA WRAPPER ro_other;
CREATE SERVER ro_other FOREIGN DATA WRAPPER ro_other;
SELECT status FROM fence_acquire('ro:a', 'alice', '1 s', authority => 'ro_other');
SELECT fence_grant('regress_redis_worker');
GRANT USAGE ON SCHEMA public TO regress_redis_worker;
SET ROLE regress_redis_worker;
SELECT status FROM fence_acquire('ro:a', 'alice', '1 s', authority => 'ro_owned');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER ro_owned TO regress_redis_worker;
SET ROLE regress_redis_worker;
SELECT status FROM fence_acquire('ro:a', 'alice', '1 s', authority => 'ro_owned');
SELECT fence_release('ro:a', NULL, 'alice', 'ro_owned');
RESET ROLE;

-- a foreign table leads nowhere
CREATE FOREIGN TABLE ro_table (a int) SERVER ro;
SELECT * FROM ro_table;

-- a read-only transaction is told so first
BEGIN READ ONLY;
SELECT status FROM fence_acquire('ro:a', 'alice', '1 s', authority => 'nowhere');
ROLLBACK;

SET client_min_messages = warning;
DROP SERVER ro_all, ro_path, ro_sentinel, ro_cluster, ro, ro_owned, ro_other CASCADE;
DROP FOREIGN DATA WRAPPER ro_other;
DROP OWNED BY regress_redis_owner, regress_redis_worker;
DROP ROLE regress_redis_owner, regress_redis_worker;
