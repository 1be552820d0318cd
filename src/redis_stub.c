/*
 * redis_stub.c
 *		In place of redis_fence.c and redis_check.c in a build without hiredis.
 *
 * Rule: names, rights and options are checked as ever, so that servers can be
 * created, dumped and restored; only what would talk to Redis raises 0A000.
 */
#include "postgres.h"

#include "fmgr.h"

#include "redis_fence.h"
#include "redis_server.h"

PG_FUNCTION_INFO_V1(fence_redis_check);

static void
reject(const char *authority)
{
	(void) redis_server_get(authority);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("leases of Redis are not supported by this build"),
			 errhint("Build lockfence where pkg-config finds hiredis.")));
}

/* redis_fence_acquire: raises, as do those below that would talk to Redis */
RedisFenceStatus
redis_fence_acquire(const FenceClaim *claim, FenceWait *wait, RedisFence *fence)
{
	reject(claim->authority);
	return REDIS_FENCE_REFUSED;
}

RedisFenceStatus
redis_fence_renew(const char *authority, FenceString resource, FenceString holder,
				  int64 ttl, RedisTerm *term)
{
	reject(authority);
	return REDIS_FENCE_UNKNOWN;
}

RedisFenceStatus
redis_fence_release(const char *authority, FenceString resource, FenceString holder)
{
	reject(authority);
	return REDIS_FENCE_UNKNOWN;
}

/* redis_fence_left: never called, since no term can be had */
int64
redis_fence_left(const RedisTerm *term)
{
	return 0;
}

/* fence_redis_check(server name) */
Datum
fence_redis_check(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("server must not be null")));
	reject(NameStr(*PG_GETARG_NAME(0)));
	PG_RETURN_NULL();
}
