/*
 * redis_lease.c
 *		A lease in Redis: taken, prolonged and given back by three scripts.
 *
 * Rules: the key is the server's prefix and the resource, the value is the
 * holder, both byte for byte in UTF-8. That is what workers do that use
 * SET key holder NX PX ttl and delete by comparison, so both kinds exclude
 * each other. No script changes a key of another holder, and running one twice
 * for the same holder does no more than running it once.
 *
 * A lease counts from before its request was sent, and ends early by what two
 * clocks may differ: a hundredth and two milliseconds.
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha1.h"
#include "mb/pg_wchar.h"

#include "redis_lease.h"
#include "redis_link.h"

#define CODE_HELD	0
#define CODE_NEW	1
#define CODE_AGAIN	2

/* A key without expiry is never ours: a lease has one. */
static const char take_script[] =
"local holder = redis.call('get', KEYS[1]) "
"if not holder then "
"redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) "
"return {1} "
"end "
"local left = redis.call('pttl', KEYS[1]) "
"if holder == ARGV[1] and left >= 0 then "
"redis.call('pexpire', KEYS[1], ARGV[2]) "
"return {2} "
"end "
"return {0, left, holder}";

static const char prolong_script[] =
"if redis.call('get', KEYS[1]) == ARGV[1] then "
"return redis.call('pexpire', KEYS[1], ARGV[2]) "
"end "
"return 0";

static const char give_back_script[] =
"if redis.call('get', KEYS[1]) == ARGV[1] then "
"return redis.call('del', KEYS[1]) "
"end "
"return 0";

typedef struct Script
{
	const char *text;
	bool		hashed;
	char		hash[SHA1_DIGEST_LENGTH * 2 + 1];
} Script;

static Script take = {take_script};
static Script prolong = {prolong_script};
static Script give_back = {give_back_script};

/* The name that Redis gives a script; false if this server has no SHA-1. */
static bool
hash_script(Script *script)
{
	uint8		digest[SHA1_DIGEST_LENGTH];
	pg_cryptohash_ctx *context;

	if (script->hashed)
		return true;
	context = pg_cryptohash_create(PG_SHA1);
	if (context == NULL)
		return false;
	if (pg_cryptohash_init(context) >= 0 &&
		pg_cryptohash_update(context, (const uint8 *) script->text,
							 strlen(script->text)) >= 0 &&
		pg_cryptohash_final(context, digest, sizeof(digest)) >= 0)
	{
		for (int i = 0; i < SHA1_DIGEST_LENGTH; i++)
			snprintf(script->hash + 2 * i, 3, "%02x", digest[i]);
		script->hashed = true;
	}
	pg_cryptohash_free(context);
	return script->hashed;
}

static FenceString
to_utf8(FenceString text)
{
	char	   *converted = pg_server_to_any(text.data, text.len, PG_UTF8);
	FenceString result = text;

	if (converted != text.data)
		result = redis_word(converted);
	return result;
}

/* What Redis has as the holder, if it can be shown in this database. */
static FenceString
from_utf8(FenceString text)
{
	FenceString none = {NULL, 0};
	FenceString result;
	bool		ascii = true;

	if (text.len > FENCE_MAX_HOLDER)
		return none;
	for (int i = 0; i < text.len; i++)
	{
		if (text.data[i] == '\0')
			return none;
		ascii &= !IS_HIGHBIT_SET(text.data[i]);
	}
	if (!ascii && !(GetDatabaseEncoding() == PG_UTF8 &&
					pg_verify_mbstr(PG_UTF8, text.data, text.len, true)))
		return none;
	result.data = pnstrdup(text.data, text.len);
	result.len = text.len;
	return result;
}

/* redis_lease_begin: of a resource, for a holder */
void
redis_lease_begin(RedisLease *lease, const RedisServer *server,
				  FenceString resource, FenceString holder)
{
	const char *prefix = server->options.key_prefix;
	FenceString key;

	memset(lease, 0, sizeof(RedisLease));
	lease->server = server;
	lease->holder = to_utf8(holder);
	if (prefix == NULL || prefix[0] == '\0')
		lease->key = to_utf8(resource);
	else
	{
		key.len = strlen(prefix) + resource.len;
		key.data = psprintf("%s%.*s", prefix, resource.len, resource.data);
		lease->key = to_utf8(key);
	}
}

/* redis_lease_left: microseconds for which it is still valid */
int64
redis_lease_left(const RedisLease *lease)
{
	return lease->valid_until - redis_clock();
}

static void
raise_unexpected(const RedisLease *lease)
{
	ereport(ERROR,
			(errcode(ERRCODE_LEASE_AUTHORITY_ERROR),
			 errmsg("Redis server \"%s\" sent no valid answer", lease->server->name),
			 errdetail("The answer is of an unexpected type.")));
}

/* Run a script on the key; ttl 0 if it takes none. */
static RedisOutcome
run(RedisLease *lease, Script *script, int64 ttl, RespReply *reply)
{
	RedisAsk	ask;
	RedisOutcome outcome;
	FenceString words[6];
	int			argc = 0;
	int64		ttl_ms = (ttl + 999) / 1000;
	char		ttl_text[24];
	bool		by_hash = hash_script(script);

	words[argc++] = redis_word(by_hash ? "EVALSHA" : "EVAL");
	words[argc++] = redis_word(by_hash ? script->hash : script->text);
	words[argc++] = redis_word("1");
	words[argc++] = lease->key;
	words[argc++] = lease->holder;
	if (ttl > 0)
	{
		snprintf(ttl_text, sizeof(ttl_text), INT64_FORMAT, ttl_ms);
		words[argc++] = redis_word(ttl_text);
	}

	redis_route_begin(&ask, lease->server);
	outcome = redis_route_ask(&ask, argc, words, reply);
	if (outcome == REDIS_ANSWER && reply->value.type == RESP_ERROR)
	{
		words[0] = redis_word("EVAL");
		words[1] = redis_word(script->text);
		outcome = redis_route_ask(&ask, argc, words, reply);
		if (outcome == REDIS_ANSWER && reply->value.type == RESP_ERROR)
			raise_unexpected(lease);
	}
	lease->ours = ask.repeated;
	lease->valid_until = ask.sent_at + ttl - ttl / 100 - 2000;
	lease->reason = outcome == REDIS_ANSWER ? NULL : pstrdup(ask.reason);
	return outcome;
}

static RedisLeaseAnswer
not_answered(RedisOutcome outcome)
{
	return outcome == REDIS_REFUSED ? REDIS_LEASE_REFUSED : REDIS_LEASE_UNKNOWN;
}

/*
 * redis_lease_take
 *
 * Take the lease for ttl microseconds, or for that long again if this holder
 * has it. Raises LF005 for nonsense, and faults of rights and configuration.
 */
RedisLeaseAnswer
redis_lease_take(RedisLease *lease, int64 ttl)
{
	RespReply	reply;
	RedisOutcome outcome = run(lease, &take, ttl, &reply);

	if (outcome != REDIS_ANSWER)
		return not_answered(outcome);
	if (reply.value.type != RESP_ARRAY || reply.count < 1 ||
		reply.items[0].type != RESP_INTEGER)
		raise_unexpected(lease);
	if (reply.items[0].integer == CODE_NEW && reply.count == 1)
	{
		lease->ours = true;
		return REDIS_LEASE_NEW;
	}
	if (reply.items[0].integer == CODE_AGAIN && reply.count == 1)
		return REDIS_LEASE_AGAIN;
	if (reply.items[0].integer != CODE_HELD || reply.count != 3 ||
		reply.items[1].type != RESP_INTEGER || reply.items[2].type != RESP_STRING)
		raise_unexpected(lease);

	lease->ours = false;
	lease->held_by = from_utf8(reply.items[2].text);
	lease->remaining = reply.items[1].integer < 0 ? -1 :
		Min(reply.items[1].integer, PG_INT64_MAX / 1000) * 1000;
	return REDIS_LEASE_HELD;
}

static RedisLeaseAnswer
yes_or_no(RedisLease *lease, RedisOutcome outcome, const RespReply *reply)
{
	if (outcome != REDIS_ANSWER)
		return not_answered(outcome);
	if (reply->value.type != RESP_INTEGER)
		raise_unexpected(lease);
	return reply->value.integer == 1 ? REDIS_LEASE_YES : REDIS_LEASE_NO;
}

/* redis_lease_prolong: let it end ttl microseconds from now, if it is held */
RedisLeaseAnswer
redis_lease_prolong(RedisLease *lease, int64 ttl)
{
	RespReply	reply;
	RedisOutcome outcome = run(lease, &prolong, ttl, &reply);

	return yes_or_no(lease, outcome, &reply);
}

/*
 * redis_lease_give_back
 *
 * Delete the key if it is this holder's. After a repeated request "no" may
 * mean that the first one has done it.
 */
RedisLeaseAnswer
redis_lease_give_back(RedisLease *lease)
{
	RespReply	reply;
	RedisOutcome outcome = run(lease, &give_back, 0, &reply);

	return yes_or_no(lease, outcome, &reply);
}
