/*
 * fence_acquire.c
 *		SQL entries: fence_acquire, lease and token in one call, and
 *		fence_acquire_all, several leases with one token.
 *
 * Rules: nothing is locked while these wait, and nothing is locked or written
 * if a look tells that a resource cannot be had. Of several resources all or
 * none are taken, in byte order whatever order the caller names them in, each
 * try in a subtransaction of its own, so that one that meets an obstacle
 * half-way takes its locks back.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "fence_entry.h"
#include "fence_generation.h"
#include "fence_param.h"
#include "fence_result.h"
#include "fence_stats.h"
#include "fence_subxact.h"
#include "fence_take.h"
#include "fence_wakeup.h"
#include "redis_fence.h"

PG_FUNCTION_INFO_V1(fence_acquire);
PG_FUNCTION_INFO_V1(fence_acquire_all);

/* Columns that both return, in this order. */
enum
{
	STATUS, TOKEN, HOW, HELD_BY, EXPIRES_AT, VALID_FOR, RETRY_AFTER, REASON,
	COLUMNS,
	RESOURCE = COLUMNS,			/* fence_acquire_all only */
	ALL_COLUMNS
};

static void
set_granted(FenceResult *result, const FenceRow *row, FenceHow how, int64 ttl)
{
	static const char *const words[] = {
		[FENCE_NEW] = "new",
		[FENCE_TAKEOVER] = "takeover",
		[FENCE_AGAIN] = "again",
	};

	fence_count(FENCE_COUNT_GRANTED_NEW + how);
	fence_result_cstring(result, STATUS, "granted");
	fence_result_int64(result, TOKEN, row->token);
	fence_result_cstring(result, HOW, words[how]);
	fence_result_time(result, EXPIRES_AT, row->expires_at);
	fence_result_usecs(result, VALID_FOR, ttl);
}

static void
set_held(FenceResult *result, const FenceGrant *grant)
{
	fence_count(FENCE_COUNT_HELD);
	fence_result_cstring(result, STATUS, "held");
	if (grant->row.found)
		fence_result_string(result, HELD_BY, grant->row.holder);
	fence_result_usecs(result, RETRY_AFTER, grant->obstacle.retry_after);
	fence_result_cstring(result, REASON, grant->obstacle.reason);
}

/* The whole call, where a Redis server grants the lease. */
static void
acquire_from_redis(FenceResult *result, const FenceClaim *claim, int64 limit)
{
	FenceWait	wait;
	RedisFence	fence;

	/* What happens in Redis wakes nobody here. */
	fence_wait_begin(&wait, limit, NULL);
	switch (redis_fence_acquire(claim, &wait, &fence))
	{
		case REDIS_FENCE_GRANTED:
			fence.grant.row.expires_at = GetCurrentTimestamp() + fence.valid_for;
			set_granted(result, &fence.grant.row, fence.grant.how, fence.valid_for);
			return;
		case REDIS_FENCE_HELD:
			fence_count(FENCE_COUNT_HELD);
			fence_result_cstring(result, STATUS, "held");
			fence_result_string(result, HELD_BY, fence.held_by);
			if (fence.retry_after >= 0)
				fence_result_usecs(result, RETRY_AFTER, fence.retry_after);
			break;
		case REDIS_FENCE_UNKNOWN:
			fence_count(FENCE_COUNT_UNKNOWN);
			fence_result_cstring(result, STATUS, "unknown");
			break;
		default:
			fence_count(FENCE_COUNT_REFUSED);
			fence_result_cstring(result, STATUS, "refused");
			break;
	}
	fence_result_cstring(result, REASON, fence.reason);
}

/*
 * fence_acquire(resource text, holder text, ttl interval, wait interval,
 *				 authority name)
 *
 * One row: granted, or held with the reason once the wait is over; from Redis
 * also refused or unknown. Raises 25006 where nothing can be written, what
 * fence_take_look(), fence_take_write() and redis_fence_acquire() raise, and
 * the sequence's error when there are no tokens any more.
 */
Datum
fence_acquire(PG_FUNCTION_ARGS)
{
	FenceClaim	claim = {0};
	FenceTable *table;
	FenceWait	wait;
	int64		limit;
	FenceGrant	grant;
	FenceTaken	taken;
	FenceResult result;

	claim.resource = fence_param_resource(fcinfo, 0);
	claim.holder = fence_param_holder(fcinfo, 1);
	claim.ttl = fence_param_ttl(fcinfo, 2);
	limit = fence_param_wait(fcinfo, 3);
	claim.authority = fence_param_authority(fcinfo, 4, false);
	fence_entry_writes("fence_acquire()");
	if (strcmp(claim.authority, FENCE_AUTHORITY_POSTGRES) != 0)
	{
		fence_result_begin(&result, fcinfo, COLUMNS);
		acquire_from_redis(&result, &claim, limit);
		return fence_result_end(&result);
	}
	fence_wait_begin(&wait, limit, fence_wakeup_channel(claim.resource));

	table = fence_table_open(RowExclusiveLock);
	do
	{
		CHECK_FOR_INTERRUPTS();
		taken = fence_take_look(table, &claim, &grant);
		if (taken == FENCE_GRANTED)
			taken = fence_take_lock(table, &grant);
		if (taken == FENCE_GRANTED)
			taken = fence_take_write(table, &claim, &grant);
	} while (taken == FENCE_LOOK_AGAIN ||
			 (taken == FENCE_HELD && fence_wait_more(&wait, &grant.obstacle)));
	fence_wait_end(&wait);
	fence_table_close(table);

	fence_result_begin(&result, fcinfo, COLUMNS);
	if (taken == FENCE_GRANTED)
		set_granted(&result, &grant.row, grant.how, claim.ttl);
	else
		set_held(&result, &grant);
	return fence_result_end(&result);
}

/*
 * How all resources together are granted, when each can be had. The holder's
 * own lease on all of them is confirmed if it is one. On some of them only, or
 * with different tokens, it stands in the way at *at: a token for all would
 * end what the holder does with those it has.
 */
static FenceTaken
decide_together(FenceGrant *grants, int count, FenceHow *how, int *at)
{
	*how = FENCE_NEW;
	for (int i = 0; i < count; i++)
	{
		if (grants[i].how == FENCE_AGAIN)
		{
			*how = FENCE_AGAIN;
			*at = i;
			break;
		}
		if (grants[i].how == FENCE_TAKEOVER)
			*how = FENCE_TAKEOVER;
	}
	if (*how == FENCE_AGAIN)
		for (int i = 0; i < count; i++)
			if (grants[i].how != FENCE_AGAIN ||
				grants[i].row.token != grants[*at].row.token)
			{
				fence_obstacle_partly(&grants[*at].obstacle);
				return FENCE_HELD;
			}
	return FENCE_GRANTED;
}

/* Look at every resource; the one that stands in the way is at *at. */
static FenceTaken
look_at_each(FenceClaim claim, const FenceString *resources, int count,
			 FenceGrant *grants, FenceHow *how, int *at)
{
	FenceTable *table = fence_table_open(RowExclusiveLock);
	FenceTaken	taken = FENCE_GRANTED;

	for (int i = 0; i < count && taken == FENCE_GRANTED; i++)
	{
		CHECK_FOR_INTERRUPTS();
		claim.resource = resources[i];
		*at = i;
		taken = fence_take_look(table, &claim, &grants[i]);
	}
	if (taken == FENCE_GRANTED)
		taken = decide_together(grants, count, how, at);
	fence_table_close(table);
	return taken;
}

/* One try to take every resource, as each was looked at. */
typedef struct Attempt
{
	FenceClaim	claim;
	const FenceString *resources;
	int			count;
	FenceGrant *grants;
	int			at;				/* which one stands in the way */
	FenceTaken	taken;
} Attempt;

/* One token for all resources, those that have rows being locked. */
static int64
mint_for_all(const Attempt *attempt)
{
	const FenceRow **rows = palloc(sizeof(FenceRow *) * attempt->count);

	for (int i = 0; i < attempt->count; i++)
		rows[i] = &attempt->grants[i].row;
	return fence_generation_mint(attempt->resources, rows, attempt->count);
}

/*
 * Take every resource, once all rows are locked. First uses are locked one by
 * one, since a lock of the server's lock table each might be too many. True if
 * all are granted.
 */
static bool
take_each(void *arg)
{
	Attempt    *attempt = arg;
	FenceGrant *grants = attempt->grants;
	FenceTable *table = fence_table_open(RowExclusiveLock);

	attempt->taken = FENCE_GRANTED;
	for (int i = 0; i < attempt->count && attempt->taken == FENCE_GRANTED; i++)
	{
		CHECK_FOR_INTERRUPTS();
		attempt->at = i;
		attempt->taken = fence_take_lock(table, &grants[i]);
	}
	if (attempt->taken == FENCE_GRANTED && grants[0].how != FENCE_AGAIN)
		attempt->claim.token = mint_for_all(attempt);
	for (int i = 0; i < attempt->count && attempt->taken == FENCE_GRANTED; i++)
	{
		attempt->claim.resource = attempt->resources[i];
		attempt->taken = fence_take_write(table, &attempt->claim, &grants[i]);
	}
	fence_table_close(table);
	return attempt->taken == FENCE_GRANTED;
}

/* take_each() in a subtransaction, which is rolled back unless it is granted. */
static FenceTaken
try_all(const FenceClaim *claim, const FenceString *resources, int count,
		FenceGrant *grants, int *at)
{
	Attempt		attempt;
	ErrorData  *error;

	attempt.claim = *claim;
	attempt.resources = resources;
	attempt.count = count;
	attempt.grants = grants;
	error = fence_subxact_run(take_each, &attempt);
	if (error != NULL)
		ReThrowError(error);
	*at = attempt.at;
	return attempt.taken;
}

/*
 * fence_acquire_all(resources text[], holder text, ttl interval, wait interval)
 *
 * One row as of fence_acquire, with the resource that was held. Raises what
 * fence_acquire raises.
 */
Datum
fence_acquire_all(PG_FUNCTION_ARGS)
{
	FenceClaim	claim = {0};
	FenceString *resources;
	int			count;
	int			at = 0;
	FenceGrant *grants;
	FenceHow	how = FENCE_NEW;
	FenceWait	wait;
	FenceTaken	taken;
	FenceResult result;

	resources = fence_param_resources(fcinfo, 0, &count);
	claim.holder = fence_param_holder(fcinfo, 1);
	claim.ttl = fence_param_ttl(fcinfo, 2);
	/* The end of a subtransaction would take it off a channel. */
	fence_wait_begin(&wait, fence_param_wait(fcinfo, 3), NULL);
	claim.authority = FENCE_AUTHORITY_POSTGRES;
	fence_entry_writes("fence_acquire_all()");

	grants = palloc(sizeof(FenceGrant) * count);
	do
	{
		CHECK_FOR_INTERRUPTS();
		taken = look_at_each(claim, resources, count, grants, &how, &at);
		if (taken == FENCE_GRANTED)
			taken = try_all(&claim, resources, count, grants, &at);
	} while (taken == FENCE_LOOK_AGAIN ||
			 (taken == FENCE_HELD && fence_wait_more(&wait, &grants[at].obstacle)));

	fence_result_begin(&result, fcinfo, ALL_COLUMNS);
	if (taken == FENCE_GRANTED)
		set_granted(&result, &grants[0].row, how, claim.ttl);
	else
	{
		set_held(&result, &grants[at]);
		fence_result_string(&result, RESOURCE, resources[at]);
	}
	return fence_result_end(&result);
}
