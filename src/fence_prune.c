/*
 * fence_prune.c
 *		SQL entries that forget: fence_prune, fence_prune_operations, and
 *		fence_new_epoch for a database that has itself forgotten.
 *
 * Rule: a token that is forgotten is never accepted again. The highest one
 * becomes the floor of the prefix in the same transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "fence_durable.h"
#include "fence_generation.h"
#include "fence_operation.h"
#include "fence_param.h"
#include "fence_prefix.h"
#include "fence_session.h"
#include "fence_token.h"

PG_FUNCTION_INFO_V1(fence_prune);
PG_FUNCTION_INFO_V1(fence_prune_operations);
PG_FUNCTION_INFO_V1(fence_new_epoch);

typedef struct PruneRequest
{
	FenceString prefix;
	TimestampTz raised_before;
	TimestampTz now;
	bool		external;
	int64		max_rows;
} PruneRequest;

typedef struct PruneOutcome
{
	int64		pruned;
	int64		floor;			/* highest token among them, 0 if none */
	int64		too_high;		/* left, see may_prune() */
} PruneOutcome;

/*
 * May this fence be forgotten? An issued one only where an absent resource
 * refuses every token; an external one only where they are asked for, and below
 * what issuing can be moved past.
 */
static bool
may_prune(const PruneRequest *request, FenceString resource,
		  const FenceRow *row, PruneOutcome *outcome)
{
	FenceState	absent;

	if (row->raised_at > request->raised_before ||
		fence_row_live(row, request->now))
		return false;
	if (!row->issued)
	{
		if (request->external && row->token >= FENCE_EPOCH_LIMIT)
			outcome->too_high++;
		return request->external && row->token < FENCE_EPOCH_LIMIT;
	}
	fence_prefix_lookup(resource, &absent);
	return !absent.accepts_external;
}

/* Delete what may be forgotten. */
static void
prune(const PruneRequest *request, PruneOutcome *outcome)
{
	FenceTable *table = fence_table_open(RowExclusiveLock);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext,
													  "lockfence prune",
													  ALLOCSET_DEFAULT_SIZES);
	FenceString resource;
	FenceRow	row;

	memset(outcome, 0, sizeof(PruneOutcome));
	fence_table_scan(table, request->prefix);
	while (outcome->pruned < request->max_rows)
	{
		MemoryContext old;
		bool		chosen;

		/* Not in row_context: the scan may keep what it allocates there. */
		if (!fence_table_next(table, request->prefix, &resource, &row))
			break;
		old = MemoryContextSwitchTo(row_context);
		chosen = may_prune(request, resource, &row, outcome);
		MemoryContextSwitchTo(old);
		MemoryContextReset(row_context);
		pfree(unconstify(char *, resource.data));

		/* One that is in use just now is not idle. */
		if (chosen &&
			fence_table_lock_seen(table, &row, LockTupleExclusive) == FENCE_LOCKED)
		{
			fence_table_delete(table, &row);
			outcome->floor = Max(outcome->floor, row.token);
			outcome->pruned++;
		}
	}
	fence_table_close(table);
	CommandCounterIncrement();
}

/*
 * fence_prune(prefix text, idle interval, external boolean, max_rows bigint)
 *		returns bigint
 *
 * Forget fences that were not raised for that long and have no live lease.
 * Returns how many. A transaction that is admitted for one of them fails at
 * its commit. Whoever uses one of them again waits for the end of this
 * transaction, so it should be one of its own, and of a bounded size. Tokens
 * issued later are above all that was forgotten.
 */
Datum
fence_prune(PG_FUNCTION_ARGS)
{
	PruneRequest request;
	PruneOutcome outcome;

	PreventCommandDuringRecovery("fence_prune()");
	PreventCommandIfReadOnly("fence_prune()");

	request.prefix = fence_param_prefix(fcinfo, 0);
	request.now = GetCurrentTimestamp();
	request.raised_before = request.now - fence_param_age(fcinfo, 1, "idle");
	request.external = fence_param_bool(fcinfo, 2, "external");
	request.max_rows = fence_param_max_rows(fcinfo, 3);

	/* Before the rows: others who write both take them in this order. */
	fence_prefix_lock();
	prune(&request, &outcome);
	if (outcome.floor > 0)
	{
		fence_prefix_raise_floor(request.prefix, outcome.floor);
		fence_token_advance(outcome.floor);
		fence_commit_durably();
	}
	if (outcome.too_high > 0)
		ereport(NOTICE,
				(errmsg_plural("%lld external fence is too high to be pruned",
							   "%lld external fences are too high to be pruned",
							   outcome.too_high, (long long) outcome.too_high),
				 errdetail("Only fences below %lld can be pruned.",
						   (long long) FENCE_EPOCH_LIMIT),
				 errhint("If such a token was wrong, set it back with fence_override first.")));
	PG_RETURN_INT64(outcome.pruned);
}

/*
 * fence_prune_operations(prefix text, older_than interval) returns bigint
 *
 * Forget accepted operations. One that is shown again after that is accepted
 * again.
 */
Datum
fence_prune_operations(PG_FUNCTION_ARGS)
{
	FenceString prefix = fence_param_prefix(fcinfo, 0);
	TimestampTz before = GetCurrentTimestamp() -
		fence_param_age(fcinfo, 1, "older_than");

	PreventCommandDuringRecovery("fence_prune_operations()");
	PreventCommandIfReadOnly("fence_prune_operations()");
	PG_RETURN_INT64(fence_operation_prune(prefix, before));
}

/*
 * fence_new_epoch(above bigint) returns bigint
 *
 * For a restore that leaves no trace in the identity: issuing jumps. Returns
 * the first token that may be issued from now on. Not undone by a rollback.
 */
Datum
fence_new_epoch(PG_FUNCTION_ARGS)
{
	int64		above = PG_ARGISNULL(0) ? 0 : fence_param_token(fcinfo, 0);
	int64		first;

	PreventCommandDuringRecovery("fence_new_epoch()");
	PreventCommandIfReadOnly("fence_new_epoch()");
	first = fence_token_new_epoch(above);
	fence_commit_durably();
	PG_RETURN_INT64(first);
}
