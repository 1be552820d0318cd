/*
 * redis_fence.c
 *		Joins a lease of Redis with a fence of PostgreSQL.
 *
 * Rules: Redis says who holds the lease; PostgreSQL mints the token and raises
 * the fence. Redis is never asked while this transaction has a fence locked,
 * so a slow Redis keeps nobody from a fence. After Redis has granted, the
 * fence is locked, without waiting for stale holders, and only then is the
 * lease looked at again: a caller that was stopped in between must not fence
 * the holder that came after it. What cannot be used is given back. If an
 * error comes in between, the lease stays until it expires, and the same
 * holder can ask again.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "debug_point.h"
#include "fence_generation.h"
#include "fence_hold.h"
#include "fence_stats.h"
#include "redis_fence.h"
#include "redis_lease.h"
#include "redis_link.h"

/* The server, unless this transaction must not wait for it. */
static const RedisServer *
get_server(const char *authority)
{
	const RedisServer *server = redis_server_get(authority);

	if (fence_hold_any())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("cannot ask Redis server \"%s\" while this transaction has a fence locked",
						authority),
				 errdetail("It has acquired, raised, renewed or released before."),
				 errhint("Use a transaction of its own for each lease of Redis.")));
	return server;
}

/*
 * Errors of Redis are counted beforehand, so that those which are raised are
 * counted, too, and taken back when there is a proper answer.
 */
static RedisLease *
expect_error(RedisLease *lease)
{
	fence_count(FENCE_COUNT_REDIS_ERRORS);
	return lease;
}

static RedisLeaseAnswer
counted(RedisLeaseAnswer answer)
{
	if (answer != REDIS_LEASE_REFUSED && answer != REDIS_LEASE_UNKNOWN)
		fence_stats_pending[FENCE_COUNT_REDIS_ERRORS]--;
	return answer;
}

/*
 * Is there a live lease on another authority? Then Redis need not be asked.
 * Raises 55000 for an external resource.
 */
static bool
held_elsewhere(FenceTable *table, const FenceClaim *claim, FenceGrant *grant)
{
	TimestampTz now;

	if (!fence_table_read(table, claim->resource, &grant->row))
		return false;
	fence_generation_refuse_external(claim->resource, &grant->row);
	now = GetCurrentTimestamp();
	if (!fence_row_live(&grant->row, now) ||
		fence_row_leased_by(&grant->row, claim->authority))
		return false;
	fence_obstacle_elsewhere(&grant->obstacle, grant->row.expires_at - now);
	return true;
}

/*
 * One look at the fence of a lease that Redis has granted, which has just been
 * read: say how the generation begins, and lock it. As fence_take_look() does,
 * but that a lease of this authority stands in nobody's way: Redis has decided
 * about it.
 */
static FenceTaken
lock_fence(FenceTable *table, const FenceClaim *claim, bool again, FenceGrant *grant)
{
	FenceRow   *row = &grant->row;

	grant->how = FENCE_NEW;
	if (!row->found)
	{
		if (!TransactionIdIsValid(row->inserter))
			return fence_table_lock_absent(table, claim->resource) ?
				FENCE_GRANTED : FENCE_LOOK_AGAIN;
		fence_obstacle_lock(&grant->obstacle, table, row);
		return FENCE_HELD;
	}

	if (again && fence_row_live(row, GetCurrentTimestamp()) &&
		row->holder.data != NULL && fence_string_equal(row->holder, claim->holder))
		grant->how = FENCE_AGAIN;
	else if (!row->released)
		grant->how = FENCE_TAKEOVER;
	return fence_take_lock(table, grant);
}

static RedisFenceStatus
held(RedisFence *fence, FenceString held_by, int64 retry_after)
{
	fence->held_by = held_by;
	fence->retry_after = retry_after;
	fence->reason = fence->grant.obstacle.reason;
	return REDIS_FENCE_HELD;
}

/*
 * Give back what this call has taken; what the holder had before stays. The
 * status is then "otherwise", unless the lease may be there still.
 */
static RedisFenceStatus
give_back(RedisLease *lease, RedisFenceStatus otherwise, RedisFence *fence)
{
	const char *reason = fence->reason;

	if (!lease->ours)
		return otherwise;
	switch (counted(redis_lease_give_back(expect_error(lease))))
	{
		case REDIS_LEASE_REFUSED:
		case REDIS_LEASE_UNKNOWN:
			fence->reason = psprintf("%s; could not give the lease back: %s",
									 reason, lease->reason);
			return REDIS_FENCE_UNKNOWN;
		default:
			return otherwise;
	}
}

/*
 * Mint the token of a lease that Redis has granted. What stands in the way is
 * waited for as long as the caller allows and the lease lasts.
 */
static RedisFenceStatus
raise_fence(FenceTable *table, const FenceClaim *claim, FenceWait *wait,
			const RedisLease *lease, bool again, RedisFence *fence)
{
	FenceGrant *grant = &fence->grant;
	FenceClaim	rest = *claim;
	FenceTaken	taken;

	do
	{
		CHECK_FOR_INTERRUPTS();
		if (redis_lease_left(lease) <= 0)
		{
			fence->reason = "the lease ended before its token was minted";
			return REDIS_FENCE_REFUSED;
		}
		if (held_elsewhere(table, claim, grant))
			return held(fence, grant->row.holder, grant->obstacle.retry_after);
		taken = lock_fence(table, claim, again, grant);
	} while (taken == FENCE_LOOK_AGAIN ||
			 (taken == FENCE_HELD && fence_wait_more(wait, &grant->obstacle)));
	if (taken == FENCE_HELD)
	{
		fence->reason = grant->obstacle.reason;
		return REDIS_FENCE_REFUSED;
	}

	DEBUG_POINT("redis-locked");
	rest.ttl = redis_lease_left(lease);
	if (rest.ttl <= 0)
	{
		if (!grant->row.found)
			fence_table_unlock_absent(table, claim->resource);
		fence->reason = "the lease ended before its token was minted";
		return REDIS_FENCE_REFUSED;
	}
	if (grant->how == FENCE_AGAIN)
		(void) fence_take_write(table, &rest, grant);
	else
		fence_generation_start(table, claim->resource, &grant->row, claim->holder,
							   claim->authority, rest.ttl);
	fence->valid_for = Max(redis_lease_left(lease), 0);
	return REDIS_FENCE_GRANTED;
}

/* What Redis has answered, if it has granted nothing. */
static RedisFenceStatus
not_granted(RedisLeaseAnswer answer, const RedisLease *lease, RedisFence *fence)
{
	switch (answer)
	{
		case REDIS_LEASE_HELD:
			fence_obstacle_lease(&fence->grant.obstacle, lease->remaining);
			if (lease->remaining < 0)
				fence->grant.obstacle.reason = "the key in Redis has no expiry";
			return held(fence, lease->held_by, lease->remaining);
		case REDIS_LEASE_REFUSED:
			fence->reason = lease->reason;
			return REDIS_FENCE_REFUSED;
		default:
			fence->reason = lease->reason;
			return REDIS_FENCE_UNKNOWN;
	}
}

/* One look: ask Redis, then raise the fence. */
static RedisFenceStatus
take(const RedisServer *server, const FenceClaim *claim, FenceWait *wait,
	 RedisFence *fence)
{
	FenceTable *table;
	FenceGrant *grant = &fence->grant;
	RedisFenceStatus status;
	RedisLease	lease;
	RedisLeaseAnswer answer;
	bool		elsewhere;

	table = fence_table_open(RowExclusiveLock);
	elsewhere = held_elsewhere(table, claim, grant);
	fence_table_close(table);
	if (elsewhere)
		return held(fence, grant->row.holder, grant->obstacle.retry_after);

	redis_lease_begin(&lease, server, claim->resource, claim->holder);
	answer = counted(redis_lease_take(expect_error(&lease), claim->ttl));
	if (answer != REDIS_LEASE_NEW && answer != REDIS_LEASE_AGAIN)
		return not_granted(answer, &lease, fence);
	DEBUG_POINT("redis-granted");

	table = fence_table_open(RowExclusiveLock);
	status = raise_fence(table, claim, wait, &lease, answer == REDIS_LEASE_AGAIN, fence);
	fence_table_close(table);

	/*
	 * With the fence locked Redis is not asked, not even for this; what is
	 * left of the lease then is the hundredth that it ended early.
	 */
	if (status != REDIS_FENCE_GRANTED && !fence_hold_any())
		status = give_back(&lease, status, fence);
	return status;
}

/*
 * redis_fence_acquire
 *
 * Lease and token of one resource, waiting as long as the caller allows for a
 * lease that is held. Raises what redis_server_get() and fence_take_write()
 * raise, 25001 if this transaction has a fence locked.
 */
RedisFenceStatus
redis_fence_acquire(const FenceClaim *claim, FenceWait *wait, RedisFence *fence)
{
	const RedisServer *server = get_server(claim->authority);
	RedisFenceStatus status;

	memset(fence, 0, sizeof(RedisFence));
	do
	{
		CHECK_FOR_INTERRUPTS();
		status = take(server, claim, wait, fence);
	} while (status == REDIS_FENCE_HELD &&
			 fence_wait_more(wait, &fence->grant.obstacle));
	return status;
}

/*
 * redis_fence_renew
 *
 * Prolong the lease in Redis; the caller then writes the fence's row. If Redis
 * cannot be asked, the lease ends when it would have ended.
 */
RedisFenceStatus
redis_fence_renew(const char *authority, FenceString resource, FenceString holder,
				  int64 ttl, RedisTerm *term)
{
	RedisLease	lease;

	redis_lease_begin(&lease, get_server(authority), resource, holder);
	switch (counted(redis_lease_prolong(expect_error(&lease), ttl)))
	{
		case REDIS_LEASE_YES:
			term->valid_until = lease.valid_until;
			return redis_fence_left(term) > 0 ? REDIS_FENCE_GRANTED : REDIS_FENCE_LOST;
		case REDIS_LEASE_NO:
			return REDIS_FENCE_LOST;
		default:
			return REDIS_FENCE_UNKNOWN;
	}
}

/* redis_fence_release: delete the key, if it is this holder's */
RedisFenceStatus
redis_fence_release(const char *authority, FenceString resource, FenceString holder)
{
	RedisLease	lease;

	redis_lease_begin(&lease, get_server(authority), resource, holder);
	switch (counted(redis_lease_give_back(expect_error(&lease))))
	{
		case REDIS_LEASE_YES:
			return REDIS_FENCE_GRANTED;
		case REDIS_LEASE_NO:
			return REDIS_FENCE_LOST;
		default:
			return REDIS_FENCE_UNKNOWN;
	}
}

/* redis_fence_left: microseconds for which a renewed lease is valid from now */
int64
redis_fence_left(const RedisTerm *term)
{
	return term->valid_until - redis_clock();
}
